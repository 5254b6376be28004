//! A task from a promptfoo configuration.
//!
//! Prompts become prompt versions, every test (with each combination of its listed variables) a
//! scenario, and assertions that need no model the scenario's own rules (`expect`), which two computed
//! criteria score: `passed` (all of them hold, or the test's threshold is reached) and `score` (the share
//! that holds, by weight). `llm-rubric` becomes a criterion for judges. Everything else is listed as not
//! carried over.

use std::collections::BTreeSet;

use assize_domain::task::TaskFiles;
use serde_json::{Map, Value, json};

use crate::names::{self, Unique};
use crate::write::{self, quoted};
use crate::{Import, Result, invalid};

mod assertions;
mod csv_tests;
mod prompts;
mod providers;
mod regex_syntax;
mod tests;

use assertions::Expectation;
use prompts::PromptText;
use tests::Test;

/// The largest configuration, in bytes.
const MOST_BYTES: usize = 16 << 20;
/// The most scenarios that lists of variables may make.
const MOST_SCENARIOS: usize = 100_000;

/// Reads a file that the configuration names, relative to the configuration.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> std::result::Result<String, String>;
/// The names of the files in a folder, relative to the configuration.
pub type ListFolder<'a> = &'a dyn Fn(&str) -> Vec<String>;

/// A configuration and the files around it.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The file's name, for messages.
    pub file: &'a str,
    pub text: &'a str,
    /// The name of the new task.
    pub name: &'a str,
    pub read: ReadFile<'a>,
    pub list: ListFolder<'a>,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// What the import does with the keys of the configuration.
const CARRIED: [&str; 7] = [
    "description",
    "prompts",
    "providers",
    "targets",
    "tests",
    "defaultTest",
    "assertionTemplates",
];
/// Keys that say nothing about the task.
const IRRELEVANT: [&str; 5] = [
    "$schema",
    "outputPath",
    "sharing",
    "writeLatestResults",
    "tags",
];

/// Makes the files of a task.
pub fn import(source: Source<'_>) -> Result<Import> {
    let Value::Object(config) = yaml(source.file, source.text)? else {
        return invalid(format!(
            "{} is not a promptfoo configuration: it has no keys",
            source.file
        ));
    };
    let mut notes = Vec::new();
    for key in config.keys() {
        if !CARRIED.contains(&key.as_str()) && !IRRELEVANT.contains(&key.as_str()) {
            notes.push(format!("the key '{key}' of the configuration"));
        }
    }
    let prompts = prompts::read(source, config.get("prompts"), &mut notes)?;
    let tests = tests::read(source, &config, &mut notes)?;
    let scenarios = scenarios(&prompts, &tests, &mut notes)?;
    let provider_key = config.get("providers").or_else(|| config.get("targets"));
    let providers = providers::read(provider_key, &mut notes);
    let asks_judge = scenarios.iter().any(|it| it.contains_key("rubric"));
    let mut files = TaskFiles::new();
    let about = config
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    files.insert(
        "task.toml".to_owned(),
        task(source, about, &providers.defaults),
    );
    files.insert(
        "rubric.md".to_owned(),
        rubric(&names::task(source.name), asks_judge),
    );
    for prompt in &prompts {
        files.insert(format!("prompts/{}.md", prompt.name), prompt.file());
    }
    files.insert("scenarios.jsonl".to_owned(), write::jsonl(&scenarios));
    files.extend([write::notes(source.file, &notes)]);
    Ok(Import {
        files,
        scenarios: scenarios.len(),
        prompts: prompts.len(),
        notes,
        models: providers.models,
    })
}

/// Reads YAML within limits: anchors that multiply are refused.
fn yaml(file: &str, text: &str) -> Result<Value> {
    if text.len() > MOST_BYTES {
        return invalid(format!("{file} is larger than {} MiB", MOST_BYTES >> 20));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 64,
            max_nodes: 500_000,
            max_events: 2_000_000,
            max_total_scalar_bytes: 64 << 20,
        },
    };
    serde_saphyr::from_str_with_options(text, options)
        .or_else(|error| invalid(format!("{file} is not YAML that can be read: {error}")))
}

/// Every test with each combination of its listed variables.
fn scenarios(
    prompts: &[PromptText],
    tests: &[Test],
    notes: &mut Vec<String>,
) -> Result<Vec<Map<String, Value>>> {
    let mut used: BTreeSet<String> = prompts.iter().flat_map(PromptText::variables).collect();
    used.extend(tests.iter().flat_map(|test| test.vars.keys().cloned()));
    let mut ids = Unique::default();
    let mut scenarios = Vec::new();
    let digits = tests.len().to_string().len();
    for (position, test) in tests.iter().enumerate() {
        for vars in test.combinations() {
            if scenarios.len() >= MOST_SCENARIOS {
                return invalid(format!(
                    "the lists of variables make more than {MOST_SCENARIOS} scenarios"
                ));
            }
            let described = test
                .description
                .as_deref()
                .map(names::id)
                .unwrap_or_default();
            let number = format!("test-{:0digits$}", position + 1);
            let id = if described.is_empty() {
                number.clone()
            } else {
                described
            };
            let place = format!("test {}", position + 1);
            let expectation = Expectation::of(test, &vars, &place, notes);
            let mut scenario = Map::new();
            scenario.insert("id".to_owned(), ids.give(id, '-').into());
            for name in &used {
                let value = vars.get(name).cloned().unwrap_or_else(|| Value::from(""));
                scenario.insert(field_of(name), value);
            }
            expectation.add_to(&mut scenario);
            scenarios.push(scenario);
        }
    }
    if scenarios.iter().any(|it| it.contains_key("rubric")) {
        for scenario in &mut scenarios {
            scenario.entry("rubric").or_insert_with(|| json!(""));
        }
    }
    Ok(scenarios)
}

/// A variable as a field: names that scenarios use themselves get an underscore.
fn field_of(name: &str) -> String {
    match name {
        "id" | "split" | "reference" | "expect" | "angle" | "rubric" => format!("{name}_"),
        other => other.to_owned(),
    }
}

fn task(source: Source<'_>, about: &str, defaults: &[(&str, Value)]) -> String {
    let about = if about.is_empty() {
        format!("Imported from {}.", source.file)
    } else {
        about.to_owned()
    };
    let mut text = format!(
        "name = {}\ndescription = {}\nscenarios = \"scenarios.jsonl\"\n\n[defaults]\nn_tips = 1\n",
        quoted(&names::task(source.name)),
        quoted(&about)
    );
    for (name, value) in defaults {
        text.push_str(&format!("{name} = {value}\n"));
    }
    text
}

fn rubric(name: &str, asks_judge: bool) -> String {
    let judged = "\n[[criteria]]\nname = \"meets_rubric\"\nquestion = \"Does the output do what the scenario's rubric asks? Where \
                  the rubric is empty, give 1.\"\nmin = 0\nmax = 1\n[criteria.anchors]\n0 = \"It does not.\"\n1 = \"It does, or \
                  there is no rubric.\"\n";
    let (composite, judged) = if asks_judge {
        ("passed + meets_rubric", judged)
    } else {
        ("passed", "")
    };
    format!(
        "+++\nid = \"{name}-v1\"\ntitle = \"Assertions that hold\"\ncomposite = \"{composite}\"\n{judged}\n[[criteria]]\n\
         name = \"passed\"\nquestion = \"Do all assertions of the test hold, or as many as its threshold asks?\"\n\
         [criteria.computed]\nexpect = \"all\"\n\n[[criteria]]\nname = \"score\"\nquestion = \"Which share of the assertions \
         holds, by weight?\"\n[criteria.computed]\nexpect = \"share\"\n+++\n# How outputs are scored\n\nEvery scenario has \
         assertions of its own, under `expect`. Rules check them; no judge is asked about them.\n"
    )
}
