//! `/health`: whether the store is readable and the other services are reachable.
//!
//! It requires no token, so it reveals neither addresses nor tracked data.

use std::net::TcpStream;
use std::time::Duration;

use assize_http::Address;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::App;
use crate::http::json;

/// How long a service may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// The state of the team's tracking server and of its copy.
struct CopyState {
    is_reachable: bool,
    is_complete: bool,
    /// Seconds since the copy was current.
    age_s: Option<i64>,
    /// Runs that cannot be read.
    skipped: u64,
    undelivered: u64,
}

pub(crate) async fn check(State(app): State<App>) -> Response {
    let checked = tokio::task::spawn_blocking(move || {
        let store = app.tracking.experiment_list().is_ok();
        let mut hosts = app.config.ollama_urls.iter();
        let copy = app.team.as_ref().map(|it| {
            let status = it.status();
            CopyState {
                is_reachable: status.failure.is_none(),
                is_complete: status.catching_up.is_none(),
                age_s: status
                    .read_ms
                    .map(|read| ((app.config.clock)().ms - read).max(0) / 1000),
                skipped: status.skipped.map_or(0, |it| it.0),
                undelivered: status.undelivered,
            }
        });
        (store, hosts.any(|url| is_reachable(url)), copy)
    });
    let (store, ollama, copy) = checked.await.unwrap_or((false, false, None));
    let word = |is_ok: bool| if is_ok { "ok" } else { "unreachable" };
    let mut body = serde_json::json!({
        "status": if store { "OK" } else { "FAILED" },
        "store": word(store),
        "ollama": word(ollama),
        // The embedded store implements MLflow's API itself.
        "mlflow": word(copy.as_ref().map_or(store, |it| it.is_reachable)),
    });
    if let Some(copy) = copy {
        body["copy"] = serde_json::json!({
            "complete": copy.is_complete,
            "age_s": copy.age_s,
            "skipped": copy.skipped,
            "undelivered": copy.undelivered,
        });
    }
    let status = if store {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(status, body.to_string())
}

fn is_reachable(url: &str) -> bool {
    let addresses = Address::parse_or_http(url).map(|it| it.socket_addresses());
    let Ok(Ok(addresses)) = addresses else {
        return false;
    };
    let mut addresses = addresses.iter();
    addresses.any(|it| TcpStream::connect_timeout(it, CONNECT_TIMEOUT).is_ok())
}
