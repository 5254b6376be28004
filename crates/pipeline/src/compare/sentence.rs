//! What the figures carry, in words.

use std::collections::BTreeSet;

use assize_domain::leaderboard::{Decision, Leaderboard, Pair, Row};
use assize_stats::power::{self, Goal};
use assize_stats::table::Table;
use assize_stats::{Alternative, MIN_TEST_BLOCKS, describe, paired};

use super::read::{Scores, TierScores};
use crate::error::count;

/// A difference below this is of no practical use.
const PRACTICAL_MARGIN: f64 = 0.5;
/// Tests are called significant at this level, over the whole family.
const LEVEL: f64 = 0.05;
/// More scenarios than this are never proposed.
const MOST_SCENARIOS: usize = 10_000;

/// The decision: which pair to ship, or why the data cannot tell.
pub fn decide(
    board: &Leaderboard,
    means: &[Vec<Option<f64>>],
    incumbent: Option<usize>,
    pairs: &[Pair],
) -> Decision {
    if board.rows.is_empty() {
        return no_winner("nothing is judged.", None);
    }
    let Some(champion) = &board.incumbent else {
        let reason = "the incumbent has no judged scenario to compare with.";
        return no_winner(reason, None);
    };
    let challengers: Vec<&Row> = board
        .rows
        .iter()
        .filter(|row| row.pair() != *champion)
        .collect();
    // The promotion gate looks at the same pair: `family::leader`.
    let by_difference = |a: &&&Row, b: &&&Row| {
        let order = difference(a).total_cmp(&difference(b));
        order
            .then_with(|| shared(a).cmp(&shared(b)))
            .then_with(|| a.pair().cmp(&b.pair()))
    };
    let Some(best) = challengers.iter().max_by(by_difference) else {
        let reason = format!("{champion} is alone; collect another pair to compare.");
        return no_winner(&reason, None);
    };
    let scenarios = board
        .rows
        .iter()
        .map(|row| row.scenarios)
        .max()
        .unwrap_or(0) as usize;
    if scenarios < MIN_TEST_BLOCKS {
        let reason = format!(
            "{} cannot carry a test, because even a clean sweep has p = 1/2^{scenarios}; \
             {MIN_TEST_BLOCKS} are needed.",
            count(scenarios, "scenario"),
        );
        return no_winner(&reason, u32::try_from(MIN_TEST_BLOCKS).ok());
    }
    if let Some(winner) = challengers
        .iter()
        .filter(|row| is_ahead(row))
        .max_by(by_difference)
    {
        let tested = challengers.iter().filter(|row| is_tested(row)).count();
        return ship(winner, tested);
    }
    if is_behind(best) {
        let standing = standing(best, champion);
        let reason = format!("{standing} More scenarios would not change that.");
        return no_winner(&reason, None);
    }
    let needed = incumbent.and_then(|incumbent| needed(best, means, incumbent, pairs));
    no_winner(
        &format!("{}{}", standing(best, champion), outlook(needed, scenarios)),
        needed.and_then(|needed| u32::try_from(needed).ok()),
    )
}

/// Whether the pair is shown to be worse than the incumbent.
fn is_behind(row: &Row) -> bool {
    let versus = row.vs_incumbent.as_ref().filter(|it| it.p.is_some());
    versus
        .and_then(|it| it.ci95)
        .is_some_and(|[_, high]| high < 0.0)
}

/// Where the best challenger stands.
fn standing(best: &Row, champion: &Pair) -> String {
    let Some(versus) = &best.vs_incumbent else {
        return format!("no challenger shares a judged scenario with {champion}.");
    };
    let pair = best.pair();
    let figure = figure(best);
    if versus.p_adjusted.is_none() {
        let shared = count(versus.scenarios as usize, "scenario");
        return format!(
            "the best challenger, {pair}, is {figure}, but shares only {shared} with {champion}, and \
             {MIN_TEST_BLOCKS} are needed for a test."
        );
    }
    if versus.diff > 0.0 {
        format!("the best challenger, {pair}, is {figure}.")
    } else {
        format!("no challenger is ahead of {champion}; the nearest, {pair}, is {figure}.")
    }
}

/// Whether more scenarios would tell.
fn outlook(needed: Option<usize>, scenarios: usize) -> String {
    match needed {
        None => String::new(),
        Some(needed) if needed > scenarios => format!(
            " About {} more scenarios would show a difference of {PRACTICAL_MARGIN} with 80 % power.",
            needed - scenarios
        ),
        Some(_) => format!(
            " These scenarios are enough to show a difference of {PRACTICAL_MARGIN} with 80 % power."
        ),
    }
}

fn no_winner(why: &str, scenarios_needed: Option<u32>) -> Decision {
    Decision {
        winner: None,
        reason: format!("No winner yet: {why}"),
        scenarios_needed,
    }
}

fn ship(winner: &Row, family: usize) -> Decision {
    let p = winner
        .vs_incumbent
        .as_ref()
        .and_then(|it| it.p_adjusted)
        .unwrap_or(f64::NAN);
    let reason = format!(
        "{} beats the incumbent by {}, one-sided p = {} over {}.",
        winner.pair(),
        figure(winner),
        small(p),
        count(family, "challenger"),
    );
    Decision {
        winner: Some(winner.pair()),
        reason,
        scenarios_needed: None,
    }
}

fn is_tested(row: &Row) -> bool {
    row.vs_incumbent
        .as_ref()
        .is_some_and(|it| it.p_adjusted.is_some())
}

/// Whether the pair beats the incumbent, over the whole family of tests.
fn is_ahead(row: &Row) -> bool {
    let versus = row.vs_incumbent.as_ref();
    versus.is_some_and(|it| it.diff > 0.0 && it.p_adjusted.is_some_and(|p| p <= LEVEL))
}

fn difference(row: &Row) -> f64 {
    row.vs_incumbent
        .as_ref()
        .map_or(f64::NEG_INFINITY, |it| it.diff)
}

/// Scenarios that the pair shares with the incumbent.
fn shared(row: &Row) -> u32 {
    row.vs_incumbent.as_ref().map_or(0, |it| it.scenarios)
}

fn figure(row: &Row) -> String {
    let Some(versus) = &row.vs_incumbent else {
        return "not comparable".to_owned();
    };
    match versus.ci95 {
        Some([low, high]) => format!("{:+.2} [{low:.2}, {high:.2}]", versus.diff),
        None => format!("{:+.2}", versus.diff),
    }
    .replace('-', "−")
}

/// `.008`, as papers write a p value.
pub fn small(p: f64) -> String {
    if p < 0.0005 {
        return "< .001".to_owned();
    }
    format!("{p:.3}").trim_start_matches('0').to_owned()
}

/// Scenarios that would show the practical margin, given how the best challenger's
/// differences scatter.
fn needed(
    best: &Row,
    means: &[Vec<Option<f64>>],
    incumbent: usize,
    pairs: &[Pair],
) -> Option<usize> {
    let index = pairs.iter().position(|pair| *pair == best.pair())?;
    let differences: Vec<f64> = paired::differences(&means[index], &means[incumbent])
        .into_iter()
        .flatten()
        .collect();
    let sd = describe::sd(&differences)?;
    power::blocks_needed(
        PRACTICAL_MARGIN,
        sd,
        Goal::usual(Alternative::Greater),
        MOST_SCENARIOS,
    )
}

/// What a reader should know before believing the rows.
pub fn warnings(
    scores: &Scores,
    judged: &TierScores,
    table: &Table,
    board: &Leaderboard,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let coverage = board.coverage;
    if coverage.failed > 0 {
        warnings.push(format!(
            "{} failed and {} missing here: run the same collect again",
            count(coverage.failed as usize, "cell"),
            if coverage.failed == 1 { "is" } else { "are" },
        ));
    }
    if judged.partly > 0 {
        warnings.push(format!(
            "{} judged in part: their means are over the candidates that have a verdict",
            count(judged.partly as usize, "cell") + if judged.partly == 1 { " is" } else { " are" },
        ));
    }
    let used: Vec<usize> = (0..table.treatments())
        .filter(|pair| table.treatment_cells(*pair).iter().any(Option::is_some))
        .collect();
    let missing = table
        .missing_cells()
        .iter()
        .filter(|(pair, _)| used.contains(pair))
        .count();
    if missing > 0 {
        warnings.push(format!(
            "{} no verdicts: pairs are compared on the scenarios that both have",
            count(missing, "cell") + if missing == 1 { " has" } else { " have" },
        ));
    }
    if let Some((least, most)) = table.replicates().filter(|(least, most)| least != most) {
        warnings.push(format!(
            "cells have {least} to {most} judged candidates: each cell counts the same"
        ));
    }
    let ids: BTreeSet<&str> = scores.scenarios.iter().map(|(id, _)| id.as_str()).collect();
    if ids.len() < scores.scenarios.len() {
        warnings.push(
            "scenarios were edited between runs: an edited scenario counts as another one, and \
             nothing is paired across the edit"
                .to_owned(),
        );
    }
    if scores.settings.len() > 1 {
        let ways: Vec<&str> = scores.settings.iter().map(String::as_str).collect();
        warnings.push(format!(
            "runs were collected with different settings ({}): a difference may come from these; \
             use one experiment for each",
            ways.join("; "),
        ));
    }
    if scores.adaptive {
        warnings.push(
            "collected adaptively: weak pairs were dropped early and have fewer scenarios, and the \
             survivors were chosen on these scores; confirm the winner on the confirmation split"
                .to_owned(),
        );
    }
    if scores.other_rubric_runs > 0 {
        warnings.push(format!(
            "{} under another rubric left out: scores under different rubrics are never compared",
            count(scores.other_rubric_runs as usize, "run"),
        ));
    }
    warnings
}
