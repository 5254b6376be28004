//! The one thread of this process that writes, with group commit.
//!
//! Callers hand over jobs and wait. The thread opens a transaction, runs every job that is
//! waiting, each inside a savepoint of its own so that a failing job fails alone, commits
//! once, and only then acknowledges them all. Beginning with `IMMEDIATE` makes other
//! processes' writers wait their turn instead of failing halfway.
//!
//! A job must not keep state outside the database and the [`Session`]: both are taken back
//! when it fails.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use super::session::Session;
use crate::sqlite::{Attempt, Fault, explain};
use crate::{Result, StoreError};

/// Jobs that share a commit at most, so that the first does not wait for ever.
const GROUP: usize = 64;

/// Takes the session, or why there is no transaction to work in.
type Job = Box<dyn FnOnce(Result<&mut Session>) -> Done + Send>;
type Acknowledge = Box<dyn FnOnce(Option<StoreError>) + Send>;

/// A job that has run; its caller waits for the commit.
struct Done {
    failed: bool,
    /// Takes why the commit failed, if it did.
    acknowledge: Acknowledge,
}

/// The handle that callers write through.
pub(crate) struct Writer {
    path: PathBuf,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub fn start(path: PathBuf, session: Session) -> Result<Self> {
        let (jobs, waiting) = channel();
        let place = path.clone();
        let thread = std::thread::Builder::new()
            .name("assize-store".to_owned())
            .spawn(move || work(&place, session, &waiting))
            .map_err(|error| stopped(&path, &format!("its thread cannot start ({error})")))?;
        Ok(Self {
            path,
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Runs a job in a transaction and waits until it is committed.
    pub fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Session) -> Attempt<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = sync_channel(1);
        let path = self.path.clone();
        let job: Job = Box::new(move |session| {
            let outcome = session.and_then(|session| job(session).map_err(|fault| fault.at(&path)));
            done(outcome, answer)
        });
        let sent = self.jobs.as_ref().is_some_and(|it| it.send(job).is_ok());
        let outcome = if sent { answered.recv().ok() } else { None };
        outcome.unwrap_or_else(|| Err(stopped(&self.path, "the thread that writes has ended")))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic over there has already been reported by the runtime.
            let _ = thread.join();
        }
    }
}

fn stopped(path: &Path, reason: &str) -> StoreError {
    StoreError::Unusable {
        path: path.display().to_string(),
        reason: format!("{reason}: run the command again"),
    }
}

fn done<T: Send + 'static>(outcome: Result<T>, answer: SyncSender<Result<T>>) -> Done {
    Done {
        failed: outcome.is_err(),
        acknowledge: Box::new(move |commit_error| {
            let outcome = match commit_error {
                Some(error) if outcome.is_ok() => Err(error),
                _ => outcome,
            };
            // A caller that is gone needs no answer.
            let _ = answer.send(outcome);
        }),
    }
}

fn work(path: &Path, mut session: Session, waiting: &Receiver<Job>) {
    while let Ok(first) = waiting.recv() {
        if let Err(error) = session.conn.execute_batch("BEGIN IMMEDIATE") {
            let refused = first(Err(explain(path, error)));
            (refused.acknowledge)(None);
            continue;
        }
        let mut group = vec![run(first, &mut session)];
        while group.len() < GROUP && !session.conn.is_autocommit() {
            match waiting.try_recv() {
                Ok(job) => group.push(run(job, &mut session)),
                Err(_) => break,
            }
        }
        finish(path, &mut session, group);
    }
}

fn run(job: Job, session: &mut Session) -> Done {
    if let Err(error) = session.conn.execute_batch("SAVEPOINT job") {
        return job(Err(Fault::from(error).at(&session.path)));
    }
    let done = job(Ok(&mut *session));
    // A full disk makes SQLite end the whole transaction by itself; there is no savepoint
    // left then, and `finish` sees it.
    if done.failed {
        session.forget();
        let _ = session.conn.execute_batch("ROLLBACK TO job; RELEASE job");
    } else {
        let _ = session.conn.execute_batch("RELEASE job");
    }
    done
}

fn finish(path: &Path, session: &mut Session, group: Vec<Done>) {
    let error = if session.conn.is_autocommit() {
        Some(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT_ROLLBACK),
            Some(
                "a write that shared the transaction failed and took it back, so nothing of \
                 this was written: run the command again"
                    .to_owned(),
            ),
        ))
    } else {
        session.conn.execute_batch("COMMIT").err()
    };
    if error.is_some() {
        session.forget();
        if !session.conn.is_autocommit() {
            let _ = session.conn.execute_batch("ROLLBACK");
        }
    }
    for done in group {
        (done.acknowledge)(error.as_ref().map(|it| explain(path, again(it))));
    }
}

/// The same error for one more caller.
fn again(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            rusqlite::Error::SqliteFailure(*code, message.clone())
        }
        other => rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR),
            Some(other.to_string()),
        ),
    }
}
