//! File locks that are held while work is in progress, so that processes on this machine exclude each other.
//!
//! A lock lives as long as the process that holds it, so that a killed process never stalls
//! the next one; there is no time-out to tune and nothing to clean up. The files stay: only
//! the lock on them means something. Beside each is a file that says who holds it, for the messages of
//! those who wait.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use assize_domain::hash::sha256_hex;

use crate::{PipelineError, Result};

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What others are told about this process while it holds a lock.
#[derive(Debug)]
pub struct Identity {
    /// The command line, without credentials.
    pub command: String,
    pub folder: String,
    /// The present time in RFC 3339.
    pub clock: fn() -> String,
}

static IDENTITY: OnceLock<Identity> = OnceLock::new();

/// Says who this process is. Only the first call counts.
pub fn identify(identity: Identity) {
    let _ = IDENTITY.set(identity);
}

/// How long to wait for a lock.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it holds a closure")]
pub struct Patience<'a> {
    /// Ends the wait.
    pub stopped: &'a dyn Fn() -> bool,
    /// `None`: without a limit.
    pub at_most: Option<Duration>,
}

/// Takes the lock on `what`, waiting while another process holds it.
///
/// `waiting` is called once if there is somebody to wait for, with words for who it is; `stopped`
/// ends the wait.
pub fn acquire(
    folder: &Path,
    what: &str,
    stopped: &dyn Fn() -> bool,
    waiting: impl FnOnce(&str),
) -> Result<Lock> {
    let patience = Patience {
        stopped,
        at_most: None,
    };
    acquire_within(folder, what, patience, waiting)
}

/// The same, with a limit to the wait.
pub fn acquire_within(
    folder: &Path,
    what: &str,
    patience: Patience<'_>,
    waiting: impl FnOnce(&str),
) -> Result<Lock> {
    let path = folder.join(format!("{}.lock", &sha256_hex(what.as_bytes())[..16]));
    let holder = path.with_extension("holder");
    let failed = |reason: std::io::Error| PipelineError::File {
        path: path.display().to_string(),
        reason: format!("cannot be locked: {reason}"),
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    let started = Instant::now();
    let mut waiting = Some(waiting);
    loop {
        match file.try_lock() {
            Ok(()) => {
                sign(&holder);
                return Ok(Lock { _file: file });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if (patience.stopped)() {
            return Err(PipelineError::Interrupted);
        }
        if let Some(limit) = patience.at_most.filter(|limit| started.elapsed() >= *limit) {
            return Err(PipelineError::Service(format!(
                "waited {} s for {}: run the same command again when it is done, or wait longer with --wait",
                limit.as_secs(),
                holder_of(&holder)
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
        // By now a holder that took the lock a moment ago has signed.
        if let Some(say) = waiting.take() {
            say(&holder_of(&holder));
        }
    }
}

/// Writes down who holds the lock. It is only a help for those who wait, so a failure is ignored.
fn sign(holder: &Path) {
    let text = IDENTITY.get().map_or_else(String::new, |it| {
        let pid = std::process::id();
        let since = (it.clock)();
        format!(
            "process {pid} (`{}` in {}, since {since})",
            it.command, it.folder
        )
    });
    let _ = std::fs::write(holder, text);
}

fn holder_of(holder: &Path) -> String {
    let text = std::fs::read_to_string(holder).unwrap_or_default();
    match text.trim() {
        "" => "another Assize process".to_owned(),
        who => format!("another Assize process: {who}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_second_holder_waits_until_the_first_lets_go() {
        let folder = tempfile::tempdir().expect("temp folder");
        let stop = || false;
        let first =
            acquire(folder.path(), "x", &stop, |_| panic!("nobody holds it yet")).expect("free");
        let other = acquire(folder.path(), "y", &stop, |_| panic!("another lock")).expect("free");
        drop(other);
        let waited = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                acquire(folder.path(), "x", &stop, |_| {
                    waited.store(true, Ordering::SeqCst);
                })
                .map(|_| ())
            });
            while !waited.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            drop(first);
            second.join().expect("no panic").expect("acquired");
        });
    }

    #[test]
    fn waiting_can_be_interrupted() {
        let folder = tempfile::tempdir().expect("temp folder");
        let _held = acquire(folder.path(), "x", &|| false, |_| {}).expect("free");
        let error = acquire(folder.path(), "x", &|| true, |_| {}).expect_err("held");
        assert!(matches!(error, PipelineError::Interrupted));
    }

    #[test]
    fn waiting_has_a_limit_and_the_error_says_who_holds_it() {
        let folder = tempfile::tempdir().expect("temp folder");
        identify(Identity {
            command: "assize collect".to_owned(),
            folder: "/here".to_owned(),
            clock: || "2026-01-01T10:00:00Z".to_owned(),
        });
        let _held = acquire(folder.path(), "x", &|| false, |_| {}).expect("free");
        let patience = Patience {
            stopped: &|| false,
            at_most: Some(Duration::ZERO),
        };
        let error = acquire_within(folder.path(), "x", patience, |_| {}).expect_err("held");
        let pid = std::process::id();
        let who = format!("process {pid} (`assize collect` in /here, since 2026-01-01T10:00:00Z)");
        assert!(error.to_string().contains(&who), "{error}");
    }
}
