//! GEPA's rule, implemented from its description, in the same worlds.
//!
//! A parent is drawn from the per-example Pareto set on the validation set by the number of examples that it
//! leads. Parent and child are scored on three training examples; the child is kept if its sum is
//! strictly higher, and is then scored on the whole validation set. The result is the version with the
//! highest mean there; it is announced as an improvement if it is not the seed. One candidate an
//! example. Six calls a child, and the validation set for each child that is kept.
//!
//! Reference: gepa-ai/gepa, `core/engine.py`, `strategies/acceptance.py`, `gepa_utils.py`.

use assize_optimise::parent::{Contender, draw, pareto_set};
use assize_stats::describe;
use assize_stats::rng::SplitMix64;
use assize_stats::simulate::seed_of;

use super::{EFFECTS, Run, Study, verdicts};

/// Training examples that a child is tried on.
const BATCH: usize = 3;
/// Scenarios of the validation set are numbered from here, those of the training set from 0.
const VALIDATION: u64 = 1_000;

struct Version {
    name: String,
    effect: f64,
    validation: Vec<f64>,
}

/// One run with so many children.
pub fn run(study: &Study, children: usize, seed: u64) -> Run {
    let examples = study.design.scenarios;
    let mut rng = SplitMix64::new(seed_of(seed, EFFECTS));
    let mut calls = 0;
    let validate = |version: u64, effect: f64| -> Vec<f64> {
        (0..examples as u64)
            .filter_map(|it| {
                study
                    .candidates(seed, version, effect, VALIDATION + it)
                    .next()
            })
            .collect()
    };
    let mut pool = vec![Version {
        name: "0".to_owned(),
        effect: 0.0,
        validation: validate(0, 0.0),
    }];
    calls += examples;
    for child in 1..=children {
        let parent = parent(&pool, seed, child);
        let effect = pool[parent].effect + study.world.draw(&mut rng);
        let batch = batch(&mut rng, examples);
        // A version is sampled anew each time that it is tried.
        let sum = |version: u64, effect: f64| -> f64 {
            let key = 1_000_000 * child as u64 + version;
            let scores = batch
                .iter()
                .filter_map(|it| study.candidates(seed, key, effect, *it).next());
            scores.sum()
        };
        calls += 2 * BATCH;
        if sum(1, effect) > sum(2, pool[parent].effect) {
            calls += examples;
            pool.push(Version {
                name: child.to_string(),
                effect,
                validation: validate(child as u64, effect),
            });
        }
    }
    let mean = |it: &Version| describe::mean(&it.validation).unwrap_or(0.0);
    let best = pool.iter().rev().max_by(|a, b| mean(a).total_cmp(&mean(b)));
    let best = best.unwrap_or(&pool[0]);
    let is_promoted = best.name != "0";
    Run {
        is_nominated: is_promoted,
        is_promoted,
        true_gain: if is_promoted {
            study.true_gain(best.effect)
        } else {
            0.0
        },
        shown_gain: mean(best) - mean(&pool[0]),
        race_verdicts: verdicts(calls),
        ..Run::default()
    }
}

fn parent(pool: &[Version], seed: u64, child: usize) -> usize {
    let contenders: Vec<Contender<'_>> = pool
        .iter()
        .map(|it| Contender {
            id: &it.name,
            scores: it.validation.iter().copied().map(Some).collect(),
        })
        .collect();
    let drawn = draw(&pareto_set(&contenders), seed, verdicts(child));
    let place = drawn.and_then(|drawn| pool.iter().position(|it| it.name == drawn.id));
    place.unwrap_or(0)
}

/// Different training examples.
fn batch(rng: &mut SplitMix64, examples: usize) -> Vec<u64> {
    let mut all: Vec<u64> = (0..examples as u64).collect();
    for place in 0..BATCH.min(examples) {
        let other = place + rng.below(examples - place);
        all.swap(place, other);
    }
    all.truncate(BATCH);
    all
}
