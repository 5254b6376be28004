//! `assize serve`, byte by byte: who may come in, what is refused, and how.

use std::io::{BufRead as _, Read as _, Write as _};

use serde_json::{Value, json};

use assize_test_support::server::Served;
use assize_test_support::{Scratch, cells, collect, script};

#[test]
fn nobody_comes_in_by_accident() {
    let scratch = Scratch::new();
    let refused = scratch.fails(2, "serve --port 0 --host 0.0.0.0");
    assert!(refused.stderr.contains("--allow-remote"), "{refused}");
    let refused = scratch.fails(
        2,
        "serve --port 0 --host 0.0.0.0 --allow-remote --open-loopback",
    );
    assert!(refused.stderr.contains("--open-loopback"), "{refused}");
}

#[test]
fn hosts_origins_and_tokens_are_checked() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let host = format!("Host: {}", served.authority());
    let token = format!("Authorization: Bearer {}", served.token);
    let experiment = "GET /api/2.0/mlflow/experiments/get?experiment_id=0";
    let status = |headers: &[&str]| served.raw(experiment, headers, b"").status;
    assert_eq!(status(&[&host, &token]), 200);
    assert_eq!(status(&[&host]), 401);
    assert_eq!(status(&[&host, &token[..token.len() - 1]]), 401);
    assert_eq!(status(&[&host, "Authorization: Basic YTpi"]), 401);
    assert_eq!(status(&["Host: evil.example", &token]), 403);
    assert_eq!(status(&["Host: localhost.evil.example:80", &token]), 403);
    assert_eq!(status(&["Host: localhost:9", &token]), 200);
    assert_eq!(status(&[&host, &token, "Origin: http://evil.example"]), 403);
    assert_eq!(status(&[&host, &token, "Origin: null"]), 403);
    let own = format!("Origin: {}", served.url);
    assert_eq!(status(&[&host, &token, &own]), 200);
    // Nothing about what is tracked, but a probe may ask.
    let health = served.raw("GET /health", &[&host], b"").json();
    assert_eq!(
        (&health["status"], &health["store"]),
        (&json!("OK"), &json!("ok"))
    );
    assert_eq!(
        served
            .raw("GET /health", &["Host: evil.example"], b"")
            .status,
        403
    );
}

#[test]
fn an_open_loopback_needs_no_token_and_still_no_foreign_page() {
    let scratch = Scratch::new();
    let served = Served::start_with(&scratch, "serve --port 0 --json --open-loopback");
    let host = format!("Host: {}", served.authority());
    let create = "POST /api/2.0/mlflow/experiments/create";
    let body = br#"{"name": "x"}"#;
    let status = |kind: &str| served.raw(create, &[&host, kind], body).status;
    // What a form on another site could send without asking.
    assert_eq!(status("Content-Type: text/plain"), 400);
    assert_eq!(status("Content-Type: application/json"), 200);
}

#[test]
fn the_first_token_is_shown_however_the_first_start_went() {
    let scratch = Scratch::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let busy = scratch.fails(1, format!("serve --port {port} --json").as_str());
    assert!(busy.stderr.contains(&port.to_string()), "{busy}");
    // The admin's would have had this name.
    scratch.ok("token create --role judge --name tester");
    let served = Served::start(&scratch);
    assert_eq!(served.get("/api/bench/jobs").status, 200);
    let tokens = scratch.ok("token list --json").json();
    let admins = tokens["tokens"].as_array().expect("tokens").iter();
    let admins = admins.filter(|it| it["role"] == "admin").count();
    assert_eq!(admins, 1, "{tokens}");
}

#[test]
fn a_refusal_leaves_the_connection_as_it_was() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let mut stream = std::net::TcpStream::connect(served.authority()).expect("a connection");
    let head = |line: &str, length: usize| {
        format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n\r\n",
            served.authority(),
            served.token
        )
    };
    let mut answers = std::io::BufReader::new(stream.try_clone().expect("a reader"));
    for (line, status) in [
        ("POST /v1/traces", "501"),
        ("POST /nope", "404"),
        ("PUT /health", "405"),
        ("GET /api/bench/jobs", "200"),
    ] {
        stream.write_all(head(line, 9).as_bytes()).expect("sent");
        // The body comes after the answer could have been given.
        std::thread::sleep(std::time::Duration::from_millis(20));
        stream.write_all(b"{\"a\": 1}\n").expect("sent");
        let mut first = String::new();
        answers.read_line(&mut first).expect("an answer");
        assert!(first.contains(status), "{line}: {first}");
        let mut length = 0;
        loop {
            let mut header = String::new();
            answers.read_line(&mut header).expect("a header");
            let header = header.trim().to_lowercase();
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.parse().expect("a number");
            }
            if header.is_empty() {
                break;
            }
        }
        answers.read_exact(&mut vec![0; length]).expect("a body");
    }
}

#[test]
fn no_version_is_in_a_stage_that_nobody_moved_it_to() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let name = json!({"name": "m"});
    assert_eq!(served.post("registered-models/create", &name).status, 200);
    let source = json!({"name": "m", "source": "mlflow-artifacts:/x"});
    assert_eq!(served.post("model-versions/create", &source).status, 200);
    let latest = |stages: Value| {
        let ask = json!({"name": "m", "stages": stages});
        served.post("registered-models/get-latest-versions", &ask)
    };
    let count = |reply: Value| reply["model_versions"].as_array().map_or(0, Vec::len);
    assert_eq!(count(latest(json!([])).json()), 1);
    assert_eq!(count(latest(json!(["None"])).json()), 1);
    assert_eq!(count(latest(json!(["Production"])).json()), 0);
    assert_eq!(latest(json!(["Bogus"])).status, 400);
}

#[test]
fn what_is_served_is_a_file() {
    let outcome = Scratch::new().fails(2, "serve --tracking-uri http://127.0.0.1:9");
    assert!(outcome.stderr.contains("sqlite:PATH"), "{outcome}");
}

#[test]
fn it_stops_when_asked_and_what_was_logged_stays() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let run_id = served.run_new();
    assert_eq!(served.stop(), Some(0));
    let served = Served::start(&scratch);
    let reply = served.get(&format!("/ajax-api/2.0/mlflow/runs/get?run_id={run_id}"));
    assert_eq!(reply.json()["run"]["info"]["status"], "RUNNING");
}

#[test]
fn limits_are_named_and_nothing_is_cut() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let run_id = served.run_new();
    let refused = |path: &str, body: Value, word: &str| {
        let reply = served.post(path, &body);
        assert_eq!(reply.status, 400, "{path} {reply:?}");
        assert_eq!(reply.code(), "INVALID_PARAMETER_VALUE");
        let message = reply.json()["message"].to_string();
        assert!(message.contains(word), "{message}");
    };
    let long = |length: usize| "é".repeat(length);
    let pair = |key: &str, value: String| json!({"run_id": run_id, "key": key, "value": value});
    refused("runs/set-tag", pair("t", long(8_001)), "8000");
    refused("runs/log-parameter", pair("p", long(6_001)), "6000");
    refused("runs/set-tag", pair("a//b", "x".into()), "a//b");
    refused("runs/set-tag", pair("../b", "x".into()), "..");
    refused("experiments/create", json!({"name": long(501)}), "500");
    for value in [json!("many"), json!("inf"), json!(true), json!([1])] {
        let metric = json!({"run_id": run_id, "key": "m", "value": value, "timestamp": 1});
        refused("runs/log-metric", metric, "number");
    }
    let points: Vec<Value> = (0..1_001)
        .map(|n| json!({"key": "m", "value": n, "timestamp": n}))
        .collect();
    refused(
        "runs/log-batch",
        json!({"run_id": run_id, "metrics": points}),
        "1000",
    );
    assert_eq!(
        served.post("runs/set-tag", &pair("t", long(8_000))).status,
        200
    );
    assert_eq!(
        served
            .post("runs/log-parameter", &pair("p", long(6_000)))
            .status,
        200
    );
    let run = served.get(&format!("/api/2.0/mlflow/runs/get?run_id={run_id}"));
    let data = &run.json()["run"]["data"];
    assert_eq!(data["params"], json!([{"key": "p", "value": long(6_000)}]));
    let tags = data["tags"].as_array().expect("tags");
    assert!(tags.contains(&json!({"key": "t", "value": long(8_000)})));
    assert!(data.get("metrics").is_none(), "{data}");
}

/// A request line, its body, and the status and code of the answer.
const UNANSWERABLE: &str = r#"
GET /nowhere||404|ENDPOINT_NOT_FOUND
GET /api/2.0/mlflow/gateway-proxy||501|NOT_IMPLEMENTED
POST /v1/traces||501|NOT_IMPLEMENTED
GET /api/2.0/mlflow/runs/create||405|ENDPOINT_NOT_FOUND
GET /api/2.0/mlflow/runs/get?run_id=nope||404|RESOURCE_DOES_NOT_EXIST
GET /api/2.0/mlflow/runs/get||400|INVALID_PARAMETER_VALUE
POST /api/2.0/mlflow/runs/create|{|400|INVALID_PARAMETER_VALUE
POST /api/2.0/mlflow/runs/create|[]|400|INVALID_PARAMETER_VALUE
POST /api/2.0/mlflow/runs/create|{"experiment_id": "77"}|404|RESOURCE_DOES_NOT_EXIST
POST /api/2.0/mlflow/experiments/search|{}|400|INVALID_PARAMETER_VALUE
POST /api/2.0/mlflow/experiments/delete|{"experiment_id": "5"}|404|RESOURCE_DOES_NOT_EXIST
GET /api/3.0/mlflow/traces/tr-1||404|RESOURCE_DOES_NOT_EXIST
"#;

#[test]
fn what_cannot_be_answered_says_so() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    for case in UNANSWERABLE.trim().lines() {
        let [line, body, status, code] = case.splitn(4, '|').collect::<Vec<_>>()[..] else {
            panic!("not a case: {case}");
        };
        let reply = served.send(line, body.as_bytes());
        assert_eq!(
            (reply.status.to_string().as_str(), reply.code().as_str()),
            (status, code),
            "{line} {reply:?}"
        );
    }
    let huge = vec![b' '; (16 << 20) + 1];
    let reply = served.send("POST /api/2.0/mlflow/runs/create", &huge);
    assert_eq!(reply.status, 413, "{reply:?}");
}

#[test]
fn artifacts_stay_in_their_run() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let run_id = served.run_new();
    let root = format!("/api/2.0/mlflow-artifacts/artifacts/0/{run_id}/artifacts");
    let content: Vec<u8> = (0..700_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    assert_eq!(
        served.send(&format!("PUT {root}/a/b.bin"), &content).status,
        200
    );
    let got = served.get(&format!("{root}/a/b.bin"));
    assert_eq!((got.status, got.body.len()), (200, content.len()));
    assert_eq!(got.body, content);
    let head = got.head.to_lowercase();
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    assert!(
        head.contains("content-disposition: attachment; filename=\"b.bin\""),
        "{head}"
    );
    let listed = served.get(&format!(
        "/api/2.0/mlflow-artifacts/artifacts?path=0/{run_id}/artifacts/a"
    ));
    let expected = json!({"files": [{"path": "b.bin", "is_dir": false, "file_size": 700_000}]});
    assert_eq!(listed.json(), expected);
    for path in ["../x", "a/../../x", "..%2f..%2fx", "%2e%2e/x", "a//b"] {
        let reply = served.send(&format!("PUT {root}/{path}"), b"x");
        assert_eq!(reply.status, 400, "{path} {reply:?}");
        let reply = served.get(&format!("/get-artifact?run_uuid={run_id}&path={path}"));
        assert_eq!(reply.status, 400, "{path} {reply:?}");
    }
    assert_eq!(served.get(&format!("{root}/nope")).status, 404);
    assert_eq!(served.send(&format!("DELETE {root}/a"), b"").status, 200);
    assert_eq!(served.get(&format!("{root}/a/b.bin")).status, 404);
}

#[test]
fn verdicts_and_cells_are_safe_from_writers() {
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("good", &["A tip."])]));
    let words = "--prompts v1 --n-scenarios 1 --n-tips 1";
    let made = cells(&scratch.ok(&collect("scripted:good", words)));
    let run_id = made[0]["run_id"].as_str().expect("an id").to_owned();
    scratch.judge(
        "e",
        "judge.json",
        "--judge-kind human --judged-by ada",
        |case| {
            assize_test_support::score_all(case, 3);
        },
    );
    let served = Served::start(&scratch);
    let listed = served.get(&format!(
        "/api/2.0/mlflow/artifacts/list?run_id={run_id}&path=verdicts"
    ));
    let path = listed.json()["files"][0]["path"]
        .as_str()
        .expect("a path")
        .to_owned();
    let place = format!("/api/2.0/mlflow-artifacts/artifacts/1/{run_id}/artifacts/{path}");
    let before = served.get(&place).body;
    assert_eq!(served.send(&format!("PUT {place}"), &before).status, 200);
    let changed = String::from_utf8_lossy(&before).replace("ada", "eve");
    assert_eq!(
        served
            .send(&format!("PUT {place}"), changed.as_bytes())
            .status,
        400
    );
    assert_eq!(served.send(&format!("DELETE {place}"), b"").status, 400);
    let other = place.replace(".json", "-x.json");
    assert_eq!(served.send(&format!("PUT {other}"), b"{}").status, 400);
    assert_eq!(served.get(&place).body, before);

    // Deleted, collected again, and then restored: the cell is one run.
    assert_eq!(
        served
            .post("runs/delete", &json!({"run_id": run_id}))
            .status,
        200
    );
    let again = cells(&scratch.ok(&collect("scripted:good", words)));
    assert_eq!(again[0]["status"], "collected");
    let restored = served.post("runs/restore", &json!({"run_id": run_id}));
    assert_eq!(
        (restored.status, restored.code().as_str()),
        (400, "BAD_REQUEST")
    );
}

#[test]
fn slow_clients_keep_nobody_out() {
    use std::io::Write as _;
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let slow: Vec<std::net::TcpStream> = (0..300)
        .map(|_| {
            let mut stream =
                std::net::TcpStream::connect(served.authority()).expect("a connection");
            stream
                .write_all(b"POST /api/bench/run HTTP/1.1\r\nHost: loc")
                .expect("half a head");
            stream
        })
        .collect();
    assert_eq!(served.get("/api/bench/experiments").status, 200);
    // They do not keep the server from stopping either.
    assert_eq!(served.stop(), Some(0));
    drop(slow);
}
