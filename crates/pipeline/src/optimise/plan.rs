//! What a loop would use at most, before it starts.

use assize_domain::judge::Tier;
use assize_domain::leaderboard::Pair;
use assize_domain::model::{ModelId, ProviderKind};
use assize_domain::scenario::Split;
use assize_domain::task::Task;
use assize_optimise::LoopSettings;
use assize_optimise::race::search_verdicts;
use assize_store::Tracking;
use serde::Serialize;

use crate::Result;
use crate::estimate::guessed_output_s;
use crate::judge::auto::Prices;
use crate::plan::history::History;
use crate::promote::Thresholds;
use crate::size_gate::SizedModel;

/// Tokens of a verdict: a short reason and the scores.
const VERDICT_TOKENS: f64 = 100.0;
/// A low estimate, so that costs are rather overestimated.
const BYTES_PER_TOKEN: f64 = 2.5;
/// A candidate and its context.
const CASE_BYTES: f64 = 2000.0;

/// What a loop would do and use at most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoopPlan {
    pub experiment: String,
    pub task: String,
    /// The prompt that the loop starts from.
    pub seed: String,
    pub incumbent: Pair,
    pub settings: LoopSettings,
    /// Scenarios of the feedback split, and how many of them the race uses.
    pub feedback_scenarios: usize,
    pub race_scenarios: usize,
    pub selection_scenarios: usize,
    pub confirmation_scenarios: usize,
    /// Automatic verdicts: of the race, and of nominee and incumbent on the selection split.
    pub race_verdicts: u32,
    pub selection_verdicts: u32,
    /// Of nominee and incumbent on both splits, without calibration cases.
    pub expert_verdicts: u32,
    /// Candidates to generate.
    pub outputs: u64,
    pub expected: PlannedCost,
    /// What a reader should know before the start.
    pub notes: Vec<String>,
}

/// Money and time; `null` where it is not known for every model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PlannedCost {
    pub cost_usd: Option<f64>,
    pub hours: Option<f64>,
}

/// What a plan is made from.
#[derive(Debug)]
pub(super) struct Planned<'a> {
    pub experiment: &'a str,
    pub task: &'a Task,
    pub seed: &'a str,
    pub incumbent: &'a Pair,
    pub settings: &'a LoopSettings,
    pub race_scenarios: usize,
    /// Candidates of a cell on the selection and confirmation splits.
    pub candidates: u32,
    pub max_tokens: u32,
    /// Requests in flight.
    pub jobs: u32,
    pub thresholds: &'a Thresholds,
    pub generators: &'a [SizedModel],
    /// `None` where every criterion is computed.
    pub judge: Option<&'a SizedModel>,
    pub prices: Option<Prices>,
}

/// Automatic verdicts of nominee and incumbent that the gate needs.
pub(super) fn selection_verdicts(task: &Task, candidates: u32, thresholds: &Thresholds) -> u32 {
    if thresholds.require.contains(&Tier::Auto) {
        finalists_outputs(task, Split::Selection, candidates)
    } else {
        0
    }
}

fn finalists_outputs(task: &Task, split: Split, candidates: u32) -> u32 {
    let scenarios = u32::try_from(task.split(split).count()).unwrap_or(u32::MAX);
    scenarios.saturating_mul(candidates).saturating_mul(2)
}

impl Planned<'_> {
    pub fn plan(&self, store: Option<&dyn Tracking>, notes: Vec<String>) -> Result<LoopPlan> {
        let (task, settings) = (self.task, self.settings);
        let count = |split| task.split(split).count();
        let race_verdicts = search_verdicts(settings, self.race_scenarios);
        let selection_verdicts = selection_verdicts(task, self.candidates, self.thresholds);
        let selection = finalists_outputs(task, Split::Selection, self.candidates);
        let confirmation = finalists_outputs(task, Split::Confirmation, self.candidates);
        let experts = self.judge.is_some() && self.thresholds.deciding_tier() == Tier::Expert;
        let finals = selection.saturating_add(confirmation);
        let searched = u64::from(race_verdicts) + u64::from(settings.children_in_all());
        let outputs = searched + u64::from(finals);
        let verdicts = race_verdicts.saturating_add(selection_verdicts);
        Ok(LoopPlan {
            experiment: self.experiment.to_owned(),
            task: task.name.clone(),
            seed: self.seed.to_owned(),
            incumbent: self.incumbent.clone(),
            settings: settings.clone(),
            feedback_scenarios: count(Split::Feedback),
            race_scenarios: self.race_scenarios,
            selection_scenarios: count(Split::Selection),
            confirmation_scenarios: count(Split::Confirmation),
            race_verdicts,
            selection_verdicts,
            expert_verdicts: if experts { finals } else { 0 },
            outputs,
            expected: self.expected(store, outputs, verdicts)?,
            notes,
        })
    }

    /// Every model generates the same share of the race; what the finalists need is small beside it.
    fn expected(
        &self,
        store: Option<&dyn Tracking>,
        outputs: u64,
        verdicts: u32,
    ) -> Result<PlannedCost> {
        let history = store.map(History::open).transpose()?;
        let share = outputs as f64 / self.generators.len().max(1) as f64;
        let (mut cost, mut seconds) = (Some(0.0), Some(0.0));
        for model in self.generators {
            let (usd, s) = self.per_output(history.as_ref(), model, self.max_tokens)?;
            add(&mut cost, usd.map(|it| it * share));
            add(&mut seconds, s.map(|it| it * share));
        }
        if let Some(judge) = self.judge {
            let (usd, s) = self.per_output(history.as_ref(), judge, 200)?;
            let usd = self.prices.map(|it| self.verdict_usd(it)).or(usd);
            add(&mut cost, usd.map(|it| it * f64::from(verdicts)));
            add(&mut seconds, s.map(|it| it * f64::from(verdicts)));
        }
        Ok(PlannedCost {
            cost_usd: cost,
            hours: seconds.map(|it| it / 3600.0),
        })
    }

    /// What one answer of a model costs and takes, where that is known.
    fn per_output(
        &self,
        history: Option<&History<'_>>,
        model: &SizedModel,
        max_tokens: u32,
    ) -> Result<(Option<f64>, Option<f64>)> {
        let id = model.id.to_string();
        let pace = history.map(|it| it.pace(&id)).transpose()?;
        let pace = pace.unwrap_or_default();
        let usd = pace
            .cost_usd_per_output
            .or_else(|| is_free(&model.id).then_some(0.0));
        let guess = || guessed_output_s(max_tokens, model);
        let seconds = pace.seconds_per_output.or_else(guess);
        Ok((usd, seconds.map(|it| it / f64::from(self.jobs.max(1)))))
    }

    fn verdict_usd(&self, prices: Prices) -> f64 {
        let read = (self.task.rubric.text.len() as f64 + CASE_BYTES) / BYTES_PER_TOKEN;
        (read * prices.input_usd + VERDICT_TOKENS * prices.output_usd) / 1e6
    }
}

fn is_free(id: &ModelId) -> bool {
    !matches!(
        id.provider,
        ProviderKind::OpenAi | ProviderKind::Anthropic | ProviderKind::Gemini
    )
}

fn add(sum: &mut Option<f64>, more: Option<f64>) {
    *sum = sum.zip(more).map(|(a, b)| a + b);
}
