//! Counts agree with the log and are kept by user, policy, hour and source.

use assize_store::policies::{LogQuery, Tally, TipSource, wait};

use crate::common::{
    HOUR_MS, NOW_MS, decide_at, decision, learn, open, reward, reward_for, with_source,
};

#[test]
fn counts_are_kept_by_user_policy_and_hour() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let first = decide_at(&store, "ada", "p", NOW_MS);
    decide_at(&store, "ada", "p", NOW_MS + 1);
    decide_at(&store, "bob", "p", NOW_MS + HOUR_MS);
    decide_at(&store, "bob", "q", NOW_MS);
    // The reward comes three hours after its decision.
    let late = assize_store::policies::Reward {
        at_ms: NOW_MS + 3 * HOUR_MS,
        ..reward_for(first, 0.5)
    };
    wait(|done| store.reward_apply(late, learn, done)).unwrap();

    let file = store.file();
    let ada = file.user_tally("ada", "p").unwrap();
    assert_eq!(
        (ada.len(), ada[0].arm.as_str(), ada[0].updates),
        (1, "b", 1)
    );
    let expected = Tally {
        decisions: 2,
        rewards: 1,
        reward_sum: 0.5,
        reward_squares: 0.25,
    };
    assert_eq!(ada[0].tally, expected);
    assert_eq!(expected.mean_reward(), Some(0.5));
    assert_eq!(file.user_tally("nobody", "p").unwrap(), []);
    let p = file.policy_tally("p").unwrap();
    assert_eq!((p.tally.decisions, p.tally.rewards, p.users), (3, 1, 2));
    assert_eq!(file.policy_tally("never").unwrap().tally, Tally::default());
    let names: Vec<_> = file
        .policy_tallies()
        .unwrap()
        .into_iter()
        .map(|it| it.policy)
        .collect();
    assert_eq!(names, ["p", "q"]);
    let hours = file
        .policy_hours("p", NOW_MS, NOW_MS + 3 * HOUR_MS)
        .unwrap();
    let shape: Vec<_> = hours
        .iter()
        .map(|it| {
            (
                (it.start_ms - NOW_MS) / HOUR_MS,
                it.tally.decisions,
                it.tally.rewards,
            )
        })
        .collect();
    assert_eq!(shape, [(0, 2, 0), (1, 1, 0), (3, 0, 1)]);
    assert!(hours.iter().all(|it| it.start_ms % HOUR_MS == 0));
    let one = file
        .policy_hours("p", NOW_MS + HOUR_MS, NOW_MS + HOUR_MS)
        .unwrap();
    assert_eq!(one.len(), 1);
}

#[test]
fn rewards_are_counted_for_what_generated_the_chosen_candidate() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let run = TipSource::Run("r:1".to_owned());
    let prompt = TipSource::Prompt("tip/v3".to_owned());
    for (source, value) in [(&run, 1.0), (&prompt, 0.0), (&run, 0.5)] {
        let made = decision(store.decision_id(NOW_MS, 1), "ada", "p");
        let id = made.id;
        wait(|done| store.decision_record(with_source(made, source.clone()), done)).unwrap();
        reward(&store, id, value);
    }
    let file = store.file();
    assert_eq!(file.source_tally(&run).unwrap().mean_reward(), Some(0.75));
    assert_eq!(file.source_tally(&prompt).unwrap().mean_reward(), Some(0.0));
    let unknown = TipSource::Run("r".to_owned());
    assert_eq!(file.source_tally(&unknown).unwrap(), Tally::default());
    let listed: Vec<_> = file
        .source_tallies()
        .unwrap()
        .into_iter()
        .map(|it| it.source)
        .collect();
    assert_eq!(listed, [prompt, run]);
}

#[test]
fn the_latest_rewards_of_a_policy_come_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut of_p = Vec::new();
    for number in 0..6_u32 {
        let policy = if number % 2 == 0 { "p" } else { "q" };
        let id = decide_at(&store, "ada", policy, NOW_MS);
        reward(&store, id, f64::from(number));
        if policy == "p" {
            of_p.push(id);
        }
    }
    let recent = store.file().rewards_recent("p", 2).unwrap();
    let values: Vec<_> = recent
        .iter()
        .map(|(id, it)| (*id, it.position, it.value))
        .collect();
    assert_eq!(values, [(of_p[2], 5, 4.0), (of_p[1], 3, 2.0)]);
}

#[test]
fn counts_equal_the_log_after_many_writes_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..100_u32 {
                    let user = format!("user {}", (thread * 7 + number) % 13);
                    let id = decide_at(store, &user, "p", NOW_MS + i64::from(number) * 60_000);
                    if number % 3 != 0 {
                        reward(store, id, f64::from(number % 5) / 4.0);
                    }
                }
            });
        }
    });
    let mut counted = Tally::default();
    let mut users = std::collections::BTreeSet::new();
    let visit = |it: assize_store::policies::LoggedDecision| {
        users.insert(it.user);
        counted.decisions += 1;
        if let Some(reward) = it.reward {
            counted.rewards += 1;
            counted.reward_sum += reward.value;
            counted.reward_squares += reward.value * reward.value;
        }
        Ok(true)
    };
    store.file().log_each(&LogQuery::default(), visit).unwrap();
    let kept = store.file().policy_tally("p").unwrap();
    assert_eq!((kept.tally, kept.users), (counted, users.len() as u64));
    let mut of_users = Tally::default();
    for user in &users {
        for arm in store.file().user_tally(user, "p").unwrap() {
            of_users.add(&arm.tally);
        }
    }
    assert_eq!(of_users, counted);
}
