//! Compare: the leaderboard of (model, prompt) pairs, with its uncertainty.
//!
//! [`read`] turns tracked verdicts into scores per pair and scenario; [`rank`] turns those into
//! rows, tests and a decision. The unit is the scenario: candidates of one cell are correlated,
//! so every interval and test works on cell means.

use assize_domain::judge::Tier;
use assize_domain::leaderboard::answers::Answers;
use assize_domain::leaderboard::{BoardTier, Leaderboard, Pair};
use assize_domain::ledger::ConfirmationUse;
use assize_domain::promotion::Promotion;
use assize_domain::scenario::Split;
use assize_store::Tracking;

use crate::{PipelineError, Result};

mod answers;
mod by_scenario;
pub(crate) mod comparability;
pub(crate) mod decision;
pub(crate) mod family;
pub(crate) mod harm;
mod length;
pub(crate) mod rank;
pub(crate) mod read;
pub(crate) mod resources;
mod sentence;
pub(crate) mod two_tier;
mod view;
mod warnings;

pub use answers::{Wanted, candidates};
pub use by_scenario::by_scenario;
pub use decision::{DecisionRule, Rule};
pub use read::CurrentScenarios;

/// Seeds what is drawn where exact enumeration is out of reach. One seed for all callers, so that
/// command, server and gate agree to the last digit.
pub const SEED: u64 = 42;

/// What to compare.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CompareOptions {
    pub experiment: String,
    /// Whose scores count; expert where it has judged anything, else auto.
    pub tier: Option<BoardTier>,
    /// `MODEL/PROMPT`; by default the champion, else the first model × first prompt.
    pub incumbent: Option<String>,
    pub split: Split,
    pub seed: u64,
    /// The task as its files have it now, where these are at hand.
    pub current: Option<CurrentScenarios>,
}

impl CompareOptions {
    /// The default board of an experiment.
    pub fn usual(experiment: &str) -> Self {
        Self {
            experiment: experiment.to_owned(),
            tier: None,
            incumbent: None,
            split: Split::Selection,
            seed: SEED,
            current: None,
        }
    }
}

/// A board with the cells that it stands on.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    pub board: Leaderboard,
    pub cells: Cells,
}

/// [`Compared`] with the scores that it was computed from, for reading the answers behind it.
#[derive(Debug)]
pub struct Scored {
    pub compared: Compared,
    scores: read::Scores,
}

impl Scored {
    /// Reads the wanted outputs, and what judges said of them.
    pub fn answers(&self, store: &dyn Tracking, wanted: Wanted) -> Result<Answers> {
        answers::read(store, &self.compared, &self.scores, wanted)
    }

    /// Reads everything that the HTML report shows besides the board.
    pub fn report_answers(&self, store: &dyn Tracking) -> Result<Answers> {
        let Compared { board, cells } = &self.compared;
        Ok(Answers {
            by_scenario: Some(by_scenario(board, cells)),
            ..self.answers(store, Wanted::REPORT)?
        })
    }
}

/// The mean composite of every pair in every scenario, by the board's tier.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cells {
    pub pairs: Vec<Pair>,
    /// Ids of the scenarios that count.
    pub scenarios: Vec<String>,
    /// By pair, then by scenario; `None` where nothing is judged.
    pub means: Vec<Vec<Option<f64>>>,
    /// The tiers that have verdicts.
    pub tiers: Vec<Tier>,
}

/// Reads the experiment and ranks its pairs. `rule` is `level` and `margin` of `[gate]`.
pub fn compare(
    store: &dyn Tracking,
    options: &CompareOptions,
    rule: DecisionRule,
) -> Result<Leaderboard> {
    compare_cells(store, options, rule).map(|compared| compared.board)
}

/// [`compare`], where the task's files are read while the store is. An error of `find_current` is
/// reported first.
pub fn compare_finding<E: From<PipelineError>>(
    store: &dyn Tracking,
    mut options: CompareOptions,
    rule: DecisionRule,
    find_current: impl FnOnce() -> std::result::Result<Option<CurrentScenarios>, E>,
) -> std::result::Result<Scored, E> {
    let (experiment, split) = (options.experiment.clone(), options.split);
    let (scores, current) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read::read_versions(store, &experiment, split));
        let current = find_current();
        let panicked = |_| PipelineError::Internal("worker panicked".to_owned());
        (reading.join().map_err(panicked), current)
    });
    options.current = current?;
    let mut scores = scores??;
    scores.keep_current(options.current.as_ref(), split);
    let compared = compare_scores(store, &scores, &options, rule)?;
    Ok(Scored { compared, scores })
}

/// [`compare`], with the cells.
pub fn compare_cells(
    store: &dyn Tracking,
    options: &CompareOptions,
    rule: DecisionRule,
) -> Result<Compared> {
    let scores = read::read(
        store,
        &options.experiment,
        options.split,
        options.current.as_ref(),
    )?;
    compare_scores(store, &scores, options, rule)
}

fn compare_scores(
    store: &dyn Tracking,
    scores: &read::Scores,
    options: &CompareOptions,
    rule: DecisionRule,
) -> Result<Compared> {
    let tier = options.tier.unwrap_or_else(|| scores.default_tier().into());
    let mut warning = None;
    let promoted = store.champion_get(&scores.task)?;
    let champion = promoted.as_ref().and_then(|it| champion_index(scores, it));
    let incumbent = match &options.incumbent {
        Some(wanted) => Some(named(scores, "incumbent", wanted)?),
        None => match promoted {
            Some(it) => champion.or_else(|| {
                warning = Some(format!(
                    "the champion {} is not in this experiment as it was promoted, so the first \
                     model and prompt are the incumbent",
                    it.champion.pair()
                ));
                scores.first_pair()
            }),
            None => scores.first_pair(),
        },
    };
    let view = view::View::of(store, scores, tier, incumbent, options)?;
    let mut board = rank::rank(scores, &view, (incumbent, champion), options, rule);
    board
        .warnings
        .extend(warning.filter(|_| !board.rows.is_empty()));
    board.confirmation = ConfirmationUse::of(&store.ledger_list(&options.experiment)?);
    let cells = Cells {
        means: view.means,
        scenarios: scores.scenarios.iter().map(|(id, _)| id.clone()).collect(),
        pairs: scores.pairs(),
        tiers: scores.tiers_judged(),
    };
    Ok(Compared { board, cells })
}

/// The pair that the user wrote as `MODEL/PROMPT`.
pub(crate) fn named(scores: &read::Scores, role: &str, wanted: &str) -> Result<usize> {
    scores.find_pair(wanted).ok_or_else(|| {
        let known: Vec<String> = scores.pairs().iter().map(Pair::id).collect();
        PipelineError::Invalid(format!(
            "the {role} '{wanted}' is not a pair of this experiment: use one of {}",
            known.join(", ")
        ))
    })
}

/// Where the champion stands in an experiment, with exactly the contents and settings that were promoted.
pub(crate) fn champion_index(scores: &read::Scores, promotion: &Promotion) -> Option<usize> {
    scores.find_champion(&promotion.champion)
}
