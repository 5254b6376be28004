//! Edge cases of judging: budgets, limits, amendments, judge files that are applied too late.

use std::collections::BTreeSet;

use crate::sittings::{at, clear, known, open, scored, sit, store_of};
use crate::{first_run_id, status};
use assize_domain::builtin;
use assize_domain::task::Task;
use assize_pipeline::judge::queue::SitOptions;
use assize_test_support::{Outcome, Scratch, score_all, script};
use serde_json::{Value, json};

fn judged_by(scratch: &Scratch, name: &str, score: i64) {
    let words = format!("--judge-kind human --judged-by {name}");
    scratch.judge("e", "judge.json", &words, |case| score_all(case, score));
}

/// A scripted judge that gives fours, at this cost.
fn with_judge(scratch: &Scratch, cost_usd: Option<f64>) {
    let verdict = r#"{"reason":"r","relevance":4,"actionability":4,"tone":4}"#;
    let mut all: Value = serde_json::from_str(&script(&[("judge", &[verdict])])).expect("JSON");
    if let Some(cost) = cost_usd {
        all["models"]["judge"]["responses"][0]["cost_usd"] = json!(cost);
    }
    scratch.write("judges.json", &all.to_string());
}

const AUTO: &str =
    "judge auto --experiment e --judge scripted:judge --script judges.json --no-anchors --json";

#[test]
fn a_cap_on_spending_holds_for_scripted_judges() {
    let scratch = Scratch::collected(2, 1);
    with_judge(&scratch, Some(0.01));
    let capped = scratch.fails(3, &format!("{AUTO} --max-cost 0.035")).json();
    assert_eq!(
        (&capped["verdicts"], &capped["cap_reached"]),
        (&json!(3), &json!(true))
    );
    let rest = scratch.ok(&format!("{AUTO} --max-cost 1")).json();
    assert_eq!(rest["verdicts"], 9);
}

#[test]
fn a_cap_that_cannot_be_kept_is_refused() {
    let scratch = Scratch::collected(2, 1);
    with_judge(&scratch, None);
    let unknown = scratch.fails(2, &format!("{AUTO} --max-cost 1"));
    assert!(unknown.stderr.contains("--price-per-mtok"), "{unknown}");
    let priced = scratch.ok(&format!("{AUTO} --max-cost 1 --price-per-mtok 1,1"));
    assert!(priced.json()["cost_usd"].as_f64() > Some(0.0), "{priced}");
    let free = "judge auto --experiment e --judge ollama:qwen2.5:0.5b --max-cost 1";
    let free = scratch.fails(2, free);
    assert!(free.stderr.contains("costs nothing"), "{free}");
}

/// An agent that gives threes, and calibration cases their known scores: it never drifts.
#[cfg(unix)]
fn agent(scratch: &Scratch, words: &str) -> Outcome {
    scratch.write("known.json", &json!(known()).to_string());
    scratch.write(
        "agent.py",
        "import json, sys\nfile, known = json.load(sys.stdin), json.load(open('known.json'))\n\
         threes = dict(relevance=3, actionability=3, tone=3)\nfor case in file['cases']:\n    \
         case['scores'].update(known.get(case['candidate'], threes))\nprint(json.dumps(file))\n",
    );
    let mut all = vec!["judge", "agent", "--experiment", "e", "--json"];
    all.extend(["--cmd", "python3 agent.py"]);
    all.extend(words.split_whitespace());
    scratch.ok(&all)
}

#[cfg(unix)]
#[test]
fn an_agents_limit_counts_the_cases_of_runs_only() {
    let scratch = Scratch::collected(4, 1);
    let verdicts = || -> usize {
        let runs = scratch.ok("runs export --experiment e").json_lines();
        let files = runs
            .iter()
            .flat_map(|run| run["verdicts"].as_array().expect("files"));
        files
            .map(|file| file["verdicts"].as_array().map_or(0, Vec::len))
            .sum()
    };
    // A scenario has six cases here, and the limit is rounded up to whole scenarios.
    for done in [6, 12] {
        let outcome = agent(&scratch, "--limit 5 --batch 3");
        let summary = outcome.json();
        assert_eq!(
            (&summary["judged"], &summary["untried"]),
            (&json!(6), &json!(24 - done)),
            "{outcome}"
        );
        assert_eq!(summary["left_pending"], json!({}), "{outcome}");
        assert!(outcome.stderr.contains("The limit is reached"), "{outcome}");
        assert_eq!(verdicts(), done);
    }
}

#[test]
fn short_sittings_rotate_through_all_anchors() {
    let scratch = Scratch::collected(4, 1);
    let store = store_of(&scratch);
    let task = Task::parse(&builtin::files("tip").expect("built in")).expect("sound");
    let anchors = task.anchors.only_under(&task.rubric.sha256);
    let mut seen = BTreeSet::new();
    let mut times = 0;
    for sitting in 0..3 {
        let now = at(sitting * 1000);
        let options = SitOptions {
            anchors: anchors.clone(),
            ..sit("ann")
        };
        let mut queue = open(&store, options, &now);
        let cases = queue.next(6, &now).expect("cases");
        for case in cases {
            queue.submit(&[scored(&case, 3)], &now).expect("accepted");
            if queue.is_anchor(&case.case) {
                seen.insert(case.candidate);
                times += 1;
            }
        }
        queue.finish(&now).expect("over");
    }
    assert!(times > 2, "{times}");
    assert_eq!(
        seen.len(),
        times,
        "no anchor comes again before all have come"
    );
}

#[test]
fn a_continued_sitting_stays_at_its_desk() {
    let scratch = Scratch::collected(1, 1);
    scratch.ok(
        "collect --models scripted:a --script script.json --experiment e --n-tips 1 \
         --n-scenarios 2 --judge-kind human",
    );
    let (store, locks) = (store_of(&scratch), scratch.file("locks"));
    let at_desk = || SitOptions {
        desk: Some("human".to_owned()),
        ..sit("ann")
    };
    let take = || {
        let seat =
            assize_pipeline::judge::held_sitting::resume_or_open(&store, at_desk(), &locks, &at(0));
        seat.expect("a store").expect("something to judge")
    };
    let first = take();
    assert!(!first.resumed);
    drop(first);
    let mut again = take();
    assert!(again.resumed);
    assert_eq!(
        clear(&mut again.queue, 50, &at(1)),
        3,
        "three runs wait there"
    );
}

#[test]
fn stale_files_are_refused_with_a_reason() {
    let scratch = Scratch::collected(1, 1);
    judged_by(&scratch, "ann", 3);
    // Other scores, as another kind of judge.
    let text = scratch
        .read("judge.json")
        .replace("\"relevance\":3", "\"relevance\":2");
    scratch.write("other.json", &text);
    let edited = scratch.fails(2, "judge apply other.json --judge-kind codex");
    assert!(edited.stderr.contains("with different scores"), "{edited}");
    assert!(edited.stderr.contains("assize judge amend"), "{edited}");
    let run_id = first_run_id(&scratch);
    scratch.ok(&format!("judge reopen --experiment e --runs {run_id}"));
    let reopened = scratch.fails(2, "judge apply judge.json --judge-kind human");
    assert!(reopened.stderr.contains("was reopened"), "{reopened}");
    assert!(
        reopened.stderr.contains("export the cases again"),
        "{reopened}"
    );
}

#[test]
fn an_edited_experiment_is_refused_at_any_place_in_the_file() {
    let scratch = Scratch::collected(1, 1);
    let mut file = scratch.export("e", "judge.json");
    for case in file["cases"].as_array_mut().expect("cases") {
        score_all(case, 3);
    }
    let sound = file.clone();
    file["experiment"] = json!("another");
    let fields = file.as_object_mut().expect("an object");
    let last = fields.shift_remove("experiment").expect("there");
    fields.insert("experiment".to_owned(), last);
    scratch.write("judge.json", &file.to_string());
    let refused = scratch.fails(2, "judge apply judge.json --judge-kind human");
    assert!(refused.stderr.contains("/experiment"), "{refused}");
    assert_eq!(status(&scratch)["expert"]["judged"], 0);
    scratch.write("judge.json", &sound.to_string());
    scratch.ok("judge apply judge.json --judge-kind human");
}

#[test]
fn an_amendment_does_not_count_as_a_second_judge() {
    let scratch = Scratch::collected(1, 1);
    judged_by(&scratch, "ann", 3);
    let run_id = first_run_id(&scratch);
    let amend = |by: &str, score: u32| {
        let line = format!(
            "judge amend {run_id} --set tone={score} --reason misread --judged-by {by} --json"
        );
        scratch.ok(&line);
    };
    amend("bob", 5);
    amend("cyd", 4);
    let found = status(&scratch);
    assert_eq!(found["agreement"], json!([]), "nobody else has judged");
    let judges = found["judges"].as_array().expect("judges");
    assert_eq!(judges.len(), 1, "{judges:?}");
    assert_eq!(
        (&judges[0]["judge"], &judges[0]["verdicts"]),
        (&json!("ann (human)"), &json!(6))
    );
    let board = scratch.board("e");
    let means: Vec<&Value> = board["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| &row["composite"]["mean"])
        .collect();
    assert!(
        means.contains(&&json!(12.0)),
        "the amendment counts: {means:?}"
    );

    // Where every case is to be scored twice, an amended one still lacks its second judge.
    let store = store_of(&scratch);
    let options = SitOptions {
        double: true,
        ..sit("dee")
    };
    let mut queue = open(&store, options, &at(0));
    assert_eq!(clear(&mut queue, 50, &at(1)), 6);
}

#[test]
fn an_amendment_needs_a_reason_and_one_value_a_score() {
    let scratch = Scratch::collected(1, 1);
    judged_by(&scratch, "ann", 3);
    let run_id = first_run_id(&scratch);
    let amend = |more: &[&str]| {
        let mut words = vec!["judge", "amend", run_id.as_str()];
        words.extend(more);
        scratch.fails(2, &words).stderr
    };
    let empty = amend(&["--set", "tone=5", "--reason", " "]);
    assert!(empty.contains("--reason is empty"), "{empty}");
    let twice = amend(&["--set", "tone=5", "--set", "tone=1", "--reason", "r"]);
    assert!(twice.contains("tone more than once"), "{twice}");
}

#[test]
fn reopening_counts_the_runs_that_had_verdicts_of_the_tier() {
    let scratch = Scratch::collected(1, 1);
    judged_by(&scratch, "ann", 3);
    let reopen = |tier: &str| {
        let line = format!("judge reopen --experiment e --tier {tier} --json");
        scratch.ok(&line).json()["reopened"].clone()
    };
    assert_eq!(reopen("auto"), 0);
    assert_eq!(status(&scratch)["expert"]["judged"], 6);
    assert_eq!(reopen("expert"), 6);
    assert_eq!(reopen("expert"), 0, "they wait already");
}

#[test]
fn a_new_spot_check_does_not_hide_the_finished_one() {
    let scratch = Scratch::collected(4, 1);
    scratch.judge("e", "auto.json", "--judge-kind haiku", |case| {
        score_all(case, 4);
    });
    let draw = |file: &str| {
        let line = "judge export --experiment e --spot-check --limit 6 --seed 5 --no-anchors";
        scratch.ok(&format!("{line} --out {file}"));
        scratch.read_json(file)
    };
    let mut first = draw("first.json");
    for case in first["cases"].as_array_mut().expect("cases") {
        score_all(case, 3);
    }
    scratch.write("first.json", &first.to_string());
    scratch.ok("judge apply first.json --judge-kind human");
    let second = draw("second.json");
    let found = status(&scratch);
    assert_eq!(found["spot_check"]["sitting"], first["sitting"]);
    assert_eq!(found["spot_check"]["open"], json!([]));
    assert_eq!(found["spot_check_out"]["sitting"], second["sitting"]);
    let page = scratch.ok("judge status --experiment e").stdout;
    assert!(
        page.contains("both tiers") && page.contains("is out"),
        "{page}"
    );
}
