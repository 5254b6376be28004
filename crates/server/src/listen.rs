//! Accepting connections, with timeouts and a limit.
//!
//! A client that sends its request headers too slowly is disconnected, the number of connections
//! is limited, and at shutdown requests in progress have some time to finish.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower_service::Service as _;

/// How long a client may take to send the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How many connections are open at once; more wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;
/// How long requests in progress may take at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a failed accept, for example without free file descriptors.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` resolves, then calls `stopping`.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    stopping: impl FnOnce(),
) {
    let connections = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    tokio::pin!(stop);
    loop {
        let next = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, address)) => {
                let connection = connections.watch(connect(stream, address, router.clone()));
                tokio::spawn(async move {
                    // A broken connection affects no other.
                    let _ = connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
    stopping();
    drop(listener);
    tokio::select! {
        () = connections.shutdown() => {}
        () = tokio::time::sleep(SHUTDOWN_TIMEOUT) => {}
    }
}

fn connect(
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
) -> http1::Connection<
    TokioIo<TcpStream>,
    impl hyper::service::Service<
        Request<Incoming>,
        Response = Response,
        Error = Infallible,
        Future: Send,
    >,
> {
    // Small responses are sent without delay.
    let _: io::Result<()> = stream.set_nodelay(true);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        router.clone().call(request.map(Body::new))
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
}
