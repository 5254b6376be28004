//! The free screens and the texts of packets, with what the task and the loop know.

use assize_domain::prompt::Prompt;
use assize_domain::task::Task;
use assize_optimise::packet::TaskTexts;
use assize_optimise::screens::{Material, Screens};
use assize_optimise::{Node, Rejection, Tree, Version};

use super::LoopContext;
use super::feedback::contract_words;
use crate::{PipelineError, Result};

impl LoopContext<'_> {
    /// The first free screen that a child does not pass.
    pub(super) fn screens(
        &self,
        task: &Task,
        tree: &Tree,
        child: &Node,
    ) -> Result<Option<Rejection>> {
        let earlier = tree.nodes.iter().take_while(|it| it.id != child.id);
        let mut seen: Vec<&Version> = earlier.map(|it| &it.version).collect();
        seen.push(&self.setup.incumbent);
        self.with_screens(task, tree, |screens| {
            screens.check(&child.version, &seen).err()
        })
    }

    /// What packets quote of the task.
    pub(super) fn texts(&self, task: &Task, tree: &Tree) -> Result<TaskTexts> {
        self.with_screens(task, tree, |screens| TaskTexts {
            output_contract: contract_words(&task.output),
            rubric: task.rubric.text.clone(),
            variables: screens.variables(),
            longest: Some(screens.longest()),
        })
    }

    fn with_screens<T>(
        &self,
        task: &Task,
        tree: &Tree,
        work: impl FnOnce(&Screens<'_>) -> T,
    ) -> Result<T> {
        let seed = prompt_of(&tree.seed().version)?;
        let champion = prompt_of(&self.setup.incumbent)?;
        let output_contract = contract_words(&task.output);
        Ok(work(&Screens::new(Material {
            seed: &seed,
            champion: &champion,
            scenarios: &task.scenarios,
            anchors: &task.anchors.cases,
            output_contract: &output_contract,
            rubric: &task.rubric.text,
            angles: &task.angles,
            num_ctx: self.values.num_ctx,
            max_tokens: self.values.max_tokens,
        })))
    }
}

fn prompt_of(version: &Version) -> Result<Prompt> {
    version.to_prompt("", None).map_err(|problems| {
        let problem = problems.first().map(|it| it.message.clone());
        PipelineError::Invalid(format!(
            "the prompt {} cannot be used: {}",
            version.name,
            problem.unwrap_or_default()
        ))
    })
}
