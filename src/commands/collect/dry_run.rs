//! `assize collect --dry-run`: the grid, the models, the loads and an estimate.

use assize_pipeline::collect::grid::Grid;
use assize_pipeline::count;
use assize_store::Cells;
use serde_json::json;

use super::Plan;
use crate::Exit;
use crate::output::progress::{billions, duration};
use crate::session::Session;

/// Shows what would happen.
pub fn show(session: &Session, plan: &Plan) -> anyhow::Result<Exit> {
    let grid = Grid::new(&plan.task, &plan.options)?;
    let known = match session.open_store(true) {
        Ok(opened) => count_known(&grid, plan, &*opened.cells)?,
        Err(_) => vec![0; plan.admitted.len()],
    };
    let prompts: Vec<&str> = grid.prompts().map(|prompt| prompt.name.as_str()).collect();
    let n_tips = u64::from(plan.options.n_tips);
    let counts: Vec<u64> = plan
        .admitted
        .iter()
        .map(|model| grid.count(model))
        .collect();
    let missing: Vec<u64> = counts
        .iter()
        .zip(&known)
        .map(|(cells, known)| cells - known)
        .collect();
    let outputs = missing.iter().sum::<u64>() * n_tips;
    let loads = missing.iter().filter(|missing| **missing > 0).count();
    if session.output.json {
        let models: Vec<_> = plan
            .admitted
            .iter()
            .zip(counts.iter().zip(&missing))
            .map(|(model, (cells, missing))| {
                json!({"model": model.id, "parameter_count": model.parameter_count, "digest": model.info.digest,
                       "cells": cells, "missing": missing})
            })
            .collect();
        session.output.json_pretty(&json!({
            "experiment": plan.options.experiment, "models": models, "prompts": prompts,
            "scenarios": grid.scenarios().iter().map(|it| &it.id).collect::<Vec<_>>(),
            "cells": counts.iter().sum::<u64>(), "missing": missing.iter().sum::<u64>(), "outputs": outputs,
            "loads": loads, "rejected_models": plan.rejected,
        }))?;
        return Ok(Exit::Done);
    }
    let mut text = format!(
        "{} × {} × {} × {n_tips} = {} outputs, {outputs} of them missing · {}\n\n",
        count(plan.admitted.len(), "model"),
        count(prompts.len(), "prompt"),
        count(grid.scenarios().len(), "scenario"),
        counts.iter().sum::<u64>() * n_tips,
        count(loads, "load"),
    );
    for (model, (cells, missing)) in plan.admitted.iter().zip(counts.iter().zip(&missing)) {
        let size = billions(model.parameter_count);
        text.push_str(&format!(
            "  {:<28} {size:>6}  {missing} of {cells} cells to generate\n",
            model.id.to_string()
        ));
    }
    text.push_str(&format!("\n  prompts    {}\n", prompts.join(", ")));
    let scenarios = grid
        .scenarios()
        .iter()
        .map(|it| it.id.as_str())
        .take(12)
        .collect::<Vec<_>>()
        .join(", ");
    let more = grid.scenarios().len().saturating_sub(12);
    let more = if more > 0 {
        format!(", … {more} more")
    } else {
        String::new()
    };
    text.push_str(&format!("  scenarios  {scenarios}{more}\n"));
    text.push_str(&format!("  estimate   {}\n", estimate(plan, &missing)));
    session.output.data(&text)?;
    Ok(Exit::Done)
}

fn count_known(grid: &Grid<'_>, plan: &Plan, cells: &dyn Cells) -> anyhow::Result<Vec<u64>> {
    let mut counts = Vec::new();
    for model in &plan.admitted {
        let keys: Vec<String> = grid
            .cells(model)
            .map(|cell| cell.map(|it| it.key))
            .collect::<Result<_, _>>()?;
        let known = cells.cells_known(&plan.options.experiment, &keys)?;
        counts.push(known.iter().flatten().filter(|it| !it.failed).count() as u64);
    }
    Ok(counts)
}

/// A rough guess: memory-bound decoding of a 4-bit model reads its weights once a token, at
/// some 10 GB/s on a laptop's CPU.
fn estimate(plan: &Plan, missing: &[u64]) -> String {
    let seconds: f64 = plan
        .admitted
        .iter()
        .zip(missing)
        .map(|(model, cells)| {
            let tokens_per_s = (10e9 / (model.parameter_count as f64 * 0.6)).clamp(1.0, 200.0);
            let tokens = *cells as f64
                * f64::from(plan.options.n_tips)
                * f64::from(plan.options.max_tokens)
                * 0.4;
            tokens / tokens_per_s
        })
        .sum();
    if plan
        .admitted
        .iter()
        .all(|model| model.providers.iter().all(|it| it.host().is_none()))
    {
        return "no weights are loaded here; as fast as the provider answers".to_owned();
    }
    format!(
        "about {} on a CPU, less on a GPU (a guess from the models' sizes)",
        duration(seconds)
    )
}
