//! The best schedule that was possible, to hold others against.

use crate::simulation::World;

/// The end of the best schedule that could be made by somebody who knows all times and outages in
/// advance, or somewhat before it: cells may be divided at will, and a model that was lost in an
/// outage need not be loaded again.
///
/// Every way to load models on hosts is tried (the pools are small). For given loads an end T is
/// possible if and only if for every set of models the hosts that load any of them have enough time
/// (Hall's theorem; the work of a model is measured in seconds of a host of slowness 1).
pub fn earliest_end(world: &World, slowness: &[f64]) -> f64 {
    let hosts = slowness.len();
    let subsets = (1_usize << hosts) - 1;
    let ways = subsets.saturating_pow(u32::try_from(world.models.len()).unwrap_or(u32::MAX));
    let mut best = f64::MAX;
    for way in 0..ways {
        let mut rest = way;
        let loaded: Vec<usize> = world
            .models
            .iter()
            .map(|_| {
                let subset = rest % subsets + 1;
                rest /= subsets;
                subset
            })
            .collect();
        let is_possible = |end: f64| fits(world, slowness, &loaded, end);
        if !is_possible(best.min(1e9)) {
            continue;
        }
        let (mut low, mut high) = (0.0, best.min(1e9));
        while high - low > 1e-4 * high {
            let middle = f64::midpoint(low, high);
            if is_possible(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        best = high;
    }
    best
}

fn fits(world: &World, slowness: &[f64], loaded: &[usize], end: f64) -> bool {
    let capacity: Vec<f64> = world
        .hosts
        .iter()
        .enumerate()
        .map(|(host, it)| {
            let loads: f64 = (0..loaded.len())
                .filter(|model| loaded[*model] & (1 << host) != 0)
                .map(|model| it.load_s[model])
                .sum();
            let out: f64 = it
                .outages
                .iter()
                .map(|(from, to)| (to.min(end) - from).max(0.0))
                .sum();
            (end - out - loads) / slowness[host]
        })
        .collect();
    if capacity.iter().any(|it| *it < 0.0) {
        // A host without time for its loads can load less, which is another way.
        return false;
    }
    (1..1_usize << loaded.len()).all(|set| {
        let models = (0..loaded.len()).filter(|model| set & (1 << model) != 0);
        let (mut work, mut reach) = (0.0, 0);
        for model in models {
            let setup = &world.models[model];
            work += setup.cells as f64 * setup.cell_s;
            reach |= loaded[model];
        }
        let time: f64 = (0..capacity.len())
            .filter(|host| reach & (1 << host) != 0)
            .map(|host| capacity[host])
            .sum();
        work <= time + 1e-9
    })
}
