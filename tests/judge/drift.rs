//! Drift of judges: anchors among the cases, quarantine of a sitting, its release.

use crate::sittings::{at, known, open, scored, sit, store_of, submission};
use crate::{first_run, status};
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
    assert_eq!(store.judging_count("e").expect("counts").expert_pending, 12);

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
    assert_eq!(store.judging_count("e").expect("counts").expert_judged, 12);
}

#[test]
fn done_and_remaining_counts_keep_their_sum() {
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
    let status = status(&scratch);
    assert_eq!(status["auto"]["pending"], 12);
    let without = scratch.ok(&format!("{auto} --no-anchors")).json();
    assert_eq!(
        (&without["judged"], without.get("drift")),
        (&json!(12), None)
    );
}

#[test]
fn applying_a_file_again_does_not_undo_a_release() {
    let scratch = Scratch::collected(4, 1);
    sitting(&scratch, 2, 3);
    let status = || status(&scratch);
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
fn drift_of_an_agent_command_is_reported() {
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

#[test]
fn a_new_version_of_a_judge_starts_a_chart_of_its_own() {
    let scratch = Scratch::new();
    let scripted = |score: u32, parameters: u32| {
        let verdict =
            json!({"reason": "r", "relevance": score, "actionability": score, "tone": score});
        let answer = |text: &str| json!([{"prompt": "*", "scenario": "*", "texts": [text]}]);
        let judge =
            json!({"parameter_count": parameters, "responses": answer(&verdict.to_string())});
        let model = json!({"parameter_count": 1000, "responses": answer("Walk now.")});
        json!({"models": {"a": model, "judge": judge}}).to_string()
    };
    scratch.write("script.json", &scripted(4, 1000));
    let collect =
        "collect --models scripted:a --prompts v1 --script script.json --experiment e --n-tips 1";
    let auto = "judge auto --experiment e --judge scripted:judge --script script.json --json";
    scratch.ok(&format!("{collect} --n-scenarios 4"));
    scratch.ok(auto);
    // Other weights under the same name: not a drift of the earlier judge, but another one.
    scratch.write("script.json", &scripted(1, 2000));
    scratch.ok(collect);
    let second = scratch.ok(auto).json();
    assert_eq!(second["drift"]["alarm"], false, "{second}");

    let status = status(&scratch);
    let versions: Vec<&str> = status["sittings"]
        .as_array()
        .expect("sittings")
        .iter()
        .map(|it| it["version"].as_str().expect("a digest"))
        .collect();
    assert!(
        versions.len() == 2 && versions[0] != versions[1],
        "{status}"
    );
    let page = scratch.ok("judge status --experiment e").stdout;
    for version in versions {
        assert!(
            page.contains(&format!("scripted:judge ({})", &version[..6])),
            "{page}"
        );
    }
    assert_eq!(status["judges"].as_array().map(Vec::len), Some(2));
    let run = first_run(&scratch);
    assert_eq!(
        run["verdicts"][0]["judge"]["version"],
        status["sittings"][0]["version"]
    );
}

#[test]
fn everything_is_a_three_is_noticed_and_said_in_words() {
    let scratch = Scratch::collected(2, 1);
    scratch.ok("judge export --experiment e --out judge.json --seed 3");
    let mut file = scratch.read_json("judge.json");
    for case in file["cases"].as_array_mut().expect("cases") {
        score_all(case, 3);
    }
    scratch.write("judge.json", &file.to_string());
    let refused = scratch.fails(
        3,
        "judge apply judge.json --judge-kind human --judged-by ann",
    );
    let told: Vec<&str> = refused.stderr.split_whitespace().collect();
    let told = told.join(" ");
    assert!(
        told.contains("nearly the same scores (slope 0.00"),
        "{told}"
    );
    assert!(told.contains("(slope chart)"), "{told}");
    let status = status(&scratch);
    let drift = &status["sittings"][0]["drift"];
    assert_eq!(
        (&drift["alarm"], &drift["slope"]["alarm"]),
        (&json!(true), &json!(true))
    );
    let page = scratch.ok("judge status --experiment e").stdout;
    assert!(
        page.contains("slope") && page.contains("nearly the same"),
        "{page}"
    );
}

#[test]
fn an_automatic_judge_that_never_told_good_from_bad_is_named() {
    let scratch = Scratch::new();
    let verdict = r#"{"reason":"r","relevance":3,"actionability":3,"tone":3}"#;
    scratch.write(
        "script.json",
        &script(&[("a", &["Walk now."]), ("judge", &[verdict])]),
    );
    scratch.ok(
        "collect --models scripted:a --prompts v1 --script script.json --experiment e --n-tips 1",
    );
    scratch.ok("judge auto --experiment e --judge scripted:judge --script script.json");
    let warnings = status(&scratch)["warnings"].to_string();
    assert!(
        warnings.contains("scripted:judge gives good and bad calibration cases"),
        "{warnings}"
    );
}
