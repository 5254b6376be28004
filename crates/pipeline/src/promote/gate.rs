//! The gate: may this candidate replace this incumbent?
//!
//! A pure function from evidence and thresholds to a list of checks, each with its figure. It
//! reads nothing and knows no store, so that the simulation of its error rates
//! ([`super::calibrate`]) calls the very code that `assize promote` does.
//!
//! Every check must hold. They ask different questions: is it better at all, with the error rate
//! held over all challengers (adjusted p); by enough to matter (lower bound, margin); without a
//! regression elsewhere (flags, worst scenario); for both tiers (ranks), which agree well enough
//! (α and bias by criterion); on all of the data (coverage); and once more on
//! scenarios that the choice has not seen (confirmation). The confirmation split stays sealed
//! until every other check has passed, so that candidates cannot be tried on it one after another.
//!
//! It deliberately has no overall score: a large win never compensates for a failed check.

use std::borrow::Cow;

use assize_domain::judge::Tier;
use assize_domain::promotion::{Check, Outcome, Quantity, Relation};
use assize_stats::paired::{self, PairedDiff};
use assize_stats::table::Cell;
use assize_stats::two_tier::TierCell;
use assize_stats::{MIN_TEST_BLOCKS, StatsError, describe};

use self::open_check::OpenCheck;
use super::thresholds::Thresholds;
use crate::compare::comparability::Comparability;
use crate::compare::family::Family;
use crate::compare::harm::Segments;
use crate::compare::two_tier::DoubleScored;
use crate::error::count;

mod comparable;
mod confirmation;
mod harm;
mod judging;
mod open_check;
mod resources;
#[cfg(test)]
mod tests;

/// Everything that the gate looks at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    /// Places in every tier's `means`.
    pub candidate: usize,
    pub incumbent: usize,
    /// The champion, where the incumbent is another pair.
    pub champion: Option<usize>,
    /// Names of the scenarios, in the order of the means.
    pub scenarios: Vec<String>,
    pub tiers: Vec<TierEvidence>,
    /// How the scenarios are grouped.
    pub segments: Vec<Segments>,
    pub comparability: Comparability,
    /// Collected pairs that the deciding tier has not judged enough to be tested.
    pub unjudged_pairs: usize,
    /// What both tiers have scored, by criterion of the composite.
    pub criteria: Vec<DoubleScored>,
    /// By item of the criteria: the place of its scenario.
    pub criteria_scenarios: Vec<usize>,
    /// The cells of the candidate and of the incumbent, with the scores of both tiers.
    pub two_tiers: [Vec<Option<TierCell>>; 2],
    /// By scenario: ln(candidate's latency / incumbent's), and the same of what candidates cost.
    pub log_latency_ratios: Vec<f64>,
    pub log_cost_ratios: Vec<f64>,
    /// `None` where the task has no confirmation split.
    pub confirmation: Option<Confirmation>,
    /// Whether every score is computed, so that there are no judges to ask about.
    pub is_computed: bool,
    /// The smallest and the largest composite that the rubric allows.
    pub composite_range: (f64, f64),
    /// Seeds what is drawn where exact enumeration is out of reach.
    pub seed: u64,
    /// The tests of the deciding tier's scores, where they were made before.
    pub family: Option<Family>,
}

/// One tier's scores on the selection split.
#[derive(Debug, Clone, PartialEq)]
pub struct TierEvidence {
    pub tier: Tier,
    /// Mean composite by pair and scenario, of all pairs: the family that p is adjusted over.
    pub means: Vec<Vec<Option<f64>>>,
    /// The cells of the candidate and of the incumbent by scenario.
    pub cells: [Vec<Option<Cell>>; 2],
    /// The share of the two pairs' verdicts that come from different raters.
    pub judged_apart: Option<f64>,
    pub flags: Vec<FlagShares>,
    /// Cells of the two pairs that are failed, missing or not wholly judged.
    pub missing_cells: usize,
}

/// How often a flag is set.
#[derive(Debug, Clone, PartialEq)]
pub struct FlagShares {
    pub name: String,
    /// Its weight in the composite, whose sign says which direction is good.
    pub weight: f64,
    pub candidate: Option<f64>,
    pub incumbent: Option<f64>,
}

/// The deciding tier's scores on the confirmation split.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Confirmation {
    /// Candidate minus incumbent, for each scenario that both have.
    pub differences: Vec<f64>,
    /// Scenarios of the split.
    pub scenarios: usize,
    /// Cells of the two pairs that are failed, missing or not wholly judged.
    pub missing_cells: usize,
    /// The spread of differences between scenarios that the test expects, fixed before this split
    /// was looked at: that of the selection split.
    pub scale: f64,
    pub flags: Vec<FlagShares>,
    /// The share of the two pairs' verdicts that come from different raters.
    pub judged_apart: Option<f64>,
    pub comparability: Comparability,
}

/// What the gate found.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    /// The tier whose scores the tests used.
    pub tier: Tier,
    pub checks: Vec<Check>,
    pub passed: bool,
}

/// Runs every check.
pub fn gate(evidence: &Evidence, thresholds: &Thresholds) -> Ruling {
    let tier = thresholds.deciding_tier();
    let deciding = evidence.tiers.iter().find(|it| it.tier == tier);
    let differences = deciding.map_or_else(Vec::new, |it| evidence.differences(it));
    let paired = compare(&differences, thresholds.level);
    let mut checks = vec![significance(evidence, deciding, thresholds)];
    checks.extend(champion(evidence, deciding, thresholds));
    let margin = thresholds.margin_within(evidence.composite_range);
    checks.extend(difference(&paired, thresholds.level, margin));
    checks.push(comparable::family(evidence, tier));
    checks.extend(comparable::comparable(evidence, deciding, thresholds));
    checks.extend(harm::harm(evidence, deciding, thresholds));
    checks.extend(deciding.iter().flat_map(|it| flags(it, thresholds)));
    checks.extend(ranks(evidence, thresholds));
    checks.extend(judging::judges(evidence, thresholds));
    checks.extend(resources::resources(evidence, thresholds));
    checks.push(coverage(tier, deciding, thresholds));
    let is_clear = checks.iter().all(|it| it.outcome != Outcome::Failed);
    checks.extend(confirmation::confirmation(evidence, thresholds, is_clear));
    let stands = |it: &Check| !matches!(it.outcome, Outcome::Failed | Outcome::Sealed);
    Ruling {
        tier,
        passed: checks.iter().all(stands),
        checks,
    }
}

impl Evidence {
    /// Candidate minus incumbent by scenario.
    fn differences(&self, tier: &TierEvidence) -> Vec<Option<f64>> {
        let means = self.penalised(tier);
        let of = |pair: usize| means.get(pair).map_or(&[][..], Vec::as_slice);
        paired::differences(of(self.candidate), of(self.incumbent))
    }

    /// The means with the candidate's lost ones counted against it: of its requests, the share that
    /// failed beyond the incumbent's share counts as the lowest composite. Otherwise a pair whose worst
    /// outputs fail would look better for it.
    fn penalised<'a>(&self, tier: &'a TierEvidence) -> Cow<'a, [Vec<Option<f64>>]> {
        let [ours, theirs] = self.comparability.lost;
        let excess = ours - theirs;
        let row = tier.means.get(self.candidate);
        let judged: Vec<f64> = row.into_iter().flatten().flatten().copied().collect();
        let Some(mean) = describe::mean(&judged) else {
            return Cow::Borrowed(&tier.means);
        };
        let penalty = excess * (mean - self.composite_range.0);
        if excess <= 0.0 || penalty <= 0.0 {
            return Cow::Borrowed(&tier.means);
        }
        let mut means = tier.means.clone();
        for cell in means[self.candidate].iter_mut().flatten() {
            *cell -= penalty;
        }
        Cow::Owned(means)
    }
}

impl Evidence {
    /// The tests of one tier's scores: those that were made before, unless lost candidates count.
    fn family_of(&self, tier: &TierEvidence) -> Cow<'_, Family> {
        match (self.penalised(tier), &self.family) {
            (Cow::Borrowed(_), Some(family)) => Cow::Borrowed(family),
            (means, _) => Cow::Owned(Family::new(&means, Some(self.incumbent), self.seed)),
        }
    }
}

fn compare(differences: &[Option<f64>], level: f64) -> Result<PairedDiff, StatsError> {
    let shared: Vec<f64> = differences.iter().flatten().copied().collect();
    paired::paired_diff(&shared, 1.0 - level)
}

fn significance(
    evidence: &Evidence,
    deciding: Option<&TierEvidence>,
    thresholds: &Thresholds,
) -> Check {
    let family = deciding.map_or_else(Cow::default, |it| evidence.family_of(it));
    let versus = family.versus(evidence.candidate);
    let p = versus.and_then(|it| it.p_adjusted);
    let why = p.is_none().then(|| {
        format!(
            "It cannot be tested: {MIN_TEST_BLOCKS} scenarios that both pairs have, judged by {}, are needed.",
            thresholds.deciding_tier()
        )
    });
    OpenCheck::new(
        "p_adjusted",
        &format!("better: p over {}", count(family.tested(), "challenger")),
        Quantity::P,
        Relation::AtMost,
        thresholds.level,
    )
    .against(p, why)
}

/// Whoever replaces the champion must beat it, also where another incumbent was named.
fn champion(
    evidence: &Evidence,
    deciding: Option<&TierEvidence>,
    thresholds: &Thresholds,
) -> Option<Check> {
    let champion = evidence.champion?;
    let family = deciding.map(|it| {
        let means = evidence.penalised(it);
        Family::new(&means, Some(champion), evidence.seed)
    });
    let versus = family.as_ref().and_then(|it| it.versus(evidence.candidate));
    let why =
        "--incumbent names another pair than the champion, which the candidate would replace.";
    let check = OpenCheck::new(
        "champion",
        "better than the champion, too: p",
        Quantity::P,
        Relation::AtMost,
        thresholds.level,
    );
    Some(check.against(versus.and_then(|it| it.p_adjusted), Some(why.to_owned())))
}

fn difference(paired: &Result<PairedDiff, StatsError>, level: f64, margin: f64) -> [Check; 2] {
    let why = paired.as_ref().err().map(|_| {
        "There is no difference to look at: two scenarios that both have are needed.".to_owned()
    });
    let figures = paired.as_ref().ok();
    let bound = format!("lower bound ({:.0} %)", (1.0 - level) * 100.0);
    [
        OpenCheck::new(
            "lower_bound",
            &bound,
            Quantity::Points,
            Relation::Above,
            0.0,
        )
        .against(figures.map(|it| it.lower_bound), why.clone()),
        OpenCheck::new(
            "margin",
            "difference worth having",
            Quantity::Points,
            Relation::AtLeast,
            margin,
        )
        .against(figures.map(|it| it.mean), why),
    ]
}

fn flags<'a>(
    deciding: &'a TierEvidence,
    thresholds: &'a Thresholds,
) -> impl Iterator<Item = Check> + use<'a> {
    deciding
        .flags
        .iter()
        .map(|flag| flag_check(&format!("flag.{}", flag.name), &flag.name, flag, thresholds))
}

fn flag_check(name: &str, label: &str, flag: &FlagShares, thresholds: &Thresholds) -> Check {
    let is_good = flag.weight > 0.0;
    let (direction, relation, threshold) = if is_good {
        (
            "should not fall",
            Relation::AtLeast,
            -thresholds.flag_margin,
        )
    } else {
        ("should not rise", Relation::AtMost, thresholds.flag_margin)
    };
    let check = OpenCheck::new(
        name,
        &format!("{label}: {direction}"),
        Quantity::Share,
        relation,
        threshold,
    );
    let change = flag.candidate.zip(flag.incumbent).map(|(a, b)| a - b);
    if flag.weight == 0.0 {
        let why = "The composite does not use it, so neither direction is good.";
        return check.finish(Outcome::NotApplicable, change, Some(why.to_owned()));
    }
    let why = change
        .is_none()
        .then(|| "One of the pairs has no judged candidates.".to_owned());
    check.against(change, why)
}

/// Each required tier must put the candidate above the incumbent.
fn ranks(evidence: &Evidence, thresholds: &Thresholds) -> Vec<Check> {
    let mut required = thresholds.require.clone();
    required.sort();
    required.dedup();
    let check = |tier: &Tier| {
        let found = evidence.tiers.iter().find(|it| it.tier == *tier);
        let differences = found.map_or_else(Vec::new, |it| evidence.differences(it));
        let shared: Vec<f64> = differences.into_iter().flatten().collect();
        let mean = describe::mean(&shared);
        let why = mean.is_none().then(|| {
            format!(
                "This tier has judged no scenario of both pairs; require in [gate] asks for {tier}."
            )
        });
        let check = OpenCheck::new(
            &format!("rank.{tier}"),
            &format!("ranked above by {tier}"),
            Quantity::Points,
            Relation::Above,
            0.0,
        );
        if evidence.is_computed {
            return check.computed();
        }
        check.against(mean, why)
    };
    required.iter().map(check).collect()
}

fn coverage(tier: Tier, deciding: Option<&TierEvidence>, thresholds: &Thresholds) -> Check {
    let missing = deciding.map(|it| it.missing_cells);
    let why = missing
        .is_none()
        .then(|| format!("Nothing is judged by {tier}."));
    OpenCheck::new(
        "missing_cells",
        &format!("cells without {tier} verdicts"),
        Quantity::Count,
        Relation::AtMost,
        f64::from(thresholds.missing_cells),
    )
    .against(missing.map(|it| it as f64), why)
}
