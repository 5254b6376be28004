//! Simulation of the prompt loop: worlds with a known truth are searched by the loop's own code, and
//! what it nominates is put before the gate that `assize promote` runs.
//!
//! A reflector writes children whose true effects are drawn relative to their parent's ([`World`]). The
//! automatic judge scores them on the feedback split with the spreads of [`Design`]: a candidate's composite is
//! the sum of the scenario's difficulty, the version's own turn in the scenario, its true effect and noise,
//! and the judge adds noise of its own. [`Tree::next`] decides everything from the parent of a round to the
//! nominee. Experts then judge nominee and incumbent on the selection and the confirmation split.
//!
//! A study has several looks: runs of the loop one after another on the same scenarios, with the same
//! seed and incumbent and with new children, as a team does that starts again after a rejection.
//!
//! [`gepa`] runs the acceptance rule of GEPA in the same worlds, for comparison.

use std::collections::HashMap;

use assize_domain::leaderboard::Pair;
use assize_optimise::event::{Returned, Screened, SeedRaced, Started, confirmed_gain};
use assize_optimise::packet::TaskTexts;
use assize_optimise::race;
use assize_optimise::{
    CellScore, Event, Kind, LoopSettings, Next, OptimiseError, Proposal, SEED, Stage, Tree, Version,
};
use assize_stats::dist::normal_cdf;
use assize_stats::rng::SplitMix64;
use assize_stats::simulate::seed_of;
use assize_stats::{StatsError, describe};
use thiserror::Error;

use crate::promote::Thresholds;
use crate::promote::calibrate::{Design, Ruled, in_threads};

mod gepa;

/// Streams of random numbers of a study.
const DIFFICULTY: u64 = 11;
const VERSIONS: u64 = 12;
const EFFECTS: u64 = 13;
const SPLITS: u64 = 14;
const MODEL: &str = "m";

/// Why a simulation cannot be run.
#[derive(Debug, Error)]
pub enum SimulationError {
    #[error(transparent)]
    Stats(#[from] StatsError),
    #[error(transparent)]
    Optimise(#[from] OptimiseError),
}

/// How good children are, relative to their parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// All as good as the seed: every promotion is false.
    Equal,
    /// As good or worse by 1, each in half of the cases.
    EqualOrWorse,
    /// Better by 1, equal or worse by 1 in 25, 50 and 25 % of the cases.
    Mixed,
}

impl World {
    fn draw(self, rng: &mut SplitMix64) -> f64 {
        let place = rng.next_f64();
        let (better, worse) = match self {
            Self::Equal => (0.0, 0.0),
            Self::EqualOrWorse => (0.0, 0.5),
            Self::Mixed => (0.25, 0.25),
        };
        if place < better {
            1.0
        } else if place < better + worse {
            -1.0
        } else {
            0.0
        }
    }
}

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Study {
    pub design: Design,
    pub settings: LoopSettings,
    pub thresholds: Thresholds,
    pub world: World,
    /// Runs of the loop in one study.
    pub looks: usize,
}

/// The rule that decides what is announced as an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Assize,
    /// A search that knows the true effects, with the same rounds and children: what the gate lets
    /// through of the best that could be nominated.
    Perfect,
    /// GEPA's acceptance rule with so many children.
    Gepa {
        children: usize,
    },
}

/// One run of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Run {
    pub is_nominated: bool,
    pub is_promoted: bool,
    /// The true effect of what was promoted, in points of the composite.
    pub true_gain: f64,
    /// The gain that is shown for it.
    pub shown_gain: f64,
    /// Automatic verdicts of the race, and those that the gate needs.
    pub race_verdicts: u32,
    pub gate_verdicts: u32,
    pub expert_verdicts: u32,
}

/// Sums over runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    pub studies: usize,
    pub runs: usize,
    pub nominated: usize,
    pub promoted: usize,
    /// Promotions of what is no better than the incumbent.
    pub false_promotions: usize,
    /// Studies with a false promotion in any look.
    pub studies_with_false: usize,
    pub true_gain: f64,
    pub shown_gain: f64,
    pub race_verdicts: u64,
    pub gate_verdicts: u64,
    pub expert_verdicts: u64,
    pub most_auto: u32,
    pub most_expert: u32,
}

impl Totals {
    fn add_study(&mut self, runs: &[Run]) {
        self.studies += 1;
        let is_false = |it: &&Run| it.is_promoted && it.true_gain <= 1e-9;
        let false_runs = runs.iter().filter(is_false).count();
        self.studies_with_false += usize::from(false_runs > 0);
        self.false_promotions += false_runs;
        for run in runs {
            self.runs += 1;
            self.nominated += usize::from(run.is_nominated);
            self.promoted += usize::from(run.is_promoted);
            self.true_gain += run.true_gain;
            self.shown_gain += run.shown_gain;
            self.race_verdicts += u64::from(run.race_verdicts);
            self.gate_verdicts += u64::from(run.gate_verdicts);
            self.expert_verdicts += u64::from(run.expert_verdicts);
            self.most_auto = self.most_auto.max(run.race_verdicts + run.gate_verdicts);
            self.most_expert = self.most_expert.max(run.expert_verdicts);
        }
    }

    fn add(&mut self, other: &Self) {
        self.studies += other.studies;
        self.runs += other.runs;
        self.nominated += other.nominated;
        self.promoted += other.promoted;
        self.false_promotions += other.false_promotions;
        self.studies_with_false += other.studies_with_false;
        self.true_gain += other.true_gain;
        self.shown_gain += other.shown_gain;
        self.race_verdicts += other.race_verdicts;
        self.gate_verdicts += other.gate_verdicts;
        self.expert_verdicts += other.expert_verdicts;
        self.most_auto = self.most_auto.max(other.most_auto);
        self.most_expert = self.most_expert.max(other.most_expert);
    }
}

impl Study {
    /// The defaults of the loop, the gate and the reference data in this world.
    pub fn new(world: World, looks: usize) -> Self {
        let design = Design::default();
        let gate_verdicts = 2 * verdicts(design.scenarios * design.candidates);
        Self {
            settings: LoopSettings {
                prompt: "p".to_owned(),
                models: vec![MODEL.to_owned()],
                judge: "j".to_owned(),
                reserved_auto: gate_verdicts,
                ..LoopSettings::default()
            },
            design,
            thresholds: Thresholds::default(),
            world,
            looks,
        }
    }

    /// Runs so many studies under a rule.
    pub fn simulate(
        &self,
        rule: Rule,
        studies: usize,
        seed: u64,
    ) -> Result<Totals, SimulationError> {
        let parts = in_threads(studies, |indexes| {
            let mut found = Totals::default();
            for index in indexes {
                let seed = seed_of(seed, index as u64);
                let runs = match rule {
                    Rule::Assize => self.runs(seed, |look| self.search(seed, look))?,
                    Rule::Perfect => self.runs(seed, |look| Ok(self.perfect(seed, look)))?,
                    Rule::Gepa { children } => vec![gepa::run(self, children, seed)],
                };
                found.add_study(&runs);
            }
            Ok::<_, SimulationError>(found)
        })?;
        let mut all = Totals::default();
        for part in &parts {
            all.add(part);
        }
        Ok(all)
    }

    /// The runs of one study.
    fn runs(
        &self,
        seed: u64,
        search: impl Fn(u64) -> Result<Searched, OptimiseError>,
    ) -> Result<Vec<Run>, SimulationError> {
        let searched = (0..self.looks as u64)
            .map(search)
            .collect::<Result<Vec<_>, _>>()?;
        let effects: Vec<f64> = searched
            .iter()
            .map(|it| it.nominee.unwrap_or(0.0))
            .collect();
        let rulings = self
            .design
            .nominees(&effects, seed_of(seed, SPLITS), &self.thresholds)?;
        let runs = searched.iter().zip(&rulings);
        Ok(runs.map(|(it, ruled)| self.run(it, ruled)).collect())
    }

    fn run(&self, searched: &Searched, ruled: &Ruled) -> Run {
        let mut run = Run {
            race_verdicts: searched.verdicts,
            ..Run::default()
        };
        let Some(effect) = searched.nominee else {
            return run;
        };
        let pair = |scenarios: usize| 2 * verdicts(scenarios * self.design.candidates);
        run.is_nominated = true;
        run.gate_verdicts = pair(self.design.scenarios);
        run.expert_verdicts = pair(self.design.scenarios);
        if ruled.reached_confirmation {
            run.expert_verdicts += pair(self.design.confirmation);
        }
        if ruled.is_promoted {
            run.is_promoted = true;
            run.true_gain = self.true_gain(effect);
            run.shown_gain = confirmed_gain(&ruled.checks).unwrap_or(0.0);
        }
        run
    }

    /// The difference of expected composites that an effect makes, with their rounding and limits.
    fn true_gain(&self, effect: f64) -> f64 {
        let design = &self.design;
        let variance = design.scenario_sd.powi(2)
            + design.model_by_scenario_sd.powi(2)
            + design.pair_by_scenario_sd.powi(2)
            + design.candidate_sd.powi(2);
        let (low, high) = design.composite_range;
        let expected = |mean: f64| {
            let mut level = low;
            let mut total = low;
            while level < high {
                total += 1.0 - normal_cdf((level + 0.5 - mean) / variance.sqrt());
                level += 1.0;
            }
            total
        };
        expected(design.mean + effect) - expected(design.mean)
    }

    /// The nominee of a search that knows the true effects.
    fn perfect(&self, seed: u64, look: u64) -> Searched {
        let mut reflector = SplitMix64::new(seed_of(seed_of(seed, EFFECTS), look));
        let mut effect = 0.0;
        for _ in 0..self.settings.rounds {
            let children = (0..self.settings.children).map(|_| self.world.draw(&mut reflector));
            effect += children.fold(0.0, f64::max);
        }
        Searched {
            nominee: (effect > 0.0).then_some(effect),
            verdicts: 0,
        }
    }

    /// One run of the loop up to its nominee.
    fn search(&self, seed: u64, look: u64) -> Result<Searched, OptimiseError> {
        let scenarios: Vec<String> = (0..self.design.scenarios)
            .map(|it| it.to_string())
            .collect();
        let mut tree = Tree::start(&Started {
            scenarios: race::scenarios(&self.settings, &scenarios)?,
            settings: LoopSettings {
                seed: seed_of(seed, look),
                ..self.settings.clone()
            },
            seed: Version::new("p", None, "seed"),
            incumbent: Pair {
                model: MODEL.to_owned(),
                prompt: "p".to_owned(),
            },
            composite_range: self.design.composite_range,
            setup: serde_json::Value::Null,
        });
        let mut reflector = SplitMix64::new(seed_of(seed_of(seed, EFFECTS), look));
        let mut versions = HashMap::from([(SEED.to_owned(), (0, 0.0))]);
        loop {
            let event = match tree.next(0.0) {
                Next::RaceSeed { scenarios } => {
                    let seed_alone = [SEED.to_owned()];
                    let scores = self.scores(seed, &versions, &seed_alone, &scenarios);
                    Event::SeedRaced(SeedRaced {
                        auto_verdicts: self.race_verdicts(&scores),
                        scores,
                        cost_usd: 0.0,
                    })
                }
                Next::Reflect { children, .. } => {
                    tree.packet(children, Vec::new(), &TaskTexts::default())
                }
                Next::AwaitReflector { packet } => {
                    let asked = tree.open_packet().map_or(0, |it| it.children);
                    let parent = versions.get(&tree.parent).map_or(0.0, |it| it.1);
                    for number in 1..=asked {
                        let id = format!("r{}c{number}", tree.round);
                        let effect = parent + self.world.draw(&mut reflector);
                        let key = 1 + look * 10_000 + versions.len() as u64;
                        versions.insert(id, (key, effect));
                    }
                    returned(packet, asked)
                }
                Next::Screen { child } => Event::Screened(Screened {
                    child,
                    rejected: None,
                    cost_usd: 0.0,
                }),
                Next::Race(stage) => self.raced(seed, &tree, &versions, &stage),
                Next::EndRound => tree.round_ended(),
                Next::EndSearch(end) => end.into(),
                _ => match tree.nomination() {
                    Event::Nominated(it) => {
                        let found = versions.get(&it.child).map(|it| it.1);
                        return Ok(Searched::of(&tree, found));
                    }
                    _ => return Ok(Searched::of(&tree, None)),
                },
            };
            tree.apply(&event)?;
        }
    }

    fn raced(
        &self,
        seed: u64,
        tree: &Tree,
        versions: &HashMap<String, (u64, f64)>,
        stage: &Stage,
    ) -> Event {
        let scores = self.scores(seed, versions, &stage.children, &stage.scenarios);
        let verdicts = self.race_verdicts(&scores);
        tree.raced(stage, scores, verdicts, 0.0)
    }

    fn race_verdicts(&self, scores: &[CellScore]) -> u32 {
        self.settings.candidates * verdicts(scores.len())
    }

    fn scores(
        &self,
        seed: u64,
        versions: &HashMap<String, (u64, f64)>,
        nodes: &[String],
        scenarios: &[String],
    ) -> Vec<CellScore> {
        let mut scores = Vec::with_capacity(nodes.len() * scenarios.len());
        for node in nodes {
            let (key, effect) = versions.get(node).copied().unwrap_or_default();
            for scenario in scenarios {
                let place = scenario.parse().unwrap_or(0);
                let candidates = self.candidates(seed, key, effect, place);
                let own: Vec<f64> = candidates.take(self.settings.candidates as usize).collect();
                scores.push(CellScore {
                    node: node.clone(),
                    model: MODEL.to_owned(),
                    scenario: scenario.clone(),
                    mean: describe::mean(&own).unwrap_or(0.0),
                    candidates: self.settings.candidates,
                });
            }
        }
        scores
    }

    /// What the automatic judge says about candidates of a version in a scenario, one after another.
    fn candidates(
        &self,
        seed: u64,
        version: u64,
        effect: f64,
        scenario: u64,
    ) -> impl Iterator<Item = f64> {
        let design = &self.design;
        let mut shared = SplitMix64::new(seed_of(seed_of(seed, DIFFICULTY), scenario));
        let difficulty = design.scenario_sd * shared.next_normal()
            + design.model_by_scenario_sd * shared.next_normal();
        let own = seed_of(seed_of(seed, VERSIONS), version);
        let mut rng = SplitMix64::new(seed_of(own, scenario));
        let turn = design.pair_by_scenario_sd * rng.next_normal();
        let centre = design.mean + difficulty + turn + effect;
        std::iter::repeat_with(move || {
            let composite = design.score(centre + design.candidate_sd * rng.next_normal());
            design.score(composite + design.judge_sd * rng.next_normal())
        })
    }
}

/// What a run of the loop came to before the gate.
struct Searched {
    /// The nominee's true effect.
    nominee: Option<f64>,
    verdicts: u32,
}

impl Searched {
    const fn of(tree: &Tree, nominee: Option<f64>) -> Self {
        Self {
            nominee,
            verdicts: tree.used.auto_verdicts,
        }
    }
}

fn returned(packet: String, children: u32) -> Event {
    let children = (1..=children).map(|number| Proposal {
        hypothesis: String::new(),
        kind: Kind::Other,
        system: None,
        template: number.to_string(),
    });
    Event::Returned(Returned {
        packet,
        reflector: "simulated".to_owned(),
        children: children.collect(),
        problem: None,
        cost_usd: 0.0,
    })
}

fn verdicts(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
