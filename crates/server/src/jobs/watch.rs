//! Following a job until it is over, and saying how it ended.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use assize_store::state::jobs::{JobRecord, JobStatus};
use tokio::sync::broadcast;

use super::events::{News, Progress, Tail};
use super::{Jobs, LOG, is_alive};

const EVERY: Duration = Duration::from_millis(100);
/// How often counts are written down.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// How much of the log is shown.
const LOG_TAIL: u64 = 8 * 1024;

/// Tells watchers what the job prints, and writes down how it ended.
pub(super) fn follow(
    jobs: &Jobs,
    job: &JobRecord,
    mut child: Option<Child>,
    news: &broadcast::Sender<News>,
    (is_cancelled, skipped): (&AtomicBool, &AtomicU32),
) {
    let folder = jobs.folder(&job.id);
    let mut tail = Tail::new(&folder);
    let mut progress = Progress {
        total: job.total,
        ..Progress::default()
    };
    let mut written = Instant::now();
    let code = loop {
        let ended = match &mut child {
            Some(child) => child.try_wait().ok().flatten().map(|status| status.code()),
            None => (!is_alive(&folder)).then_some(None),
        };
        let read = tail.read_into(&mut progress, |end, line| {
            // Nobody watching is no error.
            let _ = news.send(News::Line {
                end,
                text: Arc::from(line),
            });
        });
        skipped.store(progress.skipped, Ordering::Relaxed);
        if let Err(error) = read {
            tracing::warn!(job = job.id, "its events cannot be read: {error}");
        }
        if let Some(code) = ended {
            break code;
        }
        if written.elapsed() > WRITE_EVERY {
            let counts = (progress.done, progress.failed, progress.total);
            let _ = jobs.state.job_progress(&job.id, counts);
            written = Instant::now();
        }
        std::thread::sleep(EVERY);
    };
    let was_cancelled = is_cancelled.load(Ordering::SeqCst);
    if let Err(error) = jobs.finish(job, &progress, code, was_cancelled) {
        tracing::error!(job = job.id, "its end cannot be written down: {error}");
    }
    let _ = news.send(News::Over);
}

/// How a job ended, from its exit code where this server started it, else from what it said.
pub(super) fn ending(
    folder: &Path,
    progress: &Progress,
    code: Option<i32>,
    is_cancelled: bool,
) -> (JobStatus, Option<String>) {
    let log = || log_tail(folder).unwrap_or_default();
    let last_words = || {
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
        // Finished, and some cells failed or stay pending, or a threshold said no.
        Some(3 | 4) => (JobStatus::Done, remark().or_else(last_words)),
        None if progress.has_summary => (JobStatus::Done, remark()),
        _ if is_cancelled => (
            JobStatus::Cancelled,
            Some("cancelled; what was done is kept".to_owned()),
        ),
        None | Some(130) => (
            JobStatus::Failed,
            Some(
                "interrupted: its process ended early. What was done is kept; resume it".to_owned(),
            ),
        ),
        Some(code) => (
            JobStatus::Failed,
            Some(last_words().unwrap_or_else(|| format!("it ended with exit code {code}"))),
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
