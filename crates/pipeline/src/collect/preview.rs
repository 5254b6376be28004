//! Outputs of a few cells, for the author of a prompt: generated and shown, never tracked.
//!
//! Candidates have the same seeds whatever the prompt says, so that a difference between two outputs
//! comes from the edit.

use assize_domain::output::OutputReader;
use assize_domain::task::Task;

use super::CollectOptions;
use super::grid::Grid;
use super::request::request;
use crate::guard::{Guard, Place};
use crate::size_gate::SizedModel;
use crate::{PipelineError, Result};

/// One output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    pub model: String,
    /// The label of the prompt.
    pub prompt: String,
    pub scenario: String,
    pub candidate: u32,
    /// The candidate's text, or why there is none.
    pub text: std::result::Result<String, String>,
    pub from_cache: bool,
}

/// Generates all cells of the grid.
pub fn preview(
    task: &Task,
    options: &CollectOptions,
    models: &[SizedModel],
    guard: &Guard,
    stopped: &dyn Fn() -> bool,
) -> Result<Vec<Preview>> {
    let grid = Grid::new(task, options)?;
    let output = OutputReader::new(&task.output);
    let mut previews = Vec::new();
    for model in models {
        grid.check(model)?;
        let provider = model
            .providers
            .first()
            .ok_or_else(|| PipelineError::Invalid(format!("no provider can run {}", model.id)))?;
        let place = Place {
            num_ctx: options.values.num_ctx,
            candidates: options.values.n_tips,
            stopped,
        };
        let (name, digest) = (&model.id.name, &model.info.digest);
        let tenancy = guard.enter(provider, name, digest, &place, |_| {})?;
        for cell in grid.cells(model) {
            let cell = cell?;
            if stopped() {
                break;
            }
            let mut asked = request(task, options, &cell);
            for (index, candidate) in (0..).zip(&mut asked.candidates) {
                let seed = options.values.seed & 0x3fff_ffff;
                candidate.seed = u32::try_from(seed).unwrap_or(0) + index;
            }
            let answers = provider.generate(name, &asked);
            previews.extend((0..).zip(answers).map(|(candidate, answer)| {
                Preview {
                    model: model.id.to_string(),
                    prompt: cell.variant.label.clone(),
                    scenario: cell.scenario.id.clone(),
                    candidate,
                    from_cache: answer.as_ref().is_ok_and(|it| it.from_cache),
                    text: answer
                        .map(|it| output.parse(&it.text).text)
                        .map_err(|error| error.to_string()),
                }
            }));
        }
        tenancy.leave()?;
    }
    Ok(previews)
}
