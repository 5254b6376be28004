//! A seat at the queue: an open sitting that one process on this machine holds.
//!
//! A session that was cut off goes on where it was: whoever sits down with the same name and
//! kind gets the open sitting back that no living process holds. A held lock tells which
//! those are, so two sessions of one judge at once have a sitting each.

use std::path::Path;
use std::sync::Arc;

use assize_domain::sitting::SittingState;
use assize_store::Tracking;

use super::queue::{Queue, SitOptions};
use crate::lock::{self, Lock};
use crate::{Now, PipelineError, Result};

/// A place at the queue, until it is dropped.
#[derive(Debug)]
pub struct Seat {
    pub queue: Queue,
    /// Whether an earlier session's sitting goes on.
    pub resumed: bool,
    _lock: Lock,
}

/// Sits down; `None` where nothing waits.
pub fn take(
    store: &Arc<dyn Tracking>,
    options: SitOptions,
    locks: &Path,
    now: &Now,
) -> Result<Option<Seat>> {
    // One at a time, so that a sitting is never seen between being opened and being held.
    let _door = lock::acquire(locks, "the door to the queue", &|| false, || {})?;
    let open: Vec<String> = open_sittings(store.as_ref(), &options)?;
    for id in open {
        let Some(lock) = hold(locks, &id)? else {
            continue;
        };
        let desk = options.desk.clone();
        match Queue::resume(Arc::clone(store), &id, desk, options.lease_ms, now) {
            Ok(queue) => {
                return Ok(Some(Seat {
                    queue,
                    resumed: true,
                    _lock: lock,
                }));
            }
            // It cannot go on (its runs or its rubric are gone): a new one can.
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
    Ok(Some(Seat {
        queue,
        resumed: false,
        _lock: lock,
    }))
}

/// The open sittings of this judge over this experiment, newest first.
fn open_sittings(store: &dyn Tracking, options: &SitOptions) -> Result<Vec<String>> {
    let records = store.sitting_list(&options.experiment)?;
    let ours = records.into_iter().rev().filter(|record| {
        record.state == SittingState::Open && record.judge.as_ref() == Some(&options.judge)
    });
    Ok(ours.map(|record| record.sitting.id).collect())
}

/// The lock of a sitting, unless a living process has it.
fn hold(locks: &Path, id: &str) -> Result<Option<Lock>> {
    match lock::acquire(locks, &format!("sitting {id}"), &|| true, || {}) {
        Ok(lock) => Ok(Some(lock)),
        Err(PipelineError::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
