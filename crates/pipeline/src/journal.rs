//! The journal before a remote store: nothing generated is lost while the server is unreachable.
//!
//! [`Journal`] is where a collection records cells ([`Cells`]) when the store is a server. Cells
//! go into this machine's journal first (`assize_store::state::journal`), are then sent, and
//! leave the journal once the server has acknowledged them. While the server is unreachable,
//! recording a cell succeeds without a run id, the cell waits, and the server is asked again
//! with growing pauses. Waiting cells are delivered when the server answers again: in the same
//! collection, at its end, or by the next command.
//!
//! The sender holds the lock on the server's journal, so that two processes of this machine
//! never send the same cell at once. Delivery is at least once: a store leaves a cell alone that
//! is there already, so in the end every cell counts once, by its key.
//!
//! Judging and comparing need the server and talk to its store directly. The embedded store
//! needs no journal; what it acknowledges is on the disk.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assize_domain::run::CellRecord;
use assize_http::place_of;
use assize_store::state::State;
use assize_store::state::journal::JournalEntry;
use assize_store::{Cells, KnownCell, Recorded, Result, StoreError};

use crate::lock::{self, Lock};
use crate::{Clock, PipelineError};

/// How many cells are sent at once.
const BATCH: usize = 64;
/// How long an unreachable server is not asked again, at first and at most.
const FIRST_DELAY_MS: i64 = 1_000;
const LONGEST_DELAY_MS: i64 = 60_000;

/// What a person should know, each said once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The server is unreachable; what is generated waits.
    Unreachable { reason: String },
    /// It answers again, and so many cells are to be delivered.
    Reachable { waiting: u64 },
    /// It refuses this cell, which stays in the journal.
    Refused { cell: String, reason: String },
}

/// Where notices go.
pub type Teller = Box<dyn Fn(&Notice) + Send + Sync>;

/// What a delivery did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Delivery {
    pub delivered: u64,
    /// Cells that still wait in the journal.
    pub waiting: u64,
}

/// This machine's journal before a remote store.
pub struct Journal {
    server: Arc<dyn Cells>,
    state: Arc<State>,
    /// The server's address without credentials, under which the journal keeps its cells.
    address: String,
    locks: PathBuf,
    clock: Clock,
    tell: Teller,
    reachability: Mutex<Reachability>,
}

/// What the last requests showed of the server.
#[derive(Debug, Default)]
struct Reachability {
    /// When to ask again, while it is unreachable.
    backoff: Option<Backoff>,
    /// Whether cells may wait from a time when it was unreachable.
    backlog: bool,
}

#[derive(Debug, Clone, Copy)]
struct Backoff {
    until_ms: i64,
    delay_ms: i64,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("server", &self.server)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Journal {
    /// The journal before the server at this URI. `locks` is a folder that all processes of this
    /// machine share with the state.
    pub fn new(
        server: Arc<dyn Cells>,
        uri: &str,
        state: Arc<State>,
        locks: PathBuf,
        clock: Clock,
        tell: Teller,
    ) -> Self {
        Self {
            address: place_of(uri),
            server,
            state,
            locks,
            clock,
            tell,
            reachability: Mutex::default(),
        }
    }

    /// Delivers the cells that wait, until `stopped` says so.
    pub fn deliver(&self, stopped: &dyn Fn() -> bool) -> Result<Delivery> {
        let mut delivery = Delivery::default();
        let mut after = 0;
        while !stopped() && self.state.journal_count(&self.address)? > 0 {
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
        delivery.waiting = self.state.journal_count(&self.address)?;
        Ok(delivery)
    }

    fn reachability(&self) -> MutexGuard<'_, Reachability> {
        self.reachability
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server is to be asked at all.
    fn is_due(&self) -> bool {
        let backoff = self.reachability().backoff;
        backoff.is_none_or(|it| (self.clock)() >= it.until_ms)
    }

    fn mark_unreachable(&self, reason: &str) {
        let mut reachability = self.reachability();
        let delay_ms = reachability
            .backoff
            .map_or(FIRST_DELAY_MS, |it| (it.delay_ms * 2).min(LONGEST_DELAY_MS));
        let is_news = reachability.backoff.is_none();
        reachability.backlog = true;
        reachability.backoff = Some(Backoff {
            until_ms: (self.clock)() + delay_ms,
            delay_ms,
        });
        drop(reachability);
        if is_news {
            let reason = reason.to_owned();
            (self.tell)(&Notice::Unreachable { reason });
        }
    }

    fn mark_reachable(&self) -> Result<()> {
        let was_unreachable = self.reachability().backoff.take().is_some();
        if was_unreachable {
            let waiting = self.state.journal_count(&self.address)?;
            (self.tell)(&Notice::Reachable { waiting });
        }
        Ok(())
    }

    fn lock(&self, stopped: &dyn Fn() -> bool) -> Result<Lock> {
        let what = format!("journal of {}", self.address);
        lock::acquire(&self.locks, &what, stopped, |_| {}).map_err(|error| match error {
            PipelineError::Store(error) => error,
            PipelineError::File { path, reason } => StoreError::Unusable { path, reason },
            other => StoreError::Internal(other.to_string()),
        })
    }

    /// Sends the next entries after this one. `None` where there are no more, or where the
    /// server is unreachable.
    fn send_next(&self, after: i64) -> Result<Option<Sent>> {
        let entries = self.state.journal_next(&self.address, after, BATCH)?;
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return Ok(None);
        };
        let last_id = last.id;
        let sent = match self.send(&first.experiment, &entries) {
            Err(StoreError::Unreachable { reason, .. }) => {
                self.mark_unreachable(&reason);
                return Ok(None);
            }
            Ok(()) => entries.len(),
            Err(error @ StoreError::InvalidAddress { .. }) => return Err(error),
            Err(_) => {
                // One that is refused does not hold up the others.
                let mut sent = 0;
                for entry in &entries {
                    match self.send(&entry.experiment, std::slice::from_ref(entry)) {
                        Ok(()) => sent += 1,
                        Err(StoreError::Unreachable { reason, .. }) => {
                            self.mark_unreachable(&reason);
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
        self.mark_reachable()?;
        Ok(Some(Sent {
            cells: sent as u64,
            last_id,
        }))
    }

    /// Sends entries of one experiment and forgets them.
    fn send(&self, experiment: &str, entries: &[JournalEntry]) -> Result<()> {
        let cells: Vec<CellRecord> = entries.iter().map(|it| it.cell.clone()).collect();
        let ids: Vec<i64> = entries.iter().map(|it| it.id).collect();
        self.server.cells_record(experiment, &cells)?;
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
        run_id: None,
        written: true,
    });
    recorded.collect()
}

impl Cells for Journal {
    fn cells_known(
        &self,
        experiment: &str,
        cell_keys: &[String],
    ) -> Result<Vec<Option<KnownCell>>> {
        let mut known = vec![None; cell_keys.len()];
        if self.is_due() {
            match self.server.cells_known(experiment, cell_keys) {
                Ok(answer) => {
                    known = answer;
                    self.mark_reachable()?;
                }
                Err(StoreError::Unreachable { reason, .. }) => self.mark_unreachable(&reason),
                Err(error) => return Err(error),
            }
        }
        let here = self
            .state
            .journal_known(&self.address, experiment, cell_keys)?;
        for (known, here) in known.iter_mut().zip(here) {
            let settled = known.as_ref().is_some_and(|it| !it.failed);
            if let (false, Some(failed)) = (settled, here) {
                *known = Some(KnownCell {
                    run_id: None,
                    failed,
                });
            }
        }
        Ok(known)
    }

    fn cells_record(&self, experiment: &str, cells: &[CellRecord]) -> Result<Vec<Recorded>> {
        let ids = match self.state.journal_put(&self.address, experiment, cells) {
            Ok(ids) => ids,
            // Even if the journal cannot be written, the server may take the cells.
            Err(journal) => {
                let sent = self.server.cells_record(experiment, cells);
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
        match self.server.cells_record(experiment, cells) {
            Ok(recorded) => {
                self.state.journal_remove(&ids)?;
                self.mark_reachable()?;
                if self.reachability().backlog {
                    let sent = self.send_next(0)?;
                    let mut reachability = self.reachability();
                    reachability.backlog =
                        reachability.backoff.is_some() || sent.is_some_and(|it| it.cells > 0);
                }
                Ok(recorded)
            }
            Err(StoreError::Unreachable { reason, .. }) => {
                self.mark_unreachable(&reason);
                Ok(waiting(cells))
            }
            Err(error) => Err(error),
        }
    }
}
