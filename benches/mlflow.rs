//! Compares `assize serve` with a real MLflow server, in one run with the same raw client.
//!
//! | figure | target |
//! |---|---|
//! | runs logged/s (create, one log-batch of 10+10+10, update), 1 and 8 clients | ≥ 30 × MLflow |
//! | search of 1,000 rows by tag and metric order, 50,000 runs | ≥ 100 × MLflow, ≤ 60 ms |
//! | the same at 1,000,000 runs | ≤ 150 ms |
//! | idle memory (PSS) | ≤ 40 MB |
//! | start to the first answer | ≤ 100 ms |
//!
//! The client is a keep-alive socket that asks for its acknowledgements at once
//! (`TCP_QUICKACK`), on both sides: a plain one waits 40 ms for each answer of MLflow's.
//! Logging 50,000 runs into MLflow over REST would take half an hour, so its SQLite database is
//! filled by SQL, in MLflow's own tables, after the server has made them; ours is filled by
//! the store. `make bench-mlflow` runs this; `ASSIZE_BENCH_QUICK=1` does a tenth.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and fails by panicking"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::linux::net::TcpStreamExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_domain::run::{CellRecord, RunStatus};
use assize_store::Cells as _;
use assize_store::embedded::{EmbeddedStore, random_run_id};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_assize");

fn main() {
    let scale = if std::env::var_os("ASSIZE_BENCH_QUICK").is_some() {
        10
    } else {
        1
    };
    let folder = tempfile::tempdir().unwrap();
    let ours = ours(folder.path(), scale);
    let Some(theirs) = theirs(folder.path(), scale) else {
        println!("no MLflow here: only our side was measured");
        return;
    };
    let ratio = |name: &str, target: &str, ours: f64, theirs: f64| {
        println!(
            "{name}: ratio {:.0} (target {target})",
            (ours / theirs).max(theirs / ours)
        );
    };
    ratio(
        "logging, 1 client",
        "≥ 30",
        ours.logged[0],
        theirs.logged[0],
    );
    ratio(
        "logging, 8 clients",
        "≥ 30",
        ours.logged[1],
        theirs.logged[1],
    );
    ratio("search", "≥ 100", ours.search_ms, theirs.search_ms);
    ratio("idle memory", "–", ours.memory_mb, theirs.memory_mb);
    ratio("start", "–", ours.start_ms, theirs.start_ms);
}

struct Figures {
    logged: [f64; 2],
    search_ms: f64,
    memory_mb: f64,
    start_ms: f64,
}

/// A server that ends with the benchmark.
struct Server {
    child: Child,
    port: u16,
    start_ms: f64,
}

impl Server {
    fn start(command: &mut Command, port: u16) -> Self {
        let started = Instant::now();
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self {
            child,
            port,
            start_ms: 0.0,
        };
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port))
                && Client::over(stream, port)
                    .try_ask("GET", "/health", "")
                    .is_some_and(|it| it.0 == 200)
            {
                break;
            }
            assert!(
                started.elapsed() < Duration::from_mins(3),
                "it does not start"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        server.start_ms = started.elapsed().as_secs_f64() * 1e3;
        server
    }

    fn client(&self) -> Client {
        Client::over(
            TcpStream::connect(("127.0.0.1", self.port)).unwrap(),
            self.port,
        )
    }

    /// Proportional memory of the process and its descendants.
    fn memory_mb(&self) -> f64 {
        let script = format!(
            "import os\nkids={{}}\nfor p in filter(str.isdigit, os.listdir('/proc')):\n \
             try: kids.setdefault(int(open(f'/proc/{{p}}/stat').read().rsplit(')',1)[1].split()[1]),[]).append(int(p))\n \
             except OSError: pass\n\
             def pss(p):\n \
             try: own=[int(l.split()[1]) for l in open(f'/proc/{{p}}/smaps_rollup') if l.startswith('Pss:')][0]\n \
             except OSError: own=0\n \
             return own+sum(map(pss,kids.get(p,[])))\nprint(pss({}))",
            self.child.id()
        );
        let out = Command::new("python3")
            .args(["-c", &script])
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout)
            .trim()
            .parse::<f64>()
            .unwrap_or(0.0)
            / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        // MLflow's first process ends its workers on SIGTERM.
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.child.wait();
    }
}

/// A keep-alive connection.
struct Client {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Client {
    fn over(stream: TcpStream, port: u16) -> Self {
        stream.set_nodelay(true).unwrap();
        let head = format!("Host: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n");
        Self {
            stream: BufReader::with_capacity(1 << 18, stream),
            head,
        }
    }

    fn try_ask(&mut self, method: &str, path: &str, body: &str) -> Option<(u16, Vec<u8>)> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{body}",
            self.head,
            body.len()
        );
        let _ = self.stream.get_ref().set_quickack(true);
        self.stream.get_mut().write_all(request.as_bytes()).ok()?;
        let (mut status, mut length, mut chunked) = (0, 0_usize, false);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let _ = self.stream.get_ref().set_quickack(true);
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().ok()?;
            } else if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.parse().ok()?;
            } else if line.starts_with("transfer-encoding: chunked") {
                chunked = true;
            } else if line.is_empty() {
                break;
            }
        }
        let mut answer = Vec::new();
        loop {
            if chunked {
                let mut size = String::new();
                self.stream.read_line(&mut size).ok()?;
                length = usize::from_str_radix(size.trim(), 16).ok()?;
            }
            self.stream
                .by_ref()
                .take(length as u64)
                .read_to_end(&mut answer)
                .ok()?;
            if !chunked {
                return Some((status, answer));
            }
            let mut end = String::new();
            self.stream.read_line(&mut end).ok()?;
            if length == 0 {
                return Some((status, answer));
            }
        }
    }

    fn post(&mut self, verb: &str, body: &Value) -> Vec<u8> {
        let path = format!("/api/2.0/mlflow/{verb}");
        let (status, answer) = self.try_ask("POST", &path, &body.to_string()).unwrap();
        assert_eq!(status, 200, "{verb}: {}", String::from_utf8_lossy(&answer));
        answer
    }

    fn run_log(&mut self, number: usize) {
        let made = self.post(
            "runs/create",
            &json!({"experiment_id": "0", "start_time": 1,
                                                    "run_name": format!("run {number}")}),
        );
        let made: Value = serde_json::from_slice(&made).unwrap();
        let run_id = &made["run"]["info"]["run_id"];
        let entries = |name: &str| -> Vec<Value> {
            (0..10).map(|it| json!({"key": format!("{name}{it}"), "value": format!("value {}", number % 100)})).collect()
        };
        let metrics: Vec<Value> = (0..10)
            .map(|it| {
                json!({"key": format!("metric{it}"), "value": (number * 7 + it) as f64 / 3.0,
                             "timestamp": 1, "step": 0})
            })
            .collect();
        self.post(
            "runs/log-batch",
            &json!({"run_id": run_id, "metrics": metrics,
                                            "params": entries("param"), "tags": entries("tag")}),
        );
        self.post(
            "runs/update",
            &json!({"run_id": run_id, "status": "FINISHED", "end_time": 2}),
        );
    }
}

/// Runs logged in a second.
fn logging(server: &Server, clients: usize, seconds: u64) -> f64 {
    let started = Instant::now();
    let until = started + Duration::from_secs(seconds);
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(move || {
                    let mut client = server.client();
                    let mut count = 0;
                    while Instant::now() < until {
                        client.run_log(count);
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|it| it.join().unwrap())
            .sum::<usize>()
    });
    counts as f64 / started.elapsed().as_secs_f64()
}

/// Milliseconds of the first search, and of the middle one of the others.
fn searching(server: &Server, experiment: &str, times: usize, found: usize) -> (f64, f64) {
    let mut client = server.client();
    let ask = json!({"experiment_ids": [experiment], "filter": "tags.color = 'c3'",
                     "order_by": ["metrics.score DESC"], "max_results": 1000});
    let mut once = || {
        let started = Instant::now();
        let answer = client.post("runs/search", &ask);
        let took = started.elapsed().as_secs_f64() * 1e3;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["runs"].as_array().unwrap().len(), found);
        took
    };
    let first = once();
    let mut rest: Vec<f64> = (0..times).map(|_| once()).collect();
    rest.sort_by(f64::total_cmp);
    (first, rest[rest.len() / 2])
}

/// Runs with ten params, ten tags and ten metrics each; a tenth of them has one color.
fn fill(path: &Path, experiment: &str, runs: usize) {
    let store = EmbeddedStore::open(path, || 0, random_run_id).unwrap();
    let pair = |key: String, value: String| (Arc::from(key), Arc::from(value));
    let record = |number: usize| CellRecord {
        cell_key: String::new(),
        name: format!("run {number}"),
        status: RunStatus::Finished,
        start_time_ms: i64::try_from(number).unwrap(),
        end_time_ms: i64::try_from(number).unwrap() + 1,
        params: (0..10)
            .map(|it| {
                pair(
                    format!("param{it}"),
                    format!("value {}", (number + it) % 997),
                )
            })
            .collect(),
        tags: (0..9)
            .map(|it| pair(format!("tag{it}"), format!("value {}", (number + it) % 97)))
            .chain([pair("color".to_owned(), format!("c{}", number * 7 % 10))])
            .collect(),
        metrics: (0..9)
            .map(|it| (format!("metric{it}").into(), (number * 31 + it) as f64))
            .chain([("score".into(), (number * 7919 % 1_000_003) as f64 / 17.0)])
            .collect(),
        artifacts: Vec::new(),
    };
    for start in (0..runs).step_by(1000) {
        let cells: Vec<CellRecord> = (start..(start + 1000).min(runs)).map(record).collect();
        store.cells_record(experiment, &cells).unwrap();
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn ours(folder: &Path, scale: usize) -> Figures {
    let serve = |name: &str| {
        let here = folder.join(name);
        std::fs::create_dir_all(&here).unwrap();
        let port = free_port();
        let mut command = Command::new(BINARY);
        command
            .args(["serve", "--open-loopback", "--port", &port.to_string()])
            .current_dir(&here)
            .env_remove("MLFLOW_TRACKING_URI");
        Server::start(&mut command, port)
    };
    let fresh = serve("fresh");
    std::thread::sleep(Duration::from_secs(1));
    let (start_ms, memory_mb) = (fresh.start_ms, fresh.memory_mb());
    println!(
        "assize: start {start_ms:.0} ms (target ≤ 100), idle memory {memory_mb:.0} MB (target ≤ 40)"
    );
    let logged = [logging(&fresh, 1, 5), logging(&fresh, 8, 5)];
    println!(
        "assize: {:.0} runs logged/s with 1 client, {:.0} with 8",
        logged[0], logged[1]
    );
    drop(fresh);
    let mut search_ms = 0.0;
    for (name, runs, target) in [("small", 50_000, 60), ("large", 1_000_000, 150)] {
        let runs = runs / scale;
        fill(&folder.join(name).join(".assize/assize.db"), "bench", runs);
        let server = serve(name);
        let (first, median) = searching(&server, "1", 20, 1000.min(runs / 10));
        println!(
            "assize: search of 1,000 of {runs} runs {median:.0} ms (target ≤ {target}); the first, which makes \
             the indexes, {first:.0} ms; memory then {:.0} MB",
            server.memory_mb()
        );
        if name == "small" {
            search_ms = median;
        }
    }
    Figures {
        logged,
        search_ms,
        memory_mb,
        start_ms,
    }
}

const FILL: &str = "
import sqlite3, sys, uuid
path, count = sys.argv[1], int(sys.argv[2])
db = sqlite3.connect(path, timeout=60)
ids = [uuid.uuid4().hex for _ in range(count)]
def rows(table, columns, values):
    names = ', '.join(columns)
    holes = ', '.join('?' * len(columns))
    db.executemany(f'INSERT INTO {table} ({names}) VALUES ({holes})', values)
rows('runs', ['run_uuid', 'name', 'source_type', 'user_id', 'status', 'start_time', 'end_time',
              'lifecycle_stage', 'artifact_uri', 'experiment_id'],
     ((i, f'run {n}', 'UNKNOWN', 'u', 'FINISHED', n, n + 1, 'active', f'mlflow-artifacts:/0/{i}/artifacts', 0)
      for n, i in enumerate(ids)))
rows('params', ['key', 'value', 'run_uuid'],
     ((f'param{k}', f'value {(n + k) % 997}', i) for n, i in enumerate(ids) for k in range(10)))
rows('tags', ['key', 'value', 'run_uuid'],
     (row for n, i in enumerate(ids) for row in
      [(f'tag{k}', f'value {(n + k) % 97}', i) for k in range(9)] + [('color', f'c{n * 7 % 10}', i)]))
for table in ['metrics', 'latest_metrics']:
    rows(table, ['key', 'value', 'timestamp', 'step', 'is_nan', 'run_uuid'],
         (row for n, i in enumerate(ids) for row in
          [(f'metric{k}', float(n * 31 + k), 1, 0, False, i) for k in range(9)]
          + [('score', n * 7919 % 1000003 / 17.0, 1, 0, False, i)]))
db.commit()
";

fn theirs(folder: &Path, scale: usize) -> Option<Figures> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = Command::new(root.join("scripts/python-env.sh"))
        .args(["mlflow", "mlflow", "scikit-learn", "Flask-WTF"])
        .output()
        .ok()?;
    let python = String::from_utf8(found.stdout)
        .ok()
        .filter(|_| found.status.success())?;
    let python = python.trim().to_owned();
    let here = folder.join("mlflow");
    std::fs::create_dir_all(&here).unwrap();
    let port = free_port();
    let mut command = Command::new(&python);
    command
        .args([
            "-m",
            "mlflow",
            "server",
            "--backend-store-uri",
            "sqlite:///mlflow.db",
        ])
        .args([
            "--host",
            "127.0.0.1",
            "--workers",
            "4",
            "--port",
            &port.to_string(),
        ])
        .current_dir(&here)
        .env("MLFLOW_DISABLE_TELEMETRY", "true")
        .env("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
        .env_remove("MLFLOW_TRACKING_URI");
    let server = Server::start(&mut command, port);
    std::thread::sleep(Duration::from_secs(5));
    let (start_ms, memory_mb) = (server.start_ms, server.memory_mb());
    println!("MLflow: start {start_ms:.0} ms, idle memory {memory_mb:.0} MB");
    let logged = [logging(&server, 1, 10), logging(&server, 8, 10)];
    println!(
        "MLflow: {:.0} runs logged/s with 1 client, {:.0} with 8",
        logged[0], logged[1]
    );
    let runs = 50_000 / scale;
    let filled = Command::new(&python)
        .args(["-c", FILL, "mlflow.db", &runs.to_string()])
        .current_dir(&here)
        .status();
    assert!(
        filled.is_ok_and(|it| it.success()),
        "MLflow's database cannot be filled"
    );
    let (_, search_ms) = searching(&server, "0", 1, 1000.min(50_000 / scale / 10));
    println!("MLflow: search of 1,000 of {runs} runs {search_ms:.0} ms");
    Some(Figures {
        logged,
        search_ms,
        memory_mb,
        start_ms,
    })
}
