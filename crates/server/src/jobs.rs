//! Jobs: collections and automatic judges, as subprocesses of the same binary.
//!
//! A crash of an engine ends its job and never the server. A job's folder holds what the
//! process prints: `events.jsonl` (its stdout, one object a line) and `log.txt` (its stderr).
//! Its standard input is the file `lock`, on which this server took a lock before it started
//! the process: the lock belongs to the open file, so it is held exactly as long as the process
//! lives, also when the server is gone. A new server therefore knows which jobs are alive
//! without trusting a process id, goes on to watch those, and marks the others as interrupted.
//!
//! Jobs that fill the memory of one host run one after the other ([`Plan::hosts`]).

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use assize_pipeline::estimate::seconds_left;
use assize_store::state::State;
use assize_store::state::jobs::{JobRecord, JobStatus};
use tokio::sync::{broadcast, watch as watch_channel};

use crate::error::{Answer, ApiError};
use crate::{Config, ServerError};
use plan::Plan;

pub(crate) mod events;
pub mod plan;
mod watch;

/// How many jobs run at once, whatever their hosts.
const MOST_RUNNING: usize = 4;
/// How often the queue is looked at where nobody says that something happened.
const EVERY: Duration = Duration::from_millis(200);
/// What waits for a slow watcher before it has to read the file again.
const BACKLOG: usize = 1024;

/// The queue of this machine's jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    state: Arc<State>,
    config: Arc<Config>,
    watched: Mutex<HashMap<String, Watched>>,
    /// Who resumes looks first, and nobody else meanwhile.
    resuming: Mutex<()>,
    stopping: watch_channel::Sender<bool>,
}

/// A job that is alive.
#[derive(Debug)]
struct Watched {
    hosts: Vec<String>,
    news: broadcast::Sender<events::News>,
    is_cancelled: Arc<AtomicBool>,
    /// Cells that were there already, so far.
    skipped: Arc<AtomicU32>,
}

impl Jobs {
    /// Takes over what an earlier server left, and starts what is queued from now on.
    pub fn start(state: Arc<State>, config: Arc<Config>) -> Result<Arc<Self>, ServerError> {
        let jobs = Arc::new(Self {
            state,
            config,
            watched: Mutex::default(),
            resuming: Mutex::default(),
            stopping: watch_channel::Sender::new(false),
        });
        for job in jobs.state.job_unfinished()? {
            if job.status == JobStatus::Running {
                jobs.take_over(&job)?;
            }
        }
        let scheduler = Arc::clone(&jobs);
        std::thread::Builder::new()
            .name("jobs".to_owned())
            .spawn(move || {
                while !*scheduler.stopping.borrow() {
                    if let Err(error) = scheduler.start_queued() {
                        tracing::error!("the job queue: {error}");
                    }
                    std::thread::sleep(EVERY);
                }
            })?;
        Ok(jobs)
    }

    /// Starts nothing more. Jobs that run go on; the next server finds them.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Comes when the server was asked to stop.
    pub async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // The sender lives as long as this.
        let _ = stopping.wait_for(|it| *it).await;
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, HashMap<String, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> i64 {
        (self.config.clock)().ms
    }

    /// The folder of a job's files.
    pub fn folder(&self, id: &str) -> PathBuf {
        self.config.state_dir.join("jobs").join(id)
    }

    /// Queues a job.
    pub fn submit(&self, plan: Plan, request: String, by: &str) -> Answer<JobRecord> {
        let job = JobRecord {
            id: self.config.id()?,
            kind: plan.kind,
            experiment: plan.experiment,
            by: by.to_owned(),
            request,
            words: plan.words,
            hosts: plan.hosts,
            total: plan.total,
            done: 0,
            failed: 0,
            status: JobStatus::Queued,
            pid: None,
            created_ms: self.now_ms(),
            started_ms: None,
            finished_ms: None,
            error: None,
        };
        self.state.job_create(&job)?;
        Ok(job)
    }

    /// The same job once more: what was done is skipped, what is missing is done. Where it is
    /// queued or runs again already, that is the answer.
    pub fn resume(&self, id: &str, by: &str) -> Answer<JobRecord> {
        let old = self.get(id)?;
        if !old.status.is_over() {
            return Err(ApiError::conflict(format!(
                "job {id} is {}: only a job that is over can be resumed",
                old.status.as_str()
            )));
        }
        let _turn = self.resuming.lock().unwrap_or_else(PoisonError::into_inner);
        let unfinished = self.state.job_unfinished()?;
        let mut same = unfinished.into_iter();
        if let Some(job) = same.find(|it| (&it.kind, &it.request) == (&old.kind, &old.request)) {
            return Ok(job);
        }
        // What the server allows may have changed.
        let fields = serde_json::from_str(&old.request).unwrap_or_default();
        let plan = self.config.plan.plan(old.kind, &fields);
        self.submit(plan.map_err(ApiError::fields)?, old.request, by)
    }

    pub fn get(&self, id: &str) -> Answer<JobRecord> {
        let found = self.state.job_get(id)?;
        found.ok_or_else(|| ApiError::not_found(format!("there is no job '{id}'")))
    }

    /// The newest jobs, newest first.
    pub fn list(&self, limit: u32) -> Answer<Vec<JobRecord>> {
        Ok(self.state.job_list(limit)?)
    }

    /// Stops a job; one that is over is left as it is.
    pub fn cancel(&self, id: &str) -> Answer<JobRecord> {
        let job = self.get(id)?;
        if job.status == JobStatus::Queued {
            let (status, why) = (JobStatus::Cancelled, "cancelled before it started");
            self.state
                .job_finish(id, status, Some(why), self.now_ms())?;
            return self.get(id);
        }
        if let Some(watched) = self.watched().get(id) {
            watched.is_cancelled.store(true, Ordering::SeqCst);
            // The lock is held, so the process lives, and this is its id.
            if let Some(pid) = job.pid {
                ask_to_stop(pid);
            }
        }
        self.get(id)
    }

    /// What happens to a job from now on; `None` where nothing will.
    pub fn subscribe(&self, id: &str) -> Option<broadcast::Receiver<events::News>> {
        self.watched().get(id).map(|it| it.news.subscribe())
    }

    /// Seconds until a running job is done, at its pace so far.
    pub fn eta_seconds(&self, job: &JobRecord, now_ms: i64) -> Option<f64> {
        let started_ms = job
            .started_ms
            .filter(|_| job.status == JobStatus::Running)?;
        let skipped = self.watched().get(&job.id)?.skipped.load(Ordering::Relaxed);
        let elapsed_s = (now_ms - started_ms) as f64 / 1000.0;
        let left = job.total.checked_sub(job.done)?;
        seconds_left(
            job.done.saturating_sub(skipped).into(),
            left.into(),
            elapsed_s,
        )
    }

    /// The end of what a job logged.
    pub fn log_tail(&self, id: &str) -> String {
        watch::log_tail(&self.folder(id)).unwrap_or_default()
    }

    /// Whether a job has not begun yet.
    pub async fn is_queued(self: &Arc<Self>, id: &str) -> bool {
        let (jobs, id) = (Arc::clone(self), id.to_owned());
        let job = tokio::task::spawn_blocking(move || jobs.get(&id)).await;
        job.is_ok_and(|job| job.is_ok_and(|job| job.status == JobStatus::Queued))
    }

    /// How many jobs are alive.
    pub fn running(&self) -> usize {
        self.watched().len()
    }

    fn start_queued(self: &Arc<Self>) -> Result<(), ServerError> {
        let queued = self.state.job_unfinished()?;
        for job in queued {
            if job.status != JobStatus::Queued {
                continue;
            }
            let (running, taken) = {
                let watched = self.watched();
                let taken: HashSet<String> =
                    watched.values().flat_map(|it| it.hosts.clone()).collect();
                (watched.len(), taken)
            };
            if running >= MOST_RUNNING {
                break;
            }
            if job.hosts.iter().any(|host| taken.contains(host)) {
                continue;
            }
            if let Err(error) = self.launch(&job) {
                let why = format!("it could not be started: {error}");
                self.state
                    .job_finish(&job.id, JobStatus::Failed, Some(&why), self.now_ms())?;
            }
        }
        Ok(())
    }

    fn launch(self: &Arc<Self>, job: &JobRecord) -> Result<(), ServerError> {
        let folder = self.folder(&job.id);
        fs::create_dir_all(&folder)?;
        let lock = open_lock(&folder)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other("its lock is held by another process").into());
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let append = |name: &str| {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(folder.join(name))
        };
        let mut command = std::process::Command::new(&self.config.program);
        command
            .args(&job.words)
            .stdin(lock)
            .stdout(append(EVENTS)?)
            .stderr(append(LOG)?);
        // Ctrl-C at the server's terminal is meant for the server.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        // This side of the lock closes with the command; the process has its own.
        drop(command);
        if !self.state.job_start(&job.id, child.id(), self.now_ms())? {
            // Cancelled in this very moment.
            ask_to_stop(child.id());
            let _ = child.wait();
            return Ok(());
        }
        tracing::info!(
            job = job.id,
            kind = job.kind.as_str(),
            experiment = job.experiment,
            "job started"
        );
        self.watch(job, Some(child))?;
        Ok(())
    }

    /// Goes on with a job that an earlier server started.
    fn take_over(self: &Arc<Self>, job: &JobRecord) -> Result<(), ServerError> {
        if is_alive(&self.folder(&job.id)) {
            self.watch(job, None)?;
            return Ok(());
        }
        let reading = events::Tail::new(&self.folder(&job.id)).read_all(job.total);
        self.finish(job, &reading, None, false)
    }

    fn watch(
        self: &Arc<Self>,
        job: &JobRecord,
        child: Option<std::process::Child>,
    ) -> Result<(), ServerError> {
        let (news, _) = broadcast::channel(BACKLOG);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let skipped = Arc::new(AtomicU32::new(0));
        self.watched().insert(
            job.id.clone(),
            Watched {
                hosts: job.hosts.clone(),
                news: news.clone(),
                is_cancelled: Arc::clone(&is_cancelled),
                skipped: Arc::clone(&skipped),
            },
        );
        let (jobs, job) = (Arc::clone(self), job.clone());
        std::thread::Builder::new()
            .name(format!("job {}", job.id))
            .spawn(move || {
                watch::follow(&jobs, &job, child, &news, (&is_cancelled, &skipped));
                jobs.watched().remove(&job.id);
            })?;
        Ok(())
    }

    /// Writes down how a job ended.
    fn finish(
        &self,
        job: &JobRecord,
        reading: &events::Progress,
        code: Option<i32>,
        is_cancelled: bool,
    ) -> Result<(), ServerError> {
        let (status, error) = watch::ending(&self.folder(&job.id), reading, code, is_cancelled);
        let counts = (reading.done, reading.failed, reading.total);
        self.state.job_progress(&job.id, counts)?;
        self.state
            .job_finish(&job.id, status, error.as_deref(), self.now_ms())?;
        tracing::info!(job = job.id, status = status.as_str(), "job over");
        Ok(())
    }
}

pub(crate) const EVENTS: &str = "events.jsonl";
pub(crate) const LOG: &str = "log.txt";

fn open_lock(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(folder.join("lock"))
}

/// Whether a process holds a job's lock.
fn is_alive(folder: &Path) -> bool {
    open_lock(folder).is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Asks a process to stop cleanly: models are unloaded, work so far is kept.
fn ask_to_stop(pid: u32) {
    #[cfg(unix)]
    if let Some(pid) = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    #[cfg(not(unix))]
    let _ = pid;
}
