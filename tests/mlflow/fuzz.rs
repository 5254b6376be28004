//! Mutated requests against a real server: never a 5xx except 501, never a dropped
//! connection, and the server still works afterwards.
//!
//! `ASSIZE_FUZZ_SECONDS` says how long (20 by default) and `ASSIZE_FUZZ_SEED` where to start; a
//! failure prints the request and the seed. The parser alone is a target for `cargo fuzz` too
//! (`fuzz/`), which needs a nightly compiler and this does not.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use assize_store::mlflow::filter::{Subject, parse, parse_order};
use serde_json::{Value, json};

use assize_test_support::Scratch;
use assize_test_support::random::Random;
use assize_test_support::server::Served;

const SEEDS: &str = include_str!("../data/mlflow/filters.txt");
const REQUESTS: &str = include_str!("../data/mlflow/requests.json");

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|it| it.parse().ok()).unwrap_or(default)
}

/// Filters that a real server has answered, good and bad.
fn corpus() -> Vec<String> {
    let lines = SEEDS.lines().filter_map(|line| line.split(" -> ").next());
    lines
        .map(|line| line.trim().trim_matches('"').to_owned())
        .collect()
}

const PIECES: [&str; 32] = [
    "metrics.",
    "params.",
    "tags.",
    "attributes.",
    "dataset.",
    "`",
    "'",
    "\"",
    "(",
    ")",
    ",",
    " AND ",
    " IS NOT NULL",
    " LIKE ",
    " NOT IN ",
    " IN ",
    "=",
    "!=",
    "<=",
    "1e308",
    "-0",
    "NaN",
    "'%_[*?'",
    "\0",
    "é",
    "\u{202e}",
    "🦀",
    "run_id",
    "start_time",
    " DESC",
    ".",
    "99999999999999999999999999",
];

/// A text with a few of its characters changed.
fn mutated(random: &mut Random, text: &str) -> String {
    let mut text: Vec<char> = text.chars().take(200_000).collect();
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        match random.below(5) {
            0 if at < text.len() => {
                text.remove(at);
            }
            1 => {
                let until = (at + random.below(12)).min(text.len());
                let part: Vec<char> = text[at..until].to_vec();
                text.splice(at..at, part);
            }
            2 => text.truncate(at),
            3 => {
                let count = 1 + random.below(40);
                let piece = random.pick(&PIECES).repeat(count);
                text.splice(at..at, piece.chars());
            }
            _ => {
                let piece: Vec<char> = random.pick(&PIECES).chars().collect();
                text.splice(at..at, piece);
            }
        }
    }
    text.into_iter().collect()
}

#[test]
fn no_filter_makes_the_parser_panic() {
    let mut random = Random::new(setting("ASSIZE_FUZZ_SEED", 1));
    let corpus = corpus();
    let until = Instant::now() + Duration::from_secs(setting("ASSIZE_FUZZ_SECONDS", 20) / 4);
    let mut tried = 0_u64;
    while Instant::now() < until {
        for _ in 0..1_000 {
            let seed = random.pick(&corpus).clone();
            let text = mutated(&mut random, &seed);
            for subject in [
                Subject::Runs,
                Subject::Experiments,
                Subject::RegisteredModels,
                Subject::ModelVersions,
                Subject::LoggedModels,
            ] {
                if let Ok(comparisons) = parse(&text) {
                    for comparison in comparisons {
                        let _ = subject.condition(comparison);
                    }
                }
                if let Ok(order) = parse_order(&text) {
                    let _ = subject.order(&order);
                }
            }
            tried += 1;
        }
    }
    assert!(tried > 0);
}

/// A request of each kind, as good clients send them. `RUN`, `MODEL` and `TRACE` stand for ids.
fn requests() -> Vec<(String, String, Value)> {
    serde_json::from_str(REQUESTS).expect("a list of requests")
}

/// Something else in the place of something in a JSON text.
fn disturb(random: &mut Random, value: &mut Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() && random.below(8) > 0 => {
            let at = random.below(fields.len());
            if let Some((_, inner)) = fields.iter_mut().nth(at) {
                disturb(random, inner);
            }
        }
        Value::Array(items) if !items.is_empty() && random.below(6) > 0 => {
            let at = random.below(items.len());
            disturb(random, &mut items[at]);
            if random.below(10) == 0 && items[at].to_string().len() < 300 {
                let copy = items[at].clone();
                let count = random.below(1_200);
                items.extend(std::iter::repeat_n(copy, count));
            }
        }
        Value::String(text) if random.below(3) > 0 => *text = mutated(random, text),
        other => {
            *other = match random.below(12) {
                0 => Value::Null,
                1 => json!([]),
                2 => json!({}),
                3 => json!(i64::MIN),
                4 => json!(u64::MAX),
                5 => json!(1e308),
                6 => json!(-0.5),
                7 => json!(true),
                8 => json!("x".repeat(random.below(20_000))),
                9 => json!([[[[{"a": [1]}]]]]),
                10 => json!("-Infinity"),
                _ => json!(""),
            };
        }
    }
}

fn in_url(text: &str) -> String {
    let bytes = text.bytes().map(|byte| match byte {
        b'!'..=b'~' if !b"\"<>\\^`{|}".contains(&byte) => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    bytes.collect()
}

/// One connection that is kept.
struct Line {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Line {
    fn to(served: &Served) -> Self {
        let stream = TcpStream::connect(served.authority()).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .expect("a limit");
        Self {
            stream: BufReader::new(stream),
            head: format!(
                "Host: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
                served.authority(),
                served.token
            ),
        }
    }

    /// The status, and whether the connection goes on.
    fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> std::io::Result<(u16, bool)> {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n",
            self.head,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request)?;
        let (mut status, mut length, mut chunked, mut goes_on) = (0, 0, false, true);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().unwrap_or(0);
            } else if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.parse().unwrap_or(0);
            } else if line == "transfer-encoding: chunked" {
                chunked = true;
            } else if line == "connection: close" {
                goes_on = false;
            } else if line.is_empty() {
                break;
            }
        }
        loop {
            if chunked {
                let mut size = String::new();
                self.stream.read_line(&mut size)?;
                length = usize::from_str_radix(size.trim(), 16).unwrap_or(0) + 2;
            }
            std::io::copy(
                &mut self.stream.by_ref().take(length as u64),
                &mut std::io::sink(),
            )?;
            if !chunked || length == 2 {
                return Ok((status, goes_on));
            }
        }
    }
}

/// A request with something wrong about it.
fn changed(
    random: &mut Random,
    corpus: &[String],
    (mut path, mut body): (String, Value),
    known: &dyn Fn(&str) -> String,
) -> (String, String) {
    if body["filter"].is_string() && random.below(2) == 0 {
        let filter = random.pick(corpus).clone();
        body["filter"] = mutated(random, &filter).into();
    }
    for _ in 0..random.below(3) {
        disturb(random, &mut body);
    }
    let mut text = known(&body.to_string());
    if body.is_null() || random.below(20) == 0 {
        path = mutated(random, &path);
        path = in_url(&format!("/{}", path.trim_start_matches('/')));
    }
    if random.below(20) == 0 {
        text = mutated(random, &text);
    }
    (path, text)
}

#[test]
fn no_request_makes_the_server_fail() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let run = served.run_new();
    let model = served.post("logged-models", &json!({"experiment_id": "0"}));
    let model = model.json()["model"]["info"]["model_id"].clone();
    let ids = [
        ("RUN", run.as_str()),
        ("MODEL", model.as_str().expect("an id")),
        ("TRACE", "tr-1"),
    ];
    let known = |text: &str| {
        ids.iter()
            .fold(text.to_owned(), |text, (name, id)| text.replace(name, id))
    };
    let corpus = corpus();
    let requests = requests();
    let seed = setting("ASSIZE_FUZZ_SEED", 1);
    let mut random = Random::new(seed);
    let started = Instant::now();
    let until = started + Duration::from_secs(setting("ASSIZE_FUZZ_SECONDS", 20));
    let mut line = Line::to(&served);
    let mut slowest = (Duration::ZERO, String::new());
    let mut answers = std::collections::BTreeMap::<u16, u64>::new();
    while Instant::now() < until {
        let (method, path, body) = random.pick(&requests).clone();
        let (path, text) = changed(&mut random, &corpus, (known(&path), body), &known);
        let body = if method == "GET" { "" } else { &text };
        let sent = Instant::now();
        let mut asked = line.ask(&method, &path, body.as_bytes());
        if asked.is_err() {
            // A server may close a connection whose last body it did not want.
            line = Line::to(&served);
            asked = line.ask(&method, &path, body.as_bytes());
        }
        let shown: String = text.chars().take(2_000).collect();
        let (status, goes_on) = asked.unwrap_or_else(|error| {
            panic!("seed {seed}: no answer ({error}) to {method} {path}\n{shown}")
        });
        assert!(
            (200..500).contains(&status) || status == 501,
            "seed {seed}: {status} to {method} {path}\n{shown}"
        );
        *answers.entry(status).or_default() += 1;
        if sent.elapsed() > slowest.0 {
            slowest = (
                sent.elapsed(),
                format!("{status} to {method} {path}\n{shown}"),
            );
        }
        if !goes_on {
            line = Line::to(&served);
        }
    }
    assert_eq!(served.get("/health").status, 200);
    let found = served.get(&format!("/api/2.0/mlflow/runs/get?run_id={run}"));
    assert_eq!(found.status, 200, "{found:?}");
    let took = started.elapsed().as_secs();
    eprintln!("{took} s, answers by status: {answers:?}");
    eprintln!("the slowest took {:?}: {}", slowest.0, slowest.1);
    assert_eq!(served.stop(), Some(0));
}
