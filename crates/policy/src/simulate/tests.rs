use super::{Entrant, Plan, Player, Simulation, Situation, Variant, checkpoints, run, run_with};
use crate::persona::PersonaSet;
use crate::{Context, Policy, PolicyError, PolicyKind, PolicySettings, Profile, UserModels};
use std::collections::VecDeque;

fn set() -> PersonaSet {
    PersonaSet::built_in().unwrap()
}

fn policy(kind: PolicyKind) -> Policy {
    Policy::new(kind, PolicySettings::defaults(kind)).unwrap()
}

fn entrants() -> Vec<Entrant> {
    PolicyKind::ALL
        .map(|kind| Entrant::new(policy(kind)))
        .into()
}

fn plan<'a>(personas: &'a PersonaSet, entrants: &'a [Entrant]) -> Plan<'a> {
    Plan {
        personas,
        entrants,
        steps: 150,
        seeds: 3,
        seed: 7,
        warm_up: 0,
        variant: Variant::Base,
        threads: 1,
    }
}

fn choices(simulation: &Simulation, entrant: usize) -> Vec<&str> {
    let personas = simulation.entrants[entrant].personas.iter();
    let runs = personas.flat_map(|it| &it.runs);
    runs.map(|it| it.choices.as_str()).collect()
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let (set, entrants) = (set(), entrants());
    let mut plan = plan(&set, &entrants);
    plan.warm_up = 20;
    let one = run(&plan).unwrap();
    for threads in [2, 5] {
        plan.threads = threads;
        let other = run(&plan).unwrap();
        assert_eq!(other, one);
        // Equality of numbers would not tell 0 from -0.
        let [one, other] = [&one, &other].map(|it| serde_json::to_string(it).unwrap());
        assert_eq!(one, other);
    }
}

#[test]
fn another_seed_is_another_result() {
    let (set, entrants) = (set(), entrants());
    let mut plan = plan(&set, &entrants);
    let one = run(&plan).unwrap();
    plan.seed += 1;
    assert_ne!(choices(&run(&plan).unwrap(), 0), choices(&one, 0));
    assert_eq!(choices(&one, 0).len(), 3 * set.personas.len());
}

#[test]
fn a_personas_result_does_not_depend_on_the_rest_of_the_set() {
    let (all, entrants) = (set(), entrants());
    let mut few = set();
    few.personas.drain(..5);
    few.held_out.clear();
    let of_all = run(&plan(&all, &entrants)).unwrap();
    let of_few = run(&plan(&few, &entrants)).unwrap();
    for (all, few) in of_all.entrants.iter().zip(&of_few.entrants) {
        for (all, few) in all.personas[5..].iter().zip(&few.personas) {
            assert_eq!(all.runs, few.runs);
        }
    }
}

#[test]
fn policies_meet_the_same_draws_unless_their_stream_differs() {
    let set = set();
    let named = |name: &str, stream| Entrant {
        name: name.to_owned(),
        policy: policy(PolicyKind::EgreedyV1),
        stream,
    };
    let entrants = [named("a", 0), named("b", 0), named("c", 1)];
    let found = run(&plan(&set, &entrants)).unwrap();
    assert_eq!(choices(&found, 0), choices(&found, 1));
    assert_ne!(choices(&found, 0), choices(&found, 2));
    let comparison = found.compare("a", "b", 0.95, |_| true).unwrap();
    assert!(
        comparison
            .personas
            .iter()
            .all(|it| it.difference.abs() < 1e-15)
    );
}

/// Plays with the interface that the service uses, with everything sent as JSON.
struct AsService<'a> {
    policy: &'a Policy,
    arms: &'a [String],
    models: UserModels,
    waiting: VecDeque<(usize, Vec<f64>)>,
}

impl Player for AsService<'_> {
    type Error = PolicyError;

    fn choose(&mut self, situation: &Situation, draw: u64) -> Result<usize, PolicyError> {
        let context = serde_json::to_string(&situation.context).unwrap();
        let profile = serde_json::to_string(&situation.profile).unwrap();
        let context: Context = serde_json::from_str(&context).unwrap();
        let profile: Option<Profile> = serde_json::from_str(&profile).unwrap();
        let version = self.policy.feature_version();
        let base = version.prepare(&context, profile.as_ref())?;
        let mut scores = Vec::new();
        let mut features = Vec::new();
        for (arm, task_match) in self.arms.iter().zip(&situation.task_matches) {
            let x = base.with_task_match(Some(*task_match))?;
            scores.push(self.policy.score(&self.models, arm, &x)?);
            features.push(x.to_vec());
        }
        let chosen = self.policy.choose(&scores, draw)?.index;
        self.waiting
            .push_back((chosen, features.swap_remove(chosen)));
        Ok(chosen)
    }

    fn reward(&mut self, reward: f64) -> Result<(), PolicyError> {
        let (chosen, x) = self.waiting.pop_front().unwrap();
        let arm = &self.arms[chosen];
        let _ = self.policy.update(&mut self.models, arm, &x, reward)?;
        Ok(())
    }

    fn replay(&mut self, _: &Situation, _: usize, _: f64) -> Result<(), PolicyError> {
        Err(PolicyError::NoCandidates)
    }
}

#[test]
fn the_service_would_make_the_same_choices() {
    let set = set();
    let mut entrants = entrants();
    let mut forgetting = PolicySettings::defaults(PolicyKind::LinUcb);
    forgetting.gamma = 0.99;
    entrants.push(Entrant {
        name: "forgetting".to_owned(),
        policy: Policy::new(PolicyKind::LinUcb, forgetting).unwrap(),
        stream: 3,
    });
    for variant in [Variant::Base, Variant::DelayedReward] {
        let mut plan = plan(&set, &entrants);
        plan.variant = variant;
        plan.seeds = 1;
        let in_process = run(&plan).unwrap();
        let as_service = run_with(&plan, |_, _, entrant| {
            Ok(AsService {
                policy: &entrants[entrant].policy,
                arms: &set.arms,
                models: UserModels::default(),
                waiting: VecDeque::new(),
            })
        });
        assert_eq!(as_service.unwrap(), in_process, "{variant}");
    }
}

struct Fixed(fn(&Situation) -> usize);

impl Player for Fixed {
    type Error = PolicyError;

    fn choose(&mut self, situation: &Situation, _: u64) -> Result<usize, PolicyError> {
        Ok((self.0)(situation))
    }

    fn reward(&mut self, _: f64) -> Result<(), PolicyError> {
        Ok(())
    }

    fn replay(&mut self, _: &Situation, _: usize, _: f64) -> Result<(), PolicyError> {
        Ok(())
    }
}

fn best(situation: &Situation) -> usize {
    let by_regret = |l: &usize, r: &usize| situation.regret(*l).total_cmp(&situation.regret(*r));
    (0..4).min_by(by_regret).unwrap()
}

#[test]
fn who_knows_the_tastes_has_no_regret() {
    let (set, entrants) = (set(), entrants());
    let mut plan = plan(&set, &entrants[..1]);
    plan.seeds = 40;
    let found = run_with(&plan, |_, _, _| Ok(Fixed(best))).unwrap();
    let learnt = run(&plan).unwrap();
    for (it, learnt) in found.entrants[0]
        .personas
        .iter()
        .zip(&learnt.entrants[0].personas)
    {
        assert!(it.regret.abs() < 1e-12 && (it.best_share - 1.0).abs() < 1e-12);
        // Regret and reward are two sides of one sum.
        let gap = 150.0 * (it.expected_reward - learnt.expected_reward);
        assert!((gap - learnt.regret).abs() < 1e-9, "{}", it.persona);
        // Realised rewards are drawn from the expected ones: 6,000 draws.
        assert!(
            (it.realised_reward - it.expected_reward).abs() < 0.03,
            "{}",
            it.persona
        );
    }
}

#[test]
fn curves_end_at_the_totals_and_never_fall() {
    let (set, entrants) = (set(), entrants());
    let found = run(&plan(&set, &entrants)).unwrap();
    assert_eq!(found.checkpoints.len(), 100);
    for entrant in &found.entrants {
        let last = entrant.curve.last().unwrap();
        assert_eq!(last.step, 150);
        assert!((last.regret - entrant.regret).abs() < 1e-9);
        assert!((last.reward - 150.0 * entrant.expected_reward).abs() < 1e-9);
        for it in &entrant.personas {
            assert!(
                it.curve
                    .windows(2)
                    .all(|pair| pair[0].regret <= pair[1].regret)
            );
            assert!((it.curve[99].regret - it.regret).abs() < 1e-9);
            assert!(it.curve[99].regret_low <= it.regret && it.regret <= it.curve[99].regret_high);
        }
    }
}

#[test]
fn there_are_at_most_a_hundred_checkpoints() {
    assert_eq!(checkpoints(3), [1, 2, 3]);
    assert_eq!(checkpoints(100).len(), 100);
    assert_eq!(checkpoints(12_345).len(), 100);
    assert_eq!(checkpoints(12_345).last(), Some(&12_345));
}

#[test]
fn delayed_rewards_teach_nothing_before_they_arrive() {
    let set = set();
    let mut settings = PolicySettings::defaults(PolicyKind::EgreedyV1);
    settings.epsilon = 0.0;
    let greedy = Policy::new(PolicyKind::EgreedyV1, settings).unwrap();
    let entrants = [Entrant::new(greedy)];
    let mut plan = plan(&set, &entrants);
    plan.variant = Variant::DelayedReward;
    let first = |steps| {
        let plan = Plan { steps, ..plan };
        let found = run(&plan).unwrap();
        let first_arm = run_with(&plan, |_, _, _| Ok(Fixed(|_| 0))).unwrap();
        found.entrants[0].expected_reward - first_arm.entrants[0].expected_reward
    };
    // An untrained policy without exploration takes the first candidate.
    assert!(first(super::DELAY_STEPS).abs() < 1e-12);
    let mut at_once = plan;
    at_once.variant = Variant::Base;
    assert_ne!(
        choices(&run(&at_once).unwrap(), 0),
        choices(&run(&plan).unwrap(), 0)
    );
}

#[test]
fn a_cold_start_is_short_and_without_warm_up() {
    let (set, entrants) = (set(), entrants());
    let mut plan = plan(&set, &entrants);
    (plan.steps, plan.warm_up, plan.variant) = (1000, 50, Variant::ColdStart);
    let found = run(&plan).unwrap();
    assert_eq!((found.steps, found.warm_up), (200, 0));
}

#[test]
fn drift_ends_with_the_tastes_of_the_next_arm() {
    let (mut set, entrants) = (set(), entrants());
    for persona in &mut set.personas {
        persona.noise = 0.0;
    }
    let base = plan(&set, &entrants);
    let drift = Plan {
        variant: Variant::Drift,
        ..base
    };
    let [mut before, mut after] = [Situation::default(), Situation::default()];
    let step = base.steps;
    base.environment(0, 0).situation(step, &mut before).unwrap();
    drift.environment(0, 0).situation(step, &mut after).unwrap();
    // The match belongs to the candidate, so compare an arm whose neighbour weighs it alike.
    let tastes = &set.personas[0].tastes;
    let weights = |arm: usize| tastes[&set.arms[arm]].task_match;
    let shift = weights(1) * (before.task_matches[0] - before.task_matches[1]);
    assert!((after.expected(0) - before.expected(1) - shift).abs() < 1e-12);
    base.environment(0, 0).situation(0, &mut before).unwrap();
    drift.environment(0, 0).situation(0, &mut after).unwrap();
    assert!((after.expected(0) - before.expected(0)).abs() < 1e-12);
}

#[test]
fn a_misspecified_reward_has_a_part_that_no_feature_shows() {
    let (mut set, entrants) = (set(), entrants());
    for persona in &mut set.personas {
        persona.noise = 0.0;
    }
    let base = plan(&set, &entrants);
    let other = Plan {
        variant: Variant::MisspecifiedReward,
        ..base
    };
    let [mut plain, mut bent] = [Situation::default(), Situation::default()];
    for step in 0..20 {
        base.environment(0, 0).situation(step, &mut plain).unwrap();
        other.environment(0, 0).situation(step, &mut bent).unwrap();
        assert_eq!(plain.context, bent.context);
        let angle = std::f64::consts::TAU * plain.context.hour.unwrap() / 24.0;
        let added = 0.2 * (2.0 * angle).sin();
        assert!((bent.expected(0) - (plain.expected(0) + added).clamp(0.01, 0.99)).abs() < 1e-9);
        assert!((bent.expected(1) - (plain.expected(1) - added).clamp(0.01, 0.99)).abs() < 1e-9);
    }
}

#[test]
fn after_the_warm_up_all_policies_know_what_the_first_one_saw() {
    let set = set();
    let mut entrants = vec![Entrant::new(policy(PolicyKind::EgreedyV1))];
    entrants.push(Entrant {
        name: "copy".to_owned(),
        policy: policy(PolicyKind::EgreedyV1),
        stream: 0,
    });
    let mut plan = plan(&set, &entrants);
    plan.warm_up = 100;
    let found = run(&plan).unwrap();
    assert_eq!(choices(&found, 0), choices(&found, 1));
    let mut cold = plan;
    cold.warm_up = 0;
    let regret = |plan: &Plan<'_>| run(plan).unwrap().entrants[1].regret;
    assert!(regret(&plan) < regret(&cold));
}

#[test]
fn situations_follow_the_schedule() {
    let (set, entrants) = (set(), entrants());
    let plan = plan(&set, &entrants);
    let environment = plan.environment(0, 0);
    let schedule = &set.personas[0].schedule;
    let mut situation = Situation::default();
    let mut weekends = 0;
    for step in 0..700 {
        environment.situation(step, &mut situation).unwrap();
        let hour = situation.context.hour.unwrap();
        let planned = schedule.hours[step % schedule.hours.len()];
        assert!((hour - planned).abs() <= schedule.hour_jitter + 1e-9);
        weekends += usize::from(situation.context.weekend.unwrap());
        let tasks = situation.context.open_tasks.unwrap();
        assert!((schedule.open_tasks[0]..=schedule.open_tasks[1]).contains(&tasks));
        assert!(environment.draw(step, 0) < 1 << 53);
    }
    assert_eq!(weekends, 200);
}

#[test]
fn a_failing_player_ends_the_simulation_with_its_error() {
    let (set, entrants) = (set(), entrants());
    let mut plan = plan(&set, &entrants);
    plan.threads = 2;
    let result = run_with(&plan, |persona, _, _| {
        if persona == 3 {
            return Err(PolicyError::NoCandidates);
        }
        Ok(Fixed(|_| 0))
    });
    assert_eq!(result, Err(PolicyError::NoCandidates));
}

#[test]
fn impossible_plans_are_refused() {
    let (set, entrants) = (set(), entrants());
    let good = plan(&set, &entrants);
    let twice = [entrants[0].clone(), entrants[0].clone()];
    for bad in [
        Plan {
            entrants: &[],
            ..good
        },
        Plan {
            entrants: &twice,
            ..good
        },
        Plan { steps: 0, ..good },
        Plan { seeds: 0, ..good },
    ] {
        assert!(matches!(run(&bad), Err(PolicyError::Simulation { .. })));
    }
    let found = run(&good).unwrap();
    assert!(found.compare("nobody", "linucb", 0.95, |_| true).is_err());
    assert!(
        found
            .compare("linucb", "egreedy-v1", 0.95, |_| false)
            .is_err()
    );
}

#[test]
fn a_simulation_is_json() {
    let (set, entrants) = (set(), entrants());
    let found = run(&plan(&set, &entrants)).unwrap();
    let json = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Simulation>(&json).unwrap(), found);
}
