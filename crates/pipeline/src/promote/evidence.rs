//! From tracked runs to the evidence that the gate looks at.

use std::collections::BTreeSet;

use assize_domain::judge::Tier;
use assize_domain::leaderboard::{Pair, Resource};
use assize_domain::ledger::first_scale;
use assize_domain::promotion::Promotion;
use assize_domain::rubric::Rubric;
use assize_domain::scenario::Split;
use assize_stats::paired;
use assize_store::{Boards, Tracking};

use super::PromoteOptions;
use super::gate::{Confirmation, Evidence, FlagShares, TierEvidence};
use crate::compare::comparability::{Comparability, RatersOfPairs};
use crate::compare::decision::decide;
use crate::compare::family::Family;
use crate::compare::read::{self, CurrentScenarios, PairKey, Scores, TierScores};
use crate::compare::resources::log_ratios;
use crate::compare::{self, rank, two_tier};
use crate::{PipelineError, Result};

/// The candidate, the incumbent and the evidence about both.
#[derive(Debug)]
pub struct Proposal {
    pub candidate: PairKey,
    pub incumbent: PairKey,
    /// As the board names them.
    pub candidate_pair: Pair,
    pub incumbent_pair: Pair,
    pub evidence: Evidence,
    /// The latest entry of the history, which the promotion must follow.
    pub champion: Option<Promotion>,
    /// How the candidate and the incumbent were collected.
    pub params: [Vec<(String, String)>; 2],
    pub warnings: Vec<String>,
}

const ADAPTIVE: &str = "collected adaptively: the candidate was chosen on these scores, so only \
                        the confirmation split can prove it";

/// Reads the experiment and finds the candidate and the incumbent.
pub fn gather(store: &dyn Tracking, options: &PromoteOptions<'_>) -> Result<Proposal> {
    let current = CurrentScenarios::from(options.task);
    let scores = read::read(store, options.experiment, Split::Selection, Some(&current))?;
    check_task(&scores, options)?;
    let champion = store.champion_get(&options.task.name)?;
    let pairs = scores.pairs();
    let mut warnings = Vec::new();
    let incumbent = incumbent(&scores, champion.as_ref(), options, &mut warnings)?;
    let mut tiers = tiers(&scores)?;
    let candidate = candidate(&scores, &tiers, incumbent, options)?;
    check_candidate(&scores, candidate, incumbent, champion.as_ref())?;
    let both = two_tier::read(store, options.experiment, Split::Selection, &scores)?;
    let of_pair = |pair: usize| both.cells.get(pair).cloned().unwrap_or_default();
    let two_tiers = [candidate, incumbent].map(of_pair);
    for it in &mut tiers {
        compare_pairs(it, &scores, candidate, incumbent)?;
    }
    let tier = options.thresholds.deciding_tier();
    warnings.extend(pending_warning(&scores, tier));
    let deciding = tiers.iter().find(|it| it.tier == tier);
    let unjudged_pairs = deciding.map_or(0, |it| {
        let family = Family::new(&it.means, Some(incumbent), options.seed);
        rank::unjudged(&scores, &family).count() + scores.pairs_elsewhere
    });
    let place = champion
        .as_ref()
        .and_then(|it| compare::champion_index(&scores, it));
    let (candidate_key, incumbent_key) = (scores.pair_key(candidate), scores.pair_key(incumbent));
    let mut confirmation = confirmation(store, options, &scores, candidate_key, incumbent_key)?;
    let ledger = store.ledger_list(options.experiment)?;
    let scale = first_scale(&ledger, &pairs[candidate], &pairs[incumbent])
        .or_else(|| spread(&deciding?.means[candidate], &deciding?.means[incumbent]));
    set_scale(&mut confirmation, scale);
    if scores.adaptive {
        warnings.push(ADAPTIVE.to_owned());
        // A task without that split has nothing to prove it with.
        confirmation.get_or_insert_default();
    }
    Ok(Proposal {
        candidate: candidate_key.clone(),
        incumbent: incumbent_key.clone(),
        candidate_pair: pairs[candidate].clone(),
        incumbent_pair: pairs[incumbent].clone(),
        evidence: Evidence {
            candidate,
            incumbent,
            champion: place.filter(|place| *place != incumbent),
            scenarios: scores.scenarios.iter().map(|(id, _)| id.clone()).collect(),
            segments: current.segments(&scores.scenarios),
            comparability: Comparability::between(&scores, candidate, incumbent),
            unjudged_pairs,
            tiers,
            criteria: both.criteria,
            criteria_scenarios: both.scenarios,
            two_tiers,
            confirmation,
            is_computed: scores.is_computed(),
            composite_range: scores
                .full_rubric
                .as_ref()
                .map_or((0.0, 0.0), Rubric::composite_range),
            seed: options.seed,
            family: None,
            log_latency_ratios: log_ratios(&scores, Resource::Latency, candidate, incumbent),
            log_cost_ratios: log_ratios(&scores, Resource::Cost, candidate, incumbent),
        },
        champion,
        params: params_of(store, &scores, [candidate, incumbent])?,
        warnings,
    })
}

fn pending_warning(scores: &Scores, tier: Tier) -> Option<String> {
    let pending = scores.coverage(tier).pending;
    (pending > 0).then(|| {
        format!(
            "{} of the selection split without {tier} verdicts: they could change which pair is ahead",
            crate::count(pending as usize, "cell")
        )
    })
}

/// How each of the pairs was collected, by its first run.
fn params_of(
    store: &dyn Tracking,
    scores: &Scores,
    [candidate, incumbent]: [usize; 2],
) -> Result<[Vec<(String, String)>; 2]> {
    let params = |pair: usize| store.run_get(scores.first_run_of(pair)).map(|it| it.params);
    Ok([params(candidate)?, params(incumbent)?])
}

/// Every tier's means; the rest of its evidence depends on which pairs are compared.
fn tiers(scores: &Scores) -> Result<Vec<TierEvidence>> {
    let judged = Tier::ALL
        .into_iter()
        .filter_map(|tier| Some((tier, scores.tier(tier)?)));
    judged
        .map(|(tier, judged)| {
            Ok(TierEvidence {
                tier,
                means: rank::table(scores, judged)?.means(),
                cells: [Vec::new(), Vec::new()],
                judged_apart: None,
                flags: Vec::new(),
                missing_cells: 0,
            })
        })
        .collect()
}

/// Adds what depends on which pairs are compared.
fn compare_pairs(
    evidence: &mut TierEvidence,
    scores: &Scores,
    candidate: usize,
    incumbent: usize,
) -> Result<()> {
    let (Some(rubric), Some(judged)) = (&scores.full_rubric, scores.tier(evidence.tier)) else {
        return Ok(());
    };
    evidence.flags = flags(judged, rubric, candidate, incumbent);
    evidence.missing_cells = missing(scores, judged, candidate, incumbent);
    evidence.judged_apart = RatersOfPairs::of(judged).judged_apart(candidate, incumbent);
    let table = rank::table(scores, judged)?;
    evidence.cells = [candidate, incumbent].map(|pair| table.treatment_cells(pair).to_vec());
    Ok(())
}

fn check_candidate(
    scores: &Scores,
    candidate: usize,
    incumbent: usize,
    champion: Option<&Promotion>,
) -> Result<()> {
    let champion = champion.and_then(|it| compare::champion_index(scores, it));
    let what = if champion == Some(candidate) {
        "the champion already"
    } else if candidate == incumbent {
        "the incumbent itself"
    } else {
        return Ok(());
    };
    Err(PipelineError::Invalid(format!(
        "{} is {what}: name another pair with --candidate MODEL/PROMPT",
        scores.pairs()[candidate]
    )))
}

fn check_task(scores: &Scores, options: &PromoteOptions<'_>) -> Result<()> {
    let (experiment, task) = (options.experiment, &options.task.name);
    if scores.scenarios.is_empty() {
        return Err(PipelineError::Invalid(format!(
            "{experiment} has no runs of the selection split: run assize collect first"
        )));
    }
    // Runs of older tools do not name their task.
    if !scores.task.is_empty() && scores.task != *task {
        return Err(PipelineError::Invalid(format!(
            "{experiment} holds runs of the task '{}', not of '{task}': name its task with --task NAME|DIR",
            scores.task
        )));
    }
    Ok(())
}

/// The incumbent asked for, else the champion, else the first model × first prompt. A champion
/// that was not collected here is an error, never ignored.
fn incumbent(
    scores: &Scores,
    champion: Option<&Promotion>,
    options: &PromoteOptions<'_>,
    warnings: &mut Vec<String>,
) -> Result<usize> {
    let here = champion.map(|it| (it, compare::champion_index(scores, it)));
    if let Some(wanted) = options.incumbent {
        let named = compare::named(scores, "incumbent", wanted)?;
        if let Some((it, place)) = here
            && place != Some(named)
        {
            warnings.push(format!(
                "the champion is {}, and the gate is run against {wanted} because --incumbent says so",
                it.champion.pair()
            ));
        }
        return Ok(named);
    }
    match here {
        Some((_, Some(place))) => Ok(place),
        Some((it, None)) => Err(PipelineError::Invalid(format!(
            "the champion {} is not in {} as it was promoted: collect it there too, or name another \
             with --incumbent MODEL/PROMPT",
            it.champion.pair(),
            options.experiment
        ))),
        None => scores.first_pair().ok_or_else(|| {
            PipelineError::Invalid(
                "no pair can serve as the incumbent: name one with --incumbent MODEL/PROMPT"
                    .to_owned(),
            )
        }),
    }
}

/// The candidate asked for, else the pair that the board would ship; where it would ship none,
/// the one that is furthest ahead.
fn candidate(
    scores: &Scores,
    tiers: &[TierEvidence],
    incumbent: usize,
    options: &PromoteOptions<'_>,
) -> Result<usize> {
    if let Some(wanted) = options.candidate {
        return compare::named(scores, "candidate", wanted);
    }
    let tier = options.thresholds.deciding_tier();
    let deciding = tiers.iter().find(|it| it.tier == tier);
    let leader = deciding.and_then(|it| {
        let family = Family::new(&it.means, Some(incumbent), options.seed);
        let rule = options.thresholds.decision_rule();
        let rule = rule.under(scores.full_rubric.as_ref());
        decide(&family, &scores.pairs(), rule).leader()
    });
    leader.ok_or_else(|| {
        PipelineError::Invalid(format!(
            "no challenger in {} has {tier} verdicts on the incumbent's scenarios: judge first, or collect \
             another pair",
            options.experiment
        ))
    })
}

fn flags(
    judged: &TierScores,
    rubric: &Rubric,
    candidate: usize,
    incumbent: usize,
) -> Vec<FlagShares> {
    let weight = |name: &str| {
        let mut terms = rubric.composite.terms().iter();
        terms
            .find(|(term, _)| term == name)
            .map_or(0.0, |(_, weight)| *weight)
    };
    let first = rubric.criterion_names().count();
    rubric
        .flags
        .iter()
        .enumerate()
        .map(|(place, flag)| FlagShares {
            name: flag.name.clone(),
            weight: weight(&flag.name),
            candidate: rank::macro_mean(judged, candidate, first + place),
            incumbent: rank::macro_mean(judged, incumbent, first + place),
        })
        .collect()
}

/// Cells of the two pairs that have failed, lack a verdict, or are there for other pairs only.
fn missing(scores: &Scores, judged: &TierScores, candidate: usize, incumbent: usize) -> usize {
    let both = [candidate, incumbent];
    // A scenario that any pair was collected on is one that both must have: otherwise cells that
    // were lost could be deleted.
    let scenarios: BTreeSet<usize> = (0..scores.pair_count())
        .flat_map(|pair| scores.runs_of(pair).iter().map(|it| it.scenario))
        .collect();
    let lacking = |pair: usize, scenario: usize| {
        let runs = scores.runs_of(pair).iter();
        let runs = runs.filter(|it| it.scenario == scenario);
        let complete = judged
            .cell(pair, scenario)
            .map_or(0, |it| it.complete as usize);
        runs.count().max(1).saturating_sub(complete)
    };
    let cells = scenarios
        .iter()
        .flat_map(|scenario| both.map(|pair| lacking(pair, *scenario)));
    cells.sum()
}

/// The two pairs on the confirmation split, under the same rubric as the selection: the task's
/// scenarios as they are now, and those that were collected there and have left the task since.
/// Otherwise a scenario that was lost could be deleted after it was seen.
fn confirmation(
    store: &dyn Boards,
    options: &PromoteOptions<'_>,
    selection: &Scores,
    candidate: &PairKey,
    incumbent: &PairKey,
) -> Result<Option<Confirmation>> {
    let split = Split::Confirmation;
    let scores = read::read_alike(store, options.experiment, split, None, &selection.swept)?;
    let in_task = options.task.scenarios.iter();
    let mut wanted: Vec<(String, String)> = in_task
        .filter(|scenario| scenario.split == Split::Confirmation)
        .map(|scenario| (scenario.id.clone(), scenario.sha256.clone()))
        .collect();
    let collected = scores.scenarios.iter();
    let removed: Vec<(String, String)> = collected
        .filter(|(id, _)| !wanted.iter().any(|it| it.0 == *id))
        .cloned()
        .collect();
    wanted.extend(removed);
    if wanted.is_empty() {
        return Ok(None);
    }
    let tier = options.thresholds.deciding_tier();
    let judged = scores
        .tier(tier)
        .filter(|_| scores.rubric == selection.rubric);
    let means = |pair: &PairKey| -> Vec<Option<f64>> {
        let place = scores.find_key(pair);
        let cell = |scenario: &(String, String)| {
            // Runs of older tools do not name a version.
            let is_it = |it: &&(String, String)| {
                it.0 == scenario.0 && (it.1 == scenario.1 || it.1.is_empty())
            };
            let scenario = scores.scenarios.iter().position(|it| is_it(&it))?;
            let cell = judged?.cell(place?, scenario)?;
            (cell.complete > 0).then(|| cell.composite / f64::from(cell.candidates))
        };
        wanted.iter().map(cell).collect()
    };
    let (ours, theirs) = (means(candidate), means(incumbent));
    let missing_cells = ours.iter().chain(&theirs).filter(|it| it.is_none()).count();
    let both = scores.find_key(candidate).zip(scores.find_key(incumbent));
    Ok(Some(Confirmation {
        differences: paired::differences(&ours, &theirs)
            .into_iter()
            .flatten()
            .collect(),
        scenarios: wanted.len(),
        missing_cells,
        scale: 1.0,
        flags: match (judged, &scores.full_rubric, both) {
            (Some(judged), Some(rubric), Some((ours, theirs))) => {
                flags(judged, rubric, ours, theirs)
            }
            _ => Vec::new(),
        },
        judged_apart: judged.zip(both).and_then(|(judged, (ours, theirs))| {
            RatersOfPairs::of(judged).judged_apart(ours, theirs)
        }),
        comparability: both.map_or_else(Comparability::default, |(ours, theirs)| {
            Comparability::between(&scores, ours, theirs)
        }),
    }))
}

fn set_scale(confirmation: &mut Option<Confirmation>, scale: Option<f64>) {
    if let (Some(found), Some(scale)) = (confirmation, scale) {
        found.scale = scale;
    }
}

/// The standard deviation of the differences of two pairs over scenarios, if they have any.
pub fn spread(candidate: &[Option<f64>], incumbent: &[Option<f64>]) -> Option<f64> {
    let differences = paired::differences(candidate, incumbent);
    let shared: Vec<f64> = differences.into_iter().flatten().collect();
    assize_stats::describe::sd(&shared).filter(|sd| *sd > 0.0)
}
