//! Power of the whole gate by simulation, the smallest effect that is found, and the cheapest
//! design that finds a given one.
//!
//! Every figure uses the same seeds, so that two designs or two effects are compared on the same
//! luck, and power hardly ever falls as the effect grows.

use std::ops::Range;

use assize_domain::plan::{Power, PowerPoint};
use assize_stats::{MIN_TEST_BLOCKS, StatsError};

use crate::promote::Thresholds;
use crate::promote::calibrate::{Design, Passes};

const SEED: u64 = 20_261_116;
/// Searches use this share of the simulations that the effect asked is simulated with.
const SEARCH_SHARE: usize = 5;
const FEWEST_SIMULATIONS: usize = 50;
/// A search looks after so many simulations whether the answer is clear already.
const BATCH: usize = 100;
/// It is clear where the share is so many standard errors off the wanted power.
const CLEAR_SE: f64 = 4.0;
/// Halvings of the interval that holds the smallest effect: within 2 % of it.
const BISECTIONS: usize = 6;
/// Effects of the power curve, as multiples of the smallest effect that is found.
const CURVE: [f64; 7] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5];
/// Numbers of scenarios and of candidates that are tried for the cheapest design.
const SCENARIOS: [usize; 16] = [
    5, 6, 8, 10, 12, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 200,
];
const CANDIDATES: [usize; 5] = [1, 2, 3, 5, 8];
/// Scenarios and candidates of a selection split that is large enough for any confirmation.
const AMPLE: (usize, usize) = (64, 8);

/// A design to be simulated.
#[derive(Debug, Clone)]
pub struct Simulation<'a> {
    pub design: Design,
    pub challengers: usize,
    /// Whether the task has a confirmation split.
    pub is_confirmed: bool,
    pub thresholds: &'a Thresholds,
    pub simulations: usize,
}

/// What a design with enough power looks like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Enough {
    pub scenarios: usize,
    pub confirmation: usize,
    pub candidates: usize,
    pub power: f64,
}

impl Simulation<'_> {
    /// Everything about the power of this design.
    pub fn power(&self, effect: f64, wanted: f64) -> Result<Power, StatsError> {
        let search = self.shortened();
        let asked = self.point(effect)?;
        let smallest = search.smallest_effect(wanted)?;
        let unit = smallest.unwrap_or(effect).max(effect / 1.5);
        let curve = CURVE.iter().map(|it| search.point(it * unit));
        Ok(Power {
            effect,
            wanted,
            whole_gate: self.whole(&asked),
            without_confirmation: asked.without_confirmation,
            with_confirmation: asked.with_confirmation,
            false_promotions: search.whole(&search.point(0.0)?),
            smallest_effect: smallest,
            curve: curve.collect::<Result<_, _>>()?,
            simulations: u32::try_from(self.simulations).unwrap_or(u32::MAX),
        })
    }

    /// The design with the fewest outputs that finds the effect with the wanted power. Confirming
    /// needs more scenarios, too, where no selection split is large enough.
    pub fn cheapest(&self, effect: f64, wanted: f64) -> Result<Option<Enough>, StatsError> {
        if !self.is_confirmed {
            return self.cheapest_with(self.design.confirmation, effect, wanted);
        }
        let first = self.design.confirmation.max(MIN_TEST_BLOCKS);
        let sizes = [first, 2 * first, 4 * first, 8 * first];
        let ample = self.shortened();
        let enough = first_that(&sizes, |confirmation| {
            let design = ample.sized(AMPLE.0, confirmation, AMPLE.1);
            design.reaches(effect, wanted)
        })?;
        // A split that is just enough for an ample selection leaves no room for a smaller one.
        let sizes = enough.into_iter().flat_map(|it| [it, 2 * it]);
        for confirmation in sizes {
            if let Some(found) = self.cheapest_with(confirmation, effect, wanted)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn cheapest_with(
        &self,
        confirmation: usize,
        effect: f64,
        wanted: f64,
    ) -> Result<Option<Enough>, StatsError> {
        let search = self.shortened();
        let mut best: Option<Enough> = None;
        for candidates in CANDIDATES {
            let cells = best.map_or(usize::MAX, |it| it.scenarios * it.candidates - 1);
            let within = SCENARIOS.iter().filter(|it| **it * candidates <= cells);
            let sizes: Vec<usize> = within.copied().collect();
            let reaches = |scenarios: usize| {
                let design = search.sized(scenarios, confirmation, candidates);
                design.reaches(effect, wanted)
            };
            let Some(enough) = first_that(&sizes, reaches)? else {
                continue;
            };
            best = Some(Enough {
                scenarios: enough,
                confirmation,
                candidates,
                power: 0.0,
            });
        }
        let Some(found) = best else {
            return Ok(None);
        };
        let design = self.sized(found.scenarios, confirmation, found.candidates);
        let power = design.whole(&design.point(effect)?);
        Ok(Some(Enough { power, ..found }))
    }

    /// The same simulation of a design of another size.
    fn sized(&self, scenarios: usize, confirmation: usize, candidates: usize) -> Self {
        Self {
            design: Design {
                scenarios,
                confirmation,
                candidates,
                ..self.design.clone()
            },
            ..self.clone()
        }
    }

    fn shortened(&self) -> Self {
        Self {
            simulations: (self.simulations / SEARCH_SHARE).max(FEWEST_SIMULATIONS),
            ..self.clone()
        }
    }

    /// By bisection below the composite's range; `None` where even that is not found.
    fn smallest_effect(&self, wanted: f64) -> Result<Option<f64>, StatsError> {
        let (low, high) = self.design.composite_range;
        let most = high - low;
        // Where nothing varies, every effect is detectable, but it must still reach the margin.
        let start = self.design.detectable_effect().unwrap_or(most);
        let mut above = start.clamp(most / 100.0, most);
        while !self.reaches(above, wanted)? {
            if above >= most {
                return Ok(None);
            }
            above = (above * 1.5).min(most);
        }
        let mut below = 0.0;
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(below, above);
            if self.reaches(middle, wanted)? {
                above = middle;
            } else {
                below = middle;
            }
        }
        Ok(Some(above))
    }

    /// Whether the effect is found with the wanted power. Simulates no more than it takes to tell.
    fn reaches(&self, effect: f64, wanted: f64) -> Result<bool, StatsError> {
        let mut found = Passes::default();
        loop {
            let first = found.experiments;
            let last = (first + BATCH).min(self.simulations);
            found.add(self.passes(effect, first..last)?);
            let power = self.whole(&point(effect, found));
            let se = (wanted * (1.0 - wanted) / last as f64).sqrt();
            if last == self.simulations || (power - wanted).abs() > CLEAR_SE * se {
                return Ok(power >= wanted);
            }
        }
    }

    fn point(&self, effect: f64) -> Result<PowerPoint, StatsError> {
        let found = self.passes(effect, 0..self.simulations)?;
        Ok(point(effect, found))
    }

    fn passes(&self, effect: f64, simulations: Range<usize>) -> Result<Passes, StatsError> {
        let mut effects = vec![0.0; self.challengers];
        if let Some(last) = effects.last_mut() {
            *last = effect;
        }
        self.design
            .passes(&effects, simulations, SEED, self.thresholds)
    }

    const fn whole(&self, point: &PowerPoint) -> f64 {
        if self.is_confirmed {
            point.with_confirmation
        } else {
            point.without_confirmation
        }
    }
}

fn point(effect: f64, found: Passes) -> PowerPoint {
    let (without_confirmation, with_confirmation) = found.shares();
    PowerPoint {
        effect,
        without_confirmation,
        with_confirmation,
    }
}

/// The smallest of ascending sizes that is enough, by steps of growing width and then by bisection:
/// large sizes take long to simulate and are seldom needed.
fn first_that(
    sizes: &[usize],
    is_enough: impl Fn(usize) -> Result<bool, StatsError>,
) -> Result<Option<usize>, StatsError> {
    let Some(last) = sizes.len().checked_sub(1) else {
        return Ok(None);
    };
    let (mut low, mut high, mut step) = (0, 0, 1);
    while !is_enough(sizes[high])? {
        if high == last {
            return Ok(None);
        }
        low = high + 1;
        high = (high + step).min(last);
        step *= 2;
    }
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_enough(sizes[middle])? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(Some(sizes[high]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_enough_is_found_without_trying_all() {
        let sizes: Vec<usize> = (1..=16).collect();
        for enough in 1..=17 {
            let found = first_that(&sizes, |it| Ok(it >= enough)).unwrap();
            assert_eq!(found, Some(enough).filter(|it| *it <= 16));
        }
        assert_eq!(first_that(&[], |_| Ok(true)).unwrap(), None);
    }
}
