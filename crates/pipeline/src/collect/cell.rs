//! One cell: ask for its candidates, check them, and make the record that is tracked.

use std::fmt::Write as _;
use std::sync::Arc;

use assize_domain::candidate::{self, Candidate};
use assize_domain::cell::candidate_seed;
use assize_domain::output::Parsed;
use assize_domain::prompt::Rendered;
use assize_domain::run::{ADAPTIVE_SETTING, CellRecord, RunStatus, artifact, metric, param, tag};
use assize_domain::task::Task;
use assize_providers::{Completion, Message, Provider, ProviderError, Request, Role, Sampling};

use super::grid::{Cell, Grid};
use super::{CollectOptions, Collection};
use crate::size_gate::SizedModel;

/// Generates the cells of one model. It holds what they share: most params, tags and texts.
#[derive(Debug)]
pub struct CellGenerator<'a> {
    task: &'a Task,
    options: &'a CollectOptions,
    grid: &'a Grid<'a>,
    model: &'a SizedModel,
    model_id: Arc<str>,
    clock: crate::Clock,
    shared_params: Vec<(Arc<str>, Arc<str>)>,
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
    pub host_down: bool,
    pub failed_candidates: u64,
    pub completion_tokens: u64,
}

impl<'a> CellGenerator<'a> {
    pub fn new(collection: &Collection<'a>, grid: &'a Grid<'a>, model: &'a SizedModel) -> Self {
        let (task, options) = (collection.task, collection.options);
        let tags = [
            (tag::JUDGE_KIND, options.values.judge_kind.as_str()),
            (tag::RUBRIC, &task.rubric.id),
            (tag::RUBRIC_SHA256, &task.rubric.sha256),
            (tag::TASK_SHA256, &task.sha256),
            (tag::TASK_SOURCE, collection.task_source),
            (tag::MODEL_DIGEST, &model.info.digest),
            (tag::SETTINGS, &settings_words(options)),
            (tag::ASSIZE_VERSION, collection.version),
            (tag::PROVENANCE, &model.info.provenance),
        ];
        Self {
            task,
            options,
            grid,
            model,
            model_id: model.id.to_string().into(),
            clock: collection.clock,
            shared_params: option_params(task, options),
            shared_tags: tags
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            rubric_text: task.rubric.text.as_str().into(),
        }
    }

    /// Generates a cell's candidates.
    pub fn generate(&self, provider: &dyn Provider, cell: &Cell<'_>) -> GeneratedCell {
        let start_time_ms = (self.clock)();
        let request = self.request(cell);
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

    fn request(&self, cell: &Cell<'_>) -> Request {
        let candidates = (0..self.options.values.n_tips)
            .map(|index| assize_providers::Candidate {
                messages: messages(&cell.rendered[index as usize % cell.rendered.len()]),
                seed: candidate_seed(self.options.values.seed, &cell.key, index),
            })
            .collect();
        Request {
            prompt: cell.prompt.name.clone(),
            scenario: cell.scenario.id.clone(),
            candidates,
            sampling: Sampling {
                temperature: self.options.values.temperature,
                max_tokens: self.options.values.max_tokens,
                num_ctx: self.options.values.num_ctx,
                json_schema: self.task.output.schema.clone(),
            },
        }
    }

    fn finish(
        &self,
        cell: &Cell<'_>,
        request: &Request,
        answers: &[assize_providers::Result<Completion>],
        start_time_ms: i64,
        end_time_ms: i64,
    ) -> GeneratedCell {
        let mut candidates = Vec::with_capacity(answers.len());
        let mut raw = String::new();
        for ((index, answer), asked) in (0_u32..).zip(answers).zip(&request.candidates) {
            candidates.push(self.candidate(index, asked.seed, answer));
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
        let host_down = failed && failures.clone().all(ProviderError::is_host_down);
        let done: Vec<&Completion> = answers
            .iter()
            .filter_map(|answer| answer.as_ref().ok())
            .collect();
        let scenario = &cell.scenario.id;
        let record = CellRecord {
            cell_key: cell.key.clone(),
            name: format!("{} × {} × {scenario}", self.model_id, cell.prompt.name),
            status: if failed {
                RunStatus::Failed
            } else {
                RunStatus::Finished
            },
            start_time_ms,
            end_time_ms,
            params: self.params(cell),
            tags: self.tags(cell, error.as_deref()),
            metrics: self
                .metrics(&done, failed_candidates, &candidates)
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .collect(),
            artifacts: vec![
                (artifact::PROMPT.into(), prompt_text(&cell.rendered)),
                (
                    artifact::CONTEXT.into(),
                    cell.scenario.judge_context().to_string().into(),
                ),
                (
                    artifact::CANDIDATES.into(),
                    serde_json::to_string(&candidates)
                        .unwrap_or_default()
                        .into(),
                ),
                (artifact::RAW.into(), raw.into()),
                (artifact::RUBRIC.into(), Arc::clone(&self.rubric_text)),
            ],
        };
        GeneratedCell {
            record,
            prompt: cell.prompt.name.clone(),
            scenario: scenario.clone(),
            error,
            host_down,
            failed_candidates: failed_candidates as u64,
            completion_tokens: done.iter().map(|it| it.completion_tokens).sum(),
        }
    }

    fn candidate(
        &self,
        index: u32,
        seed: u32,
        answer: &assize_providers::Result<Completion>,
    ) -> Candidate {
        let angle = self
            .options
            .values
            .diversity
            .then(|| self.grid.angle(index).to_owned());
        match answer {
            Ok(completion) => {
                let Parsed { text, problem } = self.task.output.parse(&completion.text);
                let mut flags = self.task.checks.flags(&text);
                if let Some(flag) = self.task.output.flag.as_ref().filter(|_| problem.is_some()) {
                    flags.insert(flag.clone(), false);
                }
                Candidate {
                    index,
                    seed,
                    text: Some(text),
                    flags,
                    problem,
                    error: None,
                    angle,
                    truncated: completion.truncated,
                    prompt_tokens: completion.prompt_tokens,
                    completion_tokens: completion.completion_tokens,
                    latency_ms: completion.latency_ms,
                }
            }
            Err(error) => Candidate {
                index,
                seed,
                text: None,
                flags: std::collections::BTreeMap::new(),
                problem: None,
                error: Some(error.to_string()),
                angle,
                truncated: false,
                prompt_tokens: 0,
                completion_tokens: 0,
                latency_ms: 0.0,
            },
        }
    }

    fn params(&self, cell: &Cell<'_>) -> Vec<(Arc<str>, Arc<str>)> {
        let own = [
            (param::MODEL, Arc::clone(&self.model_id)),
            (param::PROMPT, cell.prompt.name.as_str().into()),
            (param::SCENARIO, cell.scenario.id.as_str().into()),
        ];
        let mut params = self.shared_params.clone();
        params.extend(own.into_iter().map(|(key, value)| (key.into(), value)));
        // A scenario's field never replaces a parameter of Assize.
        for (key, value) in cell.scenario.scalars() {
            if !params.iter().any(|(known, _)| &**known == key) {
                params.push((key.into(), value.into()));
            }
        }
        params
    }

    fn tags(&self, cell: &Cell<'_>, error: Option<&str>) -> Vec<(Arc<str>, Arc<str>)> {
        let mut tags = self.shared_tags.clone();
        let own = [
            (tag::CELL_KEY, cell.key.as_str()),
            (tag::PROMPT_SHA256, &cell.prompt.sha256),
            (tag::SCENARIO_SHA256, &cell.scenario.sha256),
        ];
        tags.extend(
            own.into_iter()
                .map(|(key, value)| (key.into(), value.into())),
        );
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
        if latency_ms > 0.0 {
            metrics.push((
                metric::TOKENS_PER_S,
                completion_tokens / (latency_ms / 1000.0),
            ));
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

/// Options that change the output, as boards name them where runs differ.
fn settings_words(options: &CollectOptions) -> String {
    let (always, changed) = options.values.identity();
    let words = always.into_iter().chain(changed);
    let words: Vec<String> = words.map(|(key, text)| format!("{key} {text}")).collect();
    let adaptive = if options.adaptive {
        ADAPTIVE_SETTING
    } else {
        ""
    };
    format!("{}{adaptive}", words.join(", "))
}

fn messages(rendered: &Rendered) -> Vec<Message> {
    let system = rendered.system.iter().map(|content| Message {
        role: Role::System,
        content: content.clone(),
    });
    let user = Message {
        role: Role::User,
        content: rendered.user.clone(),
    };
    system.chain([user]).collect()
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

fn option_params(task: &Task, options: &CollectOptions) -> Vec<(Arc<str>, Arc<str>)> {
    let mut params: Vec<(Arc<str>, Arc<str>)> = vec![
        (param::TASK.into(), task.name.as_str().into()),
        ("adaptive".into(), options.adaptive.to_string().into()),
    ];
    let recorded = options.params.iter();
    params.extend(recorded.map(|(key, value)| (key.as_str().into(), value.as_str().into())));
    params
}
