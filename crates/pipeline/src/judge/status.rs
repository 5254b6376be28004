//! Progress of judging, and how reliable the judges are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use assize_domain::candidate::Candidate;
use assize_domain::judge::Tier;
use assize_domain::own_model;
use assize_domain::run::artifact;
use assize_domain::scenario::Split;
use assize_domain::sitting::{Inclusion, Sitting, SittingState};
use assize_domain::verdict::RubricRef;
use assize_stats::describe::{correlation, mean};
use assize_store::queue::SittingRecord;
use assize_store::{Judging, JudgingCounts, Runs};

use super::agreement::{PairAgreement, agreement};
use super::drift::{Drift, FLAT};
use super::ratings::{self, Item, Rater, Ratings};
use super::spot_check::{PairEstimate, estimates};
use crate::{PipelineError, Result};

/// Runs whose texts are read for the correlation with length.
const TEXTS_READ: usize = 2_000;
/// Texts that are read at once.
const READERS: usize = 8;

/// Everything that `judge status` shows.
#[derive(Debug, serde::Serialize)]
pub struct Status {
    pub experiment: String,
    pub runs: u64,
    pub candidates: u64,
    pub failed: u64,
    pub expert: TierStatus,
    pub auto: TierStatus,
    pub pending_by_kind: BTreeMap<String, u64>,
    /// What the figures below are under.
    pub rubric: Option<RubricRef>,
    /// Judged candidates of the confirmation split that they leave out, because it is sealed.
    pub sealed: usize,
    pub judges: Vec<JudgeStatus>,
    pub agreement: Vec<PairAgreement>,
    pub sittings: Vec<SittingStatus>,
    /// From here on two tiers count as disagreeing, in points of the composite.
    pub delta: f64,
    /// The largest first; for diagnosis only.
    pub disagreements: Vec<Disagreement>,
    /// The latest spot check that is finished, else the latest.
    pub spot_check: Option<SpotStatus>,
    /// A later one that is still open.
    pub spot_check_out: Option<SpotStatus>,
    /// What makes the verdicts of a judge doubtful, a sentence each.
    pub warnings: Vec<String>,
}

/// Runs of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct TierStatus {
    pub pending: u64,
    pub judged: u64,
}

/// One judge's work under the newest rubric.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct JudgeStatus {
    pub tier: Tier,
    pub judge: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub verdicts: usize,
    pub composite: Option<f64>,
    /// Of composite and the text's length in characters.
    pub length_correlation: Option<f64>,
}

/// One sitting and what its anchors said.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SittingStatus {
    pub sitting: String,
    pub tier: Tier,
    pub state: SittingState,
    pub judge: Option<String>,
    /// Which version of the judge it was, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub opened_at: String,
    pub closed_at: Option<String>,
    pub drift: Option<Drift>,
}

/// Where an automatic judge and the experts are far apart.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Disagreement {
    #[serde(flatten)]
    pub item: Item,
    pub judge: String,
    pub auto: f64,
    pub expert: f64,
}

/// A spot check.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SpotStatus {
    pub sitting: String,
    pub drawn: usize,
    /// Drawn cases that no expert has judged yet.
    pub open: Vec<Inclusion>,
    pub estimates: Vec<PairEstimate>,
}

/// Looks at everything. `splits` are those whose scores may be shown; two tiers disagree where they
/// differ by more than `delta` points, by default a fifth of the composite's range.
pub fn status(
    store: &dyn Judging,
    experiment: &str,
    splits: &[Split],
    delta: Option<f64>,
) -> Result<Status> {
    let counts = store.judging_count(experiment)?;
    let records = store.sitting_list(experiment)?;
    let mut status = blank(experiment, counts, delta.unwrap_or(0.0));
    status.sittings = records.iter().map(sitting_status).collect();
    let Some(all) = ratings::read(store, experiment)? else {
        return Ok(status);
    };
    let hidden = all.items.iter().filter(|it| !splits.contains(&it.split));
    status.sealed = hidden.count();
    let visible = (status.sealed > 0).then(|| all.on_splits(splits));
    let ratings = visible.as_ref().unwrap_or(&all);
    let lengths = lengths(store, ratings)?;
    let judges = ratings.raters.iter().filter(|rater| rater.judge.is_some());
    status.judges = judges.map(|rater| judge_status(rater, &lengths)).collect();
    let kinds = ratings.raters.iter().filter_map(|it| it.judge.as_ref());
    let kinds = kinds.map(|judge| judge.kind.as_str());
    let models = ratings.items.iter().map(|item| item.model.as_str());
    let models: BTreeSet<&str> = models.collect();
    status.warnings = own_model::warnings(kinds, models);
    status.warnings.extend(flat_judges(&status.sittings));
    status.agreement = agreement(ratings);
    let (low, high) = ratings.rubric.composite_range();
    status.delta = delta.unwrap_or((high - low) / 5.0);
    status.disagreements = disagreements(ratings, status.delta);
    (status.spot_check, status.spot_check_out) = spot_checks(&all, ratings, &records);
    status.rubric = Some(all.rubric_ref);
    Ok(status)
}

fn blank(experiment: &str, counts: JudgingCounts, delta: f64) -> Status {
    Status {
        experiment: experiment.to_owned(),
        runs: counts.runs,
        candidates: counts.candidates,
        failed: counts.failed,
        expert: TierStatus {
            pending: counts.expert_pending,
            judged: counts.expert_judged,
        },
        auto: TierStatus {
            pending: counts.auto_pending,
            judged: counts.auto_judged,
        },
        pending_by_kind: counts.pending_by_kind.into_iter().collect(),
        rubric: None,
        sealed: 0,
        judges: Vec::new(),
        agreement: Vec::new(),
        sittings: Vec::new(),
        delta,
        disagreements: Vec::new(),
        spot_check: None,
        spot_check_out: None,
        warnings: Vec::new(),
    }
}

fn sitting_status(record: &SittingRecord) -> SittingStatus {
    let drift = record.drift.as_deref();
    SittingStatus {
        sitting: record.sitting.id.clone(),
        tier: record
            .judge
            .as_ref()
            .map_or(record.sitting.tier, assize_domain::judge::Judge::tier),
        state: record.state,
        judge: record.judge.as_ref().map(|it| it.name.clone()),
        version: record.judge.as_ref().and_then(|it| it.version.clone()),
        opened_at: record.sitting.opened_at.clone(),
        closed_at: record.closed_at.clone(),
        drift: drift.and_then(|text| serde_json::from_str(text).ok()),
    }
}

/// Automatic judges whose latest sitting scored good and bad anchors nearly alike. That is no drift
/// where they always did, but their verdicts tell little.
fn flat_judges(sittings: &[SittingStatus]) -> Vec<String> {
    let mut latest: BTreeMap<&str, f64> = BTreeMap::new();
    for sitting in sittings.iter().filter(|it| it.tier == Tier::Auto) {
        let slope = sitting.drift.and_then(|it| it.slope);
        if let (Some(judge), Some(slope)) = (&sitting.judge, slope) {
            latest.insert(judge, slope.value);
        }
    }
    let flat = latest.into_iter().filter(|(_, slope)| *slope < FLAT);
    flat.map(|(judge, slope)| {
        format!(
            "the judge {judge} gives good and bad calibration cases nearly the same scores (slope \
             {slope:.2}; 1 is the known scale), so its verdicts tell little"
        )
    })
    .collect()
}

fn judge_status(rater: &Rater, lengths: &HashMap<usize, f64>) -> JudgeStatus {
    let composites: Vec<f64> = rater.ratings.values().map(|it| it.composite).collect();
    let (long, scored): (Vec<f64>, Vec<f64>) = rater
        .ratings
        .iter()
        .filter_map(|(item, rating)| Some((*lengths.get(item)?, rating.composite)))
        .unzip();
    JudgeStatus {
        tier: rater.tier,
        judge: rater.label(),
        version: rater.judge.as_ref().and_then(|it| it.version.clone()),
        verdicts: composites.len(),
        composite: mean(&composites),
        length_correlation: correlation(&long, &scored),
    }
}

/// The length of each item's text in characters, of the first runs at least.
fn lengths(store: &dyn Runs, ratings: &Ratings) -> Result<HashMap<usize, f64>> {
    let mut by_run: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, item) in ratings.items.iter().enumerate() {
        by_run.entry(&item.run_id).or_default().push(place);
    }
    let runs: Vec<(&str, Vec<usize>)> = by_run.into_iter().take(TEXTS_READ).collect();
    // A tracking server takes its time for each text.
    let part = runs.len().div_ceil(READERS).max(1);
    std::thread::scope(|scope| {
        let readers: Vec<_> = runs
            .chunks(part)
            .map(|runs| scope.spawn(move || lengths_of(store, ratings, runs)))
            .collect();
        let mut lengths = HashMap::new();
        for reader in readers {
            let read = reader.join();
            lengths.extend(read.unwrap_or_else(|_| Err(PipelineError::worker_panicked()))?);
        }
        Ok(lengths)
    })
}

fn lengths_of(
    store: &dyn Runs,
    ratings: &Ratings,
    runs: &[(&str, Vec<usize>)],
) -> Result<HashMap<usize, f64>> {
    let mut lengths = HashMap::new();
    for (run_id, places) in runs {
        let text = store.artifact_get(run_id, artifact::CANDIDATES)?;
        let candidates: Vec<Candidate> =
            serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default();
        for place in places {
            let index = ratings.items[*place].candidate;
            let candidate = candidates.iter().find(|it| it.index == index);
            if let Some(text) = candidate.and_then(|it| it.text.as_ref()) {
                lengths.insert(*place, text.chars().count() as f64);
            }
        }
    }
    Ok(lengths)
}

fn disagreements(ratings: &Ratings, delta: f64) -> Vec<Disagreement> {
    let Some(expert) = ratings.expert() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for judge in ratings.judges(Tier::Auto) {
        for (item, rating) in &judge.ratings {
            let Some(of_expert) = expert.ratings.get(item) else {
                continue;
            };
            if (rating.composite - of_expert.composite).abs() > delta {
                found.push(Disagreement {
                    item: ratings.items[*item].clone(),
                    judge: judge.label(),
                    auto: rating.composite,
                    expert: of_expert.composite,
                });
            }
        }
    }
    found.sort_by(|a, b| {
        (b.auto - b.expert)
            .abs()
            .total_cmp(&(a.auto - a.expert).abs())
    });
    found
}

/// The latest spot check that is finished and a later one that is not; where none is finished,
/// the latest.
fn spot_checks(
    all: &Ratings,
    ratings: &Ratings,
    records: &[SittingRecord],
) -> (Option<SpotStatus>, Option<SpotStatus>) {
    let mut out = None;
    let ours =
        |sitting: &&Sitting| !sitting.inclusion.is_empty() && sitting.rubric == ratings.rubric_ref;
    let latest_first = records.iter().rev().map(|record| &record.sitting);
    for sitting in latest_first.filter(ours) {
        let open = open_cases(all, sitting);
        let spot = SpotStatus {
            sitting: sitting.id.clone(),
            drawn: sitting.inclusion.len(),
            estimates: estimates(ratings, sitting),
            open,
        };
        if spot.open.is_empty() {
            return (Some(spot), out);
        }
        out.get_or_insert(spot);
    }
    (out, None)
}

/// Drawn cases that no expert has judged yet.
fn open_cases(ratings: &Ratings, sitting: &Sitting) -> Vec<Inclusion> {
    let judged: BTreeSet<(&str, u32)> = ratings
        .expert()
        .into_iter()
        .flat_map(|expert| expert.ratings.keys())
        .map(|item| &ratings.items[*item])
        .map(|item| (item.run_id.as_str(), item.candidate))
        .collect();
    let cases = sitting.inclusion.iter();
    cases
        .filter(|case| !judged.contains(&(case.run_id.as_str(), case.candidate)))
        .cloned()
        .collect()
}
