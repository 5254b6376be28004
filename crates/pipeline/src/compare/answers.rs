//! The outputs behind a board: the best, the worst and the most disputed of every pair, or all.
//!
//! One pass over the runs keeps only which candidates are wanted; their texts and the judges'
//! reasons are then read for these runs alone.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use assize_domain::candidate::Candidate;
use assize_domain::judge::Tier;
use assize_domain::leaderboard::answers::{
    Answers, Example, Opinion, Output, Outputs, PairExamples, ScenarioOutputs,
};
use assize_domain::leaderboard::{BoardTier, Pair, Row, Scores as NamedScores};
use assize_domain::rubric::Rubric;
use assize_domain::run::{artifact, tag};
use assize_domain::verdict::{VerdictFile, as_number, in_order};
use assize_store::{BoardRun, Runs, Tracking};

use super::Compared;
use super::read::Scores;
use super::two_tier::latest;
use crate::{PipelineError, Result};

/// Which outputs to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// So many examples of each kind for every pair; 0 means none.
    pub examples: usize,
    /// All outputs of at most so many cells; 0 means none.
    pub cells: usize,
}

impl Wanted {
    /// What the HTML report always has.
    pub const REPORT: Self = Self {
        examples: 1,
        cells: 2_000,
    };
}

/// A judged candidate.
#[derive(Debug, Clone)]
struct Judged {
    run_id: String,
    scenario: usize,
    candidate: u32,
    composite: f64,
    spread: Option<f64>,
}

/// The candidates of a pair that are shown.
#[derive(Debug, Clone, Default)]
struct Chosen {
    best: Vec<Judged>,
    worst: Vec<Judged>,
    disputed: Vec<Judged>,
}

/// A run whose outputs are shown, with the composites of its candidates.
#[derive(Debug)]
struct WantedRun {
    run_id: String,
    pair: usize,
    scenario: usize,
    composites: BTreeMap<u32, f64>,
}

/// Reads the outputs that are wanted. The board's pairs come in its order.
pub fn read(
    store: &dyn Tracking,
    compared: &Compared,
    scores: &Scores,
    wanted: Wanted,
) -> Result<Answers> {
    let board = &compared.board;
    let Some(rubric) = scores.full_rubric.as_ref() else {
        return Ok(Answers::default());
    };
    let split = board.split.parse().map_err(PipelineError::Invalid)?;
    let mut chosen = vec![Chosen::default(); scores.pair_count()];
    let mut runs = Vec::new();
    let mut left_out = 0;
    store.board_each(&board.experiment, split, &mut |run| {
        let place = scores.locate(&run);
        let Some((pair, scenario)) = place.filter(|_| run.rubric.sha256 == rubric.sha256) else {
            return Ok(());
        };
        let composites = counting(&run, board.tier);
        if wanted.examples > 0 {
            for judged in judged(&run, scenario, &composites) {
                chosen[pair].add(judged, wanted.examples, &scores.scenarios);
            }
        }
        if runs.len() < wanted.cells {
            let run_id = run.run_id.to_owned();
            runs.push(WantedRun {
                run_id,
                pair,
                scenario,
                composites,
            });
        } else {
            left_out += 1;
        }
        Ok(())
    })?;
    let reader = Reader {
        store,
        scores,
        rubric,
        tier: board.tier,
    };
    let all = scores.pairs();
    let place_of = |pair: &Pair| all.iter().position(|it| it == pair);
    let ranked = board.rows.iter().map(Row::pair);
    let ranked: Vec<usize> = ranked.filter_map(|pair| place_of(&pair)).collect();
    let examples = (wanted.examples > 0).then(|| reader.examples(&ranked, &all, &chosen));
    let outputs = (wanted.cells > 0).then(|| reader.outputs(&ranked, &all, &runs, left_out));
    Ok(Answers {
        by_scenario: None,
        examples: examples.transpose()?,
        outputs: outputs.transpose()?,
    })
}

/// By candidate: the composite by the board's tier.
fn counting(run: &BoardRun<'_>, tier: BoardTier) -> BTreeMap<u32, f64> {
    let of = |tier| {
        let latest = latest(run, tier).into_iter();
        latest.map(|(candidate, (_, verdict))| (candidate, verdict.composite))
    };
    match tier {
        BoardTier::Expert => of(Tier::Expert).collect(),
        BoardTier::Auto => of(Tier::Auto).collect(),
        // An expert's verdict replaces the automatic one.
        BoardTier::Combined => of(Tier::Auto).chain(of(Tier::Expert)).collect(),
    }
}

/// The judged candidates of a run, with how far apart their judges are.
fn judged<'a>(
    run: &'a BoardRun<'_>,
    scenario: usize,
    composites: &'a BTreeMap<u32, f64>,
) -> impl Iterator<Item = Judged> + 'a {
    let mut opinions: HashMap<(u32, Tier, &str, &str), f64> = HashMap::new();
    for tier in Tier::ALL {
        for file in in_order(&run.files, tier, run.rubric.sha256) {
            let (_, judge) = file.rater();
            for verdict in &file.verdicts {
                let key = (verdict.candidate, file.tier, &*judge.kind, &*judge.name);
                opinions.insert(key, verdict.composite);
            }
        }
    }
    composites.iter().map(move |(candidate, composite)| {
        let of_candidate = || {
            let all = opinions.iter().filter(|(key, _)| key.0 == *candidate);
            all.map(|(_, composite)| *composite)
        };
        let high = of_candidate().fold(f64::MIN, f64::max);
        let low = of_candidate().fold(f64::MAX, f64::min);
        Judged {
            run_id: run.run_id.to_owned(),
            scenario,
            candidate: *candidate,
            composite: *composite,
            spread: (of_candidate().count() > 1).then_some(high - low),
        }
    })
}

impl Chosen {
    fn add(&mut self, judged: Judged, most: usize, scenarios: &[(String, String)]) {
        let tie = |a: &Judged, b: &Judged| {
            let key = |it: &Judged| (scenarios[it.scenario].0.clone(), it.candidate);
            key(a).cmp(&key(b))
        };
        if judged.spread.is_some_and(|it| it > 0.0) {
            let spread = |it: &Judged| it.spread.unwrap_or_default();
            keep(&mut self.disputed, judged.clone(), most, &|a, b| {
                spread(b).total_cmp(&spread(a)).then_with(|| tie(a, b))
            });
        }
        keep(&mut self.best, judged.clone(), most, &|a, b| {
            b.composite.total_cmp(&a.composite).then_with(|| tie(a, b))
        });
        // Twice as many, because those that are among the best are not shown as the worst.
        keep(&mut self.worst, judged, 2 * most, &|a, b| {
            a.composite.total_cmp(&b.composite).then_with(|| tie(a, b))
        });
    }

    /// The worst that are not among the best.
    fn worst(&self) -> impl Iterator<Item = &Judged> {
        let is_best = |it: &Judged| {
            let mut best = self.best.iter();
            best.any(|best| best.run_id == it.run_id && best.candidate == it.candidate)
        };
        let most = self.best.len();
        self.worst.iter().filter(move |it| !is_best(it)).take(most)
    }
}

/// Inserts in order, and keeps the first `most`.
fn keep(
    list: &mut Vec<Judged>,
    judged: Judged,
    most: usize,
    order: &dyn Fn(&Judged, &Judged) -> Ordering,
) {
    let place = list.partition_point(|it| order(it, &judged) != Ordering::Greater);
    if place < most {
        list.insert(place, judged);
        list.truncate(most);
    }
}

/// Reads texts and reasons.
struct Reader<'a> {
    store: &'a dyn Tracking,
    scores: &'a Scores,
    rubric: &'a Rubric,
    tier: BoardTier,
}

impl Reader<'_> {
    fn examples(
        &self,
        ranked: &[usize],
        pairs: &[Pair],
        chosen: &[Chosen],
    ) -> Result<Vec<PairExamples>> {
        let of_pair = |&pair: &usize| {
            let chosen = &chosen[pair];
            let read = |judged: &Judged| self.example(judged);
            Ok(PairExamples {
                pair: pairs[pair].clone(),
                best: chosen.best.iter().map(read).collect::<Result<_>>()?,
                worst: chosen.worst().map(read).collect::<Result<_>>()?,
                disputed: chosen.disputed.iter().map(read).collect::<Result<_>>()?,
            })
        };
        ranked.iter().map(of_pair).collect()
    }

    fn example(&self, judged: &Judged) -> Result<Example> {
        let candidates = candidates(self.store, &judged.run_id)?;
        let candidate = candidates.iter().find(|it| it.index == judged.candidate);
        Ok(Example {
            run_id: judged.run_id.clone(),
            scenario: self.scores.scenarios[judged.scenario].0.clone(),
            candidate: judged.candidate,
            text: candidate.and_then(|it| it.text.clone()),
            reasons: candidate.map_or_else(Vec::new, |it| it.faults().map(str::to_owned).collect()),
            composite: judged.composite,
            spread: judged.spread,
            opinions: self.opinions(judged)?,
        })
    }

    fn opinions(&self, judged: &Judged) -> Result<Vec<Opinion>> {
        let run = self.store.run_get(&judged.run_id)?;
        let aside = run.tags.iter().find(|(key, _)| key == tag::SET_ASIDE);
        let aside: Vec<&str> = aside.map_or_else(Vec::new, |(_, it)| it.split(' ').collect());
        let mut files = self.store.verdicts_get(&judged.run_id)?;
        files.retain(|file| !aside.contains(&file.sitting.as_str()));
        let first = match self.tier {
            BoardTier::Auto => [Tier::Auto, Tier::Expert],
            BoardTier::Expert | BoardTier::Combined => Tier::ALL,
        };
        let mut opinions: Vec<Opinion> = Vec::new();
        for tier in first {
            for file in in_order(&files, tier, &self.rubric.sha256)
                .into_iter()
                .rev()
            {
                let known = opinions.iter().any(|it| {
                    let (_, judge) = file.rater();
                    it.tier == file.tier
                        && it.judge.kind == judge.kind
                        && it.judge.name == judge.name
                });
                if !known {
                    opinions.extend(self.opinion(file, judged.candidate));
                }
            }
        }
        Ok(opinions)
    }

    fn opinion(&self, file: &VerdictFile, candidate: u32) -> Option<Opinion> {
        let verdict = file.verdicts.iter().find(|it| it.candidate == candidate)?;
        let score = |name: &str| {
            let value = verdict.scores.get(name).and_then(as_number)?;
            Some((name.to_owned(), value))
        };
        Some(Opinion {
            tier: file.tier,
            judge: file.rater().1.clone(),
            composite: verdict.composite,
            scores: self
                .rubric
                .score_names()
                .filter_map(score)
                .collect::<NamedScores>(),
            // Rules give the reasons of the candidate.
            rationale: verdict.rationale.clone().filter(|_| !file.is_computed()),
        })
    }

    fn outputs(
        &self,
        ranked: &[usize],
        pairs: &[Pair],
        runs: &[WantedRun],
        left_out: usize,
    ) -> Result<Outputs> {
        let unranked = (0..pairs.len()).filter(|pair| !ranked.contains(pair));
        let order: Vec<usize> = ranked.iter().copied().chain(unranked).collect();
        let mut scenarios: Vec<ScenarioOutputs> = Vec::new();
        let mut place_of: HashMap<usize, usize> = HashMap::new();
        for run in runs {
            let place = *place_of.entry(run.scenario).or_insert_with(|| {
                scenarios.push(ScenarioOutputs {
                    scenario: self.scores.scenarios[run.scenario].0.clone(),
                    cells: vec![Vec::new(); order.len()],
                });
                scenarios.len() - 1
            });
            let column = order.iter().position(|pair| *pair == run.pair);
            let outputs = candidates(self.store, &run.run_id)?.into_iter();
            let outputs = outputs.map(|it| output(it, &run.composites));
            if let Some(column) = column {
                scenarios[place].cells[column].extend(outputs);
            }
        }
        Ok(Outputs {
            pairs: order.iter().map(|pair| pairs[*pair].clone()).collect(),
            scenarios,
            left_out,
        })
    }
}

fn output(candidate: Candidate, composites: &BTreeMap<u32, f64>) -> Output {
    let reasons: Vec<&str> = candidate.faults().collect();
    let reasons = reasons.join("; ");
    let error = candidate.error.unwrap_or_default();
    Output {
        is_error: candidate.text.is_none(),
        text: candidate.text.unwrap_or(error),
        reasons,
        composite: composites.get(&candidate.index).copied(),
    }
}

/// The candidates of a run.
pub fn candidates(store: &(impl Runs + ?Sized), run_id: &str) -> Result<Vec<Candidate>> {
    let text = store.artifact_get(run_id, artifact::CANDIDATES)?;
    let text = text.unwrap_or_else(|| "[]".to_owned());
    serde_json::from_str(&text).map_err(|error| PipelineError::File {
        path: format!("{} of run {run_id}", artifact::CANDIDATES),
        reason: error.to_string(),
    })
}
