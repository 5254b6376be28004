//! `/health`: whether the store is readable and the other services are reachable.
//!
//! It requires no token, so it reveals neither addresses nor tracked data.

use std::net::TcpStream;
use std::time::Duration;

use assize_http::Address;
use assize_store::Runs as _;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::App;
use crate::http::json;

/// How long a service may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) async fn check(State(app): State<App>) -> Response {
    let checked = tokio::task::spawn_blocking(move || {
        let store = app.store.experiment_list().is_ok();
        let mut hosts = app.config.ollama_urls.iter();
        (store, hosts.any(|url| is_reachable(url)))
    });
    let (store, ollama) = checked.await.unwrap_or((false, false));
    let word = |is_ok: bool| if is_ok { "ok" } else { "unreachable" };
    let body = serde_json::json!({
        "status": if store { "OK" } else { "FAILED" },
        "store": word(store),
        "ollama": word(ollama),
        // The embedded store implements MLflow's API itself.
        "mlflow": word(store),
    });
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
