//! `/health`: whether the store can be read, and whether the services around answer.
//!
//! It needs no token, so it says no addresses and nothing about what is tracked.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use assize_store::Runs as _;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::App;
use crate::http::json;

/// How long a service may take to take a connection.
const PATIENCE: Duration = Duration::from_millis(500);

pub(crate) async fn check(State(app): State<App>) -> Response {
    let looked = tokio::task::spawn_blocking(move || {
        let store = app.store.experiment_list().is_ok();
        let mut hosts = app.config.ollama_urls.iter();
        (store, hosts.any(|url| takes_connections(url)))
    });
    let (store, ollama) = looked.await.unwrap_or((false, false));
    let word = |answers: bool| if answers { "ok" } else { "away" };
    let body = serde_json::json!({
        "status": if store { "OK" } else { "FAILED" },
        "store": word(store),
        "ollama": word(ollama),
        // The embedded store answers MLflow's API itself.
        "mlflow": word(store),
    });
    let status = if store {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(status, body.to_string())
}

fn takes_connections(url: &str) -> bool {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split('/').next().unwrap_or_default();
    let port = if scheme == "https" { 443 } else { 80 };
    let authority = if authority
        .rsplit_once(':')
        .is_some_and(|(_, it)| it.parse::<u16>().is_ok())
    {
        authority.to_owned()
    } else {
        format!("{authority}:{port}")
    };
    let Ok(mut addresses) = authority.to_socket_addrs() else {
        return false;
    };
    addresses.any(|it| TcpStream::connect_timeout(&it, PATIENCE).is_ok())
}
