//! What a loop has made, as text: its status, its versions as a tree, single texts and differences.

use std::path::{Path, PathBuf};

use anyhow::bail;
use assize_optimise::diff::Change;
use assize_optimise::{Lineage, Tree, Version};
use assize_pipeline::optimise::LoopLog;
use assize_pipeline::{PipelineError, whole_file};
use assize_report::lineage as report;
use serde_json::json;

use super::state;
use crate::Exit;
use crate::cli::LineageFormat;
use crate::environment;
use crate::output::safe;
use crate::session::Session;

/// The tree of versions, printed or written to files.
pub fn lineage(
    session: &Session,
    experiment: &str,
    format: Option<LineageFormat>,
    files: &[PathBuf],
) -> anyhow::Result<Exit> {
    // A wrong extension is an error before anything is read or written.
    let files: Vec<(&Path, LineageFormat)> = files
        .iter()
        .map(|path| Ok((path.as_path(), format_of(path)?)))
        .collect::<anyhow::Result<_>>()?;
    let state = state()?;
    let tree = LoopLog::open(&state, experiment)?.tree()?;
    let lineage = tree.lineage(experiment);
    let output = &session.output;
    for (path, format) in &files {
        whole_file::write(path, &render(&lineage, *format, 80)?)?;
        output.say(&format!("Wrote {}", path.display()));
    }
    if files.is_empty() || format.is_some() || output.json {
        let default = if output.json {
            LineageFormat::Json
        } else {
            LineageFormat::Table
        };
        output.data(&render(&lineage, format.unwrap_or(default), output.width)?)?;
    }
    Ok(Exit::Done)
}

fn render(lineage: &Lineage, format: LineageFormat, width: usize) -> anyhow::Result<String> {
    Ok(match format {
        LineageFormat::Table => report::terminal(lineage, width),
        LineageFormat::Json => lineage.to_json(),
        LineageFormat::Md => report::markdown::render(lineage),
        LineageFormat::Svg => match report::chart(lineage) {
            Some(chart) => chart + "\n",
            None => bail!(PipelineError::Invalid(
                "no version has a score yet, so there is nothing to draw".to_owned()
            )),
        },
        LineageFormat::Html => report::html::render(lineage, &environment::now_rfc3339()),
    })
}

fn format_of(path: &Path) -> anyhow::Result<LineageFormat> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => Ok(LineageFormat::Json),
        Some("md") => Ok(LineageFormat::Md),
        Some("svg") => Ok(LineageFormat::Svg),
        Some("html" | "htm") => Ok(LineageFormat::Html),
        Some("txt") => Ok(LineageFormat::Table),
        _ => Err(PipelineError::Invalid(format!(
            "{}: the extension is not a known format; use .txt, .json, .md, .svg or .html",
            path.display()
        ))
        .into()),
    }
}

/// One version as a prompt file.
pub fn text(session: &Session, experiment: &str, id: &str) -> anyhow::Result<Exit> {
    let state = state()?;
    let tree = LoopLog::open(&state, experiment)?.tree()?;
    let node = tree.node(id).map_err(PipelineError::from)?;
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
    let lines = tree.diff(from, to).map_err(PipelineError::from)?;
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
    // A body that begins like front matter needs some in front of it.
    if head.is_empty() && !version.body.starts_with("+++") {
        return format!("{}\n", version.body);
    }
    format!("+++\n{head}+++\n{}\n", version.body)
}

/// A text as TOML. Front matter ends at the first line `+++`, so a text with such a line is written on one
/// line, with JSON's escapes, which are TOML's too.
fn toml_text(text: &str) -> String {
    if text.lines().any(|it| it == "+++") {
        return serde_json::Value::from(text)
            .to_string()
            .replace('\u{7f}', "\\u007f");
    }
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

#[cfg(test)]
mod tests {
    use assize_domain::prompt::Prompt;

    use super::*;

    #[test]
    fn a_version_as_a_file_is_the_same_prompt() {
        for (system, body) in [
            (None, "Hi {{ persona }}"),
            (None, "+++\nHi"),
            (Some("Be kind."), "Hi\n+++\nHo"),
            (Some("a\n+++\nb \"c\" \\ d"), "Hi"),
            (Some("one\ntwo"), "+++\nHi\n+++"),
        ] {
            let version = Version::new("v1", system, body);
            let file = prompt_file(&version, "why");
            let read = Prompt::parse("v1.md", "v1", &file, None);
            let read = read.unwrap_or_else(|it| panic!("{it:?}\n{file}"));
            assert_eq!(Version::from(&read), version, "{file}");
            let file = prompt_file(&version, "");
            let read = Prompt::parse("v1.md", "v1", &file, None).expect("sound");
            assert_eq!(Version::from(&read), version, "{file}");
        }
    }
}
