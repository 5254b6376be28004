//! The race: paired halving on the feedback split with the automatic judge.
//!
//! The scenarios are put in an order by the seed. A round with k children is run in ⌈log₂ k⌉ + 1
//! stages over consecutive parts of that order. Every child of a stage is collected and judged on the
//! stage's scenarios; then the better half (⌈n/2⌉ of n) goes on, by the mean of the paired differences to the
//! round's parent over all scenarios so far. The parent's scores are known, so they cost nothing. What is
//! left after the last stage has scores on all scenarios. It leads if its level
//! ([`crate::correct`]) is above the parent's at all: the search accepts any lead, because a false one
//! costs a round and is not shipped. What ships is decided by the gate, on splits that the race
//! has not seen.
//!
//! With S scenarios, c candidates a cell and m models, four children cost about m·c·S·(4 + 2 + 1)/3
//! verdicts, where all on everything would cost m·c·S·4.
//!
//! References: Karnin, Koren, Somekh (2013), "Almost optimal exploration in multi-armed bandits"
//! (sequential halving); Shi et al. (2024), "Efficient prompt optimization through the lens of best
//! arm identification" (TRIPLE).

use std::ops::Range;

use assize_stats::rng::SplitMix64;
use assize_stats::simulate::seed_of;

use crate::error::OptimiseError;
use crate::event::Dropped;
use crate::settings::LoopSettings;
use crate::tree::count;

/// Fewer scenarios than this are no race.
pub const FEWEST_SCENARIOS: usize = 2;
/// The stream of random numbers that orders the scenarios.
const ORDER: u64 = 0x0a_ce;

/// Children that are to be collected and judged now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    pub round: u32,
    /// From 1.
    pub stage: u32,
    pub children: Vec<String>,
    pub scenarios: Vec<String>,
    /// What is left after it has finished the race.
    pub is_last: bool,
}

/// How many stages a race of so many children has on so many scenarios.
pub fn stages(children: usize, scenarios: usize) -> usize {
    let halvings = children.max(1).next_power_of_two().ilog2() as usize;
    (halvings + 1).min(scenarios.max(1))
}

/// The places of the scenarios of a stage (from 0) in the race's order.
pub fn part(scenarios: usize, stages: usize, stage: usize) -> Range<usize> {
    let at = |stage: usize| (scenarios * stage).div_ceil(stages);
    at(stage)..at(stage + 1)
}

/// How many of a stage's children go on to the next one.
pub const fn kept(children: usize) -> usize {
    children.div_ceil(2)
}

/// The cells that a whole race collects for one model.
pub fn cells(children: usize, scenarios: usize) -> usize {
    let stages = stages(children, scenarios);
    let mut left = children;
    let mut cells = 0;
    for stage in 0..stages {
        cells += left * part(scenarios, stages, stage).len();
        left = kept(left);
    }
    cells
}

/// The verdicts of a race with so many children.
pub fn race_verdicts(settings: &LoopSettings, children: u32, scenarios: usize) -> u32 {
    verdicts(settings, cells(children as usize, scenarios))
}

/// The verdicts that the seed's scores need.
pub fn seed_verdicts(settings: &LoopSettings, scenarios: usize) -> u32 {
    verdicts(settings, scenarios)
}

/// The most automatic verdicts that the whole search uses.
pub fn search_verdicts(settings: &LoopSettings, scenarios: usize) -> u32 {
    let a_round = race_verdicts(settings, settings.children, scenarios);
    seed_verdicts(settings, scenarios).saturating_add(a_round.saturating_mul(settings.rounds))
}

fn verdicts(settings: &LoopSettings, cells: usize) -> u32 {
    let cells = u32::try_from(cells * settings.models.len().max(1)).unwrap_or(u32::MAX);
    cells.saturating_mul(settings.candidates)
}

/// The scenarios of the race in its order: all of the feedback split, or as many as the
/// budget of verdicts allows for every round. The caller says so where some are left out.
pub fn scenarios(
    settings: &LoopSettings,
    feedback: &[String],
) -> Result<Vec<String>, OptimiseError> {
    let wrong = |setting, problem| Err(OptimiseError::Setting { setting, problem });
    if feedback.len() < FEWEST_SCENARIOS {
        return wrong(
            "the task",
            format!(
                "has {} in the split feedback, and a race needs {FEWEST_SCENARIOS}: add scenarios with split = \
                 \"feedback\"",
                count(feedback.len(), "scenario")
            ),
        );
    }
    let budget = settings.race_verdicts();
    let fits = |count: &usize| search_verdicts(settings, *count) <= budget;
    let Some(count) = (FEWEST_SCENARIOS..=feedback.len()).rev().find(fits) else {
        return wrong(
            "max_auto",
            format!(
                "leaves {budget} automatic verdicts for the race, and {} of {} need {} with {FEWEST_SCENARIOS} \
                 scenarios: allow more verdicts, or fewer rounds, children or models",
                count(settings.rounds as usize, "round"),
                count(settings.children as usize, "child"),
                search_verdicts(settings, FEWEST_SCENARIOS)
            ),
        );
    };
    let mut order = feedback.to_vec();
    shuffle(&mut order, seed_of(settings.seed, ORDER));
    order.truncate(count);
    Ok(order)
}

fn shuffle(items: &mut [String], seed: u64) {
    let mut rng = SplitMix64::new(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last + 1));
    }
}

/// A child's standing after a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    pub child: String,
    /// The mean paired difference to the parent; `None` without a cell that both have.
    pub lead: Option<f64>,
}

/// Standings with the best first; of equal ones the earlier stays first.
pub fn ranked(mut standings: Vec<Standing>) -> Vec<Standing> {
    let figure = |it: &Standing| it.lead.unwrap_or(f64::NEG_INFINITY);
    standings.sort_by(|a, b| figure(b).total_cmp(&figure(a)));
    standings
}

/// The children that leave the race after a stage, best first. After the last stage only those leave that
/// have no score at all.
pub fn dropped(standings: Vec<Standing>, is_last: bool) -> Vec<Dropped> {
    let all = standings.len();
    let keep = if is_last { all } else { kept(all) };
    let ranked = ranked(standings).into_iter().enumerate();
    let out = ranked.filter(|(place, it)| *place >= keep || it.lead.is_none());
    out.map(|(place, it)| Dropped {
        reason: match it.lead {
            Some(lead) => format!(
                "dropped in the race: place {} of {all}, {lead:+.2} points to its parent",
                place + 1
            ),
            None => "dropped in the race: it has no judged cell that its parent has".to_owned(),
        },
        child: it.child,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> LoopSettings {
        LoopSettings {
            models: vec!["m".to_owned()],
            ..LoopSettings::default()
        }
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|it| format!("s{it}")).collect()
    }

    #[test]
    fn stages_cover_the_scenarios_once() {
        for children in 1..=4 {
            for scenarios in 1..=20 {
                let count = stages(children, scenarios);
                let parts: Vec<_> = (0..count)
                    .flat_map(|it| part(scenarios, count, it))
                    .collect();
                assert_eq!(parts, (0..scenarios).collect::<Vec<_>>());
            }
        }
        let parts: Vec<_> = (0..3).map(|it| part(8, 3, it).len()).collect();
        assert_eq!(parts, [3, 3, 2]);
    }

    #[test]
    fn the_defaults_leave_the_verdicts_that_the_gate_needs() {
        assert_eq!(cells(4, 8), 4 * 3 + 2 * 3 + 2);
        assert_eq!(cells(1, 8), 8);
        assert_eq!(search_verdicts(&settings(), 8), 216);
        let with_gate = LoopSettings {
            reserved_auto: 2 * 8 * 5,
            ..settings()
        };
        assert_eq!(scenarios(&with_gate, &names(8)).expect("fits").len(), 8);
    }

    #[test]
    fn scenarios_are_cut_to_the_budget_in_a_seeded_order() {
        let all = names(40);
        let few = scenarios(&settings(), &all).expect("some fit");
        assert!(few.len() < 40);
        assert!(search_verdicts(&settings(), few.len()) <= 300);
        assert!(search_verdicts(&settings(), few.len() + 1) > 300);
        assert_eq!(few, scenarios(&settings(), &all).expect("the same"));
        let other = LoopSettings {
            seed: 7,
            ..settings()
        };
        assert_ne!(few, scenarios(&other, &all).expect("another order"));
        let tight = LoopSettings {
            max_auto: 20,
            ..settings()
        };
        let error = scenarios(&tight, &all).expect_err("too tight").to_string();
        assert!(error.contains("allow more verdicts"), "{error}");
        let error = scenarios(&settings(), &all[..1]).expect_err("one");
        assert!(error.to_string().contains("split = \"feedback\""));
    }

    #[test]
    fn the_better_half_goes_on_and_the_earlier_of_equals() {
        let standing = |child: &str, lead| Standing {
            child: child.to_owned(),
            lead,
        };
        let four = vec![
            standing("a", Some(0.5)),
            standing("b", Some(1.0)),
            standing("c", Some(0.5)),
            standing("d", None),
        ];
        let out = |is_last| -> Vec<String> {
            let dropped = dropped(four.clone(), is_last);
            dropped.into_iter().map(|it| it.child).collect()
        };
        assert_eq!(out(false), ["c", "d"]);
        assert_eq!(out(true), ["d"]);
        let reason = &dropped(four, false)[0].reason;
        assert_eq!(
            reason,
            "dropped in the race: place 3 of 4, +0.50 points to its parent"
        );
    }
}
