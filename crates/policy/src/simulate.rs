//! Simulation: policies choose for personas with known tastes.
//!
//! Every policy meets the same situations with the same draws (common random numbers): what differs
//! between two policies is only what they choose. Since the tastes are known, a choice is measured
//! by its *expected* reward, without the noise of the reward itself; the regret of a choice is the
//! expected reward of the best candidate minus that of the chosen one. Policies learn from realised
//! rewards, as in production.
//!
//! * **Seeds** are repetitions with other draws. A persona's figure is the mean over seeds, and the
//!   persona is the unit of every comparison ([`Simulation::compare`]): more seeds make a persona's
//!   figure more exact, only more personas make the conclusion more general.
//! * **Warm-up**: with `warm_up` > 0 the first policy makes that many decisions, and every policy
//!   learns from them, as a new policy in production starts from a replay of the active policy's
//!   log. They are not measured.
//! * **Variants** ask whether a conclusion survives other assumptions: drifting tastes, delayed
//!   rewards, a cold start, and tastes that no linear model can express.
//!
//! Draws are keyed by (seed, name of the persona, step), so a result is bit-identical for any number
//! of threads, and a persona's result does not depend on the rest of the set.
//!
//! References: Glasserman and Yao (1992), "Some guidelines and guarantees for common random
//! numbers", Management Science 38; Lattimore and Szepesvári (2020), "Bandit algorithms",
//! chapters 4 and 19 (regret, linear bandits).

mod environment;
mod learner;
mod outcome;

pub use environment::{Environment, Situation};
pub use outcome::{
    Comparison, CurvePoint, EntrantResult, PersonaDifference, PersonaResult, SeedRun, Simulation,
};

use crate::persona::PersonaSet;
use crate::{Policy, PolicyError};
use learner::Learner;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const CHECKPOINTS: usize = 100;
const COLD_STEPS: usize = 200;
const DELAY_STEPS: usize = 50;

/// The assumptions of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// As the personas say.
    Base,
    /// Every arm's tastes move to those of the next arm during the simulation.
    Drift,
    /// Rewards arrive 50 decisions late.
    DelayedReward,
    /// At most 200 decisions, without warm-up.
    ColdStart,
    /// A part of the tastes depends on twice the angle of the hour, which is no feature.
    MisspecifiedReward,
}

impl Variant {
    /// The variants that a sensitivity analysis runs.
    pub const SENSITIVITY: [Self; 4] = [
        Self::Drift,
        Self::DelayedReward,
        Self::ColdStart,
        Self::MisspecifiedReward,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Drift => "drift",
            Self::DelayedReward => "delayed-reward",
            Self::ColdStart => "cold-start",
            Self::MisspecifiedReward => "misspecified-reward",
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A policy that takes part in a simulation.
#[derive(Debug, Clone)]
pub struct Entrant {
    /// Unique in the plan.
    pub name: String,
    pub policy: Policy,
    /// Which exploration draws it gets. Entrants with the same stream explore at the same steps;
    /// 0 unless two copies of a policy are to differ.
    pub stream: u64,
}

impl Entrant {
    /// An entrant with the policy's name and the common exploration draws.
    pub fn new(policy: Policy) -> Self {
        Self {
            name: policy.kind().name().to_owned(),
            policy,
            stream: 0,
        }
    }
}

/// What to simulate.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    pub personas: &'a PersonaSet,
    /// The first one makes the decisions of the warm-up.
    pub entrants: &'a [Entrant],
    /// Measured decisions for each persona, seed and policy.
    pub steps: usize,
    /// Number of repetitions.
    pub seeds: usize,
    /// Names the simulation: the same seed gives the same result.
    pub seed: u64,
    /// Decisions before the measured ones.
    pub warm_up: usize,
    pub variant: Variant,
    pub threads: usize,
}

impl Plan<'_> {
    /// Decisions before the measured ones in this variant.
    pub const fn warm_up_steps(&self) -> usize {
        match self.variant {
            Variant::ColdStart => 0,
            _ => self.warm_up,
        }
    }

    /// Measured decisions in this variant.
    pub fn measured_steps(&self) -> usize {
        match self.variant {
            Variant::ColdStart => self.steps.min(COLD_STEPS),
            _ => self.steps,
        }
    }

    /// Decisions between a choice and its reward in this variant.
    pub const fn delay_steps(&self) -> usize {
        match self.variant {
            Variant::DelayedReward => DELAY_STEPS,
            _ => 0,
        }
    }

    /// The environment of one persona in one repetition.
    pub fn environment(&self, persona: usize, repetition: usize) -> Environment {
        Environment::new(self, persona, repetition)
    }

    fn check(&self) -> Result<(), PolicyError> {
        let problem = |problem| Err(PolicyError::Simulation { problem });
        let mut names: Vec<&str> = self.entrants.iter().map(|it| it.name.as_str()).collect();
        names.sort_unstable();
        if names.is_empty() {
            return problem("it has no policies; name at least one");
        }
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return problem("two policies have the same name; name each once");
        }
        if self.steps == 0 || self.seeds == 0 {
            return problem("steps and seeds must be at least 1");
        }
        if self.personas.check().is_err() {
            return problem("its personas are invalid; check them first");
        }
        Ok(())
    }
}

/// Who makes the choices of one entrant for one persona: the mathematics in this process, or a
/// service.
pub trait Player {
    type Error: From<PolicyError> + Send;

    /// Chooses a candidate; `draw` decides about exploration as in [`crate::choose`].
    fn choose(&mut self, situation: &Situation, draw: u64) -> Result<usize, Self::Error>;

    /// The reward of the oldest choice that has had none.
    fn reward(&mut self, reward: f64) -> Result<(), Self::Error>;

    /// Learns from a choice that another player made.
    fn replay(
        &mut self,
        situation: &Situation,
        chosen: usize,
        reward: f64,
    ) -> Result<(), Self::Error>;
}

/// Runs a simulation in this process.
pub fn run(plan: &Plan<'_>) -> Result<Simulation, PolicyError> {
    let arms = &plan.personas.arms;
    run_with(plan, |_, _, entrant| {
        let policy = &plan.entrants[entrant].policy;
        Ok(Learner::new(policy, arms))
    })
}

/// Runs a simulation with players that `make` makes from the indices of persona, repetition and
/// entrant.
pub fn run_with<P: Player>(
    plan: &Plan<'_>,
    make: impl Fn(usize, usize, usize) -> Result<P, P::Error> + Sync,
) -> Result<Simulation, P::Error> {
    plan.check()?;
    let personas = plan.personas.personas.len();
    let repetitions = personas * plan.seeds;
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= repetitions {
                return done;
            }
            let (persona, repetition) = (task / plan.seeds, task % plan.seeds);
            let result = (0..plan.entrants.len())
                .map(|entrant| make(persona, repetition, entrant))
                .collect::<Result<Vec<P>, _>>()
                .and_then(|players| play(plan, persona, repetition, players));
            let failed = result.is_err();
            done.push((task, result));
            if failed {
                // The other threads find no more tasks.
                next.store(repetitions, Ordering::Relaxed);
                return done;
            }
        }
    };
    let threads = plan.threads.clamp(1, repetitions);
    let mut done: Vec<_> = thread::scope(|scope| {
        let handles: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for handle in handles {
            match handle.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(task, _)| *task);
    let runs = done.into_iter().map(|(_, result)| result);
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    Ok(outcome::summarise(plan, &runs))
}

/// The measured steps at which curves have a point.
pub(crate) fn checkpoints(steps: usize) -> Vec<usize> {
    let mut points: Vec<usize> = (1..=CHECKPOINTS)
        .map(|it| steps * it / CHECKPOINTS)
        .collect();
    points.retain(|it| *it > 0);
    points.dedup();
    points
}

/// What one player did for one persona in one repetition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trajectory {
    pub run: SeedRun,
    /// Cumulated expected reward and regret at the checkpoints.
    pub curve: Vec<[f64; 2]>,
}

/// All entrants, side by side through the same situations.
fn play<P: Player>(
    plan: &Plan<'_>,
    persona: usize,
    repetition: usize,
    mut players: Vec<P>,
) -> Result<Vec<Trajectory>, P::Error> {
    let environment = plan.environment(persona, repetition);
    let mut situation = Situation::default();
    let warm_up = plan.warm_up_steps();
    for step in 0..warm_up {
        environment.situation(step, &mut situation)?;
        let draw = environment.draw(step, plan.entrants[0].stream);
        let chosen = players[0].choose(&situation, draw)?;
        let reward = situation.reward(chosen);
        players[0].reward(reward)?;
        for other in &mut players[1..] {
            other.replay(&situation, chosen, reward)?;
        }
    }
    let steps = plan.measured_steps();
    let checkpoints = checkpoints(steps);
    let mut records: Vec<Record> = players.iter().map(|_| Record::new(steps)).collect();
    for step in 0..steps {
        environment.situation(warm_up + step, &mut situation)?;
        for (entrant, player) in players.iter_mut().enumerate() {
            let draw = environment.draw(warm_up + step, plan.entrants[entrant].stream);
            let chosen = player.choose(&situation, draw)?;
            let record = &mut records[entrant];
            record.add(&situation, chosen);
            if let Some(due) = step.checked_sub(plan.delay_steps()) {
                player.reward(record.rewards[due])?;
            }
            if checkpoints.get(record.curve.len()) == Some(&(step + 1)) {
                record.curve.push([record.expected, record.regret]);
            }
        }
    }
    Ok(records.into_iter().map(Record::trajectory).collect())
}

struct Record {
    rewards: Vec<f64>,
    expected: f64,
    regret: f64,
    best: usize,
    fingerprint: u64,
    curve: Vec<[f64; 2]>,
}

impl Record {
    fn new(steps: usize) -> Self {
        Self {
            rewards: Vec::with_capacity(steps),
            expected: 0.0,
            regret: 0.0,
            best: 0,
            fingerprint: outcome::FINGERPRINT_START,
            curve: Vec::with_capacity(CHECKPOINTS),
        }
    }

    #[inline]
    fn add(&mut self, situation: &Situation, chosen: usize) {
        let regret = situation.regret(chosen);
        self.rewards.push(situation.reward(chosen));
        self.expected += situation.expected(chosen);
        self.regret += regret;
        self.best += usize::from(regret <= 0.0);
        self.fingerprint = outcome::fingerprint(self.fingerprint, chosen);
    }

    fn trajectory(self) -> Trajectory {
        let steps = self.rewards.len() as f64;
        Trajectory {
            run: SeedRun {
                expected_reward: self.expected / steps,
                realised_reward: self.rewards.iter().sum::<f64>() / steps,
                regret: self.regret,
                best_share: self.best as f64 / steps,
                choices: format!("{:016x}", self.fingerprint),
            },
            curve: self.curve,
        }
    }
}

#[cfg(test)]
mod tests;
