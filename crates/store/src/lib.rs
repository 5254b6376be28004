//! Where runs, verdicts, sittings and promotions are tracked.
//!
//! Everything above this crate talks to one small interface of domain verbs, [`Tracking`]:
//! record these cells, visit what is pending, commit this sitting, visit the board. The
//! embedded SQLite store ([`embedded`]) keeps its promises with transactions and unique
//! indexes; on a remote MLflow server (`crates/mlflow`) they are kept by other means, and what
//! both decide alike is in [`rules`]. What is local to this
//! machine, whatever the tracking URI, is [`state`].
//!
//! This is the only crate that knows SQL. It knows nothing of providers, grids or statistics.

use std::collections::BTreeSet;
use std::fmt::Debug;

use assize_domain::candidate::Candidate;
use assize_domain::judge::Tier;
use assize_domain::promotion::Promotion;
use assize_domain::rubric::Rubric;
use assize_domain::run::{CellRecord, RunStatus};
use assize_domain::scenario::Split;
use assize_domain::sitting::Sitting;
use assize_domain::verdict::{LeanFile, RubricRef, VerdictFile};

use queue::{Closing, Handed, HeldRun, LeaseRequest, Leased, Reopening, RubricUse, SittingRecord};

pub mod embedded;
mod error;
mod import;
pub mod mlflow;
pub mod queue;
pub mod rules;
mod sqlite;
pub mod state;

pub use error::StoreError;
pub use import::{
    Additions, Change, Imported, ImportedRun, WholeRun, is_bookkeeping, is_core, is_for_judges,
    is_stand_in,
};

/// Shorthand for what the store answers.
pub type Result<T> = std::result::Result<T, StoreError>;

/// An experiment as lists show it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ExperimentSummary {
    pub name: String,
    pub experiment_id: String,
    pub runs: u64,
    /// Runs that wait for the expert tier.
    pub pending: u64,
    /// Runs that the expert tier has judged.
    pub judged: u64,
    /// Unix milliseconds.
    pub last_updated: i64,
}

/// A cell that is tracked already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCell {
    /// Empty where the cell waits in this machine's journal for a server that is away.
    pub run_id: String,
    /// Nothing was generated; recording the cell again replaces this run's content.
    pub failed: bool,
}

/// What recording a cell did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Empty where the cell waits in this machine's journal for a server that is away.
    pub run_id: String,
    /// `false` where the cell was there already and nothing was written.
    pub written: bool,
}

/// What became of the cells that a server had not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Delivery {
    pub delivered: u64,
    /// Cells that still wait in the journal.
    pub waiting: u64,
}

/// A run with everything but its artifacts' contents.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Run {
    pub run_id: String,
    pub experiment: String,
    pub name: String,
    pub status: RunStatus,
    pub start_time_ms: i64,
    pub end_time_ms: Option<i64>,
    pub params: Vec<(String, String)>,
    pub metrics: Vec<(String, f64)>,
    pub tags: Vec<(String, String)>,
    /// Paths. A remote store leaves them out of lists, where each would take a request.
    pub artifacts: Vec<String>,
}

/// Which runs a list shows; `None` shows all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunQuery {
    pub model: Option<String>,
    pub prompt: Option<String>,
    pub scenario: Option<String>,
    /// Whether the expert tier is still awaited.
    pub pending: Option<bool>,
    pub status: Option<RunStatus>,
    /// Newest first instead of oldest first.
    pub newest_first: bool,
    /// 0 means no limit.
    pub max_results: u32,
    /// Where the last page ended.
    pub page_token: Option<String>,
}

/// One page of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    pub runs: Vec<Run>,
    pub next_page_token: Option<String>,
}

/// Which pending runs a judge asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingQuery {
    /// The tier that has not spoken yet.
    pub tier: Tier,
    /// Only runs that wait on this kind's desk.
    pub judge_kind: Option<String>,
}

/// A finished run that a tier has not (wholly) judged.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingRun {
    pub run_id: String,
    pub scenario: String,
    pub judge_kind: String,
    pub rubric: RubricRef,
    /// The JSON text of `context.json`.
    pub context: String,
    pub candidates: Vec<Candidate>,
    /// Candidates that this tier has judged already, under the run's rubric.
    pub judged: BTreeSet<u32>,
}

/// What a board needs of one run.
#[derive(Debug, PartialEq)]
pub struct BoardRun<'a> {
    pub run_id: &'a str,
    pub model: &'a str,
    pub prompt: &'a str,
    pub prompt_sha256: &'a str,
    pub scenario: &'a str,
    pub scenario_sha256: &'a str,
    pub model_digest: &'a str,
    /// What else shaped the output, in words ([`assize_domain::run::tag::SETTINGS`]).
    pub settings: &'a str,
    pub status: RunStatus,
    pub rubric: RubricRef<&'a str>,
    pub n_candidates: u32,
    pub latency_ms: Option<f64>,
    pub tokens_per_s: Option<f64>,
    /// The verdict files of the run, any tier, any rubric, but those that are set aside.
    pub files: Vec<LeanFile<'a>>,
}

/// How far judging has come.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct JudgingCounts {
    /// Finished runs.
    pub runs: u64,
    pub candidates: u64,
    pub expert_pending: u64,
    pub expert_judged: u64,
    pub auto_pending: u64,
    pub auto_judged: u64,
    /// Cells for which nothing could be generated.
    pub failed: u64,
    /// Runs by whose desk they wait on, expert tier only.
    pub pending_by_kind: Vec<(String, u64)>,
}

/// What committing a sitting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Committed {
    /// Runs that got a new verdict file.
    pub runs_written: u64,
    /// Runs whose verdicts were there already, word for word.
    pub runs_unchanged: u64,
}

/// Takes the verdict file of a run; `false` where the store wants no more, and says why itself.
pub type Take<'a> = &'a mut dyn FnMut(&str, VerdictFile) -> bool;

/// Hands over verdict files.
pub type Give<'a> = &'a mut dyn FnMut(Take<'_>) -> Result<()>;

/// The verbs that Assize needs of whatever tracks its runs.
///
/// Every method either does all of what it says or nothing, and what it has answered
/// survives `kill -9` of this process.
pub trait Tracking: Send + Sync + Debug {
    /// Where this is, as the user would name it.
    fn uri(&self) -> &str;

    /// Experiments that hold runs of ours, by name.
    fn experiment_list(&self) -> Result<Vec<ExperimentSummary>>;

    /// Which of these cells are tracked, in the order asked.
    fn cells_known(&self, experiment: &str, cell_keys: &[String])
    -> Result<Vec<Option<KnownCell>>>;

    /// Tracks these cells as runs; makes the experiment where there is none. A cell that is
    /// there already and did not fail is left alone.
    fn cells_record(&self, experiment: &str, cells: &[CellRecord]) -> Result<Vec<Recorded>>;

    /// Copies runs of another store, all or none (over MLflow: each), in the order given. A run
    /// is known by its cell key, else by its origin (its own id here, or its tag
    /// [`assize_domain::run::tag::COPIED_FROM`]). One that is not here, or has failed here and
    /// not there, is written as it is there. One that is here with the same candidates gets the
    /// verdict files that it lacks, and what either side sets aside is set aside; its metrics
    /// and tags are then derived anew. What else it lacks is added by [`Tracking::run_add`].
    fn runs_import(&self, experiment: &str, runs: &[ImportedRun]) -> Result<Vec<Imported>> {
        let _ = (experiment, runs);
        let message = format!("runs cannot be copied to {} yet", self.uri());
        Err(StoreError::Conflict(message))
    }

    /// One run with all that belongs to it but the contents of its files.
    fn run_whole(&self, run_id: &str) -> Result<WholeRun>;

    /// Adds to a run what it lacks. Adding the same again changes nothing.
    fn run_add(&self, run_id: &str, additions: &Additions) -> Result<()>;

    /// The tags of an experiment; none where there is no such experiment.
    fn experiment_tags(&self, experiment: &str) -> Result<Vec<(String, String)>>;

    /// Gives an experiment tags, and makes it where there is none.
    fn experiment_tags_add(&self, experiment: &str, tags: &[(String, String)]) -> Result<()>;

    /// How many logged models an experiment has.
    fn logged_model_count(&self, experiment: &str) -> Result<u64>;

    /// Keeps the record of a sitting of another store, with what became of it there, under the
    /// run ids of this one. A sitting that is open there goes on there, so here it is closed.
    /// One that is here already gets the verdicts on anchors that it lacks, and is quarantined
    /// where it is so there; nothing else of it changes. Answers whether anything changed.
    fn sitting_import(&self, record: &SittingRecord) -> Result<bool> {
        let message = format!(
            "sitting {} cannot be copied to {} yet",
            record.sitting.id,
            self.uri()
        );
        Err(StoreError::Conflict(message))
    }

    /// Removes runs that no reader sees: of several runs of a cell, all but the first. Answers
    /// how many. A store that keeps cells unique has none.
    fn runs_tidy(&self, experiment: &str) -> Result<u64> {
        let _ = experiment;
        Ok(0)
    }

    /// Delivers the cells that wait in this machine's journal for a server that was away, until
    /// `stopped` says so. A store without a journal has none.
    fn deliver(&self, stopped: &dyn Fn() -> bool) -> Result<Delivery> {
        let _ = stopped;
        Ok(Delivery::default())
    }

    /// One page of an experiment's runs. An unknown experiment is an error.
    fn run_list(&self, experiment: &str, query: &RunQuery) -> Result<RunPage>;

    /// One run, by its whole id or an unambiguous start of it.
    fn run_get(&self, run_id: &str) -> Result<Run>;

    /// Takes runs out of every list; their cells can be collected again.
    fn run_delete(&self, run_ids: &[String]) -> Result<()>;

    /// The content of an artifact.
    fn artifact_get(&self, run_id: &str, path: &str) -> Result<Option<String>>;

    /// The content of an artifact that need not be text.
    fn artifact_bytes(&self, run_id: &str, path: &str) -> Result<Option<Vec<u8>>>;

    /// Keeps content as an artifact of a run that has none of this name.
    fn artifact_add(&self, run_id: &str, path: &str, content: Vec<u8>) -> Result<()>;

    /// The contents of several artifacts of a run, in the order asked.
    fn artifacts_get(&self, run_id: &str, paths: &[&str]) -> Result<Vec<Option<String>>> {
        let contents = paths.iter().map(|path| self.artifact_get(run_id, path));
        contents.collect()
    }

    /// Visits the finished runs that a tier has not wholly judged, in the order of their
    /// creation, without holding them all in memory. An unknown experiment is an error.
    fn pending_each(
        &self,
        experiment: &str,
        query: &PendingQuery,
        visit: &mut dyn FnMut(PendingRun) -> Result<()>,
    ) -> Result<()>;

    /// How far judging has come. An unknown experiment is an error.
    fn judging_counts(&self, experiment: &str) -> Result<JudgingCounts>;

    /// The rubrics that the finished runs of an experiment are under, the one with the newest
    /// run last. An unknown experiment is an error.
    fn rubric_list(&self, experiment: &str) -> Result<Vec<RubricUse>>;

    /// Keeps the record of a sitting, before its cases are handed out.
    fn sitting_open(&self, sitting: &Sitting) -> Result<()>;

    /// The record of a sitting.
    fn sitting_get(&self, id: &str) -> Result<Option<Sitting>>;

    /// A sitting with what has become of it.
    fn sitting_record(&self, id: &str) -> Result<Option<SittingRecord>>;

    /// All sittings of an experiment, oldest first.
    fn sitting_list(&self, experiment: &str) -> Result<Vec<SittingRecord>>;

    /// Hands whole scenarios to an open sitting: all of a scenario's pending cases or none,
    /// and none that as many other live sittings hold as are to score it. The sitting counts
    /// as heard of.
    fn lease_next(&self, request: &LeaseRequest) -> Result<Leased>;

    /// What a sitting holds, with what it has found.
    fn lease_held(&self, sitting: &str) -> Result<Vec<HeldRun>>;

    /// Like [`Tracking::sitting_commit`], for an open sitting that holds leases: a run whose
    /// lease has passed to another sitting is an error ([`StoreError::LeaseLost`]), and other
    /// scores for a case that it has judged are kept as a later part, which counts instead.
    /// The sitting counts as heard of.
    fn sitting_submit(&self, handed: &Handed) -> Result<Committed>;

    /// Closes a sitting, which releases its leases, or changes its state later. The verdicts
    /// of a quarantined sitting are set aside on every run it judged; closing it again
    /// makes them count again.
    fn sitting_close(&self, id: &str, closing: &Closing) -> Result<()>;

    /// Makes runs pending again, all or none; answers how many. Verdicts are kept, candidates
    /// are not touched, and leases on these runs are over.
    fn runs_reopen(&self, reopening: &Reopening) -> Result<u64>;

    /// The verdict files of a run, also those that are set aside.
    fn verdicts_get(&self, run_id: &str) -> Result<Vec<VerdictFile>>;

    /// Writes verdict files, one a run, all or none, and brings the runs' metrics and tags up
    /// to date (`assize_domain::verdict::summarise`). `give` hands them over one by one, so
    /// that nobody holds them all; where it fails, nothing is written. A candidate that this
    /// sitting has judged already with the same scores and rationale is skipped; with others,
    /// it is an error. Files are named `verdicts/SITTING.json`, later parts of one sitting
    /// `verdicts/SITTING.2.json` and so on.
    fn sitting_commit_each(&self, rubric: &Rubric, give: Give<'_>) -> Result<Committed>;

    /// [`Tracking::sitting_commit_each`] for files that are in memory.
    fn sitting_commit(
        &self,
        files: &[(String, VerdictFile)],
        rubric: &Rubric,
    ) -> Result<Committed> {
        self.sitting_commit_each(rubric, &mut |take| {
            let mut files = files.iter();
            while files
                .next()
                .is_some_and(|(run, file)| take(run, file.clone()))
            {}
            Ok(())
        })
    }

    /// Visits all runs of a split, oldest first. An unknown experiment is an error.
    fn board_each(
        &self,
        experiment: &str,
        split: Split,
        visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>,
    ) -> Result<()>;

    /// The latest entry of a task's promotion history: whoever is champion now.
    fn champion_get(&self, task: &str) -> Result<Option<Promotion>>;

    /// A task's promotion history, oldest first. Nothing in it ever changes.
    fn promotion_list(&self, task: &str) -> Result<Vec<Promotion>>;

    /// Adds an entry to the history, registers the champion's prompt as a version of the task's
    /// registered prompt (once for each content), tags it with the record, and moves the alias
    /// `champion` to it. Answers the version. The entry's number must follow the latest one's:
    /// otherwise somebody was faster, nothing is written, and the error is
    /// [`StoreError::Superseded`].
    fn promotion_record(&self, promotion: &Promotion) -> Result<u32>;
}
