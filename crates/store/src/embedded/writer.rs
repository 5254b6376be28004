//! The writer thread of this process, with group commit.
//!
//! Callers send jobs and wait. The thread opens a transaction and runs all queued jobs, each inside
//! a savepoint so that a failed job does not affect the others. It commits once, and only then
//! acknowledges them all. `BEGIN IMMEDIATE` makes writers of other processes wait instead of
//! failing later.
//!
//! A job must not keep state outside the database and the [`WriteSession`]: both are rolled back
//! when it fails.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use super::schema::LAYOUT;
use super::write_session::WriteSession;
use crate::sqlite::{Attempt, Fault, explain, is_newer};
use crate::{Result, StoreError};

/// The maximum number of jobs in a commit, which limits how long the first one waits.
const GROUP: usize = 64;

/// Receives the session, or the reason why there is no transaction.
type Job = Box<dyn FnOnce(Result<&mut WriteSession>) -> Done + Send>;
type Acknowledge = Box<dyn FnOnce(Option<StoreError>) + Send>;

/// A job that has run; its caller waits for the commit.
struct Done {
    failed: bool,
    /// Receives the error of the commit, if it failed.
    acknowledge: Acknowledge,
}

/// The handle that callers write through.
pub(crate) struct Writer {
    path: PathBuf,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub fn start(path: PathBuf, session: WriteSession) -> Result<Self> {
        let (jobs, waiting) = channel();
        let place = path.clone();
        let thread = std::thread::Builder::new()
            .name("assize-store".to_owned())
            .spawn(move || work(&place, session, &waiting))
            .map_err(|error| {
                stopped(&path, &format!("the writer thread cannot start ({error})"))
            })?;
        Ok(Self {
            path,
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Runs a job in a transaction and waits until it is committed.
    pub fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut WriteSession) -> Attempt<T> + Send + 'static,
    ) -> Result<T> {
        self.start_write(job).wait()
    }

    /// Starts a job without waiting for it.
    pub fn start_write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut WriteSession) -> Attempt<T> + Send + 'static,
    ) -> Answer<T> {
        let (answer, answered) = sync_channel(1);
        let path = self.path.clone();
        let job: Job = Box::new(move |session| {
            let outcome = session.and_then(|session| job(session).map_err(|fault| fault.at(&path)));
            done(outcome, answer)
        });
        let sent = self.jobs.as_ref().is_some_and(|it| it.send(job).is_ok());
        Answer {
            path: self.path.clone(),
            answered: sent.then_some(answered),
        }
    }
}

/// The pending result of a job.
pub(crate) struct Answer<T> {
    path: PathBuf,
    answered: Option<Receiver<Result<T>>>,
}

impl<T> Answer<T> {
    pub fn wait(self) -> Result<T> {
        let outcome = self.answered.and_then(|answered| answered.recv().ok());
        outcome.unwrap_or_else(|| Err(stopped(&self.path, "the writer thread has ended")))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
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

fn done<T: Send + 'static>(outcome: Result<T>, answer: SyncSender<Result<T>>) -> Done {
    Done {
        failed: outcome.is_err(),
        acknowledge: Box::new(move |commit_error| {
            let outcome = match commit_error {
                Some(error) if outcome.is_ok() => Err(error),
                _ => outcome,
            };
            // The caller may no longer be waiting.
            let _ = answer.send(outcome);
        }),
    }
}

fn work(path: &Path, mut session: WriteSession, waiting: &Receiver<Job>) {
    let file = identity(path);
    while let Ok(first) = waiting.recv() {
        // Data written to a file that was deleted or replaced would be lost.
        if identity(path) != file {
            let refused = first(Err(stopped(path, "the file has been deleted or replaced")));
            (refused.acknowledge)(None);
            continue;
        }
        if let Err(error) = session.conn.execute_batch("BEGIN IMMEDIATE") {
            let refused = first(Err(explain(path, error)));
            (refused.acknowledge)(None);
            continue;
        }
        // This version does not know the new layout, so it could violate its invariants.
        if is_newer(&session.conn, &LAYOUT).unwrap_or(false) {
            roll_back(&mut session);
            let refused = first(Err(stopped(
                path,
                "a newer version of Assize uses this file now, and this version cannot write to it",
            )));
            (refused.acknowledge)(None);
            continue;
        }
        let done = first(Ok(&mut session));
        if done.failed {
            // The transaction contains nothing else yet, so the job needed no savepoint.
            roll_back(&mut session);
            (done.acknowledge)(None);
            continue;
        }
        let mut group = vec![done];
        while group.len() < GROUP && !session.conn.is_autocommit() {
            match waiting.try_recv() {
                Ok(job) => group.push(run(job, &mut session)),
                Err(_) => break,
            }
        }
        finish(path, &mut session, group);
    }
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

fn roll_back(session: &mut WriteSession) {
    session.forget();
    // SQLite ends the transaction by itself if the disk is full.
    if !session.conn.is_autocommit() {
        let _ = session.conn.execute_batch("ROLLBACK");
    }
}

fn run(job: Job, session: &mut WriteSession) -> Done {
    if let Err(error) = session.conn.execute_batch("SAVEPOINT job") {
        return job(Err(Fault::from(error).at(&session.path)));
    }
    let done = job(Ok(&mut *session));
    // If SQLite has ended the transaction, there is no savepoint left; `finish` handles that.
    if done.failed {
        session.forget();
        let _ = session.conn.execute_batch("ROLLBACK TO job; RELEASE job");
    } else {
        let _ = session.conn.execute_batch("RELEASE job");
    }
    done
}

fn finish(path: &Path, session: &mut WriteSession, group: Vec<Done>) {
    let error = if session.conn.is_autocommit() {
        Some(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT_ROLLBACK),
            Some(
                "another write in the same transaction failed and rolled it back, so nothing was \
                 written: run the command again"
                    .to_owned(),
            ),
        ))
    } else {
        session.conn.execute_batch("COMMIT").err()
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
    use crate::embedded::{random_run_id, tune_writer};
    use crate::sqlite;

    fn writer(path: &Path) -> Writer {
        let conn = sqlite::open(path, &LAYOUT).unwrap();
        tune_writer(&conn).unwrap();
        let session = WriteSession::new(
            path.to_owned(),
            conn,
            Box::new(|| 0),
            Box::new(random_run_id),
        );
        Writer::start(path.to_owned(), session).unwrap()
    }

    fn texts(writer: &Writer) -> Vec<String> {
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
                    std::thread::sleep(std::time::Duration::from_millis(200));
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
