//! The world of one persona in one repetition: situations, expected rewards and rewards.

use super::{Plan, Variant};
use crate::persona::{HIGHEST_CHANCE, LOWEST_CHANCE, Persona, ProfileModel, Varying};
use crate::ridge::dot;
use crate::{Context, FeatureVector, FeatureVersion, PolicyError, Profile};
use assize_stats::rng::SplitMix64;
use assize_stats::simulate::seed_of;

/// Draws of a step besides one for each candidate: hour, tasks, urgency, five profile values, reward.
const COMMON_DRAWS: usize = 9;
const TASK_MATCH: usize = 6;
const DAYS_PER_WEEK: usize = 7;
const WORKDAYS: usize = 5;
/// How much of the chance no feature explains in [`Variant::MisspecifiedReward`].
const MISSPECIFIED: f64 = 0.2;

/// What a policy is asked at one step, and what the answers are worth.
#[derive(Debug, Clone, Default)]
pub struct Situation {
    pub context: Context,
    pub profile: Option<Profile>,
    /// The tip–task match of each candidate, in the order of the set's arms.
    pub task_matches: Vec<f64>,
    pub(super) features: Option<FeatureVector>,
    expected: Vec<f64>,
    best: f64,
    reward_draw: f64,
}

impl Situation {
    /// The expected reward of a candidate.
    #[inline]
    pub fn expected(&self, candidate: usize) -> f64 {
        self.expected[candidate]
    }

    /// The expected reward of the best candidate minus that of this one.
    #[inline]
    pub fn regret(&self, candidate: usize) -> f64 {
        self.best - self.expected[candidate]
    }

    /// The reward, 0 or 1, if this candidate is chosen. All candidates share one draw.
    #[inline]
    pub fn reward(&self, candidate: usize) -> f64 {
        f64::from(u8::from(self.reward_draw < self.expected[candidate]))
    }
}

/// The world of one persona in one repetition.
#[derive(Debug, Clone)]
pub struct Environment {
    persona: Persona,
    tastes: Vec<[f64; 12]>,
    variant: Variant,
    drift: f64,
    warm_up: usize,
    steps: usize,
    seed: u64,
    phase_seed: u64,
    exploration_seed: u64,
}

impl Environment {
    pub(super) fn new(plan: &Plan<'_>, persona: usize, repetition: usize) -> Self {
        let persona = plan.personas.personas[persona].clone();
        let taste = |arm: &String| persona.tastes.get(arm).copied().unwrap_or_default();
        let tastes = plan.personas.arms.iter().map(|arm| taste(arm).weights());
        let key = seed_of(seed_of(plan.seed, repetition as u64), hash(&persona.name));
        Self {
            tastes: tastes.collect(),
            variant: plan.variant,
            drift: match plan.variant {
                Variant::Drift => 1.0,
                _ => persona.drift,
            },
            warm_up: plan.warm_up_steps(),
            steps: plan.measured_steps(),
            seed: seed_of(key, 0),
            phase_seed: seed_of(key, 1),
            exploration_seed: seed_of(key, 2),
            persona,
        }
    }

    /// The random bits for the choice at a step. They fit in 53 bits, so that they survive JSON in
    /// every language.
    #[inline]
    pub fn draw(&self, step: usize, stream: u64) -> u64 {
        let seed = match stream {
            0 => self.exploration_seed,
            stream => seed_of(self.exploration_seed, stream),
        };
        SplitMix64::at(seed, step as u64).next_u64() >> 11
    }

    /// Fills in the situation at a step; the warm-up's steps come first.
    pub fn situation(&self, step: usize, into: &mut Situation) -> Result<(), PolicyError> {
        let draws = COMMON_DRAWS + self.tastes.len();
        let mut rng = SplitMix64::at(self.seed, (step * draws) as u64);
        into.context = self.context(step, &mut rng);
        let profile_draws: [f64; 5] = std::array::from_fn(|_| rng.next_f64());
        let profile = self.persona.profile.as_ref();
        into.profile = profile.map(|it| self.profile(it, step, profile_draws));
        into.reward_draw = rng.next_f64();
        into.task_matches.clear();
        let matches = self.tastes.iter().map(|_| rng.next_f64());
        into.task_matches.extend(matches);
        let features = FeatureVersion::V2.prepare(&into.context, into.profile.as_ref())?;
        self.expect(step, &features, into);
        into.features = Some(features);
        Ok(())
    }

    fn context(&self, step: usize, rng: &mut SplitMix64) -> Context {
        let schedule = &self.persona.schedule;
        let jitter = schedule.hour_jitter * (2.0 * rng.next_f64() - 1.0);
        let between = |[least, most]: [f64; 2], draw: f64| least + (most - least) * draw;
        let day = step / schedule.hours.len();
        Context {
            hour: Some(on_clock(
                schedule.hours[step % schedule.hours.len()] + jitter,
            )),
            weekend: Some(day % DAYS_PER_WEEK >= WORKDAYS),
            open_tasks: Some(between(schedule.open_tasks, rng.next_f64()).round()),
            urgency: Some(between(schedule.urgency, rng.next_f64())),
        }
    }

    fn profile(&self, model: &ProfileModel, step: usize, draws: [f64; 5]) -> Profile {
        let stretch = step / model.phase_steps;
        let bit = SplitMix64::at(self.phase_seed, stretch as u64).next_u64() >> 63;
        let phase = if bit == 0 { -1.0 } else { 1.0 };
        let at = |value: Option<Varying>, draw: f64| {
            value.map(|it| {
                let jitter = it.jitter * (2.0 * draw - 1.0);
                it.mean + it.swing * phase + it.growth * step as f64 / 1000.0 + jitter
            })
        };
        let share = |value, draw| at(value, draw).map(|it: f64| it.clamp(0.0, 1.0));
        let amount = |value, draw| at(value, draw).map(|it: f64| it.max(0.0));
        Profile {
            completion_rate: share(model.completion_rate, draws[0]),
            dismiss_rate: share(model.dismiss_rate, draws[1]),
            mean_dwell_s: amount(model.mean_dwell_s, draws[2]),
            preferred_hour: at(model.preferred_hour, draws[3]).map(on_clock),
            tip_volume: amount(model.tip_volume, draws[4]),
        }
    }

    /// The expected reward of every candidate.
    fn expect(&self, step: usize, features: &FeatureVector, into: &mut Situation) {
        let measured = step.saturating_sub(self.warm_up) as f64;
        let moved = self.drift * (measured / self.steps as f64);
        let twice_the_angle = 2.0 * features[1] * features[2];
        let noise = self.persona.noise;
        let arms = self.tastes.len();
        into.expected.clear();
        into.best = 0.0;
        for arm in 0..arms {
            let task_match = into.task_matches[arm];
            let mut chance = linear(&self.tastes[arm], features, task_match);
            if moved > 0.0 {
                let next = linear(&self.tastes[(arm + 1) % arms], features, task_match);
                chance += moved * (next - chance);
            }
            if self.variant == Variant::MisspecifiedReward {
                let sign = if arm % 2 == 0 { 1.0 } else { -1.0 };
                chance += MISSPECIFIED * sign * twice_the_angle;
            }
            let chance = chance.clamp(LOWEST_CHANCE, HIGHEST_CHANCE);
            let expected = (1.0 - noise) * chance + noise / 2.0;
            into.best = into.best.max(expected);
            into.expected.push(expected);
        }
    }
}

/// The sum of weights times features; the features' own match is still 0.
#[inline]
fn linear(weights: &[f64; 12], features: &FeatureVector, task_match: f64) -> f64 {
    dot(weights, features.padded()) + weights[TASK_MATCH] * task_match
}

/// An hour in [0, 24). Rounding can turn a tiny negative hour into 24.
fn on_clock(hour: f64) -> f64 {
    let hour = hour.rem_euclid(24.0);
    if hour < 24.0 { hour } else { 0.0 }
}

/// FNV-1a, so that a persona's draws depend on its name alone.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}
