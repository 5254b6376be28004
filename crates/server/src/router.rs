//! All routes: those of the bench API ([`table`](crate::api::table)), of MLflow's API
//! ([`mlflow::routes`](crate::mlflow::routes)), of the panel
//! ([`panel::routes`](crate::panel::routes)), and the server's own. Every entry
//! names the right that the route requires.

use std::sync::Arc;

use axum::Router;
use axum::extract::OriginalUri;
use axum::http::{HeaderMap, Method};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;

use crate::access::{self, Right, sign_in};
use crate::http::read_small_body;
use crate::http::route::{Group, Route};
use crate::mlflow::{self, missing, server};
use crate::{App, api, health, log, metrics, panel, policies};

pub(crate) fn router(app: App) -> Router {
    let mut all = Router::new();
    for group in groups(app.team.is_some(), app.config.mlflow_pages.is_some()) {
        let mut routes = Router::new();
        for route in group.routes {
            routes = routes.route(route.path, route.authorized(&app.access));
        }
        if group.owns_prefix && app.team.is_some() {
            routes = routes.fallback(missing::on_the_team_s_server);
        } else if group.owns_prefix {
            routes = routes.fallback(missing::not_implemented);
        }
        all = if group.prefix.is_empty() {
            all.merge(routes)
        } else {
            all.nest(group.prefix, routes)
        };
    }
    all.fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn(read_small_body))
        .layer(from_fn_with_state(app.clone(), access::frame_errors))
        .layer(from_fn_with_state(
            Arc::clone(&app.access),
            access::check_host,
        ))
        .layer(from_fn_with_state(Arc::clone(&app.metrics), log::request))
        .with_state(app)
}

/// Every route of this server. MLflow's API is served over this server's own file only: a team's
/// tracking server has its own, and its own pages.
fn groups(is_team: bool, has_pages: bool) -> Vec<Group> {
    let at_root = |routes| Group {
        prefix: "",
        routes,
        owns_prefix: false,
    };
    let mut groups = vec![
        at_root(server_routes()),
        at_root(api::table::routes()),
        at_root(policies::unknown_routes()),
        at_root(panel::routes()),
    ];
    groups.extend(mlflow::routes::groups().into_iter().map(|group| Group {
        routes: if is_team { Vec::new() } else { group.routes },
        ..group
    }));
    if has_pages && !is_team {
        groups.extend(mlflow::pages::groups(mlflow::routes::groups()));
    }
    groups
}

fn server_routes() -> Vec<Route> {
    vec![
        Route::get("/health", Right::Public, health::check),
        Route::get("/version", Right::Public, async || server::VERSION),
        Route::post("/sign-in", Right::Public, sign_in::sign_in),
        Route::post("/sign-out", Right::Public, sign_in::sign_out),
        Route::get("/metrics", Right::Read, metrics::show),
    ]
}

async fn not_found(method: Method, OriginalUri(uri): OriginalUri, headers: HeaderMap) -> Response {
    let error = missing::not_found(&method, uri.path());
    access::error_response(error, &headers, uri.path())
}

async fn wrong_method(
    method: Method,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Response {
    let error = missing::wrong_method(&method, uri.path());
    access::error_response(error, &headers, uri.path())
}

#[cfg(test)]
mod tests;
