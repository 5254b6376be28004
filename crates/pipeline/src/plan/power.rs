//! Power of the whole gate by simulation, the smallest effect that is found, and the cheapest
//! design that finds a given one.
//!
//! Every figure uses the same seeds, so that two designs or two effects are compared on the same
//! luck, and power hardly ever falls as the effect grows.

use assize_domain::plan::{Power, PowerPoint};
use assize_stats::{MIN_TEST_BLOCKS, StatsError};

use crate::promote::Thresholds;
use crate::promote::calibrate::Design;

const SEED: u64 = 20_261_116;
/// Searches use this share of the simulations that the effect asked is simulated with.
const SEARCH_SHARE: usize = 5;
const FEWEST_SIMULATIONS: usize = 50;
/// Halvings of the interval that holds the smallest effect: within 2 % of it.
const BISECTIONS: usize = 6;
/// Effects of the power curve, as multiples of the smallest effect that is found.
const CURVE: [f64; 7] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5];
/// Numbers of scenarios and of candidates that are tried for the cheapest design.
const SCENARIOS: [usize; 18] = [
    5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 200,
];
const CANDIDATES: [usize; 5] = [1, 2, 3, 5, 8];

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
            false_promotions: self.whole(&self.point(0.0)?),
            smallest_effect: smallest,
            curve: curve.collect::<Result<_, _>>()?,
            simulations: u32::try_from(self.simulations).unwrap_or(u32::MAX),
        })
    }

    /// The design with the fewest outputs that finds the effect with the wanted power. Confirming
    /// needs more scenarios, too, where no selection split is large enough.
    pub fn cheapest(&self, effect: f64, wanted: f64) -> Result<Option<Enough>, StatsError> {
        let mut confirmation = self.design.confirmation;
        for _ in 0..4 {
            let found = self.cheapest_with(confirmation, effect, wanted)?;
            if found.is_some() || !self.is_confirmed {
                return Ok(found);
            }
            confirmation = (confirmation * 2).max(MIN_TEST_BLOCKS);
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
            let try_size = |scenarios: usize| -> Result<f64, StatsError> {
                let design = search.sized(scenarios, confirmation, candidates);
                Ok(design.whole(&design.point(effect)?))
            };
            // The largest first: where it does not reach the power, no smaller one does.
            let Some(last) = sizes.len().checked_sub(1) else {
                continue;
            };
            if try_size(sizes[last])? < wanted {
                continue;
            }
            let (mut low, mut high) = (0, last);
            while low < high {
                let middle = usize::midpoint(low, high);
                if try_size(sizes[middle])? >= wanted {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            best = Some(Enough {
                scenarios: sizes[high],
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
        let mut above = self.design.detectable_effect().unwrap_or(most).min(most);
        while self.whole(&self.point(above)?) < wanted {
            if above >= most {
                return Ok(None);
            }
            above = (above * 1.5).min(most);
        }
        let mut below = 0.0;
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(below, above);
            if self.whole(&self.point(middle)?) >= wanted {
                above = middle;
            } else {
                below = middle;
            }
        }
        Ok(Some(above))
    }

    fn point(&self, effect: f64) -> Result<PowerPoint, StatsError> {
        let mut effects = vec![0.0; self.challengers];
        if let Some(last) = effects.last_mut() {
            *last = effect;
        }
        let found = self
            .design
            .passes(&effects, self.simulations, SEED, self.thresholds)?;
        let (without_confirmation, with_confirmation) = found.shares();
        Ok(PowerPoint {
            effect,
            without_confirmation,
            with_confirmation,
        })
    }

    const fn whole(&self, point: &PowerPoint) -> f64 {
        if self.is_confirmed {
            point.with_confirmation
        } else {
            point.without_confirmation
        }
    }
}
