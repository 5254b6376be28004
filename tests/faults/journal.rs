//! Tracking servers that become unreachable while a collection runs, and collectors that are killed:
//! in the end the server has exactly the grid, every cell once.
//!
//! The server is `assize serve`, which restarts at once, and a real MLflow server.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use assize_test_support::limits::free_port;
use assize_test_support::mlflow::{Mlflow, tag};
use assize_test_support::running::Running;
use assize_test_support::server::Served;
use assize_test_support::{Scratch, script};
use serde_json::{Value, json};

/// A collector's folder, with scripted models that take their time.
fn collector(models: usize, latency_ms: u64) -> Scratch {
    let scratch = Scratch::new();
    let names: Vec<String> = (0..models).map(|n| format!("m{n}")).collect();
    let texts: Vec<(&str, &[&str])> = names
        .iter()
        .map(|name| (name.as_str(), &["one", "two"][..]))
        .collect();
    let slow = format!("\"latency_ms\":{latency_ms},\"prompt\"");
    scratch.write("script.json", &script(&texts).replace("\"prompt\"", &slow));
    scratch
}

fn collect(models: usize, url: &str) -> String {
    let names: Vec<String> = (0..models).map(|n| format!("scripted:m{n}")).collect();
    format!(
        "collect --models {} --n-tips 1 --script script.json --experiment e --json --tracking-uri {url}",
        names.join(",")
    )
}

fn cells_printed(stdout: &str) -> usize {
    stdout.matches("\"status\":\"collected\"").count()
}

/// How often something was said, wherever its lines were broken.
fn said(stderr: &str, words: &str) -> usize {
    let text: Vec<&str> = stderr.split_whitespace().collect();
    text.join(" ").matches(words).count()
}

fn serve(scratch: &Scratch, port: u16) -> Served {
    let words = format!("serve --port {port} --open-loopback --json");
    Served::start_with(scratch, &words)
}

/// The cells that a store holds, each once.
fn cells(list: &Value) -> BTreeSet<String> {
    let runs = list["runs"].as_array().expect("runs");
    let names: BTreeSet<String> = runs
        .iter()
        .map(|run| {
            assert_eq!(run["status"], "FINISHED", "{run}");
            format!(
                "{} {} {}",
                run["params"]["model"], run["params"]["prompt"], run["params"]["scenario"]
            )
        })
        .collect();
    assert_eq!(names.len(), runs.len(), "a cell is there twice");
    names
}

const LIST: &str = "runs list --experiment e --limit 0 --json";

#[test]
fn a_server_that_restarts_in_the_middle_gets_exactly_the_grid() {
    let (home, scratch) = (Scratch::new(), collector(4, 150));
    let port = free_port();
    let served = serve(&home, port);
    let line = collect(4, &served.url);
    let mut running = Running::start(&scratch, "collect", &line);
    running.wait_for_stdout(|out| cells_printed(out) >= 5);
    drop(served);
    running.wait_for_stderr(|err| said(err, "is unreachable") > 0);
    let served = serve(&home, port);
    let outcome = running.finish();
    assert_eq!(outcome.code, 0, "{outcome}");
    let summary = outcome.summary();
    assert_eq!(summary["collected"], 4 * 3 * 8, "{outcome}");
    assert_eq!(summary["undelivered"], 0);
    assert_eq!(said(&outcome.stderr, "is unreachable"), 1, "{outcome}");
    assert_eq!(said(&outcome.stderr, "answers again; "), 1, "{outcome}");
    assert_eq!(cells(&home.ok(LIST).json()).len(), 4 * 3 * 8);

    let again = scratch.ok(&line);
    assert_eq!(again.summary()["skipped"], 4 * 3 * 8, "{again}");
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn without_a_server_everything_is_kept_and_the_next_command_delivers() {
    let (home, scratch) = (Scratch::new(), collector(2, 0));
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let line = collect(2, &url);
    let outcome = scratch.fails(1, &line);
    let summary = outcome.summary();
    assert_eq!(summary["collected"], 48, "{outcome}");
    assert_eq!(summary["undelivered"], 48);
    let lines = outcome.json_lines();
    assert!(lines[..48].iter().all(|cell| cell["run_id"] == json!(null)));
    assert_eq!(said(&outcome.stderr, "48 cells wait"), 1, "{outcome}");

    // What waits is not generated again.
    let again = scratch.fails(1, &line);
    assert_eq!(again.summary()["skipped"], 48, "{again}");
    let judging = format!("judge status --experiment e --tracking-uri {url}");
    assert!(scratch.fails(1, &judging).stderr.contains(&url));
    let outcome = scratch.fails(1, "sync --json");
    assert_eq!(outcome.json(), json!({"delivered": 0, "waiting": 48}));

    let served = serve(&home, port);
    let status = scratch.ok(&format!("{judging} --json"));
    assert_eq!(said(&status.stderr, "Delivered 48 cells"), 1, "{status}");
    assert_eq!(cells(&home.ok(LIST).json()).len(), 48);
    assert_eq!(
        scratch.ok("sync --json").json(),
        json!({"delivered": 0, "waiting": 0})
    );
    assert_eq!(scratch.ok(&line).summary()["skipped"], 48);
    drop(served);
}

#[test]
fn sync_without_flags_delivers_to_every_journaled_server() {
    let (home, scratch) = (Scratch::new(), collector(1, 0));
    let port = free_port();
    scratch.fails(1, &collect(1, &format!("http://127.0.0.1:{port}")));
    let _served = serve(&home, port);
    let delivered = scratch.ok("sync --json").json();
    assert_eq!(delivered, json!({"delivered": 24, "waiting": 0}));
    assert_eq!(cells(&home.ok(LIST).json()).len(), 24);
}

/// It takes half a minute to believe it.
#[test]
fn a_server_that_never_answers_is_unreachable() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    std::thread::spawn(move || silent.incoming().collect::<Vec<_>>());
    let scratch = collector(1, 0);
    let line = collect(1, &format!("http://127.0.0.1:{port}"));
    let outcome = scratch.fails(1, line.as_str());
    assert_eq!(said(&outcome.stderr, "is unreachable"), 1, "{outcome}");
    let summary = outcome.summary();
    assert_eq!(
        (&summary["collected"], &summary["undelivered"]),
        (&json!(24), &json!(24))
    );
}

#[test]
fn collectors_and_servers_killed_anywhere_end_with_exactly_the_grid() {
    let (home, scratch) = (Scratch::new(), collector(2, 40));
    let port = free_port();
    let line = collect(2, &format!("http://127.0.0.1:{port}"));
    let mut killed = 0;
    for (turn, pause_ms) in [300, 150, 600, 250, 450, 200].into_iter().enumerate() {
        // Every other collector finds the server unreachable, or it becomes so.
        let served = serve(&home, port);
        let mut child = scratch
            .command(&line)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        if turn % 2 == 1 {
            std::thread::sleep(Duration::from_millis(60));
            drop(served);
            std::thread::sleep(Duration::from_millis(pause_ms));
        } else {
            std::thread::sleep(Duration::from_millis(pause_ms));
            drop(served);
        }
        killed += u64::from(child.try_wait().expect("a status").is_none());
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
    }
    assert!(killed > 0, "no kill met a living collector");
    let _served = serve(&home, port);
    scratch.ok(&line);
    let finished = home.ok(LIST).json();
    assert_eq!(cells(&finished).len(), 48);
    eprintln!("{killed} of 6 kills met a living collector");
}

/// The finished runs of the experiment, as a real server has them, by cell.
fn finished(server: &Mlflow) -> BTreeSet<String> {
    let runs = server.runs("e");
    let finished: Vec<&Value> = runs
        .iter()
        .filter(|run| run["info"]["status"] == "FINISHED")
        .collect();
    let keys: BTreeSet<String> = finished
        .iter()
        .map(|run| tag(run, "cell_key").expect("a key").to_owned())
        .collect();
    assert_eq!(keys.len(), finished.len(), "a cell is there twice");
    keys
}

#[test]
fn a_real_server_that_is_killed_and_restarted_gets_exactly_the_grid() {
    let Some(mut server) = Mlflow::usual() else {
        return;
    };
    let scratch = collector(2, 300);
    let line = collect(2, &server.url);
    let mut running = Running::start(&scratch, "collect", &line);
    running.wait_for_stdout(|out| cells_printed(out) >= 4);
    server.kill();
    running.wait_for_stderr(|err| said(err, "is unreachable") > 0);
    server.restart();
    // It may have ended before the server was back; then the next command delivers.
    let outcome = running.finish();
    assert_eq!(outcome.summary()["collected"], 48, "{outcome}");
    assert_eq!(outcome.summary()["failed"], 0, "{outcome}");
    let again = scratch.ok(&line);
    assert_eq!(again.summary()["skipped"], 48, "{again}");
    assert_eq!(again.summary()["undelivered"], 0, "{again}");
    assert_eq!(finished(&server).len(), 48);
}
