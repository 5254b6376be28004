//! Everything HTTP: `assize serve`.
//!
//! One axum server over the embedded store. All routes are on one page ([`router`]), who may
//! come in is decided in one place ([`access`]), and handlers are thin: they read the request,
//! call the store's verbs on a thread that may block, and write the answer. Today it answers
//! MLflow's REST API ([`mlflow`]); the admin API, the panel and the policies join the same
//! router.
//!
//! It deliberately knows no SQL and no statistics, and opens no connection of its own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use assize_store::embedded::EmbeddedStore;
use axum::serve::ListenerExt as _;

mod access;
mod boards;
mod fresh;
mod mlflow;
#[expect(dead_code, reason = "the pages that need the rest follow")]
mod panel;
mod router;

pub use access::{Access, SHORTEST_TOKEN};

/// How long requests that are under way may take once the server was asked to stop.
const GRACE: Duration = Duration::from_secs(10);

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
}

/// What every handler can reach.
#[derive(Debug, Clone)]
struct App {
    store: Arc<EmbeddedStore>,
    access: Arc<Access>,
    boards: Arc<boards::Boards>,
}

/// Serves until Ctrl-C or SIGTERM. `announce` is told the real address, which matters for
/// port 0.
pub fn run(
    store: Arc<EmbeddedStore>,
    access: Access,
    (host, port): (IpAddr, u16),
    announce: impl FnOnce(SocketAddr) -> io::Result<()>,
) -> Result<(), ServerError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let address = SocketAddr::new(host, port);
        let listen = |source| ServerError::Listen { address, source };
        let listener = tokio::net::TcpListener::bind(address)
            .await
            .map_err(listen)?;
        // Signals are caught before the address is announced: who reads it may send one.
        let stop = StopSignals::catch()?;
        announce(listener.local_addr()?)?;
        let app = App {
            store,
            access: Arc::new(access),
            boards: Arc::default(),
        };
        serve(listener, router::router(app), stop).await
    });
    runtime.shutdown_timeout(GRACE);
    outcome
}

async fn serve(
    listener: tokio::net::TcpListener,
    router: axum::Router,
    mut stop: StopSignals,
) -> Result<(), ServerError> {
    let (stopping, mut stopped) = tokio::sync::watch::channel(());
    // Small answers leave at once.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let graceful = axum::serve(listener, router)
        .with_graceful_shutdown(async move {
            stop.wait().await;
            drop(stopping);
        })
        .into_future();
    let too_late = async move {
        // A sender that is gone is the message.
        let _ = stopped.changed().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        outcome = graceful => Ok(outcome?),
        () = too_late => Ok(()),
    }
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
