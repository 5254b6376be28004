//! The prompts of a task's folder, and its system messages.

use std::collections::{BTreeMap, BTreeSet};

use super::{TASK_FILE, TaskFiles, collect};
use crate::problem::{Problem, line_of};
use crate::prompt::{Prompt, Renderer};
use crate::scenario::Scenario;
use crate::sweep::{NO_SYSTEM, OWN_SYSTEM};

/// The folder of system messages that a sweep of `system` names.
const SYSTEMS: &str = "systems/";

/// The system messages by name. Each is a template, as in a prompt.
pub(super) fn parse_systems(
    files: &TaskFiles,
    scenarios: Option<&[Scenario]>,
) -> Result<BTreeMap<String, String>, Vec<Problem>> {
    let known = scenarios.map(known_fields);
    let mut problems = Vec::new();
    let mut systems = BTreeMap::new();
    for (file, text) in files {
        let stem = file
            .strip_prefix(SYSTEMS)
            .and_then(|rest| rest.strip_suffix(".md"));
        let Some(name) = stem else {
            continue;
        };
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        if [OWN_SYSTEM, NO_SYSTEM].contains(&name) || !name.chars().all(is_plain) {
            let message = format!(
                "the system message's name '{name}' may hold letters, digits, - _ . only, and neither \
                 '{OWN_SYSTEM}' nor '{NO_SYSTEM}': rename the file"
            );
            problems.push(Problem::new(file, None, message));
            continue;
        }
        // A prompt of nothing else has the same rules for its template.
        let parsed = collect(
            &mut problems,
            Prompt::parse(file, name, text, known.as_ref()),
        );
        let Some(prompt) = parsed else {
            continue;
        };
        let broken = check_rendering(file, &prompt, scenarios.unwrap_or_default());
        problems.extend(broken);
        systems.insert(name.to_owned(), prompt.body);
    }
    if problems.is_empty() {
        Ok(systems)
    } else {
        Err(problems)
    }
}

fn known_fields(scenarios: &[Scenario]) -> BTreeSet<String> {
    let fields = scenarios.iter().flat_map(|it| it.fields.keys().cloned());
    fields.collect()
}

pub(super) fn parse_prompts(
    files: &TaskFiles,
    task_toml: &str,
    folder: &str,
    scenarios: Option<&[Scenario]>,
) -> Result<Vec<Prompt>, Vec<Problem>> {
    // Without scenarios every variable would look unknown.
    let known = scenarios.map(known_fields);
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
