//! A task: scenarios, prompt versions, one rubric, the output contract and defaults.
//!
//! A task is a folder of data. Parsing takes the files' texts, so that built-in tasks,
//! folders and tests share one path; reading folders is done elsewhere. Everything wrong is
//! reported at once, each mistake with its file and line.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::anchor::{ANCHORS_FILE, Anchors, Around};
use crate::check::{CheckSource, Checks};
use crate::hash::sha256_fields;
use crate::options::{OPTIONS, PartialOptions};
use crate::output::OutputContract;
use crate::problem::{Problem, line_of, parse_toml};
use crate::prompt::{Prompt, Renderer};
use crate::rubric::Rubric;
use crate::scenario::{self, Scenario, Split};

/// The files of a task: relative path with `/` → text with `\n` line ends.
pub type TaskFiles = BTreeMap<String, String>;

/// A valid task.
#[derive(Debug)]
pub struct Task {
    pub name: String,
    pub description: String,
    pub scenarios: Vec<Scenario>,
    /// In order of their names.
    pub prompts: Vec<Prompt>,
    pub rubric: Rubric,
    pub output: OutputContract,
    pub angles: Vec<String>,
    pub checks: Checks,
    /// Calibration cases, where the task has some.
    pub anchors: Anchors,
    pub defaults: TaskDefaults,
    /// Identifies the content that judging and comparing depend on: rubric, scenarios, anchors,
    /// checks and the output contract. Prompts have hashes of their own.
    pub sha256: String,
}

/// What a task proposes for `collect`; the configuration file and flags win. The table of options
/// says which of them a task may propose.
pub type TaskDefaults = PartialOptions;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskToml {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default = "default_scenarios")]
    scenarios: String,
    #[serde(default = "default_rubric")]
    rubric: String,
    #[serde(default = "default_prompts")]
    prompts: String,
    #[serde(default)]
    angles: Vec<String>,
    #[serde(default)]
    output: OutputContract,
    #[serde(default)]
    defaults: TaskDefaults,
    #[serde(default)]
    checks: Vec<CheckSource>,
}

/// The file of scenarios, unless the task names another.
pub const SCENARIOS_FILE: &str = "scenarios.toml";

fn default_scenarios() -> String {
    SCENARIOS_FILE.to_owned()
}

fn default_rubric() -> String {
    "rubric.md".to_owned()
}

fn default_prompts() -> String {
    "prompts".to_owned()
}

/// The file every task starts with.
pub const TASK_FILE: &str = "task.toml";

/// The name and the scenarios of a task, for readers that need nothing else of it.
#[derive(Debug)]
pub struct TaskScenarios {
    pub task: String,
    pub scenarios: Vec<Scenario>,
}

impl TaskScenarios {
    /// Parses them; problems in other parts of the task are not reported.
    pub fn parse(files: &TaskFiles) -> Result<Self, Vec<Problem>> {
        let (head, text) = head(files)?;
        Ok(Self {
            scenarios: named(files, text, &head.scenarios, scenario::parse_all)?,
            task: head.name,
        })
    }
}

fn head(files: &TaskFiles) -> Result<(TaskToml, &str), Vec<Problem>> {
    let Some(text) = files.get(TASK_FILE) else {
        let message = "this file is missing: a task's folder needs it (assize init DIR writes a copy to start from)";
        return Err(vec![Problem::new(TASK_FILE, None, message)]);
    };
    Ok((parse_toml(TASK_FILE, text, 1)?, text))
}

impl Task {
    /// Parses a task and reports every problem in it.
    pub fn parse(files: &TaskFiles) -> Result<Self, Vec<Problem>> {
        let (head, text) = head(files)?;
        let mut problems = Vec::new();
        if !is_name(&head.name) {
            let message = format!(
                "the task's name '{}' may hold a-z, 0-9, - and _ only",
                head.name
            );
            problems.push(Problem::new(TASK_FILE, line_of(text, "name"), message));
        }
        let scenarios = collect(
            &mut problems,
            named(files, text, &head.scenarios, scenario::parse_all),
        );
        let rubric = collect(
            &mut problems,
            named(files, text, &head.rubric, Rubric::parse),
        );
        let prompts = collect(
            &mut problems,
            parse_prompts(files, text, &head.prompts, scenarios.as_deref()),
        );
        let checks = rubric.as_ref().and_then(|rubric| {
            let flags: Vec<&str> = rubric.flags.iter().map(|flag| flag.name.as_str()).collect();
            check_output(&head.output, text, &flags, &mut problems);
            collect(
                &mut problems,
                Checks::compile(TASK_FILE, text, head.checks, &flags),
            )
        });
        check_defaults(&head.defaults, text, prompts.as_deref(), &mut problems);
        let (Some(scenarios), Some(rubric), Some(checks)) = (scenarios, rubric, checks) else {
            return Err(problems);
        };
        let around = Around {
            rubric: &rubric,
            scenarios: &scenarios,
            checks: &checks,
        };
        let anchors = collect(&mut problems, parse_anchors(files, around));
        let (Some(prompts), Some(anchors), true) = (prompts, anchors, problems.is_empty()) else {
            return Err(problems);
        };
        let sha256 = content_sha256(files, text, &rubric, &scenarios);
        Ok(Self {
            name: head.name,
            description: head.description,
            scenarios,
            prompts,
            rubric,
            output: head.output,
            angles: head.angles,
            checks,
            anchors,
            defaults: head.defaults,
            sha256,
        })
    }

    /// The scenarios of one split, in the order of the file.
    pub fn split(&self, split: Split) -> impl Iterator<Item = &Scenario> {
        self.scenarios
            .iter()
            .filter(move |scenario| scenario.split == split)
    }

    /// The prompt of this name.
    pub fn prompt(&self, name: &str) -> Option<&Prompt> {
        self.prompts.iter().find(|prompt| prompt.name == name)
    }
}

fn content_sha256(
    files: &TaskFiles,
    task_toml: &str,
    rubric: &Rubric,
    scenarios: &[Scenario],
) -> String {
    let scenarios: Vec<String> = scenarios
        .iter()
        .map(|it| format!("{} {} {}\n", it.id, it.split, it.sha256))
        .collect();
    let anchors = files.get(ANCHORS_FILE).map_or("", String::as_str);
    sha256_fields(&[
        (TASK_FILE, task_toml),
        ("rubric", &rubric.sha256),
        ("scenarios", &scenarios.concat()),
        (ANCHORS_FILE, anchors),
    ])
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c))
}

fn collect<T>(problems: &mut Vec<Problem>, result: Result<T, Vec<Problem>>) -> Option<T> {
    result.map_err(|more| problems.extend(more)).ok()
}

fn named<T>(
    files: &TaskFiles,
    task_toml: &str,
    file: &str,
    parse: impl Fn(&str, &str) -> Result<T, Vec<Problem>>,
) -> Result<T, Vec<Problem>> {
    let Some(text) = files.get(file) else {
        let message = format!("the file '{file}' is missing");
        let line = line_of(task_toml, file);
        return Err(vec![Problem::new(TASK_FILE, line, message)]);
    };
    parse(file, text)
}

fn parse_anchors(files: &TaskFiles, around: Around<'_>) -> Result<Anchors, Vec<Problem>> {
    match files.get(ANCHORS_FILE) {
        Some(text) => Anchors::parse(ANCHORS_FILE, text, around),
        None => Ok(Anchors::default()),
    }
}

fn parse_prompts(
    files: &TaskFiles,
    task_toml: &str,
    folder: &str,
    scenarios: Option<&[Scenario]>,
) -> Result<Vec<Prompt>, Vec<Problem>> {
    // Without scenarios every variable would look unknown.
    let known: Option<BTreeSet<String>> = scenarios.map(|scenarios| {
        let fields = scenarios.iter().flat_map(|it| it.fields.keys().cloned());
        fields.collect()
    });
    let prefix = format!("{}/", folder.trim_end_matches('/'));
    let mut problems = Vec::new();
    let mut prompts = Vec::new();
    for (file, text) in files {
        let stem = file
            .strip_prefix(&prefix)
            .and_then(|rest| rest.strip_suffix(".md"));
        let Some(name) = stem.filter(|name| !name.contains('/')) else {
            continue;
        };
        if !name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            let message = format!(
                "the prompt's name '{name}' may hold letters, digits, - _ . only: rename the file"
            );
            problems.push(Problem::new(file, None, message));
            continue;
        }
        prompts.extend(collect(
            &mut problems,
            Prompt::parse(file, name, text, known.as_ref()),
        ));
    }
    for prompt in &prompts {
        let file = format!("{prefix}{}.md", prompt.name);
        problems.extend(check_rendering(
            &file,
            prompt,
            scenarios.unwrap_or_default(),
        ));
    }
    if prompts.is_empty() && problems.is_empty() {
        let message = format!("there is no prompt: put at least one *.md into '{prefix}'");
        problems.push(Problem::new(
            TASK_FILE,
            line_of(task_toml, "prompts"),
            message,
        ));
    }
    if problems.is_empty() {
        Ok(prompts)
    } else {
        Err(problems)
    }
}

/// A prompt must render for every scenario, not only name known fields.
fn check_rendering(file: &str, prompt: &Prompt, scenarios: &[Scenario]) -> Option<Problem> {
    let renderer = Renderer::new(prompt);
    let broken = |it: &Scenario| match &renderer {
        Ok(renderer) => renderer.render(it, "").err(),
        Err(error) => Some(error.clone()),
    };
    let (scenario, error) = scenarios
        .iter()
        .find_map(|it| broken(it).map(|error| (it, error)))?;
    let lacking: Vec<String> = prompt
        .variables()
        .into_iter()
        .filter(|name| name != "angle" && !scenario.fields.contains_key(name))
        .collect();
    let message = if lacking.is_empty() {
        format!("does not render for scenario '{}': {error}", scenario.id)
    } else {
        format!(
            "does not render for scenario '{}', which has no field '{}': add the field to the \
             scenario, or ask in the template whether it is defined",
            scenario.id,
            lacking.join("', '"),
        )
    };
    Some(Problem::new(file, None, message))
}

fn check_output(output: &OutputContract, text: &str, flags: &[&str], problems: &mut Vec<Problem>) {
    if let Some(flag) = output.flag.as_deref().filter(|flag| !flags.contains(flag)) {
        let message = format!("output.flag is '{flag}', which is not a flag of the rubric");
        problems.push(Problem::new(TASK_FILE, line_of(text, "flag"), message));
    }
    if let Some(error) = output
        .schema
        .as_ref()
        .and_then(|schema| jsonschema::validator_for(schema).err())
    {
        let message = format!("output.schema is not a JSON schema: {error}");
        problems.push(Problem::new(TASK_FILE, line_of(text, "schema"), message));
    }
}

fn check_defaults(
    defaults: &TaskDefaults,
    text: &str,
    prompts: Option<&[Prompt]>,
    problems: &mut Vec<Problem>,
) {
    let proposable: Vec<&str> = OPTIONS
        .iter()
        .filter(|it| it.is_proposable)
        .map(|it| it.key)
        .collect();
    for key in defaults.keys() {
        if !proposable.contains(&key) {
            let message = format!(
                "defaults.{key} cannot be set by a task: use one of {}",
                proposable.join(", ")
            );
            problems.push(Problem::new(TASK_FILE, line_of(text, key), message));
        }
    }
    for (key, problem) in defaults.range_problems() {
        let message = format!("defaults.{key} {problem}");
        problems.push(Problem::new(TASK_FILE, line_of(text, key), message));
    }
    let Some(prompts) = prompts else {
        return;
    };
    for name in defaults.prompts.iter().flatten() {
        if !prompts.iter().any(|prompt| prompt.name == *name) {
            let names = prompts
                .iter()
                .map(|prompt| prompt.name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            let message = format!(
                "defaults.prompts names '{name}', which is not a prompt of this task: use one of {names}"
            );
            problems.push(Problem::new(TASK_FILE, line_of(text, name), message));
        }
    }
}
