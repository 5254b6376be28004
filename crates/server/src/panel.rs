//! The panel: the web pages of the server.
//!
//! Every page is rendered on the server from a template with the name of its handler. Pages work
//! without JavaScript, which only adds live updates, keyboard shortcuts and copying. Forms are
//! posted, and the response is a redirect. The content security policy forbids inline scripts and
//! styles, so that an escaping error cannot execute code; [`escape`] escapes all text in
//! templates.
//!
//! Authorization is done in [`access`](crate::access), not here.

use std::sync::LazyLock;

use assize_domain::hash::sha256_hex;
use assize_report::svg;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::access::Right;
use crate::http::route::Route;

mod api_docs;
mod desk;
pub(crate) mod escape;
mod experiment;
mod experiments;
mod fields;
mod gate_actions;
mod gate_checks;
mod job_hosts;
mod jobs;
pub(crate) mod models;
mod new_run;
mod optimise;
mod option_inputs;
pub(crate) mod page;
mod pair_name;
mod policies;
mod promotion_record;
mod promotions;
mod relative_time;
mod run;
mod run_diff;
pub(crate) mod sign_in;
mod team_notice;
mod tokens;

/// All pages and forms, with the right that each requires.
pub(crate) fn routes() -> Vec<Route> {
    let mut all = public();
    all.extend(pages());
    all.extend(changes());
    all.extend(judging());
    all
}

fn public() -> Vec<Route> {
    let css = async || asset("text/css; charset=utf-8", &ASSETS.css);
    let js = async || asset("text/javascript; charset=utf-8", &ASSETS.js);
    let icon = async || asset("image/svg+xml", ICON);
    vec![
        Route::get("/sign-in", Right::Public, sign_in::page),
        Route::get("/assets/panel.css", Right::Public, css),
        Route::get("/assets/panel.js", Right::Public, js),
        Route::get("/assets/icon.svg", Right::Public, icon),
    ]
}

fn pages() -> Vec<Route> {
    use experiment::{board, download, grid, history, judges, runs};
    vec![
        Route::get("/", Right::Read, experiments::page),
        Route::get("/experiments/{name}", Right::Read, board::page),
        Route::get("/experiments/{name}/board.csv", Right::Read, download::csv),
        Route::get(
            "/experiments/{name}/board.html",
            Right::Read,
            download::html,
        ),
        Route::get(
            "/experiments/{name}/board.json",
            Right::Read,
            download::json,
        ),
        Route::get("/experiments/{name}/grid", Right::Read, grid::page),
        Route::get("/experiments/{name}/runs", Right::Read, runs::page),
        Route::get("/experiments/{name}/history", Right::Read, history::page),
        Route::get("/judges/{name}", Right::Read, judges::page),
        Route::get("/runs/{id}", Right::Read, run::page),
        Route::get("/compare-runs", Right::Read, run_diff::page),
        Route::get("/promotions", Right::Read, promotions::page),
        Route::get("/promotions/record", Right::Read, promotion_record::page),
        Route::get("/policies", Right::Read, policies::page),
        Route::get("/optimise", Right::Read, optimise::list),
        Route::get("/optimise/{name}", Right::Read, optimise::page),
        Route::get("/jobs", Right::Read, jobs::list),
        Route::get("/jobs/{id}", Right::Read, jobs::page),
        Route::get("/api-docs", Right::Read, api_docs::page),
    ]
}

fn changes() -> Vec<Route> {
    use experiment::{auto_judge, sealed};
    vec![
        Route::get("/run/new", Right::Write, new_run::page),
        Route::post("/run/new", Right::Write, new_run::start),
        Route::get("/judges/{name}/auto", Right::Write, auto_judge::page),
        Route::post("/judges/{name}/auto", Right::Write, auto_judge::start),
        Route::post("/experiments/{name}/unseal", Right::Write, sealed::unseal),
        Route::post("/runs/{id}/unseal", Right::Write, run::unseal),
        Route::post("/jobs/{id}/cancel", Right::Write, jobs::cancel),
        Route::post("/jobs/{id}/resume", Right::Write, jobs::resume),
        Route::post("/promotions/attempt", Right::Write, promotions::attempt),
        Route::post("/promotions/promote", Right::Write, promotions::promote),
        Route::post("/promotions/reopen", Right::Write, promotions::judge_again),
        Route::post("/promotions/rollback", Right::Write, promotions::rollback),
        Route::post(
            "/policies/promote",
            Right::Write,
            policies::changes::promote,
        ),
        Route::post(
            "/policies/rollback",
            Right::Write,
            policies::changes::rollback,
        ),
        Route::post("/policies/shadow", Right::Write, policies::changes::switch),
        Route::post(
            "/policies/simulate",
            Right::Write,
            policies::changes::simulate,
        ),
        Route::post(
            "/optimise/{name}/step",
            Right::Write,
            optimise::changes::step,
        ),
        Route::post(
            "/optimise/{name}/stop",
            Right::Write,
            optimise::changes::stop,
        ),
        Route::get("/tokens", Right::Write, tokens::page),
        Route::post("/tokens", Right::Write, tokens::create),
        Route::post("/tokens/{id}/revoke", Right::Write, tokens::revoke),
    ]
}

fn judging() -> Vec<Route> {
    vec![
        Route::get("/desk", Right::Judge, desk::list),
        Route::get("/desk/{name}", Right::Judge, desk::page),
        Route::post("/desk/{name}", Right::Judge, desk::submit),
        Route::post("/desk/{name}/start", Right::Judge, desk::start),
        Route::post("/desk/{name}/finish", Right::Judge, desk::finish),
        Route::get("/desk/{name}/reveal", Right::Judge, desk::reveal::page),
    ]
}

/// The parts of the one script, in order; each page's behaviour has a file of its own.
const SCRIPTS: &[&str] = &[
    include_str!("../assets/panel.js"),
    include_str!("../assets/job.js"),
    include_str!("../assets/new_run.js"),
    include_str!("../assets/desk.js"),
];
/// The parts of the one style sheet, in order.
const STYLES: &[&str] = &[
    include_str!("../assets/panel.css"),
    include_str!("../assets/pages.css"),
    include_str!("../assets/board.css"),
    svg::CSS,
];
const ICON: &str = include_str!("../assets/icon.svg");

struct Assets {
    css: String,
    js: String,
    /// A hash of the content, so that browsers can cache assets indefinitely.
    version: String,
}

static ASSETS: LazyLock<Assets> = LazyLock::new(|| {
    let css = STYLES.concat();
    let js = SCRIPTS.join("\n");
    let mut version = sha256_hex([css.as_str(), &js, ICON].concat().as_bytes());
    version.truncate(10);
    Assets { css, js, version }
});

fn asset(kind: &'static str, content: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, content).into_response()
}
