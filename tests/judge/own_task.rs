//! Experiments of one's own task: judged without `--task`, with the task's calibration cases.

use assize_test_support::mcp::McpSession;
use assize_test_support::server::{Served, token_new};
use assize_test_support::{Scratch, score_all, script};
use serde_json::{Value, json};

use crate::first_run;

/// How many calibration cases the task has.
const ANCHORS: usize = 16;

/// An experiment `e` of the task `mine`, which has a rubric and calibration cases of its own.
fn collected() -> Scratch {
    let scratch = Scratch::new();
    scratch.ok("init mine");
    let task = scratch.read("mine/task.toml");
    scratch.write(
        "mine/task.toml",
        &task.replace("name = \"tip\"", "name = \"mine\""),
    );
    let rubric = scratch.read("mine/rubric.md");
    scratch.write("mine/rubric.md", &format!("{rubric}\nBe strict.\n"));
    let verdict = r#"{"reason":"r","relevance":3,"actionability":3,"tone":3}"#;
    let models = [("a", &["Walk now."][..]), ("judge", &[verdict])];
    scratch.write("script.json", &script(&models));
    scratch.ok(COLLECT);
    scratch
}

const COLLECT: &str = "collect --task mine --models scripted:a --prompts v1,v2-mentor \
     --n-tips 1 --n-scenarios 4 --script script.json --experiment e --json";

fn cases(scratch: &Scratch, words: &str) -> usize {
    scratch.ok(&format!(
        "judge export --experiment e --out judge.json {words}"
    ));
    let file = scratch.read_json("judge.json");
    file["cases"].as_array().expect("cases").len()
}

fn move_to(scratch: &Scratch, from: &str, to: &str) {
    let to = scratch.file(to);
    std::fs::create_dir_all(to.parent().expect("a parent")).expect("a folder");
    std::fs::rename(scratch.file(from), to).expect("moved");
}

#[test]
fn runs_name_their_task_its_content_and_its_place() {
    let scratch = collected();
    let run = first_run(&scratch);
    assert_eq!(run["params"]["task"], "mine", "{run}");
    let place = scratch.file("mine").canonicalize().expect("a folder");
    assert_eq!(run["tags"]["task_source"], place.to_str().expect("UTF-8"));
    assert_eq!(
        run["tags"]["task_sha256"].as_str().map(str::len),
        Some(64),
        "{run}"
    );
    // The place is not part of a cell's identity.
    move_to(&scratch, "mine", "elsewhere/mine");
    let again = COLLECT.replace("--task mine", "--task elsewhere/mine");
    assert_eq!(scratch.ok(&again).summary()["collected"], 0);

    let built_in = Scratch::collected(1, 1);
    assert_eq!(first_run(&built_in)["tags"]["task_source"], "built in");
}

#[test]
fn an_edited_task_has_another_content() {
    let scratch = collected();
    let before = first_run(&scratch)["tags"]["task_sha256"].clone();
    let anchors = scratch.read("mine/anchors.toml");
    scratch.write("mine/anchors.toml", &format!("{anchors}\n# A note.\n"));
    scratch.ok(&COLLECT.replace("--n-scenarios 4", "--n-scenarios 5"));
    let runs = scratch.ok("runs export --experiment e").json_lines();
    let contents: Vec<&Value> = runs.iter().map(|it| &it["tags"]["task_sha256"]).collect();
    assert!(contents.contains(&&before));
    assert!(contents.iter().any(|it| **it != before), "{contents:?}");
    assert_eq!(cases(&scratch, ""), 10 + ANCHORS, "the current files");
}

#[test]
fn files_sittings_and_automatic_judges_get_the_calibration_cases() {
    let scratch = collected();
    assert_eq!(cases(&scratch, ""), 8 + ANCHORS);
    let auto = "judge auto --experiment e --judge scripted:judge --script script.json --json";
    let auto = scratch.ok(auto).json();
    assert_eq!(auto["drift"]["anchors"], ANCHORS, "{auto}");
    // Everything is a 5: without calibration cases nobody would notice.
    scratch.write(
        "fives.py",
        "import json, sys\nfile = json.load(sys.stdin)\nfor case in file['cases']:\n    \
         case['scores'].update(relevance=5, actionability=5, tone=5)\nprint(json.dumps(file))\n",
    );
    let agent = [
        "judge",
        "agent",
        "--experiment",
        "e",
        "--cmd",
        "python3 fives.py",
    ];
    let outcome = scratch.fails(3, &agent);
    assert!(outcome.stderr.contains("Quarantined"), "{outcome}");
}

#[test]
fn another_task_is_refused_with_both_names() {
    let scratch = collected();
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        score_all(case, 3);
    });
    let run = first_run(&scratch)["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let amend = format!("judge amend {run} --set tone=4 --reason typo");
    for words in [
        "judge export --experiment e --out x.json",
        "judge export --experiment e --out x.json --no-anchors",
        "judge auto --experiment e --judge scripted:judge --script script.json",
        "judge agent --experiment e --cmd cat",
        "judge apply judge.json --judge-kind human",
        "judge status --experiment e",
        "judge reopen --experiment e",
        "judge reopen --experiment e --rubric",
        "compare --experiment e",
        "promote --experiment e --dry-run",
        &amend,
    ] {
        let told = scratch.fails(2, &format!("{words} --task tip"));
        assert!(
            told.stderr.contains("'mine'") && told.stderr.contains("'tip'"),
            "{words}\n{told}"
        );
    }
    scratch.ok("compare --experiment e --task mine");
}

#[test]
fn missing_files_are_a_refusal_that_names_the_places() {
    let scratch = collected();
    let recorded = scratch.file("mine").canonicalize().expect("a folder");
    move_to(&scratch, "mine", "elsewhere/moved");
    for words in [
        "judge export --experiment e --out x.json",
        "judge auto --experiment e --judge scripted:judge --script script.json",
        "judge agent --experiment e --cmd cat",
    ] {
        let told = scratch.fails(2, words).stderr;
        let recorded = recorded.to_str().expect("UTF-8");
        for expected in [
            recorded,
            "./mine",
            "./tasks/mine",
            "--task DIR",
            "--no-anchors",
        ] {
            assert!(told.contains(expected), "{words}: {expected}\n{told}");
        }
    }
    // A board needs no calibration cases.
    scratch.ok("compare --experiment e");
    scratch.ok("judge status --experiment e");
    assert_eq!(cases(&scratch, "--no-anchors"), 8);
    assert_eq!(cases(&scratch, "--task elsewhere/moved"), 8 + ANCHORS);
    move_to(&scratch, "elsewhere/moved", "tasks/mine");
    assert_eq!(cases(&scratch, ""), 8 + ANCHORS);

    // A folder of that name with another task in it is not taken.
    let toml = scratch.read("tasks/mine/task.toml");
    scratch.write(
        "tasks/mine/task.toml",
        &toml.replace("name = \"mine\"", "name = \"other\""),
    );
    let told = scratch.fails(2, "judge export --experiment e --out x.json");
    assert!(told.stderr.contains("is the task 'other'"), "{told}");
}

#[test]
fn runs_that_name_no_task_are_judged_as_before() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let run = served.run_new();
    for (key, value) in [("model", "m"), ("prompt", "p"), ("scenario", "s")] {
        let param = json!({"run_id": run, "key": key, "value": value});
        assert_eq!(served.post("runs/log-parameter", &param).status, 200);
    }
    drop(served);
    scratch.ok("judge export --experiment Default --out x.json");
}

#[test]
fn the_web_desk_takes_the_experiments_task_and_reads_no_other_folder() {
    let scratch = collected();
    let desk = |served: &Served| {
        let judge = token_new(&scratch, "judge");
        let host = format!("Host: {}", served.authority());
        let token = format!("Authorization: Bearer {judge}");
        served.raw(
            "GET /api/bench/judge/next?experiment=e&limit=50",
            &[&host, &token],
            b"",
        )
    };
    let served = Served::start(&scratch);
    let cases = desk(&served).json()["cases"].as_array().map(Vec::len);
    assert_eq!(cases, Some(8 + ANCHORS));
    served.stop();

    // Runs can be written over HTTP, so a folder outside the server's own is not read.
    let other = Scratch::new();
    let outside = other.file("mine");
    std::fs::rename(scratch.file("mine"), &outside).expect("moved");
    std::fs::remove_dir_all(scratch.file(".assize")).expect("removed");
    let place = outside.to_str().expect("UTF-8");
    scratch.ok(&COLLECT.replace("--task mine", &format!("--task {place}")));
    let served = Served::start(&scratch);
    let refused = desk(&served);
    assert_eq!(refused.status, 400, "{refused:?}");
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(text.contains("--allow") && text.contains(place), "{text}");
    let job = json!({"experiment": "e", "judge": "scripted:judge"});
    let job = served.send("POST /api/bench/judge", job.to_string().as_bytes());
    let text = String::from_utf8_lossy(&job.body).into_owned();
    assert!(job.status == 400 && text.contains("--allow"), "{text}");
    served.stop();
    for more in [format!("--allow {place}"), format!("--task {place}")] {
        let served = Served::start_with(&scratch, &format!("serve --port 0 --json {more}"));
        let cases = desk(&served).json()["cases"].as_array().map(Vec::len);
        assert_eq!(cases, Some(ANCHORS + 8), "{more}");
        served.stop();
        scratch.ok("judge reopen --experiment e");
        std::fs::remove_dir_all(scratch.file(".assize")).expect("removed");
        scratch.ok(&COLLECT.replace("--task mine", &format!("--task {place}")));
    }
}

#[test]
fn agent_sessions_get_the_calibration_cases_and_are_known_by_their_version() {
    let scratch = collected();
    let mut session = McpSession::start(&scratch, "mcp --judged-by nightly", "codex-mcp-client");
    let next = json!({"experiment": "e", "limit": 50});
    let taken = session.call("next_cases", &next);
    let cases = taken["structuredContent"]["cases"].as_array();
    let cases = cases.unwrap_or_else(|| panic!("{taken}")).clone();
    assert_eq!(cases.len(), 8 + ANCHORS);
    let scores = json!({"relevance": 3, "actionability": 3, "tone": 3});
    let verdicts: Vec<Value> = cases
        .iter()
        .map(|it| json!({"case": it["case"], "scores": scores, "rationale": "So so."}))
        .collect();
    session.call("submit_verdicts", &json!({"verdicts": verdicts}));
    session.call("finish_sitting", &json!({}));
    drop(session);
    let judge = &first_run(&scratch)["verdicts"][0]["judge"];
    let expected =
        json!({"kind": "codex", "name": "nightly", "version": "codex-mcp-client 0.46.1"});
    assert_eq!(*judge, expected);

    scratch.ok("judge reopen --experiment e");
    std::fs::remove_dir_all(scratch.file("mine")).expect("removed");
    let mut session = McpSession::start(&scratch, "mcp --judged-by nightly", "codex-mcp-client");
    let refused = session.call("next_cases", &next);
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused.to_string().contains("./tasks/mine"), "{refused}");
    drop(session);
    let mut session = McpSession::start(
        &scratch,
        "mcp --judged-by nightly --no-anchors",
        "codex-mcp-client",
    );
    let taken = session.call("next_cases", &next);
    let cases = taken["structuredContent"]["cases"].as_array();
    assert_eq!(cases.map(Vec::len), Some(8), "{taken}");
}
