//! Verdicts looked at again: amendments, reopened runs, spot checks.

use assize_pipeline::Now;
use assize_pipeline::judge::amend::{self, Amendment};
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_test_support::server::Served;
use assize_test_support::{Scratch, score_all};
use serde_json::{Value, json};

use crate::{first_run, first_run_id, status};

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
    let run_id = first_run_id(&scratch);
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

/// The clocks of two machines differ, and the one that corrects is behind: the correction counts all
/// the same, here, on an MLflow server and in every copy.
#[test]
fn an_amendment_wins_whatever_the_clocks_say() {
    let scratch = Scratch::collected(1, 1);
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        score_all(case, 2);
    });
    let run_id = first_run_id(&scratch);
    let path = scratch.file(".assize/assize.db");
    let store = EmbeddedStore::open(&path, || 0, random_run_id).expect("a store");
    let amend = |score: &str, at: &str| {
        let amendment = Amendment {
            run: run_id.clone(),
            candidate: None,
            tier: None,
            scores: vec![("relevance".to_owned(), score.to_owned())],
            reason: "overlooked".to_owned(),
            name: "Ana".to_owned(),
        };
        let now = Now {
            ms: 0,
            rfc3339: at.to_owned(),
        };
        amend::amend(&store, &amendment, &now, random_run_id).expect("amended")
    };
    let first = amend("4", "2001-01-01T00:00:00.000Z");
    assert!((first.before.composite - 8.0).abs() < 1e-9);
    let second = amend("5", "2000-01-01T00:00:00.000Z");
    let corrected = second.before.composite;
    assert!(
        (corrected - 10.0).abs() < 1e-9,
        "it corrects the correction"
    );
    drop(store);

    let elsewhere = Scratch::new();
    let remote = Served::start(&elsewhere);
    let here = "sqlite:.assize/assize.db";
    let token = format!("MLFLOW_TRACKING_TOKEN={}\n", remote.token);
    scratch.write(".env", &token);
    let server = &remote.url;
    for to in ["sqlite:copy.db", server] {
        scratch.ok(&format!("sync --from {here} --to {to} --experiment e"));
    }
    for uri in [here, "sqlite:copy.db", server] {
        let list = format!("runs list --experiment e --json --tracking-uri {uri}");
        let list = scratch.ok(list.as_str()).json();
        let runs = list["runs"].as_array().expect("runs");
        let corrected: Vec<&Value> = runs
            .iter()
            .filter(|it| it["metrics"]["relevance"] == 5.0)
            .collect();
        assert_eq!(corrected.len(), 1, "{uri}: {list}");
        assert_eq!(corrected[0]["tags"]["judged_by"], "Ana", "{uri}");
        let board = format!("compare --experiment e --json --tracking-uri {uri}");
        let board = scratch.ok(board.as_str()).json();
        let rows = board["rows"].as_array().expect("rows");
        let best = rows
            .iter()
            .filter_map(|it| it["criteria"]["relevance"].as_f64());
        let best = best.fold(0.0, f64::max);
        assert!((best - 5.0).abs() < 1e-9, "{uri}: {board}");
    }
}
