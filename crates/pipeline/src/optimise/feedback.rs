//! The race's cells of the feedback split: their scores, and what a reflector sees of them.

use std::collections::BTreeSet;

use assize_domain::judge::Tier;
use assize_domain::output::{OutputContract, OutputFormat};
use assize_domain::scenario::Split;
use assize_domain::task::Task;
use assize_optimise::{CellScore, FeedbackCell, FeedbackOutput, Node, Tree};

use super::cells::{Part, TrackedCell};
use super::{LoopContext, SEARCH_KIND, search_experiment};
use crate::{PipelineError, Result, count};

impl LoopContext<'_> {
    /// These versions on these scenarios of the feedback split, with all models of the loop.
    pub(super) fn race_part(&self, versions: &[&Node], scenarios: &[String]) -> Part {
        let models = self.settings.models.iter();
        let pairs = models.flat_map(|model| {
            let names = versions.iter().map(|it| it.version.name.clone());
            names.map(move |name| (model.clone(), name))
        });
        Part {
            experiment: search_experiment(self.experiment),
            split: Split::Feedback,
            pairs: pairs.collect(),
            scenarios: scenarios.iter().cloned().collect(),
            candidates: self.settings.candidates,
            judge_kind: SEARCH_KIND.to_owned(),
        }
    }

    /// The parent's judged cells.
    pub(super) fn feedback_cells(&self, task: &Task, tree: &Tree) -> Result<Vec<FeedbackCell>> {
        let parent = tree.node(&tree.parent)?;
        let part = self.race_part(&[parent], &tree.scenarios);
        let cells = self.read(task, &part)?;
        let mut found = Vec::new();
        // In the order of the race, so that of equal cells always the same come first.
        for scenario in &tree.scenarios {
            for cell in cells.iter().filter(|it| it.scenario == *scenario) {
                let scenario = task.scenarios.iter().find(|it| it.id == *scenario);
                let scenario = scenario.ok_or_else(|| scenario_gone(&cell.scenario))?;
                found.push(FeedbackCell::new(&cell.model, scenario, outputs(cell))?);
            }
        }
        Ok(found)
    }
}

fn scenario_gone(id: &str) -> PipelineError {
    PipelineError::Invalid(format!(
        "the task has no scenario '{id}' any more: restore it, or start a loop in another experiment"
    ))
}

fn outputs(cell: &TrackedCell) -> Vec<FeedbackOutput> {
    let verdicts = cell.verdicts(Tier::Auto);
    let judged = cell.texts().filter_map(|(index, text)| {
        let verdict = verdicts.get(&index)?;
        Some(FeedbackOutput {
            text: text.to_owned(),
            composite: verdict.composite,
            scores: verdict.scores.clone(),
            rationale: verdict.rationale.clone(),
        })
    });
    judged.collect()
}

/// The scores of the seed, all of whose cells must be judged: everything is compared with it.
pub(super) fn seed_scores(tree: &Tree, cells: &[TrackedCell]) -> Result<Vec<CellScore>> {
    let missing = cells.iter().filter(|it| !it.is_judged(Tier::Auto)).count();
    if missing > 0 {
        return Err(PipelineError::CellsFailed(format!(
            "{} of the seed {} without a verdict, and everything is compared with it: see what failed \
             above, and run the step again",
            count(missing, "cell"),
            if missing == 1 { "is" } else { "are" }
        )));
    }
    scores(tree, cells)
}

/// The scores of children. A cell that failed, or that the judge could not score, twice, counts as the
/// lowest composite: otherwise a child whose worst cells are lost would look better for it. Where the
/// provider fails for more than one child, or for the only one, it is the provider that failed.
pub(super) fn scores(tree: &Tree, cells: &[TrackedCell]) -> Result<Vec<CellScore>> {
    let unanswered = || cells.iter().filter(|it| it.provider_error().is_some());
    let children: BTreeSet<&str> = cells.iter().map(|it| it.prompt.as_str()).collect();
    let affected: BTreeSet<&str> = unanswered().map(|it| it.prompt.as_str()).collect();
    if let Some(cell) = unanswered().next()
        && (affected.len() > 1 || children.len() == 1)
    {
        return Err(PipelineError::CellsFailed(format!(
            "{} could not be generated twice ({} × {} × {}: {}). Nothing was decided about them; run the step again \
             when the model answers",
            count(unanswered().count(), "cell"),
            cell.model,
            cell.prompt,
            cell.scenario,
            cell.provider_error().unwrap_or_default()
        )));
    }
    if !cells.is_empty() && cells.iter().all(|it| it.mean(Tier::Auto).is_none()) {
        return Err(PipelineError::CellsFailed(
            "no cell of this stage has a verdict: see what failed above, and run the step again"
                .to_owned(),
        ));
    }
    let mut scores = Vec::new();
    for node in &tree.nodes {
        for scenario in &tree.scenarios {
            let own = cells
                .iter()
                .filter(|it| it.prompt == node.version.name && it.scenario == *scenario);
            scores.extend(own.map(|cell| CellScore {
                node: node.id.clone(),
                model: cell.model.clone(),
                scenario: scenario.clone(),
                mean: cell.mean(Tier::Auto).unwrap_or(tree.composite_range.0),
                candidates: u32::try_from(cell.verdicts(Tier::Auto).len()).unwrap_or(u32::MAX),
            }));
        }
    }
    Ok(scores)
}

/// What the task asks of an output, in words.
pub(super) fn contract_words(output: &OutputContract) -> String {
    match output.format {
        OutputFormat::Text => "Plain text that is not empty.".to_owned(),
        OutputFormat::Json => {
            let field = output.field.as_ref().map_or_else(String::new, |field| {
                format!(" Its member '{field}' holds the text that is judged.")
            });
            let schema = output.schema.as_ref().map_or_else(String::new, |schema| {
                let schema = serde_json::to_string_pretty(schema).unwrap_or_default();
                format!(" It must fit this JSON schema:\n{schema}")
            });
            format!("One JSON value and nothing else.{field}{schema}")
        }
    }
}
