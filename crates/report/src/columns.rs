//! The columns of a board's two HTML tables: figures that decide, and figures that explain.
//!
//! The HTML report and the web panel show the same columns. Empty columns are left out.

use assize_domain::leaderboard::{Leaderboard, Row, Scores};

use crate::{figure, sentences};

/// A column of figures: its heading and its text for each row.
pub struct Column<'a> {
    pub head: String,
    cell: Box<dyn Fn(&Row) -> String + 'a>,
}

impl std::fmt::Debug for Column<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Column").field(&self.head).finish()
    }
}

impl<'a> Column<'a> {
    fn new(head: &str, cell: impl Fn(&Row) -> String + 'a) -> Self {
        Self {
            head: head.to_owned(),
            cell: Box::new(cell),
        }
    }

    pub fn cell(&self, row: &Row) -> String {
        (self.cell)(row)
    }
}

/// The columns that the decision rests on.
pub fn deciding(board: &Leaderboard) -> Vec<Column<'_>> {
    let columns = vec![
        Column::new("vs incumbent", |row| {
            sentences::versus(board, row, figure::half)
        }),
        Column::new("p adj", |row| {
            figure::p_value(row.vs_incumbent.as_ref().and_then(|it| it.p_adjusted))
        }),
        Column::new("p best", |row| figure::optional(row.p_best, figure::chance)),
    ];
    filled(board, columns)
}

/// The columns that explain the decision.
pub fn explaining(board: &Leaderboard) -> Vec<Column<'_>> {
    let mut columns = scores(board, |row| &row.criteria, figure::plain);
    columns.extend(scores(board, |row| &row.flags, figure::percent));
    columns.extend([
        Column::new("latency", |row| {
            figure::optional(row.latency_ms, figure::latency)
        }),
        Column::new("p95", |row| {
            figure::optional(row.latency_p95_ms, figure::latency)
        }),
        Column::new("$ per 1,000", |row| {
            figure::optional(row.cost_usd_per_1000, figure::dollars)
        }),
        Column::new("tok/s", |row| {
            figure::optional(row.tokens_per_s, figure::speed)
        }),
        Column::new("thinking", |row| {
            figure::optional(row.thinking_tokens, figure::speed)
        }),
        Column::new("scenarios", |row| row.scenarios.to_string()),
        Column::new("candidates", |row| row.candidates.to_string()),
    ]);
    filled(board, columns)
}

fn scores(
    board: &Leaderboard,
    of: fn(&Row) -> &Scores,
    write: fn(f64) -> String,
) -> Vec<Column<'_>> {
    let names = sentences::score_names(board, of).into_iter();
    names
        .map(|name| {
            Column::new(name, move |row| {
                figure::optional(of(row).get(name).copied(), write)
            })
        })
        .collect()
}

fn filled<'a>(board: &Leaderboard, mut columns: Vec<Column<'a>>) -> Vec<Column<'a>> {
    columns.retain(|column| {
        board
            .rows
            .iter()
            .any(|row| column.cell(row) != figure::NONE)
    });
    columns
}
