//! Our MLflow API beside a real MLflow server: the same requests are sent to both, and the answers
//! compared: status, error code, message and result.
//!
//! The requests are the tables in `parity/*.txt`, one request in a line:
//!
//! ```text
//! METHOD PATH [BODY]        PATH is below /api/2.0/mlflow/ unless it starts with /
//!   keep NAME /pointer      a value of the answer, for {NAME} in later requests
//!   type MEDIA-TYPE         of the body, instead of JSON
//!   only code               compare status and error code: the message is our own
//!   only status             compare the status alone
//!   differs CASE            a difference that docs/mlflow.md lists, under this case
//!   theirs STATUS           and how the two servers answer then
//!   ours STATUS
//! ```
//!
//! `{500*x}` is a long text. Both servers are new, and number their experiments alike.

mod answers;
mod documented;

use std::path::Path;

use serde_json::Value;

use answers::{Answer, Variables};
use assize_test_support::mlflow::Mlflow;
use assize_test_support::server::{Reply, Served, exchange};
use assize_test_support::{Scratch, root};

/// How much of two answers is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    All,
    Code,
    Status,
}

/// One request to both servers.
#[derive(Debug)]
struct Case {
    /// File and line.
    place: String,
    line: String,
    body: Option<String>,
    media_type: String,
    keep: Vec<(String, String)>,
    compared: Compared,
    differs: Option<Difference>,
}

/// A documented difference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Difference {
    case: String,
    theirs: u16,
    ours: u16,
}

fn tables() -> Vec<Case> {
    let names = [
        "runs",
        "histories",
        "artifacts",
        "registry",
        "traces",
        "limits",
    ];
    let files = names.map(|name| format!("tests/mlflow/parity/{name}.txt"));
    files.iter().flat_map(|file| table(file)).collect()
}

fn table(file: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(root().join(file)).expect(file);
    let name = Path::new(file)
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{name}:{}", number + 1);
        match line.strip_prefix("  ") {
            Some(words) => directive(cases.last_mut().expect("a request first"), words),
            None => cases.push(request(place, line)),
        }
    }
    cases
}

fn request(place: String, line: &str) -> Case {
    let (method, rest) = line.split_once(' ').expect("a method and a path");
    let (path, body) = match rest.split_once(' ') {
        Some((path, body)) => (path, Some(body.to_owned())),
        None => (rest, None),
    };
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/api/2.0/mlflow/{path}")
    };
    Case {
        place,
        line: format!("{method} {path}"),
        body,
        media_type: "application/json".to_owned(),
        keep: Vec::new(),
        compared: Compared::All,
        differs: None,
    }
}

fn directive(case: &mut Case, words: &str) {
    let (word, rest) = words.trim().split_once(' ').expect("a word and its value");
    let place = case.place.clone();
    match (word, rest) {
        ("keep", rest) => {
            let (name, pointer) = rest.split_once(' ').expect("a name and a pointer");
            case.keep.push((name.to_owned(), pointer.to_owned()));
        }
        ("type", kind) => kind.clone_into(&mut case.media_type),
        ("only", "code") => case.compared = Compared::Code,
        ("only", "status") => case.compared = Compared::Status,
        ("differs", row) => {
            case.differs = Some(Difference {
                case: row.to_owned(),
                ..Difference::default()
            });
        }
        ("theirs", status) => {
            case.differs.as_mut().expect("the case first").theirs = status.parse().expect(status);
        }
        ("ours", status) => {
            case.differs.as_mut().expect("the case first").ours = status.parse().expect(status);
        }
        _ => unreachable!("{place}: '{words}' is not a directive"),
    }
}

/// One of the two servers, and the ids that it gave.
struct Side {
    authority: String,
    token: String,
    known: Variables,
}

impl Side {
    fn send(&self, line: &str, media_type: &str, body: &[u8]) -> Reply {
        let host = format!("Host: {}", self.authority);
        let token = format!("Authorization: Bearer {}", self.token);
        let kind = format!("Content-Type: {media_type}");
        let mut headers = vec![host.as_str(), kind.as_str()];
        if !self.token.is_empty() {
            headers.push(&token);
        }
        exchange(&self.authority, line, &headers, body)
    }

    fn ask(&mut self, case: &Case) -> Answer {
        let line = self.known.fill(&case.line);
        let body = self.known.fill(case.body.as_deref().unwrap_or_default());
        let reply = self.send(&line, &case.media_type, body.as_bytes());
        let is_download = line.starts_with("GET") && line.contains("artifact");
        self.known.answer(&reply, &case.keep, is_download)
    }
}

/// Both servers, new.
struct Both {
    theirs: Side,
    ours: Side,
    _real: Mlflow,
    _served: Served,
    _scratch: Scratch,
}

impl Both {
    fn start() -> Option<Self> {
        let real = Mlflow::usual()?;
        let scratch = Scratch::new();
        let served = Served::start(&scratch);
        Some(Self {
            theirs: Side {
                authority: real.url.trim_start_matches("http://").to_owned(),
                token: String::new(),
                known: Variables::default(),
            },
            ours: Side {
                authority: served.authority().to_owned(),
                token: served.token.clone(),
                known: Variables::default(),
            },
            _real: real,
            _served: served,
            _scratch: scratch,
        })
    }
}

#[test]
fn everyday_calls_are_answered_as_mlflow_answers_them() {
    let Some(mut both) = Both::start() else {
        return;
    };
    let mut problems = Vec::new();
    let cases = tables();
    for case in &cases {
        let (theirs, ours) = (both.theirs.ask(case), both.ours.ask(case));
        let is_as_expected = match &case.differs {
            Some(it) => (theirs.status, ours.status) == (it.theirs, it.ours),
            None => theirs.equals(&ours, case.compared),
        };
        if !is_as_expected {
            let (line, body) = (&case.line, case.body.as_deref().unwrap_or_default());
            let body: String = body.chars().take(300).collect();
            problems.push(format!(
                "{}: {line} {body}\n  MLflow {theirs}\n  Assize {ours}",
                case.place
            ));
        }
    }
    assert!(
        problems.is_empty(),
        "{} of {} requests are answered differently:\n{}",
        problems.len(),
        cases.len(),
        problems.join("\n")
    );
}

#[test]
fn the_documentation_lists_every_difference_and_every_operation() {
    let problems = documented::differences(&tables());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let Some(both) = Both::start() else {
        return;
    };
    let expected = documented::operations(&both);
    let page = documented::page();
    assert!(
        page.contains(&expected),
        "docs/mlflow.md does not have this table of operations; replace it:\n\n{expected}"
    );
}

/// A value, by a JSON pointer.
fn pointed<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}
