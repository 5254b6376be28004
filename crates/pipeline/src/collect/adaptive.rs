//! Adaptive collection: paired sequential halving over scenarios.
//!
//! Most of a grid's cost goes into pairs that are never shipped. Here every pair is tried on a few
//! scenarios, an automatic judge scores them, the better half continues with further scenarios, and so
//! on ([`schedule`]); within a round all pairs see the same scenarios, so that every comparison
//! stays paired ([`halve`]). The incumbent is never dropped, because everything is compared with it.
//!
//! Nothing is remembered between rounds but what the store holds: killed and started again, each
//! round finds its cells and verdicts there, decides the same, and continues where it stopped. A cell
//! that had failed is tried again and may then change what follows.
//!
//! Halving nominates and never decides: its winner was chosen on these very scores, which flatter
//! it. The runs say so in their settings, boards warn, and the gate requires scenarios that halving
//! has not seen.
//!
//! Reference: Karnin, Koren and Somekh (2013), "Almost optimal exploration in multi-armed bandits".

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::time::Instant;

use assize_domain::judge::Tier;
use assize_domain::leaderboard::Pair;
use assize_domain::verdict::effective;

use super::grid::{Grid, Subset};
use super::{Collection, Observer, Summary};
use crate::compare::decision::decide;
use crate::compare::family::Family;
use crate::compare::{DecisionRule, Rule, SEED};
use crate::{PipelineError, Result};

mod halve;
mod schedule;

pub(crate) use halve::halve;
pub use halve::{Halved, Standing};
pub use schedule::Schedule;

/// What is halved.
#[derive(Debug, Clone, PartialEq)]
pub struct Adaptive {
    /// All pairs of the grid, model by model.
    pub pairs: Vec<Pair>,
    /// The place of the one that always stays.
    pub incumbent: usize,
    pub schedule: Schedule,
    /// What the nominee's lead is held against.
    pub rule: Rule,
}

/// A round that was collected, judged and decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// From 1.
    pub number: usize,
    /// The scenarios that it added.
    pub scenarios: Vec<String>,
    /// Its cells, whether they were there already or not.
    pub cells: usize,
    pub halved: Halved,
    /// The place of the pair that leads; the incumbent where no challenger is ahead of it.
    pub leader: usize,
}

/// What a whole adaptive collection came to, as its summary says it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Outcome {
    pub rounds: usize,
    pub rounds_planned: usize,
    /// Cells of the whole grid.
    pub full_cells: usize,
    /// `None` where it was stopped before the last round, as are the two below.
    pub saved_cells: Option<usize>,
    pub saved_percent: Option<f64>,
    pub incumbent: Pair,
    pub nominated: Option<Pair>,
}

/// How an adaptive collection ended.
#[derive(Debug)]
pub struct Ended<E> {
    /// Over all rounds.
    pub summary: Summary,
    pub rounds: Vec<Round>,
    /// Why it stopped early.
    pub error: Option<E>,
}

impl Adaptive {
    /// Plans the halving of a collection's grid. `incumbent` is `MODEL/PROMPT`; without one it is
    /// the champion, where the grid has it, else the first model with the first prompt.
    pub fn plan(
        collection: &Collection<'_>,
        incumbent: Option<&str>,
        rule: DecisionRule,
    ) -> Result<Self> {
        let grid = Grid::new(collection.task, collection.options)?;
        let pairs: Vec<Pair> = collection
            .models
            .iter()
            .flat_map(|model| {
                grid.variants().map(|variant| Pair {
                    model: model.id.to_string(),
                    prompt: variant.label.clone(),
                })
            })
            .collect();
        let place = match incumbent {
            Some(wanted) => pairs.iter().position(|pair| pair.id() == wanted),
            None => Some(champion(collection, &grid, &pairs)?.unwrap_or(0)),
        };
        let Some(place) = place.filter(|place| *place < pairs.len()) else {
            let known: Vec<String> = pairs.iter().map(Pair::id).collect();
            return Err(PipelineError::Invalid(format!(
                "the incumbent '{}' is not a pair of this grid: use one of {}",
                incumbent.unwrap_or_default(),
                known.join(", ")
            )));
        };
        let scenarios: Vec<&str> = grid.scenarios().iter().map(|it| it.id.as_str()).collect();
        Ok(Self {
            schedule: Schedule::new(pairs.len(), &scenarios, collection.options.values.seed),
            pairs,
            incumbent: place,
            rule: rule.under(Some(&collection.task.rubric)),
        })
    }

    /// Collects round by round. `judge` scores what is pending for the automatic tier; `decided`
    /// hears of every round.
    pub fn run<E: From<PipelineError>>(
        &self,
        collection: &Collection<'_>,
        observer: Observer<'_>,
        judge: impl FnMut() -> std::result::Result<(), E>,
        decided: impl FnMut(&Round),
    ) -> Ended<E> {
        let started = Instant::now();
        let mut ended = self.rounds(collection, observer, judge, decided);
        // Judging between the rounds takes time too.
        ended.summary.seconds = started.elapsed().as_secs_f64();
        ended
    }

    fn rounds<E: From<PipelineError>>(
        &self,
        collection: &Collection<'_>,
        observer: Observer<'_>,
        mut judge: impl FnMut() -> std::result::Result<(), E>,
        mut decided: impl FnMut(&Round),
    ) -> Ended<E> {
        let mut ended = Ended {
            summary: Summary::new(&collection.rejected),
            rounds: Vec::new(),
            error: None,
        };
        let mut alive: Vec<usize> = (0..self.pairs.len()).collect();
        for round in 0..self.schedule.rounds() {
            let part = Collection {
                only: Some(self.subset(&alive, self.schedule.scenarios(round))),
                models: collection.models.clone(),
                rejected: Vec::new(),
                locks: collection.locks.clone(),
                ..*collection
            };
            let (summary, error) = super::run(&part, observer);
            ended.summary.add(summary);
            let judged = match error {
                Some(error) => Err(error.into()),
                None if ended.summary.interrupted => return ended,
                None => judge(),
            };
            if judged.is_ok() && collection.stop.load(Ordering::Relaxed) {
                ended.summary.interrupted = true;
                return ended;
            }
            let outcome = judged.and_then(|()| Ok(self.decide(collection, &alive, round)?));
            match outcome {
                Ok(round) => {
                    decided(&round);
                    alive = round.halved.kept.iter().map(|it| it.pair).collect();
                    alive.sort_unstable();
                    ended.rounds.push(round);
                }
                Err(error) => {
                    ended.error = Some(error);
                    return ended;
                }
            }
        }
        ended
    }

    fn subset(&self, alive: &[usize], scenarios: &[String]) -> Subset {
        let name = |pair: &Pair| (pair.model.clone(), pair.prompt.clone());
        Subset {
            pairs: alive
                .iter()
                .map(|place| name(&self.pairs[*place]))
                .collect(),
            scenarios: scenarios.iter().cloned().collect(),
        }
    }

    /// The pairs that continue after a round, decided from the store alone.
    fn decide(&self, collection: &Collection<'_>, alive: &[usize], round: usize) -> Result<Round> {
        let means = self.cell_means(collection, alive, round)?;
        let is_last = round + 1 == self.schedule.rounds();
        let keep = if is_last {
            alive.len()
        } else {
            self.schedule.pairs(round + 1)
        };
        let halved = halve(alive, &means, self.incumbent, keep).ok_or_else(|| {
            PipelineError::Invalid(format!(
                "the incumbent {} has no scores after round {}, so nothing can be \
                 compared with it: see what failed above and run the same command again, or name another \
                 with --incumbent",
                self.pairs[self.incumbent],
                round + 1
            ))
        })?;
        Ok(Round {
            number: round + 1,
            scenarios: self.schedule.scenarios(round).to_vec(),
            cells: alive.len() * self.schedule.scenarios(round).len(),
            halved,
            leader: self.leader(alive, &means),
        })
    }

    /// The pair that leads by the rule of the board; the incumbent where no pair is ahead of it.
    fn leader(&self, alive: &[usize], means: &[Vec<Option<f64>>]) -> usize {
        let incumbent = alive.iter().position(|pair| *pair == self.incumbent);
        let family = Family::new(means, incumbent, SEED);
        let pairs: Vec<Pair> = alive.iter().map(|it| self.pairs[*it].clone()).collect();
        let leader = decide(&family, &pairs, self.rule).leader();
        let ahead = leader.filter(|it| family.versus(*it).is_some_and(|it| it.diff > 0.0));
        ahead.map_or(self.incumbent, |place| alive[place])
    }

    /// The mean composite of every cell of these pairs so far, `[pair][scenario]`.
    fn cell_means(
        &self,
        collection: &Collection<'_>,
        alive: &[usize],
        round: usize,
    ) -> Result<Vec<Vec<Option<f64>>>> {
        let scenarios = self.schedule.scenarios_until(round);
        let cells = self.cells_of(collection, alive, scenarios)?;
        let mut means = vec![vec![None; scenarios.len()]; alive.len()];
        let options = collection.options;
        collection.store.board_each(
            &options.values.experiment,
            options.values.split,
            &mut |run| {
                if let Some((pair, scenario)) = cells.get(run.run_id) {
                    let verdicts = effective(&run.files, Tier::Auto, run.rubric.sha256);
                    let composites: Vec<f64> = verdicts.values().map(|it| it.composite).collect();
                    means[*pair][*scenario] = assize_stats::describe::mean(&composites);
                }
                Ok(())
            },
        )?;
        Ok(means)
    }

    /// The run of every cell that was collected, with its places in `alive` and `scenarios`.
    fn cells_of(
        &self,
        collection: &Collection<'_>,
        alive: &[usize],
        scenarios: &[String],
    ) -> Result<HashMap<String, (usize, usize)>> {
        let subset = self.subset(alive, scenarios);
        let grid = Grid::new(collection.task, collection.options)?.within(Some(&subset));
        let place_of: BTreeMap<&str, usize> =
            scenarios.iter().map(String::as_str).zip(0..).collect();
        let mut runs = HashMap::new();
        for model in &collection.models {
            let (mut keys, mut places) = (Vec::new(), Vec::new());
            for cell in grid.cells(model) {
                let cell = cell?;
                let pair = Pair {
                    model: model.id.to_string(),
                    prompt: cell.variant.label.clone(),
                };
                let pair = alive.iter().position(|place| self.pairs[*place] == pair);
                if let Some(place) = pair.zip(place_of.get(cell.scenario.id.as_str()).copied()) {
                    keys.push(cell.key);
                    places.push(place);
                }
            }
            let known = collection
                .cells
                .cells_known(&collection.options.values.experiment, &keys)?;
            let known = known.into_iter().zip(places);
            runs.extend(known.filter_map(|(cell, place)| Some((cell?.run_id?, place))));
        }
        Ok(runs)
    }
}

/// Where the champion stands, with exactly the contents that were promoted.
fn champion(collection: &Collection<'_>, grid: &Grid<'_>, pairs: &[Pair]) -> Result<Option<usize>> {
    let Some(promotion) = collection.store.champion_get(&collection.task.name)? else {
        return Ok(None);
    };
    let it = &promotion.champion;
    let same_model = collection
        .models
        .iter()
        .any(|model| model.id.to_string() == it.model && model.info.digest == it.model_digest);
    let mut variants = grid.variants();
    let variant = variants.find(|variant| {
        let prompt = &variant.prompt;
        prompt.name == it.prompt
            && prompt.sha256 == it.prompt_sha256
            && it.has_settings(&variant.settings)
    });
    let Some(variant) = variant.filter(|_| same_model) else {
        return Ok(None);
    };
    let is_it = |pair: &Pair| pair.model == it.model && pair.prompt == variant.label;
    Ok(pairs.iter().position(is_it))
}

impl<E> Ended<E> {
    /// The pair that led after the last round that was decided.
    pub fn nominated(&self) -> Option<&Standing> {
        let round = self.rounds.last()?;
        let mut kept = round.halved.kept.iter();
        kept.find(|it| it.pair == round.leader)
    }
}
