//! The sentences that every format shares.

use assize_domain::leaderboard::{BoardTier, Leaderboard, Resource, Row, Scores};

use crate::figure;
use crate::shell::shell_word;
use crate::text::clean;

pub mod answers;

/// One source of differences between scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Source {
    pub name: &'static str,
    pub meaning: &'static str,
    pub share: f64,
}

/// What a reader should do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// A command to type, in parts that belong together.
    Command(Vec<String>),
    Advice(&'static str),
}

pub fn is_incumbent(board: &Leaderboard, row: &Row) -> bool {
    board
        .incumbent
        .as_ref()
        .is_some_and(|pair| pair.model == row.model && pair.prompt == row.prompt)
}

pub fn is_winner(board: &Leaderboard, row: &Row) -> bool {
    let winner = board.decision.as_ref().and_then(|it| it.winner.as_ref());
    winner.is_some_and(|pair| pair.model == row.model && pair.prompt == row.prompt)
}

/// The decision as one sentence. It says "ship" only for expert scores that were not also used to
/// choose which pairs to collect.
pub fn decision(board: &Leaderboard) -> Option<String> {
    let decision = board.decision.as_ref()?;
    let Some(winner) = &decision.winner else {
        return Some(clean(&decision.reason).into_owned());
    };
    let lead = match board.tier {
        BoardTier::Expert if board.adaptive => format!("{winner} is nominated"),
        BoardTier::Expert => format!("Ship {winner}"),
        // Computed scores are the same in every tier.
        _ if board.computed && board.adaptive => format!("{winner} is nominated"),
        _ if board.computed => format!("Ship {winner}"),
        BoardTier::Auto => format!("{winner} leads by automatic scores"),
        BoardTier::Combined => format!("{winner} leads by both tiers together"),
    };
    let sentence = match decision.reason.strip_prefix(&winner.to_string()) {
        Some(rest) => format!("{lead}: it{rest}"),
        None => format!("{lead}. {}", decision.reason),
    };
    Some(clean(&sentence).into_owned())
}

/// Whether the scores are those of an automatic judge alone.
pub fn is_automatic(board: &Leaderboard) -> bool {
    board.tier == BoardTier::Auto && !board.computed
}

/// The caveat for a board of automatic scores.
pub fn tier_note(board: &Leaderboard) -> Option<&'static str> {
    (is_automatic(board) && !board.rows.is_empty())
        .then_some("These scores are automatic: a hint, not yet a reason to ship.")
}

/// `84 of 96 cells judged (expert), 10 pending, 2 failed.`; nothing where there are no cells.
pub fn coverage(board: &Leaderboard) -> Option<String> {
    let it = board.coverage;
    if it.cells == 0 {
        return None;
    }
    let cells = if it.cells == 1 { "cell" } else { "cells" };
    let mut parts = vec![format!(
        "{} of {} {cells} judged ({})",
        it.judged,
        it.cells,
        board.scored_by()
    )];
    let rest = [(it.pending, "pending"), (it.failed, "failed")];
    parts.extend(
        rest.iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, state)| format!("{count} {state}")),
    );
    Some(parts.join(", ") + ".")
}

/// `Confirmation: looked at 2 times, 1 attempt.`; nothing where nobody has seen its scores.
pub fn confirmation_use(board: &Leaderboard) -> Option<String> {
    board.confirmation.map(|it| format!("Confirmation: {it}."))
}

/// Why there is nothing to rank, for a board without rows.
pub fn nothing_to_rank(board: &Leaderboard) -> Option<String> {
    if !board.rows.is_empty() {
        return None;
    }
    let (experiment, split) = (clean(&board.experiment), clean(&board.split));
    let it = board.coverage;
    let sentence = if it.cells == 0 {
        format!("Nothing to rank yet: {experiment} has no collected cells in the {split} split.")
    } else if it.failed == it.cells {
        format!(
            "Nothing to rank: all {} cells of {experiment} failed.",
            it.cells
        )
    } else {
        let judge = match board.tier {
            BoardTier::Expert => "an expert",
            BoardTier::Auto => "an automatic judge",
            BoardTier::Combined => "both tiers",
        };
        let collected = it.cells - it.failed.min(it.cells);
        let are = if collected == 1 {
            "cell is"
        } else {
            "cells are"
        };
        if board.computed {
            format!(
                "Nothing to rank yet: {collected} {are} collected and none has all computed scores."
            )
        } else {
            format!(
                "Nothing to rank yet: {collected} {are} collected and none is judged by {judge}."
            )
        }
    };
    Some(sentence)
}

/// The recommended next step. Unjudged cells come first, because they can change everything else.
pub fn next(board: &Leaderboard) -> Next {
    let experiment = format!("--experiment {}", shell_word(&board.experiment));
    let command = |verb: &str, rest: &[&str]| {
        let mut parts = vec![verb.to_owned(), experiment.clone()];
        parts.extend(rest.iter().map(|part| (*part).to_owned()));
        Next::Command(parts)
    };
    let it = board.coverage;
    let winner = board
        .decision
        .as_ref()
        .is_some_and(|it| it.winner.is_some());
    if board.computed {
        computed_next(board, winner, command)
    } else if it.cells == 0 {
        Next::Advice("run the same assize collect with this --split, then judge what it made.")
    } else if it.pending > 0 || (is_automatic(board) && it.judged > 0) {
        command("assize judge export", &["--out judge.json"])
    } else if winner {
        command("assize promote", &[])
    } else if it.failed > 0 {
        Next::Advice("run the same assize collect again; it generates only what is missing.")
    } else if board.rows.len() < 2 {
        Next::Advice("collect another model or prompt into this experiment, and judge it.")
    } else if board
        .decision
        .as_ref()
        .is_some_and(|it| it.scenarios_needed.is_none())
    {
        Next::Advice("write another prompt or try another model, collect it here, and judge it.")
    } else {
        Next::Advice(
            "add scenarios to the task, run the same assize collect again, and judge them.",
        )
    }
}

/// The next step where nobody has to judge.
fn computed_next(
    board: &Leaderboard,
    winner: bool,
    command: impl Fn(&str, &[&str]) -> Next,
) -> Next {
    let it = board.coverage;
    let decision = board.decision.as_ref();
    if it.cells == 0 {
        Next::Advice("run the same assize collect with this --split.")
    } else if it.pending > 0 {
        command("assize judge recompute", &[])
    } else if winner {
        command("assize promote", &[])
    } else if it.failed > 0 {
        Next::Advice("run the same assize collect again; it generates only what is missing.")
    } else if board.rows.len() < 2 {
        Next::Advice("collect another model or prompt into this experiment.")
    } else if decision.is_some_and(|it| it.scenarios_needed.is_none()) {
        Next::Advice("write another prompt or try another model, and collect it here.")
    } else {
        Next::Advice("add scenarios to the task, and run the same assize collect again.")
    }
}

/// Where the leading challenger loses: the scenarios and segments whose effect is below zero, the
/// worst first, and how many are not listed.
pub fn losses(board: &Leaderboard, most: usize) -> Vec<Loss> {
    let Some(harm) = &board.harm else {
        return Vec::new();
    };
    let segments = harm.segments.iter().map(|it| Loss {
        name: format!("{} = {}", clean(&it.field), clean(&it.value)),
        scenarios: it.scenarios,
        diff: it.diff,
        estimate: it.estimate.unwrap_or(it.diff),
    });
    let scenarios = harm.scenarios.iter().map(|it| Loss {
        name: clean(&it.scenario).into_owned(),
        scenarios: 1,
        diff: it.diff,
        estimate: it.estimate,
    });
    let mut losses: Vec<Loss> = segments
        .chain(scenarios)
        .filter(|it| it.estimate < 0.0)
        .collect();
    losses.sort_by(|a, b| a.estimate.total_cmp(&b.estimate));
    losses.truncate(most);
    losses
}

/// A scenario or segment in which the leading challenger loses.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    pub name: String,
    pub scenarios: u32,
    /// As observed.
    pub diff: f64,
    /// Without the noise of few candidates.
    pub estimate: f64,
}

/// What the estimates of [`losses`] are about.
pub fn losses_line(board: &Leaderboard) -> Option<String> {
    let harm = board.harm.as_ref()?;
    let kind = if harm.upper_bounds {
        "at most, because cells have one candidate"
    } else {
        "without the noise of few candidates"
    };
    Some(format!(
        "Where {} loses to the incumbent ({kind}):",
        clean(&harm.pair.to_string())
    ))
}

/// How the combined board weighs the automatic scores, and what they save.
pub fn combination(board: &Leaderboard) -> Option<String> {
    let found = board.combination.as_ref()?;
    let mut pairs = board.rows.iter().map(Row::pair);
    let sample = pairs.find_map(|pair| found.samples.iter().find(|it| it.pair == pair))?;
    Some(format!(
        "Automatic scores count with a weight of {:.2}: {} expert scores of {} are as precise as {:.0} alone.",
        found.lambda,
        sample.expert_scores,
        clean(&sample.pair.to_string()),
        sample.effective_scores
    ))
}

/// Where the differences come from, largest first. The shares are of the total sum of squares.
/// Empty where nothing was computed.
pub fn sources(board: &Leaderboard) -> Vec<Source> {
    let Some(variance) = &board.variance else {
        return Vec::new();
    };
    let source = |name, meaning, share| Source {
        name,
        meaning,
        share,
    };
    let mut sources = vec![
        source(
            "model",
            "one model is better than another throughout",
            variance.model,
        ),
        source(
            "prompt",
            "one prompt is better than another throughout",
            variance.prompt,
        ),
        source(
            "model × prompt",
            "a prompt suits one model more than another",
            variance.interaction,
        ),
        source(
            "scenario",
            "some scenarios are harder for all pairs",
            variance.scenario,
        ),
    ];
    match variance.noise {
        Some(noise) => sources.extend([
            source(
                "by scenario",
                "models and prompts differ in which scenarios they handle",
                variance.by_scenario,
            ),
            source("noise", "candidates of one cell differ", noise),
        ]),
        None => sources.push(source(
            "rest + noise",
            "which scenarios a pair handles, and noise: one candidate per cell cannot separate them",
            variance.by_scenario,
        )),
    }
    sources.retain(|source| source.share.is_finite());
    sources.sort_by(|a, b| b.share.total_cmp(&a.share));
    sources
}

/// The same in one line, summed by pairs (the part that can be shipped), scenarios and noise.
pub fn sources_line(board: &Leaderboard) -> Option<String> {
    let it = board.variance.as_ref()?;
    let shipped = it.model + it.prompt + it.interaction;
    let (scenarios, rest) = match it.noise {
        Some(noise) => (it.scenario + it.by_scenario, ("noise", noise)),
        None => (it.scenario, ("rest and noise", it.by_scenario)),
    };
    let all = [shipped, scenarios, rest.1];
    all.iter().all(|share| share.is_finite()).then(|| {
        format!(
            "Where the differences come from: pairs {}, scenarios {}, {} {}.",
            figure::percent(shipped),
            figure::percent(scenarios),
            rest.0,
            figure::percent(rest.1)
        )
    })
}

/// Which p counts as a win.
pub fn significant_below(board: &Leaderboard) -> String {
    let level = board.rule.map_or(0.05, |it| it.level);
    format!("At most {} counts as a win.", figure::p_value(Some(level)))
}

/// What a pair is that uses less of a resource.
pub const fn uses_less(resource: Resource) -> &'static str {
    match resource {
        Resource::Latency => "faster",
        Resource::Cost => "cheaper",
    }
}

/// ` (of 17)`, if the rubric's maximum is known.
pub fn of_maximum(board: &Leaderboard) -> String {
    let most = board
        .composite_range
        .map(|[_, most]| most)
        .filter(|it| it.is_finite());
    most.map_or_else(String::new, |most| format!(" (of {})", figure::tick(most)))
}

/// The names of every row.
pub fn pairs(board: &Leaderboard) -> impl Iterator<Item = (&str, &str)> {
    board
        .rows
        .iter()
        .map(|row| (row.model.as_str(), row.prompt.as_str()))
}

/// The difference to the incumbent with its interval, written as the format writes intervals.
pub fn versus(board: &Leaderboard, row: &Row, interval: fn([f64; 2]) -> String) -> String {
    match row.vs_incumbent.as_ref().filter(|it| it.diff.is_finite()) {
        Some(it) => match it.ci95.filter(figure::is_finite) {
            Some(ends) => format!("{} {}", figure::signed(it.diff), interval(ends)),
            None => figure::signed(it.diff),
        },
        None if is_incumbent(board, row) => "incumbent".to_owned(),
        None => figure::NONE.to_owned(),
    }
}

/// The names of all criteria or flags that some row has, in the rubric's order.
pub fn score_names<'a>(board: &'a Leaderboard, of: impl Fn(&'a Row) -> &'a Scores) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in board.rows.iter().flat_map(|row| of(row).keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}
