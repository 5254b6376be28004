//! Users are reset and deleted.

use std::path::Path;

use assize_store::policies::{
    Deleted, LogQuery, Model, ModelWrite, PolicyStore, RewardAnswer, ShadowSignal, TipSource, wait,
};

use crate::common::{
    HOUR_MS, NOW_MS, decide, decide_at, decision, model_b, models, open, reward, with_source,
};

fn reset(store: &PolicyStore, user: &str) -> u64 {
    wait(|done| store.user_reset(user, NOW_MS, done)).unwrap()
}

fn delete(store: &PolicyStore, user: &str) -> Deleted {
    wait(|done| store.user_delete(user, done)).unwrap()
}

#[test]
fn a_reset_clears_the_models_of_every_policy_and_keeps_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for (user, policy) in [("ada", "p"), ("ada", "q"), ("bob", "p")] {
        let id = decide(&store, user, policy);
        reward(&store, id, 1.0);
    }
    let open_decision = decide(&store, "ada", "p");
    assert_eq!(reset(&store, "ada"), 2);
    assert_eq!(models(&store, "ada", "p"), []);
    assert_eq!(models(&store, "ada", "q"), []);
    assert_eq!(models(&store, "bob", "p"), model_b("1;"));
    assert_eq!(store.file().reset_position("ada").unwrap(), 3);
    assert_eq!(store.file().reset_position("bob").unwrap(), 0);
    assert_eq!(
        store.file().user_tally("ada", "p").unwrap()[0]
            .tally
            .decisions,
        2
    );

    // A decision from before the reset is rewarded to a model that starts anew.
    assert_eq!(reward(&store, open_decision, 0.5), RewardAnswer::Applied(4));
    assert_eq!(models(&store, "ada", "p"), model_b("0.5;"));
    let query = LogQuery {
        rewarded: true,
        ..LogQuery::default()
    };
    let log = store.file().log_page(&query, 10).unwrap();
    let before_reset: Vec<_> = log.iter().map(|it| it.is_before_reset).collect();
    assert_eq!(before_reset, [true, true, false, false]);
    assert_eq!(reset(&store, "nobody"), 0);
    assert_eq!(store.file().reset_position("nobody").unwrap(), 0);
}

/// Everything about two users, one of whom is deleted.
fn fill(store: &PolicyStore) {
    let mut sum = 0.1;
    for (number, user) in ["grete-hermann", "bob", "grete-hermann", "bob"]
        .into_iter()
        .enumerate()
    {
        let at_ms = NOW_MS + i64::try_from(number).unwrap() * HOUR_MS / 2;
        let mut made = decision(store.decision_id(at_ms, 3), user, "p");
        made.at_ms = at_ms;
        let id = made.id;
        let source = TipSource::Prompt(format!("tip/{}", number % 3));
        wait(|done| store.decision_record(with_source(made, source), done)).unwrap();
        sum += 0.1;
        assert!(matches!(reward(store, id, sum), RewardAnswer::Applied(_)));
        assert!(store.shadow_record(ShadowSignal {
            decision: id,
            shadow: "egreedy-v2-shadow".to_owned(),
            at_ms,
            chosen: 0,
            agreed: number == 0,
            propensity: 0.5,
            score: 0.1,
            trained: true,
        }));
    }
    decide_at(store, "grete-hermann", "q", NOW_MS);
    wait(|done| {
        let write = ModelWrite {
            user: "grete-hermann".to_owned(),
            policy: "egreedy-v2-shadow".to_owned(),
            arm: String::new(),
            position: 3,
            reset_position: 0,
            model: Model {
                dimension: 12,
                updates: 1,
                bytes: vec![7; 700],
            },
        };
        store.model_write(vec![write], None, done);
    })
    .unwrap();
    store.shadow_flush();
}

#[test]
fn a_deleted_user_is_gone_from_the_log_the_models_and_all_counts() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store);
    let last = store.file().log_position().unwrap();
    let last_of_bob = decide(&store, "bob", "p");
    let deleted = delete(&store, "grete-hermann");
    assert_eq!(
        (deleted.decisions, deleted.rewards, deleted.models),
        (3, 2, 2)
    );
    let file = store.file();
    let log = file.log_page(&LogQuery::default(), 10).unwrap();
    assert_eq!(log.len(), 3);
    assert!(log.iter().all(|it| it.user == "bob"));
    let tallies = file.policy_tallies().unwrap();
    assert_eq!(tallies.len(), 1, "no policy without decisions: {tallies:?}");
    let tally = &tallies[0];
    assert_eq!(
        (tally.tally.decisions, tally.tally.rewards, tally.users),
        (3, 2, 1)
    );
    assert!((tally.tally.reward_sum - 0.8).abs() < 1e-12);
    let bob = &file.user_tally("bob", "p").unwrap()[0].tally;
    assert!((tally.tally.reward_squares - bob.reward_squares).abs() < 1e-12);
    assert_eq!(file.user_tally("grete-hermann", "p").unwrap(), []);
    let sources = file.source_tallies().unwrap();
    let of_sources: Vec<_> = sources.iter().map(|it| it.tally.rewards).collect();
    assert_eq!(of_sources, [1, 1]);
    let shadow = &file.shadow_tallies().unwrap()[0];
    assert_eq!((shadow.signals, shadow.agreed, shadow.users), (2, 0, 1));

    // The positions of deleted rewards are not used again, even after a restart.
    assert_eq!(file.log_position().unwrap(), last);
    delete(&store, "bob");
    assert_eq!(reward(&store, last_of_bob, 1.0), RewardAnswer::Unknown);
    assert_eq!(store.file().policy_tallies().unwrap(), []);
    drop(store);
    let store = open(dir.path());
    let id = decide(&store, "eve", "p");
    assert_eq!(reward(&store, id, 1.0), RewardAnswer::Applied(last + 1));
    assert_eq!(delete(&store, "nobody").decisions, 0);
}

#[test]
fn signals_of_a_deleted_user_are_not_written_later() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = decide(&store, "ada", "p");
    delete(&store, "ada");
    assert!(store.shadow_record(ShadowSignal {
        decision: id,
        shadow: "s".to_owned(),
        at_ms: NOW_MS,
        chosen: 0,
        agreed: true,
        propensity: 0.5,
        score: 0.1,
        trained: true,
    }));
    store.shadow_flush();
    assert_eq!(store.file().shadow_tallies().unwrap(), []);
}

#[test]
fn nothing_of_a_deleted_user_remains_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store);
    reset(&store, "grete-hermann");
    delete(&store, "grete-hermann");
    drop(store);
    let contains = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(13).any(|it| it == b"grete-hermann")
    };
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        assert!(!contains(&path), "{}", path.display());
    }
}
