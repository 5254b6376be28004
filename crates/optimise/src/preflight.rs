//! Whether a loop is worth starting, from scores that are there already.
//!
//! *Saturated*: the seed's mean is so near to the top of the scale that better prompts cannot score higher.
//!
//! *Noise*: the race compares prompts by their means over S scenarios with c candidates each. Such a mean has the
//! sampling variance SE² = (σ²_by + σ²/c)/S, where σ² is the variance of candidates within a cell and
//! σ²_by that of a prompt's own turn in a scenario; what all prompts share in a scenario cancels. If
//! prompts differ with variance σ²_p, both normal, the race puts the better of two prompts first with
//! probability
//!
//!   P = 1/2 + arctan(σ_p/SE)/π.
//!
//! Below P = 0.6 a race is hardly more than a draw by lot. Earlier runs give σ²_p = max(0, (MS_prompt −
//! MS_by)/(K·S′)) from the table of S′ scenarios and K candidates. With few prompts that is a rough
//! estimate, so the loop is stopped only where they show it: where the hypothesis that σ_p is large
//! enough for P = 0.6 has p ≤ 0.2 (F = MS_prompt/MS_by against its distribution under that hypothesis).
//! Where only the estimate is too small, it is a warning. With S* = (σ²_by + σ²/c)·tan²(0.1·π)/σ²_p scenarios P
//! would be 0.6.
//!
//! References: Searle, Casella, McCulloch (1992), "Variance components", chapter 3; Sheppard (1899)
//! for the probability of equal signs of two correlated normal differences.

use assize_stats::dist::f_upper;
use assize_stats::table::Table;
use assize_stats::variance::decompose_treatments;

use crate::settings::LoopSettings;

/// The probability that the race must at least have of ranking two prompts rightly.
pub const LEAST_RIGHT: f64 = 0.6;
/// The level of the test that stops a loop.
const LEVEL: f64 = 0.2;
/// More scenarios than this are not proposed.
const MOST_SCENARIOS: f64 = 1000.0;

/// What speaks against starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// `saturated` or `noise`.
    pub name: &'static str,
    /// Otherwise it is a warning.
    pub is_certain: bool,
    pub reason: String,
    pub remedy: String,
}

/// Where the variance of earlier scores comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Prompts that were compared.
    pub prompts: usize,
    /// σ²_p.
    pub between: f64,
    /// σ²_by.
    pub by_scenario: f64,
    /// σ²; 0 where cells have one candidate, whose noise is then in `by_scenario`.
    pub noise: f64,
    ms_prompts: f64,
    ms_by_scenario: f64,
    /// K·S′.
    weight: f64,
    df: (usize, usize),
}

impl Spread {
    /// From a table of prompts × scenarios of one model; `None` with fewer than two prompts or
    /// scenarios that all have.
    pub fn of(table: &Table) -> Option<Self> {
        let found = decompose_treatments(table).ok()?;
        let (prompts, by) = (found.sources.first, found.sources.first_by_block);
        let (ms_prompts, ms_by_scenario) = (prompts.ms()?, by.ms()?);
        let noise = found.sources.replicate.ms();
        // Below this a mean square is nothing but rounding.
        let rounding = 1e-12 * found.sources.block.ms().unwrap_or(0.0);
        let [ms_prompts, ms_by_scenario] =
            [ms_prompts, ms_by_scenario].map(|it| if it <= rounding { 0.0 } else { it });
        let weight = found.replicates * found.blocks as f64;
        let by_scenario = (ms_by_scenario - noise.unwrap_or(0.0)) / found.replicates;
        Some(Self {
            prompts: table.treatments(),
            between: ((ms_prompts - ms_by_scenario) / weight).max(0.0),
            by_scenario: by_scenario.max(0.0),
            noise: noise.unwrap_or(0.0),
            ms_prompts,
            ms_by_scenario,
            weight,
            df: (prompts.df, by.df),
        })
    }

    /// The sampling variance of a prompt's mean over one scenario.
    fn per_scenario(&self, candidates: u32) -> f64 {
        self.by_scenario + self.noise / f64::from(candidates.max(1))
    }

    /// The probability that a race over so many scenarios ranks two prompts rightly.
    pub fn right(&self, scenarios: usize, candidates: u32) -> f64 {
        let se = (self.per_scenario(candidates) / scenarios.max(1) as f64).sqrt();
        if se == 0.0 {
            // Without noise even a small difference shows, and without a difference nothing does.
            return if self.between > 0.0 { 1.0 } else { 0.5 };
        }
        0.5 + (self.between.sqrt() / se).atan() / std::f64::consts::PI
    }

    /// The smallest σ²_p for which the race is right often enough.
    fn enough(&self, scenarios: usize, candidates: u32) -> f64 {
        self.per_scenario(candidates) / scenarios.max(1) as f64 * tangent().powi(2)
    }

    /// The p of the hypothesis that prompts differ enough.
    fn p_enough(&self, scenarios: usize, candidates: u32) -> Option<f64> {
        let expected = self.ms_by_scenario + self.weight * self.enough(scenarios, candidates);
        if expected <= 0.0 {
            return None;
        }
        let ratio = self.ms_prompts / expected;
        if ratio <= 0.0 {
            return Some(0.0);
        }
        let (df1, df2) = (self.df.0 as f64, self.df.1 as f64);
        f_upper(ratio, df1, df2).map(|upper| 1.0 - upper)
    }
}

fn tangent() -> f64 {
    ((LEAST_RIGHT - 0.5) * std::f64::consts::PI).tan()
}

/// Whether the seed leaves room for improvement; `cells` are its cell means on the feedback split.
pub fn saturated(cells: &[f64], range: (f64, f64), settings: &LoopSettings) -> Option<Obstacle> {
    let mean = assize_stats::describe::mean(cells)?;
    let (low, high) = range;
    let top = low + settings.ceiling * (high - low);
    (mean >= top).then(|| Obstacle {
        name: "saturated",
        is_certain: true,
        reason: format!(
            "the seed {} has a mean of {mean:.2} on the feedback split, and the rubric ends at {high:.2}: \
             better prompts cannot score higher",
            settings.prompt
        ),
        remedy: "add harder scenarios to the feedback split, or use a rubric that still tells good outputs apart"
            .to_owned(),
    })
}

/// Whether the race can tell prompts apart, from the spread of earlier scores.
pub fn noise(spread: &Spread, scenarios: usize, settings: &LoopSettings) -> Option<Obstacle> {
    let right = spread.right(scenarios, settings.candidates);
    if right >= LEAST_RIGHT {
        return None;
    }
    let p = spread.p_enough(scenarios, settings.candidates);
    let per_scenario = spread.per_scenario(settings.candidates);
    let needed = per_scenario * tangent().powi(2) / spread.between;
    let remedy = if needed <= MOST_SCENARIOS {
        format!(
            "use {:.0} feedback scenarios or more, with --max-auto to match",
            needed.ceil()
        )
    } else {
        "the prompts so far score alike: use a rubric that tells their outputs apart, or start from a prompt that \
         differs more"
            .to_owned()
    };
    Some(Obstacle {
        name: "noise",
        is_certain: p.is_none_or(|p| p <= LEVEL),
        reason: format!(
            "over {} earlier prompts the standard deviation between prompts is {:.2}, and that of a mean over \
             {scenarios} scenarios × {} candidates is {:.2}: the race would rank two prompts rightly in {:.0} % of \
             cases, where 50 % is chance",
            spread.prompts,
            spread.between.sqrt(),
            settings.candidates,
            (per_scenario / scenarios.max(1) as f64).sqrt(),
            100.0 * right
        ),
        remedy,
    })
}

#[cfg(test)]
mod tests {
    use assize_stats::rng::SplitMix64;
    use assize_stats::simulate::BlockModel;

    use super::*;

    fn settings() -> LoopSettings {
        LoopSettings {
            prompt: "v1".to_owned(),
            ..LoopSettings::default()
        }
    }

    fn model(effects: Vec<f64>) -> BlockModel {
        BlockModel {
            treatment_effects: effects,
            blocks: 8,
            replicates: 5,
            block_sd: 0.9,
            treatment_by_block_sd: 0.5,
            replicate_sd: 1.7,
        }
    }

    #[test]
    fn a_seed_at_the_top_is_saturated() {
        let found = saturated(&[16.8, 16.9, 17.0], (2.0, 17.0), &settings()).expect("saturated");
        assert!(found.reason.contains("16.90"), "{}", found.reason);
        assert!(found.remedy.contains("harder scenarios"));
        assert_eq!(saturated(&[16.0, 12.0], (2.0, 17.0), &settings()), None);
        assert_eq!(saturated(&[], (2.0, 17.0), &settings()), None);
    }

    #[test]
    fn the_spread_is_found_again() {
        let mut rng = SplitMix64::new(3);
        let effects = (0..200).map(|_| 10.0 + rng.next_normal()).collect();
        let table = model(effects).table(7).expect("a table");
        let spread = Spread::of(&table).expect("a spread");
        assert!((spread.between - 1.0).abs() < 0.25, "{spread:?}");
        assert!((spread.by_scenario - 0.25).abs() < 0.1, "{spread:?}");
        assert!((spread.noise - 2.89).abs() < 0.15, "{spread:?}");
        assert_eq!(noise(&spread, 8, &settings()), None);
    }

    #[test]
    fn the_probability_is_that_of_equal_signs() {
        let table = model(vec![10.0, 11.0, 9.0, 12.0])
            .table(1)
            .expect("a table");
        let spread = Spread::of(&table).expect("a spread");
        let mut rng = SplitMix64::new(5);
        let se = (spread.per_scenario(2) / 8.0).sqrt();
        let trials = 200_000;
        let right = (0..trials).filter(|_| {
            let truth = spread.between.sqrt() * (rng.next_normal() - rng.next_normal());
            let seen = truth + se * (rng.next_normal() - rng.next_normal());
            (truth > 0.0) == (seen > 0.0)
        });
        let share = right.count() as f64 / f64::from(trials);
        assert!((share - spread.right(8, 2)).abs() < 0.005, "{share}");
    }

    #[test]
    fn equal_prompts_are_stopped_and_a_rough_estimate_only_warns() {
        let same: Vec<Vec<Option<f64>>> = vec![vec![Some(1.0), Some(2.0), Some(4.0)]; 3];
        let table = Table::from_means(&same).expect("a table");
        let spread = Spread::of(&table).expect("a spread");
        let found = noise(&spread, 8, &settings()).expect("no difference at all");
        assert!(found.is_certain);
        assert!(found.remedy.contains("rubric"), "{}", found.remedy);
        let (mut stopped, mut warned) = (0, 0);
        for seed in 0..200 {
            let table = model(vec![10.0; 12]).table(seed).expect("a table");
            let spread = Spread::of(&table).expect("a spread");
            if let Some(found) = noise(&spread, 8, &settings()) {
                stopped += usize::from(found.is_certain);
                warned += usize::from(!found.is_certain);
            }
        }
        assert!(stopped > 40 && warned > 40, "{stopped} {warned}");
    }

    #[test]
    fn prompts_that_differ_enough_are_rarely_stopped() {
        let mut rng = SplitMix64::new(11);
        let stopped = (0..300).filter(|seed| {
            let effects = (0..3).map(|_| 10.0 + 0.7 * rng.next_normal()).collect();
            let table = model(effects).table(*seed).expect("a table");
            let spread = Spread::of(&table).expect("a spread");
            noise(&spread, 8, &settings()).is_some_and(|it| it.is_certain)
        });
        let stopped = stopped.count();
        assert!(stopped <= 30, "{stopped}");
    }

    #[test]
    fn the_number_of_scenarios_that_would_help_is_named() {
        let spread = Spread {
            prompts: 6,
            between: 0.02,
            by_scenario: 0.28,
            noise: 3.9,
            ms_prompts: 5.0,
            ms_by_scenario: 5.3,
            weight: 40.0,
            df: (5, 35),
        };
        let found = noise(&spread, 8, &settings()).expect("too noisy");
        assert!(!found.remedy.contains("candidates"), "{}", found.remedy);
        assert!(
            found.remedy.contains("use 12 feedback scenarios"),
            "{}",
            found.remedy
        );
        assert!(spread.right(12, 2) >= LEAST_RIGHT);
        assert!(spread.right(11, 2) < LEAST_RIGHT);
    }
}
