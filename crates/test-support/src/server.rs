//! A running `assize serve` on a free port, and requests to it, byte by byte.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::Scratch;

/// A server that ends with the test.
#[derive(Debug)]
pub struct Served {
    pub url: String,
    /// The admin's; empty where the server has none.
    pub token: String,
    child: Child,
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    pub fn code(&self) -> String {
        self.json()["error_code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

impl Served {
    pub fn start(scratch: &Scratch) -> Self {
        Self::start_with(scratch, "serve --port 0 --json")
    }

    pub fn start_with(scratch: &Scratch, words: &str) -> Self {
        Self::start_command(scratch, scratch.command(words))
    }

    /// Starts a server with a command that was made for it.
    pub fn start_command(scratch: &Scratch, mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        stdout.read_line(&mut line).expect("a line");
        let announced: Value = serde_json::from_str(&line).expect("one line of JSON");
        Self {
            url: announced["url"].as_str().expect("an address").to_owned(),
            // A later start does not show it again.
            token: match announced["token"].as_str() {
                Some(token) => token.to_owned(),
                None => token_new(scratch, "admin"),
            },
            child,
        }
    }

    pub fn authority(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Sends a request with exactly these header lines.
    pub fn raw(&self, line: &str, headers: &[&str], body: &[u8]) -> Reply {
        exchange(self.authority(), line, headers, body)
    }

    /// Sends a request as a well-behaved client would.
    pub fn send(&self, line: &str, body: &[u8]) -> Reply {
        let host = format!("Host: {}", self.authority());
        let token = format!("Authorization: Bearer {}", self.token);
        self.raw(
            line,
            &[&host, &token, "Content-Type: application/json"],
            body,
        )
    }

    /// Posts JSON to MLflow's API.
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        let line = format!("POST /api/2.0/mlflow/{path}");
        self.send(&line, body.to_string().as_bytes())
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path}"), b"")
    }

    /// A new run in the default experiment.
    pub fn run_new(&self) -> String {
        let reply = self.post("runs/create", &serde_json::json!({"experiment_id": "0"}));
        assert_eq!(reply.status, 200, "{reply:?}");
        let run = reply.json();
        run["run"]["info"]["run_id"]
            .as_str()
            .expect("an id")
            .to_owned()
    }

    /// Ends the server as a crash would.
    pub fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it ends");
    }

    /// Ends the server as a crash would, while others still use it.
    pub fn crash(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-KILL", &pid]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Asks the server to end, and waits for that.
    pub fn stop(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("kill runs").success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request with exactly these header lines to any server.
pub fn exchange(authority: &str, line: &str, headers: &[&str], body: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(authority).expect("a connection");
    let mut head = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
    for header in headers {
        head.push_str(&format!("{header}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    // A server that refuses early may close before it has read everything.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer to {line}"));
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let mut body = answer[end + 4..].to_vec();
    if head.to_lowercase().contains("transfer-encoding: chunked") {
        body = unchunk(&body);
    }
    Reply {
        status: head[9..12].parse().expect("a status"),
        head,
        body,
    }
}

/// A new token of a role.
pub fn token_new(scratch: &Scratch, role: &str) -> String {
    let made = scratch.ok(format!("token create --role {role} --json").as_str());
    made.json()["token"].as_str().expect("a token").to_owned()
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|it| it == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    whole
}
