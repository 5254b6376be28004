//! The gate: whether a shadow policy has earned the place of the active one.
//!
//! A pure function from evidence and thresholds to a list of checks; all of them must pass.
//!
//! * **Win.** Over the personas, the lower bound of the mean paired difference (candidate minus
//!   incumbent, expected reward for each decision) is above 0: d̄ − t(confidence, S − 1)·sd(d)/√S with
//!   one difference for each of S personas, itself a mean over at least 20 seeds. The persona is the
//!   unit, because a conclusion about users does not get stronger from more draws of the same ones.
//! * **Held-out families.** Their mean difference is above 0 too, so that a win cannot come only
//!   from the families with which settings were chosen.
//! * **No harm.** No persona is worse off by more than δ: a win on average may not be paid by one
//!   kind of user.
//! * **Sensitivity.** With drift, delayed rewards, a cold start and a misspecified reward the lower
//!   bound is above −δ: the candidate need not win there, but must not lose.
//! * **Shadow traffic.** The candidate has scored enough real decisions of enough users, so that it
//!   has run in production without being shown.
//!
//! Both policies start from a replay of the incumbent's decisions, as they do in production
//! ([`Effort::warm_up`]). With the default confidence of 0.975 a candidate that equals the incumbent
//! passes the first check in 2.5 % of cases, and the gate in fewer; `examples/false_promotions.rs`
//! measures it.
//!
//! Reference: Student (1908), "The probable error of a mean", Biometrika 6; non-inferiority margins:
//! Wellek (2010), "Testing statistical hypotheses of equivalence and noninferiority", chapter 2.

use crate::persona::PersonaSet;
use crate::simulate::{Comparison, Entrant, Plan, Variant, run};
use crate::{Policy, PolicyError};
use assize_domain::promotion::{Check, Outcome, Quantity, Relation};
use assize_stats::paired::paired_diff;
use serde::{Deserialize, Serialize};

/// What a promotion needs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GateThresholds {
    /// Of the one-sided bounds.
    pub confidence: f64,
    /// The largest loss δ of one persona, and the margin of the sensitivity runs, in expected reward
    /// for each decision.
    pub delta: f64,
    pub least_personas: usize,
    pub least_seeds: usize,
    pub least_shadow_decisions: u64,
    pub least_shadow_users: u64,
}

impl Default for GateThresholds {
    fn default() -> Self {
        Self {
            confidence: 0.975,
            delta: 0.02,
            least_personas: 8,
            least_seeds: 20,
            least_shadow_decisions: 1000,
            least_shadow_users: 50,
        }
    }
}

impl GateThresholds {
    pub fn check(&self) -> Result<(), PolicyError> {
        let confidence_holds = self.confidence > 0.5 && self.confidence < 1.0;
        crate::error::in_range("confidence", self.confidence, confidence_holds, "(0.5, 1)")?;
        let delta_holds = (0.0..=1.0).contains(&self.delta);
        crate::error::in_range("delta", self.delta, delta_holds, "[0, 1]")?;
        Ok(())
    }
}

/// Decisions that the candidate has scored as a shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShadowTraffic {
    pub decisions: u64,
    pub users: u64,
}

/// What the gate looks at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateEvidence {
    /// The comparison under the base assumptions.
    pub base: Comparison,
    /// One comparison for each of [`Variant::SENSITIVITY`].
    pub sensitivity: Vec<Comparison>,
    pub shadow: ShadowTraffic,
}

/// Every check with its figure, and what they come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateReport {
    pub candidate: String,
    pub incumbent: String,
    pub passed: bool,
    pub checks: Vec<Check>,
}

impl GateReport {
    /// The checks that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        let failed = |check: &&Check| check.outcome == Outcome::Failed;
        self.checks.iter().filter(failed)
    }
}

/// How much to simulate for the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Effort {
    pub steps: usize,
    pub seeds: usize,
    pub seed: u64,
    /// Decisions of the incumbent from which both policies start.
    pub warm_up: usize,
    pub threads: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            steps: 1000,
            seeds: 20,
            seed: 1,
            warm_up: 200,
            threads: 1,
        }
    }
}

/// Runs the base simulation of the gate. The incumbent comes first, because it makes the decisions
/// from which both start.
pub fn simulate_base(
    personas: &PersonaSet,
    incumbent: &Entrant,
    candidate: &Entrant,
    effort: &Effort,
) -> Result<Comparison, PolicyError> {
    simulate_variant(personas, incumbent, candidate, effort, Variant::Base)
}

/// Runs the sensitivity simulations of the gate.
pub fn simulate_sensitivity(
    personas: &PersonaSet,
    incumbent: &Entrant,
    candidate: &Entrant,
    effort: &Effort,
) -> Result<Vec<Comparison>, PolicyError> {
    let variants = Variant::SENSITIVITY.into_iter();
    let compare = |variant| simulate_variant(personas, incumbent, candidate, effort, variant);
    variants.map(compare).collect()
}

fn simulate_variant(
    personas: &PersonaSet,
    incumbent: &Entrant,
    candidate: &Entrant,
    effort: &Effort,
    variant: Variant,
) -> Result<Comparison, PolicyError> {
    let entrants = [incumbent.clone(), candidate.clone()];
    let plan = Plan {
        personas,
        entrants: &entrants,
        steps: effort.steps,
        seeds: effort.seeds,
        seed: effort.seed,
        warm_up: effort.warm_up,
        variant,
        threads: effort.threads,
    };
    let confidence = GateThresholds::default().confidence;
    run(&plan)?.compare(&candidate.name, &incumbent.name, confidence, |_| true)
}

/// Decides about a promotion.
pub fn assess(
    evidence: &GateEvidence,
    thresholds: &GateThresholds,
) -> Result<GateReport, PolicyError> {
    thresholds.check()?;
    let base = &evidence.base;
    let mut checks = vec![
        personas_check(base, thresholds),
        seeds_check(base, thresholds),
        win_check(base, thresholds),
        held_out_check(base),
        harm_check(base, thresholds),
    ];
    let sensitivity = Variant::SENSITIVITY.into_iter();
    checks.extend(sensitivity.map(|it| sensitivity_check(evidence, it, thresholds)));
    checks.extend(shadow_checks(evidence.shadow, thresholds));
    Ok(GateReport {
        candidate: base.candidate.clone(),
        incumbent: base.baseline.clone(),
        passed: checks.iter().all(|it| it.outcome != Outcome::Failed),
        checks,
    })
}

fn personas_check(base: &Comparison, thresholds: &GateThresholds) -> Check {
    let figure = base.personas.len() as f64;
    let least = thresholds.least_personas as f64;
    let about = "personas in the simulation";
    let check = count("personas", about, figure, least);
    or_why(check, "the unit is the persona; add personas")
}

fn seeds_check(base: &Comparison, thresholds: &GateThresholds) -> Check {
    let (figure, least) = (base.seeds as f64, thresholds.least_seeds as f64);
    let about = "seeds averaged for each persona";
    let check = count("seeds", about, figure, least);
    or_why(check, "simulate with more seeds")
}

fn win_check(base: &Comparison, thresholds: &GateThresholds) -> Check {
    let bound = lower_bound(base, thresholds);
    let about = "lower bound over personas";
    let relation = Relation::Above;
    let check = new_check("lower_bound", about, relation, bound, 0.0);
    let mean = base.mean;
    or_why(
        check,
        &format!(
            "the mean difference is {mean:+.4}, and its lower bound is not above 0: no win is shown"
        ),
    )
}

fn held_out_check(base: &Comparison) -> Check {
    let about = "mean over held-out families";
    let figure = base.held_out_mean();
    let mut check = new_check("held_out", about, Relation::Above, figure, 0.0);
    if figure.is_none() {
        check.outcome = Outcome::NotApplicable;
        check.why = Some("no family of the personas is held out".to_owned());
        return check;
    }
    or_why(
        check,
        "the win is only in the families with which settings were chosen",
    )
}

fn harm_check(base: &Comparison, thresholds: &GateThresholds) -> Check {
    let worst = base.worst();
    let about = "persona that is worst off";
    let figure = worst.map(|it| it.difference);
    let threshold = -thresholds.delta;
    let check = new_check("harm", about, Relation::AtLeast, figure, threshold);
    let name = worst.map_or("?", |it| it.persona.as_str());
    or_why(
        check,
        &format!("persona {name} would lose more than allowed"),
    )
}

fn sensitivity_check(
    evidence: &GateEvidence,
    variant: Variant,
    thresholds: &GateThresholds,
) -> Check {
    let found = evidence.sensitivity.iter().find(|it| it.variant == variant);
    let name = format!("sensitivity.{variant}");
    let about = format!("lower bound with {variant}");
    let figure = found.and_then(|it| lower_bound(it, thresholds));
    let threshold = -thresholds.delta;
    let check = new_check(&name, &about, Relation::Above, figure, threshold);
    let why = match found {
        None => "this run is missing; simulate it",
        Some(_) => "under this assumption the candidate may lose more than allowed",
    };
    or_why(check, why)
}

fn shadow_checks(shadow: ShadowTraffic, thresholds: &GateThresholds) -> [Check; 2] {
    let remedy = "let the policy run as an enabled shadow for longer";
    let decisions = count(
        "shadow_decisions",
        "decisions scored as a shadow",
        shadow.decisions as f64,
        thresholds.least_shadow_decisions as f64,
    );
    let users = count(
        "shadow_users",
        "users of these decisions",
        shadow.users as f64,
        thresholds.least_shadow_users as f64,
    );
    [decisions, users].map(|check| or_why(check, remedy))
}

/// The bound at the gate's own confidence, whatever the comparison was made with.
fn lower_bound(comparison: &Comparison, thresholds: &GateThresholds) -> Option<f64> {
    let personas = comparison.personas.iter();
    let differences: Vec<f64> = personas.map(|it| it.difference).collect();
    let found = paired_diff(&differences, thresholds.confidence).ok()?;
    Some(found.lower_bound)
}

fn count(name: &str, about: &str, figure: f64, least: f64) -> Check {
    let relation = Relation::AtLeast;
    let mut check = new_check(name, about, relation, Some(figure), least);
    check.quantity = Quantity::Count;
    check
}

fn new_check(
    name: &str,
    about: &str,
    relation: Relation,
    figure: Option<f64>,
    threshold: f64,
) -> Check {
    let holds = figure.is_some_and(|figure| relation.holds(figure, threshold));
    Check {
        name: name.to_owned(),
        about: about.to_owned(),
        quantity: Quantity::Reward,
        figure,
        relation,
        threshold,
        outcome: if holds {
            Outcome::Passed
        } else {
            Outcome::Failed
        },
        why: None,
    }
}

/// Adds the reason if the check failed.
fn or_why(mut check: Check, why: &str) -> Check {
    if check.outcome == Outcome::Failed {
        check.why = Some(why.to_owned());
    }
    check
}

/// An entrant for each side of the gate, with distinct names where both are the same policy.
pub fn entrants(incumbent: &Policy, candidate: &Policy) -> [Entrant; 2] {
    let incumbent = Entrant::new(incumbent.clone());
    let mut candidate = Entrant::new(candidate.clone());
    if candidate.name == incumbent.name {
        candidate.name.push_str(" (candidate)");
    }
    [incumbent, candidate]
}

#[cfg(test)]
mod tests;
