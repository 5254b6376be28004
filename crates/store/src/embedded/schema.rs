//! The schema of the tracking database: MLflow's data model, optimised for appending.
//!
//! - A run has an integer `id` inside the file, in the order of creation, and 32 hex digits
//!   outside (`run_id`, stored as 16 bytes). The data of a run is clustered by `(run, key)`, so
//!   writing a run appends to a few tables instead of changing pages all over the file.
//! - `texts` holds every key, and every short value of a param or tag, once. Other tables refer
//!   to them by id. A long or unique value (`cell_key`) is stored in place: in a `value` column
//!   an INTEGER is an id in `texts` and a TEXT is the value itself. Whether a value is in `texts`
//!   depends on its key and length only, so a search never has to try both.
//! - The texts that readers rely on have fixed low ids ([`known`]).
//! - `board` repeats the data of a run that boards need in one row, because they read every run.
//! - `latest_metrics` holds the latest point of a metric, `earlier_metrics` the previous ones:
//!   together they are the history. A metric that is logged once is one row.
//! - `blobs` holds artifacts. Content that many runs share (rubric, prompt, context) has its
//!   SHA-256 and is stored once. Content of one run has none, because an index on unique hashes
//!   would only slow down writing.
//! - The registry has MLflow's tables too: a prompt is a registered model with the tag
//!   `mlflow.prompt.is_prompt`, its template the tag `mlflow.prompt.text` of a version.
//!
//! Texts and shared blobs are never deleted, because writers cache their ids.

use assize_domain::run::artifact;

use super::mirror;
use super::mlflow::{V4, V5, V12};
use crate::sqlite::Layout;

/// The tracking database.
pub(crate) const LAYOUT: Layout = Layout {
    application_id: 0x4173_7a65,
    what: "a tracking store of Assize",
    migrations: &[V1, V2, V3, V4, V5, V6, V7, V8, V9, mirror::TABLES, V11, V12],
};

/// Ids of texts that every database holds.
pub(crate) mod known {
    pub const TRUE: i64 = 1;
    pub const FALSE: i64 = 2;

    // From here to `SPLIT` are the params that a board row repeats.
    pub const MODEL: i64 = 10;
    pub const PROMPT: i64 = 11;
    pub const SCENARIO: i64 = 12;
    pub const SPLIT: i64 = 13;

    /// Below [`AWAITED_END`], because very few runs have it and it must be found quickly.
    pub const SET_ASIDE: i64 = 19;
    pub const JUDGE_PENDING: i64 = 20;
    pub const AUTO_PENDING: i64 = 21;
    /// The index `tags_awaited` holds the tags with lower ids. A query that is to use it must
    /// contain `key < AWAITED_END` in addition to its own condition on `key`.
    pub const AWAITED_END: i64 = 22;
    pub const JUDGE_KIND: i64 = 22;
    // From here to `SETTINGS` are the tags that a board row repeats; 26 is `scenario_sha256`.
    pub const RUBRIC: i64 = 23;
    pub const RUBRIC_SHA256: i64 = 24;
    pub const PROMPT_SHA256: i64 = 25;
    pub const MODEL_DIGEST: i64 = 27;
    pub const SETTINGS: i64 = 28;
    pub const CELL_KEY: i64 = 29;

    // From here to `TOKENS_PER_S` are the metrics that a board row repeats; 31 is `latency_ms`.
    pub const N_CANDIDATES: i64 = 30;
    pub const TOKENS_PER_S: i64 = 32;

    pub const ARTIFACT_CONTEXT: i64 = 40;
    pub const ARTIFACT_CANDIDATES: i64 = 41;

    /// Every other text has a higher id.
    pub const LAST: i64 = 99;
}

/// The id of an artifact's path, if it is fixed.
pub(crate) fn artifact_number(path: &str) -> Option<i64> {
    match path {
        artifact::CONTEXT => Some(known::ARTIFACT_CONTEXT),
        artifact::CANDIDATES => Some(known::ARTIFACT_CANDIDATES),
        _ => None,
    }
}

const V1: &str = "
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);
INSERT INTO texts (id, text) VALUES
    (1, 'true'), (2, 'false'),
    (10, 'model'), (11, 'prompt'), (12, 'scenario'), (13, 'split'),
    (20, 'judge_pending'), (21, 'auto_pending'), (22, 'judge_kind'),
    (23, 'rubric'), (24, 'rubric_sha256'), (25, 'prompt_sha256'),
    (26, 'scenario_sha256'), (27, 'model_digest'), (28, 'settings'), (29, 'cell_key'),
    (30, 'n_candidates'), (31, 'latency_ms'), (32, 'tokens_per_s'),
    (40, 'context.json'), (41, 'candidates.json'), (42, 'prompt.txt'), (43, 'raw.txt'),
    (44, 'rubric.md'),
    (99, '');

CREATE TABLE experiments (
    experiment_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    lifecycle_stage TEXT NOT NULL DEFAULT 'active',
    creation_time INTEGER NOT NULL,
    last_update_time INTEGER NOT NULL
);
INSERT INTO experiments (experiment_id, name, creation_time, last_update_time)
VALUES (0, 'Default', 0, 0);

CREATE TABLE experiment_tags (
    experiment INTEGER NOT NULL REFERENCES experiments (experiment_id),
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (experiment, key)
) WITHOUT ROWID;

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run_id BLOB NOT NULL UNIQUE,
    experiment INTEGER NOT NULL REFERENCES experiments (experiment_id),
    name TEXT NOT NULL,
    status INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    end_time INTEGER,
    lifecycle_stage TEXT NOT NULL DEFAULT 'active',
    cell_key TEXT
);
CREATE UNIQUE INDEX runs_by_cell ON runs (experiment, cell_key)
    WHERE cell_key IS NOT NULL AND lifecycle_stage = 'active';
CREATE INDEX runs_by_experiment ON runs (experiment) WHERE lifecycle_stage = 'active';

CREATE TABLE params (
    run INTEGER NOT NULL,
    key INTEGER NOT NULL,
    value NOT NULL,
    PRIMARY KEY (run, key)
) WITHOUT ROWID;

CREATE TABLE tags (
    run INTEGER NOT NULL,
    key INTEGER NOT NULL,
    value NOT NULL,
    PRIMARY KEY (run, key)
) WITHOUT ROWID;
-- Tags with lower numbers are the ones that runs wait by.
CREATE INDEX tags_awaited ON tags (key, value) WHERE key < 22;

CREATE TABLE latest_metrics (
    run INTEGER NOT NULL,
    key INTEGER NOT NULL,
    value REAL NOT NULL,
    is_nan INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    step INTEGER NOT NULL,
    PRIMARY KEY (run, key)
) WITHOUT ROWID;

CREATE TABLE earlier_metrics (
    run INTEGER NOT NULL,
    key INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    step INTEGER NOT NULL,
    value REAL NOT NULL,
    is_nan INTEGER NOT NULL,
    PRIMARY KEY (run, key, timestamp, step, value, is_nan)
) WITHOUT ROWID;

CREATE TABLE blobs (
    id INTEGER PRIMARY KEY,
    sha256 BLOB,
    content BLOB NOT NULL
);
CREATE UNIQUE INDEX blobs_shared ON blobs (sha256) WHERE sha256 IS NOT NULL;

CREATE TABLE artifacts (
    run INTEGER NOT NULL,
    path INTEGER NOT NULL,
    blob INTEGER NOT NULL,
    PRIMARY KEY (run, path)
) WITHOUT ROWID;

CREATE TABLE sittings (
    id TEXT PRIMARY KEY,
    experiment TEXT NOT NULL,
    tier TEXT NOT NULL,
    opened_at TEXT NOT NULL,
    record TEXT NOT NULL
);
";

/// The queue: the state of sittings, their leases, and verdicts on anchors.
const V2: &str = "
INSERT INTO texts (id, text) VALUES (19, 'set_aside');

ALTER TABLE sittings ADD COLUMN state TEXT NOT NULL DEFAULT 'open';
ALTER TABLE sittings ADD COLUMN lives_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sittings ADD COLUMN closed_at TEXT;
ALTER TABLE sittings ADD COLUMN judge TEXT;
ALTER TABLE sittings ADD COLUMN drift TEXT;
CREATE INDEX sittings_by_experiment ON sittings (experiment);

-- The latest holder of each slot; a run has as many slots in a tier as judges are to score it.
CREATE TABLE leases (
    run INTEGER NOT NULL,
    tier TEXT NOT NULL,
    slot INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    sitting TEXT NOT NULL,
    PRIMARY KEY (run, tier, slot)
) WITHOUT ROWID;
CREATE INDEX leases_by_sitting ON leases (sitting);

CREATE TABLE anchor_verdicts (
    sitting TEXT NOT NULL,
    part INTEGER NOT NULL,
    file TEXT NOT NULL,
    PRIMARY KEY (sitting, part)
) WITHOUT ROWID;
";

/// The registry: prompts in MLflow's tables, and the promotion history.
const V3: &str = "
CREATE TABLE registered_models (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL DEFAULT '',
    creation_time INTEGER NOT NULL,
    last_update_time INTEGER NOT NULL
);

CREATE TABLE registered_model_tags (
    model INTEGER NOT NULL REFERENCES registered_models (id),
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (model, key)
) WITHOUT ROWID;

-- A version made by a promotion is known by its content.
CREATE TABLE model_versions (
    model INTEGER NOT NULL REFERENCES registered_models (id),
    version INTEGER NOT NULL,
    sha256 TEXT,
    source TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    creation_time INTEGER NOT NULL,
    last_update_time INTEGER NOT NULL,
    PRIMARY KEY (model, version),
    UNIQUE (model, sha256)
) WITHOUT ROWID;

CREATE TABLE model_version_tags (
    model INTEGER NOT NULL,
    version INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (model, version, key),
    FOREIGN KEY (model, version) REFERENCES model_versions (model, version)
) WITHOUT ROWID;

CREATE TABLE registered_model_aliases (
    model INTEGER NOT NULL,
    alias TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (model, alias),
    FOREIGN KEY (model, version) REFERENCES model_versions (model, version)
) WITHOUT ROWID;

CREATE TABLE promotions (
    model INTEGER NOT NULL,
    number INTEGER NOT NULL,
    version INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (model, number),
    FOREIGN KEY (model, version) REFERENCES model_versions (model, version)
) WITHOUT ROWID;
CREATE TRIGGER promotions_stay BEFORE UPDATE ON promotions
BEGIN SELECT RAISE(ABORT, 'an entry of the promotion history is never changed'); END;
CREATE TRIGGER promotions_remain BEFORE DELETE ON promotions
BEGIN SELECT RAISE(ABORT, 'an entry of the promotion history is never deleted'); END;
";

/// The data of a run that boards need, in one row ([`board::row`](super::board)). Everything in it
/// is also in other tables; a run may have no row.
const V6: &str = "
CREATE TABLE board (
    run INTEGER PRIMARY KEY,
    experiment INTEGER NOT NULL,
    line BLOB NOT NULL
);
";

/// Changing or deleting data that a board row repeats deletes the row. Inserting does not: such
/// triggers would make recording a third slower.
const V7: &str = "
CREATE TRIGGER board_runs_update AFTER UPDATE OF run_id, experiment, status ON runs
WHEN (old.run_id, old.experiment, old.status) IS NOT (new.run_id, new.experiment, new.status)
BEGIN DELETE FROM board WHERE run = old.id; END;
CREATE TRIGGER board_runs_delete AFTER DELETE ON runs
BEGIN DELETE FROM board WHERE run = old.id; END;

CREATE TRIGGER board_params_update AFTER UPDATE ON params WHEN old.key BETWEEN 10 AND 13
BEGIN DELETE FROM board WHERE run = old.run; END;
CREATE TRIGGER board_params_delete AFTER DELETE ON params WHEN old.key BETWEEN 10 AND 13
BEGIN DELETE FROM board WHERE run = old.run; END;

CREATE TRIGGER board_tags_update AFTER UPDATE ON tags WHEN old.key BETWEEN 23 AND 28
BEGIN DELETE FROM board WHERE run = old.run; END;
CREATE TRIGGER board_tags_delete AFTER DELETE ON tags WHEN old.key BETWEEN 23 AND 28
BEGIN DELETE FROM board WHERE run = old.run; END;

CREATE TRIGGER board_metrics_update AFTER UPDATE ON latest_metrics
WHEN old.key BETWEEN 30 AND 32
BEGIN DELETE FROM board WHERE run = old.run; END;
CREATE TRIGGER board_metrics_delete AFTER DELETE ON latest_metrics
WHEN old.key BETWEEN 30 AND 32
BEGIN DELETE FROM board WHERE run = old.run; END;

CREATE TRIGGER board_artifacts_update AFTER UPDATE ON artifacts
WHEN old.path > 99 AND (SELECT text FROM texts WHERE id = old.path) GLOB 'verdicts/*'
BEGIN DELETE FROM board WHERE run = old.run; END;
CREATE TRIGGER board_artifacts_delete AFTER DELETE ON artifacts
WHEN old.path > 99 AND (SELECT text FROM texts WHERE id = old.path) GLOB 'verdicts/*'
BEGIN DELETE FROM board WHERE run = old.run; END;
";

/// Tags of experiments that are entries of the ledger can be added, not changed or deleted. The
/// trigger on insertion is for `INSERT OR REPLACE`, which fires no other trigger.
const V8: &str = "
CREATE TRIGGER ledger_insert BEFORE INSERT ON experiment_tags
WHEN new.key GLOB 'assize.ledger.*' AND EXISTS (
    SELECT 1 FROM experiment_tags
    WHERE experiment = new.experiment AND key = new.key AND value IS NOT new.value)
BEGIN SELECT RAISE(ABORT, 'an entry of the ledger is never changed'); END;
CREATE TRIGGER ledger_update BEFORE UPDATE ON experiment_tags
WHEN old.key GLOB 'assize.ledger.*'
    AND (old.experiment, old.key, old.value) IS NOT (new.experiment, new.key, new.value)
BEGIN SELECT RAISE(ABORT, 'an entry of the ledger is never changed'); END;
CREATE TRIGGER ledger_delete BEFORE DELETE ON experiment_tags
WHEN old.key GLOB 'assize.ledger.*'
BEGIN SELECT RAISE(ABORT, 'an entry of the ledger is never deleted'); END;
";

/// Board rows also repeat metrics whose keys have no fixed ids.
const V9: &str = "
CREATE TRIGGER board_named_metrics_update AFTER UPDATE ON latest_metrics
WHEN old.key IN (SELECT id FROM texts
                 WHERE text IN ('n_failed', 'completion_tokens', 'generation_cost_usd'))
BEGIN DELETE FROM board WHERE run = old.run; END;
CREATE TRIGGER board_named_metrics_delete AFTER DELETE ON latest_metrics
WHEN old.key IN (SELECT id FROM texts
                 WHERE text IN ('n_failed', 'completion_tokens', 'generation_cost_usd'))
BEGIN DELETE FROM board WHERE run = old.run; END;
";

/// One more of these metrics. (Version 10 is [`mirror::TABLES`].)
const V11: &str = "
CREATE TRIGGER board_thinking_update AFTER UPDATE ON latest_metrics
WHEN old.key = (SELECT id FROM texts WHERE text = 'thinking_tokens')
BEGIN DELETE FROM board WHERE run = old.run; END;
CREATE TRIGGER board_thinking_delete AFTER DELETE ON latest_metrics
WHEN old.key = (SELECT id FROM texts WHERE text = 'thinking_tokens')
BEGIN DELETE FROM board WHERE run = old.run; END;
";

#[cfg(test)]
mod tests {
    use assize_domain::run::{metric, param, tag};

    use super::*;
    use crate::sqlite;

    #[test]
    fn known_texts_have_the_numbers_that_readers_expect() {
        let dir = tempfile::tempdir().unwrap();
        let conn = sqlite::open(&dir.path().join("assize.db"), &LAYOUT).unwrap();
        let text = |number: i64| -> String {
            let sql = "SELECT text FROM texts WHERE id = ?1";
            conn.query_row(sql, [number], |row| row.get(0)).unwrap()
        };
        let expected = [
            (known::TRUE, "true"),
            (known::FALSE, "false"),
            (known::MODEL, param::MODEL),
            (known::MODEL + 1, param::PROMPT),
            (known::SCENARIO, param::SCENARIO),
            (known::SPLIT, param::SPLIT),
            (known::SET_ASIDE, tag::SET_ASIDE),
            (known::JUDGE_PENDING, tag::JUDGE_PENDING),
            (known::AUTO_PENDING, tag::AUTO_PENDING),
            (known::JUDGE_KIND, tag::JUDGE_KIND),
            (known::RUBRIC, tag::RUBRIC),
            (known::RUBRIC_SHA256, tag::RUBRIC_SHA256),
            (known::SETTINGS, tag::SETTINGS),
            (known::CELL_KEY, tag::CELL_KEY),
            (known::N_CANDIDATES, metric::N_CANDIDATES),
            (known::N_CANDIDATES + 1, metric::LATENCY_MS),
            (known::TOKENS_PER_S, metric::TOKENS_PER_S),
            (known::ARTIFACT_CONTEXT, artifact::CONTEXT),
            (known::ARTIFACT_CANDIDATES, artifact::CANDIDATES),
            (known::LAST, ""),
        ];
        for (number, name) in expected {
            assert_eq!(text(number), name);
        }
    }

    #[test]
    fn scripts_and_readers_mean_the_same_numbers() {
        assert!(V1.contains(&format!("WHERE key < {};", known::AWAITED_END)));
        let between = |first: i64, last: i64| format!("old.key BETWEEN {first} AND {last}");
        for keys in [
            between(known::MODEL, known::SPLIT),
            between(known::RUBRIC, known::SETTINGS),
            between(known::N_CANDIDATES, known::TOKENS_PER_S),
            format!("old.path > {} AND", known::LAST),
        ] {
            assert_eq!(V7.matches(&keys).count(), 2, "{keys}");
        }
    }

    #[test]
    fn a_file_that_has_board_rows_gets_their_triggers() {
        const BEFORE: Layout = Layout {
            migrations: &[V1, V2, V3, V4, V5, V6],
            ..LAYOUT
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("assize.db");
        let conn = sqlite::open(&path, &BEFORE).unwrap();
        conn.execute_batch(
            "INSERT INTO runs (id, run_id, experiment, name, status, start_time)
             VALUES (1, x'01', 0, 'a', 3, 1);
             INSERT INTO texts (id, text) VALUES (100, 'verdicts/s.json'), (101, 'other.json');
             INSERT INTO params VALUES (1, 10, 1), (1, 200, 1);
             INSERT INTO tags VALUES (1, 20, 1), (1, 23, 1);
             INSERT INTO latest_metrics VALUES (1, 32, 1.5, 0, 1, 0), (1, 33, 1.5, 0, 1, 0);
             INSERT INTO artifacts VALUES (1, 41, 1), (1, 100, 1), (1, 101, 1);
             INSERT INTO board VALUES (1, 0, x'00');",
        )
        .unwrap();
        drop(conn);
        let conn = sqlite::open(&path, &LAYOUT).unwrap();
        let rows = || -> i64 {
            let sql = "SELECT count(*) FROM board";
            conn.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(rows(), 1);
        for unrelated in [
            "UPDATE runs SET name = 'b', status = 3, lifecycle_stage = 'deleted'",
            "UPDATE params SET value = 2 WHERE key = 200",
            "UPDATE tags SET value = 2 WHERE key = 20",
            "UPDATE latest_metrics SET value = 2 WHERE key = 33",
            "UPDATE artifacts SET blob = 2 WHERE path <> 100",
            "DELETE FROM artifacts WHERE path <> 100",
        ] {
            conn.execute_batch(unrelated).unwrap();
            assert_eq!(rows(), 1, "{unrelated}");
        }
        for related in [
            "UPDATE runs SET status = 4",
            "UPDATE params SET value = 2 WHERE key = 10",
            "UPDATE tags SET value = 2 WHERE key = 23",
            "UPDATE latest_metrics SET is_nan = 1 WHERE key = 32",
            "UPDATE artifacts SET blob = 2 WHERE path = 100",
            "DELETE FROM params WHERE key = 10",
            "DELETE FROM tags WHERE key = 23",
            "DELETE FROM latest_metrics WHERE key = 32",
            "DELETE FROM artifacts WHERE path = 100",
            "DELETE FROM runs",
        ] {
            conn.execute_batch(related).unwrap();
            assert_eq!(rows(), 0, "{related}");
            conn.execute_batch("INSERT INTO board VALUES (1, 0, x'00')")
                .unwrap();
        }
    }

    #[test]
    fn a_file_of_the_first_version_gets_the_registry_and_keeps_what_it_holds() {
        const FIRST: Layout = Layout {
            migrations: &[V1],
            ..LAYOUT
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("assize.db");
        let conn = sqlite::open(&path, &FIRST).unwrap();
        conn.execute("INSERT INTO texts (text) VALUES ('kept')", [])
            .unwrap();
        drop(conn);
        let conn = sqlite::open(&path, &LAYOUT).unwrap();
        let count = |sql: &str| -> i64 { conn.query_row(sql, [], |row| row.get(0)).unwrap() };
        assert_eq!(count("SELECT count(*) FROM texts WHERE text = 'kept'"), 1);
        assert_eq!(count("SELECT count(*) FROM promotions"), 0);
    }
}
