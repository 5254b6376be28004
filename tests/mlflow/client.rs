//! MLflow's own Python client against a real `assize serve`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use assize_test_support::limits::heavyweight;
use assize_test_support::server::Served;
use assize_test_support::{Scratch, cells, collect, mlflow_python, root, score_all, script};

/// Runs a script of `tests/mlflow/client` against a server of its own.
fn run(script: &str, words: &[&str]) {
    let Some(python) = mlflow_python() else {
        return;
    };
    let _slot = heavyweight();
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    run_against(&python, &served, &scratch, script, words);
    assert_eq!(served.stop(), Some(0));
}

fn client(python: &str, served: &Served, scratch: &Scratch, script: &str) -> Command {
    let mut command = Command::new(python);
    command
        .arg(root().join("tests/mlflow/client").join(script))
        .current_dir(scratch.path())
        .env("MLFLOW_TRACKING_URI", &served.url)
        .env("MLFLOW_TRACKING_TOKEN", &served.token)
        .env("MLFLOW_DISABLE_TELEMETRY", "true")
        .env("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0");
    command
}

fn run_against(python: &str, served: &Served, scratch: &Scratch, script: &str, words: &[&str]) {
    let outcome = client(python, served, scratch, script)
        .args(words)
        .output()
        .expect("Python runs");
    assert!(
        outcome.status.success(),
        "{script}\n{}\n{}",
        String::from_utf8_lossy(&outcome.stdout),
        String::from_utf8_lossy(&outcome.stderr)
    );
}

#[test]
fn runs_and_artifacts_of_a_notebook() {
    run("runs.py", &[]);
}

#[test]
fn every_filter_is_answered_as_by_a_real_server() {
    let data = root().join("tests/data/mlflow/filters.txt");
    run("filters.py", &[data.to_str().expect("a path")]);
}

#[test]
fn the_prompt_registry_s_round_trip() {
    run("prompts.py", &[]);
}

#[test]
fn autologging_and_logged_models() {
    run("models.py", &[]);
}

/// Runs a script with the id of a judged run of ours.
fn run_with_verdicts(name: &str) {
    let Some(python) = mlflow_python() else {
        return;
    };
    let _slot = heavyweight();
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("good", &["A tip.", "Another."])]));
    let made = scratch.ok(&collect(
        "scripted:good",
        "--prompts v1 --n-scenarios 1 --n-tips 2",
    ));
    let run_id = cells(&made)[0]["run_id"].clone();
    scratch.judge(
        "e",
        "judge.json",
        "--judge-kind human --judged-by ada",
        |case| {
            score_all(case, 4);
            case["rationale"] = "because é".into();
        },
    );
    let served = Served::start(&scratch);
    let run_id = run_id.as_str().expect("an id");
    run_against(&python, &served, &scratch, name, &[run_id]);
}

#[test]
fn verdicts_are_assessments_beside_the_clients_feedback() {
    run_with_verdicts("feedback.py");
}

#[test]
fn traces_are_read_back_as_they_were_logged() {
    run_with_verdicts("traces.py");
}

#[test]
fn edge_values_large_files_and_concurrent_writers() {
    run("edge_cases.py", &[]);
}

/// Names that MLflow's own client cannot send.
#[test]
fn artifacts_have_any_name() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let run_id = served.run_new();
    let root = format!("/api/2.0/mlflow-artifacts/artifacts/0/{run_id}/artifacts");
    let names = [
        "a b#c.txt",
        "100%",
        "50%20x",
        "why?",
        "%2e%2e",
        "\u{1f600} \u{fc}/x y",
        "+&=;",
    ];
    for name in names {
        let escaped: Vec<String> = name.bytes().map(|it| format!("%{it:02x}")).collect();
        let path = escaped.concat().replace("%2f", "/");
        let put = served.send(&format!("PUT {root}/{path}"), name.as_bytes());
        assert_eq!(put.status, 200, "{name}: {put:?}");
        let got = served.get(&format!("{root}/{path}"));
        assert_eq!(got.body, name.as_bytes(), "{name}");
    }
    let list = format!("/api/2.0/mlflow/artifacts/list?run_id={run_id}");
    let files = served.get(&list).json();
    let paths: Vec<&str> = files["files"]
        .as_array()
        .expect("files")
        .iter()
        .filter_map(|it| it["path"].as_str())
        .collect();
    for name in names {
        let first = name.split('/').next().expect("a part");
        assert!(paths.contains(&first), "{name}: {paths:?}");
    }
}

#[test]
fn a_killed_server_keeps_acknowledged_batches_whole() {
    let Some(python) = mlflow_python() else {
        return;
    };
    let _slot = heavyweight();
    let scratch = Scratch::new();
    for acknowledged in [1, 25, 60] {
        let served = Served::start(&scratch);
        let mut child = client(&python, &served, &scratch, "stream.py")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Python runs");
        let stdout = child.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let run_id = lines.next().expect("an id");
        let mut taken: Vec<u64> = Vec::new();
        while taken.len() < acknowledged {
            taken.push(lines.next().expect("a number").parse().expect("a number"));
        }
        served.kill();
        taken.extend(lines.map(|it| it.parse::<u64>().expect("a number")));
        assert!(child.wait().expect("it ends").success());
        batches_are_whole(&Served::start(&scratch), &run_id, taken.len() as u64);
    }
}

/// The run has these batches, at most one more, and each of them whole.
fn batches_are_whole(served: &Served, run_id: &str, acknowledged: u64) {
    let get = |path: &str| served.get(&format!("/api/2.0/mlflow/{path}")).json();
    let run = get(&format!("runs/get?run_id={run_id}"));
    let data = &run["run"]["data"];
    let keys = |list: &str| -> Vec<&str> {
        let list = data[list].as_array().expect("a list").iter();
        list.map(|it| it["key"].as_str().expect("a key")).collect()
    };
    let batches = keys("params").len() as u64 / 5;
    assert!(
        (acknowledged..=acknowledged + 1).contains(&batches),
        "{acknowledged} were acknowledged, and {batches} are there"
    );
    assert_eq!(keys("params").len() as u64, batches * 5);
    for number in 0..batches {
        assert!(keys("tags").contains(&format!("t{number}").as_str()));
        for place in 0..5 {
            assert!(keys("params").contains(&format!("p{number}.{place}").as_str()));
        }
    }
    let last = (batches - 1).to_string();
    let tags = data["tags"].as_array().expect("tags");
    assert!(
        tags.iter()
            .any(|it| it["key"] == "last" && it["value"] == last.as_str())
    );
    assert!(!keys("tags").contains(&format!("t{batches}").as_str()));
    for place in 0..20 {
        let path = format!("metrics/get-history?run_id={run_id}&metric_key=m{place}");
        let history = get(&path)["metrics"].as_array().map_or(0, Vec::len);
        assert_eq!(history as u64, batches, "m{place}");
    }
}
