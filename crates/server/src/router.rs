//! All routes, on one page.

use axum::Router;
use axum::extract::OriginalUri;
use axum::http::{HeaderMap, Method};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing;

use crate::access::{self, Right, sign_in};
use crate::api::table::OPERATIONS;
use crate::mlflow::request::{delete, get, get_or_post, patch, post};
use crate::mlflow::{
    artifacts, experiments, logged_models, missing, registry, runs, server, trace_search, traces,
};
use crate::{App, health, listen, log, metrics, panel};

pub(crate) fn router(app: App) -> Router {
    let needs = |right: Right, routes: Router<App>| {
        routes.route_layer(from_fn_with_state(
            (app.clone(), right),
            access::check_right,
        ))
    };
    let mlflow = Router::new()
        .route("/get-artifact", routing::get(artifacts::run_get))
        .route("/v1/traces", routing::any(missing::spans))
        .merge(both("/api"))
        .merge(both("/ajax-api"));
    let mut all = Router::new()
        .route("/health", routing::get(health::check))
        .route("/version", routing::get(async || server::VERSION))
        .route("/sign-in", routing::post(sign_in::enter))
        .route("/sign-out", routing::post(sign_in::leave))
        .merge(panel::open())
        .merge(needs(Right::Read, panel::reads()))
        .merge(needs(Right::Write, panel::writes()))
        .merge(needs(Right::Judge, panel::desk()))
        .merge(needs(Right::Mlflow, mlflow))
        .merge(needs(
            Right::Read,
            Router::new().route("/metrics", routing::get(metrics::show)),
        ));
    for operation in OPERATIONS {
        let route = Router::new().route(operation.path, (operation.route)());
        all = all.merge(needs(operation.right, route));
    }
    all.fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn(listen::read_small_body))
        .layer(from_fn_with_state(app.clone(), access::frame_errors))
        .layer(from_fn_with_state(app.clone(), access::check_host))
        .layer(from_fn_with_state(app.clone(), log::request))
        .with_state(app)
}

async fn not_found(method: Method, OriginalUri(uri): OriginalUri, headers: HeaderMap) -> Response {
    let error = missing::not_found(&method, uri.path());
    access::refused(error, &headers, uri.path())
}

async fn wrong_method(
    method: Method,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Response {
    let error = missing::wrong_method(&method, uri.path());
    access::refused(error, &headers, uri.path())
}

/// MLflow answers the same under `/api` and, for its own pages, under `/ajax-api`.
fn both(root: &str) -> Router<App> {
    Router::new()
        .nest(&format!("{root}/2.0/mlflow"), mlflow())
        .nest(&format!("{root}/3.0/mlflow"), mlflow_3())
        .nest(&format!("{root}/2.0/mlflow-artifacts"), proxy())
}

fn mlflow() -> Router<App> {
    Router::new()
        .route("/experiments/create", post(experiments::create))
        .route("/experiments/get", get(experiments::get))
        .route("/experiments/get-by-name", get(experiments::get_by_name))
        .route("/experiments/search", get_or_post(experiments::search))
        .route("/experiments/update", post(experiments::update))
        .route("/experiments/delete", post(experiments::delete))
        .route("/experiments/restore", post(experiments::restore))
        .route(
            "/experiments/set-experiment-tag",
            post(experiments::tag_set),
        )
        .route(
            "/experiments/delete-experiment-tag",
            post(experiments::tag_delete),
        )
        .route("/runs/create", post(runs::create))
        .route("/runs/get", get(runs::get))
        .route("/runs/update", post(runs::update))
        .route("/runs/delete", post(runs::delete))
        .route("/runs/restore", post(runs::restore))
        .route("/runs/log-parameter", post(runs::log_parameter))
        .route("/runs/log-metric", post(runs::log_metric))
        .route("/runs/set-tag", post(runs::set_tag))
        .route("/runs/delete-tag", post(runs::delete_tag))
        .route("/runs/log-batch", post(runs::log_batch))
        .route("/runs/log-inputs", post(runs::log_inputs))
        .route("/runs/outputs", post(runs::log_outputs))
        .route("/runs/log-model", post(runs::log_model))
        .route("/runs/search", routing::post(runs::search))
        .route("/metrics/get-history", get(runs::metric_history))
        .route("/artifacts/list", get(artifacts::run_list))
        .route("/upload-artifact", routing::post(artifacts::run_upload))
        .merge(logged())
        .merge(registered_models())
        .merge(model_versions())
        .route(
            "/traces/{trace_id}/tags",
            patch(traces::tag_set).merge(delete(traces::tag_delete)),
        )
        .fallback(missing::not_served)
}

fn logged() -> Router<App> {
    Router::new()
        .route("/logged-models", post(logged_models::create))
        .route("/logged-models/search", post(logged_models::search))
        .route(
            "/logged-models/{model_id}",
            get(logged_models::get)
                .merge(patch(logged_models::finalize))
                .merge(delete(logged_models::delete)),
        )
        .route(
            "/logged-models/{model_id}/params",
            post(logged_models::params_log),
        )
        .route(
            "/logged-models/{model_id}/tags",
            patch(logged_models::tags_set),
        )
        .route(
            "/logged-models/{model_id}/tags/{tag_key}",
            delete(logged_models::tag_delete),
        )
        .route(
            "/logged-models/{model_id}/artifacts/directories",
            get(logged_models::files),
        )
}

fn registered_models() -> Router<App> {
    Router::new()
        .route("/registered-models/create", post(registry::create))
        .route("/registered-models/get", get(registry::get))
        .route("/registered-models/search", get_or_post(registry::search))
        .route("/registered-models/update", patch(registry::update))
        .route("/registered-models/rename", post(registry::rename))
        .route("/registered-models/delete", delete(registry::delete))
        .route(
            "/registered-models/get-latest-versions",
            get_or_post(registry::latest),
        )
        .route("/registered-models/set-tag", post(registry::tag_set))
        .route(
            "/registered-models/delete-tag",
            delete(registry::tag_delete),
        )
        .route(
            "/registered-models/alias",
            get(registry::alias_get)
                .merge(post(registry::alias_set))
                .merge(delete(registry::alias_delete)),
        )
}

fn model_versions() -> Router<App> {
    Router::new()
        .route("/model-versions/create", post(registry::version_create))
        .route("/model-versions/get", get(registry::version_get))
        .route(
            "/model-versions/search",
            get_or_post(registry::version_search),
        )
        .route("/model-versions/update", patch(registry::version_update))
        .route("/model-versions/delete", delete(registry::version_delete))
        .route(
            "/model-versions/get-download-uri",
            get(registry::version_source),
        )
        .route("/model-versions/set-tag", post(registry::version_tag_set))
        .route(
            "/model-versions/delete-tag",
            delete(registry::version_tag_delete),
        )
}

fn mlflow_3() -> Router<App> {
    Router::new()
        .route("/server-info", get(server::info))
        .route("/traces", post(traces::start))
        .route("/traces/search", post(trace_search::search))
        // Without these, `get` would be taken for the id of a trace.
        .route("/traces/get", routing::any(missing::not_served))
        .route("/traces/batchGet", routing::any(missing::not_served))
        .route("/traces/batchGetInfos", get_or_post(traces::get_many))
        .route("/traces/metrics", routing::any(missing::not_served))
        .route("/traces/delete-traces", routing::any(missing::not_served))
        .route(
            "/traces/calculate-filter-correlation",
            routing::any(missing::not_served),
        )
        .route("/traces/{trace_id}", get(traces::get))
        .route("/traces/{trace_id}/assessments", post(traces::assess))
        .route(
            "/traces/{trace_id}/assessments/{assessment_id}",
            get(traces::assessment_get)
                .merge(patch(traces::assessment_update))
                .merge(delete(traces::assessment_delete)),
        )
        .fallback(missing::not_served)
}

fn proxy() -> Router<App> {
    Router::new()
        .route("/artifacts", get(artifacts::proxy_list))
        .route(
            "/artifacts/{*path}",
            routing::get(artifacts::proxy_get)
                .put(artifacts::proxy_put)
                .delete(artifacts::proxy_delete),
        )
        .fallback(missing::not_served)
}
