//! The grid: which cells there are, in which order, and which key each has.

use std::collections::BTreeSet;
use std::sync::Arc;

use assize_domain::cell::CellIdentity;
use assize_domain::hash::{canonical_json, sha256_hex};
use assize_domain::image::Image;
use assize_domain::model::ProviderKind;
use assize_domain::prompt::Rendered;
use assize_domain::scenario::Scenario;
use assize_domain::task::Task;
use assize_domain::tool::Tool;

use super::CollectOptions;
use super::variant::{Variant, variants};
use crate::size_gate::SizedModel;
use crate::{PipelineError, Result};

/// The prompts and scenarios of a collection, checked and compiled.
#[derive(Debug)]
pub struct Grid<'a> {
    task: &'a Task,
    options: &'a CollectOptions,
    variants: Vec<Arc<Variant>>,
    scenarios: Vec<&'a Scenario>,
    schema: String,
    /// As canonical JSON; empty without any.
    tools: String,
    only: Option<&'a Subset>,
}

/// A part of a grid; what is not in it is neither collected nor counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subset {
    /// (model, label of the prompt)
    pub pairs: BTreeSet<(String, String)>,
    /// Ids.
    pub scenarios: BTreeSet<String>,
}

/// One cell of a model, before anything is generated.
#[derive(Debug)]
pub struct Cell<'a> {
    pub variant: Arc<Variant>,
    pub scenario: &'a Scenario,
    pub key: String,
    pub images: Vec<Arc<Image>>,
    /// One for all candidates, or one each with `--diversity`.
    pub rendered: Vec<Arc<Rendered>>,
}

impl<'a> Grid<'a> {
    /// Finds the prompts and scenarios that the options name.
    pub fn new(task: &'a Task, options: &'a CollectOptions) -> Result<Self> {
        let variants = variants(task, options)?;
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
            variants: variants.into_iter().map(Arc::new).collect(),
            scenarios,
            schema,
            tools: match &task.tools[..] {
                [] => String::new(),
                tools => canonical_json(&tools.iter().map(Tool::function).collect()),
            },
            only: None,
        })
    }

    /// The same grid, of which only a part is looked at.
    #[must_use]
    pub fn within(self, only: Option<&'a Subset>) -> Self {
        Self { only, ..self }
    }

    /// The prompts with their swept settings.
    pub fn variants(&self) -> impl Iterator<Item = &Variant> {
        self.variants.iter().map(Arc::as_ref)
    }

    pub fn scenarios(&self) -> &[&'a Scenario] {
        &self.scenarios
    }

    /// Refuses a model whose provider cannot do what the task or the options ask for: a run that
    /// records an image or an option must have used it.
    pub fn check(&self, model: &SizedModel) -> Result<()> {
        let mut variants = self.variants();
        if model.id.provider == ProviderKind::Anthropic
            && variants.any(|it| it.values.temperature > 1.0)
        {
            let message = format!("{} takes a temperature of 1 at most: lower it", model.id);
            return Err(PipelineError::Invalid(message));
        }
        if model.id.provider != ProviderKind::Embedded {
            return Ok(());
        }
        let refused = [
            (!self.task.tools.is_empty(), "call tools"),
            (self.task.images_field.is_some(), "see images"),
            (
                self.variants()
                    .any(|it| !it.values.model_options.is_empty()),
                "take options of the model (--model-options, or a sweep of one)",
            ),
        ];
        let wrong = refused.into_iter().find(|(asked, _)| *asked);
        wrong.map_or(Ok(()), |(_, what)| {
            Err(PipelineError::Invalid(format!(
                "{} cannot {what}: use a model of Ollama or of an API, or leave that out",
                model.id
            )))
        })
    }

    /// Cells of one model, before sharding.
    pub fn cells_per_model(&self) -> usize {
        self.variants.len() * self.scenarios.len()
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

    /// Where the cells of a model that fall into this shard stand in the grid.
    pub(super) fn positions(&self, model: &SizedModel) -> impl Iterator<Item = usize> {
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
        let cells = self.variants.iter().flat_map(|variant| {
            let has_pair = only.pairs.contains(&(model.clone(), variant.label.clone()));
            let scenarios = self.scenarios.iter();
            scenarios.map(move |it| has_pair && only.scenarios.contains(&it.id))
        });
        Some(cells.collect())
    }

    pub(super) fn cell(&self, model: &SizedModel, position: usize) -> Result<Cell<'a>> {
        let variant = &self.variants[position / self.scenarios.len()];
        let scenario = self.scenarios[position % self.scenarios.len()];
        let render = |angle: &str| {
            variant
                .renderer
                .render(scenario, angle)
                .map(Arc::new)
                .map_err(|error| {
                    PipelineError::Invalid(format!(
                        "prompt {} × scenario {}: {error}",
                        variant.label, scenario.id
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
        let images = self.task.images_of(scenario);
        let mut changed = variant.identity.1.clone();
        if !images.is_empty() {
            let hashes: Vec<&str> = images.iter().map(|it| it.sha256.as_str()).collect();
            changed.push(("images", hashes.join(" ")));
        }
        if !self.tools.is_empty() {
            changed.push(("tools", self.tools.clone()));
        }
        let key = CellIdentity {
            task: &self.task.name,
            split: self.options.values.split.as_str(),
            model: &model_id,
            model_digest: &model.info.digest,
            prompt: &variant.prompt.name,
            rendered_sha256: &sha256_hex(hashes.as_bytes()),
            scenario: &scenario.id,
            scenario_sha256: &scenario.sha256,
            options: &variant.identity.0,
            changed: &changed,
            schema: &self.schema,
        }
        .key();
        Ok(Cell {
            variant: Arc::clone(variant),
            scenario,
            key,
            images,
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
