//! Following a server: which runs have changed, and what a copy needs of them.
//!
//! MLflow's search knows no time of last change. Every change of Assize logs the metric
//! [`CHANGED`](crate::wire::CHANGED), which a search can compare. A change of another program, or
//! of an older version of Assize, is noticed by reading all runs.

use std::sync::Arc;

use assize_domain::hash::sha256;
use assize_domain::judge::Tier;
use assize_domain::promotion::Promotion;
use assize_domain::run::{RunStatus, artifact, tag};
use assize_store::embedded::EmbeddedStore;
use assize_store::following::{
    Followed, FollowedExperiment, FollowedRun, FollowedSink, Following, KnownVersions, RunLease,
    RunVersion, SkippedRun,
};
use assize_store::queue::SittingRecord;
use assize_store::{Promotions as _, Result, StoreError, Tracking as _};
use serde_json::json;

use crate::leases::leases;
use crate::promotions::PROMOTIONS;
use crate::sittings::key;
use crate::verdicts::Marks;
use crate::wire::{CHANGED, RunsAnswer, Tracked};
use crate::{MlflowStore, SITTINGS, lock, parallel};

/// The page size of a search for changes.
const PAGE: usize = 500;

impl Following for MlflowStore {
    fn follow_check(&self) -> Result<()> {
        // The first request, which also tells whether this is an MLflow server at all.
        self.experiment_fetch(SITTINGS)?;
        if self.is_assize()? {
            return Err(StoreError::InvalidAddress {
                uri: self.uri().to_owned(),
                reason: "this is `assize serve` itself: use its pages, or name an MLflow server"
                    .to_owned(),
            });
        }
        Ok(())
    }

    fn experiments_follow(&self) -> Result<Vec<FollowedExperiment>> {
        let all = self.experiments_all()?.into_iter();
        let all = all.map(|it| {
            let mut tags: Vec<(String, String)> = it
                .tags
                .into_iter()
                .map(|tag| (tag.key, tag.value))
                .collect();
            tags.sort();
            Ok(FollowedExperiment {
                id: self.experiment_number(&it.id)?,
                name: it.name,
                tags,
                created_ms: it.creation_time.unwrap_or(0),
                updated_ms: it.last_update_time.unwrap_or(0),
            })
        });
        all.collect()
    }

    fn experiments_used(&self, experiments: &[i64]) -> Result<Vec<i64>> {
        let mut left: Vec<String> = experiments.iter().map(ToString::to_string).collect();
        let mut used = Vec::new();
        for key in [tag::JUDGE_PENDING, key::SITTING] {
            let filter = format!("tags.{key} != ''");
            while !left.is_empty() {
                let page = self.search(&left, &filter, 1, None)?;
                let Some(run) = page.runs.into_iter().next() else {
                    break;
                };
                left.retain(|it| *it != run.experiment_id);
                used.push(self.experiment_number(&run.experiment_id)?);
            }
        }
        Ok(used)
    }

    fn runs_changed(
        &self,
        experiments: &[i64],
        since_ms: i64,
        known: KnownVersions<'_>,
        visit: FollowedSink<'_>,
    ) -> Result<()> {
        if experiments.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = experiments.iter().map(ToString::to_string).collect();
        let mut body = json!({
            "experiment_ids": ids,
            "filter": format!("metrics.`{CHANGED}` >= {since_ms}"),
            "run_view_type": "ALL",
            "max_results": PAGE,
        });
        loop {
            let page = self
                .rest
                .post::<RunsAnswer>("/api/2.0/mlflow/runs/search", &body)?;
            let page = page.map_err(|refusal| self.rest.refused("a search", &refusal))?;
            // Pages are offsets. A run that moves to an earlier page meanwhile is found by the
            // next search, which looks at the same time again.
            let is_wanted = visit(self.followed(page.runs, known)?)?;
            match page.next_page_token.filter(|token| !token.is_empty()) {
                Some(token) if is_wanted => body["page_token"] = json!(token),
                _ => return Ok(()),
            }
        }
    }

    fn runs_each(
        &self,
        experiment: i64,
        known: KnownVersions<'_>,
        visit: FollowedSink<'_>,
    ) -> Result<()> {
        self.scan_fetched(&experiment.to_string(), "", 0, &mut |runs| {
            visit(self.followed(runs, known)?)
        })
    }

    fn runs_follow(&self, run_ids: &[String]) -> Result<Followed> {
        let runs = parallel::each(run_ids, |run_id| match self.run_fetch(run_id) {
            Ok(run) => Ok(Some(run)),
            Err(StoreError::NoRun { .. }) => Ok(None),
            Err(error) => Err(error),
        })?;
        let found = runs.iter().flatten().cloned().collect();
        let mut followed = self.followed(found, &|_| None)?;
        for (run_id, _) in run_ids.iter().zip(&runs).filter(|(_, run)| run.is_none()) {
            followed.changed.push(RunVersion {
                run_id: run_id.clone(),
                experiment_id: 0,
                version: 0,
            });
        }
        Ok(followed)
    }

    fn copy_set(&self, copy: Arc<EmbeddedStore>) {
        *lock(&self.copy) = Some(copy);
    }

    fn forget(&self) {
        *lock(&self.copy) = None;
        lock(&self.experiments).clear();
        lock(&self.cells).clear();
        lock(&self.sittings).clear();
        lock(&self.texts).clear();
        lock(&self.waiting).clear();
        lock(&self.recent).clear();
    }
}

/// What a run of a server stands for.
enum Meaning {
    Run(Box<FollowedRun>),
    /// A run with a verdict file that cannot be read, and why. Boards report it.
    Damaged(Box<FollowedRun>, String),
    Sitting(Box<SittingRecord>),
    History(String, Vec<Promotion>),
    /// No reader sees it.
    Nothing,
}

impl MlflowStore {
    fn experiment_number(&self, id: &str) -> Result<i64> {
        id.parse().map_err(|_| {
            self.rest
                .unusable(format!("the id '{id}' of an experiment is not a number"))
        })
    }

    fn followed(&self, runs: Vec<Tracked>, known: KnownVersions<'_>) -> Result<Followed> {
        let mut followed = Followed {
            seen: runs.iter().map(|run| run.run_id.clone()).collect(),
            ..Followed::default()
        };
        let mut changed = Vec::new();
        for run in runs {
            let version = version_of(&run);
            if known(&run.run_id) != Some(version) {
                let version = RunVersion {
                    run_id: run.run_id.clone(),
                    experiment_id: self.experiment_number(&run.experiment_id)?,
                    version,
                };
                changed.push((version, run));
            }
        }
        let sittings = self.experiment_find(SITTINGS)?;
        let is_sitting = |run: &Tracked| sittings.as_ref() == Some(&run.experiment_id);
        let marks = Marks::new(self);
        let read = parallel::each(&changed, |(_, run)| {
            let meaning = if is_sitting(run) {
                self.sitting_meaning(run)
            } else {
                self.run_meaning(run, &marks)
            };
            match meaning {
                Ok(meaning) => Ok(Ok(meaning)),
                // A file that the server cannot deliver looks like an unreachable server, and must
                // not keep the other runs from being followed.
                Err(error) => self
                    .experiment_fetch(SITTINGS)
                    .map(|_| Err(error.to_string())),
            }
        })?;
        for ((version, _), meaning) in changed.into_iter().zip(read) {
            let skip = |reason| SkippedRun {
                run: version.clone(),
                reason,
            };
            match meaning {
                Ok(Meaning::Run(run)) => followed.runs.push(*run),
                Ok(Meaning::Damaged(run, reason)) => {
                    followed.skipped.push(skip(reason));
                    followed.runs.push(*run);
                }
                Ok(Meaning::Sitting(record)) => followed.sittings.push(*record),
                Ok(Meaning::History(task, list)) => followed.promotions.push((task, list)),
                Ok(Meaning::Nothing) => {}
                Err(reason) => {
                    followed.skipped.push(skip(reason));
                    continue;
                }
            }
            followed.changed.push(version);
        }
        Ok(followed)
    }

    fn sitting_meaning(&self, run: &Tracked) -> Result<Meaning> {
        if !run.is_active || run.status != RunStatus::Finished {
            return Ok(Meaning::Nothing);
        }
        if let Some(task) = run.tag(PROMOTIONS) {
            let list = self.promotion_list(task)?;
            return Ok(Meaning::History(task.to_owned(), list));
        }
        let Some(id) = run.tag(key::SITTING) else {
            return Ok(Meaning::Nothing);
        };
        let mut run = run.clone();
        self.restore(&mut run)?;
        let record = self.record_read(id, &run)?;
        Ok(Meaning::Sitting(Box::new(record)))
    }

    fn run_meaning(&self, run: &Tracked, marks: &Marks<'_>) -> Result<Meaning> {
        let is_cell = run.tag(tag::CELL_KEY).is_some();
        let is_over = matches!(run.status, RunStatus::Finished | RunStatus::Failed);
        if !run.is_active || is_cell && !is_over {
            return Ok(Meaning::Nothing);
        }
        let mut run = run.clone();
        self.restore(&mut run)?;
        let (verdict_files, damage) = match self.verdict_texts(&run, marks) {
            Ok(texts) => (texts, None),
            // Boards report a file that cannot be read when they read the run.
            Err(error @ StoreError::Corrupt { .. }) => {
                let path = format!("{}unreadable.json", artifact::VERDICTS);
                (vec![(path, error.to_string())], Some(error.to_string()))
            }
            Err(error) => return Err(error),
        };
        let leases = Tier::ALL.into_iter().flat_map(|tier| {
            let leases = leases(&run, tier).into_iter();
            leases.map(move |it| RunLease {
                tier,
                slot: it.slot,
                epoch: it.epoch,
                sitting: it.sitting,
            })
        });
        let run = Box::new(FollowedRun {
            leases: leases.collect(),
            experiment_id: self.experiment_number(&run.experiment_id)?,
            verdict_files,
            run: self.run_shown(run)?,
        });
        Ok(match damage {
            Some(reason) => Meaning::Damaged(run, reason),
            None => Meaning::Run(run),
        })
    }
}

/// A hash of everything that a search returns about a run.
fn version_of(run: &Tracked) -> i64 {
    let mut text = format!(
        "{}\0{}\0{}\0{:?}\0{}\0{:?}\0",
        run.name,
        run.status.as_str(),
        run.start_time_ms,
        run.end_time_ms,
        run.is_active,
        run.changed_ms,
    );
    for (key, value) in run.params.iter().chain(&run.tags) {
        text.push_str(&format!("{}\0{key}{}\0{value}", key.len(), value.len()));
    }
    for (key, point) in &run.metrics {
        let bits = point.value.to_bits();
        text.push_str(&format!("{}\0{key}{bits}\0", key.len()));
    }
    let hash = sha256(text.as_bytes());
    let mut start = [0; 8];
    start.copy_from_slice(&hash[..8]);
    i64::from_le_bytes(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(changed_ms: i64, tag: &str) -> Tracked {
        serde_json::from_value(json!({
            "info": {"run_id": "r", "status": "FINISHED"},
            "data": {"tags": [{"key": "t", "value": tag}],
                     "metrics": [{"key": CHANGED, "value": changed_ms}, {"key": "m", "value": 1}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_version_changes_with_the_mark_and_with_the_data_and_the_mark_is_not_data() {
        let first = run(1, "a");
        assert_eq!(version_of(&first), version_of(&run(1, "a")));
        assert_ne!(version_of(&first), version_of(&run(2, "a")));
        assert_ne!(version_of(&first), version_of(&run(1, "b")));
        assert_eq!(first.metrics.keys().collect::<Vec<_>>(), ["m"]);
    }
}
