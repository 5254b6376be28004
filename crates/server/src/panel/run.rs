//! One run: what was asked, what came back, and what every judge said about it.

use askama::Template;
use assize_domain::candidate::Candidate;
use assize_domain::run::{artifact, metric, param, tag};
use assize_domain::verdict::{VerdictFile, as_number};
use assize_report::figure;
use assize_store::{Run, Tracking as _};
use axum::extract::{Path, State};

use super::experiment::runs::{state, value};
use super::page::{Frame, PageError, Paged, Visit, blocking, show};
use super::when::When;
use crate::App;

/// Larger texts are shown in part.
const LONGEST: usize = 60_000;

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
    started: When,
    timings: Vec<(&'static str, String)>,
    composite: String,
    prompt: Option<String>,
    context: Vec<(String, String)>,
    candidates: Vec<Shown>,
    raw: Option<String>,
}

/// A candidate with all verdicts on it.
struct Shown {
    number: u32,
    text: Option<String>,
    error: Option<String>,
    problem: Option<String>,
    facts: String,
    verdicts: Vec<Said>,
}

struct Said {
    judge: String,
    tier: &'static str,
    composite: String,
    scores: Vec<(String, String)>,
    reason: String,
    at: When,
    counts: bool,
}

/// Everything that is read of a run.
pub(crate) struct Whole {
    pub run: Run,
    pub candidates: Vec<Candidate>,
    pub files: Vec<VerdictFile>,
    pub prompt: Option<String>,
    pub context: Option<String>,
    pub raw: Option<String>,
}

pub(crate) fn read(app: &App, run_id: &str) -> Result<Whole, PageError> {
    let run = app.store.run_get(run_id)?;
    let id = run.run_id.clone();
    let text = |path: &str| app.store.artifact_get(&id, path);
    let candidates = text(artifact::CANDIDATES)?.unwrap_or_else(|| "[]".to_owned());
    let candidates = serde_json::from_str(&candidates).map_err(|error| {
        PageError::internal(format!(
            "candidates.json of run {id} cannot be read: {error}"
        ))
    })?;
    Ok(Whole {
        candidates,
        files: app.store.verdicts_get(&id)?,
        prompt: text(artifact::PROMPT)?.map(cut),
        context: text(artifact::CONTEXT)?,
        raw: text(artifact::RAW)?.map(cut),
        run,
    })
}

fn cut(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… (cut)", &text[..end]),
        None => text,
    }
}

pub(crate) async fn page(
    State(app): State<App>,
    Path(run_id): Path<String>,
    visit: Visit,
) -> Paged {
    let whole = blocking(&app, move |app| read(app, &run_id)).await?;
    let run = &whole.run;
    let number = |key: &str| metric_of(run, key);
    let rubric = value(&run.tags, tag::RUBRIC_SHA256).to_owned();
    let aside = value(&run.tags, tag::SET_ASIDE).to_owned();
    let said = |candidate: u32| said(&whole.files, candidate, &rubric, &aside, visit.now_ms);
    show(&RunPage {
        frame: Frame::new("experiments", &visit),
        state: state(run),
        error: value(&run.tags, tag::ERROR).to_owned(),
        model: value(&run.params, param::MODEL).to_owned(),
        prompt_name: value(&run.params, param::PROMPT).to_owned(),
        scenario: value(&run.params, param::SCENARIO).to_owned(),
        started: When::of_ms(run.start_time_ms, visit.now_ms),
        timings: timings(run),
        composite: figure::optional(number(metric::COMPOSITE), figure::plain),
        context: context(whole.context.as_deref().unwrap_or("{}")),
        candidates: whole
            .candidates
            .iter()
            .map(|it| shown(it, said(it.index)))
            .collect(),
        prompt: whole.prompt,
        raw: whole.raw,
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
        ("tokens a second", metric::TOKENS_PER_S, figure::speed),
        ("prompt tokens", metric::PROMPT_TOKENS, count),
        ("completion tokens", metric::COMPLETION_TOKENS, count),
    ];
    known
        .into_iter()
        .filter_map(|(name, key, write)| Some((name, write(metric_of(run, key)?))))
        .collect()
}

/// The context as lines: one a field where it is an object.
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

fn shown(candidate: &Candidate, verdicts: Vec<Said>) -> Shown {
    let mut facts: Vec<String> = Vec::new();
    for (name, set) in &candidate.flags {
        facts.push(format!("{name} {}", if *set { "yes" } else { "no" }));
    }
    if candidate.truncated {
        facts.push("cut at max_tokens".to_owned());
    }
    if candidate.latency_ms > 0.0 {
        facts.push(figure::latency(candidate.latency_ms));
    }
    if candidate.completion_tokens > 0 {
        facts.push(format!("{} tokens", candidate.completion_tokens));
    }
    facts.push(format!("seed {}", candidate.seed));
    Shown {
        number: candidate.index + 1,
        text: candidate.text.clone(),
        error: candidate.error.clone(),
        problem: candidate.problem.clone(),
        facts: facts.join(" · "),
        verdicts,
    }
}

/// Every verdict on a candidate, latest first.
fn said(
    files: &[VerdictFile],
    candidate: u32,
    rubric_sha256: &str,
    aside: &str,
    now_ms: i64,
) -> Vec<Said> {
    let mut files: Vec<&VerdictFile> = files.iter().collect();
    files.sort_by(|a, b| b.judged_at.cmp(&a.judged_at));
    let mut all = Vec::new();
    for file in files {
        let is_aside = aside.split_whitespace().any(|id| id == file.sitting);
        let counts = !is_aside && file.rubric.sha256 == rubric_sha256;
        for verdict in file.verdicts.iter().filter(|it| it.candidate == candidate) {
            let score = |(name, value): (&String, &serde_json::Value)| {
                let text = match value {
                    serde_json::Value::Bool(set) => if *set { "yes" } else { "no" }.to_owned(),
                    other => as_number(other).map_or_else(String::new, |it| format!("{it}")),
                };
                (name.clone(), text)
            };
            let mut scores: Vec<_> = verdict.scores.iter().collect();
            // Criteria, then flags.
            scores.sort_by_key(|(_, value)| value.is_boolean());
            all.push(Said {
                judge: if file.judge.name == file.judge.kind {
                    file.judge.name.clone()
                } else {
                    format!("{} ({})", file.judge.name, file.judge.kind)
                },
                tier: file.tier.as_str(),
                composite: figure::plain(verdict.composite),
                scores: scores.into_iter().map(score).collect(),
                reason: verdict.rationale.clone().unwrap_or_default(),
                at: When::of_text(&file.judged_at, now_ms),
                counts,
            });
        }
    }
    all
}
