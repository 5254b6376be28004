//! Variants: the prompts of a collection, each with every combination of swept settings.

use assize_domain::options::{Options, Texts};
use assize_domain::prompt::{Prompt, Renderer};
use assize_domain::sweep::{self, NO_SYSTEM, OWN_SYSTEM, SYSTEM, Settings};
use assize_domain::task::Task;

use super::CollectOptions;
use crate::{PipelineError, Result};

/// A prompt with the settings that it is collected with.
#[derive(Debug)]
pub struct Variant {
    /// With the system message that is really used.
    pub prompt: Prompt,
    /// The prompt's name and the swept settings: `v1+temperature=0.2`.
    pub label: String,
    pub settings: Settings,
    pub values: Options,
    /// The options in every cell's key, and those that were changed.
    pub(super) identity: (Texts, Texts),
    pub(super) renderer: Renderer,
    /// Its place in the grid.
    pub(super) place: usize,
}

/// All variants, prompt by prompt.
pub fn variants(task: &Task, options: &CollectOptions) -> Result<Vec<Variant>> {
    let swept = sweep::variants(&options.values.sweep)
        .map_err(|problem| PipelineError::Invalid(format!("sweep {problem}")))?;
    let mut variants = Vec::new();
    for name in &options.values.prompts {
        let Some(prompt) = task.prompt(name) else {
            let names: Vec<&str> = task.prompts.iter().map(|it| it.name.as_str()).collect();
            return Err(PipelineError::Invalid(format!(
                "the task {} has no prompt '{name}': use one of {}",
                task.name,
                names.join(", ")
            )));
        };
        for settings in &swept {
            let prompt = with_system(task, prompt, settings.get(SYSTEM))?;
            let values = settings.applied(&options.values);
            if values.num_ctx <= values.max_tokens {
                return Err(PipelineError::Invalid(format!(
                    "sweep has max_tokens={}, and num_ctx is {}: it must hold the prompt and max_tokens",
                    values.max_tokens, values.num_ctx
                )));
            }
            variants.push(Variant {
                label: settings.label(&prompt.name),
                renderer: Renderer::new(&prompt).map_err(PipelineError::Invalid)?,
                identity: values.identity(),
                settings: settings.clone(),
                place: variants.len(),
                values,
                prompt,
            });
        }
    }
    Ok(variants)
}

/// The prompt with another system message of the task.
pub(crate) fn with_system(task: &Task, prompt: &Prompt, system: Option<&str>) -> Result<Prompt> {
    let system = match system {
        None | Some(OWN_SYSTEM) => return Ok(prompt.clone()),
        Some(NO_SYSTEM) => None,
        Some(name) => Some(task.systems.get(name).ok_or_else(|| {
            let names = task.systems.keys().map(String::as_str);
            let names: Vec<&str> = [OWN_SYSTEM, NO_SYSTEM].into_iter().chain(names).collect();
            PipelineError::Invalid(format!(
                "the task {} has no system message '{name}': use one of {}, or add systems/{name}.md",
                task.name,
                names.join(", ")
            ))
        })?),
    };
    Ok(prompt.with_system(system.map(String::as_str)))
}
