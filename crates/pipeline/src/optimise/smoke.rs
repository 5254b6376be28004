//! The format smoke test of a child: one candidate on one scenario of the feedback split.
//!
//! It is generated as `collect` does and kept in memory, not in the tracking store: a child that fails
//! it never waits for a judge. If the process is killed before the result is in the log, the
//! candidate is generated again.

use std::sync::{Mutex, PoisonError};

use assize_domain::candidate::Candidate;
use assize_domain::run::{CellRecord, artifact, metric};
use assize_domain::task::Task;
use assize_store::{Cells, KnownCell, Recorded};

use super::LoopContext;
use super::cells::Part;
use crate::collect;
use crate::judge::artifact_parse;
use crate::{PipelineError, Result};

/// What one candidate showed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Smoke {
    /// Why the candidate does not fit the task's output contract.
    pub problem: Option<String>,
    pub cost_usd: f64,
}

/// Records cells in memory.
#[derive(Debug, Default)]
struct InMemory(Mutex<Vec<CellRecord>>);

impl Cells for InMemory {
    fn cells_known(
        &self,
        _experiment: &str,
        cell_keys: &[String],
    ) -> assize_store::Result<Vec<Option<KnownCell>>> {
        Ok(vec![None; cell_keys.len()])
    }

    fn cells_record(
        &self,
        _experiment: &str,
        cells: &[CellRecord],
    ) -> assize_store::Result<Vec<Recorded>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(cells.iter().cloned());
        let recorded = Recorded {
            run_id: None,
            written: true,
        };
        Ok(vec![recorded; cells.len()])
    }
}

impl LoopContext<'_> {
    /// Generates one candidate of a part with one cell, and says what is wrong with it.
    pub(super) fn smoke(&self, task: &Task, part: &Part) -> Result<Smoke> {
        let memory = InMemory::default();
        let (summary, error) = self.with_collection(task, part, &memory, |collection| {
            Ok(collect::run(collection, &|_| {}))
        })?;
        if let Some(error) = error {
            return Err(error);
        }
        if summary.interrupted {
            return Err(PipelineError::Interrupted);
        }
        let record = memory
            .0
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let Some(record) = record else {
            return Err(PipelineError::Internal(
                "the smoke test generated nothing".to_owned(),
            ));
        };
        read(&record)
    }
}

fn read(record: &CellRecord) -> Result<Smoke> {
    let text = record
        .artifacts
        .iter()
        .find(|(path, _)| path == artifact::CANDIDATES);
    let candidates: Vec<Candidate> = match text {
        Some((path, text)) => artifact_parse(path, &record.name, text)?,
        None => Vec::new(),
    };
    // A provider that does not answer says nothing about the prompt.
    let error = match candidates.first() {
        None => Some("nothing was generated"),
        Some(candidate) => candidate.error.as_deref(),
    };
    if let Some(error) = error {
        return Err(PipelineError::CellsFailed(format!(
            "the smoke test of {} could not be generated: {error}. Nothing was decided about it; run the step again \
             when the model answers",
            record.name
        )));
    }
    let problem = candidates.first().and_then(|it| it.problem.clone());
    let cost = record
        .metrics
        .iter()
        .find(|(name, _)| name == metric::GENERATION_COST_USD);
    Ok(Smoke {
        problem,
        cost_usd: cost.map_or(0.0, |(_, value)| *value),
    })
}
