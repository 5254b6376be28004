//! Signals of shadows are written behind the answers, counted, and dropped when there are too many.

use assize_store::policies::{DecisionId, PolicyStore, ShadowSignal, ShadowTraffic};

use crate::common::{NOW_MS, decide, decide_at, open};

fn signal(decision: DecisionId, agreed: bool, trained: bool) -> ShadowSignal {
    ShadowSignal {
        decision,
        shadow: "egreedy-v2-shadow".to_owned(),
        at_ms: NOW_MS,
        chosen: u32::from(agreed),
        agreed,
        propensity: 0.25,
        score: 0.125,
        trained,
    }
}

fn tally(store: &PolicyStore) -> (u64, u64, u64, u64) {
    let tallies = store.file().shadow_tallies().unwrap();
    let of = &tallies[0];
    (of.signals, of.agreed, of.trained, of.users)
}

#[test]
fn signals_are_counted_once_and_read_with_their_decisions() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let old = decide_at(&store, "eve", "p", NOW_MS - 10);
    let first = decide(&store, "ada", "p");
    let second = decide(&store, "ada", "p");
    let third = decide(&store, "bob", "p");
    for signal in [
        signal(old, true, true),
        signal(first, true, false),
        signal(second, true, true),
        signal(third, false, true),
        signal(third, false, true),
    ] {
        assert!(store.shadow_record(signal));
    }
    store.shadow_flush();
    assert_eq!(tally(&store), (4, 3, 3, 3));
    let traffic = store
        .file()
        .shadow_traffic("egreedy-v2-shadow", NOW_MS)
        .unwrap();
    let expected = ShadowTraffic {
        signals: 2,
        agreed: 1,
        users: 2,
    };
    assert_eq!(traffic, expected, "only trained signals since then");
    let recent = store.file().shadow_recent("egreedy-v2-shadow", 2).unwrap();
    assert_eq!(
        recent,
        [signal(third, false, true), signal(second, true, true)]
    );
    let found = store.file().decision_get(first).unwrap().unwrap();
    assert_eq!(found.shadows, [signal(first, true, false)]);
}

#[test]
fn signals_are_written_when_the_store_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = decide(&store, "ada", "p");
    store.shadow_record(signal(id, true, true));
    drop(store);
    assert_eq!(tally(&open(dir.path())), (1, 1, 1, 1));
}

#[test]
fn signals_are_written_without_being_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = decide(&store, "ada", "p");
    store.shadow_record(signal(id, true, true));
    while store.file().shadow_tallies().unwrap().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(tally(&store), (1, 1, 1, 1));
    assert_eq!(store.shadow_dropped(), 0);
}
