//! The queue of runs to be judged, and the progress of judging.
//!
//! Runs are found by their tags, params and artifacts only, so runs that other tools logged with
//! the same ones are judged, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use assize_domain::judge::Tier;
use assize_domain::rubric::Rubric;
use assize_domain::run::{RunStatus, artifact, metric, param, tag};
use assize_domain::scenario::Split;
use assize_domain::verdict::{RubricRef, VerdictFile, effective};
use assize_store::queue::{RecomputedRun, Reopening, RubricUse, TrackedPair};
use assize_store::rules::{Changed, pair_number};
use assize_store::{JudgingCounts, PendingQuery, PendingRun, Queue, Result};

use crate::runs::Entries;
use crate::verdicts::{Marks, counting, set_aside};
use crate::wire::Tracked;
use crate::{MlflowStore, lock, parallel};

/// The number of runs whose files are read at once.
const BATCH: usize = 64;

/// Whether a finished run is pending for a tier. A run without the tag `auto_pending` is pending
/// for the automatic tier, because tools that know only one tier do not set the tag.
pub(crate) fn waits(run: &Tracked, tier: Tier) -> bool {
    run.status == RunStatus::Finished
        && match (run.tag(tag::JUDGE_PENDING), tier) {
            (None, _) => false,
            (Some(expert), Tier::Expert) => expert == "true",
            (Some(_), Tier::Auto) => run.tag(tag::AUTO_PENDING) != Some("false"),
        }
}

pub(crate) fn rubric_of(run: &Tracked) -> RubricRef {
    let text = |key: &str| run.tag(key).unwrap_or_default().to_owned();
    RubricRef {
        id: text(tag::RUBRIC),
        sha256: text(tag::RUBRIC_SHA256),
    }
}

/// Whether a run is finished and can be judged.
pub(crate) fn is_finished(run: &Tracked) -> bool {
    run.status == RunStatus::Finished && run.tag(tag::JUDGE_PENDING).is_some()
}

/// The split of a run.
pub(crate) fn split_of(run: &Tracked) -> String {
    let split = run.param(param::SPLIT);
    split.unwrap_or(Split::Selection.as_str()).to_owned()
}

/// The pair of a run, with its split and rubric.
pub(crate) fn tracked_pair(run: &Tracked) -> TrackedPair {
    let tag = |key: &str| run.tag(key).unwrap_or_default().to_owned();
    let param = |key: &str| run.param(key).unwrap_or_default().to_owned();
    TrackedPair {
        split: split_of(run),
        rubric_sha256: tag(tag::RUBRIC_SHA256),
        model: param(param::MODEL),
        model_digest: tag(tag::MODEL_DIGEST),
        prompt: param(param::PROMPT),
        prompt_sha256: tag(tag::PROMPT_SHA256),
    }
}

impl Queue for MlflowStore {
    fn pending_each(
        &self,
        experiment: &str,
        query: &PendingQuery,
        visit: &mut dyn FnMut(PendingRun) -> Result<()>,
    ) -> Result<()> {
        let id = self.experiment_need(experiment)?;
        let marks = Marks::new(self);
        let on_desk = |run: &Tracked| {
            let kind = run.tag(tag::JUDGE_KIND).unwrap_or_default();
            query
                .judge_kind
                .as_ref()
                .is_none_or(|wanted| wanted == kind)
        };
        self.cells_each(&id, &mut |mut runs| {
            runs.retain(|run| waits(run, query.tier) && on_desk(run));
            for some in runs.chunks(BATCH) {
                let read = parallel::each(some, |run| {
                    let files = counting(self.verdicts_read(run, &marks)?, &set_aside(run));
                    self.pending_read(run, query.tier, &files)
                })?;
                read.into_iter().flatten().try_for_each(&mut *visit)?;
            }
            Ok(true)
        })
    }

    fn judging_count(&self, experiment: &str) -> Result<JudgingCounts> {
        let id = self.experiment_need(experiment)?;
        let mut counts = JudgingCounts::default();
        let mut by_kind: BTreeMap<String, u64> = BTreeMap::new();
        self.cells_each(&id, &mut |runs| {
            for run in runs
                .iter()
                .filter(|run| run.tag(tag::JUDGE_PENDING).is_some())
            {
                match run.status {
                    RunStatus::Failed => counts.failed += 1,
                    RunStatus::Finished => {
                        counts.runs += 1;
                        counts.candidates += whole(run.metric(metric::N_CANDIDATES));
                        if waits(run, Tier::Expert) {
                            counts.expert_pending += 1;
                            let kind = run.tag(tag::JUDGE_KIND).unwrap_or_default();
                            *by_kind.entry(kind.to_owned()).or_default() += 1;
                        } else {
                            counts.expert_judged += 1;
                        }
                        if waits(run, Tier::Auto) {
                            counts.auto_pending += 1;
                        } else {
                            counts.auto_judged += 1;
                        }
                    }
                    _ => {}
                }
            }
            Ok(true)
        })?;
        counts.pending_by_kind = by_kind.into_iter().collect();
        Ok(counts)
    }

    fn rubric_list(&self, experiment: &str) -> Result<Vec<RubricUse>> {
        let id = self.experiment_need(experiment)?;
        let mut uses: Vec<RubricUse> = Vec::new();
        self.cells_each(&id, &mut |runs| {
            for run in runs.iter().filter(|it| is_finished(it)) {
                let rubric = rubric_of(run);
                let known = uses.iter().position(|it| it.rubric == rubric);
                let mut newest = known.map_or_else(
                    || RubricUse {
                        rubric,
                        run_id: String::new(),
                        runs: 0,
                        expert_pending: 0,
                        auto_pending: 0,
                    },
                    |place| uses.remove(place),
                );
                newest.run_id.clone_from(&run.run_id);
                newest.runs += 1;
                newest.expert_pending += u64::from(waits(run, Tier::Expert));
                newest.auto_pending += u64::from(waits(run, Tier::Auto));
                uses.push(newest);
            }
            Ok(true)
        })?;
        Ok(uses)
    }

    fn pair_list(&self, experiment: &str) -> Result<Vec<TrackedPair>> {
        let id = self.experiment_need(experiment)?;
        let mut pairs = BTreeSet::new();
        self.cells_each(&id, &mut |runs| {
            let finished = runs.iter().filter(|it| is_finished(it));
            pairs.extend(finished.map(tracked_pair));
            Ok(true)
        })?;
        Ok(pairs.into_iter().collect())
    }

    fn runs_reopen(&self, reopening: &Reopening) -> Result<u64> {
        // If one of the runs does not exist, none is reopened.
        let runs = parallel::each(&reopening.run_ids, |run_id| self.run_find(run_id))?;
        let marks = Marks::new(self);
        let reopened = parallel::each(&runs, |run| self.run_reopen(run, reopening, &marks))?;
        lock(&self.waiting).clear();
        Ok(reopened.into_iter().map(u64::from).sum())
    }

    fn runs_recompute(&self, runs: &[RecomputedRun], rubric: &Rubric) -> Result<u64> {
        let marks = Marks::new(self);
        let changed = parallel::each(runs, |it| self.run_recompute(it, rubric, &marks))?;
        lock(&self.waiting).clear();
        Ok(changed.into_iter().map(u64::from).sum())
    }
}

impl MlflowStore {
    fn run_recompute(
        &self,
        it: &RecomputedRun,
        rubric: &Rubric,
        marks: &Marks<'_>,
    ) -> Result<bool> {
        let run = self.run_load(&it.run_id)?;
        let reopening = Reopening {
            run_ids: Vec::new(),
            rubric: Some(rubric.clone()),
            tiers: Vec::new(),
        };
        let mut is_changed = self.run_reopen(&run, &reopening, marks)?;
        if let Some(content) = &it.candidates {
            self.candidates_replace(&run, content)?;
            is_changed = true;
        }
        if let Some(file) = &it.verdicts {
            let run = self.run_load(&it.run_id)?;
            let judged = self.run_judge(&run, file, rubric, Changed::Revise, None, marks)?;
            is_changed |= judged.written;
        }
        Ok(is_changed)
    }

    fn run_reopen(&self, run: &Tracked, reopening: &Reopening, marks: &Marks<'_>) -> Result<bool> {
        let mut aside = set_aside(run);
        let mut entries = Entries::default();
        if let Some(rubric) = &reopening.rubric {
            if run.tag(tag::RUBRIC_SHA256) == Some(rubric.sha256.as_str()) {
                return Ok(false);
            }
            self.file_put(run, artifact::RUBRIC, rubric.text.as_bytes())?;
            entries.tags = vec![
                (tag::RUBRIC.to_owned(), rubric.id.clone()),
                (tag::RUBRIC_SHA256.to_owned(), rubric.sha256.clone()),
            ];
        } else {
            let before = aside.len();
            for file in counting(self.verdicts_read(run, marks)?, &aside) {
                if reopening.tiers.contains(&file.tier) && !aside.contains(&file.sitting) {
                    aside.push(file.sitting);
                }
            }
            if aside.len() == before {
                return Ok(false);
            }
        }
        // A sitting that holds the run would judge its previous state.
        self.leases_end(run)?;
        // An artifact that is stored as a tag is read from the tags.
        let run = self.run_load(&run.run_id)?;
        self.set_aside_write(&run, &aside, entries, marks)?;
        Ok(true)
    }

    /// The data of a run that a judge needs; `None` if there is nothing to judge. `files` are the
    /// verdict files that count.
    pub(crate) fn pending_read(
        &self,
        run: &Tracked,
        tier: Tier,
        files: &[VerdictFile],
    ) -> Result<Option<PendingRun>> {
        let candidates = self.candidates_read(run)?;
        if candidates.iter().all(|candidate| candidate.text.is_none()) {
            return Ok(None);
        }
        let rubric = rubric_of(run);
        let judged = effective(files, tier, &rubric.sha256);
        Ok(Some(PendingRun {
            run_id: run.run_id.clone(),
            scenario: run.param(param::SCENARIO).unwrap_or_default().to_owned(),
            split: split_of(run),
            pair: pair_number(tracked_pair(run)),
            judge_kind: run.tag(tag::JUDGE_KIND).unwrap_or_default().to_owned(),
            judged: judged.into_keys().collect(),
            rubric,
            context: self
                .context_read(run)?
                .map_or_else(|| "{}".to_owned(), |text| text.to_string()),
            candidates,
        }))
    }

    /// The context of a run, which all runs of its scenario share.
    pub(crate) fn context_read(&self, run: &Tracked) -> Result<Option<Arc<str>>> {
        let key = run.tag(tag::SCENARIO_SHA256).filter(|it| !it.is_empty());
        let known = key.and_then(|key| lock(&self.texts).get(key).map(Arc::clone));
        if known.is_some() {
            return Ok(known);
        }
        let text: Option<Arc<str>> = self.file_text(run, artifact::CONTEXT)?.map(Into::into);
        if let (Some(key), Some(text)) = (key, &text) {
            self.text_remember(key.to_owned(), text);
        }
        Ok(text)
    }
}

/// A count that was logged as a metric.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and counts are small"
)]
pub(crate) fn whole(count: Option<f64>) -> u64 {
    count.unwrap_or(0.0) as u64
}
