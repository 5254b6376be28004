//! The HTTP server behind `assize serve`.
//!
//! One axum server over the embedded store, or over a team's tracking server and its copy on this
//! machine. [`router`] assembles all routes, [`access`] does
//! authentication and authorization, and handlers are thin: they parse the request, call the
//! store on a blocking thread, and write the response. It serves MLflow's REST API ([`mlflow`]),
//! the bench API ([`api`]), the online policies ([`policies`]) and the pages for browsers
//! ([`panel`]). Work that loads models runs in subprocesses of the same binary ([`jobs`]).
//!
//! The crate contains no SQL and no statistics.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assize_domain::error_kind::ErrorKind;
use assize_domain::hash::hex;
use assize_domain::options::Options;
use assize_domain::role::Role;
use assize_pipeline::experiment_task::{ExperimentTask, Lookup, find};
use assize_pipeline::judge::Entropy;
use assize_pipeline::promote::Thresholds;
use assize_pipeline::team::Team;
use assize_pipeline::{Now, PipelineError, lock};
use assize_store::embedded::EmbeddedStore;
use assize_store::state::State;
use assize_store::state::tokens::Token;
use assize_store::{Runs, StoreError, Tracking};
use axum::extract::FromRef;
use tokio::net::TcpListener;

use access::Access;
use access::sign_in::FailedSignIns;
use jobs::Jobs;
use judging_sessions::JudgingSessions;
use metrics::Metrics;
use policies::Engine;

mod access;
mod api;
mod boards;
mod change_cache;
mod error;
mod health;
mod http;
mod jobs;
mod judging_sessions;
mod listen;
mod log;
mod metrics;
mod mlflow;
mod panel;
mod policies;
mod router;
mod unsealing;

pub use access::AccessConfig;
pub use jobs::DELEGATED_COMMAND;
pub use jobs::plan::{FieldProblem, Plan, Planner};
pub use judging_sessions::EndObserver;
pub use mlflow::pages::{PREFIX as MLFLOW_PAGES, find as find_mlflow_pages};
pub use policies::{PoliciesConfig, PoliciesServer, ShadowConfig, run_policies};

/// How long blocking threads may take to finish at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the server could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot listen on {address} ({source}): choose another --host or --port")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("the server failed: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("another token has the name '{0}', and names identify judges: choose another name")]
    NameTaken(String),
    #[error(
        "another `assize serve` is running in this folder: stop it, use it, or start this one in \
         another folder"
    )]
    AlreadyServing,
}

impl ServerError {
    /// The kind, which determines exit code and HTTP status.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Listen { .. } | Self::Io(_) => ErrorKind::Io,
            Self::Store(error) => error.kind(),
            Self::NameTaken(_) => ErrorKind::Conflict,
            Self::AlreadyServing => ErrorKind::Unavailable,
        }
    }
}

/// Environment variables with credentials, which jobs get.
#[derive(Clone, Default)]
pub struct JobCredentials(pub Vec<(&'static str, String)>);

impl std::fmt::Debug for JobCredentials {
    /// Omits the values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|it| it.0))
            .finish()
    }
}

/// The server's configuration, which the binary provides.
#[derive(Debug)]
pub struct Config {
    /// The path of this executable; jobs run it.
    pub program: PathBuf,
    /// The directory of this machine's local state (tokens, jobs).
    pub state_dir: PathBuf,
    /// The directory of this machine's lock files.
    pub locks: PathBuf,
    pub tracking_uri: String,
    /// What jobs need to use the tracking server, if its address names a user.
    pub job_credentials: JobCredentials,
    /// The default task, used if a request names none.
    pub task: String,
    /// Task folders that runs may name. Others are not read, because runs can be written over
    /// HTTP.
    pub task_folders: Vec<PathBuf>,
    /// Whether sittings have no calibration cases.
    pub no_anchors: bool,
    /// Default options of jobs.
    pub options: Options,
    pub thresholds: Thresholds,
    pub access: AccessConfig,
    pub policies: PoliciesConfig,
    pub ollama_urls: Vec<String>,
    pub clock: fn() -> Now,
    pub entropy: Entropy,
    pub plan: Planner,
    pub ended: EndObserver,
    /// The folder of MLflow's own pages ([`find_mlflow_pages`]), if they are served.
    pub mlflow_pages: Option<PathBuf>,
}

impl Config {
    /// The task of an experiment. The server's own task is used where it is the experiment's, and
    /// a folder that runs name only where it is allowed.
    pub(crate) fn task_of(
        &self,
        store: &dyn Runs,
        experiment: &str,
    ) -> Result<ExperimentTask, PipelineError> {
        experiment_task(&self.task, &self.task_folders, store, experiment)
    }

    /// A new secret of 256 bits.
    pub(crate) fn secret(&self) -> io::Result<String> {
        Ok(hex(&(self.entropy)()?) + &hex(&(self.entropy)()?))
    }

    /// A short random id.
    pub(crate) fn id(&self) -> io::Result<String> {
        Ok(hex(&(self.entropy)()?[..6]))
    }
}

/// The task of an experiment, for a server whose own task is `task`. `folders` may be read, and
/// everything below them.
pub fn experiment_task(
    task: &str,
    folders: &[PathBuf],
    store: &dyn Runs,
    experiment: &str,
) -> Result<ExperimentTask, PipelineError> {
    let may_read = |folder: &Path| {
        let folder = folder.canonicalize();
        folder.is_ok_and(|it| folders.iter().any(|allowed| it.starts_with(allowed)))
    };
    let lookup = Lookup {
        given: None,
        preferred: Some(task),
        may_read: Some(&may_read),
    };
    find(store, experiment, lookup)
}

/// The state that all handlers share.
#[derive(Debug, Clone)]
struct App {
    access: Arc<Access>,
    /// The roles of the store: the file itself, or the team's tracking server behind its copy.
    tracking: Arc<dyn Tracking>,
    /// The file: the store itself, or the copy of the team's tracking server.
    store: Arc<EmbeddedStore>,
    team: Option<Arc<Team>>,
    boards: Arc<boards::Boards>,
    judging: Arc<JudgingSessions>,
    state: Arc<State>,
    config: Arc<Config>,
    jobs: Arc<Jobs>,
    policies: Arc<Engine>,
    failed_sign_ins: Arc<FailedSignIns>,
    metrics: Arc<Metrics>,
}

impl FromRef<App> for Arc<Access> {
    fn from_ref(app: &App) -> Self {
        Self::clone(&app.access)
    }
}

impl FromRef<App> for Arc<Engine> {
    fn from_ref(app: &App) -> Self {
        Self::clone(&app.policies)
    }
}

/// Creates a token and returns its record and its secret. Only the secret's hash is stored. The
/// names of valid tokens are unique, because verdicts identify a judge by name.
pub fn token_create(
    state: &State,
    role: Role,
    name: Option<&str>,
    (clock, entropy): (fn() -> Now, Entropy),
) -> Result<(Token, String), ServerError> {
    let secret = format!("assize_{}{}", hex(&entropy()?), hex(&entropy()?));
    let id = hex(&entropy()?[..4]);
    let name = name.map_or_else(|| format!("{role}-{id}"), str::to_owned);
    let is_taken = |it: &Token| it.revoked_ms.is_none() && it.name == name;
    if state.token_list()?.iter().any(is_taken) {
        return Err(ServerError::NameTaken(name));
    }
    let token = Token {
        id,
        role,
        name,
        created_ms: clock().ms,
        revoked_ms: None,
    };
    state.token_create(&token, &access::digest(&secret))?;
    Ok((token, secret))
}

/// Where runs are tracked.
#[derive(Debug, Clone)]
pub struct Stores {
    /// The store itself, or the copy of the team's tracking server.
    pub file: Arc<EmbeddedStore>,
    pub team: Option<Arc<Team>>,
}

impl Stores {
    /// The roles of the store.
    pub fn tracking(&self) -> Arc<dyn Tracking> {
        match &self.team {
            Some(team) => Arc::<Team>::clone(team),
            None => Arc::<EmbeddedStore>::clone(&self.file),
        }
    }
}

/// Serves until Ctrl-C or SIGTERM. `announce` is called with the actual address, which differs
/// from the given one for port 0.
pub fn run(
    stores: Stores,
    state: Arc<State>,
    config: Config,
    (host, port): (IpAddr, u16),
    announce: impl FnOnce(SocketAddr) -> Result<(), ServerError>,
) -> Result<(), ServerError> {
    // Two servers in one folder would both start the queued jobs.
    let lock = lock::acquire(&config.locks, "assize serve", &|| true, |_| {});
    let _lock = lock.map_err(|_| ServerError::AlreadyServing)?;
    let _followers = stores.team.as_ref().map(Team::follow).transpose()?;
    serve_on(SocketAddr::new(host, port), async |listener, stop| {
        let config = Arc::new(config);
        let policies = Engine::start(config.policies.clone())?;
        let jobs = Jobs::start(Arc::clone(&state), Arc::clone(&config), stores.team.clone())?;
        let judging = JudgingSessions::new(stores.clone(), Arc::clone(&config));
        let access = Access {
            config: config.access.clone(),
            clock: config.clock,
            state: Arc::clone(&state),
            results: Some(Arc::clone(&stores.file)),
            team: stores.team.clone(),
        };
        let app = App {
            access: Arc::new(access),
            tracking: stores.tracking(),
            store: stores.file,
            team: stores.team,
            boards: Arc::new(boards::Boards::start()?),
            judging: Arc::new(judging),
            state,
            config,
            jobs: Arc::clone(&jobs),
            policies: Arc::clone(&policies),
            failed_sign_ins: Arc::default(),
            metrics: Arc::default(),
        };
        boards::Boards::warm_up(&app);
        announce(listener.local_addr()?)?;
        let stopping = || {
            jobs.stop();
            policies.stop();
        };
        listen::serve(listener, router::router(app), stop.wait(), stopping).await;
        Ok(())
    })
}

/// Runs a server on an address, in a runtime of its own.
fn serve_on(
    address: SocketAddr,
    serve: impl AsyncFnOnce(TcpListener, StopSignals) -> Result<(), ServerError>,
) -> Result<(), ServerError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let listen = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        // Handlers are installed first, because a signal may follow the announcement at once.
        let stop = StopSignals::catch()?;
        serve(listener, stop).await
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}

/// The signals that stop the server.
struct StopSignals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl StopSignals {
    #[cfg(unix)]
    fn catch() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    #[cfg(unix)]
    async fn wait(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "it can fail on Unix")]
    fn catch() -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn wait(self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
