//! The log is read in order: all decisions by id, rewarded ones by their rewards.

use assize_store::policies::{DecisionId, LogQuery, PolicyStore, TipSource, wait};

use crate::common::{NOW_MS, decide, decide_at, decision, open, raw, reward, with_source};

fn ids(store: &PolicyStore, query: &LogQuery) -> Vec<DecisionId> {
    let mut ids = Vec::new();
    let visit = |it: assize_store::policies::LoggedDecision| {
        ids.push(it.id);
        Ok(true)
    };
    store.file().log_each(query, visit).unwrap();
    let page = store.file().log_page(query, u32::MAX).unwrap();
    assert_eq!(page.iter().map(|it| it.id).collect::<Vec<_>>(), ids);
    ids
}

#[test]
fn a_decision_reads_back_as_it_was_logged() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut made = decision(store.decision_id(NOW_MS, 9), "ada", "linucb");
    made.record.profile = Some(raw(r#"{"completion_rate":0.5}"#));
    made.record.seed = Some(u64::MAX);
    made.record.candidates[0].features = Some(vec![0.1, f64::MIN_POSITIVE]);
    made.record.candidates[0].other = Some(raw(r#"{"text":"walk"}"#));
    let made = with_source(made, TipSource::Run("r1".to_owned()));
    let sent = made.clone();
    wait(|done| store.decision_record(sent, done)).unwrap();
    assert_eq!(
        store.file().decision_get(DecisionId::new(1, 1)).unwrap(),
        None
    );

    let found = store.file().decision_get(made.id).unwrap().unwrap();
    assert_eq!((found.user.as_str(), found.arm.as_str()), ("ada", "b"));
    assert_eq!((found.chosen, found.propensity), (1, 0.5));
    assert_eq!(found.features, made.features);
    assert_eq!(found.source, Some(TipSource::Run("r1".to_owned())));
    assert_eq!(found.reward, None);
    let record = found.record().unwrap();
    assert_eq!(record.context.get(), r#"{"hour": 7.5, "mood":"good"}"#);
    assert_eq!(record.profile.unwrap().get(), r#"{"completion_rate":0.5}"#);
    assert_eq!(record.seed, Some(u64::MAX));
    assert_eq!(record.candidates[0].arm(), "a");
    let features = record.candidates[0].features.as_deref();
    assert_eq!(features, Some([0.1, f64::MIN_POSITIVE].as_slice()));
    let other = record.candidates[0].other.as_ref().unwrap();
    assert_eq!(other.get(), r#"{"text":"walk"}"#);
    assert_eq!(record.candidates[1].other.as_ref().map(|it| it.get()), None);
}

#[test]
fn the_log_is_read_by_user_by_policy_and_by_rewards() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let a1 = decide(&store, "ada", "p");
    let b1 = decide(&store, "bob", "p");
    let a2 = decide(&store, "ada", "q");
    let a3 = decide(&store, "ada", "p");
    for (id, value) in [(a3, 3.0), (b1, 1.0), (a1, 2.0)] {
        reward(&store, id, value);
    }
    let all = LogQuery::default();
    assert_eq!(ids(&store, &all), [a1, b1, a2, a3]);
    let of = |user: Option<&str>, policy: Option<&str>, rewarded| LogQuery {
        user: user.map(ToOwned::to_owned),
        policy: policy.map(ToOwned::to_owned),
        rewarded,
        ..LogQuery::default()
    };
    assert_eq!(ids(&store, &of(None, Some("p"), false)), [a1, b1, a3]);
    assert_eq!(ids(&store, &of(Some("ada"), None, false)), [a1, a2, a3]);
    assert_eq!(ids(&store, &of(Some("ada"), Some("p"), false)), [a1, a3]);
    assert_eq!(ids(&store, &of(None, None, true)), [a3, b1, a1]);
    assert_eq!(ids(&store, &of(None, Some("q"), true)), []);
    assert_eq!(ids(&store, &of(Some("ada"), Some("p"), true)), [a3, a1]);
    let part = |rewarded, after, until| LogQuery {
        rewarded,
        after,
        until: Some(until),
        ..LogQuery::default()
    };
    assert_eq!(ids(&store, &part(true, 1, 2)), [b1]);
    let range = part(false, LogQuery::of_id(a1), LogQuery::of_id(a2));
    assert_eq!(ids(&store, &range), [b1, a2]);
    let mut visited = 0;
    let stop = |_| {
        visited += 1;
        Ok(visited < 2)
    };
    store.file().log_each(&all, stop).unwrap();
    assert_eq!(visited, 2);
}

#[test]
fn long_logs_and_large_records_are_read_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut made = Vec::new();
    for number in 0..700 {
        let id = store.decision_id(NOW_MS, 1);
        let mut decision = decision(id, "ada", "p");
        if number % 100 == 0 {
            decision.record.context = raw(&format!("\"{}\"", "x".repeat(2 << 20)));
        }
        let (last, sent) = (number == 699, decision);
        if last {
            wait(|done| store.decision_record(sent, done)).unwrap();
        } else {
            store.decision_record(sent, |outcome| outcome.unwrap());
        }
        made.push(id);
    }
    for query in [None, Some("ada".to_owned())] {
        let query = LogQuery {
            user: query,
            ..LogQuery::default()
        };
        let mut seen = Vec::new();
        let visit = |it: assize_store::policies::LoggedDecision| {
            seen.push(it.id);
            Ok(true)
        };
        store.file().log_each(&query, visit).unwrap();
        assert_eq!(seen, made);
        let page = store.file().log_page(&query, 700).unwrap();
        assert!(page.len() < 700, "a page is limited in bytes");
    }
}

#[test]
fn a_sample_depends_on_the_seed_only() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let old = decide_at(&store, "ada", "p", NOW_MS - 10);
    let new: Vec<_> = (0..40)
        .map(|n| decide(&store, &format!("user {}", n % 7), "p"))
        .collect();
    let sample = |size, seed| -> Vec<DecisionId> {
        let sample = store.file().decision_sample(size, seed, NOW_MS).unwrap();
        sample.into_iter().map(|it| it.id).collect()
    };
    assert_eq!(sample(100, 1), new);
    let ten = sample(10, 1);
    assert_eq!(ten.len(), 10);
    assert!(ten.is_sorted() && !ten.contains(&old));
    assert_eq!(sample(10, 1), ten);
    assert_ne!(sample(10, 2), ten);
    assert_eq!(sample(0, 1), []);
    // Every decision is chosen by some seed.
    let chosen: std::collections::BTreeSet<_> = (0..60).flat_map(|seed| sample(10, seed)).collect();
    assert_eq!(chosen.len(), 40);
}

#[test]
fn ids_are_new_and_grow_even_if_the_clock_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let first = decide(&store, "ada", "p");
    let ids: Vec<_> = (0..100)
        .map(|n| store.decision_id(NOW_MS - n * 1000, 5))
        .collect();
    assert!(ids[0] > first);
    assert!(ids.is_sorted_by(|a, b| a < b));
    drop(store);
    let store = open(dir.path());
    assert!(store.decision_id(0, 0) > first);
}
