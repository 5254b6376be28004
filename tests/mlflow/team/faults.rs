//! Runs that cannot be read, a server that is slow to answer, and leases of other machines.

use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use assize_domain::judge::Tier;
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_test_support::{script, write_small_task};

use super::*;

/// The number of runs of an experiment that the panel knows.
fn runs(served: &Served, experiment: &str) -> Value {
    let listed = served.get("/api/bench/experiments").json();
    let all = listed["experiments"].as_array().cloned().expect("a list");
    let found = all.into_iter().find(|it| it["name"] == experiment);
    found.map_or(Value::Null, |it| it["runs"].clone())
}

/// The files of this name below a folder.
fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, name));
        } else if path.file_name().is_some_and(|it| it == name) {
            found.push(path);
        }
    }
    found
}

/// A task with two scenarios. A field of the first is too long for a param of MLflow, so its runs
/// have a file for it.
fn with_a_long_scenario() -> Scratch {
    let scratch = Scratch::new();
    write_small_task(&scratch, 2);
    let long = json!({"id": "s0", "topic": "very ".repeat(2_000)});
    let short = json!({"id": "s1", "topic": "sleep"});
    scratch.write("task/scenarios.jsonl", &format!("{long}\n{short}"));
    scratch.write("script.json", &script(&[("m", &["Walk now."])]));
    scratch
}

#[test]
fn a_run_that_cannot_be_read_is_shown_and_read_later_and_the_others_are_followed() {
    let Some(server) = Mlflow::usual() else {
        return;
    };
    let elsewhere = with_a_long_scenario();
    server.adopt(&elsewhere);
    let collect = |experiment: &str| {
        let line = format!(
            "collect --task task --models scripted:m --script script.json --n-tips 1 --prompts p1 \
             --experiment {experiment}"
        );
        elsewhere.ok(line.as_str());
    };
    collect("e");
    let overflow = files(server.folder(), "more.json");
    assert_eq!(overflow.len(), 1, "{overflow:?}");
    let content = std::fs::read(&overflow[0]).expect("a file");
    std::fs::remove_file(&overflow[0]).expect("a file is removed");

    let folder = with_a_long_scenario();
    let served = serve_again(&server, &folder);
    wait_complete(&served);
    assert_eq!(health(&served)["copy"]["skipped"], 1);
    assert_eq!(health(&served)["mlflow"], "ok");
    assert_eq!(runs(&served, "e"), 1);
    let (_, text) = page(&served, &served.token, "GET /", "");
    assert!(text.contains("1 run on"), "{text}");
    assert!(text.contains("more.json"), "{text}");

    // The others are followed, and can be judged.
    collect("late");
    wait(Duration::from_secs(10), "a run from elsewhere", || {
        runs(&served, "late") == 2
    });
    let judge = token_new(&folder, "judge");
    assert_eq!(cases(&next(&served, &judge, 9)).len(), 1);

    std::fs::write(&overflow[0], b"{").expect("a broken file");
    std::thread::sleep(Duration::from_secs(20));
    assert_eq!(health(&served)["copy"]["skipped"], 1);
    std::fs::write(&overflow[0], content).expect("the file is there again");
    wait(Duration::from_mins(1), "another attempt", || {
        health(&served)["copy"]["skipped"] == 0 && runs(&served, "e") == 2
    });
}

#[test]
fn a_lease_is_seen_by_the_other_server_s_copy() {
    let Some(server) = Mlflow::usual() else {
        return;
    };
    let elsewhere = promotion_task::scratch(promotion_task::ahead);
    server.adopt(&elsewhere);
    promotion_task::collect(&elsewhere, "--n-scenarios 2");
    let (first_folder, first) = serve(&server);
    let (second_folder, second) = serve(&server);
    wait_complete(&first);
    wait_complete(&second);
    let judge = token_new(&first_folder, "judge");
    assert_eq!(cases(&next(&first, &judge, 6)).len(), 6);

    let copies = second_folder.path().join(".assize/copies");
    let copies = std::fs::read_dir(copies).expect("a folder").flatten();
    let mut copies = copies.map(|it| it.path());
    let copy = copies.find(|it| it.extension().is_some_and(|it| it == "db"));
    let copy = EmbeddedStore::open(&copy.expect("a copy"), || 1, random_run_id).expect("a store");
    wait(Duration::from_secs(10), "a lease from elsewhere", || {
        let holders = copy.mirror_lease_holders("e", Tier::Expert);
        holders.expect("holders").len() == 3
    });
}

#[test]
fn a_judge_sees_no_results_until_open_sittings_are_known() {
    let Some(server) = Mlflow::usual() else {
        return;
    };
    let elsewhere = promotion_task::scratch(promotion_task::ahead);
    server.adopt(&elsewhere);
    promotion_task::collect(&elsewhere, "--n-scenarios 2");
    let named = |folder: &Scratch, name: &str| {
        let made = folder.ok(format!("token create --role judge --name {name} --json").as_str());
        made.json()["token"].as_str().expect("a token").to_owned()
    };
    let (first_folder, first) = serve(&server);
    wait_complete(&first);
    let ana = named(&first_folder, "ana");
    assert_eq!(next(&first, &ana, 1).status, 200);
    drop(first);

    let gate = Gate::before(&server);
    let folder = promotion_task::scratch(promotion_task::ahead);
    let served = serve_at(&gate.url, &folder);
    let (ana, bob) = (named(&folder, "ana"), named(&folder, "bob"));
    let status = |token: &str, path: &str| page(&served, token, &format!("GET {path}"), "").0;
    let results = [
        "/",
        "/experiments/e",
        "/api/bench/leaderboard/e",
        "/api/bench/runs/e",
    ];
    for path in results {
        assert_eq!(status(&ana, path), 503, "{path}");
        assert_eq!(status(&bob, path), 503, "{path}");
    }
    assert_eq!(status(&served.token, "/"), 200);
    assert_eq!(health(&served)["copy"]["complete"], false);

    gate.open();
    wait(Duration::from_secs(30), "the first reading", || {
        status(&bob, "/api/bench/runs/e") == 200
    });
    for path in results {
        assert_eq!(status(&ana, path), 403, "{path}");
    }
}

/// A proxy that holds searches for runs back until it is opened.
struct Gate {
    url: String,
    state: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    fn before(server: &Mlflow) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let (shared, port) = (Arc::clone(&state), server.port);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let back = (upstream.try_clone(), client.try_clone());
                let (Ok(mut from_server), Ok(mut to_client)) = back else {
                    continue;
                };
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from_server, &mut to_client);
                    let _ = to_client.shutdown(Shutdown::Both);
                });
                let state = Arc::clone(&shared);
                std::thread::spawn(move || forward(client, upstream, &state));
            }
        });
        Self { url, state }
    }

    fn open(&self) {
        *self.state.0.lock().expect("a lock") = true;
        self.state.1.notify_all();
    }
}

fn forward(mut client: TcpStream, mut upstream: TcpStream, gate: &(Mutex<bool>, Condvar)) {
    let mut buffer = [0; 16_384];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let search = b"/runs/search";
        if buffer[..count].windows(search.len()).any(|it| it == search) {
            let is_open = gate.0.lock().expect("a lock");
            let waited = gate.1.wait_while(is_open, |it| !*it);
            drop(waited.expect("a lock"));
        }
        if upstream.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = upstream.shutdown(Shutdown::Both);
}
