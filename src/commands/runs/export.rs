//! `assize runs export`: one record a candidate, page by page, so that memory stays flat.
//!
//! JSONL holds everything. CSV holds what a person filters in a spreadsheet; its columns for
//! scores and scenario fields are found in a first pass over the runs. Cells with text that a
//! spreadsheet would run as a formula get an apostrophe; numbers that we computed do not.

use std::collections::{BTreeSet, HashSet};
use std::io::{BufWriter, Write};
use std::path::Path;

use assize_domain::candidate::Candidate;
use assize_domain::judge::Tier;
use assize_domain::rubric::Rubric;
use assize_domain::run::{artifact, param, tag};
use assize_domain::sweep::label_of;
use assize_domain::verdict::{Verdict, VerdictFile, in_order};
use assize_pipeline::compare::candidates;
use assize_pipeline::seal::{RunSeal, split_of};
use assize_pipeline::{PipelineError, whole_file};
use assize_report::csv::cells::neutral;
use assize_store::{Run, Tracking};
use serde_json::{Map, Value, json};

use super::{SEAL_NOTE, author, query, run_json, value};
use crate::Exit;
use crate::cli::RunFilter;
use crate::session::Session;

/// Runs that are read at once.
const PAGE: u32 = 500;

const HEADINGS: [&str; 18] = [
    "run_id",
    "model",
    "prompt",
    "scenario",
    "candidate",
    "text",
    "error",
    "reasons",
    "judge_pending",
    "split",
    "sealed",
    "composite",
    "tier",
    "judge_kind",
    "judge",
    "judged_at",
    "rubric",
    "rationale",
];

/// What was written.
#[derive(Default)]
struct Count {
    candidates: usize,
    sealed_runs: usize,
}

pub fn run(
    session: &Session,
    store: &dyn Tracking,
    filter: &RunFilter,
    path: Option<&Path>,
) -> anyhow::Result<Exit> {
    let path = path.filter(|path| *path != Path::new("-"));
    let as_csv = path.map_or(Ok(false), is_csv)?;
    let export = Export {
        session,
        store,
        filter,
    };
    let count = match path {
        None => export.write(as_csv, &mut BufWriter::new(session.output.writer()))?,
        Some(path) => {
            let mut count = Ok(Count::default());
            // A file appears whole or not at all.
            let filled = whole_file::fill_beside(path, |out| {
                count = export.write(as_csv, out);
                Ok(())
            })?;
            let count = count?;
            filled.publish()?;
            let (records, path) = (count.candidates, path.display());
            session
                .output
                .say(&format!("{records} candidates in {path}"));
            count
        }
    };
    if count.sealed_runs > 0 {
        session.output.say(SEAL_NOTE);
    }
    Ok(Exit::Done)
}

fn is_csv(path: &Path) -> anyhow::Result<bool> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("jsonl" | "json") => Ok(false),
        Some("csv") => Ok(true),
        _ => Err(PipelineError::Invalid(format!(
            "{}: the extension is not a known format; use .jsonl or .csv",
            path.display()
        ))
        .into()),
    }
}

struct Export<'a> {
    session: &'a Session,
    store: &'a dyn Tracking,
    filter: &'a RunFilter,
}

impl Export<'_> {
    fn write(&self, as_csv: bool, out: &mut dyn Write) -> anyhow::Result<Count> {
        let author = author(self.session, self.filter.unseal);
        let mut seal = RunSeal::new(self.store, author.as_ref());
        let mut sink = if as_csv {
            Sink::Csv(Box::new(Table::start(self, out)?))
        } else {
            Sink::Jsonl(out)
        };
        let mut count = Count::default();
        self.each(&mut |mut run| {
            let sealed = seal.apply(&mut run)?;
            count.sealed_runs += usize::from(sealed);
            count.candidates += sink.run(self.store, &run, sealed)?;
            Ok(())
        })?;
        match sink {
            Sink::Jsonl(out) => out.flush()?,
            Sink::Csv(mut table) => table.csv.flush()?,
        }
        Ok(count)
    }

    fn each(&self, visit: &mut dyn FnMut(Run) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut token = None;
        loop {
            let query = query(self.filter, PAGE, token);
            let page = self.store.run_list(&self.filter.experiment, &query)?;
            page.runs.into_iter().try_for_each(&mut *visit)?;
            token = page.next_page_token;
            if token.is_none() {
                return Ok(());
            }
        }
    }
}

/// Where exported candidates go.
enum Sink<'a> {
    Jsonl(&'a mut dyn Write),
    Csv(Box<Table<'a>>),
}

impl Sink<'_> {
    /// Writes a run's candidates, without verdicts if they are sealed; returns how many.
    fn run(&mut self, store: &dyn Tracking, run: &Run, sealed: bool) -> anyhow::Result<usize> {
        let mut candidates = candidates(store, &run.run_id)?;
        if sealed {
            candidates.iter_mut().for_each(Candidate::hide_computed);
        }
        let files = if sealed {
            Vec::new()
        } else {
            store.verdicts_get(&run.run_id)?
        };
        let aside: Vec<&str> = value(&run.tags, tag::SET_ASIDE).split(' ').collect();
        match self {
            Self::Jsonl(out) => {
                let mut record = run_json(run, sealed);
                record["context"] = context(store, &run.run_id)?.into();
                record["verdicts"] = if sealed { Value::Null } else { json!(files) };
                for candidate in &candidates {
                    record["candidate"] = json!(candidate);
                    writeln!(out, "{record}")?;
                }
            }
            Self::Csv(table) => {
                let mut files = files;
                files.retain(|file| !aside.contains(&file.sitting.as_str()));
                let context = context(store, &run.run_id)?;
                for candidate in &candidates {
                    table.candidate(run, candidate, &files, &context, sealed)?;
                }
            }
        }
        Ok(candidates.len())
    }
}

/// What judges see of the scenario.
fn context(store: &dyn Tracking, run_id: &str) -> anyhow::Result<Map<String, Value>> {
    let text = store.artifact_get(run_id, artifact::CONTEXT)?;
    let text = text.unwrap_or_default();
    // Runs of other tools need not have a context.
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// A CSV file with the columns that its runs need.
struct Table<'a> {
    csv: csv::Writer<&'a mut dyn Write>,
    criteria: Vec<String>,
    flags: Vec<String>,
    fields: Vec<String>,
}

impl<'a> Table<'a> {
    /// Finds the columns and writes the headings. Runs share few rubrics and scenarios, so only
    /// the first run of each is read.
    fn start(export: &Export<'_>, out: &'a mut dyn Write) -> anyhow::Result<Self> {
        let mut table = Self {
            csv: csv::Writer::from_writer(out),
            criteria: Vec::new(),
            flags: Vec::new(),
            fields: Vec::new(),
        };
        let mut seen: HashSet<(String, String)> = HashSet::new();
        let mut fields = BTreeSet::new();
        export.each(&mut |run| {
            let key = |kind: &str| (kind.to_owned(), value(&run.tags, kind).to_owned());
            if seen.insert(key(tag::RUBRIC_SHA256)) {
                table.add_scores(export.store.artifact_get(&run.run_id, artifact::RUBRIC)?);
            }
            let scenario = key(tag::SCENARIO_SHA256);
            if scenario.1.is_empty() || seen.insert(scenario) {
                fields.extend(
                    context(export.store, &run.run_id)?
                        .into_iter()
                        .map(|it| it.0),
                );
            }
            Ok(())
        })?;
        table.fields = fields.into_iter().collect();
        let headings = HEADINGS.map(str::to_owned).into_iter();
        let headings = headings
            .chain(table.criteria.iter().map(|it| format!("criterion.{it}")))
            .chain(table.flags.iter().map(|it| format!("flag.{it}")))
            .chain(table.fields.iter().map(|it| format!("scenario.{it}")));
        let headings: Vec<String> = headings.collect();
        table.csv.write_record(headings)?;
        Ok(table)
    }

    /// Adds columns for the scores of a rubric. One that cannot be read has no verdicts either.
    fn add_scores(&mut self, rubric: Option<String>) {
        let rubric = rubric.and_then(|text| Rubric::parse(artifact::RUBRIC, &text).ok());
        let Some(rubric) = rubric else {
            return;
        };
        let criteria = rubric.criterion_names().map(str::to_owned);
        add_new(&mut self.criteria, criteria);
        add_new(&mut self.flags, rubric.flags.into_iter().map(|it| it.name));
    }

    fn candidate(
        &mut self,
        run: &Run,
        candidate: &Candidate,
        files: &[VerdictFile],
        context: &Map<String, Value>,
        sealed: bool,
    ) -> anyhow::Result<()> {
        let rubric = value(&run.tags, tag::RUBRIC_SHA256);
        let found = counting(files, rubric, candidate.index);
        let (file, verdict) = found.unzip();
        let of_file = |of: fn(&VerdictFile) -> &str| file.map_or("", of);
        let tier = file.map_or("", |it| {
            if it.is_computed() {
                "both"
            } else {
                it.tier.as_str()
            }
        });
        let composite = verdict.map_or_else(String::new, |it| it.composite.to_string());
        let index = candidate.index.to_string();
        let prompt = label_of(
            value(&run.params, param::PROMPT),
            value(&run.tags, tag::SETTINGS),
        );
        let reasons = candidate.faults().collect::<Vec<_>>().join("; ");
        let text = [
            run.run_id.as_str(),
            value(&run.params, param::MODEL),
            &prompt,
            value(&run.params, param::SCENARIO),
            &index,
            candidate.text.as_deref().unwrap_or_default(),
            candidate.error.as_deref().unwrap_or_default(),
            &reasons,
            value(&run.tags, tag::JUDGE_PENDING),
            split_of(run),
            if sealed { "true" } else { "false" },
        ];
        let after = [
            tier,
            of_file(|it| &it.judge.kind),
            of_file(|it| &it.judge.name),
            of_file(|it| &it.judged_at),
            value(&run.tags, tag::RUBRIC),
            verdict
                .and_then(|it| it.rationale.as_deref())
                .unwrap_or_default(),
        ];
        let neutral = |text: &&str| neutral(text).into_owned();
        let mut record: Vec<String> = text.iter().map(neutral).collect();
        record.push(composite);
        record.extend(after.iter().map(neutral));
        let score = |name: &String| verdict.and_then(|it| it.scores.get(name));
        record.extend(self.criteria.iter().map(|name| plain(score(name))));
        let flag = |name: &String| {
            let computed = candidate.flags.get(name).filter(|_| !sealed);
            let computed = computed.map(|it| Value::Bool(*it));
            plain(score(name).or(computed.as_ref()))
        };
        record.extend(self.flags.iter().map(flag));
        let field = |name: &String| match context.get(name) {
            Some(Value::String(text)) => neutral(&text.as_str()),
            other => plain(other),
        };
        record.extend(self.fields.iter().map(field));
        self.csv.write_record(record)?;
        Ok(())
    }
}

/// Adds the names that are not known yet.
fn add_new(names: &mut Vec<String>, more: impl Iterator<Item = String>) {
    for name in more {
        if !names.contains(&name) {
            names.push(name);
        }
    }
}

/// The verdict that counts: the experts' latest, else the automatic tier's.
fn counting<'a>(
    files: &'a [VerdictFile],
    rubric: &str,
    candidate: u32,
) -> Option<(&'a VerdictFile, &'a Verdict)> {
    Tier::ALL.into_iter().find_map(|tier| {
        let latest_first = in_order(files, tier, rubric).into_iter().rev();
        let mut found = latest_first.filter_map(|file| {
            let mut verdicts = file.verdicts.iter();
            Some((file, verdicts.find(|it| it.candidate == candidate)?))
        });
        found.next()
    })
}

/// A number, a truth value, or JSON; nothing of it starts a formula except a sign before a number.
fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => neutral(text).into_owned(),
        Some(other) => other.to_string(),
    }
}
