//! Taking connections, with patience that ends.
//!
//! A client that sends its request head too slowly is let go, there is a most to how many are
//! connected at once, and a server that is asked to stop lets requests finish for a while.

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

/// How long a client may take to say what it wants, also the first time.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// Connections at once; more wait to be taken.
const MOST_CONNECTIONS: usize = 4096;
/// How long requests that are under way may take once the server was asked to stop.
const GRACE: Duration = Duration::from_secs(5);
/// Before accepting is tried again where the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` is there; `stopping` is called then.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    stopping: impl FnOnce(),
) {
    let connections = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    tokio::pin!(stop);
    loop {
        let taken = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            taken = taken => taken,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, address)) => {
                let connection = connections.watch(connect(stream, address, router.clone()));
                tokio::spawn(async move {
                    // A connection that breaks concerns nobody else.
                    let _ = connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!("a connection was not taken: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    stopping();
    drop(listener);
    tokio::select! {
        () = connections.shutdown() => {}
        () = tokio::time::sleep(GRACE) => {}
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
    // Small answers leave at once.
    let _: io::Result<()> = stream.set_nodelay(true);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        router.clone().call(request.map(Body::new))
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
}
