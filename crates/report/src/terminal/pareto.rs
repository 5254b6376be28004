//! Quality against latency or cost as text: the Pareto frontier, and which pair dominates each other pair.

use assize_domain::leaderboard::{Leaderboard, Pair, Resource, Row};

use super::Page;
use super::paint::Paint;
use crate::text::clean;
use crate::{figure, sentences};

/// Marks a pair on the Pareto frontier.
pub const FRONTIER: &str = "◆";

/// The frontier as a sentence, and a line for each dominated pair.
pub fn add(page: &mut Page, board: &Leaderboard) {
    let Some(pareto) = &board.pareto else {
        let why = "Quality against latency or cost: fewer than two pairs have a measured one, so \
                   there is nothing to weigh.";
        page.sentence(why, Paint::Plain);
        return;
    };
    let row_of = |pair: &Pair| board.rows.iter().find(|row| row.pair() == *pair);
    let on: Vec<String> = pareto
        .frontier
        .iter()
        .filter_map(|pair| row_of(pair).map(|row| with_figures(pair, row, pareto.against)))
        .collect();
    let line = format!(
        "Quality against {} ({FRONTIER}: no pair is both better and {}): {}.",
        pareto.against.name(),
        words(pareto.against).0,
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
            with_figures(&beaten.pair, row, pareto.against),
            comparison(row, by, pareto.against),
            clean(&by.pair().to_string())
        );
        page.sentence(&line, Paint::Plain);
    }
}

/// `gemma3:1b × v1 (11.02, 371 ms)`
fn with_figures(pair: &Pair, row: &Row, against: Resource) -> String {
    let used = match against {
        Resource::Latency => figure::optional(row.latency_ms, figure::latency),
        Resource::Cost => figure::optional(row.cost_usd_per_1000, figure::dollars),
    };
    format!(
        "{} ({}, {})",
        clean(&pair.to_string()),
        figure::plain(row.composite.mean),
        used
    )
}

/// In which respects the other pair is ahead; there is at least one.
fn comparison(row: &Row, by: &Row, against: Resource) -> String {
    let is_worse = row.composite.mean < by.composite.mean;
    let uses_more = against.of(row) > against.of(by);
    let (less, more) = words(against);
    match (is_worse, uses_more) {
        (true, true) => format!("worse and {more}"),
        (true, false) => format!("worse and no {less}"),
        _ => format!("{more} and no better"),
    }
}

/// What a pair is that uses less, and one that uses more.
const fn words(against: Resource) -> (&'static str, &'static str) {
    let more = match against {
        Resource::Latency => "slower",
        Resource::Cost => "dearer",
    };
    (sentences::uses_less(against), more)
}
