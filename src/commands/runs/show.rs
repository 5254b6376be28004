//! `assize runs show`: one run with its prompt, its candidates and what judges said of them.

use assize_domain::candidate::Candidate;
use assize_domain::judge::Tier;
use assize_domain::run::{artifact, tag};
use assize_domain::verdict::{Verdict, VerdictFile, in_order};
use assize_pipeline::compare::candidates;
use assize_pipeline::ledger::Author;
use assize_pipeline::seal::RunSeal;
use assize_report::figure;
use assize_report::text::{width, wrap};
use assize_store::{Run, Tracking};
use serde_json::{Value, json};

use super::{SEAL_NOTE, run_json, value};
use crate::Exit;
use crate::output::safe;
use crate::session::Session;

pub fn run(
    session: &Session,
    store: &dyn Tracking,
    id: &str,
    unseal: Option<&Author>,
) -> anyhow::Result<Exit> {
    let mut run = store.run_get(id)?;
    let sealed = RunSeal::new(store, unseal).apply(&mut run)?;
    let mut candidates = candidates(store, &run.run_id)?;
    if sealed {
        candidates.iter_mut().for_each(Candidate::hide_computed);
    }
    let files = if sealed {
        Vec::new()
    } else {
        store.verdicts_get(&run.run_id)?
    };
    let artifact = |path| store.artifact_get(&run.run_id, path);
    let prompt = artifact(artifact::PROMPT)?;
    if session.output.json {
        let mut shown = run_json(&run, sealed);
        let context = artifact(artifact::CONTEXT)?.unwrap_or_default();
        shown["prompt_text"] = json!(prompt);
        shown["context"] = serde_json::from_str(&context).unwrap_or(Value::Null);
        shown["candidates"] = json!(candidates);
        shown["verdicts"] = if sealed { Value::Null } else { json!(files) };
        session.output.json_pretty(&shown)?;
        return Ok(Exit::Done);
    }
    let mut page = Page::new(session.output.width);
    page.head(&run);
    page.line("prompt");
    page.quote(&prompt.unwrap_or_default());
    page.line("");
    let rubric = value(&run.tags, tag::RUBRIC_SHA256);
    for candidate in &candidates {
        page.candidate(candidate, &files, rubric);
    }
    session.output.data(&page.text)?;
    if sealed {
        session.output.say(SEAL_NOTE);
    }
    Ok(Exit::Done)
}

/// Text within the columns of the terminal.
struct Page {
    text: String,
    columns: usize,
}

impl Page {
    fn new(columns: usize) -> Self {
        Self {
            text: String::new(),
            columns,
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Words after an indent, on as many lines as they need.
    fn put(&mut self, indent: &str, words: &str) {
        for line in safe(words).lines() {
            let room = self.columns.saturating_sub(width(indent));
            for part in wrap(line, room) {
                self.line(&format!("{indent}{part}"));
            }
        }
    }

    /// A name and its value; below each other where they do not fit into one line.
    fn pair(&mut self, name: &str, value: &str) {
        let line = format!("  {name:<18} {}", safe(value));
        if width(&line) <= self.columns && !line.contains('\n') {
            self.line(&line);
        } else {
            self.put("  ", name);
            self.put("    ", value);
        }
    }

    /// What a model was told or said, line by line; spaces before a line are kept.
    fn quote(&mut self, text: &str) {
        for line in safe(text).lines() {
            let start = &line[..line.len() - line.trim_start().len()];
            if width(line) + 4 <= self.columns {
                self.line(format!("  │ {line}").trim_end());
            } else {
                self.put(&format!("  │ {start}"), line);
            }
        }
    }

    fn head(&mut self, run: &Run) {
        self.put("", &run.name);
        self.line(&format!("{}  {}\n", run.run_id, run.status.as_str()));
        for (heading, pairs) in [("params", &run.params), ("tags", &run.tags)] {
            self.line(heading);
            for (name, value) in pairs {
                self.pair(name, value);
            }
            self.line("");
        }
        self.line("metrics");
        for (name, value) in &run.metrics {
            self.line(&format!("  {name:<24} {value:.3}"));
        }
        self.line("");
    }

    fn candidate(&mut self, candidate: &Candidate, files: &[VerdictFile], rubric: &str) {
        let text = candidate.text.as_deref().or(candidate.error.as_deref());
        self.line(&format!("candidate {}", candidate.index));
        self.quote(text.unwrap_or_default());
        for fault in candidate.faults() {
            self.put("  ", &format!("✗ {fault}"));
        }
        for tier in Tier::ALL {
            let latest_first = in_order(files, tier, rubric).into_iter().rev();
            let mut spoken = latest_first.filter_map(|file| {
                let mut verdicts = file.verdicts.iter();
                Some((file, verdicts.find(|it| it.candidate == candidate.index)?))
            });
            let Some((file, verdict)) = spoken.next() else {
                continue;
            };
            if file.is_computed() {
                self.put("  ", &format!("computed: {}", scores(verdict)));
                break;
            }
            self.put("  ", &format!("{tier}: {}", scores(verdict)));
            self.put("    ", verdict.rationale.as_deref().unwrap_or_default());
            let mut earlier = spoken.filter(|(it, _)| it.rater() == file.rater());
            if let (true, Some((_, earlier))) = (file.amends.is_some(), earlier.next()) {
                let who = &file.judge.name;
                self.put(
                    "    ",
                    &format!("amended by {who}; was {}", scores(earlier)),
                );
            }
        }
        self.line("");
    }
}

fn scores(verdict: &Verdict) -> String {
    let scores = verdict.scores.iter();
    let scores: Vec<String> = scores.map(|(name, it)| format!("{name} {it}")).collect();
    let composite = figure::tick(verdict.composite);
    format!("composite {composite} ({})", scores.join(", "))
}
