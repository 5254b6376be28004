//! From scores to rows, tests and a decision.

use std::collections::BTreeMap;

use assize_domain::judge::Tier;
use assize_domain::leaderboard::{
    BoardRule, BoardTier, Estimate, FailedPair, Harm, Leaderboard, Pair, Pareto, Row,
    Scores as NamedScores, Variance,
};
use assize_stats::table::{self, Table};
use assize_stats::{Draws, MIN_TEST_BLOCKS, best, score, variance};

use super::comparability::{Obstacle, RatersOfPairs};
use super::decision::{self, DecisionRule};
use super::family::{Family, ends};
use super::harm::Effects;
use super::read::{Scores, TierScores};
use super::view::View;
use super::{CompareOptions, resources, sentence, warnings};
use crate::{PipelineError, Result};

/// Draws for the chance of being best, which is shown and decides nothing.
const DISPLAY_DRAWS: usize = 2_000;

/// Ranks the pairs by composite and tests each against the incumbent.
pub fn rank(
    scores: &Scores,
    view: &View<'_>,
    (incumbent, champion): (Option<usize>, Option<usize>),
    options: &CompareOptions,
    rule: DecisionRule,
) -> Leaderboard {
    let pairs = scores.pairs();
    let judged = view.judged.as_ref();
    let blocks = scores.scenarios.len();
    let means = &view.means;
    let mut family = Family::new(means, incumbent, options.seed);
    let raters = RatersOfPairs::of(judged);
    compare_conditions(scores, &raters, rule, &mut family);
    let rows = ranked_rows(scores, view, &family, &pairs, options.seed);
    let rule = rule.under(scores.full_rubric.as_ref());
    let decision = decision::decide(&family, &pairs, rule);
    let place = sentence::Place {
        experiment: &options.experiment,
        tier: match view.tier {
            BoardTier::Auto => Tier::Auto,
            BoardTier::Expert | BoardTier::Combined => Tier::Expert,
        },
        split: options.split,
        has_champion: champion.is_some() && family.incumbent == champion,
    };
    let harm = harm_of(scores, &view.table, &family, &decision, options, rule.level);
    let coverage = scores.coverage(view.coverage);
    // Runs that began in the same millisecond come from two stores in different orders.
    let mut unjudged_pairs: Vec<Pair> = unjudged(scores, &family)
        .map(|index| pairs[index].clone())
        .collect();
    unjudged_pairs.sort();
    Leaderboard {
        experiment: options.experiment.clone(),
        rubric: scores.rubric.clone(),
        tier: view.tier,
        computed: scores.is_computed(),
        split: options.split.to_string(),
        incumbent: family.incumbent.map(|index| pairs[index].clone()),
        pareto: Pareto::of(&rows),
        rows,
        decision: Some(sentence::of(
            &decision, &family, means, &pairs, rule, &place,
        )),
        variance: shares(judged, &pairs, blocks),
        coverage,
        adaptive: scores.adaptive,
        composite_range: scores
            .full_rubric
            .as_ref()
            .map(|rubric| rubric.composite_range().into()),
        confirmation: None,
        warnings: warnings::warnings(scores, view, &family, &decision),
        rule: Some(BoardRule {
            level: rule.level,
            margin: rule.margin,
        }),
        combination: view.combination.clone(),
        method: family.method.map(|it| it.name().to_owned()),
        unjudged_pairs,
        failed_pairs: failed_pairs(scores, &pairs),
        harm,
        older_versions: scores.older.clone(),
    }
}

/// The judged pairs by composite, with their tests.
fn ranked_rows(
    scores: &Scores,
    view: &View<'_>,
    family: &Family,
    pairs: &[Pair],
    seed: u64,
) -> Vec<Row> {
    let (judged, means) = (view.judged.as_ref(), &view.means);
    let ranked: Vec<usize> = (0..pairs.len())
        .filter(|pair| family.members[*pair].scenarios > 0)
        .collect();
    let p_best = chances(
        means,
        &ranked,
        Draws {
            count: DISPLAY_DRAWS,
            seed,
        },
    );
    let mut rows: Vec<Row> = ranked
        .iter()
        .filter_map(|&index| {
            let mut row = row(scores, judged, &pairs[index], index, &means[index])?;
            row.vs_incumbent = family.versus(index).cloned();
            row.p_best = p_best.get(&index).copied();
            Some(row)
        })
        .collect();
    rows.sort_by(|a, b| {
        b.composite
            .mean
            .total_cmp(&a.composite.mean)
            .then_with(|| b.scenarios.cmp(&a.scenarios))
            .then_with(|| a.pair().cmp(&b.pair()))
    });
    number(&mut rows);
    rows
}

/// The collected pairs that the tier has not judged enough to be tested: somebody chose which pairs
/// are judged, and the family of tests does not contain that choice.
pub fn unjudged<'a>(scores: &'a Scores, family: &'a Family) -> impl Iterator<Item = usize> + 'a {
    (0..scores.pair_count()).filter(move |pair| {
        let is_tested = family.versus(*pair).is_some_and(|it| it.p.is_some());
        Some(*pair) != family.incumbent && !is_tested
    })
}

/// The pairs whose cells all failed.
fn failed_pairs(scores: &Scores, pairs: &[Pair]) -> Vec<FailedPair> {
    let has_failed = |index: &usize| {
        let runs = scores.runs_of(*index);
        !runs.is_empty() && runs.iter().all(|it| it.is_failed)
    };
    let failed = (0..pairs.len()).filter(has_failed);
    let mut failed: Vec<FailedPair> = failed
        .map(|index| FailedPair {
            pair: pairs[index].clone(),
            cells: u32::try_from(scores.runs_of(index).len()).unwrap_or(u32::MAX),
            n_failed: scores.lost(index).failed,
        })
        .collect();
    failed.sort_by(|a, b| a.pair.cmp(&b.pair));
    failed
}

/// Notes what differed between each challenger and the incumbent besides model and prompt.
fn compare_conditions(
    scores: &Scores,
    raters: &RatersOfPairs,
    rule: DecisionRule,
    family: &mut Family,
) {
    let Some(incumbent) = family.incumbent else {
        return;
    };
    let lost = scores.lost(incumbent).share();
    for (pair, member) in family.members.iter_mut().enumerate() {
        let Some(versus) = &mut member.versus else {
            continue;
        };
        versus.judged_apart = raters.judged_apart(pair, incumbent);
        let apart = versus.judged_apart.filter(|it| *it > rule.judged_apart);
        let failures = (scores.lost(pair).share() - lost).abs();
        member.obstacle = if !scores.settings_apart(pair, incumbent).is_empty() {
            Some(Obstacle::Settings)
        } else if failures > rule.failed_margin {
            Some(Obstacle::Failures(failures))
        } else {
            apart.map(Obstacle::JudgedApart)
        };
    }
}

/// Where the leading challenger loses.
fn harm_of(
    scores: &Scores,
    table: &Table,
    family: &Family,
    decision: &decision::Decision,
    options: &CompareOptions,
    level: f64,
) -> Option<Harm> {
    let (leader, incumbent) = (decision.leader()?, family.incumbent?);
    let current = options.current.as_ref();
    let segments = current.map_or_else(Vec::new, |it| it.segments(&scores.scenarios));
    let effects = Effects::of(
        table.treatment_cells(leader),
        table.treatment_cells(incumbent),
        &segments,
        level,
    );
    effects.listed(scores.pairs()[leader].clone(), &scores.scenarios)
}

/// The scores of all pairs × scenarios.
pub fn table(scores: &Scores, judged: &TierScores) -> Result<Table> {
    Table::from_rows(scores.pair_count(), scores.scenarios.len(), &judged.rows)
        .map_err(|error| PipelineError::Invalid(error.to_string()))
}

fn row(
    scores: &Scores,
    judged: &TierScores,
    pair: &Pair,
    index: usize,
    means: &[Option<f64>],
) -> Option<Row> {
    let score = score::macro_score(means, 0.95).ok()?;
    let named = |names: Vec<&str>, offset: usize| -> NamedScores {
        let values = names
            .into_iter()
            .enumerate()
            .filter_map(|(position, name)| {
                Some((
                    name.to_owned(),
                    macro_mean(judged, index, offset + position)?,
                ))
            });
        values.collect()
    };
    let rubric = scores.full_rubric.as_ref()?;
    let criteria: Vec<&str> = rubric.criterion_names().collect();
    let flags = rubric.flags.iter().map(|it| it.name.as_str()).collect();
    let offset = criteria.len();
    Some(Row {
        rank: 0,
        model: pair.model.clone(),
        prompt: pair.prompt.clone(),
        scenarios: u32::try_from(score.blocks).unwrap_or(u32::MAX),
        candidates: judged.candidates_of(index),
        composite: Estimate {
            mean: score.mean,
            se: score.se,
            ci95: score.interval.map(ends),
        },
        criteria: named(criteria, 0),
        flags: named(flags, offset),
        vs_incumbent: None,
        p_best: None,
        n_failed: scores.lost(index).failed,
        latency_ms: scores.mean_of(index, |it| it.latency_ms),
        tokens_per_s: scores.mean_of(index, |it| it.tokens_per_s),
        latency_p50_ms: resources::latency_quantile(scores, index, 0.5),
        latency_p95_ms: resources::latency_quantile(scores, index, 0.95),
        cost_usd_per_1000: resources::cost_per_1000(scores, index),
        thinking_tokens: resources::thinking_tokens(scores, index),
    })
}

/// The mean over scenarios of one score's cell means, summed in the order of the scenarios, so
/// that the same board has the same last digits every time.
pub fn macro_mean(judged: &TierScores, pair: usize, score: usize) -> Option<f64> {
    let means: Vec<f64> = judged.means_of(pair, score).collect();
    assize_stats::describe::mean(&means)
}

/// The probability of being best, among the pairs that have scores.
fn chances(means: &[Vec<Option<f64>>], ranked: &[usize], draws: Draws) -> BTreeMap<usize, f64> {
    let means: Vec<_> = ranked.iter().map(|pair| means[*pair].clone()).collect();
    let blocks = means.first().map_or(0, Vec::len);
    if ranked.len() < 2 || blocks < MIN_TEST_BLOCKS {
        return BTreeMap::new();
    }
    let Ok(best) = best::probability_of_best(&means, draws) else {
        return BTreeMap::new();
    };
    // It stands on the scenarios that every pair has.
    if best.blocks < MIN_TEST_BLOCKS {
        return BTreeMap::new();
    }
    ranked
        .iter()
        .copied()
        .zip(best.treatments.iter().map(|it| it.p_best.clamp(0.0, 1.0)))
        .collect()
}

/// Where the differences come from; only for a whole grid of models × prompts.
fn shares(judged: &TierScores, pairs: &[Pair], blocks: usize) -> Option<Variance> {
    let mut models: Vec<&str> = Vec::new();
    let mut prompts: Vec<&str> = Vec::new();
    for pair in pairs {
        if !models.contains(&pair.model.as_str()) {
            models.push(&pair.model);
        }
        if !prompts.contains(&pair.prompt.as_str()) {
            prompts.push(&pair.prompt);
        }
    }
    if models.len() * prompts.len() != pairs.len() || pairs.len() < 2 {
        return None;
    }
    let place_of = |pair: &Pair| {
        let model = models.iter().position(|it| *it == pair.model).unwrap_or(0);
        let prompt = prompts
            .iter()
            .position(|it| *it == pair.prompt)
            .unwrap_or(0);
        model * prompts.len() + prompt
    };
    let places: Vec<usize> = pairs.iter().map(place_of).collect();
    let ordered = judged.rows.iter().map(|row| table::Row {
        treatment: places[row.treatment],
        ..*row
    });
    let ordered: Vec<table::Row> = ordered.collect();
    let ordered = Table::from_rows(pairs.len(), blocks, &ordered).ok()?;
    let found = variance::decompose(&ordered, models.len(), prompts.len()).ok()?;
    let shares = found.shares()?;
    Some(Variance {
        model: shares.first,
        prompt: shares.second,
        interaction: shares.first_by_second,
        scenario: shares.block,
        by_scenario: shares.first_by_block
            + shares.second_by_block
            + shares.first_by_second_by_block,
        noise: (found.sources.replicate.df > 0).then_some(shares.replicate),
    })
}

/// Ranks from 1; equal means share one.
fn number(rows: &mut [Row]) {
    let mut previous: Option<(f64, u32)> = None;
    for (position, row) in (1_u32..).zip(rows.iter_mut()) {
        row.rank = match previous {
            Some((mean, rank)) if (mean - row.composite.mean).abs() < 1e-12 => rank,
            _ => position,
        };
        previous = Some((row.composite.mean, row.rank));
    }
}
