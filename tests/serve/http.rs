//! Access to `assize serve` and its connections: hosts, origins, tokens, slow clients.

use std::io::{BufRead as _, Read as _, Write as _};

use serde_json::json;

use assize_test_support::Scratch;
use assize_test_support::server::Served;

#[test]
fn remote_access_needs_its_flag_and_tokens() {
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
fn an_open_loopback_needs_no_token_but_refuses_cross_site_forms() {
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
fn a_failed_first_start_does_not_lose_the_admin_token() {
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
fn a_refused_request_keeps_the_connection_usable() {
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
fn a_stopped_server_keeps_what_was_logged() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let run_id = served.run_new();
    assert_eq!(served.stop(), Some(0));
    let served = Served::start(&scratch);
    let reply = served.get(&format!("/ajax-api/2.0/mlflow/runs/get?run_id={run_id}"));
    assert_eq!(reply.json()["run"]["info"]["status"], "RUNNING");
}

#[test]
fn slow_clients_do_not_block_others() {
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
