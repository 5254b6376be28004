//! Monitoring a job until it has ended, and determining its outcome.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use assize_store::state::jobs::{JobRecord, JobStatus};
use tokio::sync::broadcast;

use super::events::{JobUpdate, Progress, Tail};
use super::{Jobs, LOG, is_alive};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often the counts are stored.
const STORE_INTERVAL: Duration = Duration::from_secs(1);
/// How many bytes of the log are shown.
const LOG_TAIL: u64 = 8 * 1024;

/// Forwards the job's output to its subscribers and stores its outcome.
pub(super) fn run(
    jobs: &Jobs,
    job: &JobRecord,
    mut child: Option<Child>,
    updates: &broadcast::Sender<JobUpdate>,
    (is_cancelled, skipped): (&AtomicBool, &AtomicU32),
) {
    let folder = jobs.folder(&job.id);
    let mut tail = Tail::new(&folder);
    let mut progress = Progress {
        total: job.total,
        ..Progress::default()
    };
    let mut stored = Instant::now();
    let code = loop {
        let ended = match &mut child {
            Some(child) => child.try_wait().ok().flatten().map(|status| status.code()),
            None => (!is_alive(&folder)).then_some(None),
        };
        let read = tail.read_into(&mut progress, |end, line| {
            // Sending fails only without subscribers.
            let _ = updates.send(JobUpdate::Line {
                end,
                text: Arc::from(line),
            });
        });
        skipped.store(progress.skipped, Ordering::Relaxed);
        if let Err(error) = read {
            tracing::warn!(job = job.id, "the job's events cannot be read: {error}");
        }
        if let Some(code) = ended {
            break code;
        }
        if stored.elapsed() > STORE_INTERVAL {
            let counts = (progress.done, progress.failed, progress.total);
            let _ = jobs.state.job_progress(&job.id, counts);
            stored = Instant::now();
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    // The pages that a finished job links to show what it has written.
    if let Some(team) = &jobs.team {
        let _ = team.refresh();
    }
    let was_cancelled = is_cancelled.load(Ordering::SeqCst);
    if let Err(error) = jobs.finish(job, &progress, code, was_cancelled) {
        tracing::error!(job = job.id, "the job's outcome cannot be stored: {error}");
    }
    let _ = updates.send(JobUpdate::Ended);
}

/// The outcome of a job: from its exit code if this server started it, otherwise from its events.
pub(super) fn outcome(
    folder: &Path,
    progress: &Progress,
    code: Option<i32>,
    is_cancelled: bool,
) -> (JobStatus, Option<String>) {
    let log = || log_tail(folder).unwrap_or_default();
    let last_error = || {
        let log = log();
        let mut lines = log.lines().rev().filter(|it| !it.trim().is_empty());
        let last = lines.find(|it| it.starts_with("error:")).map(str::to_owned);
        last.or_else(|| {
            log.lines()
                .rev()
                .find(|it| !it.trim().is_empty())
                .map(str::to_owned)
        })
    };
    let remark = || progress.remark.clone();
    match code {
        Some(0) => (JobStatus::Done, remark()),
        // Finished, but some cells failed or are pending, or a threshold was not met.
        Some(3 | 4) => (JobStatus::Done, remark().or_else(last_error)),
        None if progress.has_summary => (JobStatus::Done, remark()),
        _ if is_cancelled => (
            JobStatus::Cancelled,
            Some("cancelled; finished cells are kept".to_owned()),
        ),
        None | Some(130) => (
            JobStatus::Failed,
            Some(
                "interrupted: the process ended early. Finished cells are kept; resume the job to \
                 run the rest"
                    .to_owned(),
            ),
        ),
        Some(code) => (
            JobStatus::Failed,
            Some(
                last_error().unwrap_or_else(|| format!("the process ended with exit code {code}")),
            ),
        ),
    }
}

/// The end of a job's log.
pub(super) fn log_tail(folder: &Path) -> std::io::Result<String> {
    let mut file = File::open(folder.join(LOG))?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
