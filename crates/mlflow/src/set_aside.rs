//! Setting verdicts aside: they are kept but do not count.
//!
//! A tag of a run lists the sittings that do not count for it. When the list changes, the run's
//! metrics and tags are derived again and written with it in one request.

use assize_domain::run::tag;
use assize_store::{Result, StoreError, rules};

use crate::commit::put_summary;
use crate::runs::{Entries, quoted};
use crate::sittings::key;
use crate::verdicts::{Marks, counting, has_judged, param_of, set_aside};
use crate::wire::Tracked;
use crate::{MlflowStore, parallel};

impl MlflowStore {
    /// Sets aside the verdicts of this sitting on all runs.
    pub(crate) fn set_aside_add(&self, sitting: &str, sitting_run: &Tracked) -> Result<()> {
        let runs = self.judged_runs(sitting, sitting_run)?;
        let marks = Marks::new(self);
        parallel::each(&runs, |run| {
            let mut aside = set_aside(run);
            if !aside.iter().any(|id| id == sitting) {
                aside.push(sitting.to_owned());
                self.set_aside_write(run, &aside, Entries::default(), &marks)?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Makes the verdicts of this sitting count again.
    pub(crate) fn set_aside_remove(&self, sitting: &str, sitting_run: &Tracked) -> Result<()> {
        let runs = self.judged_runs(sitting, sitting_run)?;
        let marks = Marks::new(self);
        parallel::each(&runs, |run| {
            let mut aside = set_aside(run);
            aside.retain(|id| id != sitting);
            self.set_aside_write(run, &aside, Entries::default(), &marks)
        })?;
        Ok(())
    }

    /// The existing runs that a sitting has judged.
    fn judged_runs(&self, sitting: &str, sitting_run: &Tracked) -> Result<Vec<Tracked>> {
        let experiment = sitting_run.tag(key::EXPERIMENT).unwrap_or_default();
        let Some(experiment_id) = self.experiment_find(experiment)? else {
            return Ok(Vec::new());
        };
        let quoted = quoted(sitting).ok_or_else(|| {
            StoreError::Invalid(format!("'{sitting}' is not the id of a sitting"))
        })?;
        let name = param_of(quoted.trim_matches(['\'', '"']));
        let filter = format!("params.`{name}` != ''");
        let mut runs = Vec::new();
        self.scan(&experiment_id, &filter, 0, &mut |page| {
            runs.extend(page.into_iter().filter(|run| has_judged(run, sitting)));
            Ok(true)
        })?;
        Ok(runs)
    }

    /// Writes the list, derives the run's metrics and tags again, and writes `entries` with them.
    pub(crate) fn set_aside_write(
        &self,
        run: &Tracked,
        aside: &[String],
        mut entries: Entries,
        marks: &Marks<'_>,
    ) -> Result<()> {
        let rubric = self.rubric_read(run)?;
        let candidates = self.candidates_read(run)?;
        let files = counting(self.verdicts_read(run, marks)?, aside);
        let judgeable = rules::judgeable(&candidates).len();
        let has_metric = |name: &str| Ok(run.metrics.contains_key(name));
        let (summary, mut gone) = rules::derive_again(&files, &rubric, judgeable, has_metric)?;
        if aside.is_empty() {
            gone.push(tag::SET_ASIDE);
        } else {
            let list = aside.join(" ");
            entries.tags.push((tag::SET_ASIDE.to_owned(), list));
        }
        put_summary(&mut entries, run, &summary);
        // The list determines what counts. If it becomes empty, its tag is removed first.
        self.tags_drop(run, &gone)?;
        self.write(run, entries)
    }
}
