//! Jobs of `assize serve` against stand-in Ollama hosts: one at a time in a host's memory, and
//! nothing stays loaded or "running" when processes die.

use serde_json::{Value, json};

use assize_test_support::jobs::{id_of, job, kill_job, wait};
use assize_test_support::ollama_stand_in::{OllamaStandIn, StandInModel};
use assize_test_support::server::Served;
use assize_test_support::{Scratch, write_small_task};

const ALPHA: &str = "alpha:0.5b";
const BETA: &str = "beta:1b";

fn host() -> OllamaStandIn {
    OllamaStandIn::start(vec![
        StandInModel::new(ALPHA, 494_032_768, &["Take a walk."]),
        StandInModel::new(BETA, 999_885_952, &["Drink some water."]),
    ])
}

fn serve(scratch: &Scratch, host: &OllamaStandIn) -> Served {
    scratch.write(
        "assize.toml",
        &format!("ollama_url = [\"{}\"]\n", host.url()),
    );
    Served::start_with(scratch, "serve --port 0 --json --task ./task")
}

fn run(served: &Served, model: &str) -> String {
    let body = json!({"models": [model], "experiment": "e", "n_tips": 1});
    id_of(&served.send("POST /api/bench/run", body.to_string().as_bytes()))
}

fn is_over(job: &Value) -> bool {
    job["finished_at"].is_string()
}

#[test]
fn two_jobs_never_share_a_host_s_memory() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 3);
    let host = host();
    let served = serve(&scratch, &host);
    host.pause_after(1);
    let first = run(&served, ALPHA);
    host.wait_for_completions(1);
    let second = run(&served, BETA);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(
        job(&served, &second)["status"],
        "queued",
        "the host is taken"
    );
    host.resume();
    for id in [&first, &second] {
        let over = wait(&served, id, is_over);
        assert_eq!(over["status"], "done", "{over}");
    }
    assert_eq!(host.most_held_at_once(), 1);
    assert!(host.held_now().is_empty(), "everything was unloaded");
}

#[test]
fn a_cancelled_job_unloads_its_model() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 3);
    let host = host();
    let served = serve(&scratch, &host);
    host.pause_after(2);
    let id = run(&served, ALPHA);
    host.wait_for_completions(2);
    let reply = served.send(&format!("POST /api/bench/jobs/{id}/cancel"), b"");
    assert_eq!(reply.status, 202, "{reply:?}");
    host.resume();
    let over = wait(&served, &id, is_over);
    assert_eq!(over["status"], "cancelled", "{over}");
    assert!(host.held_now().is_empty(), "it was unloaded");
}

#[test]
fn server_and_job_killed_at_once_leave_nothing_running_or_loaded() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 3);
    let host = host();
    let served = serve(&scratch, &host);
    host.pause_after(2);
    let id = run(&served, ALPHA);
    host.wait_for_completions(2);
    // Dropping kills the server with -9; then the job.
    drop(served);
    kill_job(&scratch);
    host.resume();
    // The dead man's switch: whatever was asked last lets the model go by itself.
    for call in host.completions() {
        assert_eq!(call.body["keep_alive"], json!(120), "{call:?}");
    }
    let served = serve(&scratch, &host);
    let over = job(&served, &id);
    assert_eq!(over["status"], "failed", "{over}");
    let again = id_of(&served.send(&format!("POST /api/bench/jobs/{id}/resume"), b""));
    let over = wait(&served, &again, is_over);
    assert_eq!(over["status"], "done", "{over}");
    let experiments = served.get("/api/bench/experiments").json();
    assert_eq!(experiments["experiments"][0]["runs"], 6, "{experiments}");
    assert_eq!(host.most_held_at_once(), 1);
    assert!(host.held_now().is_empty(), "the orphan was unloaded too");
}

#[test]
fn a_job_s_page_shows_its_hosts() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 3);
    let host = host();
    let served = serve(&scratch, &host);
    host.pause_after(2);
    let id = run(&served, ALPHA);
    host.wait_for_completions(3);
    let page = || String::from_utf8_lossy(&served.get(&format!("/jobs/{id}")).body).into_owned();
    let row = |state: &str, model: &str, cells: u32| {
        format!(
            "<bdi>{}</bdi></th><td class=\"text\">{state}</td><td class=\"text\"><bdi>{model}</bdi></td>\
             <td>{cells}</td><td>1</td><td>0</td>",
            host.url()
        )
    };
    wait(&served, &id, |job| job["cells"]["done"] == 2);
    let running = page();
    assert!(running.contains(&row("working", ALPHA, 2)), "{running}");
    host.resume();
    let over = wait(&served, &id, is_over);
    assert_eq!(over["status"], "done", "{over}");
    let done = page();
    assert!(done.contains(&row("done", "", 6)), "{done}");
}
