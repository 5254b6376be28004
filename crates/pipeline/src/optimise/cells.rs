//! The cells of a loop: collecting a part of its grid, having it scored by the automatic judge, and
//! reading back what is recorded.
//!
//! Everything is found in the loop's own experiments, by model, prompt and scenario. A step that was
//! killed therefore finds what it had recorded, and generates and judges only the rest; one that only
//! waits for judges asks no model's host for anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use assize_domain::anchor::Anchors;
use assize_domain::candidate::Candidate;
use assize_domain::judge::Tier;
use assize_domain::run::{RunStatus, artifact, metric, param, tag};
use assize_domain::scenario::Split;
use assize_domain::sweep::{Settings, SettingsWords, settings_words};
use assize_domain::task::Task;
use assize_domain::verdict::{Verdict, VerdictFile, effective};
use assize_store::{Run, RunQuery, StoreError};

use super::LoopContext;
use crate::collect::grid::Subset;
use crate::collect::{self, CollectOptions, Collection, Speeds, recorded_params};
use crate::judge::auto::AutoJudge;
use crate::judge::{artifact_parse, not_computed_words};
use crate::size_gate::SizedModel;
use crate::{PipelineError, Result, count};

/// A rubric with anchors is long; a context that cannot hold it would fail every case.
const LEAST_CONTEXT: u32 = 3072;
/// A short reason and the scores.
const MAX_TOKENS: u32 = 200;

/// Pairs on scenarios of one split, in one experiment.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub experiment: String,
    pub split: Split,
    /// (model, prompt)
    pub pairs: BTreeSet<(String, String)>,
    /// Ids.
    pub scenarios: BTreeSet<String>,
    pub candidates: u32,
    /// Whose desk the runs wait on.
    pub judge_kind: String,
}

/// A recorded cell with what judges said about it.
#[derive(Debug)]
pub(super) struct TrackedCell {
    pub model: String,
    pub prompt: String,
    pub scenario: String,
    pub run: Run,
    /// Empty where the cell failed.
    pub candidates: Vec<Candidate>,
    files: Vec<VerdictFile>,
    rubric_sha256: String,
}

/// How a part was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    Done,
    /// The judge stopped before the money that is left would be spent.
    OutOfMoney,
}

impl Part {
    fn models(&self) -> BTreeSet<&str> {
        self.pairs.iter().map(|it| it.0.as_str()).collect()
    }

    fn prompts(&self) -> BTreeSet<&str> {
        self.pairs.iter().map(|it| it.1.as_str()).collect()
    }

    /// The same for each scenario alone.
    fn by_scenario(&self) -> impl Iterator<Item = Self> {
        self.scenarios.iter().map(|it| Self {
            scenarios: BTreeSet::from([it.clone()]),
            ..self.clone()
        })
    }

    pub fn len(&self) -> usize {
        self.pairs.len() * self.scenarios.len()
    }
}

impl LoopContext<'_> {
    /// The options that a part is collected with.
    fn options(&self, part: &Part, models: &[SizedModel]) -> CollectOptions {
        let mut values = self.values.clone();
        values.experiment.clone_from(&part.experiment);
        values.split = part.split;
        values.models = models.iter().map(|it| it.id.to_string()).collect();
        values.prompts = part.prompts().into_iter().map(str::to_owned).collect();
        values.n_tips = part.candidates;
        values.n_scenarios = 0;
        values.judge_kind.clone_from(&part.judge_kind);
        CollectOptions {
            params: recorded_params(&values, self.store.uri(), None),
            models: models.iter().map(|it| it.id.clone()).collect(),
            values,
            adaptive: false,
            shard: None,
        }
    }

    fn generators(&self, part: &Part) -> Result<Vec<SizedModel>> {
        let models = part.models().into_iter();
        models.map(|it| self.models.generator(it)).collect()
    }

    /// A collection of one part, recorded by `cells`.
    pub(super) fn with_collection<T>(
        &self,
        task: &Task,
        part: &Part,
        cells: &dyn assize_store::Cells,
        work: impl FnOnce(&Collection<'_>) -> Result<T>,
    ) -> Result<T> {
        let models = self.generators(part)?;
        let options = self.options(part, &models);
        work(&Collection {
            task,
            task_source: self.task_source,
            options: &options,
            models,
            rejected: Vec::new(),
            only: Some(Subset {
                pairs: part.pairs.clone(),
                scenarios: part.scenarios.clone(),
            }),
            store: self.store,
            cells,
            journal: self.journal,
            guard: self.guard,
            speeds: &Speeds::default(),
            locks: self.locks.clone(),
            clock: self.clock,
            stop: self.stop,
            version: self.version,
        })
    }

    /// Generates what is missing of a part. Cells that fail stay failed and are tried again by the
    /// next call.
    pub(super) fn collect(&self, task: &Task, part: &Part) -> Result<()> {
        self.check_models(part)?;
        let (summary, error) = self.with_collection(task, part, self.cells, |collection| {
            Ok(collect::run(collection, self.observer))
        })?;
        if let Some(error) = error {
            return Err(error);
        }
        if summary.interrupted {
            return Err(PipelineError::Interrupted);
        }
        if summary.undelivered > 0 {
            return Err(StoreError::Unreachable {
                uri: self.store.uri().to_owned(),
                reason: format!(
                    "{} wait in this machine's journal. The loop goes on where it stopped when the \
                     server answers and you run the step again",
                    count(usize::try_from(summary.undelivered).unwrap_or(0), "cell")
                ),
            }
            .into());
        }
        Ok(())
    }

    /// Refuses a model that was replaced under its name since the loop has used it: its outputs could
    /// not be compared with those before.
    fn check_models(&self, part: &Part) -> Result<()> {
        let runs = self.runs(&part.experiment, None)?;
        for model in self.generators(part)? {
            let name = model.id.to_string();
            let digests = runs
                .iter()
                .filter(|it| param_of(it, param::MODEL) == Some(&name));
            let mut digests = digests.filter_map(|it| tag_of(it, tag::MODEL_DIGEST));
            if let Some(before) = digests.find(|it| *it != model.info.digest) {
                return Err(PipelineError::Invalid(format!(
                    "the model {name} has changed since this loop has used it (digest {before}, now {}), so its outputs \
                     cannot be compared with those before: restore it, or stop this loop and start another",
                    model.info.digest
                )));
            }
        }
        Ok(())
    }

    /// Lets the automatic judge score what it has not seen in an experiment. Without a judge, the
    /// verdicts came with the cells.
    pub(super) fn judge(&self, experiment: &str, money_left: Option<f64>) -> Result<Settled> {
        if self.settings.judge.is_empty() {
            return Ok(Settled::Done);
        }
        let model = self.models.judge(&self.settings.judge)?;
        let judge = AutoJudge {
            store: self.store,
            experiment,
            // The race only nominates; the gate compares this judge with the experts.
            anchors: Anchors::default(),
            model: &model,
            guard: self.guard,
            jobs: self.values.jobs,
            num_ctx: self.values.num_ctx.max(LEAST_CONTEXT),
            max_tokens: MAX_TOKENS,
            seed: self.settings.seed,
            limit: None,
            max_cost_usd: money_left,
            prices: self.prices,
            now: self.now,
            entropy: self.entropy,
            stop: self.stop,
        };
        let summary = judge.run(self.progress)?;
        if summary.interrupted || self.stop.load(Ordering::Relaxed) {
            return Err(PipelineError::Interrupted);
        }
        if let Some(reason) = summary.gave_up {
            return Err(PipelineError::Service(format!(
                "the judge {} failed too often in a row: {reason}. What was judged is kept; run the \
                 step again to continue",
                self.settings.judge
            )));
        }
        for reason in &summary.reasons {
            (self.tell)(&format!("left unjudged: {reason}"));
        }
        Ok(if summary.cap_reached {
            Settled::OutOfMoney
        } else {
            Settled::Done
        })
    }

    /// Collects and judges a part. Cells that failed or were left unjudged are tried once more.
    /// `money_left` does not count yet what cells of this part have cost: a step that was broken off
    /// may have recorded some. Where money is limited, scenarios are collected one after the other, so
    /// that it is passed by the cells of one scenario at most.
    pub(super) fn settle(
        &self,
        task: &Task,
        part: &Part,
        money_left: Option<f64>,
    ) -> Result<(Settled, Vec<TrackedCell>)> {
        let left = || match money_left {
            Some(money) => Ok(Some(money - cost_of(&self.recorded(task, part)?))),
            None => Ok::<_, PipelineError>(None),
        };
        let mut settled = Settled::Done;
        let mut cells = Vec::new();
        for _ in 0..2 {
            if money_left.is_none() {
                self.collect(task, part)?;
            }
            for some in part.by_scenario().filter(|_| money_left.is_some()) {
                if left()?.is_some_and(|it| it > 0.0) {
                    self.collect(task, &some)?;
                } else if self.recorded(task, &some)?.len() < some.len() {
                    return Ok((Settled::OutOfMoney, self.recorded(task, part)?));
                }
            }
            settled = self.judge(&part.experiment, left()?.map(|it| it.max(0.0)))?;
            cells = self.read(task, part)?;
            let is_done = |it: &TrackedCell| it.is_judged(Tier::Auto);
            if settled == Settled::OutOfMoney || cells.iter().all(is_done) {
                break;
            }
        }
        check_computed(&part.experiment, &cells)?;
        Ok((settled, cells))
    }

    /// The cells of a part, by model, prompt and scenario. It is an error if one is missing.
    pub(super) fn read(&self, task: &Task, part: &Part) -> Result<Vec<TrackedCell>> {
        let cells = self.recorded(task, part)?;
        if cells.len() < part.len() {
            return Err(PipelineError::Invalid(format!(
                "{} of {} that this loop has collected are found in the experiment '{}' of {}: restore the deleted \
                 runs, or stop this loop and start another",
                cells.len(),
                count(part.len(), "cell"),
                part.experiment,
                self.store.uri()
            )));
        }
        Ok(cells)
    }

    /// Those cells of a part that are recorded.
    pub(super) fn recorded(&self, task: &Task, part: &Part) -> Result<Vec<TrackedCell>> {
        let mut known: BTreeMap<CellName, Run> = BTreeMap::new();
        let words = settings_words(self.values, &Settings::default());
        let words = SettingsWords::parse(&words);
        for run in self.runs(&part.experiment, Some(part.split))? {
            let named = |key: &str| param_of(&run, key).unwrap_or_default().to_owned();
            let pair = (named(param::MODEL), named(param::PROMPT));
            let scenario = named(param::SCENARIO);
            if !part.pairs.contains(&pair) || !part.scenarios.contains(&scenario) {
                continue;
            }
            // A sweep in the same experiment has cells of the same names with other settings.
            let of_run = tag_of(&run, tag::SETTINGS).unwrap_or_default();
            if !words.has(&SettingsWords::parse(of_run).own()) {
                continue;
            }
            let name = (pair.0, pair.1, scenario);
            // Of several tries the one that worked counts, of several of those the latest.
            let rank = |it: &Run| (it.status == RunStatus::Finished, it.start_time_ms);
            if known.get(&name).is_none_or(|it| rank(it) < rank(&run)) {
                known.insert(name, run);
            }
        }
        let cells = known.into_iter();
        cells
            .map(|(name, run)| self.tracked(task, name, run))
            .collect()
    }

    /// All runs of an experiment; none where there is no such experiment yet.
    fn runs(&self, experiment: &str, split: Option<Split>) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        let mut query = RunQuery {
            split,
            ..RunQuery::default()
        };
        loop {
            let page = match self.store.run_list(experiment, &query) {
                Err(StoreError::NoExperiment { .. }) => return Ok(runs),
                page => page?,
            };
            runs.extend(page.runs);
            query.page_token = page.next_page_token;
            if query.page_token.is_none() {
                return Ok(runs);
            }
        }
    }

    fn tracked(&self, task: &Task, name: CellName, run: Run) -> Result<TrackedCell> {
        let (model, prompt, scenario) = name;
        let text = self.store.artifact_get(&run.run_id, artifact::CANDIDATES)?;
        let candidates = match text {
            Some(text) => artifact_parse(artifact::CANDIDATES, &run.run_id, &text)?,
            None => Vec::new(),
        };
        let aside = tag_of(&run, tag::SET_ASIDE).unwrap_or_default().to_owned();
        let mut files = self.store.verdicts_get(&run.run_id)?;
        files.retain(|file| !aside.split(' ').any(|it| it == file.sitting));
        Ok(TrackedCell {
            model,
            prompt,
            scenario,
            candidates,
            files,
            rubric_sha256: task.rubric.sha256.clone(),
            run,
        })
    }
}

type CellName = (String, String, String);

fn param_of<'a>(run: &'a Run, key: &str) -> Option<&'a str> {
    let found = run.params.iter().find(|(known, _)| known == key);
    found.map(|(_, value)| value.as_str())
}

pub(super) fn tag_of<'a>(run: &'a Run, key: &str) -> Option<&'a str> {
    let found = run.tags.iter().find(|(known, _)| known == key);
    found.map(|(_, value)| value.as_str())
}

impl TrackedCell {
    /// Candidates that there is something to judge of.
    pub fn texts(&self) -> impl Iterator<Item = (u32, &str)> {
        let candidates = self.candidates.iter();
        candidates.filter_map(|it| Some((it.index, it.text.as_deref()?)))
    }

    /// The verdicts of a tier that count, by candidate.
    pub fn verdicts(&self, tier: Tier) -> BTreeMap<u32, &Verdict> {
        effective(&self.files, tier, &self.rubric_sha256)
    }

    /// Whether a tier has judged every candidate, of which there is at least one.
    pub fn is_judged(&self, tier: Tier) -> bool {
        let verdicts = self.verdicts(tier);
        let mut texts = self.texts().peekable();
        texts.peek().is_some() && texts.all(|(index, _)| verdicts.contains_key(&index))
    }

    /// Whether nothing was generated.
    pub fn is_failed(&self) -> bool {
        self.texts().next().is_none()
    }

    /// Why the provider gave nothing at all, where it did not.
    pub fn provider_error(&self) -> Option<&str> {
        let of_run = || tag_of(&self.run, tag::ERROR);
        let mut errors = self.candidates.iter().filter_map(|it| it.error.as_deref());
        self.is_failed().then(|| errors.next().or_else(of_run))?
    }

    /// The mean composite of a tier.
    pub fn mean(&self, tier: Tier) -> Option<f64> {
        let composites: Vec<f64> = self
            .verdicts(tier)
            .values()
            .map(|it| it.composite)
            .collect();
        assize_stats::describe::mean(&composites)
    }

    fn metric(&self, name: &str) -> f64 {
        let found = self.run.metrics.iter().find(|(known, _)| known == name);
        found.map_or(0.0, |(_, value)| *value)
    }

    /// What generating it cost, where the provider says so.
    pub fn generation_usd(&self) -> f64 {
        self.metric(metric::GENERATION_COST_USD)
    }

    /// What its automatic verdicts cost.
    pub fn judging_usd(&self) -> f64 {
        self.metric(&format!("{}.{}", Tier::Auto, metric::COST_USD))
    }
}

/// Refuses to go on with cells that lack a computed score: no judge gets them, and counting them as
/// the lowest would hold a failure of a command against a prompt.
pub(super) fn check_computed(experiment: &str, cells: &[TrackedCell]) -> Result<()> {
    let lacks = |it: &&TrackedCell| it.candidates.iter().any(|it| !it.not_computed.is_empty());
    let cells = cells.iter().filter(lacks).count();
    if cells == 0 {
        return Ok(());
    }
    Err(PipelineError::CellsFailed(format!(
        "{}, then run the step again",
        not_computed_words(experiment, cells)
    )))
}

/// The verdicts of a tier on these cells. Computed ones are the race's, and no expert gave them.
pub(super) fn verdicts_in(cells: &[TrackedCell], tier: Tier) -> u32 {
    let of_tier = cells
        .iter()
        .filter(|it| tier == Tier::Auto || !it.files.iter().any(VerdictFile::is_computed));
    let verdicts: usize = of_tier.map(|it| it.verdicts(tier).len()).sum();
    u32::try_from(verdicts).unwrap_or(u32::MAX)
}

/// What generating these cells and having them judged automatically cost.
pub(super) fn cost_of(cells: &[TrackedCell]) -> f64 {
    let costs = cells
        .iter()
        .map(|it| it.generation_usd() + it.judging_usd());
    costs.sum()
}
