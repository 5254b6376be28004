//! The tables that runs logged by other MLflow clients need in addition.

/// Columns and tables for MLflow's API.
pub(crate) const V4: &str = "
ALTER TABLE runs ADD COLUMN user_id TEXT NOT NULL DEFAULT '';
ALTER TABLE experiments ADD COLUMN artifact_location TEXT;

CREATE TABLE inputs (
    run INTEGER NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    context TEXT,
    record TEXT NOT NULL,
    PRIMARY KEY (run, name, digest)
) WITHOUT ROWID;

-- A trace belongs to an experiment, and its assessments to it; both are kept as they came.
CREATE TABLE traces (
    trace_id TEXT PRIMARY KEY,
    experiment INTEGER NOT NULL REFERENCES experiments (experiment_id),
    request_time INTEGER NOT NULL,
    info TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX traces_by_experiment ON traces (experiment, request_time);
CREATE TABLE trace_tags (
    trace_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (trace_id, key)
) WITHOUT ROWID;
CREATE TABLE trace_files (
    trace_id TEXT NOT NULL,
    path TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (trace_id, path)
);
CREATE TABLE assessments (
    number INTEGER PRIMARY KEY,
    trace_id TEXT NOT NULL,
    assessment_id TEXT NOT NULL UNIQUE,
    record TEXT NOT NULL
);
CREATE INDEX assessments_by_trace ON assessments (trace_id);

ALTER TABLE registered_models ADD COLUMN next_version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE model_versions ADD COLUMN run_id TEXT NOT NULL DEFAULT '';
ALTER TABLE model_versions ADD COLUMN run_link TEXT NOT NULL DEFAULT '';
";

/// Logged models. Their files are stored like the artifacts of runs.
pub(crate) const V5: &str = "
CREATE TABLE logged_models (
    id INTEGER PRIMARY KEY,
    model_id TEXT NOT NULL UNIQUE,
    experiment INTEGER NOT NULL REFERENCES experiments (experiment_id),
    name TEXT NOT NULL,
    model_type TEXT NOT NULL,
    source_run_id TEXT NOT NULL,
    status INTEGER NOT NULL,
    creation_time INTEGER NOT NULL,
    last_update_time INTEGER NOT NULL,
    lifecycle_stage TEXT NOT NULL DEFAULT 'active'
);
CREATE INDEX logged_models_by_experiment ON logged_models (experiment, creation_time);
CREATE TABLE logged_model_params (
    model INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (model, key)
) WITHOUT ROWID;
CREATE TABLE logged_model_tags (
    model INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (model, key)
) WITHOUT ROWID;
CREATE TABLE logged_model_metrics (
    model INTEGER NOT NULL,
    key TEXT NOT NULL,
    timestamp INTEGER NOT NULL,
    step INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    dataset_name TEXT NOT NULL,
    dataset_digest TEXT NOT NULL,
    value REAL NOT NULL,
    is_nan INTEGER NOT NULL,
    PRIMARY KEY (model, key, timestamp, step, run_id, dataset_name, dataset_digest, value, is_nan)
) WITHOUT ROWID;
CREATE TABLE logged_model_files (
    model INTEGER NOT NULL,
    path INTEGER NOT NULL,
    blob INTEGER NOT NULL,
    PRIMARY KEY (model, path)
) WITHOUT ROWID;
-- The models that a run took and made.
CREATE TABLE run_models (
    run INTEGER NOT NULL,
    is_output INTEGER NOT NULL,
    model_id TEXT NOT NULL,
    step INTEGER,
    PRIMARY KEY (run, is_output, model_id)
);

ALTER TABLE model_versions ADD COLUMN model_id TEXT NOT NULL DEFAULT '';
";

/// The order of a run's datasets; files outside of runs; what clients linked traces to.
pub(crate) const V12: &str = "
ALTER TABLE inputs ADD COLUMN position INTEGER NOT NULL DEFAULT 0;
-- Like `artifacts`, with the owner 0.
CREATE TABLE loose_files (
    owner INTEGER NOT NULL,
    path INTEGER NOT NULL,
    blob INTEGER NOT NULL,
    PRIMARY KEY (owner, path)
) WITHOUT ROWID;
CREATE TABLE trace_runs (
    trace_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (trace_id, run_id)
) WITHOUT ROWID;
CREATE INDEX trace_runs_by_run ON trace_runs (run_id);
CREATE TABLE trace_prompts (
    trace_id TEXT NOT NULL,
    prompt TEXT NOT NULL,
    PRIMARY KEY (trace_id, prompt)
) WITHOUT ROWID;
";
