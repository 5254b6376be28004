//! The tables of the policies' file.

use crate::sqlite::Layout;

pub(super) const LAYOUT: Layout = Layout {
    application_id: 0x4173_7a70,
    what: "the policies' file of Assize",
    migrations: &[V1],
};

/// `decision` and `reward` are the log: rows are added, and removed only with their user. A
/// reward's position is its place in the order of rewards, which never changes; a decision may be
/// rewarded long after later ones.
///
/// `arm` holds what belongs to (user, policy, arm): counts, and the model as opaque bytes. Both
/// change together, so they share a row. Models are too large for a table without row ids, whose
/// inner pages would hold a handful of rows each. `position` is the last reward that the model
/// includes.
///
/// `policy_hour`, `policy_users`, `source_tally` and `shadow_tally` are sums over the log, kept up
/// to date in the transactions that change the log.
///
/// `position_floor` keeps the position of the last reward if that was removed, so that no position
/// is used twice.
const V1: &str = "
CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    user TEXT NOT NULL,
    policy TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    feature_version INTEGER NOT NULL,
    arm TEXT NOT NULL,
    chosen INTEGER NOT NULL,
    propensity REAL NOT NULL,
    features BLOB NOT NULL,
    source TEXT,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX decision_user ON decision (user);
CREATE TABLE reward (
    position INTEGER PRIMARY KEY,
    decision INTEGER NOT NULL UNIQUE,
    policy TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    value REAL NOT NULL
) STRICT;
CREATE TABLE position_floor (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    position INTEGER NOT NULL
) STRICT;
INSERT INTO position_floor VALUES (1, 0);
CREATE TABLE arm (
    id INTEGER PRIMARY KEY,
    user TEXT NOT NULL,
    policy TEXT NOT NULL,
    arm TEXT NOT NULL,
    decisions INTEGER NOT NULL DEFAULT 0,
    rewards INTEGER NOT NULL DEFAULT 0,
    reward_sum REAL NOT NULL DEFAULT 0,
    reward_squares REAL NOT NULL DEFAULT 0,
    position INTEGER NOT NULL DEFAULT 0,
    dimension INTEGER,
    updates INTEGER,
    model BLOB,
    UNIQUE (user, policy, arm)
) STRICT;
CREATE TABLE reset (
    user TEXT PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE policy_hour (
    policy TEXT NOT NULL,
    hour INTEGER NOT NULL,
    decisions INTEGER NOT NULL DEFAULT 0,
    rewards INTEGER NOT NULL DEFAULT 0,
    reward_sum REAL NOT NULL DEFAULT 0,
    reward_squares REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (policy, hour)
) STRICT, WITHOUT ROWID;
CREATE TABLE policy_users (
    policy TEXT PRIMARY KEY,
    users INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE source_tally (
    source TEXT PRIMARY KEY,
    decisions INTEGER NOT NULL DEFAULT 0,
    rewards INTEGER NOT NULL DEFAULT 0,
    reward_sum REAL NOT NULL DEFAULT 0,
    reward_squares REAL NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE shadow_signal (
    decision INTEGER NOT NULL,
    shadow TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    chosen INTEGER NOT NULL,
    agreed INTEGER NOT NULL,
    propensity REAL NOT NULL,
    score REAL NOT NULL,
    trained INTEGER NOT NULL,
    PRIMARY KEY (decision, shadow)
) STRICT, WITHOUT ROWID;
CREATE TABLE shadow_tally (
    shadow TEXT PRIMARY KEY,
    signals INTEGER NOT NULL,
    agreed INTEGER NOT NULL,
    trained INTEGER NOT NULL,
    users INTEGER NOT NULL,
    last_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE shadow_user (
    shadow TEXT NOT NULL,
    user TEXT NOT NULL,
    PRIMARY KEY (shadow, user)
) STRICT, WITHOUT ROWID;
CREATE TABLE policy_start (
    policy TEXT PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    position INTEGER NOT NULL,
    replayed INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE policy_prior (
    policy TEXT NOT NULL,
    arm TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    updates INTEGER NOT NULL,
    model BLOB NOT NULL,
    PRIMARY KEY (policy, arm)
) STRICT, WITHOUT ROWID;
CREATE TABLE policy_history (
    number INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    action TEXT NOT NULL,
    from_policy TEXT,
    to_policy TEXT,
    author TEXT NOT NULL,
    reason TEXT NOT NULL,
    evidence TEXT NOT NULL
) STRICT;
CREATE TRIGGER policy_history_follows BEFORE INSERT ON policy_history
WHEN new.number <> (SELECT coalesce(max(number), 0) + 1 FROM policy_history)
BEGIN SELECT RAISE(ABORT, 'an entry of the policy history must follow the latest one'); END;
CREATE TRIGGER policy_history_stays BEFORE UPDATE ON policy_history
BEGIN SELECT RAISE(ABORT, 'an entry of the policy history is never changed'); END;
CREATE TRIGGER policy_history_remains BEFORE DELETE ON policy_history
BEGIN SELECT RAISE(ABORT, 'an entry of the policy history is never deleted'); END;
";
