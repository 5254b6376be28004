//! All routes of MLflow's API, with the right that each requires.
//!
//! MLflow serves the same routes under `/api` and, for its own pages, under `/ajax-api`. Rights are
//! declared and never derived from method or path: searches only read although they are posted,
//! and artifacts can have any path.

use super::request::call;
use super::{
    artifacts, experiments, logged_models, metrics, missing, registry, runs, server, trace_links,
    trace_search, traces,
};
use crate::access::Right::{Read, Write};
use crate::http::route::{Group, Route};

/// All groups of routes.
pub(crate) fn groups() -> Vec<Group> {
    let group = |prefix, routes| Group {
        prefix,
        routes,
        owns_prefix: true,
    };
    vec![
        Group {
            prefix: "",
            routes: vec![
                Route::get("/get-artifact", Read, artifacts::run_get),
                Route::any("/v1/traces", Read, missing::spans),
            ],
            owns_prefix: false,
        },
        group("/api/2.0/mlflow", version_2()),
        group("/ajax-api/2.0/mlflow", version_2()),
        group("/api/3.0/mlflow", version_3()),
        group("/ajax-api/3.0/mlflow", version_3()),
        group("/api/2.0/mlflow-artifacts", artifact_proxy()),
        group("/ajax-api/2.0/mlflow-artifacts", artifact_proxy()),
    ]
}

fn version_2() -> Vec<Route> {
    let mut all = Vec::new();
    all.extend(experiment_routes());
    all.extend(run_routes());
    all.extend(logged_model_routes());
    all.extend(registered_model_routes());
    all.extend(model_version_routes());
    all.extend(trace_routes());
    all.push(Route::post(
        "/traces/link-to-run",
        Write,
        call(trace_links::link_to_run),
    ));
    all.push(Route::post(
        "/traces/link-prompts",
        Write,
        call(trace_links::link_prompts),
    ));
    all
}

/// Routes that both versions of the API have.
fn trace_routes() -> Vec<Route> {
    let tags = "/traces/{trace_id}/tags";
    vec![
        Route::patch(tags, Write, call(traces::tag_set)),
        Route::delete(tags, Write, call(traces::tag_delete)),
        Route::post("/traces/delete-traces", Write, call(trace_links::delete)),
        Route::get("/get-trace-artifact", Read, artifacts::trace_get),
    ]
}

fn experiment_routes() -> Vec<Route> {
    use experiments as it;
    vec![
        Route::post("/experiments/create", Write, call(it::create)),
        Route::get("/experiments/get", Read, call(it::get)),
        Route::get("/experiments/get-by-name", Read, call(it::get_by_name)),
        Route::get("/experiments/search", Read, call(it::search)),
        Route::post("/experiments/search", Read, call(it::search)),
        Route::post("/experiments/update", Write, call(it::update)),
        Route::post("/experiments/delete", Write, call(it::delete)),
        Route::post("/experiments/restore", Write, call(it::restore)),
        Route::post("/experiments/set-experiment-tag", Write, call(it::tag_set)),
        Route::post(
            "/experiments/delete-experiment-tag",
            Write,
            call(it::tag_delete),
        ),
        Route::post(
            "/experiments/search-datasets",
            Read,
            call(it::search_datasets),
        ),
    ]
}

fn run_routes() -> Vec<Route> {
    vec![
        Route::post("/runs/create", Write, call(runs::create)),
        Route::get("/runs/get", Read, call(runs::get)),
        Route::post("/runs/update", Write, call(runs::update)),
        Route::post("/runs/delete", Write, call(runs::delete)),
        Route::post("/runs/restore", Write, call(runs::restore)),
        Route::post("/runs/log-parameter", Write, call(runs::log_parameter)),
        Route::post("/runs/log-metric", Write, call(runs::log_metric)),
        Route::post("/runs/set-tag", Write, call(runs::set_tag)),
        Route::post("/runs/delete-tag", Write, call(runs::delete_tag)),
        Route::post("/runs/log-batch", Write, call(runs::log_batch)),
        Route::post("/runs/log-inputs", Write, call(runs::log_inputs)),
        Route::post("/runs/outputs", Write, call(runs::log_outputs)),
        Route::post("/runs/log-model", Write, call(runs::log_model)),
        Route::post("/runs/search", Read, runs::search),
        Route::get("/metrics/get-history", Read, call(runs::metric_history)),
        Route::get(
            "/metrics/get-history-bulk",
            Read,
            call(metrics::history_bulk),
        ),
        Route::get(
            "/metrics/get-history-bulk-interval",
            Read,
            call(metrics::history_sample),
        ),
        Route::get("/artifacts/list", Read, call(artifacts::run_list)),
        Route::post("/upload-artifact", Write, artifacts::run_upload),
    ]
}

fn logged_model_routes() -> Vec<Route> {
    use logged_models as it;
    let one = "/logged-models/{model_id}";
    vec![
        Route::post("/logged-models", Write, call(it::create)),
        Route::post("/logged-models/search", Read, call(it::search)),
        Route::get(one, Read, call(it::get)),
        Route::patch(one, Write, call(it::finalize)),
        Route::delete(one, Write, call(it::delete)),
        Route::post(
            "/logged-models/{model_id}/params",
            Write,
            call(it::params_log),
        ),
        Route::patch("/logged-models/{model_id}/tags", Write, call(it::tags_set)),
        Route::delete(
            "/logged-models/{model_id}/tags/{tag_key}",
            Write,
            call(it::tag_delete),
        ),
        Route::get(
            "/logged-models/{model_id}/artifacts/files",
            Read,
            artifacts::model_get,
        ),
        Route::get(
            "/logged-models/{model_id}/artifacts/directories",
            Read,
            call(it::files),
        ),
    ]
}

fn registered_model_routes() -> Vec<Route> {
    use registry as it;
    let latest = "/registered-models/get-latest-versions";
    let alias = "/registered-models/alias";
    vec![
        Route::post("/registered-models/create", Write, call(it::create)),
        Route::get("/registered-models/get", Read, call(it::get)),
        Route::get("/registered-models/search", Read, call(it::search)),
        Route::post("/registered-models/search", Read, call(it::search)),
        Route::patch("/registered-models/update", Write, call(it::update)),
        Route::post("/registered-models/rename", Write, call(it::rename)),
        Route::delete("/registered-models/delete", Write, call(it::delete)),
        Route::get(latest, Read, call(it::latest)),
        Route::post(latest, Read, call(it::latest)),
        Route::post("/registered-models/set-tag", Write, call(it::tag_set)),
        Route::delete("/registered-models/delete-tag", Write, call(it::tag_delete)),
        Route::get(alias, Read, call(it::alias_get)),
        Route::post(alias, Write, call(it::alias_set)),
        Route::delete(alias, Write, call(it::alias_delete)),
    ]
}

fn model_version_routes() -> Vec<Route> {
    use registry as it;
    vec![
        Route::post("/model-versions/create", Write, call(it::version_create)),
        Route::get("/model-versions/get", Read, call(it::version_get)),
        Route::get("/model-versions/search", Read, call(it::version_search)),
        Route::post("/model-versions/search", Read, call(it::version_search)),
        Route::patch("/model-versions/update", Write, call(it::version_update)),
        Route::delete("/model-versions/delete", Write, call(it::version_delete)),
        Route::get(
            "/model-versions/get-download-uri",
            Read,
            call(it::version_source),
        ),
        Route::post("/model-versions/set-tag", Write, call(it::version_tag_set)),
        Route::delete(
            "/model-versions/delete-tag",
            Write,
            call(it::version_tag_delete),
        ),
    ]
}

fn version_3() -> Vec<Route> {
    let assessment = "/traces/{trace_id}/assessments/{assessment_id}";
    let mut all = trace_routes();
    all.extend([
        Route::get("/server-info", Read, call(server::info)),
        Route::post("/traces", Write, call(traces::start)),
        Route::post("/traces/search", Read, call(trace_search::search)),
        // Without these routes, `get` would match as a trace id.
        Route::any("/traces/get", Read, missing::not_implemented),
        Route::any("/traces/batchGet", Read, missing::not_implemented),
        Route::get("/traces/batchGetInfos", Read, call(traces::get_many)),
        Route::post("/traces/batchGetInfos", Read, call(traces::get_many)),
        Route::any("/traces/metrics", Read, missing::not_implemented),
        Route::any(
            "/traces/calculate-filter-correlation",
            Read,
            missing::not_implemented,
        ),
        Route::get("/traces/{trace_id}", Read, call(traces::get)),
        Route::post(
            "/traces/{trace_id}/assessments",
            Write,
            call(traces::assess),
        ),
        Route::get(assessment, Read, call(traces::assessment_get)),
        Route::patch(assessment, Write, call(traces::assessment_update)),
        Route::delete(assessment, Write, call(traces::assessment_delete)),
    ]);
    all
}

fn artifact_proxy() -> Vec<Route> {
    let file = "/artifacts/{*path}";
    vec![
        Route::get("/artifacts", Read, call(artifacts::proxy_list)),
        Route::get(file, Read, artifacts::proxy_get),
        Route::put(file, Write, artifacts::proxy_put),
        Route::delete(file, Write, artifacts::proxy_delete),
    ]
}
