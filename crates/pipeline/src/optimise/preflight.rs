//! What earlier scores say against starting a loop: the seed is saturated, or noise hides what prompts
//! change.

use std::collections::BTreeMap;

use assize_domain::judge::Tier;
use assize_domain::scenario::Split;
use assize_domain::task::Task;
use assize_optimise::preflight::{Obstacle, Spread, noise, saturated};
use assize_optimise::{LoopSettings, Version};
use assize_stats::table::{Row, Table};
use assize_store::Tracking;

use crate::Result;
use crate::compare::read::{self, Scores, TierScores};

/// So many experiments are read, the latest first.
const MOST_EXPERIMENTS: usize = 8;

/// The objections of earlier scores, strongest evidence first. Those that are not certain are only
/// warnings.
pub(super) fn obstacles(
    store: &dyn Tracking,
    task: &Task,
    settings: &LoopSettings,
    seed: &Version,
    race_scenarios: usize,
) -> Result<Vec<Obstacle>> {
    let mut known = store.experiment_list()?;
    known.sort_by_key(|it| std::cmp::Reverse(it.last_updated));
    let mut is_saturated: Option<Option<Obstacle>> = None;
    let mut spread: Option<(usize, Spread)> = None;
    for experiment in known.into_iter().take(MOST_EXPERIMENTS) {
        for split in [Split::Feedback, Split::Selection] {
            let scores = read::read(store, &experiment.name, split, None)?;
            let is_same = scores.rubric.as_ref();
            let is_same = is_same.is_some_and(|it| it.sha256 == task.rubric.sha256);
            let tiers = [Tier::Auto, Tier::Expert].map(|tier| scores.tier(tier));
            let Some(judged) = tiers.into_iter().flatten().next().filter(|_| is_same) else {
                continue;
            };
            if is_saturated.is_none() {
                let cells = seed_cells(&scores, judged, settings, seed);
                // The latest scores of the seed decide, those of the feedback split first.
                let found = saturated(&cells, task.rubric.composite_range(), settings);
                is_saturated = (!cells.is_empty()).then(|| found.map(|it| on_split(it, split)));
            }
            for model in &settings.models {
                let found = table_of(&scores, judged, model);
                let found = found.and_then(|it| Some((it.1, Spread::of(&it.0)?)));
                let is_more = |it: &(usize, Spread)| spread.is_none_or(|best| it.0 > best.0);
                spread = found.filter(is_more).or(spread);
            }
        }
    }
    let noisy = spread.and_then(|(_, it)| noise(&it, race_scenarios, settings));
    Ok(is_saturated.flatten().into_iter().chain(noisy).collect())
}

/// Says which split the scores are from.
fn on_split(obstacle: Obstacle, split: Split) -> Obstacle {
    Obstacle {
        reason: obstacle
            .reason
            .replace("feedback split", &format!("{split} split")),
        ..obstacle
    }
}

/// The seed's cell means with the loop's models.
fn seed_cells(
    scores: &Scores,
    judged: &TierScores,
    settings: &LoopSettings,
    seed: &Version,
) -> Vec<f64> {
    let is_seed = |pair: &usize| {
        let key = scores.pair_key(*pair);
        key.prompt_sha256 == seed.sha256 && settings.models.contains(&key.model)
    };
    let pairs = (0..scores.pair_count()).filter(is_seed);
    let scenarios = 0..scores.scenarios.len();
    let cells = pairs.flat_map(|pair| scenarios.clone().map(move |scenario| (pair, scenario)));
    cells
        .filter_map(|(pair, scenario)| judged.cell(pair, scenario))
        .filter(|it| it.candidates > 0)
        .map(|it| it.composite / f64::from(it.candidates))
        .collect()
}

/// The prompts of one model on the scenarios that all of them have, with the number of scores.
/// Prompts with fewer scenarios than the others are left out.
fn table_of(scores: &Scores, judged: &TierScores, model: &str) -> Option<(Table, usize)> {
    let mut by_pair: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
    for row in &judged.rows {
        if scores.pair_key(row.treatment).model == model {
            by_pair.entry(row.treatment).or_default().push(row);
        }
    }
    let scenarios_of = |rows: &Vec<&Row>| {
        let mut blocks: Vec<usize> = rows.iter().map(|it| it.block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    };
    let most = by_pair.values().map(|it| scenarios_of(it).len()).max()?;
    by_pair.retain(|_, rows| scenarios_of(rows).len() == most);
    let shared: Vec<usize> = by_pair
        .values()
        .map(scenarios_of)
        .reduce(|a, b| a.into_iter().filter(|it| b.contains(it)).collect())?;
    let mut rows = Vec::new();
    for (treatment, own) in by_pair.values().enumerate() {
        for row in own {
            if let Some(block) = shared.iter().position(|it| *it == row.block) {
                rows.push(Row {
                    treatment,
                    block,
                    value: row.value,
                });
            }
        }
    }
    let table = Table::from_rows(by_pair.len(), shared.len(), &rows).ok()?;
    Some((table, rows.len()))
}
