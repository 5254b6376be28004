//! Quality against latency as text: the Pareto frontier, and which pair dominates each other pair.

use assize_domain::leaderboard::{Leaderboard, Pair, Row};

use super::Page;
use super::paint::Paint;
use crate::figure;
use crate::text::clean;

/// Marks a pair on the Pareto frontier.
pub const FRONTIER: &str = "◆";

/// The frontier as a sentence, and a line for each dominated pair.
pub fn add(page: &mut Page, board: &Leaderboard) {
    let Some(pareto) = &board.pareto else {
        let why = "Quality against latency: fewer than two pairs have a measured latency, so there \
                   is nothing to weigh.";
        page.sentence(why, Paint::Plain);
        return;
    };
    let row_of = |pair: &Pair| board.rows.iter().find(|row| row.pair() == *pair);
    let on: Vec<String> = pareto
        .frontier
        .iter()
        .filter_map(|pair| row_of(pair).map(|row| with_figures(pair, row)))
        .collect();
    let line = format!(
        "Quality against latency ({FRONTIER}: no pair is both better and faster): {}.",
        on.join("; ")
    );
    page.sentence(&line, Paint::Plain);
    for beaten in &pareto.beaten {
        let Some((row, by)) = row_of(&beaten.pair).zip(beaten.by.first().and_then(row_of)) else {
            continue;
        };
        let others = match beaten.by.len() - 1 {
            0 => String::new(),
            1 => " and one more".to_owned(),
            more => format!(" and {more} more"),
        };
        let line = format!(
            "– {} is {} than {}{others}",
            with_figures(&beaten.pair, row),
            comparison(row, by),
            clean(&by.pair().to_string())
        );
        page.sentence(&line, Paint::Plain);
    }
}

/// `gemma3:1b × v1 (11.02, 371 ms)`
fn with_figures(pair: &Pair, row: &Row) -> String {
    format!(
        "{} ({}, {})",
        clean(&pair.to_string()),
        figure::plain(row.composite.mean),
        figure::optional(row.latency_ms, figure::latency)
    )
}

/// In which respects the other pair is ahead; there is at least one.
fn comparison(row: &Row, by: &Row) -> &'static str {
    let is_worse = row.composite.mean < by.composite.mean;
    let is_slower = row.latency_ms > by.latency_ms;
    match (is_worse, is_slower) {
        (true, true) => "worse and slower",
        (true, false) => "worse and no faster",
        _ => "slower and no better",
    }
}
