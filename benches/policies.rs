//! The policies over HTTP at a fixed rate, with the load generator on the same machine.
//!
//! | figure | target |
//! |---|---|
//! | p99 of scores and rewards at 5,000 requests/s, `durability = "normal"` | ≤ 2 ms |
//! | memory with 1k and with many users | flat |
//!
//! Open loop: every request has a time at which it is due, and its latency counts from then, so a
//! slow answer cannot hide behind fewer requests. Half of the requests are scores of ten candidates
//! at D = 12, half are rewards. The baseline is `GET /health` at the same rate on the same
//! server: what HTTP and the scheduler take without any policy. Other programs on the machine decide
//! the p99 of a run: `chrt -f 10 cargo bench --bench policies` gives generator and server real-time
//! priority (`scripts/bench.sh` does so where it is permitted). `ASSIZE_BENCH_QUICK=1` does a tenth.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and fails by panicking"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_assize");
const RATE: f64 = 5000.0;
const CONNECTIONS: usize = 16;
const CANDIDATES: &str = concat!(
    r#"{"id":"tip-0","task_match":0.0},{"id":"tip-1","task_match":0.1},{"id":"tip-2","task_match":0.2},"#,
    r#"{"id":"tip-3","task_match":0.3},{"id":"tip-4","task_match":0.4},{"id":"tip-5","task_match":0.5},"#,
    r#"{"id":"tip-6","task_match":0.6},{"id":"tip-7","task_match":0.7},{"id":"tip-8","task_match":0.8},"#,
    r#"{"id":"tip-9","task_match":0.9}"#
);

fn main() {
    let is_quick = std::env::var_os("ASSIZE_BENCH_QUICK").is_some();
    let requests = if is_quick { 5_000 } else { 50_000 };
    let many = if is_quick { 100_000 } else { 1_000_000 };
    for (durability, users) in [("normal", 1_000), ("normal", many), ("full", 1_000)] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), durability);
        let idle_mb = server.memory_mb();
        let base = server.load(requests, |_, client| client.health());
        let ours = server.load(requests, |n, client| client.decide(n, users));
        println!(
            "policies at {RATE:.0} requests/s, {durability}, {users} users: p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms \
             (target p99 ≤ 2 with normal); GET /health at the same rate: p50 {:.2} ms, p99 {:.2} ms; ratio of p99 {:.1}; \
             memory {idle_mb:.0} → {:.0} MB",
            percentile(&ours, 0.5),
            percentile(&ours, 0.99),
            percentile(&ours, 0.999),
            percentile(&base, 0.5),
            percentile(&base, 0.99),
            percentile(&ours, 0.99) / percentile(&base, 0.99),
            server.memory_mb()
        );
    }
}

fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() - 1) as f64 * share;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length"
    )]
    sorted[place as usize]
}

struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(folder: &Path, durability: &str) -> Self {
        let settings = format!("[policy]\ndurability = \"{durability}\"\n");
        std::fs::write(folder.join("assize.toml"), settings).unwrap();
        let words = "serve --only policies --port 0 --json --open-loopback";
        let mut child = Command::new(BINARY)
            .args(words.split(' '))
            .current_dir(folder)
            .env("ASSIZE_CACHE_DIR", folder.join("cache"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let announced: Value = serde_json::from_str(&line).unwrap();
        let url = announced["url"].as_str().unwrap();
        let address = url.trim_start_matches("http://").to_owned();
        Self { child, address }
    }

    fn memory_mb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let kb = line.unwrap().trim().trim_end_matches(" kB").trim();
        kb.parse::<f64>().unwrap() / 1024.0
    }

    /// Sends requests on a schedule; answers the sorted latencies in ms.
    fn load(&self, requests: usize, send: impl Fn(usize, &mut Client) + Sync) -> Vec<f64> {
        let start = Instant::now() + Duration::from_millis(50);
        let mut latencies: Vec<f64> = std::thread::scope(|scope| {
            let send = &send;
            let work = |number: usize| {
                move || {
                    let mut client = Client::new(&self.address);
                    let mut own = Vec::new();
                    for n in (number..requests).step_by(CONNECTIONS) {
                        let due = start + Duration::from_secs_f64(n as f64 / RATE);
                        if let Some(early) = due.checked_duration_since(Instant::now()) {
                            std::thread::sleep(early);
                        }
                        send(n, &mut client);
                        own.push(due.elapsed().as_secs_f64() * 1e3);
                    }
                    own
                }
            };
            let threads: Vec<_> = (0..CONNECTIONS).map(|it| scope.spawn(work(it))).collect();
            let done = threads.into_iter().map(|it| it.join().unwrap());
            done.flatten().collect()
        });
        latencies.sort_by(f64::total_cmp);
        latencies
    }
}

struct Client {
    stream: TcpStream,
    host: String,
    /// A decision that has no reward yet.
    open: Option<String>,
    buffer: Vec<u8>,
}

impl Client {
    fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            host: address.to_owned(),
            open: None,
            buffer: vec![0; 16_384],
        }
    }

    fn health(&mut self) {
        self.exchange("GET /health", "");
    }

    /// A score, or the reward of the score before.
    fn decide(&mut self, n: usize, users: usize) {
        if let Some(decision) = self.open.take() {
            let reward = u8::from(n.is_multiple_of(3));
            let body = format!("{{\"decision_id\":\"{decision}\",\"reward\":{reward}}}");
            self.exchange("POST /reward/egreedy/v2", &body);
            return;
        }
        // A large odd step visits all users, far from each other.
        let user = n.wrapping_mul(2_654_435_761) % users;
        let body = format!(
            "{{\"user_id\":\"user-{user}\",\"context\":{{\"hour\":{},\"weekend\":{},\"open_tasks\":{},\"urgency\":0.4}},\
             \"profile_features\":{{\"completion_rate\":0.5,\"dismiss_rate\":0.1,\"tip_volume\":{}}},\
             \"candidates\":[{CANDIDATES}]}}",
            n % 24,
            n % 7 > 4,
            n % 9,
            n % 100
        );
        let answer = self.exchange("POST /score/egreedy/v2", &body);
        let id = answer.split_once("\"decision_id\":\"").unwrap().1;
        self.open = Some(id.split_once('"').unwrap().0.to_owned());
    }

    /// Sends a request and answers the body. It is as cheap as it can be, because it competes with
    /// the server for the processor.
    fn exchange(&mut self, line: &str, body: &str) -> String {
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).unwrap();
        let mut read = String::new();
        loop {
            let count = self.stream.read(&mut self.buffer).unwrap();
            assert!(count > 0, "the server closed the connection");
            read.push_str(std::str::from_utf8(&self.buffer[..count]).unwrap());
            let Some((head, body)) = read.split_once("\r\n\r\n") else {
                continue;
            };
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            let length = head.split_once("content-length: ").unwrap().1;
            let length = length.split("\r\n").next().unwrap();
            if body.len() >= length.parse::<usize>().unwrap() {
                return body.to_owned();
            }
        }
    }
}
