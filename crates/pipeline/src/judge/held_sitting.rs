//! An open sitting that one process on this machine holds.
//!
//! A session that was cut off resumes: a judge with the same name and kind gets the open sitting
//! back, unless a living process holds it. A file lock tells which ones are held, so two sessions of
//! one judge at once have a sitting each.

use std::path::Path;
use std::sync::Arc;

use assize_domain::sitting::SittingState;
use assize_store::{Sittings, Tracking};

use super::queue::{Queue, SitOptions};
use crate::lock::{self, Lock};
use crate::{Now, PipelineError, Result};

/// A sitting with its queue; other processes can take it once this is dropped.
#[derive(Debug)]
pub struct HeldSitting {
    pub queue: Queue,
    /// Whether this resumes the sitting of an earlier session.
    pub resumed: bool,
    _lock: Lock,
}

/// Resumes this judge's open sitting, or opens one; `None` where nothing is pending.
pub fn resume_or_open(
    store: &Arc<dyn Tracking>,
    options: SitOptions,
    locks: &Path,
    now: &Now,
) -> Result<Option<HeldSitting>> {
    // One process at a time, so that a sitting is never seen between being opened and being held.
    let _opening = lock::acquire(locks, "opening a sitting", &|| false, |_| {})?;
    let open: Vec<String> = open_sittings(store.as_ref(), &options)?;
    for id in open {
        let Some(lock) = hold(locks, &id)? else {
            continue;
        };
        let desk = options.desk.clone();
        match Queue::resume(Arc::clone(store), &id, desk, options.lease_ms, now) {
            Ok(queue) => {
                return Ok(Some(HeldSitting {
                    queue,
                    resumed: true,
                    _lock: lock,
                }));
            }
            // It cannot be resumed, because its runs or its rubric are gone: open a new one.
            Err(PipelineError::NoSitting { .. } | PipelineError::SittingState { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let Some(queue) = Queue::open(Arc::clone(store), options, now)? else {
        return Ok(None);
    };
    let id = queue.id().to_owned();
    let Some(lock) = hold(locks, &id)? else {
        let problem = "is held by another process: try again".to_owned();
        return Err(PipelineError::SittingState { id, problem });
    };
    Ok(Some(HeldSitting {
        queue,
        resumed: false,
        _lock: lock,
    }))
}

/// The open sittings of this judge over this experiment, newest first.
fn open_sittings(store: &dyn Sittings, options: &SitOptions) -> Result<Vec<String>> {
    let records = store.sitting_list(&options.experiment)?;
    let ours = records.into_iter().rev().filter(|record| {
        record.state == SittingState::Open && record.judge.as_ref() == Some(&options.judge)
    });
    Ok(ours.map(|record| record.sitting.id).collect())
}

/// The lock of a sitting, unless a living process has it.
fn hold(locks: &Path, id: &str) -> Result<Option<Lock>> {
    match lock::acquire(locks, &format!("sitting {id}"), &|| true, |_| {}) {
        Ok(lock) => Ok(Some(lock)),
        Err(PipelineError::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
