//! Whether the automatic tier can be believed about these two pairs.
//!
//! A bias that is the same for both pairs cancels in their difference. What matters is how far the
//! automatic tier is off for the candidate minus how far it is off for the incumbent. Agreement (α) is
//! given beside it, because it says how noisy the automatic scores are, not whom they favour.

use assize_domain::judge::Tier;
use assize_domain::promotion::{Check, Outcome, Quantity, Relation};
use assize_stats::agreement::{Metric, alpha_interval};
use assize_stats::two_tier::{DifferentialBias, differential_bias};

use super::Evidence;
use super::open_check::OpenCheck;
use crate::promote::thresholds::Thresholds;

/// Enough candidates that both tiers judged, and on them no bias towards one of the pairs.
pub fn judges(evidence: &Evidence, thresholds: &Thresholds) -> Vec<Check> {
    let check = OpenCheck::new(
        "double_scored",
        "candidates that both tiers judged",
        Quantity::Count,
        Relation::AtLeast,
        f64::from(thresholds.double_scored),
    );
    if evidence.is_computed {
        let bias = OpenCheck::new(
            "judge_bias",
            "auto favours one of the pairs by",
            Quantity::Points,
            Relation::AtMost,
            thresholds.bias_within(evidence.composite_range),
        );
        return [check, bias].map(OpenCheck::computed).to_vec();
    }
    if !thresholds.require.contains(&Tier::Auto) {
        let why = "Only experts are required, so the automatic tier is not checked.";
        return vec![check.finish(Outcome::NotApplicable, None, Some(why.to_owned()))];
    }
    let [candidate, incumbent] = &evidence.two_tiers;
    let found = differential_bias(candidate, incumbent, 1.0 - thresholds.level).ok();
    let items = found.as_ref().map_or(0, |it| it.items);
    let is_enough = items >= thresholds.double_scored as usize;
    let why = (!is_enough).then(|| {
        "Candidates of these two pairs count, in scenarios where both have some; bias is not computed below \
         that."
            .to_owned()
    });
    let mut checks = vec![check.against(Some(items as f64), why)];
    if let Some(found) = found.filter(|_| is_enough) {
        checks.push(judge_bias(&found, evidence, thresholds));
    }
    checks
}

/// Where experts decide, the automatic tier must not favour a pair by more than the threshold. Where
/// it decides alone, the whole interval must be within it.
fn judge_bias(found: &DifferentialBias, evidence: &Evidence, thresholds: &Thresholds) -> Check {
    let it = &found.difference;
    let threshold = thresholds.bias_within(evidence.composite_range);
    let interval = it.interval;
    let figure = match thresholds.deciding_tier() {
        Tier::Expert => it.mean.abs(),
        Tier::Auto => interval.low.abs().max(interval.high.abs()),
    };
    let agreement = agreement(evidence, 1.0 - thresholds.level);
    let why = format!(
        "Auto − expert is {:+.2} [{:+.2}, {:+.2}] higher for the candidate, over {} scenarios{agreement}.",
        it.mean, interval.low, interval.high, it.blocks
    );
    let check = OpenCheck::new(
        "judge_bias",
        "auto favours one of the pairs by",
        Quantity::Points,
        Relation::AtMost,
        threshold,
    );
    let outcome = if Relation::AtMost.holds(figure, threshold) {
        Outcome::Passed
    } else {
        Outcome::Failed
    };
    check.finish(outcome, Some(figure), Some(why))
}

/// α of every criterion with its interval, clustered by scenario.
fn agreement(evidence: &Evidence, confidence: f64) -> String {
    let criteria = evidence.criteria.iter().filter_map(|it| {
        let raters = [it.expert.clone(), it.auto.clone()];
        let clusters = &evidence.criteria_scenarios;
        let found = alpha_interval(&raters, clusters, Metric::Ordinal, confidence).ok()??;
        let interval = found.interval.map_or_else(String::new, |it| {
            format!(" [{:.2}, {:.2}]", it.low, it.high)
        });
        Some(format!("{} {:.2}{interval}", it.criterion, found.alpha))
    });
    let criteria: Vec<String> = criteria.collect();
    match criteria.len() {
        0 => String::new(),
        _ => format!("; agreement (α): {}", criteria.join(", ")),
    }
}
