//! The grid: which cells there are, in which order, and which key each has.

use std::collections::BTreeSet;
use std::sync::Arc;

use assize_domain::cell::CellIdentity;
use assize_domain::hash::{canonical_json, sha256_hex};
use assize_domain::options::Texts;
use assize_domain::prompt::{Prompt, Rendered, Renderer};
use assize_domain::scenario::Scenario;
use assize_domain::task::Task;

use super::CollectOptions;
use crate::size_gate::SizedModel;
use crate::{PipelineError, Result};

/// The prompts and scenarios of a collection, checked and compiled.
#[derive(Debug)]
pub struct Grid<'a> {
    task: &'a Task,
    options: &'a CollectOptions,
    prompts: Vec<(&'a Prompt, Renderer)>,
    scenarios: Vec<&'a Scenario>,
    schema: String,
    /// The options in every cell's key, and those that were changed.
    identity: (Texts, Texts),
    only: Option<&'a Subset>,
}

/// A part of a grid; what is not in it is neither collected nor counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subset {
    /// (model, prompt)
    pub pairs: BTreeSet<(String, String)>,
    /// Ids.
    pub scenarios: BTreeSet<String>,
}

/// One cell of a model, before anything is generated.
#[derive(Debug)]
pub struct Cell<'a> {
    pub prompt: &'a Prompt,
    pub scenario: &'a Scenario,
    pub key: String,
    /// One for all candidates, or one each with `--diversity`.
    pub rendered: Vec<Arc<Rendered>>,
}

impl<'a> Grid<'a> {
    /// Finds the prompts and scenarios that the options name.
    pub fn new(task: &'a Task, options: &'a CollectOptions) -> Result<Self> {
        let mut prompts = Vec::new();
        for name in &options.values.prompts {
            let Some(prompt) = task.prompt(name) else {
                let names = task
                    .prompts
                    .iter()
                    .map(|it| it.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ");
                return Err(PipelineError::Invalid(format!(
                    "the task {} has no prompt '{name}': use one of {names}",
                    task.name
                )));
            };
            prompts.push((
                prompt,
                Renderer::new(prompt).map_err(PipelineError::Invalid)?,
            ));
        }
        let cap = if options.values.n_scenarios == 0 {
            usize::MAX
        } else {
            options.values.n_scenarios as usize
        };
        let scenarios: Vec<_> = task.split(options.values.split).take(cap).collect();
        if scenarios.is_empty() {
            return Err(PipelineError::Invalid(format!(
                "the task {} has no scenario in the split {}",
                task.name, options.values.split
            )));
        }
        if options.values.diversity && task.angles.is_empty() {
            return Err(PipelineError::Invalid(format!(
                "--diversity needs angles, and the task {} has none: add angles = [\"…\"] to its task.toml",
                task.name
            )));
        }
        let schema = task
            .output
            .schema
            .as_ref()
            .map(canonical_json)
            .unwrap_or_default();
        Ok(Self {
            task,
            options,
            prompts,
            scenarios,
            schema,
            identity: options.values.identity(),
            only: None,
        })
    }

    /// The same grid, of which only a part is looked at.
    #[must_use]
    pub fn within(self, only: Option<&'a Subset>) -> Self {
        Self { only, ..self }
    }

    pub fn prompts(&self) -> impl Iterator<Item = &'a Prompt> {
        self.prompts.iter().map(|(prompt, _)| *prompt)
    }

    pub fn scenarios(&self) -> &[&'a Scenario] {
        &self.scenarios
    }

    /// Cells of one model, before sharding.
    pub fn cells_per_model(&self) -> usize {
        self.prompts.len() * self.scenarios.len()
    }

    /// How many cells of a model fall into this shard.
    pub fn count(&self, model: &SizedModel) -> u64 {
        self.positions(model).count() as u64
    }

    /// The cells of a model that fall into this shard, prompt by prompt.
    pub fn cells(&self, model: &'a SizedModel) -> impl Iterator<Item = Result<Cell<'a>>> {
        self.positions(model)
            .map(move |position| self.cell(model, position))
    }

    fn positions(&self, model: &SizedModel) -> impl Iterator<Item = usize> {
        let models = self.options.models.len().max(1);
        let position = self
            .options
            .models
            .iter()
            .position(|id| *id == model.id)
            .unwrap_or(0);
        let per_model = self.cells_per_model();
        let shard = self.options.shard;
        let wanted = self.wanted(model);
        let cells = (0..per_model).filter(move |cell| wanted.as_ref().is_none_or(|it| it[*cell]));
        cells.filter(move |cell| {
            shard.is_none_or(|(this, of)| {
                let of = of as usize;
                // Whole models where there are enough of them, else runs of neighbouring cells.
                let owner = if of <= models {
                    position * of / models
                } else {
                    (position * per_model + cell) * of / (models * per_model)
                };
                owner + 1 == this as usize
            })
        })
    }

    /// Which of a model's cells are in the part that is looked at; `None` for all.
    fn wanted(&self, model: &SizedModel) -> Option<Vec<bool>> {
        let only = self.only?;
        let model = model.id.to_string();
        let cells = self.prompts.iter().flat_map(|(prompt, _)| {
            let has_pair = only.pairs.contains(&(model.clone(), prompt.name.clone()));
            let scenarios = self.scenarios.iter();
            scenarios.map(move |it| has_pair && only.scenarios.contains(&it.id))
        });
        Some(cells.collect())
    }

    fn cell(&self, model: &SizedModel, position: usize) -> Result<Cell<'a>> {
        let (prompt, renderer) = &self.prompts[position / self.scenarios.len()];
        let scenario = self.scenarios[position % self.scenarios.len()];
        let render = |angle: &str| {
            renderer
                .render(scenario, angle)
                .map(Arc::new)
                .map_err(|error| {
                    PipelineError::Invalid(format!(
                        "prompt {} × scenario {}: {error}",
                        prompt.name, scenario.id
                    ))
                })
        };
        let prompts = if self.options.values.diversity {
            (0..self.options.values.n_tips)
                .map(|index| render(self.angle(index)))
                .collect::<Result<Vec<_>>>()?
        } else {
            vec![render("")?]
        };
        let hashes: String = prompts.iter().map(|it| it.sha256()).collect();
        let model_id = model.id.to_string();
        let key = CellIdentity {
            task: &self.task.name,
            split: self.options.values.split.as_str(),
            model: &model_id,
            model_digest: &model.info.digest,
            prompt: &prompt.name,
            rendered_sha256: &sha256_hex(hashes.as_bytes()),
            scenario: &scenario.id,
            scenario_sha256: &scenario.sha256,
            options: &self.identity.0,
            changed: &self.identity.1,
            schema: &self.schema,
        }
        .key();
        Ok(Cell {
            prompt,
            scenario,
            key,
            rendered: prompts,
        })
    }

    /// The angle of a candidate; they repeat from the start.
    pub fn angle(&self, index: u32) -> &'a str {
        let angles = &self.task.angles;
        angles
            .get(index as usize % angles.len().max(1))
            .map_or("", String::as_str)
    }
}
