//! Compares scoring and simulating with a textbook implementation in the same run.
//!
//! * score: one decision with 10 arms and 12 features, through the interface that the service uses:
//!   10 scores and the choice. Each decision is timed alone; p50 and p99 are of the decisions.
//! * learn: the same decision and the update of the chosen arm.
//! * simulate: decisions of the simulator in one thread, with 10 arms: situation, scores, choice,
//!   reward, update and record.
//!
//! The baseline is the textbook: A and b for each arm, and θ and A⁻¹x solved by Cholesky
//! factorisation whenever a score is needed. It makes the same choices, which is asserted. Runs
//! of both alternate; the best and the median run are shown.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use assize_policy::simulate::{Entrant, Plan, Player, Situation, Variant, run, run_with};
use assize_policy::{
    FeatureVersion, PersonaSet, Policy, PolicyError, PolicyKind, PolicySettings, UserModels, choose,
};
use assize_stats::rng::SplitMix64;
use std::hint::black_box;
use std::time::Instant;

const ARMS: usize = 10;
const D: usize = 12;
const RUNS: usize = 7;
const DECISIONS: usize = 40_000;
const BASELINE_DECISIONS: usize = 4_000;
const SCORE_TARGET_US: f64 = 5.0;
const SIMULATE_TARGET: f64 = 1e6;

fn main() {
    for kind in [PolicyKind::EgreedyV2, PolicyKind::LinUcb] {
        score(kind);
        learn(kind);
    }
    for kind in PolicyKind::ALL {
        simulate(kind);
    }
}

fn policy(kind: PolicyKind) -> Policy {
    Policy::new(kind, PolicySettings::defaults(kind)).unwrap()
}

fn arm_names() -> Vec<String> {
    (0..ARMS).map(|arm| format!("arm-{arm}")).collect()
}

fn features(rng: &mut SplitMix64) -> [f64; D] {
    let mut x = [0.0; D];
    x.fill_with(|| rng.next_f64());
    x[0] = 1.0;
    x
}

/// The textbook: sums for each arm, solved anew for every score.
struct Textbook {
    alpha: f64,
    d: usize,
    a: Vec<Vec<Vec<f64>>>,
    b: Vec<Vec<f64>>,
}

impl Textbook {
    fn new(kind: PolicyKind, d: usize, arms: usize) -> Self {
        let identity: Vec<Vec<f64>> = (0..d)
            .map(|row| (0..d).map(|it| f64::from(u8::from(it == row))).collect())
            .collect();
        Self {
            alpha: match kind {
                PolicyKind::LinUcb => 1.0,
                _ => 0.0,
            },
            d,
            a: vec![identity; arms],
            b: vec![vec![0.0; d]; arms],
        }
    }

    fn score(&self, arm: usize, x: &[f64]) -> f64 {
        let lower = self.factor(arm);
        let theta = self.solve(&lower, &self.b[arm]);
        let mean: f64 = theta.iter().zip(x).map(|(l, r)| l * r).sum();
        if self.alpha == 0.0 {
            return mean;
        }
        let w = self.solve(&lower, x);
        let square: f64 = w.iter().zip(x).map(|(l, r)| l * r).sum();
        mean + self.alpha * square.max(0.0).sqrt()
    }

    fn update(&mut self, arm: usize, x: &[f64], reward: f64) {
        for i in 0..self.d {
            for j in 0..self.d {
                self.a[arm][i][j] += x[i] * x[j];
            }
            self.b[arm][i] += reward * x[i];
        }
    }

    fn factor(&self, arm: usize) -> Vec<Vec<f64>> {
        let mut lower = vec![vec![0.0; self.d]; self.d];
        for i in 0..self.d {
            for j in 0..=i {
                let dot: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
                let rest = self.a[arm][i][j] - dot;
                lower[i][j] = if i == j {
                    rest.sqrt()
                } else {
                    rest / lower[j][j]
                };
            }
        }
        lower
    }

    fn solve(&self, lower: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
        let mut y = right.to_vec();
        for i in 0..self.d {
            let dot: f64 = (0..i).map(|k| lower[i][k] * y[k]).sum();
            y[i] = (y[i] - dot) / lower[i][i];
        }
        for i in (0..self.d).rev() {
            let dot: f64 = (i + 1..self.d).map(|k| lower[k][i] * y[k]).sum();
            y[i] = (y[i] - dot) / lower[i][i];
        }
        y
    }
}

/// Both implementations after the same 2,000 updates.
fn trained(policy: &Policy, arms: &[String]) -> (UserModels, Textbook) {
    let mut rng = SplitMix64::new(1);
    let mut models = UserModels::default();
    let mut textbook = Textbook::new(policy.kind(), D, ARMS);
    for n in 0..2_000 {
        let (x, reward) = (features(&mut rng), rng.next_f64());
        let arm = n % ARMS;
        let _ = policy.update(&mut models, &arms[arm], &x, reward).unwrap();
        textbook.update(arm, &x, reward);
    }
    (models, textbook)
}

fn score(kind: PolicyKind) {
    let (policy, arms) = (policy(kind), arm_names());
    let (models, textbook) = trained(&policy, &arms);
    let mut scores = Vec::with_capacity(ARMS);
    let mut ours = |x: &[[f64; D]], draw: u64| {
        scores.clear();
        for (arm, x) in arms.iter().zip(x) {
            scores.push(policy.score(&models, arm, x).unwrap());
        }
        policy.choose(&scores, draw).unwrap().index
    };
    let theirs = |x: &[[f64; D]], draw: u64| {
        let each = x.iter().enumerate();
        let scores: Vec<f64> = each.map(|(arm, x)| textbook.score(arm, x)).collect();
        choose(&scores, policy.settings().epsilon, draw)
            .unwrap()
            .index
    };
    let (mut own, mut baseline) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let (own_choices, own_run) = latencies(DECISIONS, run, &mut ours);
        let (choices, baseline_run) = latencies(BASELINE_DECISIONS, run, theirs);
        assert_eq!(own_choices[..BASELINE_DECISIONS], choices);
        own.push(own_run);
        baseline.push(baseline_run);
    }
    for (at, name) in ["p50", "p99"].into_iter().enumerate() {
        let [own, baseline] = [&own, &baseline].map(|runs| {
            let mut found: Vec<f64> = runs.iter().map(|it| it[at]).collect();
            found.sort_by(f64::total_cmp);
            found
        });
        let verdict = match name {
            "p99" => target(own[RUNS / 2] <= SCORE_TARGET_US, "5 µs"),
            _ => String::new(),
        };
        println!(
            "score {kind}, {ARMS} arms, D = {D}: {name} median {:.2} µs, best {:.2} µs; textbook \
             {:.1} µs, ratio {:.0}{verdict}",
            own[RUNS / 2],
            own[0],
            baseline[RUNS / 2],
            baseline[RUNS / 2] / own[RUNS / 2],
        );
    }
}

/// The choices, and p50 and p99 of a decision in microseconds.
fn latencies(
    decisions: usize,
    run: usize,
    mut decide: impl FnMut(&[[f64; D]], u64) -> usize,
) -> (Vec<usize>, [f64; 2]) {
    let mut rng = SplitMix64::new(run as u64);
    let mut times_us = Vec::with_capacity(decisions);
    let mut choices = Vec::with_capacity(decisions);
    for _ in 0..decisions {
        let x: [[f64; D]; ARMS] = std::array::from_fn(|_| features(&mut rng));
        let draw = rng.next_u64();
        let start = Instant::now();
        let choice = black_box(decide(black_box(&x), draw));
        times_us.push(start.elapsed().as_secs_f64() * 1e6);
        choices.push(choice);
    }
    times_us.sort_by(f64::total_cmp);
    let at = |share: usize| times_us[decisions * share / 100];
    (choices, [at(50), at(99)])
}

fn learn(kind: PolicyKind) {
    let (policy, arms) = (policy(kind), arm_names());
    let own = |decisions: usize| {
        let mut models = UserModels::default();
        let mut scores = Vec::with_capacity(ARMS);
        repeat(decisions, |x, reward, draw| {
            scores.clear();
            for arm in &arms {
                scores.push(policy.score(&models, arm, x).unwrap());
            }
            let chosen = policy.choose(&scores, draw).unwrap().index;
            let _ = policy.update(&mut models, &arms[chosen], x, reward);
            chosen
        })
    };
    let baseline = |decisions: usize| {
        let mut textbook = Textbook::new(kind, D, ARMS);
        let epsilon = policy.settings().epsilon;
        repeat(decisions, |x, reward, draw| {
            let scores: Vec<f64> = (0..ARMS).map(|arm| textbook.score(arm, x)).collect();
            let chosen = choose(&scores, epsilon, draw).unwrap().index;
            textbook.update(chosen, x, reward);
            chosen
        })
    };
    let name = format!("learn {kind}, {ARMS} arms, D = {D}");
    assert_eq!(own(BASELINE_DECISIONS).0, baseline(BASELINE_DECISIONS).0);
    alternate(
        &name,
        || own(DECISIONS).1,
        || baseline(BASELINE_DECISIONS).1,
        None,
    );
}

/// A hash of the choices, and decisions per second.
fn repeat(decisions: usize, mut decide: impl FnMut(&[f64; D], f64, u64) -> usize) -> (u64, f64) {
    let mut rng = SplitMix64::new(3);
    let mut hash = 0_u64;
    let start = Instant::now();
    for _ in 0..decisions {
        let (x, reward) = (features(&mut rng), rng.next_f64());
        let chosen = decide(&x, reward, rng.next_u64());
        hash = hash.wrapping_mul(31).wrapping_add(chosen as u64);
    }
    (hash, decisions as f64 / start.elapsed().as_secs_f64())
}

/// The built-in personas with ten arms: the four arms' tastes in turn.
fn ten_arms() -> PersonaSet {
    let mut set = PersonaSet::built_in().unwrap();
    let four = std::mem::replace(&mut set.arms, arm_names());
    for persona in &mut set.personas {
        let tastes = std::mem::take(&mut persona.tastes);
        for (index, arm) in set.arms.iter().enumerate() {
            let mut taste = tastes[&four[index % four.len()]];
            taste.intercept -= 0.01 * index as f64;
            persona.tastes.insert(arm.clone(), taste);
        }
    }
    set
}

struct TextbookPlayer {
    textbook: Textbook,
    version: FeatureVersion,
    epsilon: f64,
    chosen: (usize, Vec<f64>),
}

impl Player for TextbookPlayer {
    type Error = PolicyError;

    fn choose(&mut self, situation: &Situation, draw: u64) -> Result<usize, PolicyError> {
        let profile = situation.profile.as_ref();
        let base = self.version.prepare(&situation.context, profile)?;
        let mut features = Vec::new();
        for task_match in &situation.task_matches {
            features.push(base.with_task_match(Some(*task_match))?.to_vec());
        }
        let each = features.iter().enumerate();
        let scores: Vec<f64> = each.map(|(arm, x)| self.textbook.score(arm, x)).collect();
        let index = choose(&scores, self.epsilon, draw)?.index;
        self.chosen = (index, features.swap_remove(index));
        Ok(index)
    }

    fn reward(&mut self, reward: f64) -> Result<(), PolicyError> {
        self.textbook.update(self.chosen.0, &self.chosen.1, reward);
        Ok(())
    }

    fn replay(&mut self, _: &Situation, _: usize, _: f64) -> Result<(), PolicyError> {
        Ok(())
    }
}

fn simulate(kind: PolicyKind) {
    let set = ten_arms();
    let entrants = [Entrant::new(policy(kind))];
    let policy = &entrants[0].policy;
    let plan = |steps, seeds| Plan {
        personas: &set,
        entrants: &entrants,
        steps,
        seeds,
        seed: 1,
        warm_up: 0,
        variant: Variant::Base,
        threads: 1,
    };
    let version = policy.feature_version();
    let textbook = |_, _, _| {
        Ok(TextbookPlayer {
            textbook: Textbook::new(kind, version.dimension(), ARMS),
            version,
            epsilon: policy.settings().epsilon,
            chosen: (0, Vec::new()),
        })
    };
    let short = plan(200, 1);
    let own = run(&short).unwrap();
    let baseline = run_with(&short, textbook).unwrap();
    let choices = |it: &assize_policy::simulate::Simulation| {
        let personas = it.entrants[0].personas.iter();
        let runs = personas.map(|it| it.runs[0].choices.clone());
        runs.collect::<Vec<_>>()
    };
    assert_eq!(choices(&own), choices(&baseline));
    let speed = |plan: &Plan<'_>, work: &dyn Fn(&Plan<'_>)| {
        let start = Instant::now();
        work(plan);
        let steps = set.personas.len() * plan.seeds * plan.steps;
        steps as f64 / start.elapsed().as_secs_f64()
    };
    alternate(
        &format!("simulate {kind}, {ARMS} arms, D = {}", version.dimension()),
        || speed(&plan(2000, 10), &|it| drop(black_box(run(it).unwrap()))),
        || {
            speed(&short, &|it| {
                drop(black_box(run_with(it, textbook).unwrap()));
            })
        },
        Some(SIMULATE_TARGET),
    );
}

fn alternate(name: &str, own: impl Fn() -> f64, baseline: impl Fn() -> f64, least: Option<f64>) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        ours.push(own());
        theirs.push(baseline());
    }
    ours.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    let [median, base] = [ours[RUNS / 2], theirs[RUNS / 2]];
    let verdict = least.map_or(String::new(), |it| target(median >= it, "1,000,000/s"));
    println!(
        "{name}: median {:.2} M/s, best {:.2} M/s; textbook {:.3} M/s, ratio {:.0}{verdict}",
        median / 1e6,
        ours[RUNS - 1] / 1e6,
        base / 1e6,
        median / base,
    );
}

fn target(is_met: bool, goal: &str) -> String {
    let verdict = if is_met { "met" } else { "MISSED" };
    format!(" (target {goal}, {verdict})")
}
