//! A task: scenarios, prompt versions, one rubric, the output contract and defaults.
//!
//! A task is a folder of data. Parsing takes the files' texts, so that built-in tasks,
//! folders and tests share one path; reading folders is done elsewhere. Everything wrong is
//! reported at once, each mistake with its file and line.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::anchor::{ANCHORS_FILE, Anchors, Around};
use crate::check::Checks;
use crate::computed::Scorer;
use crate::hash::sha256_fields;
use crate::image::{self, Image};
use crate::options::{OPTIONS, PartialOptions};
use crate::output::{Fences, OutputContract, OutputFormat};
use crate::problem::{Problem, line_of, parse_toml};
use crate::prompt::Prompt;
use crate::rubric::Rubric;
use crate::rule::RuleSource;
use crate::scenario::{self, Scenario, Split};
use crate::tool::Tool;

mod prompts;

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
    /// System messages by name, for sweeps.
    pub systems: BTreeMap<String, String>,
    pub rubric: Rubric,
    pub output: OutputContract,
    pub angles: Vec<String>,
    /// What models may call instead of answering.
    pub tools: Vec<Tool>,
    /// The field of scenarios that names files with images.
    pub images_field: Option<String>,
    /// Those files by their path; whoever reads the task's folder adds them.
    pub images: BTreeMap<String, Arc<Image>>,
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
    tools: Option<String>,
    images: Option<String>,
    #[serde(default)]
    output: OutputContract,
    #[serde(default)]
    defaults: TaskDefaults,
    #[serde(default)]
    checks: Vec<RuleSource>,
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
            prompts::parse_prompts(files, text, &head.prompts, scenarios.as_deref()),
        );
        let systems = collect(
            &mut problems,
            prompts::parse_systems(files, scenarios.as_deref()),
        );
        let tools = parse_tools(files, text, &head, scenarios.as_deref(), &mut problems);
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
        let rubric_file = (head.rubric.as_str(), files[&head.rubric].as_str());
        problems.extend(computing_problems(around, &head.output, text, rubric_file));
        let anchors = collect(&mut problems, parse_anchors(files, around));
        let is_sound = problems.is_empty();
        let (Some(prompts), Some(systems), Some(anchors), true) =
            (prompts, systems, anchors, is_sound)
        else {
            return Err(problems);
        };
        let sha256 = content_sha256(files, text, &rubric, &scenarios);
        Ok(Self {
            name: head.name,
            description: head.description,
            scenarios,
            prompts,
            systems,
            rubric,
            output: head.output,
            angles: head.angles,
            tools,
            images_field: head.images,
            images: BTreeMap::new(),
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

    /// The images that go with a scenario.
    pub fn images_of(&self, scenario: &Scenario) -> Vec<Arc<Image>> {
        let field = self.images_field.as_ref();
        let paths = field.and_then(|field| image::named(scenario, field).ok());
        let paths = paths.unwrap_or_default().into_iter();
        paths
            .filter_map(|path| self.images.get(&path).cloned())
            .collect()
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

/// The tools; and whether scenarios name images as they should.
fn parse_tools(
    files: &TaskFiles,
    task_toml: &str,
    head: &TaskToml,
    scenarios: Option<&[Scenario]>,
    problems: &mut Vec<Problem>,
) -> Vec<Tool> {
    if let (Some(field), Some(scenarios)) = (&head.images, scenarios)
        && let Err(message) = image::all_named(scenarios, field)
    {
        problems.push(Problem::new(&head.scenarios, None, message));
    }
    let file = head.tools.as_ref();
    let tools = file.map(|file| named(files, task_toml, file, Tool::parse_all));
    tools
        .and_then(|tools| collect(problems, tools))
        .unwrap_or_default()
}

fn parse_anchors(files: &TaskFiles, around: Around<'_>) -> Result<Anchors, Vec<Problem>> {
    match files.get(ANCHORS_FILE) {
        Some(text) => Anchors::parse(ANCHORS_FILE, text, around),
        None => Ok(Anchors::default()),
    }
}

fn check_output(output: &OutputContract, text: &str, flags: &[&str], problems: &mut Vec<Problem>) {
    if let Some(flag) = output.flag.as_deref().filter(|flag| !flags.contains(flag)) {
        let message = format!("output.flag is '{flag}', which is not a flag of the rubric");
        problems.push(Problem::new(TASK_FILE, line_of(text, "flag"), message));
    }
    if let Some(flag) = output.fences_flag().filter(|flag| !flags.contains(flag)) {
        let message = format!(
            "output.fences = \"strip\" counts stripped fences as the flag '{flag}', which the rubric does \
             not have: add a [[flags]] table of that name, or name another flag in output.fences_flag"
        );
        problems.push(Problem::new(TASK_FILE, line_of(text, "fences"), message));
    }
    if output.fences_flag.is_some() && output.fences == Fences::Keep {
        let message = "output.fences_flag goes with output.fences = \"strip\" only";
        problems.push(Problem::new(
            TASK_FILE,
            line_of(text, "fences_flag"),
            message,
        ));
    }
    if output.format == OutputFormat::Text && output.fences == Fences::Strip {
        let message = "output.fences goes with output.format = \"json\" only";
        problems.push(Problem::new(TASK_FILE, line_of(text, "fences"), message));
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

/// What keeps rules from computing what they should: a scenario without the field that they compare
/// with, a flag that nothing sets.
fn computing_problems(
    around: Around<'_>,
    output: &OutputContract,
    task_toml: &str,
    (rubric_file, rubric_text): (&str, &str),
) -> Vec<Problem> {
    let Around {
        rubric,
        scenarios,
        checks,
    } = around;
    let mut problems = Vec::new();
    let is_flag = |name: &str| rubric.flags.iter().any(|it| it.name == name);
    let quoted = |name: &str| format!("\"{name}\"");
    for scenario in scenarios {
        let context = scenario.judge_context();
        for (name, fault) in Scorer::new(rubric, checks, &context).faults() {
            let (file, text) = if is_flag(name) {
                (TASK_FILE, task_toml)
            } else {
                (rubric_file, rubric_text)
            };
            let message = format!("'{name}' in scenario '{}': {fault}", scenario.id);
            problems.push(Problem::new(file, line_of(text, &quoted(name)), message));
        }
    }
    if rubric.needs_judge() {
        return problems;
    }
    let own = [output.flag.as_deref(), output.fences_flag()];
    for flag in &rubric.flags {
        let name = flag.name.as_str();
        if !checks.sets(name) && !own.contains(&Some(name)) {
            let message = format!(
                "nothing sets the flag '{name}': every criterion is computed, so no judge is asked. Add a \
                 check in {TASK_FILE}, name it as output.flag, or remove it"
            );
            let line = line_of(rubric_text, &quoted(name));
            problems.push(Problem::new(rubric_file, line, message));
        }
    }
    problems
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
