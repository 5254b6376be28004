//! The thread that writes the shadows' signals and keeps the write-ahead log short.
//!
//! A checkpoint copies pages from the write-ahead log into the file and waits for the disk several
//! times, so in the writer it would delay every request. Here it runs in small steps on a connection
//! of its own while the writer goes on. The log can only start over when all of it was copied and
//! nobody writes; so when it is long, the last step, which is short because the ones before have
//! copied the rest, runs on the writer's thread between two transactions.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::Writing;
use crate::sqlite::{self, Fault};
use crate::{Result, StoreError};

/// The pause between two rounds while there is work, and while there is none.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
const IDLE_PAUSE: Duration = Duration::from_millis(500);
/// Rounds without work after which everything is copied. Not earlier, because the next write then
/// waits for the disk once.
const IDLE_ROUNDS: u32 = 20;
/// Tries to copy nearly everything before the writer's thread copies what is left.
const TRIES: usize = 8;

const LIMITS: Limits = Limits {
    step: 4_096,
    restart: 65_536,
    most: 131_072,
    last: 256,
};

/// Lengths of the write-ahead log, in pages of 4 KB.
struct Limits {
    /// Written pages that are copied in a step.
    step: i64,
    /// From this length on the log starts over.
    restart: i64,
    /// From this length on the writer's thread copies what is left, however long it takes, because
    /// pages are written faster than they can be copied beside it.
    most: i64,
    /// The most pages that are left for the writer's thread.
    last: i64,
}

pub(super) struct Maintenance {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Maintenance {
    pub fn start(path: &Path, writing: Arc<Writing>) -> Result<Self> {
        let failed = |reason: String| StoreError::Unusable {
            path: path.display().to_string(),
            reason: format!(
                "the maintenance thread cannot start ({reason}): run the command again"
            ),
        };
        let work = Work::new(path, writing, LIMITS)?;
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("assize-policies-maintenance".to_owned())
            .spawn(move || work.run(&stopped))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The runtime has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

struct Work {
    limits: Limits,
    conn: Connection,
    /// Only for waiting until the disk has what was copied. It is never closed: closing any handle
    /// of the file would release SQLite's locks on it in the whole process.
    file: ManuallyDrop<File>,
    writing: Arc<Writing>,
}

/// The length of the write-ahead log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Pages {
    written: i64,
    copied: i64,
}

impl Pages {
    const fn left(self) -> i64 {
        self.written - self.copied
    }
}

impl Work {
    fn new(path: &Path, writing: Arc<Writing>, limits: Limits) -> Result<Self> {
        let conn = sqlite::connect(path).map_err(|fault| fault.at(path))?;
        let file = File::open(path).map_err(|error| StoreError::Unusable {
            path: path.display().to_string(),
            reason: format!("it cannot be opened ({error}): make it readable"),
        })?;
        Ok(Self {
            limits,
            conn,
            file: ManuallyDrop::new(file),
            writing,
        })
    }

    fn run(&self, stopped: &Receiver<()>) {
        let mut before = Pages::default();
        let mut pause = BUSY_PAUSE;
        let mut idle_rounds = 0;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let any_signals = self.writing.signals_write();
            // A failure here, such as a full disk, also fails the next write, which reports it.
            let now = checkpoint(&self.conn, "NOOP").unwrap_or_default();
            let is_idle = now == before && !any_signals;
            idle_rounds = if is_idle { idle_rounds + 1 } else { 0 };
            if now.left() >= self.limits.step || (idle_rounds == IDLE_ROUNDS && now.left() > 0) {
                let _ = self.shorten();
            }
            pause = if is_idle { IDLE_PAUSE } else { BUSY_PAUSE };
            before = now;
        }
        self.writing.signals_write();
        // Nothing of a deleted user stays in the log of a server that has stopped.
        let _ = checkpoint(&self.conn, "TRUNCATE");
    }

    /// Copies what was written, and lets the log start over if it is long.
    fn shorten(&self) -> std::result::Result<(), Fault> {
        let mut pages = self.step()?;
        if pages.written < self.limits.restart {
            return Ok(());
        }
        for _ in 0..TRIES {
            if pages.left() <= self.limits.last || pages.written >= self.limits.most {
                break;
            }
            pages = self.step()?;
        }
        let (finished, is_finished) = sync_channel(1);
        self.writing.writer.between(move |session| {
            let _ = checkpoint(&session.conn, "PASSIVE");
            let _ = finished.send(());
        });
        let _ = is_finished.recv();
        Ok(())
    }

    /// Copies what was written so far. Returns the length of the log after that.
    fn step(&self) -> std::result::Result<Pages, Fault> {
        checkpoint(&self.conn, "PASSIVE")?;
        // Otherwise the last step would wait for all of these pages.
        let _ = self.file.sync_data();
        Ok(checkpoint(&self.conn, "NOOP")?)
    }
}

fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<Pages> {
    conn.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?
        .query_row([], |row| {
            Ok(Pages {
                written: row.get(1)?,
                copied: row.get(2)?,
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::PolicySession;
    use crate::policies::schema::LAYOUT;
    use crate::policies::shadows::Signals;
    use crate::writer::{Target, Writer};

    const SMALL: Limits = Limits {
        step: 8,
        restart: 64,
        most: 1_000,
        last: 4,
    };

    fn work(path: &Path) -> Work {
        let conn = sqlite::open(path, &LAYOUT).unwrap();
        crate::policies::tune(&conn, crate::policies::Durability::Normal).unwrap();
        let session = PolicySession {
            conn,
            next_position: None,
        };
        let target = Target {
            path: path.to_owned(),
            layout: &LAYOUT,
            group: 1,
            spacing: Duration::ZERO,
            thread: "test",
        };
        let writing = Arc::new(Writing {
            writer: Writer::start(target, session).unwrap(),
            waiting: Arc::default(),
            signals: Signals::default(),
        });
        Work::new(path, writing, SMALL).unwrap()
    }

    fn write(writing: &Writing) {
        let insert = "INSERT INTO policy_users VALUES (hex(randomblob(200)), 1)";
        let written = writing
            .writer
            .write(move |session| Ok(session.conn.execute(insert, [])?));
        assert_eq!(written.unwrap(), 1);
    }

    #[test]
    fn a_long_log_starts_over_while_others_write_and_a_short_one_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let work = work(&dir.path().join("policies.db"));
        write(&work.writing);
        let short = checkpoint(&work.conn, "NOOP").unwrap();
        work.shorten().unwrap();
        let copied = checkpoint(&work.conn, "NOOP").unwrap();
        assert_eq!((copied.written, copied.left()), (short.written, 0));
        std::thread::scope(|scope| {
            let (stop, stopped) = channel::<()>();
            let writing = &*work.writing;
            let thread = scope.spawn(move || {
                while stopped.try_recv().is_err() {
                    write(writing);
                }
            });
            let mut restarts = 0;
            let mut before = 0;
            while restarts < 5 {
                let _ = work.shorten();
                let written = checkpoint(&work.conn, "NOOP").unwrap().written;
                restarts += u32::from(written < before);
                before = written;
            }
            stop.send(()).unwrap();
            thread.join().unwrap();
        });
        let rows = work.writing.writer.write(|session| {
            let sql = "SELECT count(*) FROM policy_users";
            Ok(session
                .conn
                .query_row(sql, [], |row| row.get::<_, i64>(0))?)
        });
        assert!(rows.unwrap() > 5);
    }
}
