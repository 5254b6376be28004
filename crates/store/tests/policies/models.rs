//! Models from replays, and where policies start.

use assize_store::policies::{
    Model, ModelWrite, PolicyFile, PolicyStart, PolicyStore, Prior, wait,
};

use crate::common::{NOW_MS, decide, model_b, models, open, reward};

fn model(text: &str) -> Model {
    Model {
        dimension: 12,
        updates: 3,
        bytes: text.as_bytes().to_vec(),
    }
}

fn write(store: &PolicyStore, position: i64, reset_position: i64, text: &str) -> u64 {
    let write = ModelWrite {
        user: "ada".to_owned(),
        policy: "q".to_owned(),
        arm: "b".to_owned(),
        position,
        reset_position,
        model: model(text),
    };
    wait(|done| store.model_write(vec![write], Some(("q".to_owned(), position)), done)).unwrap()
}

fn start(policy: &str, position: i64) -> PolicyStart {
    PolicyStart {
        policy: policy.to_owned(),
        at_ms: NOW_MS,
        position,
        replayed: 0,
        priors: ["", "b"]
            .map(|arm| Prior {
                arm: arm.to_owned(),
                model: model("prior"),
            })
            .to_vec(),
    }
}

#[test]
fn a_start_is_stored_with_its_priors_and_how_far_it_was_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert_eq!(store.file().start_get("q").unwrap(), None);
    // Another process may start a policy, for example `assize policy promote`.
    let other = PolicyFile::open(&dir.path().join("policies.db")).unwrap();
    other.start_put(&start("q", 7)).unwrap();
    assert_eq!(store.file().start_get("q").unwrap(), Some(start("q", 7)));
    write(&store, 5, 0, "m");
    assert_eq!(store.file().start_get("q").unwrap().unwrap().replayed, 5);
    let again = PolicyStart {
        priors: Vec::new(),
        ..start("q", 9)
    };
    other.start_put(&again).unwrap();
    assert_eq!(store.file().start_get("q").unwrap(), Some(again));
}

#[test]
fn a_replayed_model_never_replaces_one_with_later_rewards() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert_eq!(write(&store, 5, 0, "five"), 1);
    assert_eq!(write(&store, 4, 0, "four"), 0);
    assert_eq!(models(&store, "ada", "q"), model_b("five"));
    assert_eq!(write(&store, 6, 0, "six"), 1);
    let read = store.file().model_list("ada", "q").unwrap();
    assert_eq!((read[0].position, read[0].model.clone()), (6, model("six")));
    assert_eq!(
        store.file().user_tally("ada", "q").unwrap()[0]
            .tally
            .decisions,
        0
    );
}

#[test]
fn a_replay_from_before_a_reset_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = decide(&store, "ada", "p");
    reward(&store, id, 1.0);
    assert_eq!(write(&store, 1, 0, "old"), 1);
    wait(|done| store.user_reset("ada", NOW_MS, done)).unwrap();
    assert_eq!(models(&store, "ada", "q"), []);
    assert_eq!(write(&store, 1, 0, "old"), 0);
    let reset_position = store.file().reset_position("ada").unwrap();
    assert_eq!(reset_position, 1);
    assert_eq!(write(&store, 1, reset_position, "new"), 1);
    assert_eq!(models(&store, "ada", "q"), model_b("new"));
}
