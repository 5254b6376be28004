//! Trust in judges: anchors and drift, quarantine, corrections, reopened runs, spot checks.

use crate::sittings::{at, known, open, scored, sit, store_of, submission};
use assize_domain::builtin;
use assize_domain::sitting::SittingState;
use assize_domain::task::Task;
use assize_pipeline::judge::queue::{LEASE_MS, Queue, SitOptions};
use assize_test_support::{Scratch, score_all, script};
use serde_json::{Value, json};

/// Scores anchors as they were meant plus a shift, within the scale, and everything else 3.
fn score_with_shift(case: &mut Value, shift: i64) {
    let text = case["candidate"].as_str().expect("a text");
    match known().get(text) {
        None => score_all(case, 3),
        Some(scores) => {
            for name in ["relevance", "actionability", "tone"] {
                let score = scores[name].as_i64().expect("a score") + shift;
                case["scores"][name] = json!(score.clamp(1, 5));
            }
        }
    }
}

/// Exports with anchors, scores with a shift and applies; answers what apply printed.
fn sitting(scratch: &Scratch, shift: i64, code: i32) -> Value {
    scratch.ok("judge export --experiment e --out judge.json --seed 3");
    let mut file = scratch.read_json("judge.json");
    for case in file["cases"].as_array_mut().expect("cases") {
        score_with_shift(case, shift);
    }
    scratch.write("judge.json", &file.to_string());
    let apply = "judge apply judge.json --judge-kind human --judged-by ann --json";
    scratch.fails(code, apply).json()
}

fn status(scratch: &Scratch) -> Value {
    scratch.ok("judge status --experiment e --json").json()
}

fn first_run(scratch: &Scratch) -> Value {
    let runs = scratch.ok("runs list --experiment e --json").json();
    let run_id = runs["runs"][0]["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    scratch.ok(&["runs", "show", &run_id, "--json"]).json()
}

#[test]
fn anchors_are_blind_among_the_cases_and_never_reach_the_board() {
    let scratch = Scratch::collected(2, 2);
    scratch.ok("judge export --experiment e --out judge.json --seed 3");
    let file = scratch.read_json("judge.json");
    let cases = file["cases"].as_array().expect("cases");
    let anchors = known();
    let is_anchor = |case: &&Value| anchors.contains_key(case["candidate"].as_str().expect("text"));
    let places: Vec<usize> = (0..cases.len())
        .filter(|at| is_anchor(&&cases[*at]))
        .collect();
    assert_eq!(
        (cases.len(), places.len()),
        (24 + anchors.len(), anchors.len())
    );
    assert!(
        places[0] < 12 && places[places.len() - 1] > 24,
        "spread: {places:?}"
    );
    for case in cases {
        let keys: Vec<&String> = case.as_object().expect("an object").keys().collect();
        assert_eq!(
            keys,
            ["case", "context", "candidate", "scores", "rationale"]
        );
        assert_eq!(case["case"].as_str().expect("id").len(), 20);
    }
    let applied = sitting(&scratch, 0, 0);
    assert_eq!(applied["state"], "closed");
    assert_eq!(applied["drift"]["anchors"], anchors.len());
    assert_eq!(applied["drift"]["mean_shift"], 0.0);
    let board = scratch.board("e");
    let candidates: u64 = board["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["candidates"].as_u64().expect("a count"))
        .sum();
    assert_eq!(candidates, 24);
    for row in board["rows"].as_array().expect("rows") {
        assert_eq!(
            row["composite"]["mean"], 11.0,
            "only the real cases, all 3, 3, 3"
        );
    }
}

#[test]
fn drift_quarantines_a_sitting_and_boards_leave_it_out_until_it_is_released() {
    let scratch = Scratch::collected(1, 1);
    let applied = sitting(&scratch, 2, 3);
    assert_eq!(applied["state"], "quarantined");
    assert!(applied["drift"]["mean_shift"].as_f64().expect("shift") > 0.5);
    let counted = status(&scratch);
    assert_eq!(counted["expert"], json!({"pending": 6, "judged": 0}));
    assert_eq!(counted["sittings"][0]["state"], "quarantined");
    let board = scratch.board("e");
    assert_eq!(board["coverage"]["judged"], 0);
    let run = first_run(&scratch);
    assert_eq!(run["verdicts"].as_array().map(Vec::len), Some(1), "{run}");

    // The same file cannot sneak in again; another sitting can judge the same cases.
    scratch.fails(
        2,
        "judge apply judge.json --judge-kind human --judged-by ann",
    );
    let sitting_id = applied["sitting"].as_str().expect("an id");
    assert_eq!(sitting(&scratch, 0, 0)["state"], "closed");
    assert_eq!(scratch.board("e")["coverage"]["judged"], 6);

    scratch.ok(format!("judge release {sitting_id}").as_str());
    scratch.fails(2, format!("judge release {sitting_id}").as_str());
    let run = first_run(&scratch);
    assert_eq!(
        run["verdicts"].as_array().map(Vec::len),
        Some(2),
        "nothing is deleted"
    );
}

#[test]
fn the_queue_mixes_anchors_in_and_notices_drift() {
    let scratch = Scratch::collected(2, 5);
    let store = store_of(&scratch);
    let task = Task::parse(&builtin::files("tip").expect("built in")).expect("sound");
    let sit_with_anchors = |name| SitOptions {
        anchors: task.anchors.clone(),
        ..sit(name)
    };
    let mut generous = open(&store, sit_with_anchors("ann"), &at(0));
    let cases = generous.next(100, &at(0)).expect("cases");
    let anchors = known();
    let seen = cases
        .iter()
        .filter(|it| anchors.contains_key(&it.candidate))
        .count();
    assert_eq!((cases.len() - seen, seen), (60, anchors.len()));
    let all: Vec<_> = cases.iter().map(|case| scored(case, 5)).collect();
    generous.submit(&all, &at(1)).expect("accepted");
    assert_eq!(
        generous.progress().done,
        cases.len(),
        "anchors count like all others"
    );
    let finished = generous.finish(&at(2)).expect("finished");
    assert_eq!(finished.state, SittingState::Quarantined);
    assert_eq!(
        store.judging_counts("e").expect("counts").expert_pending,
        12
    );

    let mut sound = open(&store, sit_with_anchors("ann"), &at(10));
    let cases = sound.next(100, &at(10)).expect("pending again");
    let verdicts: Vec<_> = cases
        .iter()
        .map(|case| match anchors.get(&case.candidate) {
            Some(scores) => submission(&case.case, &json!(scores)),
            None => scored(case, 4),
        })
        .collect();
    sound.submit(&verdicts, &at(11)).expect("accepted");
    let finished = sound.finish(&at(12)).expect("finished");
    assert_eq!(finished.state, SittingState::Closed);
    assert_eq!(store.judging_counts("e").expect("counts").expert_judged, 12);
}

#[test]
fn what_is_done_and_left_adds_up_to_the_same_all_the_way() {
    let scratch = Scratch::collected(4, 5);
    let store = store_of(&scratch);
    let task = Task::parse(&builtin::files("tip").expect("built in")).expect("sound");
    let all = 120 + task.anchors.cases.len() as u64;
    let options = SitOptions {
        anchors: task.anchors,
        ..sit("ann")
    };
    let mut queue = open(&store, options, &at(0));
    let total = |queue: &Queue| {
        let progress = queue.progress();
        (progress.done + progress.held) as u64 + progress.left
    };
    assert_eq!(total(&queue), all, "before the first case");
    for count in 1.. {
        let cases = queue.next(7, &at(count)).expect("cases");
        if cases.is_empty() {
            break;
        }
        assert_eq!(total(&queue), all, "with new cases");
        let verdicts: Vec<_> = cases.iter().map(|case| scored(case, 3)).collect();
        queue.submit(&verdicts, &at(count)).expect("accepted");
        let done = queue.progress().done;
        let id = queue.id().to_owned();
        drop(queue);
        queue = Queue::resume(store.clone(), &id, None, LEASE_MS, &at(count)).expect("open");
        assert_eq!(queue.progress().done, done);
        assert_eq!(total(&queue), all, "taken up again after {done}");
    }
    assert_eq!(queue.progress().done as u64, all);
}

#[test]
fn an_amended_verdict_counts_and_the_old_one_stays() {
    let scratch = Scratch::collected(1, 1);
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        score_all(case, 2);
    });
    let run = first_run(&scratch);
    let run_id = run["run_id"].as_str().expect("an id");
    let bad = format!("judge amend {run_id} --set relevance=9 --reason typo");
    let told = scratch.fails(2, bad.as_str()).stderr;
    assert!(told.contains("relevance runs from 1 to 5"), "{told}");
    let amend = format!("judge amend {run_id} --set relevance=4 --reason overlooked --json");
    let amended = scratch.ok(amend.as_str()).json();
    assert_eq!(amended["before"]["composite"], 8.0);
    assert_eq!(amended["after"]["composite"], 10.0);
    let run = scratch.ok(&["runs", "show", run_id, "--json"]).json();
    assert_eq!(run["verdicts"].as_array().map(Vec::len), Some(2));
    assert_eq!(run["metrics"]["relevance"], 4.0, "{run}");
    scratch.fails(2, amend.as_str());
}

#[test]
fn a_new_rubric_reopens_runs_and_regenerates_nothing() {
    let scratch = Scratch::collected(1, 2);
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        score_all(case, 2);
    });
    scratch.ok("init mine");
    let rubric = scratch.read("mine/rubric.md").replace("tip-v1", "tip-v2");
    scratch.write("mine/rubric.md", &rubric);
    let reopened = scratch.ok("--task mine judge reopen --experiment e --rubric --json");
    assert_eq!(reopened.json()["reopened"], 6);
    assert_eq!(
        scratch
            .ok("--task mine judge reopen --experiment e --rubric --json")
            .json()["reopened"],
        0
    );
    assert_eq!(status(&scratch)["expert"]["pending"], 6);
    let summary = scratch.collect(1, 2).summary();
    assert_eq!(
        (&summary["collected"], &summary["skipped"]),
        (&json!(0), &json!(6))
    );

    // A file from before cannot be applied to what is under another rubric now.
    scratch.fails(2, "judge apply judge.json --judge-kind human");
    scratch.judge("e", "new.json", "--judge-kind human", |case| {
        score_all(case, 5);
    });
    let board = scratch.board("e");
    assert_eq!(board["rubric"]["id"], "tip-v2");
    for row in board["rows"].as_array().expect("rows") {
        assert_eq!(row["composite"]["mean"], 17.0, "rubrics never mix");
    }
    let run = first_run(&scratch);
    assert_eq!(
        run["verdicts"].as_array().map(Vec::len),
        Some(2),
        "history is kept"
    );
}

#[test]
fn reopening_without_a_rubric_asks_for_new_verdicts() {
    let scratch = Scratch::collected(1, 1);
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        score_all(case, 2);
    });
    let run_id = first_run(&scratch)["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    scratch.ok(format!("judge reopen --experiment e --runs {run_id}").as_str());
    assert_eq!(
        status(&scratch)["expert"],
        json!({"pending": 1, "judged": 5})
    );
    let run = first_run(&scratch);
    assert_eq!(run["metrics"].get("composite"), Some(&Value::Null), "{run}");
    scratch.judge("e", "again.json", "--judge-kind human", |case| {
        score_all(case, 4);
    });
    assert_eq!(
        first_run(&scratch)["verdicts"].as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(status(&scratch)["expert"]["judged"], 6);
}

#[test]
fn spot_checks_are_drawn_recorded_and_estimated() {
    let scratch = Scratch::collected(4, 5);
    // The automatic tier says 4 everywhere, the experts would say 3.
    scratch.judge("e", "auto.json", "--judge-kind haiku", |case| {
        score_all(case, 4);
    });
    let export =
        "judge export --experiment e --out spot.json --spot-check --limit 40 --seed 5 --no-anchors";
    scratch.ok(export);
    let mut file = scratch.read_json("spot.json");
    let cases = file["cases"].as_array_mut().expect("cases");
    let drawn = cases.len();
    assert!((20..=60).contains(&drawn), "{drawn}");
    for case in cases {
        score_all(case, 3);
    }
    scratch.write("spot.json", &file.to_string());
    let before = status(&scratch)["spot_check"].clone();
    assert_eq!(before["open"].as_array().map(Vec::len), Some(drawn));
    let first = &before["open"][0]["probability"];
    assert!(first.as_f64().is_some_and(|it| it > 0.0 && it <= 1.0));
    scratch.ok("judge apply spot.json --judge-kind human");

    let after = status(&scratch);
    let spot = &after["spot_check"];
    assert_eq!(
        (&spot["drawn"], spot["open"].as_array().map(Vec::len)),
        (&json!(drawn), Some(0))
    );
    for pair in spot["estimates"].as_array().expect("pairs") {
        assert_eq!(
            (&pair["cases"], &pair["auto_mean"]),
            (&json!(20), &json!(14.0))
        );
        if pair["drawn"].as_u64() > Some(0) {
            let (mean, se) = (pair["mean"].as_f64(), pair["se"].as_f64());
            let (mean, se) = (mean.expect("a mean"), se.expect("an error"));
            assert!((mean - 11.0).abs() < 4.0 * se + 1e-9, "{pair}");
        }
    }
    let agreement = &after["agreement"][0];
    assert_eq!(
        (&agreement["left"], &agreement["items"]),
        (&json!("expert"), &json!(drawn))
    );
    assert_eq!(agreement["criteria"][0]["bias"], 1.0);
    assert_eq!(agreement["criteria"][0]["within_one"], 1.0);
    assert_eq!(agreement["flags"][0]["exact"], 1.0);
    assert_eq!(
        after["disagreements"],
        json!([]),
        "3 points are not above 3"
    );
    let wide = scratch
        .ok("judge status --experiment e --json --delta 2.5")
        .json();
    assert_eq!(wide["disagreements"].as_array().map(Vec::len), Some(drawn));
    let page = scratch.ok("judge status --experiment e").stdout;
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
    for shown in ["κ quad", "r(length)", "both tiers", "Sittings"] {
        assert!(page.contains(shown), "{shown}\n{page}");
    }
}

#[test]
fn an_automatic_judge_that_changes_is_quarantined() {
    let scratch = Scratch::new();
    let scripted = |score: u32| {
        let verdict = format!(
            "{{\"reason\":\"r\",\"relevance\":{score},\"actionability\":{score},\"tone\":{score}}}"
        );
        script(&[("a", &["Walk now."]), ("judge", &[&verdict])])
    };
    scratch.write("script.json", &scripted(4));
    let collect = "collect --models scripted:a --script script.json --experiment e --n-tips 1";
    let auto = "judge auto --experiment e --judge scripted:judge --script script.json --json";
    scratch.ok(&format!("{collect} --n-scenarios 4"));
    let first = scratch.ok(auto).json();
    assert_eq!(
        (&first["judged"], &first["verdicts"]),
        (&json!(12), &json!(12))
    );
    assert_eq!(first["drift"]["anchors"], 16);
    assert_eq!(first["drift"]["alarm"], false);
    let board = scratch.board("e");
    assert_eq!(board["rows"][0]["candidates"], 4, "anchors are not there");
    scratch.write("script.json", &scripted(1));
    scratch.ok(collect);
    let second = scratch.fails(3, auto);
    assert_eq!(second.json()["drift"]["alarm"], true);
    assert!(second.stderr.contains("Quarantined"), "{second}");
    let status = scratch.ok("judge status --experiment e --json").json();
    assert_eq!(status["auto"]["pending"], 12);
    let without = scratch.ok(&format!("{auto} --no-anchors")).json();
    assert_eq!(
        (&without["judged"], without.get("drift")),
        (&json!(12), None)
    );
}

#[test]
fn the_same_file_again_leaves_a_released_sitting_and_its_judge_alone() {
    let scratch = Scratch::collected(4, 1);
    sitting(&scratch, 2, 3);
    let status = || scratch.ok("judge status --experiment e --json").json();
    let record = |status: &Value| status["sittings"][0].clone();
    let id = record(&status())["sitting"]
        .as_str()
        .expect("an id")
        .to_owned();
    scratch.ok(&format!("judge release {id}"));
    let before = status();
    scratch.ok("judge apply judge.json --judge-kind human --judged-by other");
    assert_eq!(record(&status()), record(&before));
    assert_eq!(status()["expert"], before["expert"]);
}

#[test]
fn a_headless_agent_that_drifts_is_told() {
    let scratch = Scratch::collected(4, 1);
    scratch.write(
        "fives.py",
        "import json, sys\nfile = json.load(sys.stdin)\nfor case in file['cases']:\n    \
         case['scores'].update(relevance=5, actionability=5, tone=5)\nprint(json.dumps(file))\n",
    );
    let refused = scratch.fails(
        3,
        &[
            "judge",
            "agent",
            "--experiment",
            "e",
            "--cmd",
            "python3 fives.py",
        ],
    );
    assert!(refused.stderr.contains("Quarantined"), "{refused}");
}
