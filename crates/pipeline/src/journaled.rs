//! Nothing generated is lost because a tracking server is away.
//!
//! [`Journaled`] stands before a remote store. Cells go into this machine's journal first
//! (`assize_store::state::journal`), are then sent, and leave the journal once the server has
//! acknowledged them. While the server is away, recording a cell succeeds without a run id,
//! the cell waits, and the server is asked again now and then. What waits is delivered when
//! the server is back: in the same collection, at its end, or by the next command.
//!
//! Whoever sends holds the place's lock, so that two processes of this machine never send the
//! same cell at once. Delivery is at least once: a store leaves a cell alone that is there
//! already, so in the end every cell counts once, by its key.
//!
//! Everything but cells passes through: judging and comparing need the server. The embedded
//! store needs none of this; what it acknowledges is on the disk.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assize_domain::promotion::Promotion;
use assize_domain::rubric::Rubric;
use assize_domain::run::CellRecord;
use assize_domain::scenario::Split;
use assize_domain::sitting::Sitting;
use assize_domain::verdict::VerdictFile;
use assize_store::queue::{
    Closing, Handed, HeldRun, LeaseRequest, Leased, Reopening, RubricUse, SittingRecord,
};
use assize_store::state::State;
use assize_store::state::journal::{Entry, place_of};
use assize_store::{
    Additions, BoardRun, Committed, Delivery, ExperimentSummary, Give, Imported, ImportedRun,
    JudgingCounts, KnownCell, PendingQuery, PendingRun, Recorded, Result, Run, RunPage, RunQuery,
    StoreError, Tracking, WholeRun,
};

use crate::lock::{self, Lock};
use crate::{Clock, PipelineError};

/// How many cells are sent at once.
const BATCH: usize = 64;
/// How long a server that is away is left alone, at first and at most.
const FIRST_PAUSE_MS: i64 = 1_000;
const LONGEST_PAUSE_MS: i64 = 60_000;

/// What a person should know, each said once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The server is away; what is generated waits.
    Away { reason: String },
    /// It answers again, and so many cells are to be delivered.
    Back { waiting: u64 },
    /// It will not have this cell, which stays in the journal.
    Refused { cell: String, reason: String },
}

/// Where notices go.
pub type Teller = Box<dyn Fn(&Notice) + Send + Sync>;

/// A remote store with this machine's journal before it.
pub struct Journaled {
    inner: Arc<dyn Tracking>,
    state: Arc<State>,
    place: String,
    locks: PathBuf,
    clock: Clock,
    tell: Teller,
    line: Mutex<Line>,
}

/// How the server was met last.
#[derive(Debug, Default)]
struct Line {
    away: Option<Pause>,
    /// Whether cells may wait from a time when it was away.
    backlog: bool,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    until_ms: i64,
    length_ms: i64,
}

impl fmt::Debug for Journaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journaled")
            .field("inner", &self.inner)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl Journaled {
    /// `locks` is a folder that all processes of this machine share with the state.
    pub fn new(
        inner: Arc<dyn Tracking>,
        state: Arc<State>,
        locks: PathBuf,
        clock: Clock,
        tell: Teller,
    ) -> Self {
        Self {
            place: place_of(inner.uri()),
            inner,
            state,
            locks,
            clock,
            tell,
            line: Mutex::new(Line::default()),
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server is to be asked at all.
    fn is_due(&self) -> bool {
        let away = self.line().away;
        away.is_none_or(|pause| (self.clock)() >= pause.until_ms)
    }

    fn is_away(&self, reason: &str) {
        let mut line = self.line();
        let length_ms = line.away.map_or(FIRST_PAUSE_MS, |it| {
            (it.length_ms * 2).min(LONGEST_PAUSE_MS)
        });
        let is_news = line.away.is_none();
        line.backlog = true;
        line.away = Some(Pause {
            until_ms: (self.clock)() + length_ms,
            length_ms,
        });
        drop(line);
        if is_news {
            let reason = reason.to_owned();
            (self.tell)(&Notice::Away { reason });
        }
    }

    fn is_back(&self) -> Result<()> {
        let was_away = self.line().away.take().is_some();
        if was_away {
            let waiting = self.state.journal_count(&self.place)?;
            (self.tell)(&Notice::Back { waiting });
        }
        Ok(())
    }

    fn lock(&self, stopped: &dyn Fn() -> bool) -> Result<Lock> {
        let what = format!("journal of {}", self.place);
        lock::acquire(&self.locks, &what, stopped, || {}).map_err(|error| match error {
            PipelineError::Store(error) => error,
            PipelineError::File { path, reason } => StoreError::Unusable { path, reason },
            other => StoreError::Internal(other.to_string()),
        })
    }

    /// Sends the next entries after this one. `None` where there are no more, or where the
    /// server is away.
    fn send_next(&self, after: i64) -> Result<Option<Sent>> {
        let entries = self.state.journal_next(&self.place, after, BATCH)?;
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return Ok(None);
        };
        let last_id = last.id;
        let sent = match self.send(&first.experiment, &entries) {
            Err(StoreError::Away { reason, .. }) => {
                self.is_away(&reason);
                return Ok(None);
            }
            Ok(()) => entries.len(),
            Err(error @ StoreError::WrongAddress { .. }) => return Err(error),
            Err(_) => {
                // One that is refused does not hold up the others.
                let mut sent = 0;
                for entry in &entries {
                    match self.send(&entry.experiment, std::slice::from_ref(entry)) {
                        Ok(()) => sent += 1,
                        Err(StoreError::Away { reason, .. }) => {
                            self.is_away(&reason);
                            return Ok(None);
                        }
                        Err(error) => (self.tell)(&Notice::Refused {
                            cell: entry.cell.name.clone(),
                            reason: error.to_string(),
                        }),
                    }
                }
                sent
            }
        };
        self.is_back()?;
        Ok(Some(Sent {
            cells: sent as u64,
            last_id,
        }))
    }

    /// Sends entries of one experiment and forgets them.
    fn send(&self, experiment: &str, entries: &[Entry]) -> Result<()> {
        let cells: Vec<CellRecord> = entries.iter().map(|it| it.cell.clone()).collect();
        let ids: Vec<i64> = entries.iter().map(|it| it.id).collect();
        self.inner.cells_record(experiment, &cells)?;
        self.state.journal_remove(&ids)
    }
}

/// What was delivered.
struct Sent {
    cells: u64,
    last_id: i64,
}

/// The answer for cells that wait.
fn waiting(cells: &[CellRecord]) -> Vec<Recorded> {
    let recorded = cells.iter().map(|_| Recorded {
        run_id: String::new(),
        written: true,
    });
    recorded.collect()
}

/// Verbs that need the server.
macro_rules! pass_through {
    ($($verb:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $verb(&self, $($name: $type),*) -> $answer {
            self.inner.$verb($($name),*)
        })*
    };
}

impl Tracking for Journaled {
    fn cells_known(
        &self,
        experiment: &str,
        cell_keys: &[String],
    ) -> Result<Vec<Option<KnownCell>>> {
        let mut known = vec![None; cell_keys.len()];
        if self.is_due() {
            match self.inner.cells_known(experiment, cell_keys) {
                Ok(answer) => {
                    known = answer;
                    self.is_back()?;
                }
                Err(StoreError::Away { reason, .. }) => self.is_away(&reason),
                Err(error) => return Err(error),
            }
        }
        let here = self
            .state
            .journal_known(&self.place, experiment, cell_keys)?;
        for (known, here) in known.iter_mut().zip(here) {
            let settled = known.as_ref().is_some_and(|it| !it.failed);
            if let (false, Some(failed)) = (settled, here) {
                *known = Some(KnownCell {
                    run_id: String::new(),
                    failed,
                });
            }
        }
        Ok(known)
    }

    fn cells_record(&self, experiment: &str, cells: &[CellRecord]) -> Result<Vec<Recorded>> {
        let ids = match self.state.journal_put(&self.place, experiment, cells) {
            Ok(ids) => ids,
            // A journal that cannot be written is no reason to lose what the server would take.
            Err(journal) => {
                let sent = self.inner.cells_record(experiment, cells);
                return sent.map_err(|server| StoreError::Unusable {
                    path: "the journal of undelivered cells".to_owned(),
                    reason: format!("{journal}; {server}"),
                });
            }
        };
        if !self.is_due() {
            return Ok(waiting(cells));
        }
        let _lock = self.lock(&|| false)?;
        match self.inner.cells_record(experiment, cells) {
            Ok(recorded) => {
                self.state.journal_remove(&ids)?;
                self.is_back()?;
                if self.line().backlog {
                    let sent = self.send_next(0)?;
                    let mut line = self.line();
                    line.backlog = line.away.is_some() || sent.is_some_and(|it| it.cells > 0);
                }
                Ok(recorded)
            }
            Err(StoreError::Away { reason, .. }) => {
                self.is_away(&reason);
                Ok(waiting(cells))
            }
            Err(error) => Err(error),
        }
    }

    fn deliver(&self, stopped: &dyn Fn() -> bool) -> Result<Delivery> {
        let mut delivery = Delivery::default();
        let mut after = 0;
        while !stopped() && self.state.journal_count(&self.place)? > 0 {
            let _lock = match self.lock(stopped) {
                Err(_) if stopped() => break,
                lock => lock?,
            };
            let Some(sent) = self.send_next(after)? else {
                break;
            };
            delivery.delivered += sent.cells;
            after = sent.last_id;
        }
        delivery.waiting = self.state.journal_count(&self.place)?;
        Ok(delivery)
    }

    fn uri(&self) -> &str {
        self.inner.uri()
    }

    pass_through! {
        experiment_list() -> Result<Vec<ExperimentSummary>>;
        runs_import(experiment: &str, runs: &[ImportedRun]) -> Result<Vec<Imported>>;
        run_whole(run_id: &str) -> Result<WholeRun>;
        run_add(run_id: &str, additions: &Additions) -> Result<()>;
        experiment_tags(experiment: &str) -> Result<Vec<(String, String)>>;
        experiment_tags_add(experiment: &str, tags: &[(String, String)]) -> Result<()>;
        logged_model_count(experiment: &str) -> Result<u64>;
        sitting_import(record: &SittingRecord) -> Result<bool>;
        runs_tidy(experiment: &str) -> Result<u64>;
        run_list(experiment: &str, query: &RunQuery) -> Result<RunPage>;
        run_get(run_id: &str) -> Result<Run>;
        run_delete(run_ids: &[String]) -> Result<()>;
        artifact_get(run_id: &str, path: &str) -> Result<Option<String>>;
        artifact_bytes(run_id: &str, path: &str) -> Result<Option<Vec<u8>>>;
        artifact_add(run_id: &str, path: &str, content: Vec<u8>) -> Result<()>;
        artifacts_get(run_id: &str, paths: &[&str]) -> Result<Vec<Option<String>>>;
        pending_each(
            experiment: &str,
            query: &PendingQuery,
            visit: &mut dyn FnMut(PendingRun) -> Result<()>
        ) -> Result<()>;
        judging_counts(experiment: &str) -> Result<JudgingCounts>;
        rubric_list(experiment: &str) -> Result<Vec<RubricUse>>;
        sitting_open(sitting: &Sitting) -> Result<()>;
        sitting_get(id: &str) -> Result<Option<Sitting>>;
        sitting_record(id: &str) -> Result<Option<SittingRecord>>;
        sitting_list(experiment: &str) -> Result<Vec<SittingRecord>>;
        lease_next(request: &LeaseRequest) -> Result<Leased>;
        lease_held(sitting: &str) -> Result<Vec<HeldRun>>;
        sitting_submit(handed: &Handed) -> Result<Committed>;
        sitting_close(id: &str, closing: &Closing) -> Result<()>;
        runs_reopen(reopening: &Reopening) -> Result<u64>;
        verdicts_get(run_id: &str) -> Result<Vec<VerdictFile>>;
        sitting_commit_each(rubric: &Rubric, give: Give<'_>) -> Result<Committed>;
        sitting_commit(files: &[(String, VerdictFile)], rubric: &Rubric) -> Result<Committed>;
        board_each(
            experiment: &str,
            split: Split,
            visit: &mut dyn FnMut(BoardRun<'_>) -> Result<()>
        ) -> Result<()>;
        champion_get(task: &str) -> Result<Option<Promotion>>;
        promotion_list(task: &str) -> Result<Vec<Promotion>>;
        promotion_record(promotion: &Promotion) -> Result<u32>;
    }
}
