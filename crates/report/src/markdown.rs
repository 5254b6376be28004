//! The leaderboard as GitHub-flavoured Markdown, for pull requests and chat.
//!
//! The decision comes first, then the table with every figure, then coverage, rubric and split.
//! Charts are in the HTML report only.

use assize_domain::leaderboard::{Leaderboard, Row, Scores};

use crate::sentences::Next;
use crate::text::clean;
use crate::{axis, figure, sentences};

pub mod answers;

/// A heading, the decision, the table, and coverage, rubric and split.
pub fn render(board: &Leaderboard) -> String {
    let mut blocks = vec![format!("### {}", escape(&board.experiment))];
    if let Some(note) = sentences::tier_note(board) {
        blocks.push(format!("> {}", escape(note)));
    }
    if let Some(nothing) = sentences::nothing_to_rank(board) {
        blocks.push(format!("**{}**", escape(&nothing)));
        let next = match sentences::next(board) {
            Next::Command(parts) => escape(&parts.join(" ")),
            Next::Advice(advice) => escape(advice),
        };
        blocks.push(format!("Next: {next}"));
    } else {
        let decision = sentences::decision(board);
        blocks.extend(decision.map(|it| format!("**{}**", escape(&it))));
        blocks.push(table(board));
    }
    let sources = sentences::sources(board);
    if !sources.is_empty() {
        let shares = sources
            .iter()
            .map(|it| format!("{} {}", it.name, figure::percent(it.share)));
        let shares = shares.collect::<Vec<_>>().join(" · ");
        blocks.push(format!("Where the differences come from: {shares}"));
    }
    let losses = sentences::losses(board, 5);
    if let Some(line) = sentences::losses_line(board).filter(|_| !losses.is_empty()) {
        let rows = losses.iter().map(|it| {
            format!(
                "| {} | {} | {} | {} |",
                escape(&it.name),
                it.scenarios,
                figure::signed(it.estimate),
                figure::signed(it.diff)
            )
        });
        let rows: Vec<String> = rows.collect();
        blocks.push(format!(
            "{}\n\n| where | scenarios | difference | as observed |\n|---|---|---|---|\n{}",
            escape(&line),
            rows.join("\n")
        ));
    }
    blocks.extend(sentences::combination(board).map(|it| escape(&it)));
    if !board.warnings.is_empty() {
        let notes = board
            .warnings
            .iter()
            .map(|it| format!("- Note: {}", escape(it)));
        blocks.push(notes.collect::<Vec<_>>().join("\n"));
    }
    blocks.push(closing(board));
    blocks.join("\n\n") + "\n"
}

fn closing(board: &Leaderboard) -> String {
    let mut parts: Vec<String> = sentences::coverage(board)
        .iter()
        .map(|it| escape(it))
        .collect();
    parts.extend(sentences::confirmation_use(board).map(|it| escape(&it)));
    if let Some(rubric) = &board.rubric {
        parts.push(format!("Rubric {}.", escape(&rubric.id)));
    }
    parts.push(format!("Split {}.", escape(&board.split)));
    parts.join(" ")
}

struct Column {
    head: String,
    left: bool,
    cells: Vec<String>,
}

fn table(board: &Leaderboard) -> String {
    let columns = columns(board);
    let line = |cells: Vec<&str>| format!("| {} |", cells.join(" | "));
    let rule = |it: &Column| if it.left { ":---" } else { "---:" };
    let mut lines = vec![
        line(columns.iter().map(|it| it.head.as_str()).collect()),
        line(columns.iter().map(rule).collect()),
    ];
    for position in 0..board.rows.len() {
        lines.push(line(
            columns
                .iter()
                .map(|it| it.cells[position].as_str())
                .collect(),
        ));
    }
    lines.join("\n")
}

fn columns(board: &Leaderboard) -> Vec<Column> {
    let column = |head: &str, cell: &dyn Fn(&Row) -> String| Column {
        head: escape(head),
        left: false,
        cells: board.rows.iter().map(cell).collect(),
    };
    let mut columns = vec![
        column("#", &|row| row.rank.to_string()),
        Column {
            left: true,
            ..column("model × prompt", &|row| escape(&row.pair().to_string()))
        },
        column(
            &format!("composite{}", sentences::of_maximum(board)),
            &composite,
        ),
        column("vs incumbent", &|row| {
            sentences::versus(board, row, figure::interval)
        }),
        column("p adj", &|row| {
            figure::p_value(row.vs_incumbent.as_ref().and_then(|it| it.p_adjusted))
                .replace('<', "&lt;")
        }),
        column("p best", &|row| {
            figure::optional(row.p_best, figure::chance)
        }),
    ];
    let scores = |of: fn(&Row) -> &Scores, write: fn(f64) -> String| {
        let names = sentences::score_names(board, of);
        let cell = move |name: &str, row: &Row| figure::optional(of(row).get(name).copied(), write);
        names
            .into_iter()
            .map(|name| column(name, &|row| cell(name, row)))
            .collect::<Vec<_>>()
    };
    columns.extend(scores(|row| &row.criteria, figure::plain));
    columns.extend(scores(|row| &row.flags, figure::percent));
    columns.push(column("latency", &|row| {
        figure::optional(row.latency_ms, figure::latency)
    }));
    columns.push(column("p95", &|row| {
        figure::optional(row.latency_p95_ms, figure::latency)
    }));
    columns.push(column("$ per 1,000", &|row| {
        figure::optional(row.cost_usd_per_1000, figure::dollars)
    }));
    columns.push(column("tok/s", &|row| {
        figure::optional(row.tokens_per_s, figure::speed)
    }));
    columns.push(column("thinking", &|row| {
        figure::optional(row.thinking_tokens, figure::speed)
    }));
    columns.retain(|column| column.cells.iter().any(|cell| cell != figure::NONE));
    columns
}

fn composite(row: &Row) -> String {
    let mean = figure::plain(row.composite.mean);
    match axis::interval(row) {
        Some(ends) => format!("{mean} {}", figure::interval(ends)),
        None => mean,
    }
}

/// Escapes text for Markdown: no markup, no HTML, no new table cell. Bare addresses, which GitHub
/// turns into links, are left alone.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => {
                escaped.push('\\');
                escaped.push(c);
            }
            other => escaped.push(other),
        }
    }
    escaped
}
