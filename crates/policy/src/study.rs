//! A study: the same policies simulated under the base assumptions and under those of the
//! sensitivity analysis, each compared with the first policy.
//!
//! What decides about a promotion is [`crate::gate`]; a study is for people who want to see how
//! policies differ, for whom, and under which assumptions.

use crate::persona::PersonaSet;
use crate::simulate::{Comparison, Entrant, Plan, Simulation, Variant, run};
use crate::{FeatureVersion, PolicyError, PolicySettings};
use serde::{Deserialize, Serialize};

/// Of the two-sided intervals of comparisons.
const CONFIDENCE: f64 = 0.95;

/// What to simulate.
#[derive(Debug, Clone, Copy)]
pub struct StudyPlan<'a> {
    /// Where the personas are from, for readers.
    pub source: &'a str,
    pub personas: &'a PersonaSet,
    /// The first one is the baseline.
    pub entrants: &'a [Entrant],
    pub steps: usize,
    pub seeds: usize,
    pub seed: u64,
    pub warm_up: usize,
    pub threads: usize,
    /// Whether the sensitivity runs follow the base run.
    pub sensitivity: bool,
}

/// One policy of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudiedPolicy {
    pub name: String,
    pub feature_version: FeatureVersion,
    pub settings: PolicySettings,
}

/// The results of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Where the personas are from.
    pub personas: String,
    /// The first one is the baseline of all comparisons.
    pub policies: Vec<StudiedPolicy>,
    /// The base run first.
    pub simulations: Vec<Simulation>,
    /// By simulation, then by policy; empty with fewer than two personas or policies.
    pub comparisons: Vec<Comparison>,
}

impl Study {
    /// The run under the base assumptions.
    pub fn base(&self) -> Option<&Simulation> {
        self.simulations.first()
    }

    /// The name of the policy that others are compared with.
    pub fn baseline(&self) -> &str {
        self.policies.first().map_or("", |it| it.name.as_str())
    }

    pub fn comparison(&self, policy: &str, variant: Variant) -> Option<&Comparison> {
        let mut found = self.comparisons.iter();
        found.find(|it| it.candidate == policy && it.variant == variant)
    }
}

impl StudyPlan<'_> {
    pub fn variants(&self) -> Vec<Variant> {
        let sensitivity = Variant::SENSITIVITY.into_iter();
        let sensitivity = sensitivity.filter(|_| self.sensitivity);
        [Variant::Base].into_iter().chain(sensitivity).collect()
    }

    fn plan(&self, variant: Variant) -> Plan<'_> {
        Plan {
            personas: self.personas,
            entrants: self.entrants,
            steps: self.steps,
            seeds: self.seeds,
            seed: self.seed,
            warm_up: self.warm_up,
            variant,
            threads: self.threads,
        }
    }

    /// Runs all variants in this process; `begin` is called before each.
    pub fn run(&self, begin: impl FnMut(Variant)) -> Result<Study, PolicyError> {
        self.run_with(begin, run)
    }

    /// Runs all variants with `simulate`.
    pub fn run_with<E: From<PolicyError>>(
        &self,
        mut begin: impl FnMut(Variant),
        mut simulate: impl FnMut(&Plan<'_>) -> Result<Simulation, E>,
    ) -> Result<Study, E> {
        let mut simulations = Vec::new();
        let mut comparisons = Vec::new();
        for variant in self.variants() {
            begin(variant);
            let simulation = simulate(&self.plan(variant))?;
            comparisons.extend(self.compare(&simulation)?);
            simulations.push(simulation);
        }
        Ok(Study {
            personas: self.source.to_owned(),
            policies: self.entrants.iter().map(StudiedPolicy::from).collect(),
            simulations,
            comparisons,
        })
    }

    fn compare(&self, simulation: &Simulation) -> Result<Vec<Comparison>, PolicyError> {
        let (Some(baseline), true) = (self.entrants.first(), self.personas.personas.len() > 1)
        else {
            return Ok(Vec::new());
        };
        let others = self.entrants[1..].iter();
        let compared =
            others.map(|it| simulation.compare(&it.name, &baseline.name, CONFIDENCE, |_| true));
        compared.collect()
    }
}

impl From<&Entrant> for StudiedPolicy {
    fn from(entrant: &Entrant) -> Self {
        Self {
            name: entrant.name.clone(),
            feature_version: entrant.policy.feature_version(),
            settings: *entrant.policy.settings(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, PolicyKind};

    #[test]
    fn every_variant_is_run_and_compared_with_the_first_policy() {
        let personas = PersonaSet::built_in().unwrap();
        let entrants: Vec<Entrant> = PolicyKind::ALL
            .into_iter()
            .map(|it| Entrant::new(Policy::new(it, PolicySettings::defaults(it)).unwrap()))
            .collect();
        let mut plan = StudyPlan {
            source: "built-in",
            personas: &personas,
            entrants: &entrants,
            steps: 30,
            seeds: 2,
            seed: 1,
            warm_up: 10,
            threads: 2,
            sensitivity: true,
        };
        let mut begun = Vec::new();
        let study = plan.run(|it| begun.push(it)).unwrap();
        assert_eq!(begun, plan.variants());
        assert_eq!((study.simulations.len(), study.comparisons.len()), (5, 10));
        assert_eq!(study.baseline(), "egreedy-v1");
        assert!(study.comparison("linucb", Variant::Drift).is_some());
        assert!(study.comparison("egreedy-v1", Variant::Base).is_none());
        plan.sensitivity = false;
        let short = plan.run(|_| {}).unwrap();
        assert_eq!(short.base(), study.base());
        assert_eq!(short.simulations.len(), 1);
    }
}
