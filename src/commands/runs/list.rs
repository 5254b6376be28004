//! `assize runs list`: runs by time or by composite, and those with an output that holds a text.
//!
//! By time without a search the store answers with one page. Otherwise all runs that the filter
//! admits are read page by page, and only the shown ones are kept.

use std::cmp::Ordering;

use assize_domain::run::{RunStatus, metric, param, tag};
use assize_domain::sweep::label_of;
use assize_pipeline::PipelineError;
use assize_pipeline::compare::candidates;
use assize_pipeline::seal::{self, RunSeal, split_of};
use assize_store::{Run, RunQuery, Tracking};
use serde_json::{Value, json};

use super::{SEAL_NOTE, author, query, run_json, value};
use crate::Exit;
use crate::cli::{RunFilter, RunOrder};
use crate::output::safe;
use crate::output::text_table::{Align, render, take_width};
use crate::session::Session;

/// Runs that are read at once.
const PAGE: u32 = 500;
/// Characters that are shown before a match.
const BEFORE: usize = 12;

/// Which runs to list.
pub struct Wanted<'a> {
    pub filter: &'a RunFilter,
    pub search: Option<&'a str>,
    pub sort: RunOrder,
    /// 0 means all.
    pub limit: u32,
}

/// A run in the list.
struct Listed {
    run: Run,
    sealed: bool,
    matches: Vec<Match>,
}

/// An output that holds the text.
struct Match {
    candidate: u32,
    text: String,
    /// Where the text begins, in characters.
    start: usize,
}

/// The runs that are shown, and whether there are more.
#[derive(Default)]
struct List {
    runs: Vec<Listed>,
    next_page_token: Option<String>,
    has_more: bool,
}

pub fn run(session: &Session, store: &dyn Tracking, wanted: &Wanted<'_>) -> anyhow::Result<Exit> {
    if wanted.search.is_some_and(|it| it.trim().is_empty()) {
        let message = "--search needs a text that outputs can contain".to_owned();
        return Err(PipelineError::Invalid(message).into());
    }
    let author = author(session, wanted.filter.unseal);
    let mut seal = RunSeal::new(store, author.as_ref());
    let list = if wanted.search.is_none() && wanted.sort != RunOrder::Composite {
        page(store, wanted, &mut seal)?
    } else {
        scan(store, wanted, &mut seal)?
    };
    print(session, wanted, &list)?;
    Ok(Exit::Done)
}

fn query_of(wanted: &Wanted<'_>, max_results: u32, token: Option<String>) -> RunQuery {
    RunQuery {
        newest_first: wanted.sort == RunOrder::Newest,
        ..query(wanted.filter, max_results, token)
    }
}

/// The first page, as the store has it.
fn page(store: &dyn Tracking, wanted: &Wanted<'_>, seal: &mut RunSeal<'_>) -> anyhow::Result<List> {
    let query = query_of(wanted, wanted.limit, None);
    let page = store.run_list(&wanted.filter.experiment, &query)?;
    let mut runs = Vec::with_capacity(page.runs.len());
    for mut run in page.runs {
        runs.push(Listed {
            sealed: seal.apply(&mut run)?,
            matches: Vec::new(),
            run,
        });
    }
    Ok(List {
        runs,
        has_more: page.next_page_token.is_some(),
        next_page_token: page.next_page_token,
    })
}

/// Reads all runs, and keeps those that are shown.
fn scan(store: &dyn Tracking, wanted: &Wanted<'_>, seal: &mut RunSeal<'_>) -> anyhow::Result<List> {
    let most = match wanted.limit {
        0 => usize::MAX,
        limit => limit as usize,
    };
    let needle = wanted.search.map(str::to_lowercase);
    let mut list = List::default();
    let mut token = None;
    loop {
        let page = store.run_list(&wanted.filter.experiment, &query_of(wanted, PAGE, token))?;
        for mut run in page.runs {
            let matches = match &needle {
                Some(needle) => matches(store, &run.run_id, needle)?,
                None => Vec::new(),
            };
            if needle.is_some() && matches.is_empty() {
                continue;
            }
            // Sealed scores are removed first, so that the order does not show them.
            let sealed = seal.apply(&mut run)?;
            let listed = Listed {
                run,
                sealed,
                matches,
            };
            list.add(listed, wanted.sort, most);
            if list.has_more && wanted.sort != RunOrder::Composite {
                return Ok(list);
            }
        }
        token = page.next_page_token;
        if token.is_none() {
            if wanted.sort == RunOrder::Composite {
                list.runs.sort_by(|a, b| by_composite(&a.run, &b.run));
            }
            return Ok(list);
        }
    }
}

impl List {
    /// Adds a run at its place, and drops the last one where there are too many.
    fn add(&mut self, listed: Listed, sort: RunOrder, most: usize) {
        if most == usize::MAX {
            // All are shown, and sorted at the end.
            self.runs.push(listed);
            return;
        }
        let place = match sort {
            RunOrder::Oldest | RunOrder::Newest => self.runs.len(),
            RunOrder::Composite => self
                .runs
                .partition_point(|it| by_composite(&it.run, &listed.run) != Ordering::Greater),
        };
        if place < most {
            self.runs.insert(place, listed);
        } else {
            self.has_more = true;
        }
        if self.runs.len() > most {
            self.runs.truncate(most);
            self.has_more = true;
        }
    }
}

/// The highest first, those without one last.
fn by_composite(a: &Run, b: &Run) -> Ordering {
    let key = |run: &Run| composite(run).unwrap_or(f64::NEG_INFINITY);
    key(b).total_cmp(&key(a))
}

fn composite(run: &Run) -> Option<f64> {
    let mut metrics = run.metrics.iter();
    let found = metrics.find(|(name, _)| name == metric::COMPOSITE);
    found.map(|(_, value)| *value).filter(|it| !it.is_nan())
}

/// The outputs of a run that contain the text, which is in lower case.
fn matches(store: &dyn Tracking, run_id: &str, needle: &str) -> anyhow::Result<Vec<Match>> {
    let outputs = candidates(store, run_id)?.into_iter();
    let matches = outputs.filter_map(|candidate| {
        let text = candidate.text?;
        let lower = text.to_lowercase();
        let start = lower.find(needle)?;
        Some(Match {
            candidate: candidate.index,
            start: lower[..start].chars().count(),
            text,
        })
    });
    Ok(matches.collect())
}

impl Match {
    /// The text from a few characters before the match.
    fn excerpt(&self) -> String {
        let skipped = self.start.saturating_sub(BEFORE);
        let lead = if skipped > 0 { "…" } else { "" };
        let rest: String = self.text.chars().skip(skipped).take(200).collect();
        format!("{lead}{rest}")
    }
}

fn print(session: &Session, wanted: &Wanted<'_>, list: &List) -> anyhow::Result<()> {
    if session.output.json {
        let runs: Vec<Value> = list.runs.iter().map(|it| json_of(it, wanted)).collect();
        return Ok(session
            .output
            .json_pretty(&json!({"runs": runs, "next_page_token": list.next_page_token}))?);
    }
    let headings = [
        ("run", Align::Left),
        ("model", Align::Left),
        ("prompt", Align::Left),
        ("scenario", Align::Left),
        ("split", Align::Left),
        ("state", Align::Left),
        ("composite", Align::Right),
    ];
    let rows: Vec<Vec<String>> = list.runs.iter().map(cells).collect();
    let table = render(&headings, &rows, session.output.width);
    session
        .output
        .data(&with_excerpts(&table, &list.runs, session.output.width))?;
    if list.has_more {
        let limit = wanted.limit;
        session
            .output
            .say(&format!("  the first {limit}; --limit shows more"));
    }
    if list.runs.iter().any(|it| it.sealed) {
        session.output.say(SEAL_NOTE);
    }
    Ok(())
}

/// The table with the first match of every run under its line.
fn with_excerpts(table: &str, runs: &[Listed], width: usize) -> String {
    let mut text = String::new();
    let matches = runs.iter().map(|it| it.matches.first());
    // The headings have no run.
    for (line, found) in table.lines().zip(std::iter::once(None).chain(matches)) {
        text.push_str(&format!("{line}\n"));
        if let Some(found) = found {
            let excerpt = safe(&found.excerpt()).replace('\n', " ");
            let excerpt = take_width(excerpt.chars(), width.saturating_sub(6));
            text.push_str(&format!("    │ {excerpt}\n"));
        }
    }
    text
}

fn json_of(listed: &Listed, wanted: &Wanted<'_>) -> Value {
    let mut shown = run_json(&listed.run, listed.sealed);
    if wanted.search.is_some() {
        let matches = listed.matches.iter();
        let matches = matches.map(|it| json!({"candidate": it.candidate, "text": it.text}));
        shown["matches"] = matches.collect();
    }
    shown
}

fn cells(listed: &Listed) -> Vec<String> {
    let run = &listed.run;
    let state = match (run.status, value(&run.tags, tag::JUDGE_PENDING)) {
        (RunStatus::Failed, _) => "failed",
        (_, "true") => "pending",
        _ => "judged",
    };
    let composite = match composite(run) {
        Some(it) => format!("{it:.2}"),
        None if listed.sealed => seal::SEALED.to_owned(),
        None => String::new(),
    };
    vec![
        run.run_id.get(..8).unwrap_or(&run.run_id).to_owned(),
        value(&run.params, param::MODEL).to_owned(),
        label_of(
            value(&run.params, param::PROMPT),
            value(&run.tags, tag::SETTINGS),
        ),
        value(&run.params, param::SCENARIO).to_owned(),
        split_of(run).to_owned(),
        state.to_owned(),
        composite,
    ]
}
