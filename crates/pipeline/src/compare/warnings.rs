//! What a reader of a board should know before believing its rows.

use std::collections::BTreeSet;

use assize_domain::own_model;

use super::decision::Decision;
use super::family::Family;
use super::read::Scores;
use super::view::View;
use super::{length, rank};
use crate::error::count;

/// The warnings about one tier's scores.
pub fn warnings(
    scores: &Scores,
    view: &View<'_>,
    family: &Family,
    decision: &Decision,
) -> Vec<String> {
    let (judged, table) = (view.judged.as_ref(), &view.table);
    let coverage = scores.coverage(view.coverage);
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
    warnings.extend(about_versions(scores));
    let settings = scores.all_settings();
    if settings.len() > 1 {
        let ways: Vec<&str> = settings.into_iter().collect();
        warnings.push(format!(
            "runs were collected with different settings ({}): a difference may come from these; \
             use one experiment for each",
            ways.join("; "),
        ));
    }
    let kinds = judged.raters().iter().map(|it| it.kind.as_str());
    let pairs = 0..scores.pair_count();
    let models: BTreeSet<&str> = pairs
        .map(|pair| scores.pair_key(pair).model.as_str())
        .collect();
    warnings.extend(own_model::warnings(kinds, models));
    warnings.extend(about_leader(scores, view, family, decision));
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

/// The runs of earlier versions of scenarios.
fn about_versions(scores: &Scores) -> Option<String> {
    let runs: u64 = scores.older.iter().map(|it| it.runs).sum();
    let ids: BTreeSet<&str> = scores.older.iter().map(|it| it.scenario.as_str()).collect();
    (!ids.is_empty()).then(|| {
        format!(
            "{} of earlier versions of {} {} not counted ({}): collect the current version where a pair lacks it",
            count(usize::try_from(runs).unwrap_or(usize::MAX), "run"),
            count(ids.len(), "scenario"),
            if runs == 1 { "is" } else { "are" },
            listed(&ids),
        )
    })
}

/// What could explain the leader's lead besides quality.
fn about_leader(
    scores: &Scores,
    view: &View<'_>,
    family: &Family,
    decision: &Decision,
) -> Vec<String> {
    let (Some(leader), Some(incumbent)) = (decision.leader(), family.incumbent) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    let unjudged = rank::unjudged(scores, family).count();
    if matches!(decision, Decision::Winner { .. }) && unjudged > 0 {
        warnings.push(format!(
            "{} collected and not judged here: if scores decided which pairs are judged, p is too small, and \
             only the confirmation split can decide",
            count(unjudged, "pair") + if unjudged == 1 { " was" } else { " were" },
        ));
    }
    let pairs = scores.pairs();
    let [ours, theirs] = [leader, incumbent].map(|pair| scores.lost(pair));
    if (ours.share() - theirs.share()).abs() > NOTABLE_LOSS {
        warnings.push(format!(
            "{} of {} requests of {} and {} of {} of {} produced nothing: the means are over the rest",
            ours.failed, ours.requested, pairs[leader], theirs.failed, theirs.requested, pairs[incumbent],
        ));
    }
    warnings.extend(length::explains(
        scores,
        view,
        leader,
        incumbent,
        &pairs[leader],
    ));
    warnings
}

/// A smaller difference in the shares of failed requests is not worth a line.
const NOTABLE_LOSS: f64 = 0.02;

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
