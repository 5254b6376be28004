//! What a reader of a board should know before believing its rows.

use std::collections::BTreeSet;

use assize_domain::leaderboard::Coverage;
use assize_stats::table::Table;

use super::read::{Scores, TierScores};
use crate::error::count;

/// The warnings about one tier's scores.
pub fn warnings(
    scores: &Scores,
    judged: &TierScores,
    table: &Table,
    coverage: Coverage,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if coverage.failed > 0 {
        warnings.push(format!(
            "{} failed and {} missing here: run the same collect again",
            count(coverage.failed as usize, "cell"),
            if coverage.failed == 1 { "is" } else { "are" },
        ));
    }
    let partly = judged.partly();
    if partly > 0 {
        warnings.push(format!(
            "{} judged in part: their means are over the candidates that have a verdict",
            count(partly as usize, "cell") + if partly == 1 { " is" } else { " are" },
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
    if !scores.older.is_empty() {
        let runs: u64 = scores.older.iter().map(|it| it.runs).sum();
        let ids: BTreeSet<&str> = scores.older.iter().map(|it| it.scenario.as_str()).collect();
        warnings.push(format!(
            "{} of earlier versions of {} {} not counted ({}): collect the current version where a pair lacks it",
            count(usize::try_from(runs).unwrap_or(usize::MAX), "run"),
            count(ids.len(), "scenario"),
            if runs == 1 { "is" } else { "are" },
            listed(&ids),
        ));
    }
    let settings = scores.all_settings();
    if settings.len() > 1 {
        let ways: Vec<&str> = settings.into_iter().collect();
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

/// The first few names.
fn listed(names: &BTreeSet<&str>) -> String {
    const SHOWN: usize = 3;
    let first: Vec<&str> = names.iter().take(SHOWN).copied().collect();
    let rest = names.len().saturating_sub(SHOWN);
    match rest {
        0 => first.join(", "),
        _ => format!("{} and {rest} more", first.join(", ")),
    }
}
