//! One process serves a file; others may use it at the same time.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use assize_store::StoreError;
use assize_store::policies::{Durability, LogQuery, PolicyFile, PolicyStore, RewardAnswer, wait};
use rusqlite::Connection;

use crate::common::{decide, decision, model_b, models, open, reward};

/// The variable that tells a copy of this test which file to serve.
const SERVED: &str = "ASSIZE_TEST_SERVED_FOLDER";

/// Serves the file in another process, which prints the id of every acknowledged reward.
fn serve(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "files::serving_process",
            "--ignored",
            "--nocapture",
        ])
        .env(SERVED, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "a child process: `cargo test -p assize-store --test policies files` starts it by the tests below"]
fn serving_process() {
    let Some(dir) = std::env::var_os(SERVED) else {
        return;
    };
    let store = open(Path::new(&dir));
    loop {
        let id = decide(&store, "ada", "p");
        assert!(matches!(reward(&store, id, 1.0), RewardAnswer::Applied(_)));
        println!("rewarded {id}");
    }
}

fn refused(dir: &Path) -> String {
    let path = dir.join("policies.db");
    let error = PolicyStore::open(&path, Durability::Normal).unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains(&path.display().to_string()), "{message}");
    message
}

#[test]
fn a_second_server_is_refused_until_the_first_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let message = refused(dir.path());
    assert!(
        message.contains("another process serves policies"),
        "{message}"
    );
    let id = decide(&store, "ada", "p");
    drop(store);
    assert_eq!(reward(&open(dir.path()), id, 1.0), RewardAnswer::Applied(1));
}

#[test]
fn a_killed_server_releases_the_file_and_has_lost_no_acknowledged_reward() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = serve(dir.path());
    let lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    let rewarded = lines.map_while(Result::ok).filter_map(|line| {
        let id = line.rsplit_once("rewarded ")?.1;
        id.parse().ok()
    });
    for id in rewarded {
        acknowledged.push(id);
        if acknowledged.len() == 100 {
            assert!(refused(dir.path()).contains("another process"));
            // Reading and the history work meanwhile.
            let file = PolicyFile::open(&dir.path().join("policies.db")).unwrap();
            assert!(file.policy_tally("p").unwrap().tally.rewards >= 100);
        }
        if acknowledged.len() == 300 {
            server.kill().unwrap();
        }
    }
    server.wait().unwrap();
    assert!(acknowledged.len() >= 300);
    let store = open(dir.path());
    for id in &acknowledged {
        assert_eq!(reward(&store, *id, 1.0), RewardAnswer::Repeated);
    }
    let rewards = store.file().policy_tally("p").unwrap().tally.rewards;
    assert_eq!(
        models(&store, "ada", "p"),
        model_b(&"1;".repeat(usize::try_from(rewards).unwrap()))
    );
}

#[test]
fn full_durability_is_a_setting_of_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let store = PolicyStore::open(&dir.path().join("policies.db"), Durability::Full).unwrap();
    let id = decide(&store, "ada", "p");
    assert_eq!(reward(&store, id, 1.0), RewardAnswer::Applied(1));
    assert_eq!(serde_json::to_value(Durability::Full).unwrap(), "full");
    let normal: Durability = serde_json::from_str("\"normal\"").unwrap();
    assert_eq!(normal, Durability::default());
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    decide(&store, "ada", "p");
    let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(
        files.len(),
        4,
        "the file, its lock, its log and the log's index"
    );
    for file in files {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.path().display());
    }
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(assize_store::state::State::open(dir.path()).unwrap());
    let path = dir.path().join("state.db");
    let error = PolicyStore::open(&path, Durability::Normal).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
}

#[test]
fn a_file_that_was_removed_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    decide(&store, "ada", "p");
    std::fs::remove_file(dir.path().join("policies.db")).unwrap();
    let made = decision(store.decision_id(5, 5), "ada", "p");
    let error = wait(|done| store.decision_record(made, done)).unwrap_err();
    assert!(error.to_string().contains("deleted or replaced"), "{error}");
}

#[test]
fn damage_is_reported_where_it_is_and_does_not_hide_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let damaged = decide(&store, "ada", "p");
    let broken_features = decide(&store, "ada", "p");
    let whole = decide(&store, "ada", "p");
    drop(store);
    let path = dir.path().join("policies.db");
    let conn = Connection::open(&path).unwrap();
    let number = |id: assize_store::policies::DecisionId| LogQuery::of_id(id);
    conn.execute(
        "UPDATE decision SET record = '{\"context\":' WHERE id = ?1",
        [number(damaged)],
    )
    .unwrap();
    conn.execute(
        "UPDATE decision SET features = x'00112233' WHERE id = ?1",
        [number(broken_features)],
    )
    .unwrap();
    drop(conn);
    let store = open(dir.path());
    let read = store.file().decision_get(damaged).unwrap().unwrap();
    let message = read.record().unwrap_err().to_string();
    assert!(message.contains(&damaged.to_string()), "{message}");
    let message = store
        .file()
        .decision_get(broken_features)
        .unwrap_err()
        .to_string();
    assert!(message.contains(&broken_features.to_string()), "{message}");
    assert_eq!(reward(&store, damaged, 1.0), RewardAnswer::Applied(1));
    let failed = wait(|done| {
        let reward = crate::common::reward_for(broken_features, 1.0);
        store.reward_apply(reward, crate::common::learn, done);
    });
    assert!(failed.unwrap_err().to_string().contains("features"));
    assert_eq!(reward(&store, whole, 1.0), RewardAnswer::Applied(2));
}
