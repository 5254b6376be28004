//! What needs the inside of the store: a full disk, too many writes, and the write-ahead log.

use std::path::Path;
use std::sync::mpsc::channel;

use assize_domain::error_kind::ErrorKind;
use serde_json::value::RawValue;

use super::*;

fn decision(id: DecisionId, text: &str) -> Decision {
    Decision {
        id,
        at_ms: 0,
        user: "ada".to_owned(),
        policy: "p".to_owned(),
        policy_version: String::new(),
        feature_version: 1,
        chosen: 0,
        features: vec![1.0],
        record: DecisionRecord {
            context: RawValue::from_string(format!("\"{text}\"")).unwrap(),
            profile: None,
            seed: None,
            candidates: vec![CandidateRecord {
                id: "t".to_owned(),
                arm: None,
                task_match: None,
                features: None,
                source: None,
                other: None,
                score: 0.0,
                propensity: 1.0,
            }],
        },
    }
}

fn open(dir: &Path) -> PolicyStore {
    PolicyStore::open(&dir.join("policies.db"), Durability::Normal).unwrap()
}

fn decide(store: &PolicyStore, text: &str) -> Result<DecisionId> {
    let id = store.decision_id(0, 0);
    wait(|done| store.decision_record(decision(id, text), done)).map(|()| id)
}

fn reward(store: &PolicyStore, decision: DecisionId, bytes: usize) -> Result<RewardAnswer<()>> {
    let reward = Reward {
        decision,
        policy: None,
        value: 1.0,
        at_ms: 0,
        all_arms: false,
    };
    let model = Model {
        dimension: 1,
        updates: 1,
        bytes: vec![7; bytes],
    };
    wait(|done| store.reward_apply(reward, move |_| Ok(Updated::one(model, ())), done))
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = decide(&store, "first").unwrap();
    let limit_pages = |limit: u32| {
        let sql = format!("PRAGMA max_page_count = {limit}");
        let writer = &store.writing.writer;
        let set = writer.write(move |session| Ok(session.conn.query_row(&sql, [], |_| Ok(()))?));
        set.unwrap();
    };
    // SQLite raises a limit that is below the file's current size to that size.
    limit_pages(1);
    let full = decide(&store, &"x".repeat(1 << 20))
        .unwrap_err()
        .to_string();
    assert!(full.contains("the disk is full"), "{full}");
    assert!(full.contains("policies.db"), "{full}");
    let full = reward(&store, id, 1 << 20).unwrap_err().to_string();
    assert!(full.contains("the disk is full"), "{full}");
    assert_eq!(store.file().policy_tally("p").unwrap().tally.decisions, 1);
    assert_eq!(store.file().policy_tally("p").unwrap().tally.rewards, 0);
    assert_eq!(store.file().model_list("ada", "p").unwrap(), []);

    limit_pages(1_000_000);
    assert_eq!(
        reward(&store, id, 1 << 20).unwrap(),
        RewardAnswer::Applied(())
    );
    assert_eq!(reward(&store, id, 1 << 20).unwrap(), RewardAnswer::Repeated);
    assert_eq!(store.file().log_position().unwrap(), 1);
}

#[test]
fn writes_beyond_the_limit_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (release, released) = channel::<()>();
    store
        .writing
        .writer
        .between(move |_| released.recv().unwrap());
    for _ in 0..MOST_WAITING {
        let id = store.decision_id(0, 0);
        store.decision_record(decision(id, ""), |outcome| outcome.unwrap());
    }
    assert_eq!(store.writes_waiting(), MOST_WAITING);
    let error = decide(&store, "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    release.send(()).unwrap();
    // This one is refused too until a part of the others is written.
    while decide(&store, "").is_err() {
        std::thread::yield_now();
    }
    while store.writes_waiting() > 0 {
        std::thread::yield_now();
    }
    let decisions = store.file().policy_tally("p").unwrap().tally.decisions;
    assert_eq!(decisions, MOST_WAITING as u64 + 1);
}

#[test]
fn the_durability_reaches_the_database() {
    for (durability, level) in [(Durability::Normal, 1), (Durability::Full, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let store = PolicyStore::open(&dir.path().join("policies.db"), durability).unwrap();
        let read = store.writing.writer.write(|session| {
            let sql = "PRAGMA synchronous";
            Ok(session
                .conn
                .query_row(sql, [], |row| row.get::<_, i64>(0))?)
        });
        assert_eq!(read.unwrap(), level);
    }
}
