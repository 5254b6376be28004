//! Whether the judges are reliable: the automatic tier against the experts.
//!
//! A high agreement does not mean unbiased, so both are checked.

use assize_domain::judge::Tier;
use assize_domain::promotion::{Check, Outcome, Quantity, Relation};
use assize_stats::agreement::{self, Metric};

use super::open_check::OpenCheck;
use super::{DoubleScored, Evidence};
use crate::promote::thresholds::{Tentative, Thresholds};

/// Enough candidates that both tiers judged, and on them agreement without bias, by criterion.
pub fn judges(evidence: &Evidence, thresholds: &Thresholds) -> Vec<Check> {
    let check = OpenCheck::new(
        "double_scored",
        "candidates that both tiers judged",
        Quantity::Count,
        Relation::AtLeast,
        f64::from(thresholds.double_scored),
    );
    if !thresholds.require.contains(&Tier::Auto) {
        let why = "Only experts are required, so agreement is not checked.";
        return vec![check.finish(Outcome::NotApplicable, None, Some(why.to_owned()))];
    }
    let both = |it: &DoubleScored| {
        let scores = it.expert.iter().zip(&it.auto);
        scores.filter(|(e, a)| e.is_some() && a.is_some()).count()
    };
    let items = evidence.criteria.iter().map(both).min().unwrap_or(0);
    let is_enough = items >= thresholds.double_scored as usize;
    let why = (!is_enough).then(|| "Agreement is not computed below that.".to_owned());
    let mut checks = vec![check.against(Some(items as f64), why)];
    if is_enough {
        for criterion in &evidence.criteria {
            checks.extend(criterion_checks(criterion, thresholds));
        }
    }
    checks
}

fn criterion_checks(scores: &DoubleScored, thresholds: &Thresholds) -> [Check; 2] {
    let name = &scores.criterion;
    let alpha = agreement::alpha(
        &[scores.expert.clone(), scores.auto.clone()],
        Metric::Ordinal,
    );
    let alpha = alpha.ok().flatten().map(|it| it.alpha);
    let check = OpenCheck::new(
        &format!("agreement.{name}"),
        &format!("{name}: judges agree (α)"),
        Quantity::Coefficient,
        Relation::AtLeast,
        thresholds.agreement,
    );
    let agreement = match alpha {
        None => {
            let why = "Both tiers gave every candidate the same score, so it does not separate candidates.";
            check.finish(Outcome::NotApplicable, None, Some(why.to_owned()))
        }
        Some(alpha)
            if !Relation::AtLeast.holds(alpha, thresholds.agreement)
                && Relation::AtLeast.holds(alpha, thresholds.agreement_tentative) =>
        {
            tentative(check, alpha, thresholds)
        }
        alpha => check.against(alpha, None),
    };
    let bias = agreement::compare(&scores.expert, &scores.auto, scores.scale)
        .ok()
        .map(|it| it.bias);
    let why = bias.map(|bias| {
        let direction = if bias > 0.0 { "higher" } else { "lower" };
        format!("The automatic tier scores {direction} than the experts.")
    });
    let bias = OpenCheck::new(
        &format!("bias.{name}"),
        &format!("{name}: bias of auto"),
        Quantity::Points,
        Relation::AtMost,
        thresholds.bias_on(scores.scale),
    )
    .against(bias.map(f64::abs), why);
    [agreement, bias]
}

fn tentative(check: OpenCheck, alpha: f64, thresholds: &Thresholds) -> Check {
    let experts_decide = thresholds.deciding_tier() == Tier::Expert;
    let between = format!(
        "From {} to {} agreement is tentative",
        thresholds.agreement_tentative, thresholds.agreement
    );
    let (outcome, why) = match thresholds.tentative {
        Tentative::Warn if experts_decide => (
            Outcome::Tentative,
            "accepted, because the tests use the experts' scores",
        ),
        Tentative::Warn => (
            Outcome::Failed,
            "not enough where the tests use automatic scores alone",
        ),
        Tentative::Block => (Outcome::Failed, "and tentative = \"block\" in [gate]"),
    };
    check.finish(outcome, Some(alpha), Some(format!("{between}: {why}.")))
}
