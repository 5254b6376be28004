//! A run on both sides: whether the target has to import it, and what else is missing there.

use std::collections::BTreeSet;

use assize_domain::run::{RunStatus, artifact, tag};
use assize_store::import::plan::is_replaced;
use assize_store::{Run, WholeRun};

use super::missing::Missing;
use super::value;

/// A run on both sides.
#[derive(Debug)]
pub(super) struct Pair {
    pub here: WholeRun,
    pub there: Option<WholeRun>,
}

impl Pair {
    /// Whether the target's run gives way to this one.
    pub fn is_replaced(&self) -> bool {
        let is_cell = value(&self.here.run, tag::CELL_KEY).is_some();
        let gives_way =
            |there: &WholeRun| is_replaced(is_cell, there.run.status, self.here.run.status);
        self.there.as_ref().is_some_and(gives_way)
    }

    /// What the target's run does not have, verdicts aside. A cell that both sides have generated
    /// is complete on both; they were not begun in the same millisecond.
    pub fn missing(&self) -> Missing {
        let is_copy = |there: &WholeRun| {
            value(&self.here.run, tag::CELL_KEY).is_none()
                || there.run.start_time_ms == self.here.run.start_time_ms
        };
        match &self.there {
            Some(there) if is_copy(there) && !self.is_replaced() => Missing::of(&self.here, there),
            _ => Missing::default(),
        }
    }

    /// Whether the target has to look at the run: it may have to create or replace it, or to add
    /// verdicts. Names suffice here; the target compares contents.
    pub fn is_imported(&self) -> bool {
        let Some(there) = &self.there else {
            return true;
        };
        self.is_replaced()
            || !verdicts(&self.here.run).is_subset(&verdicts(&there.run))
            || !aside(&self.here.run).is_subset(&aside(&there.run))
    }

    pub fn is_under_another_rubric(&self) -> bool {
        let failed = |run: &Run| run.status == RunStatus::Failed;
        let rubric = |run| value(run, tag::RUBRIC_SHA256);
        let here = &self.here.run;
        self.there.as_ref().is_some_and(|there| {
            rubric(here) != rubric(&there.run) && !failed(here) && !failed(&there.run)
        })
    }
}

pub(super) fn verdicts(run: &Run) -> BTreeSet<&str> {
    let paths = run.artifacts.iter().map(String::as_str);
    paths
        .filter(|path| path.starts_with(artifact::VERDICTS))
        .collect()
}

fn aside(run: &Run) -> BTreeSet<&str> {
    let sittings = value(run, tag::SET_ASIDE).unwrap_or_default();
    sittings.split_whitespace().collect()
}
