//! The tables of docs/mlflow.md, compared with what both servers do.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use super::{Both, Case, Side};
use assize_test_support::{mlflow_python, root};

pub fn page() -> String {
    std::fs::read_to_string(root().join("docs/mlflow.md")).expect("a page")
}

/// The cells of each row of a table, by its heading.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let start = page.find(&format!("\n## {heading}\n")).expect(heading);
    let rows = page[start..].lines().skip(2);
    let rows = rows.take_while(|line| !line.starts_with("## "));
    let rows = rows.filter(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| {
        line.trim_matches('|')
            .split(" | ")
            .map(|it| it.trim().to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

/// Rows that no request can show: the first needs that many traces, the second a body in another
/// format, the third and fourth are as MLflow.
const NOT_SHOWN: [&str; 4] = [
    "a filter that would look at more than 50,000 traces",
    "spans over OTLP (`/v1/traces`)",
    "a metric of a dataset that is not of a logged model",
    "the same dataset logged to a run again with other tags",
];

/// Rows of differences without a request that shows them, requests without a row, and rows that say
/// something else than the request showed.
pub fn differences(cases: &[Case]) -> Vec<String> {
    let page = page();
    let rows = rows(&page, "What differs from MLflow");
    let shown: Vec<_> = cases.iter().filter_map(|it| it.differs.as_ref()).collect();
    let mut problems = Vec::new();
    for row in &rows {
        let [case, theirs, _] = row.as_slice() else {
            unreachable!("not a row: {row:?}");
        };
        let is_shown = theirs != "–" && !NOT_SHOWN.contains(&case.as_str());
        if is_shown && !shown.iter().any(|it| it.case == *case) {
            problems.push(format!("docs/mlflow.md: no request shows '{case}'"));
        }
    }
    for difference in shown {
        let Some(row) = rows.iter().find(|row| row[0] == difference.case) else {
            problems.push(format!("docs/mlflow.md has no row '{}'", difference.case));
            continue;
        };
        for (cell, status) in [(&row[1], difference.theirs), (&row[2], difference.ours)] {
            let named = (400..600).filter(|it| cell.contains(&it.to_string()));
            let named: Vec<u16> = named.collect();
            let is_refusal = status >= 400;
            if is_refusal == named.is_empty() || (is_refusal && !named.contains(&status)) {
                problems.push(format!(
                    "docs/mlflow.md says '{cell}' of '{}', and the answer is {status}",
                    difference.case
                ));
            }
        }
    }
    problems
}

/// Prints `METHODS PATH` of every operation of MLflow's server.
const LIST: &str = r"
import re
from mlflow.server import handlers, app
found = set()
for path, _, methods in handlers.get_endpoints():
    found.update((method, path) for method in methods)
for rule in app.url_map.iter_rules():
    found.update((method, rule.rule) for method in rule.methods - {'HEAD', 'OPTIONS'})
for method, path in sorted(found):
    print(method, re.sub(r'<(?:path:)?(\w+)>', r'{\1}', path))
";

/// All operations of the real server below MLflow's prefixes, each asked of ours: `true` where it
/// is served.
fn asked(both: &Both) -> BTreeMap<String, BTreeMap<String, bool>> {
    let python = mlflow_python().expect("the server runs with it");
    let output = Command::new(python)
        .args(["-c", LIST])
        .env("MLFLOW_DISABLE_TELEMETRY", "true")
        .output()
        .expect("python runs");
    let list = String::from_utf8(output.stdout).expect("a text");
    let mut parts: BTreeMap<String, BTreeMap<String, bool>> = BTreeMap::new();
    for line in list.lines() {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let Some((part, operation)) = operation(path) else {
            continue;
        };
        let is_served = is_served(&both.ours, method, path);
        let known = parts.entry(part).or_default();
        // One that is served in one version or by one method counts as served.
        *known.entry(operation).or_default() |= is_served;
    }
    parts
}

/// The part of the API and the operation that a path names. Pages and their copies under
/// `/ajax-api` of what is under `/api` have none.
fn operation(path: &str) -> Option<(String, String)> {
    let below = ["/api/", "/ajax-api/"]
        .iter()
        .find_map(|it| path.strip_prefix(it))?;
    let below = below.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let below = below.trim_start_matches('/');
    if let Some(rest) = below.strip_prefix("mlflow-artifacts/") {
        return Some(("mlflow-artifacts".to_owned(), rest.to_owned()));
    }
    let below = below.strip_prefix("mlflow/")?;
    let (part, rest) = below.split_once('/').unwrap_or((below, ""));
    let rest = if rest.is_empty() { "(itself)" } else { rest };
    Some((part.to_owned(), rest.to_owned()))
}

/// Whether our server knows an operation, whatever it thinks of an empty request.
fn is_served(ours: &Side, method: &str, path: &str) -> bool {
    let path = path.replace(['{', '}'], "");
    let path = path.replace("/api/2.0mlflow", "/api/2.0/mlflow");
    let reply = ours.send(&format!("{method} {path}"), "application/json", b"{}");
    match reply.status {
        405 | 501 => false,
        404 => reply.code() != "ENDPOINT_NOT_FOUND",
        _ => true,
    }
}

/// The table of all operations.
pub fn operations(both: &Both) -> String {
    let mut table = String::from("| part | served | not served |\n|---|---|---|\n");
    for (part, operations) in asked(both) {
        let list = |served: bool| {
            let names: BTreeSet<&str> = operations
                .iter()
                .filter(|(_, is_served)| **is_served == served)
                .map(|(name, _)| name.as_str())
                .collect();
            let names: Vec<String> = names.iter().map(|it| format!("`{it}`")).collect();
            if names.is_empty() {
                "–".to_owned()
            } else {
                names.join(", ")
            }
        };
        table.push_str(&format!("| {part} | {} | {} |\n", list(true), list(false)));
    }
    table
}
