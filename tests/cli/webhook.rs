//! The webhook: called when a collection or a sitting ends, signed, retried; its failure is only a
//! warning.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use assize_test_support::server::Served;
use assize_test_support::{Outcome, Scratch, score_all, script};
use base64::Engine as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

const SECRET: &str = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0IG9ubHk=";
const KEY: &[u8] = b"secret of the test only";

/// One request as a receiver sees it.
struct Request {
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Request {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).expect(name)
    }

    /// What a receiver does before it believes a word.
    fn verify(&self) -> Value {
        let signed = format!(
            "{}.{}.{}",
            self.header("webhook-id"),
            self.header("webhook-timestamp"),
            self.body
        );
        let mut mac = Hmac::<Sha256>::new_from_slice(KEY).expect("a key");
        mac.update(signed.as_bytes());
        let code = base64::engine::general_purpose::STANDARD.encode(mac.finalize().into_bytes());
        assert_eq!(self.header("webhook-signature"), format!("v1,{code}"));
        let sent: u64 = self.header("webhook-timestamp").parse().expect("seconds");
        let now = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("a clock");
        assert!(now.as_secs().abs_diff(sent) < 300, "a replay would be old");
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// A receiver on this machine that answers with these statuses, then with the last one.
fn receiver(statuses: &'static [u16]) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!(
        "http://{}/hooks/a-secret-path",
        listener.local_addr().expect("bound")
    );
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for (stream, count) in listener.incoming().map_while(Result::ok).zip(0..) {
            let status = statuses.get(count).or(statuses.last()).expect("a status");
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            reader.read_line(&mut line).expect("a request");
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let mut headers: Vec<(String, String)> = Vec::new();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a header");
                let Some((name, value)) = line.trim_end().split_once(": ") else {
                    break;
                };
                headers.push((name.to_lowercase(), value.to_owned()));
            }
            let length = headers.iter().find(|(name, _)| name == "content-length");
            let length = length.map_or(0, |(_, value)| value.parse().expect("a length"));
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let answer =
                format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            reader
                .get_mut()
                .write_all(answer.as_bytes())
                .expect("an answer");
            let body = String::from_utf8(body).expect("text");
            if sender
                .send(Request {
                    path,
                    headers,
                    body,
                })
                .is_err()
            {
                return;
            }
        }
    });
    (url, requests)
}

fn next(requests: &Receiver<Request>) -> Request {
    requests
        .recv_timeout(Duration::from_mins(1))
        .expect("the receiver is told")
}

fn collect(scratch: &Scratch, secret: Option<&str>) -> Outcome {
    scratch.write("script.json", &script(&[("a", &["Stretch for a minute."])]));
    let mut command = scratch.command(
        "collect --models scripted:a --prompts v1 --n-tips 1 --n-scenarios 2 --script script.json --experiment e",
    );
    if let Some(secret) = secret {
        command.env("HOOK_SECRET", secret);
    }
    Outcome::of(&command.output().expect("the binary runs"))
}

fn settings(scratch: &Scratch, url: &str) {
    let text = format!("[webhook]\nurl = \"{url}\"\nsecret_env = \"HOOK_SECRET\"\n");
    scratch.write("assize.toml", &text);
}

#[test]
fn collections_and_sittings_are_reported_and_retried() {
    let scratch = Scratch::new();
    let (url, requests) = receiver(&[500, 503, 204]);
    settings(&scratch, &url);
    let outcome = collect(&scratch, Some(SECRET));
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(!outcome.stderr.contains("warning"), "{outcome}");
    let tries = [next(&requests), next(&requests), next(&requests)];
    assert!(tries.iter().all(|it| it.path == "/hooks/a-secret-path"));
    let bodies: Vec<Value> = tries.iter().map(Request::verify).collect();
    assert_eq!(bodies[0], bodies[2], "every try says the same");
    assert_eq!(bodies[2]["event"], "collect.finished");
    assert_eq!(bodies[2]["id"], tries[2].header("webhook-id"));
    assert_eq!(bodies[2]["experiment"], "e");
    assert_eq!(bodies[2]["counts"]["collected"], 2);

    scratch.write(".env", &format!("HOOK_SECRET={SECRET}\n"));
    scratch.judge(
        "e",
        "judge.json",
        "--judge-kind human --judged-by Ana",
        |case| score_all(case, 3),
    );
    let told = next(&requests).verify();
    assert_eq!(told["event"], "sitting.finished");
    assert_eq!(told["judge"]["name"], "Ana");
    assert_eq!(told["state"], "closed");
    assert_eq!(told["counts"]["judged"], 2);
}

#[test]
fn an_applied_file_is_reported_once_with_the_state_of_its_sitting() {
    let scratch = Scratch::pending("scripted:b", "p1", 2);
    let (url, requests) = receiver(&[200]);
    settings(&scratch, &url);
    scratch.write(".env", &format!("HOOK_SECRET={SECRET}\n"));
    let mut file = scratch.export("e", "judge.json");
    let apply = "judge apply judge.json --judge-kind human --partial";
    for (scored, state) in [(1, "open"), (4, "closed")] {
        let cases = file["cases"].as_array_mut().expect("cases");
        for case in cases.iter_mut().take(scored) {
            case["scores"]["worth"] = json!(3);
        }
        scratch.write("judge.json", &file.to_string());
        scratch.ok(apply);
        let told = next(&requests).verify();
        assert_eq!(told["state"], state, "{told}");
        let counts = json!({"judged": scored, "left": 4 - scored});
        assert_eq!(told["counts"], counts);
        let again = scratch.ok(apply);
        assert!(again.stderr.contains("Nothing to write"), "{again}");
    }
    assert!(requests.try_recv().is_err(), "nothing new, nothing told");
}

#[test]
fn a_webhook_that_fails_is_a_warning_without_its_secrets() {
    let scratch = Scratch::new();
    let (url, _requests) = receiver(&[403]);
    settings(&scratch, &url);
    for (secret, reason) in [(Some(SECRET), "HTTP 403"), (None, "HOOK_SECRET")] {
        let outcome = collect(&scratch, secret);
        assert_eq!(outcome.code, 0, "{outcome}");
        assert!(
            outcome
                .stderr
                .contains("warning: the webhook was not called"),
            "{outcome}"
        );
        assert!(outcome.stderr.contains(reason), "{outcome}");
        for hidden in ["a-secret-path", "c2VjcmV0", "secret of"] {
            assert!(!outcome.stderr.contains(hidden), "{outcome}");
        }
    }
}

#[test]
fn an_incomplete_webhook_setting_stops_before_collecting() {
    let scratch = Scratch::new();
    scratch.write("assize.toml", "[webhook]\nurl = \"https://hooks.test/x\"\n");
    let outcome = collect(&scratch, None);
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(
        outcome.stderr.contains("webhook.secret_env is empty"),
        "{outcome}"
    );
    scratch.write("assize.toml", "[webhook]\nuri = \"https://hooks.test/x\"\n");
    let outcome = collect(&scratch, None);
    assert_eq!(outcome.code, 2, "{outcome}");
    assert!(
        outcome.stderr.contains("there is no setting 'webhook.uri'"),
        "{outcome}"
    );
}

#[cfg(unix)]
#[test]
fn the_sitting_of_an_agent_command_is_reported_too() {
    let scratch = Scratch::pending("scripted:b", "p1", 2);
    let (url, requests) = receiver(&[200]);
    settings(&scratch, &url);
    scratch.write(".env", &format!("HOOK_SECRET={SECRET}\n"));
    let fill = r#"sed 's/"worth": null/"worth": 3/'"#;
    scratch.ok(&["judge", "agent", "--experiment", "e", "--cmd", fill]);
    let told = next(&requests).verify();
    assert_eq!(told["event"], "sitting.finished");
    assert_eq!(told["judge"]["kind"], "agent");
    assert_eq!(told["judge"]["tier"], "expert");
    assert_eq!(told["counts"]["judged"], 4);
    assert!(told["sitting"].is_string(), "{told}");
}

#[test]
fn a_sitting_at_the_web_desk_is_reported_too() {
    let scratch = Scratch::pending("scripted:b", "p1", 2);
    let (url, requests) = receiver(&[503, 200]);
    settings(&scratch, &url);
    scratch.write(".env", &format!("HOOK_SECRET={SECRET}\n"));
    let served = Served::start_with(&scratch, "serve --port 0 --json --task task");
    let hand = served.get("/api/bench/judge/next?experiment=e&limit=50");
    let hand = hand.json();
    let case = &hand["cases"][0];
    let mut scores = case["scores"].clone();
    scores["worth"] = json!(3);
    let verdict = json!({"case": case["case"], "scores": scores});
    let verdicts = json!({"experiment": "e", "verdicts": [verdict]});
    let reply = served.send(
        "POST /api/bench/judge/verdicts",
        verdicts.to_string().as_bytes(),
    );
    assert_eq!(reply.status, 200, "{reply:?}");
    let reply = served.send("POST /api/bench/judge/finish", br#"{"experiment": "e"}"#);
    assert_eq!(reply.status, 200, "{reply:?}");
    // The server ends only when what it had to tell was heard.
    assert_eq!(served.stop(), Some(0));
    next(&requests).verify();
    let told = next(&requests).verify();
    assert_eq!(told["event"], "sitting.finished");
    assert_eq!(told["sitting"], hand["sitting"]);
    assert_eq!(told["judge"]["kind"], "human");
    assert_eq!(told["state"], "closed");
    assert_eq!(told["counts"], json!({"judged": 1, "left": 3}));
}
