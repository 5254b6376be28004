//! Scenarios from decisions: what users really asked becomes a part of a task's feedback split.
//!
//! The context of a decision is the scenario's fields, without those that are redacted. Contexts
//! that are equal after that are one scenario, and what the task has already is left out. Only the
//! feedback split is ever extended: the other two decide about promotions and must not follow
//! production.

use std::collections::BTreeSet;
use std::path::Path;

use assize_domain::hash::{canonical_json, sha256_hex};
use assize_domain::scenario::Split;
use assize_domain::task::{SCENARIOS_FILE, TASK_FILE, Task, TaskFiles};
use assize_store::policies::PolicyFile;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{PipelineError, Result, task_files, whole_file};

/// Decisions that are drawn for one scenario, because many are alike.
const DRAWN_FOR_ONE: usize = 20;
/// Keys of a scenario that are not its fields.
const RESERVED: [&str; 3] = ["id", "split", "reference"];

/// What to sample.
#[derive(Debug)]
pub struct SampleOptions<'a> {
    /// The task's folder.
    pub folder: &'a Path,
    /// New scenarios at most.
    pub most: usize,
    pub seed: u64,
    /// Only decisions from this time on, in Unix milliseconds.
    pub since_ms: i64,
    /// Fields of the context that are left out.
    pub redact: &'a [String],
    pub dry_run: bool,
}

/// What was sampled.
#[derive(Debug, Serialize)]
pub struct Sampled {
    /// The file that was extended.
    pub file: String,
    /// Decisions that were looked at.
    pub decisions: usize,
    /// The new scenarios.
    pub scenarios: Vec<Value>,
    /// Contexts that were equal to another one, empty, unreadable, or in the task already.
    pub repeated: usize,
    pub dry_run: bool,
}

/// Adds sampled scenarios to the task's file of scenarios, all or none.
pub fn sample(file: &PolicyFile, options: &SampleOptions<'_>) -> Result<Sampled> {
    let folder = options.folder.display().to_string();
    let mut files = task_files::read(&folder)?;
    let name = scenario_file(&files)?;
    let path = options.folder.join(&name);
    let task = task_files::load(&folder)?;
    let known: BTreeSet<String> = task.scenarios.iter().map(|it| key(&it.fields)).collect();
    let drawn = file.decision_sample(
        options.most.saturating_mul(DRAWN_FOR_ONE),
        options.seed,
        options.since_ms,
    )?;
    let mut seen = known;
    let (mut scenarios, mut repeated) = (Vec::new(), 0);
    for decision in &drawn {
        if scenarios.len() == options.most {
            break;
        }
        let record = decision.record()?;
        let Ok(fields) = serde_json::from_str::<Map<String, Value>>(record.context.get()) else {
            repeated += 1;
            continue;
        };
        let is_kept =
            |name: &str| !options.redact.iter().any(|it| it == name) && !RESERVED.contains(&name);
        // TOML has no null, so a field without a value is left out.
        let fields: Map<String, Value> = fields
            .into_iter()
            .filter(|(name, value)| is_kept(name) && !value.is_null())
            .collect();
        let key = key(&fields);
        if fields.is_empty() || !seen.insert(key.clone()) {
            repeated += 1;
            continue;
        }
        let mut scenario = Map::new();
        scenario.insert("id".to_owned(), json!(format!("log-{}", &key[..12])));
        scenario.insert("split".to_owned(), json!(Split::Feedback.as_str()));
        scenario.extend(fields);
        scenarios.push(Value::Object(scenario));
    }
    let sampled = Sampled {
        file: path.display().to_string(),
        decisions: drawn.len(),
        repeated,
        dry_run: options.dry_run,
        scenarios,
    };
    if !sampled.scenarios.is_empty() && !sampled.dry_run {
        whole_file::write(&path, &extended(&mut files, &name, &sampled)?)?;
    }
    Ok(sampled)
}

/// Identifies the fields of a scenario.
fn key(fields: &Map<String, Value>) -> String {
    sha256_hex(canonical_json(&Value::Object(fields.clone())).as_bytes())
}

/// The name of the task's file of scenarios, which must be TOML or JSON lines, because scenarios can
/// be added to these without touching what is there.
fn scenario_file(files: &TaskFiles) -> Result<String> {
    let invalid = |reason: String| PipelineError::Invalid(format!("{TASK_FILE}: {reason}"));
    let manifest = files.get(TASK_FILE).map_or("", String::as_str);
    let table: toml::Table = manifest
        .parse()
        .map_err(|error: toml::de::Error| invalid(error.to_string()))?;
    let name = table.get("scenarios").and_then(toml::Value::as_str);
    let name = name.unwrap_or(SCENARIOS_FILE);
    if !(is_jsonl(name) || has_ending(name, "toml")) {
        return Err(invalid(format!(
            "scenarios = \"{name}\": only a .toml or .jsonl file can be extended, so convert it first"
        )));
    }
    Ok(name.to_owned())
}

fn has_ending(name: &str, wanted: &str) -> bool {
    let ending = Path::new(name).extension();
    ending.is_some_and(|it| it.eq_ignore_ascii_case(wanted))
}

fn is_jsonl(name: &str) -> bool {
    has_ending(name, "jsonl")
}

/// The scenarios as they are added to a file.
fn written(name: &str, scenarios: &[Value]) -> Result<String> {
    if is_jsonl(name) {
        let lines: Vec<String> = scenarios.iter().map(Value::to_string).collect();
        return Ok(format!("{}\n", lines.join("\n")));
    }
    let list = json!({"scenario": scenarios});
    let text = toml::to_string(&list).map_err(|error| {
        PipelineError::Invalid(format!(
            "{name}: a sampled context cannot be written as TOML ({error}): leave its field out with --redact"
        ))
    })?;
    Ok(format!("\n{text}"))
}

/// The text with the new scenarios, if the task is valid with it.
fn extended(files: &mut TaskFiles, name: &str, sampled: &Sampled) -> Result<String> {
    let mut text = files
        .get(name)
        .map_or("", String::as_str)
        .trim_end()
        .to_owned();
    text.push('\n');
    text.push_str(&written(name, &sampled.scenarios)?);
    files.insert(name.to_owned(), text.clone());
    Task::parse(files).map_err(|problems| PipelineError::Task {
        name: format!("with the sampled scenarios, {name}"),
        problems,
    })?;
    Ok(text)
}
