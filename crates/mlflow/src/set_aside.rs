//! Setting verdicts aside: they are kept, and do not count.
//!
//! A run carries the list of sittings that do not count for it as a tag; whenever the list
//! changes, the run's metrics and tags are derived anew and written with it in one request.

use assize_domain::run::tag;
use assize_store::{Result, StoreError, rules};

use crate::commit::put_summary;
use crate::runs::{Entries, quoted};
use crate::sittings::key;
use crate::verdicts::{Marks, counting, has_judged, param_of, set_aside};
use crate::wire::Tracked;
use crate::{MlflowStore, parallel};

impl MlflowStore {
    /// The verdicts of this sitting no longer count, on any run.
    pub(crate) fn put_aside(&self, sitting: &str, sitting_run: &Tracked) -> Result<()> {
        let runs = self.judged_runs(sitting, sitting_run)?;
        let marks = Marks::new(self);
        parallel::each(&runs, |run| {
            let mut aside = set_aside(run);
            if !aside.iter().any(|id| id == sitting) {
                aside.push(sitting.to_owned());
                self.aside_write(run, &aside, Entries::default(), &marks)?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// The verdicts of this sitting count again.
    pub(crate) fn take_back(&self, sitting: &str, sitting_run: &Tracked) -> Result<()> {
        let runs = self.judged_runs(sitting, sitting_run)?;
        let marks = Marks::new(self);
        parallel::each(&runs, |run| {
            let mut aside = set_aside(run);
            aside.retain(|id| id != sitting);
            self.aside_write(run, &aside, Entries::default(), &marks)
        })?;
        Ok(())
    }

    /// The runs that a sitting has judged and that are still there.
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

    /// Keeps the list, derives the run's metrics and tags anew, and writes `entries` with them.
    pub(crate) fn aside_write(
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
        let (summary, mut gone) = rules::derive_anew(&files, &rubric, judgeable, has_metric)?;
        if aside.is_empty() {
            gone.push(tag::SET_ASIDE);
        } else {
            let list = aside.join(" ");
            entries.tags.push((tag::SET_ASIDE.to_owned(), list));
        }
        put_summary(&mut entries, run, &summary);
        // The list decides what counts; where it ends, it goes first.
        self.tags_drop(run, &gone)?;
        self.write(run, entries)
    }
}
