//! Jobs: collections, automatic judging, simulations and prompt loops, as subprocesses of the same binary.
//!
//! A crash of an engine ends its job, not the server. A job's folder holds the process's output:
//! `events.jsonl` (its stdout, one object per line) and `log.txt` (its stderr). Its standard input
//! is the file `lock`, which the server locks before it starts the process. The lock belongs to
//! the open file, so it is held exactly as long as the process runs, even if the server has
//! stopped. A restarted server can therefore find running jobs without relying on process ids. It
//! monitors these again and marks the others as interrupted.
//!
//! Jobs that use the memory of the same host run one after the other ([`Plan::hosts`]).

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use assize_domain::job::JobKind;
use assize_pipeline::estimate::seconds_left;
use assize_pipeline::events::JobEvent;
use assize_pipeline::optimise::LoopLog;
use assize_pipeline::team::Team;
use assize_store::state::State;
use assize_store::state::jobs::{JobRecord, JobStatus};
use tokio::sync::{broadcast, watch as watch_channel};

use crate::error::{ApiError, ApiResult};
use crate::{Config, ServerError};
use plan::Plan;

pub(crate) mod events;
mod monitor;
pub mod plan;

/// How many jobs run at once, on all hosts together.
const MAX_RUNNING: usize = 4;
/// How often the scheduler checks the queue.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How many updates are buffered for a slow subscriber, which then reads the file again.
const BACKLOG: usize = 1024;

/// The queue of this machine's jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    state: Arc<State>,
    config: Arc<Config>,
    /// The tracking server that jobs write to, if it is served from a copy.
    team: Option<Arc<Team>>,
    running: Mutex<HashMap<String, RunningJob>>,
    /// Serialises [`Jobs::resume`], so that no job is resumed twice.
    resuming: Mutex<()>,
    stopping: watch_channel::Sender<bool>,
}

/// A job whose process is running.
#[derive(Debug)]
struct RunningJob {
    hosts: Vec<String>,
    updates: broadcast::Sender<events::JobUpdate>,
    is_cancelled: Arc<AtomicBool>,
    /// Cells that were skipped so far because they had been collected before.
    skipped: Arc<AtomicU32>,
}

impl Jobs {
    /// Takes over the jobs of an earlier server process and starts the scheduler.
    pub fn start(
        state: Arc<State>,
        config: Arc<Config>,
        team: Option<Arc<Team>>,
    ) -> Result<Arc<Self>, ServerError> {
        let jobs = Arc::new(Self {
            state,
            config,
            team,
            running: Mutex::default(),
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
                        tracing::error!("the job scheduler failed: {error}");
                    }
                    std::thread::sleep(POLL_INTERVAL);
                }
            })?;
        Ok(jobs)
    }

    /// Stops the scheduler. Running jobs continue; the next server process takes them over.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Resolves when the scheduler was stopped.
    pub async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // This cannot fail, because `self` owns the sender.
        let _ = stopping.wait_for(|it| *it).await;
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<String, RunningJob>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> i64 {
        (self.config.clock)().ms
    }

    /// The folder of a job's files.
    pub fn folder(&self, id: &str) -> PathBuf {
        self.config.state_dir.join("jobs").join(id)
    }

    /// Queues a job.
    pub fn submit(&self, plan: Plan, request: String, by: &str) -> ApiResult<JobRecord> {
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

    /// Queues a finished job again; only missing cells are generated. Idempotent: if the same
    /// request is already queued or running, that job is returned.
    pub fn resume(&self, id: &str, by: &str) -> ApiResult<JobRecord> {
        let old = self.get(id)?;
        if !old.status.is_over() {
            return Err(ApiError::conflict(format!(
                "job {id} is {}: only a finished job can be resumed",
                old.status.as_str()
            )));
        }
        let _guard = self.resuming.lock().unwrap_or_else(PoisonError::into_inner);
        let request = self.resumed_request(&old)?;
        let unfinished = self.state.job_unfinished()?;
        let mut same = unfinished.into_iter();
        if let Some(job) = same.find(|it| (&it.kind, &it.request) == (&old.kind, &request)) {
            return Ok(job);
        }
        // The server's settings may have changed since, so the request is checked again.
        let fields = serde_json::from_str(&request).unwrap_or_default();
        let plan = self.config.plan.plan(old.kind, &fields);
        self.submit(plan.map_err(ApiError::fields)?, request, by)
    }

    /// The request that does what is left of a job: of a prompt loop that was started, the next step.
    fn resumed_request(&self, old: &JobRecord) -> ApiResult<String> {
        let is_started =
            old.kind == JobKind::Optimise && LoopLog::find(&self.state, &old.experiment)?.is_some();
        Ok(if is_started {
            serde_json::json!({"experiment": old.experiment}).to_string()
        } else {
            old.request.clone()
        })
    }

    pub fn get(&self, id: &str) -> ApiResult<JobRecord> {
        let found = self.state.job_get(id)?;
        found.ok_or_else(|| ApiError::not_found(format!("there is no job '{id}'")))
    }

    /// The newest jobs, newest first.
    pub fn list(&self, limit: u32) -> ApiResult<Vec<JobRecord>> {
        Ok(self.state.job_list(limit)?)
    }

    /// Stops a job. A finished job is not changed.
    pub fn cancel(&self, id: &str) -> ApiResult<JobRecord> {
        let job = self.get(id)?;
        if job.status == JobStatus::Queued {
            let (status, why) = (JobStatus::Cancelled, "cancelled before it started");
            self.state
                .job_finish(id, status, Some(why), self.now_ms())?;
            return self.get(id);
        }
        if let Some(running) = self.running().get(id) {
            running.is_cancelled.store(true, Ordering::SeqCst);
            // The process id is valid, because the process still holds its lock.
            if let Some(pid) = job.pid {
                terminate(pid);
            }
        }
        self.get(id)
    }

    /// Subscribes to a job's updates; `None` if it is not running.
    pub fn subscribe(&self, id: &str) -> Option<broadcast::Receiver<events::JobUpdate>> {
        self.running().get(id).map(|it| it.updates.subscribe())
    }

    /// The estimated seconds until a running job is done, from its speed so far. How much a step of a
    /// prompt loop has to do is known only when it is over.
    pub fn eta_seconds(&self, job: &JobRecord, now_ms: i64) -> Option<f64> {
        if job.kind == JobKind::Optimise {
            return None;
        }
        let started_ms = job
            .started_ms
            .filter(|_| job.status == JobStatus::Running)?;
        let skipped = self.running().get(&job.id)?.skipped.load(Ordering::Relaxed);
        let elapsed_s = (now_ms - started_ms) as f64 / 1000.0;
        let left = job.total.checked_sub(job.done)?;
        seconds_left(
            job.done.saturating_sub(skipped).into(),
            left.into(),
            elapsed_s,
        )
    }

    /// The end of a job's log.
    pub fn log_tail(&self, id: &str) -> String {
        monitor::log_tail(&self.folder(id)).unwrap_or_default()
    }

    /// The page of a job's run on another engine, once there is one.
    pub fn engine_page(&self, job: &JobRecord) -> Option<String> {
        if job.words.first().map(String::as_str) != Some(DELEGATED_COMMAND) {
            return None;
        }
        let file = File::open(self.folder(&job.id).join(EVENTS)).ok()?;
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(file), &mut line).ok()?;
        match serde_json::from_str(&line).ok()? {
            JobEvent::Delegated(run) => Some(run.url),
            _ => None,
        }
    }

    /// Whether a job has not started yet.
    pub async fn is_queued(self: &Arc<Self>, id: &str) -> bool {
        let (jobs, id) = (Arc::clone(self), id.to_owned());
        let job = tokio::task::spawn_blocking(move || jobs.get(&id)).await;
        job.is_ok_and(|job| job.is_ok_and(|job| job.status == JobStatus::Queued))
    }

    /// The number of running jobs.
    pub fn count_running(&self) -> usize {
        self.running().len()
    }

    fn start_queued(self: &Arc<Self>) -> Result<(), ServerError> {
        let queued = self.state.job_unfinished()?;
        for job in queued {
            if job.status != JobStatus::Queued {
                continue;
            }
            let (running, busy_hosts) = {
                let running = self.running();
                let hosts = running.values().flat_map(|it| it.hosts.clone());
                (running.len(), hosts.collect::<HashSet<String>>())
            };
            if running >= MAX_RUNNING {
                break;
            }
            if job.hosts.iter().any(|host| busy_hosts.contains(host)) {
                continue;
            }
            if let Err(error) = self.launch(&job) {
                let why = format!("the job could not be started: {error}");
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
                return Err(io::Error::other("another process holds the job's lock").into());
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
        // The credentials belong to this tracking server and to no other.
        let own = format!("--tracking-uri={}", self.config.tracking_uri);
        let credentials = self.config.job_credentials.0.iter();
        let is_own = job.words.contains(&own);
        command
            .args(&job.words)
            .envs(credentials.filter(|_| is_own).cloned())
            .stdin(lock)
            .stdout(append(EVENTS)?)
            .stderr(append(LOG)?);
        // In its own process group the job does not receive Ctrl-C from the server's terminal.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        // Closes the server's handle of the lock file; the process has inherited its own.
        drop(command);
        if !self.state.job_start(&job.id, child.id(), self.now_ms())? {
            // The job was cancelled in the meantime.
            terminate(child.id());
            let _ = child.wait();
            return Ok(());
        }
        tracing::info!(
            job = job.id,
            kind = job.kind.as_str(),
            experiment = job.experiment,
            "job started"
        );
        self.monitor(job, Some(child))?;
        Ok(())
    }

    /// Takes over a job that an earlier server process started.
    fn take_over(self: &Arc<Self>, job: &JobRecord) -> Result<(), ServerError> {
        if is_alive(&self.folder(&job.id)) {
            self.monitor(job, None)?;
            return Ok(());
        }
        let progress = events::Tail::new(&self.folder(&job.id)).read_all(job.total);
        self.finish(job, &progress, None, false)
    }

    /// Starts a thread that monitors a job until it has ended.
    fn monitor(
        self: &Arc<Self>,
        job: &JobRecord,
        child: Option<std::process::Child>,
    ) -> Result<(), ServerError> {
        let (updates, _) = broadcast::channel(BACKLOG);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let skipped = Arc::new(AtomicU32::new(0));
        self.running().insert(
            job.id.clone(),
            RunningJob {
                hosts: job.hosts.clone(),
                updates: updates.clone(),
                is_cancelled: Arc::clone(&is_cancelled),
                skipped: Arc::clone(&skipped),
            },
        );
        let (jobs, job) = (Arc::clone(self), job.clone());
        std::thread::Builder::new()
            .name(format!("job {}", job.id))
            .spawn(move || {
                monitor::run(&jobs, &job, child, &updates, (&is_cancelled, &skipped));
                jobs.running().remove(&job.id);
            })?;
        Ok(())
    }

    /// Stores the outcome of a job.
    fn finish(
        &self,
        job: &JobRecord,
        progress: &events::Progress,
        code: Option<i32>,
        is_cancelled: bool,
    ) -> Result<(), ServerError> {
        let (status, error) = monitor::outcome(&self.folder(&job.id), progress, code, is_cancelled);
        let counts = (progress.done, progress.failed, progress.total);
        self.state.job_progress(&job.id, counts)?;
        self.state
            .job_finish(&job.id, status, error.as_deref(), self.now_ms())?;
        tracing::info!(job = job.id, status = status.as_str(), "job ended");
        Ok(())
    }
}

/// The command that starts and watches a run of another engine.
pub const DELEGATED_COMMAND: &str = "airflow-run";
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

/// Whether a job's process is running: it holds the lock.
fn is_alive(folder: &Path) -> bool {
    open_lock(folder).is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Sends SIGTERM. The process unloads its models and keeps the finished cells.
fn terminate(pid: u32) {
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
