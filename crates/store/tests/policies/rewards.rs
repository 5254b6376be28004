//! Rewards are recorded once, together with the model that learned from them.

use std::sync::Barrier;
use std::sync::mpsc::channel;

use assize_domain::error_kind::ErrorKind;
use assize_store::StoreError;
use assize_store::policies::{DecisionId, Model, ModelWrite, Reward, RewardAnswer, Updated, wait};

use crate::common::{NOW_MS, decide, decision, learn, model_b, models, open, reward, reward_for};

#[test]
fn a_reward_is_applied_once_and_every_other_one_gets_a_clear_answer() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = decide(&store, "ada", "linucb");
    assert_eq!(reward(&store, id, 0.75), RewardAnswer::Applied(1));
    assert_eq!(reward(&store, id, 0.75), RewardAnswer::Repeated);
    let recorded = 0.75;
    assert_eq!(reward(&store, id, 0.5), RewardAnswer::Conflict { recorded });
    let unknown = DecisionId::new(NOW_MS, 5);
    assert_eq!(reward(&store, unknown, 0.75), RewardAnswer::Unknown);
    assert_eq!(models(&store, "ada", "linucb"), model_b("0.75;"));
    drop(store);

    let store = open(dir.path());
    assert_eq!(reward(&store, id, 0.75), RewardAnswer::Repeated);
    let second = decide(&store, "ada", "linucb");
    assert_eq!(reward(&store, second, 0.25), RewardAnswer::Applied(2));
    assert_eq!(models(&store, "ada", "linucb"), model_b("0.75;0.25;"));
}

#[test]
fn a_reward_for_another_policy_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = decide(&store, "ada", "linucb");
    let for_policy = |policy: &str| Reward {
        policy: Some(policy.to_owned()),
        ..reward_for(id, 1.0)
    };
    let policy = "linucb".to_owned();
    let answer = wait(|done| store.reward_apply(for_policy("egreedy-v1"), learn, done)).unwrap();
    assert_eq!(answer, RewardAnswer::OtherPolicy { policy });
    assert_eq!(models(&store, "ada", "linucb"), []);
    let answer = wait(|done| store.reward_apply(for_policy("linucb"), learn, done)).unwrap();
    assert_eq!(answer, RewardAnswer::Applied(1));
}

#[test]
fn of_many_equal_rewards_at_once_exactly_one_is_applied() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for round in 0..20 {
        let user = format!("user {round}");
        let id = decide(&store, &user, "linucb");
        let start = Barrier::new(8);
        let answers: Vec<_> = std::thread::scope(|scope| {
            let send = || {
                start.wait();
                reward(&store, id, 0.5)
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let is_applied = |it: &&RewardAnswer<i64>| matches!(it, RewardAnswer::Applied(_));
        assert_eq!(answers.iter().filter(is_applied).count(), 1);
        let repeated = answers.iter().filter(|it| **it == RewardAnswer::Repeated);
        assert_eq!(repeated.count(), 7);
        assert_eq!(models(&store, &user, "linucb"), model_b("0.5;"));
    }
    assert_eq!(store.file().log_position().unwrap(), 20);
}

/// The first reward is not committed yet when the others of its group are answered.
#[test]
fn rewards_in_one_group_are_applied_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (first, second) = (decide(&store, "ada", "p"), decide(&store, "ada", "p"));
    let (release, released) = channel::<()>();
    let (answers, answered) = channel();
    let hold = move |update: assize_store::policies::Update<'_>| {
        released.recv().unwrap();
        learn(update)
    };
    let send = |name: &'static str| {
        let answers = answers.clone();
        move |outcome| answers.send((name, outcome)).unwrap()
    };
    store.reward_apply(reward_for(first, 1.0), hold, move |outcome| {
        assert_eq!(outcome.unwrap(), RewardAnswer::Applied(1));
    });
    store.reward_apply(reward_for(first, 1.0), learn, send("again"));
    store.reward_apply(reward_for(second, 0.5), learn, send("second"));
    store.reward_apply(reward_for(first, 0.0), learn, send("other"));
    release.send(()).unwrap();
    let next = || {
        let (name, outcome) = answered.recv().unwrap();
        (name, outcome.unwrap())
    };
    assert_eq!(next(), ("again", RewardAnswer::Repeated));
    assert_eq!(next(), ("second", RewardAnswer::Applied(2)));
    let recorded = 1.0;
    assert_eq!(next(), ("other", RewardAnswer::Conflict { recorded }));
    assert_eq!(models(&store, "ada", "p"), model_b("1;0.5;"));
}

#[test]
fn a_model_that_cannot_be_updated_leaves_the_reward_unrecorded() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = decide(&store, "ada", "linucb");
    let refused = wait::<RewardAnswer<()>>(|done| {
        let refuse = |_: assize_store::policies::Update<'_>| {
            Err(StoreError::Unreadable {
                what: "the model of ada".to_owned(),
                reason: "its matrix is not positive definite".to_owned(),
            })
        };
        store.reward_apply(reward_for(id, 1.0), refuse, done);
    });
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("not positive definite"), "{message}");
    let failed = wait::<RewardAnswer<()>>(|done| {
        let fail = |_: assize_store::policies::Update<'_>| panic!("expected by this test");
        store.reward_apply(reward_for(id, 1.0), fail, done);
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(store.file().log_position().unwrap(), 0);
    assert_eq!(reward(&store, id, 1.0), RewardAnswer::Applied(1));
}

#[test]
fn a_panic_of_the_acknowledged_caller_does_not_end_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = decide(&store, "ada", "linucb");
    store.reward_apply(reward_for(id, 1.0), learn, |_| {
        panic!("expected by this test")
    });
    assert_eq!(reward(&store, id, 1.0), RewardAnswer::Repeated);
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = decide(&store, "ada", "linucb");
    for value in [f64::NAN, f64::INFINITY] {
        let outcome = wait(|done| store.reward_apply(reward_for(id, value), learn, done));
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let record = |change: fn(&mut assize_store::policies::Decision)| {
        let mut decision = decision(store.decision_id(NOW_MS, 1), "ada", "linucb");
        change(&mut decision);
        wait(|done| store.decision_record(decision, done)).unwrap_err()
    };
    let errors = [
        record(|it| it.features[0] = f64::NAN),
        record(|it| it.record.candidates[0].score = f64::INFINITY),
        record(|it| it.record.candidates[1].propensity = 0.0),
        record(|it| it.chosen = 2),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let twice = wait(|done| store.decision_record(decision(id, "bob", "linucb"), done));
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(
        store.file().policy_tally("linucb").unwrap().tally.decisions,
        1
    );
}

/// With forgetting, a reward changes the models of all arms, in the same transaction.
#[test]
fn a_reward_may_change_the_models_of_other_arms() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = decide(&store, "ada", "p");
    let model = |text: &str| Model {
        dimension: 1,
        updates: 1,
        bytes: text.as_bytes().to_vec(),
    };
    let other = ModelWrite {
        user: "ada".to_owned(),
        policy: "p".to_owned(),
        arm: "c".to_owned(),
        position: 0,
        reset_position: 0,
        model: model("before"),
    };
    assert_eq!(
        wait(|done| store.model_write(vec![other], None, done)).unwrap(),
        1
    );
    let all = Reward {
        all_arms: true,
        ..reward_for(id, 1.0)
    };
    let forget = move |update: assize_store::policies::Update<'_>| {
        assert_eq!(update.others.len(), 1);
        assert_eq!(update.others[0].model, model("before"));
        Ok(Updated {
            others: vec![("c".to_owned(), model("after"))],
            ..Updated::one(model("own"), ())
        })
    };
    let answer = wait(|done| store.reward_apply(all, forget, done)).unwrap();
    assert_eq!(answer, RewardAnswer::Applied(()));
    let texts = [("b", "own"), ("c", "after")];
    let texts = texts.map(|(arm, text)| (arm.to_owned(), text.to_owned()));
    assert_eq!(models(&store, "ada", "p"), texts);
}
