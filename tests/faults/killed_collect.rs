//! `kill -9` at any instant: in the end exactly the grid, no cell twice, none lost.
//!
//! `ASSIZE_STRESS_KILLS` sets how often the collector is killed; the ordinary tests do it a few
//! times, `make stress` two hundred.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use assize_test_support::random::Random;
use assize_test_support::{Scratch, collect, script};
use serde_json::Value;

#[test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
fn a_collect_killed_anywhere_ends_with_exactly_the_grid() {
    let kills: u64 = std::env::var("ASSIZE_STRESS_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(15);
    let scratch = Scratch::new();
    let models: Vec<String> = (0..4).map(|n| format!("m{n}")).collect();
    let texts: Vec<(&str, &[&str])> = models
        .iter()
        .map(|model| (model.as_str(), &["one", "two"][..]))
        .collect();
    // Slow enough that kills land everywhere, fast enough that the grid is finished in the end.
    let latency = if kills > 50 { 8 } else { 3 };
    let slow = script(&texts).replace(
        "\"prompt\"",
        &format!("\"latency_ms\":{latency},\"prompt\""),
    );
    scratch.write("script.json", &slow);
    let names: Vec<String> = models
        .iter()
        .map(|model| format!("scripted:{model}"))
        .collect();
    let names = names.join(",");
    let args = collect(&names, "--n-tips 2 -j 2");

    let mut random = Random::new(1);
    let mut acknowledged: BTreeMap<String, String> = BTreeMap::new();
    let mut killed = 0;
    for _ in 0..kills {
        let mut child = scratch
            .command(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        std::thread::sleep(Duration::from_micros(random.number() % 60_000));
        killed += u64::from(child.try_wait().expect("a status").is_none());
        child.kill().expect("SIGKILL");
        let output = child.wait_with_output().expect("its output");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            // The last line may be cut off by the kill.
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            if event["event"] == "cell" && event["status"] == "collected" {
                let cell = format!(
                    "{} {} {}",
                    event["model"], event["prompt"], event["scenario"]
                );
                let run = event["run_id"].as_str().expect("id").to_owned();
                assert_eq!(
                    acknowledged.insert(cell.clone(), run),
                    None,
                    "{cell} was collected twice"
                );
            }
        }
    }
    assert!(
        killed > 0,
        "no kill met a living process: the test tests nothing"
    );
    scratch.ok(&args);

    let runs = scratch
        .ok("runs list --experiment e --limit 0 --json")
        .json();
    let mut cells: BTreeMap<String, String> = BTreeMap::new();
    for run in runs["runs"].as_array().expect("runs") {
        let cell = format!(
            "{} {} {}",
            run["params"]["model"], run["params"]["prompt"], run["params"]["scenario"]
        );
        let id = run["run_id"].as_str().expect("id").to_owned();
        assert_eq!(
            cells.insert(cell.clone(), id),
            None,
            "{cell} is there twice"
        );
        assert_eq!(run["metrics"]["n_candidates"], 2.0);
    }
    assert_eq!(cells.len(), 4 * 3 * 8);
    for (cell, run) in &acknowledged {
        assert_eq!(
            cells.get(cell),
            Some(run),
            "{cell} was acknowledged and is lost"
        );
    }
    eprintln!(
        "{killed} of {kills} kills met a living collector; {} cells were acknowledged before them",
        acknowledged.len()
    );
}
