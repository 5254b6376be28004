//! Sittings, each stored as a run of a separate experiment.
//!
//! The record is the artifact `sitting.json`, which is immutable. The state of the sitting is in
//! tags. Verdicts on its anchors are verdict files of this run.

use std::sync::Arc;

use assize_domain::judge::Judge;
use assize_domain::rubric::Rubric;
use assize_domain::run::RunStatus;
use assize_domain::sitting::{Sitting, SittingState};
use assize_store::queue::{Closing, SittingRecord};
use assize_store::{Committed, FileSource, Result, Sittings, StoreError};
use serde_json::json;

use crate::runs::{Entries, pairs, quoted};
use crate::verdicts::{Marks, counting};
use crate::wire::Tracked;
use crate::{MlflowStore, SITTINGS, commit, lock, parallel};

const FILE: &str = "sitting.json";

/// The tags of a sitting's run.
pub(crate) mod key {
    pub const SITTING: &str = "sitting";
    pub const EXPERIMENT: &str = "experiment";
    pub const TIER: &str = "tier";
    pub const OPENED_AT: &str = "opened_at";
    pub const STATE: &str = "state";
    pub const CLOSED_AT: &str = "closed_at";
    pub const LIVES_UNTIL: &str = "lives_until";
    pub const JUDGE: &str = "judge";
    pub const DRIFT: &str = "drift";
}

fn unreadable(what: &str, id: &str, reason: &dyn ToString) -> StoreError {
    StoreError::Unreadable {
        what: format!("{what} of sitting {id}"),
        reason: reason.to_string(),
    }
}

fn cannot_store(id: &str, reason: &dyn ToString) -> StoreError {
    StoreError::Internal(format!(
        "sitting '{id}' cannot be stored: {}",
        reason.to_string()
    ))
}

pub(crate) fn state_of(id: &str, run: &Tracked) -> Result<SittingState> {
    let state = run.tag(key::STATE).unwrap_or_default();
    state
        .parse()
        .map_err(|error: String| unreadable("the state", id, &error))
}

pub(crate) fn lives_until(run: &Tracked) -> i64 {
    let text = run.tag(key::LIVES_UNTIL);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl Sittings for MlflowStore {
    fn sitting_open(&self, sitting: &Sitting) -> Result<()> {
        if let Some(run) = self.sitting_run(&sitting.id)? {
            if *self.sitting_read(&sitting.id, &run)? == *sitting {
                return Ok(());
            }
            return Err(StoreError::Conflict(format!(
                "there is another sitting '{}' already: open this one under another id",
                sitting.id
            )));
        }
        let run = self.sitting_begin(sitting)?;
        self.run_update(&run.run_id, RunStatus::Finished, Some(run.start_time_ms))?;
        self.touch(&run.run_id)
    }

    fn sitting_get(&self, id: &str) -> Result<Option<Sitting>> {
        let found = self.sitting_run(id)?;
        let sitting = found.map(|run| self.sitting_read(id, &run)).transpose()?;
        Ok(sitting.map(|sitting| Sitting::clone(&sitting)))
    }

    fn sitting_record_get(&self, id: &str) -> Result<Option<SittingRecord>> {
        let found = self.sitting_run(id)?;
        found.map(|run| self.record_read(id, &run)).transpose()
    }

    fn sitting_list(&self, experiment: &str) -> Result<Vec<SittingRecord>> {
        let runs = self.sitting_runs(experiment)?;
        let mut records = parallel::each(&runs, |run| {
            self.record_read(run.tag(key::SITTING).unwrap_or_default(), run)
        })?;
        records.sort_by(|a, b| {
            let place = |it: &SittingRecord| (it.sitting.opened_at.clone(), it.sitting.id.clone());
            place(a).cmp(&place(b))
        });
        Ok(records)
    }

    /// A quarantine is recorded before the verdicts are set aside, and lifted after they count
    /// again, so that an interrupted call is completed by repeating it.
    fn sitting_close(&self, id: &str, closing: &Closing) -> Result<()> {
        let run = self.sitting_run_need(id)?;
        let was = state_of(id, &run)? == SittingState::Quarantined;
        let is = closing.state == SittingState::Quarantined;
        if was && !is {
            self.set_aside_remove(id, &run)?;
        }
        self.closing_write(id, &run, closing)?;
        if is {
            self.set_aside_add(id, &run)?;
        }
        lock(&self.waiting).clear();
        Ok(())
    }

    fn sitting_commit_each(&self, rubric: &Rubric, give: FileSource<'_>) -> Result<Committed> {
        commit::sitting_commit_each(self, rubric, give)
    }
}

impl MlflowStore {
    /// Creates the run of a sitting. The sitting exists once the run is finished.
    pub(crate) fn sitting_begin(&self, sitting: &Sitting) -> Result<Tracked> {
        let experiment_id = self.experiment_make(SITTINGS)?;
        let text =
            serde_json::to_string(sitting).map_err(|error| cannot_store(&sitting.id, &error))?;
        let tags = [
            (key::SITTING, sitting.id.as_str()),
            (key::EXPERIMENT, &sitting.experiment),
            (key::TIER, sitting.tier.as_str()),
            (key::OPENED_AT, &sitting.opened_at),
            (key::STATE, SittingState::Open.as_str()),
        ];
        let tags: Vec<_> = tags
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let body = json!({
            "experiment_id": experiment_id,
            "run_name": format!("sitting {}", sitting.id),
            "start_time": self.now_ms(),
            "tags": pairs(&tags),
        });
        let run = self.run_create(&experiment_id, &body, (key::SITTING, &sitting.id))?;
        self.file_put(&run, FILE, text.as_bytes())?;
        Ok(run)
    }

    /// The run of a sitting, if there is one.
    pub(crate) fn sitting_run(&self, id: &str) -> Result<Option<Tracked>> {
        let Some(experiment_id) = self.experiment_find(SITTINGS)? else {
            return Ok(None);
        };
        let runs = self.runs_tagged(&experiment_id, key::SITTING, id)?;
        let mut kept = runs
            .into_iter()
            .filter(|it| it.status == RunStatus::Finished);
        let mut found = kept.next();
        if let Some(run) = &mut found {
            self.restore(run)?;
        }
        Ok(found)
    }

    /// The run of a sitting, or an error.
    pub(crate) fn sitting_run_need(&self, id: &str) -> Result<Tracked> {
        let run = self.sitting_run(id)?;
        run.ok_or_else(|| StoreError::NoSitting { id: id.to_owned() })
    }

    /// The record of a sitting, which is immutable.
    pub(crate) fn sitting_read(&self, id: &str, run: &Tracked) -> Result<Arc<Sitting>> {
        let known = lock(&self.sittings).get(id).map(Arc::clone);
        if let Some(known) = known {
            return Ok(known);
        }
        let text = self.file_text(run, FILE)?.unwrap_or_default();
        let sitting: Sitting =
            serde_json::from_str(&text).map_err(|error| unreadable("the record", id, &error))?;
        let sitting = Arc::new(sitting);
        lock(&self.sittings).insert(id.to_owned(), Arc::clone(&sitting));
        Ok(sitting)
    }

    /// A sitting with its current state.
    pub(crate) fn record_read(&self, id: &str, run: &Tracked) -> Result<SittingRecord> {
        let sitting = self.sitting_read(id, run)?;
        let judge = run.tag(key::JUDGE).map(serde_json::from_str::<Judge>);
        let judge = judge
            .transpose()
            .map_err(|error| unreadable("the judge", id, &error))?;
        let files = self.verdicts_read(run, &Marks::new(self))?;
        Ok(SittingRecord {
            state: state_of(id, run)?,
            closed_at: run.tag(key::CLOSED_AT).map(str::to_owned),
            lives_until_ms: lives_until(run),
            judge: judge.or_else(|| sitting.judge.clone()),
            drift: run.tag(key::DRIFT).map(str::to_owned),
            anchor_files: counting(files, &[]),
            sitting: Sitting::clone(&sitting),
        })
    }

    /// The runs of all sittings of an experiment.
    pub(crate) fn sitting_runs(&self, experiment: &str) -> Result<Vec<Tracked>> {
        let Some(experiment_id) = self.experiment_find(SITTINGS)? else {
            return Ok(Vec::new());
        };
        let filter = quoted(experiment).map_or_else(
            || format!("tags.{} != ''", key::SITTING),
            |name| format!("tags.{} = {name}", key::EXPERIMENT),
        );
        let mut runs: Vec<Tracked> = Vec::new();
        self.scan(&experiment_id, &filter, 0, &mut |page| {
            runs.extend(page.into_iter().filter(|run| {
                run.status == RunStatus::Finished
                    && run.tag(key::EXPERIMENT) == Some(experiment)
                    && run.tag(key::SITTING).is_some()
            }));
            Ok(true)
        })?;
        let mut seen = std::collections::HashSet::new();
        runs.retain(|run| seen.insert(run.tag(key::SITTING).map(str::to_owned)));
        Ok(runs)
    }

    /// Writes the closing state of a sitting.
    pub(crate) fn closing_write(&self, id: &str, run: &Tracked, closing: &Closing) -> Result<()> {
        let mut tags = vec![(key::STATE.to_owned(), closing.state.as_str().to_owned())];
        if run.tag(key::CLOSED_AT).is_none() {
            tags.push((key::CLOSED_AT.to_owned(), closing.at.clone()));
        }
        if let Some(judge) = &closing.judge {
            let judge = serde_json::to_string(judge).map_err(|error| cannot_store(id, &error))?;
            tags.push((key::JUDGE.to_owned(), judge));
        }
        if let Some(drift) = &closing.drift {
            tags.push((key::DRIFT.to_owned(), drift.clone()));
        }
        self.write(
            run,
            Entries {
                tags,
                ..Entries::default()
            },
        )
    }

    /// Extends the expiry of the sitting's leases.
    pub(crate) fn leases_renew(&self, run: &Tracked, until_ms: i64) -> Result<()> {
        if lives_until(run) >= until_ms {
            return Ok(());
        }
        let tag = json!({"key": key::LIVES_UNTIL, "value": until_ms.to_string()});
        self.log(&run.run_id, &[], &[tag], &[])
    }
}
