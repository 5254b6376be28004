//! A thread that writes to one file, with group commit.
//!
//! Callers send jobs and wait, or give a function that is called when the job is done. The thread
//! opens a transaction and runs all queued jobs, each inside a savepoint so that a failed job does
//! not affect the others. It commits once, and only then acknowledges them all. `BEGIN IMMEDIATE`
//! makes writers of other processes wait instead of failing later.
//!
//! A job must not keep state outside the database and the [`Session`]: both are rolled back when it
//! fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::sqlite::{Attempt, Layout, explain, is_newer};
use crate::{Result, StoreError};

/// What jobs work with: a connection, and what is remembered between jobs.
pub(crate) trait Session: Send + 'static {
    fn conn(&self) -> &Connection;

    /// Clears what may come from a transaction that was rolled back.
    fn forget(&mut self);
}

/// Receives the session, or the reason why there is no transaction.
type Job<S> = Box<dyn FnOnce(Result<&mut S>) -> Done + Send>;
type Acknowledge = Box<dyn FnOnce(Option<StoreError>) + Send>;

/// Runs while no transaction is open.
type Task<S> = Box<dyn FnOnce(&mut S) + Send>;

enum Message<S> {
    Job(Job<S>),
    Between(Task<S>),
}

/// A job that has run; its caller waits for the commit.
struct Done {
    failed: bool,
    /// Receives the error of the commit, if it failed.
    acknowledge: Acknowledge,
}

/// The file that a writer writes to, and how.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub path: PathBuf,
    pub layout: &'static Layout,
    /// The maximum number of jobs in a commit, which limits how long the first one waits.
    pub group: usize,
    /// The minimum time between two commits. A job that comes later after a commit never waits;
    /// jobs that come faster share commits, which saves most of their work.
    pub spacing: Duration,
    /// The name of the thread.
    pub thread: &'static str,
}

/// The handle that callers write through.
pub(crate) struct Writer<S> {
    path: Arc<Path>,
    messages: Option<Sender<Message<S>>>,
    thread: Option<JoinHandle<()>>,
}

impl<S: Session> Writer<S> {
    pub fn start(target: Target, session: S) -> Result<Self> {
        let (messages, waiting) = channel();
        let path: Arc<Path> = Arc::from(target.path.as_path());
        let thread = std::thread::Builder::new()
            .name(target.thread.to_owned())
            .spawn(move || work(&target, session, &waiting))
            .map_err(|error| {
                stopped(&path, &format!("the writer thread cannot start ({error})"))
            })?;
        Ok(Self {
            path,
            messages: Some(messages),
            thread: Some(thread),
        })
    }

    /// Runs a job in a transaction and waits until it is committed.
    pub fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> Attempt<T> + Send + 'static,
    ) -> Result<T> {
        self.start_write(job).wait()
    }

    /// Starts a job without waiting for it.
    pub fn start_write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> Attempt<T> + Send + 'static,
    ) -> Answer<T> {
        let (answer, answered) = sync_channel(1);
        self.write_then(job, move |outcome| {
            // The caller may no longer be waiting.
            let _ = answer.send(outcome);
        });
        Answer {
            path: Arc::clone(&self.path),
            answered,
        }
    }

    /// Runs a job in a transaction and calls `done` on the writer's thread when it is committed or
    /// has failed; on this thread if the writer has ended.
    pub fn write_then<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> Attempt<T> + Send + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let path = Arc::clone(&self.path);
        self.send(Message::Job(Box::new(move |session| {
            let outcome = session.and_then(|session| job(session).map_err(|fault| fault.at(&path)));
            Done {
                failed: outcome.is_err(),
                acknowledge: Box::new(move |commit_error| {
                    done(match commit_error {
                        Some(error) if outcome.is_ok() => Err(error),
                        _ => outcome,
                    });
                }),
            }
        })));
    }

    /// Runs a task on the writer's connection after the current transaction.
    pub fn between(&self, task: impl FnOnce(&mut S) + Send + 'static) {
        self.send(Message::Between(Box::new(task)));
    }

    fn send(&self, message: Message<S>) {
        let left = match &self.messages {
            Some(messages) => messages.send(message).err().map(|it| it.0),
            None => Some(message),
        };
        if let Some(Message::Job(job)) = left {
            refuse(job, stopped(&self.path, "the writer thread has ended"));
        }
    }
}

/// The pending result of a job.
pub(crate) struct Answer<T> {
    path: Arc<Path>,
    answered: Receiver<Result<T>>,
}

impl<T> Answer<T> {
    pub fn wait(self) -> Result<T> {
        let outcome = self.answered.recv();
        outcome.unwrap_or_else(|_| Err(stopped(&self.path, "the writer thread has ended")))
    }
}

impl<S> Drop for Writer<S> {
    fn drop(&mut self) {
        self.messages = None;
        if let Some(thread) = self.thread.take() {
            // The runtime has already reported a panic of the thread.
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

fn refuse<S>(job: Job<S>, reason: StoreError) {
    (job(Err(reason)).acknowledge)(None);
}

fn work<S: Session>(target: &Target, mut session: S, waiting: &Receiver<Message<S>>) {
    let file = identity(&target.path);
    let mut next_commit = Instant::now();
    while let Ok(message) = waiting.recv() {
        let early = next_commit.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            std::thread::sleep(early);
        }
        let task = match message {
            Message::Between(task) => Some(task),
            // Data written to a file that was deleted or replaced would be lost.
            Message::Job(first) if identity(&target.path) != file => {
                let reason = "the file has been deleted or replaced";
                refuse(first, stopped(&target.path, reason));
                None
            }
            Message::Job(first) => transaction(target, &mut session, first, waiting),
        };
        if let Some(task) = task {
            task(&mut session);
        }
        next_commit = Instant::now() + target.spacing;
    }
}

/// Runs the first job and those that wait behind it in one transaction. Returns a task that came
/// after them and has to run outside of it.
fn transaction<S: Session>(
    target: &Target,
    session: &mut S,
    first: Job<S>,
    waiting: &Receiver<Message<S>>,
) -> Option<Task<S>> {
    if let Err(error) = execute(session.conn(), "BEGIN IMMEDIATE") {
        refuse(first, explain(&target.path, error));
        return None;
    }
    // This version does not know the new layout, so it could violate its invariants.
    if is_newer(session.conn(), target.layout).unwrap_or(false) {
        roll_back(session);
        let reason =
            "a newer version of Assize uses this file now, and this version cannot write to it";
        refuse(first, stopped(&target.path, reason));
        return None;
    }
    let done = first(Ok(&mut *session));
    if done.failed {
        // The transaction contains nothing else yet, so the job needed no savepoint.
        roll_back(session);
        (done.acknowledge)(None);
        return None;
    }
    let mut group = vec![done];
    let mut task = None;
    while group.len() < target.group && !session.conn().is_autocommit() {
        match waiting.try_recv() {
            Ok(Message::Job(job)) => group.push(run(&target.path, job, session)),
            Ok(Message::Between(next)) => {
                task = Some(next);
                break;
            }
            Err(_) => break,
        }
    }
    finish(&target.path, session, group);
    task
}

/// The identity of the file at a path.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> bool {
    path.exists()
}

/// Runs a statement that is parsed once.
fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(|_| ())
}

fn roll_back(session: &mut impl Session) {
    session.forget();
    // SQLite ends the transaction by itself if the disk is full.
    if !session.conn().is_autocommit() {
        let _ = execute(session.conn(), "ROLLBACK");
    }
}

fn run<S: Session>(path: &Path, job: Job<S>, session: &mut S) -> Done {
    if let Err(error) = execute(session.conn(), "SAVEPOINT job") {
        return job(Err(explain(path, error)));
    }
    let done = job(Ok(&mut *session));
    // If SQLite has ended the transaction, there is no savepoint left; `finish` handles that.
    if done.failed {
        session.forget();
        let _ = execute(session.conn(), "ROLLBACK TO job");
    }
    let _ = execute(session.conn(), "RELEASE job");
    done
}

fn finish(path: &Path, session: &mut impl Session, group: Vec<Done>) {
    let error = if session.conn().is_autocommit() {
        Some(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT_ROLLBACK),
            Some(
                "another write in the same transaction failed and rolled it back, so nothing was \
                 written: run the command again"
                    .to_owned(),
            ),
        ))
    } else {
        execute(session.conn(), "COMMIT").err()
    };
    if error.is_some() {
        roll_back(session);
    }
    for done in group {
        (done.acknowledge)(error.as_ref().map(|it| explain(path, clone_error(it))));
    }
}

/// A copy of an error, which does not implement `Clone`.
fn clone_error(error: &rusqlite::Error) -> rusqlite::Error {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::{WriteSession, random_run_id, start_writer};

    fn writer(path: &Path) -> Writer<WriteSession> {
        start_writer(path, Box::new(|| 0), Box::new(random_run_id))
            .unwrap()
            .0
    }

    fn texts(writer: &Writer<WriteSession>) -> Vec<String> {
        writer
            .write(|session| {
                let mut list = session
                    .conn
                    .prepare("SELECT text FROM texts WHERE id > 99 ORDER BY text")?;
                let texts = list.query_map([], |row| row.get(0))?;
                Ok(texts.collect::<rusqlite::Result<_>>()?)
            })
            .unwrap()
    }

    #[test]
    fn a_full_disk_fails_every_job_of_the_group_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let writer = writer(&dir.path().join("assize.db"));
        let limit_pages = |limit: u32| {
            let sql = format!("PRAGMA max_page_count = {limit}");
            writer
                .write(move |session| Ok(session.conn.query_row(&sql, [], |_| Ok(()))?))
                .unwrap();
        };
        // SQLite raises a limit that is below the file's current size to that size.
        limit_pages(1);
        let (busy, is_busy) = sync_channel(0);
        let (small, large) = std::thread::scope(|scope| {
            let small = scope.spawn(|| {
                writer.write(move |session| {
                    session.text("small")?;
                    // From here on, the other job waits for the same commit.
                    busy.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(200));
                    Ok(())
                })
            });
            is_busy.recv().unwrap();
            let large = writer.write(|session| session.blob_own(&vec![7; 1 << 20]));
            (small.join().unwrap(), large)
        });
        let message = large.unwrap_err().to_string();
        assert!(message.contains("the disk is full"), "{message}");
        assert!(message.contains("assize.db"), "{message}");
        // Whether SQLite rolls back the job or the whole group, the results must say so.
        let kept = if small.is_ok() { vec!["small"] } else { vec![] };
        assert_eq!(texts(&writer), kept);

        limit_pages(1_000_000);
        writer.write(|session| session.text("large")).unwrap();
        writer
            .write(|session| session.blob_own(&vec![7; 1 << 20]))
            .unwrap();
        assert!(texts(&writer).contains(&"large".to_owned()));
    }

    #[test]
    fn a_read_only_store_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let writer = writer(&dir.path().join("assize.db"));
        writer
            .write(|session| Ok(session.conn.pragma_update(None, "query_only", "ON")?))
            .unwrap();
        let error = writer.write(|session| session.text("x")).unwrap_err();
        assert!(error.to_string().contains("read-only"), "{error}");
    }
}
