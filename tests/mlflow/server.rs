//! Tracking on a real MLflow server: the whole flow, several judges, and servers with other
//! configurations.

mod computed;
mod configurations;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::sittings;
use assize_domain::judge::Tier;
use assize_domain::rubric::Rubric;
use assize_domain::verdict::{Verdict, VerdictFile};
use assize_mlflow::{Config, MlflowStore};
use assize_store::{StoreError, Tracking};
use assize_test_support::mlflow::{Mlflow, tag};
use assize_test_support::promotion_task;
use assize_test_support::{Scratch, cells, script, write_small_task};
use serde_json::{Value, json};

const GRID: &str = "collect --models scripted:alpha,scripted:beta --prompts v1,v2-mentor --n-tips 2 \
    --script script.json --experiment grid --json";

fn write_script(scratch: &Scratch) {
    let alpha = ["Walk for ten minutes.", "Drink a glass of water now."];
    let beta = ["Eat.", "Sleep \u{6b69} well, and write down three things."];
    scratch.write(
        "script.json",
        &script(&[("alpha", &alpha), ("beta", &beta)]),
    );
}

/// Scores that follow from the text and the scenario alone.
fn score(case: &mut Value) {
    let seen = format!("{}{}", case["candidate"], case["context"]);
    let sum: u32 = seen.bytes().map(u32::from).sum();
    for (place, name) in ["relevance", "actionability", "tone"].iter().enumerate() {
        let salt = u32::try_from(place).expect("a small number") * 13;
        case["scores"][*name] = json!(i64::from((sum * 7 + salt) % 5) + 1);
    }
    case["rationale"] = json!("Because \u{e9}.");
}

fn judge_grid(scratch: &Scratch) {
    let words = "--judge-kind human --judged-by ada";
    scratch.judge("grid", "judge.json", words, score);
}

/// The board without what is measured and differs between any two collections.
fn board(scratch: &Scratch) -> String {
    let mut board = scratch.board("grid");
    for row in board["rows"].as_array_mut().expect("rows") {
        row["latency_ms"].take();
        row["tokens_per_s"].take();
    }
    board.to_string()
}

#[test]
fn the_whole_flow_on_a_real_server() {
    let Some(server) = Mlflow::usual() else {
        return;
    };
    grid_is_as_in_the_embedded_store(&server);
    second_thoughts_over_the_wire(&server);
    long_values_come_back_whole(&server);
    cells_that_fail_or_are_cut_off(&server);
    a_killed_collect_leaves_no_run_twice(&server);
    two_judges_at_once(&server);
    promotion_and_the_way_back(&server);
}

fn grid_is_as_in_the_embedded_store(server: &Mlflow) {
    let remote = server.scratch();
    let embedded = Scratch::new();
    for (scratch, is_remote) in [(&remote, true), (&embedded, false)] {
        write_script(scratch);
        let summary = scratch.ok(GRID).summary();
        assert_eq!(summary["collected"], 32, "{summary}");
        let again = scratch.ok(GRID).summary();
        assert_eq!(
            (&again["collected"], &again["skipped"]),
            (&json!(0), &json!(32))
        );
        if is_remote {
            nothing_counts_before_the_mark(server, scratch);
        }
        judge_grid(scratch);
        let applied =
            scratch.ok("judge apply judge.json --judge-kind human --judged-by ada --json");
        let applied = applied.json();
        assert_eq!(applied["runs_written"], 0, "{applied}");
    }
    assert_eq!(board(&remote), board(&embedded));
    for command in [
        "judge status --experiment grid --json",
        "experiments list --json",
    ] {
        let known = |scratch: &Scratch| {
            let mut shown = scratch.ok(command).json();
            if let Some(list) = shown["experiments"].as_array_mut() {
                for experiment in list {
                    experiment["experiment_id"].take();
                    experiment["last_updated"].take();
                }
            }
            if let Some(list) = shown["sittings"].as_array_mut() {
                list.clear();
            }
            shown
        };
        assert_eq!(known(&remote), known(&embedded), "{command}");
    }
    let runs = server.runs("grid");
    assert_eq!(runs.len(), 32);
    for run in &runs {
        assert_eq!(run["info"]["status"], "FINISHED");
        assert_eq!(tag(run, "judge_pending"), Some("false"));
        assert_eq!(tag(run, "judged_by"), Some("ada"));
    }
    let id = runs[0]["info"]["run_id"].as_str().expect("an id");
    let shown = remote.ok(&["runs", "show", &id[..8], "--json"]).json();
    let files: Vec<&str> = shown["artifacts"]
        .as_array()
        .expect("files")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let plain = [
        "candidates.json",
        "context.json",
        "prompt.txt",
        "raw.txt",
        "rubric.md",
    ];
    assert_eq!(files[..5], plain, "{shown}");
    assert!(files[5].starts_with("verdicts/"), "{shown}");
    let gone = remote.fails(2, "compare --experiment nowhere");
    assert!(gone.stderr.contains("choose one of grid"), "{gone}");
}

/// A judge file that is cut off when all its verdicts are with their runs.
fn nothing_counts_before_the_mark(server: &Mlflow, scratch: &Scratch) {
    let file = scratch.export("grid", "cut.json");
    let store = store(server);
    let id = file["sitting"].as_str().expect("an id");
    let sitting = store.sitting_get(id).expect("a store").expect("a sitting");
    let run_id = &sitting.runs[0].0;
    let text = store.artifact_get(run_id, "rubric.md").expect("a store");
    let rubric = Rubric::parse("rubric.md", &text.expect("a file")).expect("a rubric");
    let scores = ["relevance", "actionability", "tone"].map(|it| (it.to_owned(), json!(1)));
    let verdict = |candidate: &u32| Verdict {
        candidate: *candidate,
        scores: scores.clone().into(),
        composite: 3.0,
        rationale: None,
    };
    let cut_off = store.sitting_commit_each(&rubric, &mut |take| {
        for (run_id, candidates) in &sitting.runs {
            let file = VerdictFile {
                sitting: id.to_owned(),
                tier: Tier::Expert,
                judge: sittings::sit("eve").judge,
                rubric: sitting.rubric.clone(),
                judged_at: sittings::at(0).rfc3339,
                verdicts: candidates.iter().map(verdict).collect(),
                usage: None,
                amends: None,
            };
            assert!(take(run_id, file));
        }
        Err(StoreError::Conflict("cut off".to_owned()))
    });
    assert!(
        cut_off
            .expect_err("cut off")
            .to_string()
            .contains("cut off")
    );
    let run = store.run_get(run_id).expect("a run");
    assert!(
        run.artifacts.contains(&format!("verdicts/{id}.json")),
        "{run:?}"
    );
    assert!(store.verdicts_get(run_id).expect("a store").is_empty());
    let status = scratch.ok("judge status --experiment grid --json").json();
    assert_eq!(status["expert"]["judged"], 0, "{status}");
}

/// Amending, reopening and deleting, on what the test before has left.
fn second_thoughts_over_the_wire(server: &Mlflow) {
    let scratch = server.scratch();
    write_script(&scratch);
    let runs = server.runs("grid");
    let id = runs[0]["info"]["run_id"].as_str().expect("an id");
    let words = [
        "judge",
        "amend",
        id,
        "--candidate",
        "0",
        "--set",
        "tone=5",
        "--set",
        "relevance=5",
    ];
    let more = ["--set", "actionability=1", "--reason", "a typo", "--json"];
    let amended = scratch.ok(&[&words[..], &more[..]].concat()).json();
    assert_eq!(amended["after"]["scores"]["tone"], 5, "{amended}");
    let shown = scratch.ok(&["runs", "show", id, "--json"]).json();
    assert_eq!(
        shown["verdicts"].as_array().map(Vec::len),
        Some(2),
        "{shown}"
    );

    let reopened = scratch.ok(&[
        "judge",
        "reopen",
        "--experiment",
        "grid",
        "--runs",
        id,
        "--json",
    ]);
    assert_eq!(reopened.json()["reopened"], 1, "{reopened}");
    let run = &server.get(&format!("runs/get?run_id={id}"))["run"];
    assert_eq!(tag(run, "judge_pending"), Some("true"));
    assert_eq!(tag(run, "judged_by"), None);
    assert!(tag(run, "set_aside").is_some());
    let pending = scratch.export("grid", "again.json");
    assert_eq!(pending["cases"].as_array().map(Vec::len), Some(2));
    judge_grid(&scratch);

    scratch.ok(&["runs", "delete", id]);
    let again = scratch.ok(GRID).summary();
    assert_eq!(
        (&again["collected"], &again["skipped"]),
        (&json!(1), &json!(31))
    );
}

/// MLflow would cut the one and refuse the other.
fn long_values_come_back_whole(server: &Mlflow) {
    let shown = [server.scratch(), Scratch::new()].map(|scratch| {
        write_small_task(&scratch, 1);
        let long = "\u{e9}".repeat(7_000);
        let scenario = json!({"id": "s0", "topic": "t", "long": long, "odd$key": "odd"});
        scratch.write("task/scenarios.jsonl", &scenario.to_string());
        scratch.write(
            "script.json",
            &script(&[("a", &["\u{1f600} ".repeat(9_000).as_str()])]),
        );
        let words = "collect --task task --models scripted:a --prompts p1 --n-tips 1 \
                     --script script.json --experiment long --json";
        let run_id = cells(&scratch.ok(words))[0]["run_id"].clone();
        let run_id = run_id.as_str().expect("an id");
        let mut shown = scratch.ok(&["runs", "show", run_id, "--json"]).json();
        assert_eq!(shown["params"]["long"], json!(long));
        shown["params"]["mlflow_url"].take();
        (shown["params"].clone(), shown["candidates"].clone())
    });
    assert_eq!(shown[0].0, shown[1].0);
    assert_eq!(shown[0].0["odd$key"], "odd");
}

fn cells_that_fail_or_are_cut_off(server: &Mlflow) {
    let scratch = server.scratch();
    let one = "collect --models scripted:x --prompts v1 --n-scenarios 1 --n-tips 1 --retries 0 \
               --script script.json --experiment odd --json";
    let response = json!({"prompt": "*", "scenario": "*", "texts": ["T"], "error": "http_500"});
    let models = |response: &Value| {
        json!({"models": {"x": {"parameter_count": 1, "responses": [response]}}}).to_string()
    };
    scratch.write("script.json", &models(&response));
    scratch.fails(4, one);
    let failed = server.runs("odd");
    assert_eq!(
        (failed.len(), &failed[0]["info"]["status"]),
        (1, &json!("FAILED"))
    );
    scratch.write(
        "script.json",
        &models(&json!({"prompt": "*", "scenario": "*", "texts": ["T"]})),
    );
    scratch.ok(one);
    let runs = server.runs("odd");
    assert_eq!(
        (runs.len(), &runs[0]["info"]["status"]),
        (1, &json!("FINISHED"))
    );

    // A run that a delivery left incomplete does not count, and the next delivery completes it.
    let key = tag(&runs[0], "cell_key").expect("a key");
    let id = &runs[0]["info"]["run_id"];
    server.post("runs/delete", &json!({ "run_id": id }));
    let tags =
        json!([{"key": "cell_key", "value": key}, {"key": "judge_pending", "value": "true"}]);
    let body =
        json!({"experiment_id": runs[0]["info"]["experiment_id"], "start_time": 5, "tags": tags});
    server.post("runs/create", &body);
    let list = scratch.ok("runs list --experiment odd --json").json();
    assert_eq!(list["runs"].as_array().map(Vec::len), Some(0), "{list}");
    assert_eq!(scratch.ok(one).summary()["collected"], 1);
    assert_eq!(server.runs("odd").len(), 1);

    // A second run of the cell is passed over by readers: the first counts.
    let first = server.runs("odd")[0].clone();
    let late = json!({"experiment_id": first["info"]["experiment_id"], "tags": tags,
                      "start_time": first["info"]["start_time"].as_i64().expect("a time") + 1});
    let second = server.post("runs/create", &late);
    let second = &second["run"]["info"]["run_id"];
    server.post(
        "runs/update",
        &json!({"run_id": second, "status": "FINISHED"}),
    );
    let list = scratch.ok("runs list --experiment odd --json").json();
    assert_eq!(list["runs"][0]["run_id"], first["info"]["run_id"], "{list}");
    assert_eq!(list["runs"].as_array().map(Vec::len), Some(1), "{list}");
}

fn a_killed_collect_leaves_no_run_twice(server: &Mlflow) {
    let scratch = server.scratch();
    write_script(&scratch);
    let line = GRID.replace("grid", "killed");
    for finished in [3, 12] {
        let mut child = scratch.command(line.as_str()).spawn().expect("it runs");
        while server_runs_or_none(server, "killed") < finished
            && child.try_wait().expect("a child").is_none()
        {}
        child.kill().expect("killed");
        child.wait().expect("gone");
    }
    scratch.ok(line.as_str());
    let shown = scratch.ok("runs list --experiment killed --json").json();
    assert_eq!(shown["runs"].as_array().map(Vec::len), Some(32), "{shown}");
    let mut runs = server.runs("killed");
    runs.retain(|run| run["info"]["status"] == "FINISHED");
    let keys: BTreeSet<_> = runs.iter().filter_map(|run| tag(run, "cell_key")).collect();
    assert_eq!((runs.len(), keys.len()), (32, 32));
    // What a request left behind that the server took after its sender was dead.
    store(server).runs_tidy("killed").expect("tidied");
    assert_eq!(server.runs("killed").len(), 32);
}

fn server_runs_or_none(server: &Mlflow, experiment: &str) -> usize {
    let all = server.post("experiments/search", &json!({"max_results": 100}));
    let known = all["experiments"].as_array().expect("experiments");
    if known.iter().any(|it| it["name"] == experiment) {
        server.runs(experiment).len()
    } else {
        0
    }
}

fn store(server: &Mlflow) -> Arc<dyn Tracking> {
    let now_ms = || sittings::START_MS;
    Arc::new(MlflowStore::open(&Config::new(&server.url), now_ms).expect("a store"))
}

fn two_judges_at_once(server: &Mlflow) {
    let scratch = server.scratch();
    write_script(&scratch);
    let line = GRID.replace("grid", "queue");
    scratch.ok(line.as_str());
    let sit = |name: &str| sittings::sit_at("queue", name);
    let judged: Vec<usize> = std::thread::scope(|scope| {
        let judges = ["ada", "bob"].map(|name| {
            scope.spawn(move || {
                let mut seat = sittings::open(&store(server), sit(name), &sittings::at(0));
                let done = sittings::clear(&mut seat, 4, &sittings::at(10));
                seat.finish(&sittings::at(20)).expect("it ends");
                done
            })
        });
        judges.map(|judge| judge.join().expect("a judge")).into()
    });
    assert_eq!(
        judged.iter().sum::<usize>(),
        64,
        "each case once: {judged:?}"
    );
    let by_scenario: BTreeSet<(String, String)> = scratch
        .ok("runs export --experiment queue")
        .json_lines()
        .iter()
        .flat_map(|run| {
            let files = run["verdicts"].as_array().expect("files").clone();
            let scenario = run["params"]["scenario"].to_string();
            files
                .into_iter()
                .map(move |file| (scenario.clone(), file["sitting"].to_string()))
        })
        .collect();
    assert_eq!(
        by_scenario.len(),
        8,
        "one judge a scenario: {by_scenario:?}"
    );

    // A judge who is not heard of loses the lease, and is refused when submitting.
    scratch.ok("judge reopen --experiment queue");
    let store = store(server);
    let mut silent = sittings::open(&store, sit("ada"), &sittings::at(0));
    let cases = silent.next(1, &sittings::at(0)).expect("cases");
    let later = sittings::at(sittings::LEASE_MS + 1);
    let mut other = sittings::open(&store, sit("bob"), &later);
    assert_eq!(sittings::clear(&mut other, 8, &later), 64);
    let stale = silent.submit(&[sittings::scored(&cases[0], 1)], &later);
    assert!(stale.expect_err("lost").to_string().contains("handed in"));
    other.finish(&later).expect("it ends");
}

fn promotion_and_the_way_back(server: &Mlflow) {
    let scratch = promotion_task::scratch(promotion_task::ahead);
    server.adopt(&scratch);
    promotion_task::fill(&scratch);
    let promote = "promote --task task --experiment e --json";
    let done = scratch.ok(promote);
    assert_eq!(done.json()["promoted"], true, "{done}");
    let prompt = &server.get("registered-models/get?name=shop")["registered_model"];
    assert_eq!(
        prompt["aliases"],
        json!([{"alias": "champion", "version": "1"}])
    );
    assert_eq!(scratch.board("e")["incumbent"]["prompt"], "p2");
    scratch.fails(3, promote);
    let history = |scratch: &Scratch| {
        let shown = scratch.ok("promote history --task task --json").json();
        shown["promotions"].as_array().expect("entries").clone()
    };
    let entries = history(&scratch);
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["champion"]["prompt"], "p2");
    assert_eq!(entries[0]["version"], 1);
    scratch.fails(2, "promote rollback --task task --note back");

    // Of two that are decided against the same history one is recorded.
    let first = store(server)
        .champion_get("shop")
        .expect("a store")
        .expect("a champion");
    let raced: Vec<bool> = std::thread::scope(|scope| {
        let racers = ["p1", "p3"].map(|prompt| {
            let mut next = first.clone();
            next.number = 2;
            prompt.clone_into(&mut next.champion.prompt);
            next.champion.prompt_sha256 = format!("hash of {prompt}");
            scope.spawn(move || store(server).promotion_record(&next).is_ok())
        });
        racers.map(|racer| racer.join().expect("a racer")).into()
    });
    assert_eq!(raced.iter().filter(|won| **won).count(), 1, "{raced:?}");
    scratch.ok("promote rollback --task task --note back");
    let entries = history(&scratch);
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[2]["champion"]["prompt"], "p2");
    let prompt = &server.get("registered-models/get?name=shop")["registered_model"];
    assert_eq!(
        prompt["aliases"],
        json!([{"alias": "champion", "version": "1"}])
    );
}
