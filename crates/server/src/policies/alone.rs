//! A server of the policies alone: `assize serve --only policies`.
//!
//! It has the routes of the policies, `/health`, `/version` and the OpenAPI document of these
//! routes. It opens the policies' file and the tokens, and no tracking store.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use assize_domain::error_kind::ErrorKind;
use assize_pipeline::Now;
use assize_store::state::State as LocalState;
use axum::Router;
use axum::extract::{FromRef, OriginalUri, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;

use super::{Engine, PoliciesConfig, operations, unknown_routes};
use crate::access::{self, Access, AccessConfig, Right};
use crate::api::openapi::{self, OpenApi};
use crate::api::table::Operation;
use crate::error::{ApiError, ApiResult};
use crate::http::route::Route;
use crate::http::{json, read_small_body};
use crate::metrics::Metrics;
use crate::mlflow::fields::NoFields;
use crate::mlflow::{missing, server};
use crate::{ServerError, listen, log, serve_on};

/// The configuration of a server of the policies alone.
#[derive(Debug)]
pub struct PoliciesServer {
    pub access: AccessConfig,
    pub policies: PoliciesConfig,
    pub clock: fn() -> Now,
}

/// The state that the handlers share.
#[derive(Debug, Clone)]
struct PolicyApp {
    access: Arc<Access>,
    engine: Arc<Engine>,
}

impl FromRef<PolicyApp> for Arc<Engine> {
    fn from_ref(app: &PolicyApp) -> Self {
        Self::clone(&app.engine)
    }
}

impl FromRef<PolicyApp> for Arc<Access> {
    fn from_ref(app: &PolicyApp) -> Self {
        Self::clone(&app.access)
    }
}

/// Serves until Ctrl-C or SIGTERM. `announce` is called with the actual address.
pub fn run_policies(
    state: Arc<LocalState>,
    config: PoliciesServer,
    (host, port): (IpAddr, u16),
    announce: impl FnOnce(SocketAddr) -> Result<(), ServerError>,
) -> Result<(), ServerError> {
    serve_on(SocketAddr::new(host, port), async |listener, stop| {
        let engine = Engine::start(config.policies)?;
        let app = PolicyApp {
            access: Arc::new(Access {
                config: config.access,
                clock: config.clock,
                state,
                results: None,
                team: None,
            }),
            engine: Arc::clone(&engine),
        };
        announce(listener.local_addr()?)?;
        listen::serve(listener, router(&app), stop.wait(), || engine.stop()).await;
        Ok(())
    })
}

fn router(app: &PolicyApp) -> Router {
    let mut router = Router::new();
    let listed = all_operations().into_iter().map(Operation::into_route);
    let own = [
        Route::get("/health", Right::Public, health),
        Route::get("/version", Right::Public, async || server::VERSION),
    ];
    for route in listed.chain(own).chain(unknown_routes()) {
        router = router.route(route.path, route.authorized(&app.access));
    }
    router
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn(read_small_body))
        .layer(from_fn_with_state(
            Arc::clone(&app.access),
            access::check_host,
        ))
        .layer(from_fn_with_state(Arc::<Metrics>::default(), log::request))
        .with_state(app.clone())
}

fn all_operations() -> Vec<Operation<PolicyApp>> {
    let path = "/api/openapi.json";
    let document = Operation::new::<NoFields, OpenApi>(
        ("get", path, Right::AnyRole, "This document"),
        StatusCode::OK,
        Route::get(path, Right::AnyRole, document),
    );
    let mut all = operations();
    all.push(document);
    all
}

async fn document() -> ApiResult<Response> {
    let document = serde_json::to_vec(&openapi::build(&all_operations()));
    let document = document.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(json(StatusCode::OK, document))
}

/// `/health`: whether the policies' file can be read.
async fn health(State(engine): State<Arc<Engine>>) -> Response {
    let read = tokio::task::spawn_blocking(move || engine.is_readable()).await;
    let (status, words) = if read.unwrap_or(false) {
        (StatusCode::OK, ("OK", "ok"))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, ("FAILED", "unreachable"))
    };
    let body = serde_json::json!({"status": words.0, "policies": words.1});
    json(status, body.to_string())
}

async fn not_found(method: Method, OriginalUri(uri): OriginalUri) -> ApiError {
    let message = format!(
        "there is no {method} {}: this server was started with --only policies",
        uri.path()
    );
    ApiError::new(ErrorKind::EndpointNotFound, message)
}

async fn wrong_method(method: Method, OriginalUri(uri): OriginalUri) -> ApiError {
    missing::wrong_method(&method, uri.path())
}
