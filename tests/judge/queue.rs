//! The queue: whole scenarios go to one judge, every case is scored as often as asked, leases expire.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::sittings::{LEASE_MS, at, clear, open, scored, sit, store_of, submission};
use assize_domain::judge::Tier;
use assize_domain::sitting::SittingState;
use assize_domain::submission::Submission;
use assize_pipeline::PipelineError;
use assize_pipeline::judge::queue::{Queue, SitOptions};
use assize_store::{RunQuery, Tracking};
use assize_test_support::Scratch;
use serde_json::json;

/// How often each (run, candidate) of the experiment was judged.
fn verdict_counts(store: &dyn Tracking) -> BTreeMap<(String, u32), usize> {
    let mut counts = BTreeMap::new();
    let runs = store
        .run_list("e", &RunQuery::default())
        .expect("runs")
        .runs;
    for run in runs {
        for file in store.verdicts_get(&run.run_id).expect("verdicts") {
            for verdict in file.verdicts {
                *counts
                    .entry((run.run_id.clone(), verdict.candidate))
                    .or_insert(0) += 1;
            }
        }
    }
    counts
}

fn problems(error: PipelineError) -> Vec<String> {
    let PipelineError::JudgeFile { problems, .. } = error else {
        return vec![error.to_string()];
    };
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_sitting_takes_cases_hands_verdicts_in_and_ends() {
    let scratch = Scratch::collected(2, 2);
    let store = store_of(&scratch);
    let mut queue = open(&store, sit("ann"), &at(0));
    assert_eq!(queue.progress().left, 24);
    let first = queue.next(5, &at(1)).expect("cases");
    assert_eq!(first.len(), 5);
    assert_eq!(queue.next(5, &at(2)).expect("cases"), first, "asked again");
    let progress = queue.progress();
    assert_eq!(
        (progress.done, progress.held, progress.left),
        (0, 12, 12),
        "a whole scenario is held"
    );
    let verdicts: Vec<Submission> = first.iter().map(|case| scored(case, 4)).collect();
    let accepted = queue.submit(&verdicts, &at(3)).expect("accepted");
    assert_eq!((accepted.scored, accepted.unchanged), (5, 0));
    let again = queue.submit(&verdicts, &at(4)).expect("accepted");
    assert_eq!((again.scored, again.unchanged), (0, 5), "idempotent");
    assert_eq!(verdict_counts(store.as_ref()).len(), 5, "durable at once");

    let resumed_id = queue.id().to_owned();
    drop(queue);
    let mut queue =
        Queue::resume(Arc::clone(&store), &resumed_id, None, LEASE_MS, &at(5)).expect("open");
    assert_eq!((queue.progress().done, queue.progress().held), (5, 7));
    clear(&mut queue, 4, &at(6));
    let finished = queue.finish(&at(7)).expect("finished");
    assert_eq!((finished.done, finished.released), (24, 0));
    assert_eq!(finished.state, SittingState::Closed);
    let counts = store.judging_count("e").expect("counts");
    assert_eq!((counts.expert_pending, counts.expert_judged), (0, 12));
    assert_eq!(counts.auto_pending, 12, "the other tier is untouched");
    assert!(
        Queue::open(Arc::clone(&store), sit("bob"), &at(8))
            .expect("a store")
            .is_none(),
        "nothing waits any more"
    );
    let closed = Queue::resume(store, &resumed_id, None, LEASE_MS, &at(9)).expect_err("closed");
    assert!(closed.to_string().contains("is closed"), "{closed}");
}

#[test]
fn cases_are_blind() {
    let scratch = Scratch::collected(1, 2);
    let mut queue = open(&store_of(&scratch), sit("ann"), &at(0));
    let cases = queue.next(100, &at(0)).expect("cases");
    let text = serde_json::to_string(&cases).expect("JSON");
    for hidden in ["scripted", "v1", "v2-mentor", "v3-few-shot", "run_id"] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
    assert_eq!(cases[0].scores["relevance"], json!(null));
    assert_eq!(cases[0].scores["format_ok"], json!(true), "prefilled");
}

#[test]
fn invalid_submissions_are_refused_and_nothing_is_written() {
    let scratch = Scratch::collected(1, 1);
    let store = store_of(&scratch);
    let mut queue = open(&store, sit("ann"), &at(0));
    let cases = queue.next(2, &at(0)).expect("cases");
    let bad = [
        scored(&cases[0], 3),
        submission(
            &cases[1].case,
            &json!({"relevance": 9, "tone": 2.5, "format_ok": "yes"}),
        ),
        submission("nonsense", &json!({})),
    ];
    let found = problems(queue.submit(&bad, &at(1)).expect_err("refused"));
    assert_eq!(
        found,
        [
            "/1/scores/relevance is 9, but relevance runs from 1 to 5",
            "/1/scores/actionability is missing",
            "/1/scores/tone is 2.5, but scores are whole numbers",
            "/1/scores/format_ok is \"yes\", but a flag is true or false",
            "/2/case 'nonsense' is not a case that this sitting holds: take the next cases and keep their ids",
        ]
    );
    assert_eq!(verdict_counts(store.as_ref()).len(), 0);
    assert_eq!(queue.progress().done, 0);
}

#[test]
fn another_score_in_the_same_sitting_is_a_revision_with_history() {
    let scratch = Scratch::collected(1, 1);
    let store = store_of(&scratch);
    let mut queue = open(&store, sit("ann"), &at(0));
    let case = queue.next(1, &at(0)).expect("cases").remove(0);
    queue.submit(&[scored(&case, 2)], &at(1)).expect("accepted");
    let revised = queue.submit(&[scored(&case, 5)], &at(2)).expect("accepted");
    assert_eq!((revised.scored, revised.revised), (0, 1));
    assert_eq!(queue.progress().done, 1);
    let kept = verdict_counts(store.as_ref());
    assert_eq!(kept.values().collect::<Vec<_>>(), [&2], "both are kept");
    let (run_id, _) = kept.keys().next().expect("one");
    let run = store.run_get(run_id).expect("run");
    let composite = run.metrics.iter().find(|(name, _)| name == "composite");
    assert_eq!(composite.map(|it| it.1), Some(17.0), "the later one counts");
}

#[test]
fn an_expired_lease_passes_on_and_its_old_holder_is_refused() {
    let scratch = Scratch::collected(1, 2);
    let store = store_of(&scratch);
    let mut gone = open(&store, sit("ann"), &at(0));
    let cases = gone.next(100, &at(0)).expect("cases");
    gone.submit(&[scored(&cases[0], 4)], &at(1))
        .expect("accepted");

    let mut early = open(&store_of(&scratch), sit("bob"), &at(2));
    assert_eq!(early.next(100, &at(2)).expect("cases"), [], "ann holds all");
    let late = at(LEASE_MS + 10);
    let taken = early.next(100, &late).expect("cases");
    assert_eq!(taken.len(), 11, "what ann handed in is not asked again");

    let stale = [scored(&cases[1], 3), scored(&cases[2], 3)];
    let found = problems(gone.submit(&stale, &late).expect_err("stale"));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("stale: the lease ran out"), "{found:?}");
    let accepted = verdict_counts(store.as_ref());
    assert_eq!(
        accepted.len(),
        1,
        "nothing accepted is lost, nothing stale written"
    );
    let verdicts: Vec<Submission> = taken.iter().map(|case| scored(case, 3)).collect();
    early.submit(&verdicts, &late).expect("accepted");
    assert!(
        verdict_counts(store.as_ref())
            .values()
            .all(|count| *count == 1)
    );
}

#[test]
fn an_expired_lease_that_nobody_took_is_still_valid() {
    let scratch = Scratch::collected(1, 1);
    let mut queue = open(&store_of(&scratch), sit("ann"), &at(0));
    let cases = queue.next(100, &at(0)).expect("cases");
    let late = at(LEASE_MS * 9);
    queue
        .submit(&[scored(&cases[0], 4)], &late)
        .expect("nobody took it");
    let mut bob = open(&store_of(&scratch), sit("bob"), &late);
    assert_eq!(
        bob.next(1, &late).expect("cases"),
        [],
        "handing in renewed it"
    );
}

#[test]
fn the_end_of_a_sitting_frees_what_it_holds() {
    let scratch = Scratch::collected(1, 1);
    let store = store_of(&scratch);
    let mut ann = open(&store, sit("ann"), &at(0));
    let case = ann.next(1, &at(0)).expect("cases").remove(0);
    ann.submit(&[scored(&case, 4)], &at(0)).expect("accepted");
    let finished = ann.finish(&at(1)).expect("finished");
    assert_eq!((finished.done, finished.released), (1, 5));
    let mut bob = open(&store, sit("bob"), &at(2));
    assert_eq!(bob.next(100, &at(2)).expect("cases").len(), 5);
}

/// Lets these judges clear 1,008 cases at once, each over a connection of its own.
fn judge_together(judges: &[SitOptions]) -> (Scratch, BTreeMap<(String, u32), usize>) {
    let scratch = Scratch::collected(8, 21);
    std::thread::scope(|scope| {
        for options in judges {
            let store = store_of(&scratch);
            scope.spawn(move || {
                let mut queue = open(&store, options.clone(), &at(0));
                clear(&mut queue, 10, &at(1));
                queue.finish(&at(2)).expect("finished");
            });
        }
    });
    let counts = verdict_counts(store_of(&scratch).as_ref());
    assert_eq!(counts.len(), 1008);
    (scratch, counts)
}

#[test]
fn two_judges_at_once_score_every_case_once_and_scenarios_whole() {
    let (scratch, counts) = judge_together(&[sit("ann"), sit("bob")]);
    assert!(counts.values().all(|count| *count == 1));
    let store = store_of(&scratch);
    let mut judges_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for run in store
        .run_list("e", &RunQuery::default())
        .expect("runs")
        .runs
    {
        let scenario = run.params.iter().find(|(key, _)| key == "scenario");
        let judges = judges_of
            .entry(scenario.expect("a scenario").1.clone())
            .or_default();
        let files = store.verdicts_get(&run.run_id).expect("verdicts");
        judges.extend(files.into_iter().map(|file| file.judge.name));
    }
    assert_eq!(judges_of.len(), 8);
    assert!(judges_of.values().all(|judges| judges.len() == 1));
}

#[test]
fn double_scoring_gives_every_case_two_judges() {
    let double = |name| SitOptions {
        double: true,
        ..sit(name)
    };
    let (scratch, counts) = judge_together(&[double("ann"), double("bob")]);
    assert!(counts.values().all(|count| *count == 2));
    let store = store_of(&scratch);
    for run in store
        .run_list("e", &RunQuery::default())
        .expect("runs")
        .runs
    {
        let files = store.verdicts_get(&run.run_id).expect("verdicts");
        let judges: BTreeSet<String> = files.into_iter().map(|file| file.judge.name).collect();
        assert_eq!(judges.len(), 2);
    }
    let mut third = open(&store, double("eve"), &at(9));
    assert_eq!(third.next(1, &at(9)).expect("cases"), [], "two are enough");
    assert_eq!(third.progress().left, 0);
}

#[test]
fn tiers_have_queues_of_their_own() {
    let scratch = Scratch::collected(1, 1);
    let store = store_of(&scratch);
    let mut expert = open(&store, sit("ann"), &at(0));
    assert_eq!(expert.next(100, &at(0)).expect("cases").len(), 6);
    let mut options = sit("haiku");
    options.judge.kind = "haiku".to_owned();
    let mut auto = open(&store, options, &at(0));
    assert_eq!(clear(&mut auto, 3, &at(1)), 6);
    let finished = auto.finish(&at(2)).expect("finished");
    assert_eq!(finished.tier, Tier::Auto);
    let counts = store.judging_count("e").expect("counts");
    assert_eq!((counts.auto_pending, counts.expert_pending), (0, 6));
}

#[test]
fn an_export_leaves_out_leased_cases() {
    const CENTURY_MS: i64 = 100 * 365 * 86_400_000;
    let scratch = Scratch::collected(2, 2);
    let export = "judge export --experiment e --out judge.json --no-anchors";
    let options = SitOptions {
        lease_ms: CENTURY_MS,
        ..sit("ann")
    };
    let mut queue = open(&store_of(&scratch), options, &at(0));
    queue.next(1, &at(1)).expect("cases");
    let said = scratch.ok(export);
    assert!(said.stderr.contains("6 runs left out"), "{said}");
    let cases = scratch.read_json("judge.json")["cases"].clone();
    assert_eq!(cases.as_array().map(Vec::len), Some(12));
    queue.next(24, &at(2)).expect("cases");
    let refused = scratch.fails(2, export);
    assert!(refused.stderr.contains("leased to judges"), "{refused}");
    queue.finish(&at(3)).expect("it ends");
    scratch.ok(export);
    let cases = scratch.read_json("judge.json")["cases"].clone();
    assert_eq!(cases.as_array().map(Vec::len), Some(24));
}
