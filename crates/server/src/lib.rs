//! Everything HTTP: `assize serve`.
//!
//! One axum server over the embedded store. All routes are on one page ([`router`]), who may
//! come in is decided in one place ([`access`]), and handlers are thin: they read the request,
//! call the store's verbs on a thread that may block, and write the answer: MLflow's REST API
//! ([`mlflow`]) and the API of the bench ([`api`]). What generates or holds weights runs as a
//! subprocess of the same binary ([`jobs`]).
//!
//! It deliberately knows no SQL and no statistics.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use assize_domain::anchor::Anchors;
use assize_domain::error_kind::ErrorKind;
use assize_domain::hash::hex;
use assize_domain::options::Options;
use assize_domain::role::Role;
use assize_pipeline::judge::Entropy;
use assize_pipeline::promote::Thresholds;
use assize_pipeline::{Now, lock};
use assize_store::StoreError;
use assize_store::embedded::EmbeddedStore;
use assize_store::state::State;
use assize_store::state::tokens::Token;

use access::sign_in::Attempts;
use jobs::Jobs;
use metrics::Metrics;

mod access;
mod api;
mod boards;
mod change_cache;
mod desks;
mod error;
mod health;
mod http;
mod jobs;
mod listen;
mod log;
mod metrics;
mod mlflow;
mod panel;
mod router;

pub use desks::EndObserver;
pub use jobs::plan::{FieldProblem, Plan, Planner};

/// How long threads that may block have to come to an end.
const GRACE: Duration = Duration::from_secs(5);

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
    #[error("another token has the name '{0}', and judges are known by it: choose another name")]
    NameTaken(String),
    #[error(
        "another `assize serve` works in this folder: stop it, use it, or start this one in \
         another folder"
    )]
    AlreadyServing,
}

impl ServerError {
    /// What kind of error it is.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Listen { .. } | Self::Io(_) => ErrorKind::Io,
            Self::Store(error) => error.kind(),
            Self::NameTaken(_) => ErrorKind::Conflict,
            Self::AlreadyServing => ErrorKind::Unavailable,
        }
    }
}

/// What the binary tells the server.
#[derive(Debug)]
pub struct Config {
    /// This program, which jobs are started with.
    pub program: PathBuf,
    /// Where what is local to this machine lives.
    pub state_dir: PathBuf,
    /// Where this machine's locks are.
    pub locks: PathBuf,
    pub tracking_uri: String,
    /// The task that is evaluated where a request names no other.
    pub task: String,
    /// The options that a job has where its request does not set them.
    pub options: Options,
    pub thresholds: Thresholds,
    pub anchors: Anchors,
    /// Names under which this server may be addressed, besides `localhost`; lower-case.
    pub host_names: Vec<String>,
    /// Every program on this machine comes in without a token.
    pub open_loopback: bool,
    /// Who sits at this machine's keyboard.
    pub user: String,
    pub ollama_urls: Vec<String>,
    pub clock: fn() -> Now,
    pub entropy: Entropy,
    pub plan: Planner,
    pub ended: EndObserver,
}

impl Config {
    /// A new secret of 256 bits.
    pub(crate) fn secret(&self) -> io::Result<String> {
        Ok(hex(&(self.entropy)()?) + &hex(&(self.entropy)()?))
    }

    /// A short id that is not guessed.
    pub(crate) fn id(&self) -> io::Result<String> {
        Ok(hex(&(self.entropy)()?[..6]))
    }
}

/// What every handler can reach.
#[derive(Debug, Clone)]
struct App {
    store: Arc<EmbeddedStore>,
    boards: Arc<boards::Boards>,
    desks: Arc<desks::Desks>,
    state: Arc<State>,
    config: Arc<Config>,
    jobs: Arc<Jobs>,
    attempts: Arc<Attempts>,
    metrics: Arc<Metrics>,
}

/// A new token: its record is kept, its secret is answered and never seen again. No two valid
/// ones have the same name, because a judge is known by it.
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

/// Serves until Ctrl-C or SIGTERM. `announce` is told the real address, which matters for
/// port 0.
pub fn run(
    store: Arc<EmbeddedStore>,
    state: Arc<State>,
    config: Config,
    (host, port): (IpAddr, u16),
    announce: impl FnOnce(SocketAddr) -> Result<(), ServerError>,
) -> Result<(), ServerError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    // Jobs and seats are this process's: two servers would take them from each other.
    let held = lock::acquire(&config.locks, "assize serve", &|| true, || {});
    let _one = held.map_err(|_| ServerError::AlreadyServing)?;
    let outcome = runtime.block_on(async {
        let address = SocketAddr::new(host, port);
        let listen = |source| ServerError::Listen { address, source };
        let listener = tokio::net::TcpListener::bind(address)
            .await
            .map_err(listen)?;
        // Signals are caught before the address is announced: who reads it may send one.
        let stop = StopSignals::catch()?;
        let config = Arc::new(config);
        let jobs = Jobs::start(Arc::clone(&state), Arc::clone(&config))?;
        let desks = desks::Desks::new(Arc::clone(&store), Arc::clone(&config));
        let app = App {
            store,
            boards: Arc::new(boards::Boards::start()?),
            desks: Arc::new(desks),
            state,
            config,
            jobs: Arc::clone(&jobs),
            attempts: Arc::default(),
            metrics: Arc::default(),
        };
        boards::Boards::warm_up(&app);
        announce(listener.local_addr()?)?;
        let stop = async move {
            let mut stop = stop;
            stop.wait().await;
        };
        listen::serve(listener, router::router(app), stop, || jobs.stop()).await;
        Ok(())
    });
    runtime.shutdown_timeout(GRACE);
    outcome
}

/// What asks a server to stop.
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
    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "catching can fail elsewhere")]
    fn catch() -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn wait(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
