//! From decisions over HTTP to a promoted policy: status, gate, rollout, evaluation, exports,
//! scenarios from the log, the alarm, the panel's page and the clients.

use std::process::Command;
use std::time::Duration;

use assize_test_support::Scratch;
use assize_test_support::server::{Reply, Served};
use serde_json::{Value, json};

const SETTINGS: &str = "[policy.shadows.egreedy-v2-shadow]\npolicy = \"egreedy-v2\"\nenabled = true\n\
     [policy.gate]\nleast_shadow_decisions = 200\nleast_shadow_users = 20\n";

struct Site {
    scratch: Scratch,
    served: Served,
}

impl Site {
    fn new(settings: &str) -> Self {
        let scratch = Scratch::new();
        scratch.write("assize.toml", settings);
        let served = Served::start(&scratch);
        Self { scratch, served }
    }

    /// Decisions of many users, each with a reward where one is given.
    fn traffic(&self, decisions: usize, reward: impl Fn(usize, &str) -> Option<f64>) {
        for n in 0..decisions {
            let request = json!({
                "user_id": format!("user-{}", n % 40),
                "context": {"hour": n % 24, "weekend": n % 7 > 4, "urgency": 0.5, "mail": "x@y.z"},
                "profile_features": {"completion_rate": 0.5, "tip_volume": n},
                "candidates": [
                    {"id": "a", "arm": "break", "task_match": 0.2, "prompt": "v1"},
                    {"id": "b", "arm": "focus", "task_match": 0.8, "prompt": "v2"},
                ],
                "seed": n,
            });
            let answer = self.post("/recommend", &request);
            assert_eq!(answer.status, 200, "{answer:?}");
            let decision = answer.json();
            let chosen = decision["chosen"].as_str().expect("a choice");
            if let Some(reward) = reward(n, chosen) {
                let body = json!({"decision_id": decision["decision_id"], "reward": reward});
                let rewarded = self.post("/reward", &body);
                assert_eq!(rewarded.status, 200, "{rewarded:?}");
            }
        }
    }

    fn post(&self, path: &str, body: &Value) -> Reply {
        let line = format!("POST {path}");
        self.served.send(&line, body.to_string().as_bytes())
    }

    fn policy(&self, line: &str) -> Value {
        self.scratch
            .ok(format!("policy {line} --json").as_str())
            .json()
    }

    /// Asks until the answer is as wanted, because the server follows the history by a timer.
    fn wait(&self, path: &str, what: impl Fn(&Value) -> bool) -> Value {
        let mut answer = Value::Null;
        for _ in 0..200 {
            answer = self.served.get(path).json();
            if what(&answer) {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(what(&answer), "{path} never answered as wanted: {answer}");
        answer
    }
}

#[test]
fn a_policy_is_promoted_by_the_gate_and_rolled_back() {
    let site = Site::new(SETTINGS);
    site.traffic(60, |n, chosen| {
        Some(if chosen == "b" {
            1.0
        } else {
            f64::from(n % 3 == 0)
        })
    });
    let refused = site.scratch.fails(3, "policy promote egreedy-v2 --dry-run");
    for words in ["scored as a shadow", "FAILED"] {
        assert!(refused.stdout.contains(words), "{words}: {refused}");
    }
    assert!(
        refused.stdout.lines().all(|it| it.chars().count() <= 100),
        "{refused}"
    );
    assert_eq!(site.policy("history")["entries"], json!([]));

    // The shadow has started before there was anything to learn from, so it is started anew.
    site.policy("shadow egreedy-v2-shadow off");
    site.policy("shadow egreedy-v2-shadow on --reason again");
    site.wait("/stats", |it| it["shadows"][0]["enabled"] == true);
    site.traffic(300, |n, chosen| {
        (n % 2 == 0).then(|| f64::from(chosen == "b"))
    });
    let bad = site.scratch.fails(3, "policy promote linucb");
    assert!(bad.stdout.contains("FAILED"), "{bad}");
    let status = site.policy("status");
    assert_eq!(status["active"], "egreedy-v1", "{status}");
    assert_eq!(status["shadows"][0]["enabled"], true, "{status}");

    // Signals are written shortly after the answers.
    site.wait("/stats", |it| {
        it["shadows"][0]["trained"].as_u64() >= Some(200)
    });
    let promoted = site.policy("promote egreedy-v2 --reason better");
    assert_eq!(promoted["gate"]["passed"], true, "{promoted}");
    assert_eq!(promoted["entry"]["action"], "promote", "{promoted}");
    site.wait("/stats", |it| it["active"] == "egreedy-v2");
    // A promoted policy starts from the log: a user who always rewarded b gets b.
    site.traffic(10, |_, _| None);
    let page = site.served.get("/policies");
    let text = String::from_utf8_lossy(&page.body).into_owned();
    assert!(text.contains("egreedy-v2 is active"), "{text}");

    site.policy("rollback --reason complaints");
    site.wait("/stats", |it| it["active"] == "egreedy-v1");
    let history = site.policy("history");
    let actions: Vec<&str> = history["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|it| it["action"].as_str())
        .collect();
    assert_eq!(
        actions,
        ["disable-shadow", "enable-shadow", "promote", "rollback"]
    );
    let none = site.scratch.fails(2, "policy rollback");
    assert!(none.stderr.contains("first active policy"), "{none}");
    let table = site.scratch.ok("policy history");
    assert!(table.stdout.contains("complaints"), "{table}");
}

#[test]
fn of_several_promotions_at_once_one_is_recorded() {
    let none = "least_shadow_decisions = 0\nleast_shadow_users = 0\n";
    let site = Site::new(&format!("[policy.gate]\n{none}"));
    site.traffic(30, |_, _| Some(0.5));
    let started: Vec<_> = (0..3)
        .map(|_| {
            let mut command = site.scratch.command("policy promote egreedy-v2 --json");
            command.stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::piped());
            command.spawn().expect("the binary runs")
        })
        .collect();
    let done = started
        .into_iter()
        .map(std::process::Child::wait_with_output);
    let succeeded = done.filter(|it| it.as_ref().is_ok_and(|it| it.status.success()));
    assert_eq!(succeeded.count(), 1);
    let history = site.policy("history");
    assert_eq!(history["entries"].as_array().map(Vec::len), Some(1));
    site.policy("rollback");
    assert_eq!(site.policy("status")["active"], "egreedy-v1");
}

#[test]
fn what_could_not_be_read_back_is_refused() {
    let site = Site::new("");
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    for bad in [deep.as_str(), "1e999", "\"\\ud800\""] {
        for body in [
            format!(r#"{{"user_id":"u","context":{{"x":{bad}}},"candidates":[{{"id":"a"}}]}}"#),
            format!(r#"{{"user_id":"u","candidates":[{{"id":"a","x":{bad}}}]}}"#),
        ] {
            let refused = site.served.send("POST /recommend", body.as_bytes());
            assert_eq!(refused.status, 400, "{body}: {refused:?}");
        }
    }
    site.scratch.ok("policy export -o log.jsonl");
    assert_eq!(site.scratch.read("log.jsonl"), "");
}

#[test]
fn the_log_is_evaluated_exported_and_sampled() {
    let site = Site::new("[policy.egreedy-v1]\nepsilon = 0.5\n");
    site.traffic(40, |_, chosen| Some(f64::from(chosen == "b")));
    let small = site.scratch.fails(3, "policy evaluate linucb");
    assert!(small.stdout.contains("cannot be evaluated"), "{small}");
    site.traffic(460, |_, chosen| Some(f64::from(chosen == "b")));
    let found = site.policy("evaluate egreedy-v1");
    let dr = &found["evaluation"]["estimates"]["dr"];
    let logged = found["evaluation"]["logged"].as_f64().expect("a mean");
    assert!(dr["low"].as_f64() < Some(logged + 0.1), "{found}");
    assert!(dr["high"].as_f64() > Some(logged - 0.1), "{found}");

    site.scratch.ok("policy export -o log.jsonl");
    let lines = site.scratch.read("log.jsonl");
    assert_eq!(lines.lines().count(), 500);
    let first: Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["context"]["mail"], "x@y.z", "{first}");
    assert_eq!(first["candidates"].as_array().map(Vec::len), Some(2));
    site.scratch.ok("policy export --format csv -o log.csv");
    assert_eq!(site.scratch.read("log.csv").lines().count(), 501);
    let vw = site.scratch.ok("policy export --format vw").stdout;
    assert_eq!(vw.matches("shared |c ").count(), 500, "one block each");
    assert_eq!(vw.lines().filter(|it| it.starts_with("0:")).count(), 500);

    for name in ["toml", "jsonl"] {
        scenarios_are_sampled(&site, name);
    }
    site.scratch
        .write("own/task.toml", "name = \"own\"\nscenarios = \"s.csv\"\n");
    site.scratch.write("own/s.csv", "id,hour\ns1,3\n");
    let broken = site.scratch.fails(2, "policy sample own --most 5");
    assert!(broken.stderr.contains(".toml or .jsonl"), "{broken}");
}

/// Samples into a task whose scenarios are in a file with this ending.
fn scenarios_are_sampled(site: &Site, ending: &str) {
    let file = format!("own/scenarios.{ending}");
    task_of_contexts(&site.scratch, ending);
    let before = site.scratch.read(&file);
    let planned = site.policy("sample own --most 5 --redact mail --dry-run");
    assert_eq!(planned["scenarios"].as_array().map(Vec::len), Some(5));
    assert_eq!(site.scratch.read(&file), before);
    let sampled = site.policy("sample own --most 5 --redact mail");
    assert_eq!(sampled["scenarios"].as_array().map(Vec::len), Some(5));
    let after = site.scratch.read(&file);
    assert!(after.starts_with(&before), "{after}");
    assert!(!after.contains("x@y.z"), "redacted: {after}");
    assert_eq!(after.matches("\"feedback\"").count(), 5, "{after}");
    site.scratch.ok("validate own");
    // Contexts that are in the file already are left out.
    let again = site.policy("sample own --most 500 --redact mail --dry-run");
    for scenario in again["scenarios"].as_array().expect("a list") {
        let id = scenario["id"].as_str().expect("an id");
        assert!(!after.contains(id), "{id} twice");
    }
    // Without the field that the prompt uses the task would be invalid, so nothing is written.
    let refused = site
        .scratch
        .fails(2, "policy sample own --most 3 --redact hour,mail");
    assert_eq!(site.scratch.read(&file), after, "{refused}");
}

/// A task whose scenarios are contexts of decisions.
fn task_of_contexts(scratch: &Scratch, ending: &str) {
    let task = format!("name = \"own\"\nscenarios = \"scenarios.{ending}\"\n");
    scratch.write("own/task.toml", &task);
    let anchors = "1 = \"a\"\n2 = \"b\"\n";
    scratch.write(
        "own/rubric.md",
        &format!(
            "+++\nid = \"own-v1\"\ncomposite = \"worth\"\n[[criteria]]\nname = \"worth\"\nmin = 1\n\
             max = 2\n[criteria.anchors]\n{anchors}+++\nJudge it.\n"
        ),
    );
    scratch.write("own/prompts/p1.md", "It is {{ hour }}. Say something.\n");
    let scenario = if ending == "toml" {
        "[[scenario]]\nid = \"s1\"\nhour = 3\nweekend = false\nurgency = 0.5\n"
    } else {
        "{\"id\": \"s1\", \"hour\": 3, \"weekend\": false, \"urgency\": 0.5}\n"
    };
    scratch.write(&format!("own/scenarios.{ending}"), scenario);
}

#[test]
fn an_alarm_rolls_back_where_that_is_configured() {
    let alarm = "[policy.alarm]\nbound = 0.3\nwindow = 20\nrollback = true\n";
    let site = Site::new(&format!("{SETTINGS}{alarm}"));
    site.traffic(60, |_, _| Some(0.9));
    site.policy("shadow egreedy-v2-shadow off");
    site.policy("shadow egreedy-v2-shadow on");
    site.wait("/stats", |it| it["shadows"][0]["enabled"] == true);
    site.traffic(250, |_, _| Some(0.9));
    // Signals are written shortly after the answers.
    site.wait("/stats", |it| {
        it["shadows"][0]["trained"].as_u64() >= Some(200)
    });
    site.policy("promote egreedy-v2");
    site.wait("/stats", |it| it["active"] == "egreedy-v2");
    site.traffic(30, |_, _| Some(0.0));
    site.wait("/stats", |it| it["active"] == "egreedy-v1");
    let history = site.policy("history");
    let last = history["entries"].as_array().and_then(|it| it.last());
    let last = last.expect("an entry");
    assert_eq!(last["action"], "automatic-rollback", "{last}");
    assert!(
        last["reason"].as_str().is_some_and(|it| it.contains("0.3")),
        "{last}"
    );
}

#[test]
fn a_simulation_over_http_makes_the_same_choices() {
    let site = Site::new("");
    let url = format!("http://{}", site.served.authority());
    let line = "simulate --steps 40 --seeds 1 --no-sensitivity --no-track --json";
    let here = site.scratch.ok(line).json();
    let mut command = site.scratch.command(&format!("{line} --via {url}"));
    command.env("ASSIZE_TOKEN", &site.served.token);
    let output = command.output().expect("the binary runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let there: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(there["simulations"], here["simulations"]);
    // The simulated users are gone afterwards.
    let stats = site.served.get("/stats").json();
    assert_eq!(stats["policies"][0]["decisions"], 0, "{stats}");
}

#[test]
fn the_example_clients_work() {
    let site = Site::new("");
    let url = format!("http://{}", site.served.authority());
    let run = |program: &str, file: &str| {
        let mut command = Command::new(program);
        command.arg(file).arg("grace");
        command.env("ASSIZE_URL", &url);
        command.env("ASSIZE_TOKEN", &site.served.token);
        command.output()
    };
    let examples = assize_test_support::root().join("examples/clients");
    let examples = examples.display();
    match run("python3", &format!("{examples}/tips.py")) {
        Ok(done) => {
            let text = String::from_utf8_lossy(&done.stdout).into_owned();
            assert!(
                text.contains("egreedy-v1 shows:") && text.contains("rewarded"),
                "{done:?}"
            );
        }
        Err(_) => eprintln!("SKIPPED: python3 is not installed, so its client was not run"),
    }
    let folder = site.scratch.file("js");
    let compiled = Command::new("tsc")
        .args(["--target", "es2022", "--lib", "es2022,dom", "--outDir"])
        .arg(&folder)
        .arg(format!("{examples}/tips.ts"))
        .output();
    if let Ok(compiled) = compiled {
        assert!(compiled.status.success(), "{compiled:?}");
        let file = folder.join("tips.js");
        let done = run("node", &file.display().to_string()).expect("node runs");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(
            text.contains("egreedy-v1 shows:") && text.contains("rewarded"),
            "{done:?}"
        );
    } else {
        eprintln!("SKIPPED: tsc is not installed, so the TypeScript client was not run");
    }
}
