//! Decisions that all stores share: which verdicts are new, which cases a sitting need not score,
//! and a run's summary when verdicts are set aside.
//!
//! These are pure functions on domain types, so that the embedded store and a remote one cannot
//! differ. Nothing here reads or writes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use assize_domain::candidate::Candidate;
use assize_domain::judge::Tier;
use assize_domain::ledger::UnreadableEntry;
use assize_domain::promotion::Promotion;
use assize_domain::rubric::Rubric;
use assize_domain::run::{artifact, metric, tag};
use assize_domain::sitting::Sitting;
use assize_domain::verdict::{Summary, Verdict, VerdictFile, summarise};

use crate::queue::TrackedPair;
use crate::{PendingRun, Result, StoreError};

/// How to handle different scores for a case that the same sitting has judged already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Refuse,
    /// Store them as a later part, which replaces the earlier one.
    Revise,
}

/// Rejects verdicts that could never count: under another rubric than the run's, of a sitting that
/// is set aside, or on a candidate without a text, which is not `judgeable`.
pub fn verdicts_check(
    run_id: &str,
    file: &VerdictFile,
    rubric: &Rubric,
    run_rubric_sha256: Option<&str>,
    aside: &[String],
    judgeable: &[u32],
) -> Result<()> {
    let current = run_rubric_sha256.unwrap_or(&rubric.sha256);
    if file.rubric.sha256 != rubric.sha256 || file.rubric.sha256 != current {
        return Err(StoreError::Conflict(format!(
            "the verdicts for run {run_id} use another version of the rubric '{}' than the run: it \
             was reopened, so export the cases again",
            file.rubric.id
        )));
    }
    if aside.contains(&file.sitting) {
        return Err(StoreError::Conflict(format!(
            "run {run_id} was reopened after sitting {} had judged it, so verdicts of that sitting \
             no longer count: export the cases again",
            file.sitting
        )));
    }
    let mut given = file.verdicts.iter().map(|it| it.candidate);
    match given.find(|index| !judgeable.contains(index)) {
        Some(candidate) => Err(StoreError::Conflict(format!(
            "run {run_id} has no candidate {candidate} with a text to judge: check the file"
        ))),
        None => Ok(()),
    }
}

/// Removes the verdicts from a file that its sitting has already submitted unchanged.
pub fn keep_new(
    kept: &[VerdictFile],
    file: &mut VerdictFile,
    changed: Changed,
    what: impl Fn() -> String,
) -> Result<()> {
    let sitting = &file.sitting;
    let mut differs = None;
    file.verdicts
        .retain(|verdict| match latest(kept, sitting, verdict.candidate) {
            Some(same) if same.scores == verdict.scores && same.rationale == verdict.rationale => {
                false
            }
            known => {
                if known.is_some() {
                    differs = Some(verdict.candidate);
                }
                true
            }
        });
    match differs.filter(|_| changed == Changed::Refuse) {
        Some(candidate) => Err(StoreError::Conflict(format!(
            "sitting {sitting} has already judged candidate {candidate} of {}, with different scores or \
             another rationale: verdicts are never overwritten, so correct it with `assize judge \
             amend`, or let another judge export the cases again",
            what()
        ))),
        None => Ok(()),
    }
}

fn latest<'a>(kept: &'a [VerdictFile], sitting: &str, candidate: u32) -> Option<&'a Verdict> {
    kept.iter()
        .rev()
        .filter(|file| file.sitting == sitting)
        .flat_map(|file| &file.verdicts)
        .find(|verdict| verdict.candidate == candidate)
}

/// `verdicts/SITTING.json`, or the next part of it.
pub fn free_path(is_taken: impl Fn(&str) -> bool, sitting: &str) -> String {
    let folder = artifact::VERDICTS;
    let mut path = format!("{folder}{sitting}.json");
    let mut part = 1;
    while is_taken(&path) {
        part += 1;
        path = format!("{folder}{sitting}.{part}.json");
    }
    path
}

/// The indexes of the candidates that have a text.
pub fn judgeable(candidates: &[Candidate]) -> Vec<u32> {
    let with_text = candidates.iter().filter(|it| it.text.is_some());
    with_text.map(|it| it.index).collect()
}

/// The number of cases of a run that are still to be scored.
pub fn open_cases(run: &PendingRun) -> usize {
    run.open_candidates().count()
}

/// A pending run, as the order of scenarios sees it.
pub trait PendingPlace {
    fn scenario(&self) -> &str;
    fn split(&self) -> &str;
    /// Identifies the pair of the run; `None` if the run is not for the sitting in question.
    fn pair(&self) -> Option<u64>;
}

/// The number of pairs of an experiment in each split.
pub type PairCounts = BTreeMap<String, usize>;

/// Groups pending runs by scenario, in the order in which scenarios are handed out: first those in
/// which every pair of the experiment waits, so that one sitting can judge all pairs side by side,
/// then those in which most pairs wait, then by the age of their first runs. `count_pairs` is
/// called only where it makes a difference: within one split, the scenarios in which every pair
/// waits are those in which most do.
pub fn by_scenario<R: PendingPlace, E>(
    runs: Vec<R>,
    count_pairs: impl FnOnce() -> std::result::Result<PairCounts, E>,
) -> std::result::Result<Vec<Vec<R>>, E> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Vec<R>> = Vec::new();
    for run in runs {
        let place = if let Some(place) = places.get(run.scenario()) {
            *place
        } else {
            places.insert(run.scenario().to_owned(), groups.len());
            groups.push(Vec::new());
            groups.len() - 1
        };
        groups[place].push(run);
    }
    let waiting = |group: &[R]| {
        let pairs: HashSet<u64> = group.iter().filter_map(PendingPlace::pair).collect();
        pairs.len()
    };
    let split = |group: &[R]| group.first().map_or("", PendingPlace::split).to_owned();
    let splits: HashSet<String> = groups.iter().map(|it| split(it)).collect();
    let counts = if splits.len() > 1 {
        count_pairs()?
    } else {
        PairCounts::new()
    };
    groups.sort_by_cached_key(|group| {
        let pairs = waiting(group);
        let is_complete = counts.get(&split(group)).is_some_and(|all| pairs >= *all);
        (Reverse(is_complete), Reverse(pairs))
    });
    Ok(groups)
}

/// A number for what identifies a pair.
pub fn pair_number(identity: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    hasher.finish()
}

/// How many of these pairs are in each split, under one rubric.
pub fn pair_counts(pairs: &[TrackedPair], rubric_sha256: &str) -> PairCounts {
    let mut counts = PairCounts::new();
    for pair in pairs.iter().filter(|it| it.rubric_sha256 == rubric_sha256) {
        *counts.entry(pair.split.clone()).or_default() += 1;
    }
    counts
}

/// The run as a sitting gets it: `judged` holds the candidates that it need not score, because
/// enough other sittings have scored or hold them, or because its own judge has scored them.
/// `files` are the verdict files that count, `others` the other live sittings that hold the run.
/// `None` if the run has another rubric.
pub fn pending_for(
    mut pending: PendingRun,
    sitting: &Sitting,
    files: &[VerdictFile],
    others: &[String],
) -> Option<PendingRun> {
    if pending.rubric != sitting.rubric {
        return None;
    }
    let mut scored_by: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    let mut own = BTreeSet::new();
    let of_tier = files
        .iter()
        .filter(|file| file.counts_in(sitting.tier) && file.rubric == sitting.rubric);
    for file in of_tier {
        let (of_sitting, judge) = file.rater();
        let is_own = of_sitting == sitting.id
            || sitting
                .judge
                .as_ref()
                .is_some_and(|it| it.is_namesake(judge));
        for verdict in &file.verdicts {
            scored_by
                .entry(verdict.candidate)
                .or_default()
                .insert(of_sitting);
            if is_own {
                own.insert(verdict.candidate);
            }
        }
    }
    let copies = sitting.copies.max(1) as usize;
    let nobody = BTreeSet::new();
    let enough = |index: u32| {
        let scored_by = scored_by.get(&index).unwrap_or(&nobody);
        let coming = others.iter().filter(|it| !scored_by.contains(it.as_str()));
        scored_by.len() + coming.count() >= copies
    };
    let indexes = pending.candidates.iter().map(|it| it.index);
    pending.judged = indexes
        .filter(|index| own.contains(index) || enough(*index))
        .collect();
    Some(pending)
}

/// The summary of a run after the list of sittings set aside has changed. A metric without
/// remaining verdicts becomes NaN, because a tracking server can append to a metric but not delete
/// it. The second list contains the tags to delete.
pub fn derive_again(
    files: &[VerdictFile],
    rubric: &Rubric,
    judgeable: usize,
    has_metric: impl Fn(&str) -> Result<bool>,
) -> Result<(Summary, Vec<&'static str>)> {
    let mut summary = summarise(files, rubric, judgeable);
    for name in rubric.score_names().chain([metric::COMPOSITE]) {
        let plain = [name.to_owned()];
        let of_tiers = Tier::ALL.map(|tier| format!("{tier}.{name}"));
        for gone in plain.into_iter().chain(of_tiers) {
            let supported = summary.metrics.iter().any(|(known, _)| *known == gone);
            if !supported && has_metric(&gone)? {
                summary.metrics.push((gone, f64::NAN));
            }
        }
    }
    let gone = [
        tag::JUDGED_BY,
        tag::JUDGED_AT,
        tag::AUTO_JUDGED_BY,
        tag::AUTO_JUDGED_AT,
    ];
    let gone = gone
        .into_iter()
        .filter(|gone| !summary.tags.iter().any(|(known, _)| known == gone))
        .collect();
    Ok((summary, gone))
}

/// The error if the champion has changed meanwhile.
pub fn superseded(wanted: &Promotion, latest: Option<&Promotion>) -> StoreError {
    let champion = latest.map_or_else(
        || "there is no champion any more".to_owned(),
        |it| {
            format!(
                "now it is {}, since {} by {}",
                it.champion.pair(),
                it.at,
                it.by
            )
        },
    );
    StoreError::Superseded {
        task: wanted.task.clone(),
        champion,
    }
}

/// The error about a tag that should hold an entry of the ledger.
pub fn ledger_unreadable(experiment: &str, error: &UnreadableEntry) -> StoreError {
    StoreError::Unreadable {
        what: format!(
            "the tag '{}' of the experiment '{experiment}', an entry of its ledger,",
            error.key
        ),
        reason: error.reason.clone(),
    }
}

/// The error for an unknown experiment; `known` are the existing ones.
pub fn no_experiment(name: &str, mut known: Vec<String>) -> StoreError {
    let more = known.len().saturating_sub(5);
    known.truncate(5);
    let remedy = match (known.is_empty(), more) {
        (true, _) => "there are no experiments yet, so run `assize collect` first".to_owned(),
        (false, 0) => format!("choose one of {}", known.join(", ")),
        (false, more) => format!("choose one of {} or {more} more", known.join(", ")),
    };
    StoreError::NoExperiment {
        name: name.to_owned(),
        remedy,
    }
}

/// How many runs are named where the start of an id fits several.
pub const AMBIGUOUS_SHOWN: usize = 8;

/// What to say where the start of an id fits several runs.
pub fn ambiguous_hint<'a>(ids: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = if ids.len() > AMBIGUOUS_SHOWN {
        " and more"
    } else {
        ""
    };
    let shown: Vec<&str> = ids.take(AMBIGUOUS_SHOWN).collect();
    format!(
        ": several ids start so, give more characters of one: {}{more}",
        shown.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(&'static str, &'static str, u64);

    impl PendingPlace for Place {
        fn scenario(&self) -> &str {
            self.0
        }

        fn split(&self) -> &str {
            self.1
        }

        fn pair(&self) -> Option<u64> {
            (self.2 > 0).then_some(self.2)
        }
    }

    fn order(runs: Vec<Place>, counts: &[(&str, usize)]) -> Vec<&'static str> {
        let counts = counts
            .iter()
            .map(|(split, count)| ((*split).to_owned(), *count));
        let counts: PairCounts = counts.collect();
        let groups = by_scenario(runs, || Ok::<_, ()>(counts)).unwrap();
        groups.iter().map(|group| group[0].0).collect()
    }

    #[test]
    fn scenarios_with_most_pending_pairs_come_first_and_equal_ones_by_age() {
        let runs = vec![
            Place("a", "selection", 1),
            Place("b", "selection", 1),
            Place("b", "selection", 2),
            Place("c", "selection", 2),
            Place("d", "selection", 2),
            Place("d", "selection", 1),
            // Two runs of one pair, and a run that is not for this sitting.
            Place("a", "selection", 1),
            Place("c", "selection", 0),
        ];
        assert_eq!(order(runs, &[]), ["b", "d", "a", "c"]);
    }

    #[test]
    fn complete_scenarios_of_another_split_come_before_incomplete_ones() {
        let runs = || {
            vec![
                Place("s1", "selection", 1),
                Place("s1", "selection", 2),
                Place("s1", "selection", 3),
                Place("c1", "confirmation", 1),
                Place("c1", "confirmation", 2),
            ]
        };
        let counts = [("selection", 4), ("confirmation", 2)];
        assert_eq!(order(runs(), &counts), ["c1", "s1"]);
        let counts = [("selection", 3), ("confirmation", 2)];
        assert_eq!(order(runs(), &counts), ["s1", "c1"]);
    }
}
