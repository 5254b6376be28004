//! The page of one run: its prompt, its candidates and all verdicts.

use askama::Template;
use assize_domain::candidate::Candidate;
use assize_domain::ledger::Via;
use assize_domain::rubric::Rubric;
use assize_domain::run::{artifact, metric, param, tag};
use assize_domain::verdict::VerdictFile;
use assize_pipeline::ledger::Author;
use assize_pipeline::seal::{RunSeal, split_of};
use assize_report::figure;
use assize_store::Run;
use axum::extract::State;

use super::experiment::runs::{composite, state, value};
use super::fields::Path;
use super::page::{Frame, PageError, PageResult, Visit, blocking, show};
use super::relative_time::RelativeTime;
use crate::App;
use crate::unsealing::author;

mod verdicts;

use verdicts::{VerdictRow, Verdicts};

/// Longer texts are truncated; in characters.
const MAX_TEXT_LENGTH: usize = 60_000;

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage {
    frame: Frame,
    run: Run,
    state: &'static str,
    error: String,
    model: String,
    prompt_name: String,
    scenario: String,
    split: String,
    is_sealed: bool,
    started: RelativeTime,
    timings: Vec<(&'static str, String)>,
    composite: String,
    prompt: Option<String>,
    context: Vec<(String, String)>,
    /// The names of the scores.
    heads: Vec<String>,
    candidates: Vec<CandidateView>,
    raw: Option<String>,
}

/// A candidate with all verdicts on it.
struct CandidateView {
    /// From 0, as in commands and JSON.
    number: u32,
    text: Option<String>,
    error: Option<String>,
    /// Why the output does not fit the contract and the rules.
    faults: Vec<String>,
    facts: String,
    verdicts: Vec<VerdictRow>,
}

/// A run with its artifacts and verdicts.
pub(crate) struct RunDetails {
    pub run: Run,
    pub candidates: Vec<Candidate>,
    pub files: Vec<VerdictFile>,
    pub prompt: Option<String>,
    pub context: Option<String>,
    pub raw: Option<String>,
    pub rubric: Option<Rubric>,
    /// Whether scores and verdicts are left out, because the confirmation split is sealed.
    pub is_sealed: bool,
}

/// Reads a run. Sealed scores are read only for an author, whose look is recorded.
pub(crate) fn read(
    app: &App,
    run_id: &str,
    unseal: Option<&Author>,
) -> Result<RunDetails, PageError> {
    let mut run = app.tracking.run_get(run_id)?;
    let is_sealed = RunSeal::new(app.tracking.as_ref(), unseal).apply(&mut run)?;
    let id = run.run_id.clone();
    let text = |path: &str| app.tracking.artifact_get(&id, path);
    let candidates = text(artifact::CANDIDATES)?.unwrap_or_else(|| "[]".to_owned());
    let mut candidates: Vec<Candidate> = serde_json::from_str(&candidates).map_err(|error| {
        PageError::internal(format!(
            "candidates.json of run {id} cannot be read: {error}"
        ))
    })?;
    if is_sealed {
        candidates.iter_mut().for_each(Candidate::hide_computed);
    }
    let rubric = text(artifact::RUBRIC)?;
    Ok(RunDetails {
        candidates,
        rubric: rubric.and_then(|it| Rubric::parse(artifact::RUBRIC, &it).ok()),
        files: if is_sealed {
            Vec::new()
        } else {
            app.tracking.verdicts_get(&id)?
        },
        prompt: text(artifact::PROMPT)?.map(truncate),
        context: text(artifact::CONTEXT)?,
        raw: text(artifact::RAW)?.map(truncate),
        is_sealed,
        run,
    })
}

fn truncate(text: String) -> String {
    match text.char_indices().nth(MAX_TEXT_LENGTH) {
        Some((end, _)) => format!("{}… (truncated)", &text[..end]),
        None => text,
    }
}

pub(crate) async fn page(State(app): State<App>, Path(run_id): Path, visit: Visit) -> PageResult {
    let whole = blocking(&app, move |app| read(app, &run_id, None)).await?;
    render(&whole, &visit)
}

/// Records a look, and shows the run.
pub(crate) async fn unseal(State(app): State<App>, Path(run_id): Path, visit: Visit) -> PageResult {
    let by = visit.name.clone();
    let whole = blocking(&app, move |app| {
        read(app, &run_id, Some(&author(app, &by, Via::Panel)))
    })
    .await?;
    render(&whole, &visit)
}

fn render(whole: &RunDetails, visit: &Visit) -> PageResult {
    let run = &whole.run;
    let verdicts = Verdicts::new(
        &whole.files,
        whole.rubric.as_ref(),
        value(&run.tags, tag::RUBRIC_SHA256),
        value(&run.tags, tag::SET_ASIDE),
    );
    show(&RunPage {
        frame: Frame::new("experiments", visit),
        state: state(run),
        error: value(&run.tags, tag::ERROR).to_owned(),
        model: value(&run.params, param::MODEL).to_owned(),
        prompt_name: value(&run.params, param::PROMPT).to_owned(),
        scenario: value(&run.params, param::SCENARIO).to_owned(),
        split: split_of(run).to_owned(),
        is_sealed: whole.is_sealed,
        started: RelativeTime::of_ms(run.start_time_ms, visit.now_ms),
        timings: timings(run),
        composite: composite(run, whole.is_sealed),
        context: context(whole.context.as_deref().unwrap_or("{}")),
        candidates: whole
            .candidates
            .iter()
            .map(|it| candidate_view(it, verdicts.on(it.index, visit.now_ms)))
            .collect(),
        heads: verdicts.heads,
        prompt: whole.prompt.clone(),
        raw: whole.raw.clone(),
        run: whole.run.clone(),
    })
}

fn metric_of(run: &Run, key: &str) -> Option<f64> {
    let found = run.metrics.iter().find(|(name, _)| name == key);
    found.map(|(_, value)| *value)
}

fn timings(run: &Run) -> Vec<(&'static str, String)> {
    let count = |value: f64| format!("{value:.0}");
    let known = [
        (
            "latency",
            metric::LATENCY_MS,
            figure::latency as fn(f64) -> _,
        ),
        ("loading", metric::LOAD_MS, figure::latency),
        ("tokens per second", metric::TOKENS_PER_S, figure::speed),
        ("candidates in a batch", metric::BATCH_SIZE, count),
        ("prompt tokens", metric::PROMPT_TOKENS, count),
        ("completion tokens", metric::COMPLETION_TOKENS, count),
        ("thinking tokens", metric::THINKING_TOKENS, count),
    ];
    known
        .into_iter()
        .filter_map(|(name, key, write)| Some((name, write(metric_of(run, key)?))))
        .collect()
}

/// The context as names and values: one entry per field of an object.
pub(crate) fn context(text: &str) -> Vec<(String, String)> {
    use serde_json::Value;
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(list) if list.iter().all(Value::is_string) => {
            let lines = list.iter().filter_map(Value::as_str);
            lines
                .map(|it| format!("• {it}"))
                .collect::<Vec<_>>()
                .join("\n")
        }
        Value::Array(_) | Value::Object(_) => {
            serde_json::to_string_pretty(value).unwrap_or_default()
        }
        other => other.to_string(),
    };
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => fields
            .iter()
            .map(|(name, value)| (name.clone(), plain(value)))
            .collect(),
        Ok(other) => vec![("context".to_owned(), plain(&other))],
        Err(_) => vec![("context".to_owned(), text.to_owned())],
    }
}

fn candidate_view(candidate: &Candidate, verdicts: Vec<VerdictRow>) -> CandidateView {
    let mut facts: Vec<String> = Vec::new();
    for (name, set) in &candidate.flags {
        facts.push(format!("{name} {}", if *set { "yes" } else { "no" }));
    }
    if candidate.truncated {
        facts.push("truncated at max_tokens".to_owned());
    }
    if candidate.latency_ms > 0.0 {
        let latency = figure::latency(candidate.latency_ms);
        facts.push(if candidate.batch >= 1.5 {
            format!("{latency} in a batch of {:.0}", candidate.batch)
        } else {
            latency
        });
    }
    if candidate.completion_tokens > 0 {
        facts.push(format!("{} tokens", candidate.completion_tokens));
    }
    facts.push(format!("seed {}", candidate.seed));
    CandidateView {
        number: candidate.index,
        text: candidate.text.clone(),
        error: candidate.error.clone(),
        faults: candidate.faults().map(str::to_owned).collect(),
        facts: facts.join(" · "),
        verdicts,
    }
}
