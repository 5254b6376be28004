//! Reading every run of a split with its verdicts for a board.
//!
//! One thread reads runs from the database in batches ([`gather`]), and the caller's thread decodes
//! their verdict files and visits them. Each takes about half of the time, so two cores halve it.
//! The number of batches in memory is limited.

use std::sync::mpsc::{Receiver, sync_channel};

use assize_domain::hash::hex;
use assize_domain::scenario::Split;
use assize_domain::verdict::{LeanFile, RubricRef};

use self::gather::{Batch, BatchRun, TextNumber, gather};
pub(crate) use self::row::{row_append, row_outdate, row_write};
use super::EmbeddedStore;
use crate::{BoardRun, Boards, Result, StoreError};

mod gather;
mod row;

/// The maximum number of batches that wait for the visitor.
const MAX_QUEUED_BATCHES: usize = 16;

impl Boards for EmbeddedStore {
    fn board_each(
        &self,
        experiment: &str,
        split: Split,
        visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>,
    ) -> Result<()> {
        std::thread::scope(|scope| {
            let (batches, gathered) = sync_channel(MAX_QUEUED_BATCHES);
            let gathering = scope.spawn(move || {
                self.read(|conn| {
                    // A visitor that has stopped takes no more batches.
                    gather(conn, experiment, split, &mut |batch| {
                        batches.send(batch).is_ok()
                    })
                })
            });
            let visited = visit_all(&gathered, visit);
            drop(gathered);
            let gathered = gathering
                .join()
                .unwrap_or_else(|_| Err(StoreError::worker_panicked()));
            visited.and(gathered)
        })
    }
}

/// The experiment that was collected last, if its runs have rows.
pub(crate) fn board_latest(store: &EmbeddedStore) -> Result<Option<String>> {
    store.read(row::latest)
}

fn visit_all(
    batches: &Receiver<Batch>,
    visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>,
) -> Result<()> {
    let mut texts: Vec<Box<str>> = Vec::new();
    for mut batch in batches {
        texts.append(&mut batch.texts);
        for run in &batch.runs {
            visit(shown(run, &texts, &batch, &hex(&run.run_id))?)?;
        }
    }
    Ok(())
}

fn shown<'a>(
    run: &BatchRun,
    texts: &'a [Box<str>],
    batch: &'a Batch,
    run_id: &'a str,
) -> Result<BoardRun<'a>> {
    let text = |number: Option<TextNumber>| number.map_or("", |it| &*texts[it]);
    let tags = &run.tags;
    Ok(BoardRun {
        model: &texts[run.model],
        prompt: &texts[run.prompt],
        prompt_sha256: text(tags.prompt_sha256),
        scenario: &texts[run.scenario],
        scenario_sha256: text(tags.scenario_sha256),
        model_digest: text(tags.model_digest),
        settings: text(tags.settings),
        status: run.status,
        rubric: RubricRef {
            id: text(tags.rubric),
            sha256: text(tags.rubric_sha256),
        },
        n_candidates: run.n_candidates,
        n_failed: run.n_failed,
        latency_ms: run.latency_ms,
        tokens_per_s: run.tokens_per_s,
        completion_tokens: run.completion_tokens,
        thinking_tokens: run.thinking_tokens,
        cost_usd: run.cost_usd,
        files: decode(run, batch, run_id)?,
        run_id,
    })
}

fn decode<'a>(run: &BatchRun, batch: &'a Batch, run_id: &str) -> Result<Vec<LeanFile<'a>>> {
    let decoded = row::decode(&batch.files[run.files.clone()]);
    let mut files = decoded.map_err(|error| row::unreadable(run_id, &error))?;
    if let Some(aside) = &run.set_aside {
        files.retain(|file| !aside.split_whitespace().any(|id| id == file.sitting));
    }
    Ok(files)
}
