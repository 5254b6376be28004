//! Reading the runs of a split for a board.

use assize_domain::run::{metric, param, tag};
use assize_domain::scenario::Split;
use assize_domain::verdict::{LeanFile, RubricRef};
use assize_store::{BoardRun, Boards, Result};

use crate::artifacts::corrupt;
use crate::queue::whole;
use crate::verdicts::{Marks, set_aside};
use crate::wire::Tracked;
use crate::{MlflowStore, parallel};

/// The number of runs whose files are in memory at once.
const BATCH: usize = 256;

/// The data of a run that is in its files.
struct Read {
    texts: Vec<(String, String)>,
    n_candidates: u32,
}

impl Boards for MlflowStore {
    /// Runs without a model, a prompt or a scenario are skipped.
    fn board_each(
        &self,
        experiment: &str,
        split: Split,
        visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>,
    ) -> Result<()> {
        let id = self.experiment_need(experiment)?;
        let marks = Marks::new(self);
        self.cells_each(&id, &mut |mut runs| {
            runs.retain(|run| belongs(run, split));
            for some in runs.chunks(BATCH) {
                let read = parallel::each(some, |run| self.board_read(run, &marks))?;
                for (run, read) in some.iter().zip(&read) {
                    show(run, read, visit)?;
                }
            }
            Ok(true)
        })
    }
}

impl MlflowStore {
    fn board_read(&self, run: &Tracked, marks: &Marks<'_>) -> Result<Read> {
        let n_candidates = match run.metric(metric::N_CANDIDATES) {
            Some(count) => whole(Some(count)),
            // Some tools log the candidates but not their count.
            None => self.candidates_read(run)?.len() as u64,
        };
        Ok(Read {
            texts: self.verdict_texts(run, marks)?,
            n_candidates: u32::try_from(n_candidates).unwrap_or(u32::MAX),
        })
    }
}

fn count(metric: Option<f64>) -> u32 {
    u32::try_from(whole(metric)).unwrap_or(u32::MAX)
}

fn belongs(run: &Tracked, split: Split) -> bool {
    let named = [param::MODEL, param::PROMPT, param::SCENARIO];
    let selection = Split::Selection.as_str();
    named.iter().all(|key| run.param(key).is_some())
        && run.param(param::SPLIT).unwrap_or(selection) == split.as_str()
}

fn show(
    run: &Tracked,
    read: &Read,
    visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>,
) -> Result<()> {
    let tag = |key: &str| run.tag(key).unwrap_or_default();
    let param = |key: &str| run.param(key).unwrap_or_default();
    let aside = set_aside(run);
    let mut files: Vec<LeanFile<'_>> = Vec::with_capacity(read.texts.len());
    for (path, text) in &read.texts {
        files.push(serde_json::from_str(text).map_err(|error| corrupt(run, path, &error))?);
    }
    files.retain(|file| !aside.iter().any(|it| *it == file.sitting));
    visit(BoardRun {
        run_id: &run.run_id,
        model: param(param::MODEL),
        prompt: param(param::PROMPT),
        prompt_sha256: tag(tag::PROMPT_SHA256),
        scenario: param(param::SCENARIO),
        scenario_sha256: tag(tag::SCENARIO_SHA256),
        model_digest: tag(tag::MODEL_DIGEST),
        settings: tag(tag::SETTINGS),
        status: run.status,
        rubric: RubricRef {
            id: tag(tag::RUBRIC),
            sha256: tag(tag::RUBRIC_SHA256),
        },
        n_candidates: read.n_candidates,
        n_failed: count(run.metric(metric::N_FAILED)),
        latency_ms: run.metric(metric::LATENCY_MS),
        tokens_per_s: run.metric(metric::TOKENS_PER_S),
        completion_tokens: run.metric(metric::COMPLETION_TOKENS),
        thinking_tokens: run.metric(metric::THINKING_TOKENS),
        cost_usd: run.metric(metric::GENERATION_COST_USD),
        files,
    })
}
