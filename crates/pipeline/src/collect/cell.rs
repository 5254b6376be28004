//! One cell: ask for its candidates, check them, and make the record that is tracked.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use assize_domain::candidate::{self, Candidate};
use assize_domain::computed::{self, Scorer};
use assize_domain::judge::COMPUTED;
use assize_domain::output::{OutputReader, cut_thinking};
use assize_domain::prompt::Rendered;
use assize_domain::run::{CellRecord, RunStatus, artifact, metric, param, tag};
use assize_domain::task::Task;
use assize_domain::verdict::{Summary, VerdictFile, summarise};
use assize_providers::{Completion, Provider, ProviderError, Request, share_of};

use serde_json::Value;

use super::grid::{Cell, Grid};
use super::request::request;
use super::{CollectOptions, Collection};
use crate::Now;
use crate::computed::run_command;
use crate::size_gate::SizedModel;

mod recorded;

use recorded::{option_params, words};

/// Commands of a cell in flight end by themselves or by their time limit, also after Ctrl-C: a cell is
/// recorded with its scores, because the next collection does not make it again.
static RUN_TO_THE_END: AtomicBool = AtomicBool::new(false);

/// Params or tags.
type Entries = Vec<(Arc<str>, Arc<str>)>;

/// Generates the cells of one model. It holds what they share: most params, tags and texts.
#[derive(Debug)]
pub struct CellGenerator<'a> {
    task: &'a Task,
    task_source: &'a str,
    output: OutputReader<'a>,
    options: &'a CollectOptions,
    grid: &'a Grid<'a>,
    model: &'a SizedModel,
    model_id: Arc<str>,
    clock: crate::Clock,
    /// By variant: params, and the settings in words.
    by_variant: Vec<(Entries, Arc<str>)>,
    shared_tags: Vec<(Arc<str>, Arc<str>)>,
    rubric_text: Arc<str>,
}

/// A generated cell, ready to be tracked.
#[derive(Debug)]
pub struct GeneratedCell {
    pub record: CellRecord,
    pub prompt: String,
    pub scenario: String,
    /// Why every candidate failed, where they did.
    pub error: Option<String>,
    pub host_fault: Option<HostFault>,
    /// The host does not accept the credentials.
    pub denied: bool,
    pub failed_candidates: u64,
    /// How many candidates lack a computed score, and why the first of them does.
    pub unscored: Option<(u64, String)>,
    pub completion_tokens: u64,
}

/// What a cell's failures say about its host.
#[derive(Debug)]
pub enum HostFault {
    /// The host lacks the model, as it said about every candidate.
    ModelMissing,
    /// The host could not be reached for the last candidate.
    Unreachable(ProviderError),
    /// No candidate was complete in time.
    TimedOut(ProviderError),
}

impl HostFault {
    fn of(answers: &[assize_providers::Result<Completion>]) -> Option<Self> {
        let errors = || answers.iter().filter_map(|answer| answer.as_ref().err());
        let last = answers.last()?.as_ref().err()?;
        let have_all_failed = errors().count() == answers.len();
        let is_missing = |it: &ProviderError| matches!(it, ProviderError::ModelNotFound { .. });
        match last {
            ProviderError::Unreachable { .. } => Some(Self::Unreachable(last.clone())),
            ProviderError::Timeout { .. } if have_all_failed => Some(Self::TimedOut(last.clone())),
            _ => (have_all_failed && errors().all(is_missing)).then_some(Self::ModelMissing),
        }
    }
}

impl<'a> CellGenerator<'a> {
    /// `host` is where they are generated, `provenance` the engine there.
    pub fn new(
        collection: &Collection<'a>,
        grid: &'a Grid<'a>,
        model: &'a SizedModel,
        host: Option<&str>,
        provenance: &str,
    ) -> Self {
        let (task, options) = (collection.task, collection.options);
        let desk = if task.rubric.needs_judge() {
            options.values.judge_kind.as_str()
        } else {
            COMPUTED
        };
        let tags = [
            (tag::JUDGE_KIND, desk),
            (tag::RUBRIC, &task.rubric.id),
            (tag::RUBRIC_SHA256, &task.rubric.sha256),
            (tag::TASK_SHA256, &task.sha256),
            (tag::TASK_SOURCE, collection.task_source),
            (tag::MODEL_DIGEST, &model.info.digest),
            (tag::ASSIZE_VERSION, collection.version),
            (tag::PROVENANCE, provenance),
        ];
        let host = host.map(|it| (tag::HOST, it));
        Self {
            task,
            task_source: collection.task_source,
            output: OutputReader::new(&task.output),
            options,
            grid,
            model,
            model_id: model.id.to_string().into(),
            clock: collection.clock,
            by_variant: grid
                .variants()
                .map(|it| (option_params(task, options, it), words(options, it).into()))
                .collect(),
            shared_tags: tags
                .into_iter()
                .chain(host)
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            rubric_text: task.rubric.text.as_str().into(),
        }
    }

    /// Generates a cell's candidates.
    pub fn generate(&self, provider: &dyn Provider, cell: &Cell<'_>) -> GeneratedCell {
        let start_time_ms = (self.clock)();
        let request = request(self.task, self.options, cell);
        let mut answers = provider.generate(&self.model.id.name, &request);
        answers.resize_with(request.candidates.len(), || {
            Err(ProviderError::Malformed {
                host: provider.host().unwrap_or_default(),
                reason: "it answered fewer candidates than were asked for".to_owned(),
            })
        });
        let end_time_ms = (self.clock)();
        self.finish(cell, &request, &answers, start_time_ms, end_time_ms)
    }

    fn finish(
        &self,
        cell: &Cell<'_>,
        request: &Request,
        answers: &[assize_providers::Result<Completion>],
        start_time_ms: i64,
        end_time_ms: i64,
    ) -> GeneratedCell {
        let context = cell.scenario.judge_context();
        let scorer = Scorer::new(&self.task.rubric, &self.task.checks, &context);
        let mut candidates = Vec::with_capacity(answers.len());
        let mut raw = String::new();
        for ((index, answer), asked) in (0_u32..).zip(answers).zip(&request.candidates) {
            candidates.push(self.candidate(index, asked.seed, answer, &scorer));
            let text = answer
                .as_ref()
                .map_or_else(|error| format!("[failed: {error}]"), |it| it.text.clone());
            let _ = writeln!(
                raw,
                "--- candidate {index}, seed {} ---\n{text}",
                asked.seed
            );
        }
        let failures = answers.iter().filter_map(|answer| answer.as_ref().err());
        let failed_candidates = failures.clone().count();
        let failed = failed_candidates == answers.len();
        let error = failures
            .clone()
            .next()
            .filter(|_| failed)
            .map(ToString::to_string);
        let done: Vec<&Completion> = answers
            .iter()
            .filter_map(|answer| answer.as_ref().ok())
            .collect();
        let scenario = &cell.scenario.id;
        let mut record = CellRecord {
            cell_key: cell.key.clone(),
            name: format!("{} × {} × {scenario}", self.model_id, cell.variant.label),
            status: if failed {
                RunStatus::Failed
            } else {
                RunStatus::Finished
            },
            start_time_ms,
            end_time_ms,
            params: self.params(cell),
            tags: self.tags(cell, error.as_deref(), &done),
            metrics: self
                .metrics(&done, failed_candidates, &candidates)
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .collect(),
            artifacts: self.artifacts(cell, &context, &candidates, raw),
        };
        if let Some(file) = computed::verdict_file(
            &self.task.rubric,
            &candidates,
            &Now::at(end_time_ms).rfc3339,
        ) {
            add_verdicts(&mut record, &file, self.task);
        }
        GeneratedCell {
            record,
            prompt: cell.variant.label.clone(),
            scenario: scenario.clone(),
            error,
            host_fault: HostFault::of(answers),
            denied: failed && failures.clone().all(ProviderError::is_denied),
            failed_candidates: failed_candidates as u64,
            unscored: unscored(&candidates),
            completion_tokens: done.iter().map(|it| it.completion_tokens).sum(),
        }
    }

    fn artifacts(
        &self,
        cell: &Cell<'_>,
        context: &Value,
        candidates: &[Candidate],
        raw: String,
    ) -> Vec<(Cow<'static, str>, Arc<str>)> {
        let candidates = serde_json::to_string(candidates).unwrap_or_default();
        vec![
            (artifact::PROMPT.into(), prompt_text(&cell.rendered)),
            (artifact::CONTEXT.into(), context.to_string().into()),
            (artifact::CANDIDATES.into(), candidates.into()),
            (artifact::RAW.into(), raw.into()),
            (artifact::RUBRIC.into(), Arc::clone(&self.rubric_text)),
        ]
    }

    fn candidate(
        &self,
        index: u32,
        seed: u32,
        answer: &assize_providers::Result<Completion>,
        scorer: &Scorer<'_>,
    ) -> Candidate {
        let angle = self
            .options
            .values
            .diversity
            .then(|| self.grid.angle(index).to_owned());
        match answer {
            Ok(completion) => {
                let parsed = self.output.parse(&completion.text);
                let mut computed = scorer.score(&parsed.text, &|rule, input| {
                    run_command(rule, input, self.task_source, &RUN_TO_THE_END)
                });
                let fits = parsed.problem.is_none();
                let output = &self.task.output;
                output.set_flags(&mut computed.flags, fits, parsed.fenced);
                Candidate {
                    index,
                    seed,
                    thinking_tokens: thinking_tokens(completion),
                    text: Some(parsed.text),
                    flags: computed.flags,
                    scores: computed.scores,
                    not_computed: computed.not_computed,
                    reasons: computed.reasons,
                    problem: parsed.problem,
                    error: None,
                    angle,
                    truncated: completion.truncated,
                    prompt_tokens: completion.prompt_tokens,
                    completion_tokens: completion.completion_tokens,
                    latency_ms: completion.latency_ms,
                    batch: completion.batch,
                }
            }
            Err(error) => Candidate {
                index,
                seed,
                thinking_tokens: 0,
                text: None,
                flags: BTreeMap::new(),
                scores: BTreeMap::new(),
                not_computed: Vec::new(),
                reasons: Vec::new(),
                problem: None,
                error: Some(error.to_string()),
                angle,
                truncated: false,
                prompt_tokens: 0,
                completion_tokens: 0,
                latency_ms: 0.0,
                batch: 0.0,
            },
        }
    }

    fn params(&self, cell: &Cell<'_>) -> Vec<(Arc<str>, Arc<str>)> {
        let own = [
            (param::MODEL, Arc::clone(&self.model_id)),
            (param::PROMPT, cell.variant.prompt.name.as_str().into()),
            (param::SCENARIO, cell.scenario.id.as_str().into()),
        ];
        let mut params = self.by_variant[cell.variant.place].0.clone();
        params.extend(own.into_iter().map(|(key, value)| (key.into(), value)));
        // A scenario's field never replaces a parameter of Assize.
        for (key, value) in cell.scenario.scalars() {
            if !params.iter().any(|(known, _)| &**known == key) {
                params.push((key.into(), value.into()));
            }
        }
        params
    }

    fn tags(
        &self,
        cell: &Cell<'_>,
        error: Option<&str>,
        done: &[&Completion],
    ) -> Vec<(Arc<str>, Arc<str>)> {
        let mut tags = self.shared_tags.clone();
        let own = [
            (tag::CELL_KEY, cell.key.as_str()),
            (tag::PROMPT_SHA256, &cell.variant.prompt.sha256),
            (tag::SCENARIO_SHA256, &cell.scenario.sha256),
        ];
        tags.extend(
            own.into_iter()
                .map(|(key, value)| (key.into(), value.into())),
        );
        let settings = Arc::clone(&self.by_variant[cell.variant.place].1);
        tags.push((tag::SETTINGS.into(), settings));
        let kept = done.iter().filter(|it| it.from_cache).count();
        if kept > 0 {
            let text = format!("{kept} of {}", done.len());
            tags.push((tag::FROM_CACHE.into(), text.into()));
        }
        // A failed cell has nothing to judge: it waits for the next collect, not for a judge.
        let state = match error {
            Some(error) => vec![
                (tag::ERROR, error),
                (tag::JUDGE_PENDING, "false"),
                (tag::AUTO_PENDING, "false"),
            ],
            None => vec![(tag::JUDGE_PENDING, "true"), (tag::AUTO_PENDING, "true")],
        };
        tags.extend(
            state
                .into_iter()
                .map(|(key, value)| (key.into(), value.into())),
        );
        tags
    }

    fn metrics(
        &self,
        done: &[&Completion],
        failed: usize,
        candidates: &[Candidate],
    ) -> Vec<(&'static str, f64)> {
        let count = done.len() as f64;
        let mut metrics = vec![
            (metric::N_CANDIDATES, count),
            (metric::N_FAILED, failed as f64),
        ];
        if done.is_empty() {
            return metrics;
        }
        let sum = |value: fn(&Completion) -> f64| done.iter().map(|it| value(it)).sum::<f64>();
        let latency_ms = sum(|it| it.latency_ms);
        let completion_tokens = sum(|it| it.completion_tokens as f64);
        metrics.extend([
            (metric::LATENCY_MS, latency_ms / count),
            (metric::LOAD_MS, sum(|it| it.load_ms)),
            (metric::PROMPT_TOKENS, sum(|it| it.prompt_tokens as f64)),
            (metric::COMPLETION_TOKENS, completion_tokens),
        ]);
        let thinking_tokens = sum(|it| thinking_tokens(it) as f64);
        if thinking_tokens > 0.0 {
            metrics.push((metric::THINKING_TOKENS, thinking_tokens));
        }
        // Of the engine: what is in a batch shares its time.
        let busy_ms = sum(Completion::share_ms);
        if busy_ms > 0.0 {
            metrics.push((metric::TOKENS_PER_S, completion_tokens / (busy_ms / 1000.0)));
        }
        let batch = sum(|it| it.batch) / count;
        if batch > 0.0 {
            metrics.push((metric::BATCH_SIZE, batch));
        }
        if done.iter().any(|it| it.cost_usd.is_some()) {
            let cost = sum(|it| it.cost_usd.unwrap_or(0.0));
            metrics.push((metric::COST_USD, cost));
            metrics.push((metric::GENERATION_COST_USD, cost));
        }
        if self.options.values.diversity {
            let texts = candidates.iter().filter_map(|it| it.text.as_deref());
            metrics.extend(candidate::diversity(texts).map(|value| (metric::DIVERSITY, value)));
        }
        metrics
    }
}

/// Judges a run as it is recorded: its verdicts, and the metrics and tags that follow from them.
fn add_verdicts(record: &mut CellRecord, file: &VerdictFile, task: &Task) {
    let Ok(text) = serde_json::to_string(file) else {
        return;
    };
    let path = format!("{}{}.json", artifact::VERDICTS, file.sitting);
    record.artifacts.push((path.into(), text.into()));
    let files = std::slice::from_ref(file);
    let Summary { metrics, tags } = summarise(files, &task.rubric, file.verdicts.len());
    let metrics = metrics
        .into_iter()
        .map(|(name, value)| (name.into(), value));
    record.metrics.extend(metrics);
    for (key, value) in tags {
        record.tags.retain(|(known, _)| **known != *key);
        record.tags.push((key.into(), value.into()));
    }
}

/// The tokens of thoughts: as they were reported, else by their share of the raw output.
fn thinking_tokens(completion: &Completion) -> u64 {
    if completion.thinking_tokens > 0 {
        return completion.thinking_tokens;
    }
    let all = completion.text.chars().count();
    let kept = cut_thinking(&completion.text).chars().count();
    if all == kept {
        return 0;
    }
    share_of(
        completion.completion_tokens,
        (all - kept) as f64 / all as f64,
    )
}

/// How many candidates lack a computed score, and why the first of them does.
fn unscored(candidates: &[Candidate]) -> Option<(u64, String)> {
    let mut lacking = candidates.iter().filter(|it| !it.not_computed.is_empty());
    let first = lacking.next()?;
    let mut reasons = first.reasons.iter();
    let reason = reasons.find(|it| it.contains("not computed"));
    Some((
        1 + lacking.count() as u64,
        reason.cloned().unwrap_or_default(),
    ))
}

fn prompt_text(rendered: &[Arc<Rendered>]) -> Arc<str> {
    match rendered {
        [one] => one.as_text().into(),
        many => {
            let mut text = String::new();
            for (index, it) in many.iter().enumerate() {
                let _ = writeln!(text, "--- candidate {index} ---\n{}", it.as_text());
            }
            text.into()
        }
    }
}
