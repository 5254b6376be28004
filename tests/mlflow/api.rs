//! MLflow's REST API of `assize serve`, request by request: limits, errors, artifacts, what clients
//! may not change.

use serde_json::{Value, json};

use assize_test_support::server::Served;
use assize_test_support::{Scratch, cells, collect, script};

#[test]
fn model_versions_start_without_a_stage() {
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
fn values_over_the_limits_are_refused_and_never_truncated() {
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
        refused("runs/log-metric", metric, "for parameter 'value' supplied");
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
fn unanswerable_requests_get_their_status_and_code() {
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
fn artifact_paths_cannot_leave_their_run() {
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
        head.contains("content-disposition: attachment; filename=b.bin"),
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
fn clients_cannot_change_verdicts_or_duplicate_cells() {
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
