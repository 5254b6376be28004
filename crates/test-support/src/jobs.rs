//! Jobs of a running server, as the tests see them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Scratch;
use super::server::{Reply, Served};

/// A server that allows the script of the test.
pub fn serve(scratch: &Scratch) -> Served {
    Served::start_with(scratch, "serve --port 0 --json --allow script.json")
}

/// Asks for a small collection; `more` replaces fields of the request.
pub fn run(served: &Served, more: &Value) -> Reply {
    let mut body = json!({"models": ["scripted:a"], "script": "script.json", "experiment": "e",
                          "n_tips": 1, "n_scenarios": 4, "prompts": ["v1"]});
    for (key, value) in more.as_object().expect("fields") {
        body[key] = value.clone();
    }
    served.send("POST /api/bench/run", body.to_string().as_bytes())
}

pub fn job(served: &Served, id: &str) -> Value {
    served.get(&format!("/api/bench/jobs/{id}")).json()
}

/// Waits until a job is as it should be.
pub fn wait(served: &Served, id: &str, what: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let job = job(served, id);
        if what(&job) {
            return job;
        }
        assert!(started.elapsed() < Duration::from_mins(1), "{job}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub fn id_of(reply: &Reply) -> String {
    assert_eq!(reply.status, 202, "{reply:?}");
    let body = reply.json();
    assert_eq!(body["status"], "queued");
    body["job_id"].as_str().expect("an id").to_owned()
}

/// Kills the collection that works in this folder, with -9.
pub fn kill_job(scratch: &Scratch) {
    let folder = scratch.path().canonicalize().expect("a folder");
    let mut killed = 0;
    for entry in std::fs::read_dir("/proc").expect("processes").flatten() {
        let path = entry.path();
        let works_here = std::fs::read_link(path.join("cwd")).is_ok_and(|it| it == folder);
        let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let is_collect = words.split(|it| *it == 0).any(|it| it == b"collect");
        if works_here && is_collect {
            let pid = entry.file_name().to_string_lossy().into_owned();
            let sent = std::process::Command::new("kill")
                .args(["-9", &pid])
                .status();
            assert!(sent.expect("kill runs").success());
            killed += 1;
        }
    }
    assert_eq!(killed, 1, "one collection works here");
}
