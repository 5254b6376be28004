//! The leaderboard as CSV (RFC 4180): one row per pair, every figure in full precision.
//!
//! A spreadsheet runs a cell that starts with `=`, `+`, `-` or `@` as a formula, quoted or not.
//! Such a name gets a leading apostrophe, which spreadsheets read as a mark for text. Programs
//! that need the exact names should read the JSON instead. Numbers are not changed.
//!
//! Fields are quoted here and not by the `csv` crate, which leaves `;` and spaces unquoted:
//! spreadsheets in many locales take `;` for the separator, so that a name could start a formula
//! in a column of its own.
//!
//! Criteria and flags have prefixed columns, so that a rubric's names cannot clash with the fixed
//! columns.

use assize_domain::leaderboard::{Leaderboard, Row, Scores};

use crate::sentences;
use crate::text::clean;

pub mod by_scenario;
pub mod cells;

const BEFORE: [&str; 12] = [
    "experiment",
    "split",
    "tier",
    "rank",
    "model",
    "prompt",
    "scenarios",
    "candidates",
    "composite",
    "composite_se",
    "composite_ci95_low",
    "composite_ci95_high",
];
const AFTER: [&str; 16] = [
    "vs_incumbent",
    "vs_incumbent_ci95_low",
    "vs_incumbent_ci95_high",
    "vs_incumbent_lower95",
    "p",
    "p_adjusted",
    "p_best",
    "latency_ms",
    "tokens_per_s",
    "latency_p50_ms",
    "latency_p95_ms",
    "cost_usd_per_1000",
    "pareto",
    "incumbent",
    "winner",
    "thinking_tokens",
];

/// A header and one record per row; missing figures are empty.
pub fn render(board: &Leaderboard) -> String {
    let criteria = sentences::score_names(board, |row| &row.criteria);
    let flags = sentences::score_names(board, |row| &row.flags);
    let mut header: Vec<String> = BEFORE.map(str::to_owned).to_vec();
    header.extend(
        criteria
            .iter()
            .map(|name| text(&format!("criterion.{name}"))),
    );
    header.extend(flags.iter().map(|name| text(&format!("flag.{name}"))));
    header.extend(AFTER.map(str::to_owned));
    let mut lines = vec![header];
    for row in &board.rows {
        let mut record = before(board, row);
        let scores = |of: &Scores, name: &str| number(of.get(name).copied());
        record.extend(criteria.iter().map(|name| scores(&row.criteria, name)));
        record.extend(flags.iter().map(|name| scores(&row.flags, name)));
        record.extend(after(board, row));
        lines.push(record);
    }
    lines
        .iter()
        .map(|record| record.join(",") + "\r\n")
        .collect()
}

fn before(board: &Leaderboard, row: &Row) -> Vec<String> {
    let [low, high] = ends(row.composite.ci95);
    vec![
        text(&board.experiment),
        text(&board.split),
        text(board.tier.as_str()),
        row.rank.to_string(),
        text(&row.model),
        text(&row.prompt),
        row.scenarios.to_string(),
        row.candidates.to_string(),
        number(Some(row.composite.mean)),
        number(row.composite.se),
        low,
        high,
    ]
}

fn after(board: &Leaderboard, row: &Row) -> Vec<String> {
    let versus = row.vs_incumbent.as_ref();
    let [low, high] = ends(versus.and_then(|it| it.ci95));
    vec![
        number(versus.map(|it| it.diff)),
        low,
        high,
        number(versus.and_then(|it| it.lower95)),
        number(versus.and_then(|it| it.p)),
        number(versus.and_then(|it| it.p_adjusted)),
        number(row.p_best),
        number(row.latency_ms),
        number(row.tokens_per_s),
        number(row.latency_p50_ms),
        number(row.latency_p95_ms),
        number(row.cost_usd_per_1000),
        board
            .pareto
            .as_ref()
            .map_or_else(String::new, |it| it.holds(row).to_string()),
        sentences::is_incumbent(board, row).to_string(),
        sentences::is_winner(board, row).to_string(),
        number(row.thinking_tokens),
    ]
}

fn ends(interval: Option<[f64; 2]>) -> [String; 2] {
    [
        number(interval.map(|it| it[0])),
        number(interval.map(|it| it[1])),
    ]
}

/// The shortest text that reads back as the same number.
pub(crate) fn number(value: Option<f64>) -> String {
    value
        .filter(|it| it.is_finite())
        .map_or_else(String::new, |it| it.to_string())
}

pub(crate) fn text(text: &str) -> String {
    let text = cells::neutral(&clean(text)).into_owned();
    if text.contains([',', '"', ';', ' ', '\'']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}
