//! File locks that are held while work is in progress, so that processes on this machine exclude each other.
//!
//! A lock lives as long as the process that holds it, so that a killed process never stalls
//! the next one; there is no time-out to tune and nothing to clean up. The files stay: only
//! the lock on them means something.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use assize_domain::hash::sha256_hex;

use crate::{PipelineError, Result};

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Takes the lock on `what`, waiting while another process holds it.
///
/// `waiting` is called once if there is somebody to wait for; `stopped` ends the wait.
pub fn acquire(
    folder: &Path,
    what: &str,
    stopped: &dyn Fn() -> bool,
    waiting: impl FnOnce(),
) -> Result<Lock> {
    let path = folder.join(format!("{}.lock", &sha256_hex(what.as_bytes())[..16]));
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
    let mut waiting = Some(waiting);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock { _file: file }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if let Some(say) = waiting.take() {
            say();
        }
        if stopped() {
            return Err(PipelineError::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(50));
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
            acquire(folder.path(), "x", &stop, || panic!("nobody holds it yet")).expect("free");
        let other = acquire(folder.path(), "y", &stop, || panic!("another lock")).expect("free");
        drop(other);
        let waited = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                acquire(folder.path(), "x", &stop, || {
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
        let _held = acquire(folder.path(), "x", &|| false, || {}).expect("free");
        let error = acquire(folder.path(), "x", &|| true, || {}).expect_err("held");
        assert!(matches!(error, PipelineError::Interrupted));
    }
}
