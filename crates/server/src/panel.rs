//! The panel: what is tracked, for people with a browser.
//!
//! Every page is rendered by the server from a template that mirrors its handler, and works
//! without JavaScript, which only adds live updates, keys and copying. Forms post and are
//! answered with a redirect. The policy that each page carries allows no inline script and no
//! inline style, so that even a mistake in escaping could not run anything; what others wrote is
//! escaped by [`escape`] on its way into any template.
//!
//! Who may see what is decided by the access layer, not here.

use std::sync::LazyLock;

use assize_domain::hash::sha256_hex;
use assize_report::svg;
use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::App;

mod api_docs;
mod desk;
pub(crate) mod escape;
mod experiment;
mod experiments;
mod fields;
mod jobs;
mod models;
mod new_run;
mod option_inputs;
pub(crate) mod page;
mod promotions;
mod run;
mod side;
pub(crate) mod sign_in;
mod tokens;
mod when;

/// What everybody may load, signed in or not.
pub(crate) fn open() -> Router<App> {
    Router::new()
        .route("/sign-in", get(sign_in::page))
        .route(
            "/assets/panel.css",
            get(async || asset("text/css; charset=utf-8", &ASSETS.css)),
        )
        .route(
            "/assets/panel.js",
            get(async || asset("text/javascript; charset=utf-8", JS)),
        )
        .route(
            "/assets/icon.svg",
            get(async || asset("image/svg+xml", ICON)),
        )
}

/// Pages for whoever may read.
pub(crate) fn reads() -> Router<App> {
    Router::new()
        .route("/", get(experiments::page))
        .route("/experiments/{name}", get(experiment::board::page))
        .route("/experiments/{name}/grid", get(experiment::grid::page))
        .route("/experiments/{name}/runs", get(experiment::runs::page))
        .route(
            "/experiments/{name}/history",
            get(experiment::history::page),
        )
        .route("/judges/{name}", get(experiment::judges::page))
        .route("/runs/{id}", get(run::page))
        .route("/compare-runs", get(side::page))
        .route("/promotions", get(promotions::page))
        .route("/jobs", get(jobs::list))
        .route("/api-docs", get(api_docs::page))
        .route("/jobs/{id}", get(jobs::page))
}

/// Pages and forms for whoever may change things.
pub(crate) fn writes() -> Router<App> {
    Router::new()
        .route("/run/new", get(new_run::page).post(new_run::start))
        .route(
            "/judges/{name}/auto",
            get(experiment::auto_judge::page).post(experiment::auto_judge::start),
        )
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/jobs/{id}/resume", post(jobs::resume))
        .route("/promotions/promote", post(promotions::promote))
        .route("/promotions/rollback", post(promotions::rollback))
        .route("/tokens", get(tokens::page).post(tokens::create))
        .route("/tokens/{id}/revoke", post(tokens::revoke))
}

/// The judge's desk.
pub(crate) fn desk() -> Router<App> {
    Router::new()
        .route("/desk", get(desk::list))
        .route("/desk/{name}", get(desk::page).post(desk::submit))
        .route("/desk/{name}/start", post(desk::start))
        .route("/desk/{name}/finish", post(desk::finish))
        .route("/desk/{name}/reveal", get(desk::reveal::page))
}

const JS: &str = include_str!("../assets/panel.js");
const ICON: &str = include_str!("../assets/icon.svg");

struct Assets {
    css: String,
    /// Changes with the content, so that browsers may keep assets for good.
    version: String,
}

static ASSETS: LazyLock<Assets> = LazyLock::new(|| {
    let css = [
        include_str!("../assets/panel.css"),
        include_str!("../assets/pages.css"),
        svg::CSS,
    ]
    .concat();
    let mut version = sha256_hex([&css, JS, ICON].concat().as_bytes());
    version.truncate(10);
    Assets { css, version }
});

fn asset(kind: &'static str, content: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, content).into_response()
}
