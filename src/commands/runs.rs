//! `assize runs`: list, show, export and delete runs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use assize_domain::candidate::Candidate;
use assize_domain::judge::Tier;
use assize_domain::run::{artifact, param, tag};
use assize_domain::verdict::effective;
use assize_pipeline::PipelineError;
use assize_pipeline::ledger::Author;
use assize_pipeline::seal::{self, RunSeal, split_of};
use assize_store::{Run, RunQuery, Tracking};
use serde_json::{Value, json};

use crate::Exit;
use crate::cli::{RunFilter, Runs};
use crate::output::text_table::{Align, render};
use crate::session::Session;

mod show;

pub fn run(session: &Session, args: &Runs) -> anyhow::Result<Exit> {
    let store = session.store(true)?;
    match args {
        Runs::List { filter, limit } => list(session, store.as_ref(), filter, *limit),
        Runs::Show { run, unseal } => show::run(
            session,
            store.as_ref(),
            run,
            author(session, *unseal).as_ref(),
        ),
        Runs::Delete { runs } => {
            // Every id is looked up first: a typing mistake deletes nothing.
            let ids = runs
                .iter()
                .map(|id| Ok(store.run_get(id)?.run_id))
                .collect::<anyhow::Result<Vec<_>>>()?;
            store.run_delete(&ids)?;
            session.output.say(&format!(
                "{} runs deleted; their cells can be collected again.",
                ids.len()
            ));
            Ok(Exit::Done)
        }
        Runs::Export { filter, output } => {
            export(session, store.as_ref(), filter, output.as_deref())
        }
    }
}

/// Who unseals scores; `None` if nobody does.
fn author(session: &Session, unseal: bool) -> Option<Author> {
    unseal.then(|| session.author())
}

fn query(filter: &RunFilter, max_results: u32, page_token: Option<String>) -> RunQuery {
    RunQuery {
        model: filter.model.clone(),
        prompt: filter.prompt.clone(),
        scenario: filter.scenario.clone(),
        split: filter.split,
        pending: filter.pending.then_some(true),
        max_results,
        page_token,
        ..RunQuery::default()
    }
}

fn value<'a>(pairs: &'a [(String, String)], key: &str) -> &'a str {
    pairs
        .iter()
        .find(|(known, _)| known == key)
        .map_or("", |(_, value)| value)
}

fn metric(run: &Run, key: &str) -> Option<f64> {
    run.metrics
        .iter()
        .find(|(known, _)| known == key)
        .map(|(_, value)| *value)
}

fn list(
    session: &Session,
    store: &dyn Tracking,
    filter: &RunFilter,
    limit: u32,
) -> anyhow::Result<Exit> {
    let mut page = store.run_list(&filter.experiment, &query(filter, limit, None))?;
    let author = author(session, filter.unseal);
    let mut seal = RunSeal::new(store, author.as_ref());
    let mut sealed = Vec::with_capacity(page.runs.len());
    for run in &mut page.runs {
        sealed.push(seal.apply(run)?);
    }
    let runs = || page.runs.iter().zip(&sealed);
    if session.output.json {
        let runs: Vec<Value> = runs().map(|(run, sealed)| run_json(run, *sealed)).collect();
        session
            .output
            .json_pretty(&json!({"runs": runs, "next_page_token": page.next_page_token}))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = runs()
        .map(|(run, sealed)| {
            let state = match (run.status, value(&run.tags, tag::JUDGE_PENDING)) {
                (assize_domain::run::RunStatus::Failed, _) => "failed",
                (_, "true") => "pending",
                _ => "judged",
            };
            vec![
                run.run_id.get(..8).unwrap_or(&run.run_id).to_owned(),
                value(&run.params, param::MODEL).to_owned(),
                value(&run.params, param::PROMPT).to_owned(),
                value(&run.params, param::SCENARIO).to_owned(),
                split_of(run).to_owned(),
                state.to_owned(),
                match metric(run, "composite") {
                    Some(it) => format!("{it:.2}"),
                    None if *sealed => seal::SEALED.to_owned(),
                    None => String::new(),
                },
            ]
        })
        .collect();
    let headings = [
        ("run", Align::Left),
        ("model", Align::Left),
        ("prompt", Align::Left),
        ("scenario", Align::Left),
        ("split", Align::Left),
        ("state", Align::Left),
        ("composite", Align::Right),
    ];
    session
        .output
        .data(&render(&headings, &rows, session.output.width))?;
    if page.next_page_token.is_some() {
        session
            .output
            .say(&format!("  the first {limit}; --limit shows more"));
    }
    if sealed.contains(&true) {
        session.output.say(SEAL_NOTE);
    }
    Ok(Exit::Done)
}

const SEAL_NOTE: &str = "  Scores of the confirmation split are sealed until a candidate is nominated; \
     --unseal shows them, and the ledger records the look.";

/// A run as programs read it. `sealed` says that its scores were left out.
fn run_json(run: &Run, sealed: bool) -> Value {
    let object = |pairs: &[(String, String)]| -> Value {
        pairs
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let metrics: serde_json::Map<_, _> = run
        .metrics
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    json!({
        "run_id": run.run_id, "experiment": run.experiment, "name": run.name, "status": run.status,
        "start_time": run.start_time_ms, "end_time": run.end_time_ms,
        "params": object(&run.params), "tags": object(&run.tags), "metrics": metrics, "artifacts": run.artifacts,
        "sealed": sealed,
    })
}

fn candidates(store: &dyn assize_store::Runs, run_id: &str) -> anyhow::Result<Vec<Candidate>> {
    let text = store
        .artifact_get(run_id, artifact::CANDIDATES)?
        .unwrap_or_else(|| "[]".to_owned());
    serde_json::from_str(&text).map_err(|error| {
        let path = format!("{} of run {run_id}", artifact::CANDIDATES);
        PipelineError::File {
            path,
            reason: error.to_string(),
        }
        .into()
    })
}

/// One record a candidate, page by page, so that memory stays flat.
fn export(
    session: &Session,
    store: &dyn Tracking,
    filter: &RunFilter,
    path: Option<&Path>,
) -> anyhow::Result<Exit> {
    let ending = path
        .and_then(|path| path.extension())
        .and_then(|ending| ending.to_str());
    let as_csv = match (path, ending) {
        (None, _) | (_, Some("jsonl" | "json")) => false,
        (_, Some("csv")) => true,
        (Some(path), _) => {
            let message = format!(
                "{}: the extension is not a known format; use .jsonl or .csv",
                path.display()
            );
            return Err(PipelineError::Invalid(message).into());
        }
    };
    let target: Box<dyn Write> = match path {
        Some(path) => Box::new(BufWriter::new(File::create(path)?)),
        None => Box::new(BufWriter::new(std::io::stdout().lock())),
    };
    let mut sink = if as_csv {
        Sink::Csv(Box::new(csv::Writer::from_writer(target)))
    } else {
        Sink::Jsonl(target)
    };
    if let Sink::Csv(csv) = &mut sink {
        csv.write_record(CSV_HEADINGS)?;
    }
    let author = author(session, filter.unseal);
    let mut seal = RunSeal::new(store, author.as_ref());
    let mut token = None;
    let (mut records, mut sealed_runs) = (0, 0);
    loop {
        let page = store.run_list(&filter.experiment, &query(filter, 500, token))?;
        for mut run in page.runs {
            let sealed = seal.apply(&mut run)?;
            sealed_runs += usize::from(sealed);
            records += sink.write_run(store, &run, sealed)?;
        }
        token = page.next_page_token;
        if token.is_none() {
            break;
        }
    }
    match sink {
        Sink::Jsonl(mut target) => target.flush()?,
        Sink::Csv(mut csv) => csv.flush()?,
    }
    if let Some(path) = path {
        session
            .output
            .say(&format!("{records} candidates in {}", path.display()));
    }
    if sealed_runs > 0 {
        session.output.say(SEAL_NOTE);
    }
    Ok(Exit::Done)
}

const CSV_HEADINGS: [&str; 11] = [
    "run_id",
    "model",
    "prompt",
    "scenario",
    "candidate",
    "text",
    "error",
    "judge_pending",
    "split",
    "sealed",
    "composite",
];

/// Where exported candidates go.
enum Sink {
    Jsonl(Box<dyn Write>),
    Csv(Box<csv::Writer<Box<dyn Write>>>),
}

impl Sink {
    /// Writes a run's candidates, without verdicts if they are sealed; answers how many.
    fn write_run(
        &mut self,
        store: &dyn assize_store::Runs,
        run: &Run,
        sealed: bool,
    ) -> anyhow::Result<usize> {
        let candidates = candidates(store, &run.run_id)?;
        let files = if sealed {
            Vec::new()
        } else {
            store.verdicts_get(&run.run_id)?
        };
        match self {
            Self::Jsonl(target) => {
                let mut record = run_json(run, sealed);
                record["verdicts"] = if sealed { Value::Null } else { json!(files) };
                for candidate in &candidates {
                    record["candidate"] = json!(candidate);
                    writeln!(target, "{record}")?;
                }
            }
            Self::Csv(csv) => {
                let rubric = value(&run.tags, tag::RUBRIC_SHA256);
                let expert = effective(&files, Tier::Expert, rubric);
                let auto = effective(&files, Tier::Auto, rubric);
                for candidate in &candidates {
                    let verdict = expert.get(&candidate.index);
                    let verdict = verdict.or_else(|| auto.get(&candidate.index));
                    let composite = verdict.map(|it| it.composite.to_string());
                    csv.write_record([
                        run.run_id.as_str(),
                        value(&run.params, param::MODEL),
                        value(&run.params, param::PROMPT),
                        value(&run.params, param::SCENARIO),
                        &candidate.index.to_string(),
                        candidate.text.as_deref().unwrap_or_default(),
                        candidate.error.as_deref().unwrap_or_default(),
                        value(&run.tags, tag::JUDGE_PENDING),
                        split_of(run),
                        if sealed { "true" } else { "false" },
                        composite.as_deref().unwrap_or_default(),
                    ])?;
                }
            }
        }
        Ok(candidates.len())
    }
}
