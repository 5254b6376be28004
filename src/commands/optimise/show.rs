//! What a loop has made, as text: its status, its versions as a tree, single texts and differences.

use assize_optimise::diff::Change;
use assize_optimise::lineage::{Lineage, LineageVersion};
use assize_optimise::score::FeedbackEstimate;
use assize_optimise::{Tree, Version};
use assize_pipeline::optimise::LoopLog;
use assize_report::text::wrap;
use serde_json::json;

use super::state;
use crate::Exit;
use crate::output::safe;
use crate::session::Session;

/// The tree of versions, or the lineage as JSON.
pub fn lineage(session: &Session, experiment: &str) -> anyhow::Result<Exit> {
    let state = state()?;
    let tree = LoopLog::open(&state, experiment)?.tree()?;
    let lineage = tree.lineage(experiment);
    let text = if session.output.json {
        lineage.to_json()
    } else {
        tree_text(&lineage, session.output.width.min(100))
    };
    session.output.data(&text)?;
    Ok(Exit::Done)
}

/// One version as a prompt file.
pub fn text(session: &Session, experiment: &str, id: &str) -> anyhow::Result<Exit> {
    let state = state()?;
    let tree = LoopLog::open(&state, experiment)?.tree()?;
    let node = tree
        .node(id)
        .map_err(assize_pipeline::PipelineError::from)?;
    if session.output.json {
        session.output.json_pretty(&json!({
            "id": node.id, "hypothesis": node.hypothesis, "prompt": node.version,
        }))?;
    } else {
        session
            .output
            .data(&prompt_file(&node.version, &node.hypothesis))?;
    }
    Ok(Exit::Done)
}

/// The difference between two versions.
pub fn diff(session: &Session, experiment: &str, from: &str, to: &str) -> anyhow::Result<Exit> {
    let state = state()?;
    let tree = LoopLog::open(&state, experiment)?.tree()?;
    let lines = tree
        .diff(from, to)
        .map_err(assize_pipeline::PipelineError::from)?;
    let output = &session.output;
    if output.json {
        output.json_pretty(&json!({"from": from, "to": to, "lines": lines}))?;
        return Ok(Exit::Done);
    }
    let mut text = format!("--- {from}\n+++ {to}\n");
    for line in &lines {
        let shown = safe(&line.as_text());
        let colour = match line.change {
            Change::Removed if output.color => "\x1b[31m",
            Change::Added if output.color => "\x1b[32m",
            _ => "",
        };
        let end = if colour.is_empty() { "" } else { "\x1b[0m" };
        text.push_str(&format!("{colour}{shown}{end}\n"));
    }
    output.data(&text)?;
    Ok(Exit::Done)
}

/// As a task's `prompts/NAME.md` has it.
fn prompt_file(version: &Version, description: &str) -> String {
    let mut head = String::new();
    if !description.is_empty() {
        head.push_str(&format!("description = {}\n", toml_text(description)));
    }
    if let Some(system) = &version.system {
        head.push_str(&format!("system = {}\n", toml_text(system)));
    }
    if head.is_empty() {
        return format!("{}\n", version.body);
    }
    format!("+++\n{head}+++\n{}\n", version.body)
}

fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Where the loop stands, in a few lines.
pub fn status(tree: &Tree, experiment: &str) -> String {
    let used = &tree.used;
    let settings = &tree.settings;
    let mut text = format!("Loop {}: {}", safe(experiment), tree.state());
    if tree.round > 0 {
        text.push_str(&format!(", round {} of {}", tree.round, settings.rounds));
    }
    text.push('\n');
    let reason = tree.reason.as_ref();
    let ended = tree.search_end.as_ref().map(|(_, reason)| reason);
    if let Some(reason) = reason.or(ended) {
        text.push_str(&format!("  {}\n", safe(reason)));
    }
    text.push_str(&format!(
        "  used: {} of {} children, {} of {} automatic verdicts, {} expert verdicts, ${:.4}\n",
        used.children,
        settings.children_in_all(),
        used.auto_verdicts,
        settings.max_auto,
        used.expert_verdicts,
        used.cost_usd
    ));
    if let Some(nominee) = &tree.nominee {
        text.push_str(&format!(
            "  nominee: {} ({})\n",
            nominee.child,
            safe(&nominee.pair.to_string())
        ));
    }
    text
}

fn tree_text(lineage: &Lineage, width: usize) -> String {
    let mut text = format!(
        "Loop {}: {}, against {}\n\n",
        safe(&lineage.experiment),
        lineage.state,
        safe(&lineage.incumbent)
    );
    for (depth, version) in lineage.depth_first() {
        text.push_str(&version_lines(depth, version, width));
    }
    text
}

fn version_lines(depth: usize, it: &LineageVersion, width: usize) -> String {
    let indent = "  ".repeat(depth);
    let score = it.feedback.as_ref().map_or_else(String::new, score_text);
    let lead = it
        .lead
        .map_or_else(String::new, |lead| format!(", {lead:+.2} to its parent"));
    let fate = if it.parent.is_none() {
        it.version.name.clone()
    } else {
        it.state.to_string()
    };
    let mut text = format!("{indent}{}  {fate}{score}{lead}\n", it.id);
    let mut part = |words: &str| {
        let room = width.saturating_sub(indent.len() + 4).max(20);
        for line in wrap(&safe(words), room) {
            text.push_str(&format!("{indent}    {line}\n"));
        }
    };
    if !it.hypothesis.is_empty() {
        part(&it.hypothesis);
    }
    if let Some(reason) = &it.reason {
        part(&format!("→ {reason}"));
    }
    text
}

fn score_text(it: &FeedbackEstimate) -> String {
    let interval = it
        .ci95
        .map_or_else(String::new, |[low, high]| format!(" [{low:.2}, {high:.2}]"));
    format!("  {:.2}{interval}", it.mean)
}
