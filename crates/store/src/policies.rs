//! The storage of the online policies: decisions, rewards, models and the history, in one file.
//!
//! [`PolicyStore`] is for the process that serves policies. It takes a lock on the file, so there is
//! one such process, and writes through one thread with group commit ([`crate::writer`]). Every
//! acknowledgement comes after the commit. [`PolicyFile`] is what any process may do at the same
//! time: read, append to the history, and say from where a policy starts.
//!
//! The log (decisions and rewards) only grows, except that a user can be deleted whole. A reward is
//! recorded once, in the transaction that changes the model it was applied to. Models are bytes
//! that this crate does not interpret.
//!
//! See docs/design/policy-store.md for the reasons.

use std::fmt;
use std::fs::{File, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

pub use self::history::{HistoryEntry, PolicyAction};
pub use self::log::LogQuery;
pub use self::models::{ModelWrite, PolicyStart, Prior};
pub use self::records::{
    ArmModel, CandidateRecord, Decision, DecisionId, DecisionRecord, LoggedDecision, LoggedReward,
    Model, Tally, TipSource,
};
pub use self::rewards::{Reward, RewardAnswer, RewardedDecision, Update, Updated};
pub use self::shadows::{ShadowSignal, ShadowTally, ShadowTraffic};
pub use self::tallies::{ArmTally, HourTally, PolicyTally, SourceTally};
pub use self::users::Deleted;

use self::maintenance::Maintenance;
use self::shadows::Signals;
use crate::readers::Readers;
use crate::sqlite::{self, Attempt};
use crate::writer::{Session, Target, Writer};
use crate::{Result, StoreError};

mod decisions;
mod history;
mod log;
mod maintenance;
mod models;
mod records;
mod rewards;
mod schema;
mod shadows;
mod tallies;
#[cfg(test)]
mod tests;
mod users;

/// The maximum number of writes that wait for the writer.
const MOST_WAITING: usize = 16_384;

/// The minimum time between two commits.
const SPACING: Duration = Duration::from_micros(400);

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The end of the process at any time.
    #[default]
    Normal,
    /// Also a power failure: every commit waits for the disk.
    Full,
}

impl Durability {
    const fn synchronous(self) -> &'static str {
        match self {
            Self::Normal => "NORMAL",
            Self::Full => "FULL",
        }
    }

    /// The maximum number of jobs in a commit. A commit that waits for the disk takes milliseconds,
    /// so more jobs share one.
    const fn group(self) -> usize {
        match self {
            Self::Normal => 64,
            Self::Full => 512,
        }
    }
}

/// The policies' file as any process may use it, also while another process serves it.
pub struct PolicyFile {
    path: PathBuf,
    readers: Readers,
}

impl fmt::Debug for PolicyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl PolicyFile {
    /// Opens the file; creates it if it does not exist. Only the owner can read it.
    pub fn open(path: &Path) -> Result<Self> {
        sqlite::make_private(path)?;
        drop(sqlite::open(path, &schema::LAYOUT)?);
        Ok(Self::prepared(path))
    }

    fn prepared(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            readers: Readers::new(path),
        }
    }

    /// Runs a change in a transaction of its own that waits for the disk.
    fn change<T>(&self, work: impl FnOnce(&Connection) -> Attempt<T>) -> Result<T> {
        let changed = (|| {
            let mut conn = sqlite::connect(&self.path)?;
            conn.pragma_update(None, "synchronous", "FULL")?;
            conn.pragma_update(None, "wal_autocheckpoint", 0)?;
            let behavior = rusqlite::TransactionBehavior::Immediate;
            let transaction = conn.transaction_with_behavior(behavior)?;
            let outcome = work(&transaction)?;
            transaction.commit()?;
            Ok(outcome)
        })();
        changed.map_err(|fault: sqlite::Fault| fault.at(&self.path))
    }
}

/// The policies' file in the process that serves it.
pub struct PolicyStore {
    /// Ended before everything else.
    _maintenance: Maintenance,
    file: PolicyFile,
    writing: Arc<Writing>,
    last_id: AtomicI64,
    /// Released after everything else.
    _lock: File,
}

/// What the store shares with its maintenance thread.
struct Writing {
    writer: Writer<PolicySession>,
    waiting: Arc<AtomicUsize>,
    signals: Signals,
}

impl fmt::Debug for PolicyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyStore")
            .field("path", &self.file.path)
            .finish_non_exhaustive()
    }
}

impl PolicyStore {
    /// Opens the file for the process that serves policies; creates it if it does not exist. Fails
    /// if another process serves it.
    pub fn open(path: &Path, durability: Durability) -> Result<Self> {
        sqlite::make_private(path)?;
        let lock = lock(path)?;
        let conn = sqlite::open(path, &schema::LAYOUT)?;
        let last_id = tune(&conn, durability)
            .and_then(|()| decisions::last_id(&conn))
            .map_err(|error| sqlite::explain(path, error))?;
        let target = Target {
            path: path.to_owned(),
            layout: &schema::LAYOUT,
            group: durability.group(),
            spacing: SPACING,
            thread: "assize-policies",
        };
        let session = PolicySession {
            conn,
            next_position: None,
        };
        let writing = Arc::new(Writing {
            writer: Writer::start(target, session)?,
            waiting: Arc::default(),
            signals: Signals::default(),
        });
        Ok(Self {
            _maintenance: Maintenance::start(path, Arc::clone(&writing))?,
            file: PolicyFile::prepared(path),
            writing,
            last_id: AtomicI64::new(last_id),
            _lock: lock,
        })
    }

    /// What any process may do: read, append to the history, start policies.
    pub fn file(&self) -> &PolicyFile {
        &self.file
    }

    /// A new id for a decision, larger than all earlier ones of this file.
    pub fn decision_id(&self, now_ms: i64, random: u64) -> DecisionId {
        let wanted = DecisionId::new(now_ms, random).number();
        let mut id = wanted;
        // The closure always returns a value.
        let _ = self
            .last_id
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                id = wanted.max(last + 1);
                Some(id)
            });
        DecisionId::from_number(id)
    }

    /// The number of writes that wait for their commit.
    pub fn writes_waiting(&self) -> usize {
        self.writing.waiting.load(Ordering::Relaxed)
    }

    /// Runs a job on the writer's thread; `done` is called there after the commit.
    fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut PolicySession) -> Attempt<T> + Send + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let waiting = Arc::clone(&self.writing.waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return done(Err(StoreError::Overloaded {
                path: self.file.path.display().to_string(),
                waiting: MOST_WAITING,
            }));
        }
        self.writing.writer.write_then(job, move |outcome| {
            waiting.fetch_sub(1, Ordering::Relaxed);
            // A panic of the caller's function must not end the writer; the runtime reports it.
            let _ = catch_unwind(AssertUnwindSafe(|| done(outcome)));
        });
    }
}

/// A function that receives the outcome of a write.
pub type Done<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// Starts a write and waits for its outcome: `wait(|done| store.user_delete("ada", done))`.
pub fn wait<T: Send + 'static>(start: impl FnOnce(Done<T>)) -> Result<T> {
    let (answer, answered) = sync_channel(1);
    start(Box::new(move |outcome| {
        let _ = answer.send(outcome);
    }));
    answered
        .recv()
        .unwrap_or_else(|_| Err(StoreError::worker_panicked()))
}

/// The writer's connection.
struct PolicySession {
    conn: Connection,
    /// The position of the next reward, once it was read.
    next_position: Option<i64>,
}

impl Session for PolicySession {
    fn conn(&self) -> &Connection {
        &self.conn
    }

    fn forget(&mut self) {
        self.next_position = None;
    }
}

fn tune(conn: &Connection, durability: Durability) -> rusqlite::Result<()> {
    conn.pragma_update(None, "synchronous", durability.synchronous())?;
    conn.pragma_update(None, "cache_size", -4_096)?;
    // The maintenance thread does that, because a checkpoint in the writer would delay requests.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    // Above the length at which the log usually starts over, so that it shrinks after an overload.
    conn.pragma_update(None, "journal_size_limit", 320 << 20)?;
    // What a deleted user has left must not remain in unused parts of the file.
    conn.pragma_update(None, "secure_delete", "ON")
}

/// Takes the lock that only one serving process can hold. The operating system releases it when the
/// process ends, however that happens.
fn lock(path: &Path) -> Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    sqlite::make_private(&name)?;
    let unusable = |reason: String| StoreError::Unusable {
        path: path.display().to_string(),
        reason,
    };
    let opened = File::options().write(true).open(&name);
    let file = opened.map_err(|error| {
        let name = name.display();
        unusable(format!(
            "{name} cannot be opened ({error}): make it writable"
        ))
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(unusable(
            "another process serves policies from this file: stop that `assize serve`, or run this \
             one in another folder"
                .to_owned(),
        )),
        Err(TryLockError::Error(error)) => {
            let name = name.display();
            Err(unusable(format!(
                "{name} cannot be locked ({error}): use a folder on a local disk"
            )))
        }
    }
}
