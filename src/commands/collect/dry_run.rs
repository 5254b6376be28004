//! `assize collect --dry-run`: the grid, the models, the loads and an estimate.

use std::collections::BTreeSet;

use assize_http::LocalMachine;
use assize_pipeline::collect::{self, grid::Grid};
use assize_pipeline::estimate::{self, Basis, Estimate};
use assize_pipeline::events::{DryRun, DryRunModel, DryRunShare};
use assize_pipeline::guard::memory_of;
use assize_pipeline::size_gate::SizedModel;
use assize_pipeline::{count, counted};
use assize_store::{Cells, Runs};

use super::Plan;
use crate::Exit;
use crate::output::progress::{billions, duration};
use crate::session::Session;

/// Shows what would happen.
pub fn show(session: &Session, plan: &Plan) -> anyhow::Result<Exit> {
    let dry_run = dry_run(session, plan)?;
    if session.output.json {
        session.output.json_pretty(&dry_run)?;
    } else {
        session.output.data(&as_text(plan, &dry_run))?;
    }
    Ok(Exit::Done)
}

fn dry_run(session: &Session, plan: &Plan) -> anyhow::Result<DryRun> {
    let grid = Grid::new(&plan.task, &plan.options)?;
    let opened = session.open_store(true).ok();
    let known = match &opened {
        Some(opened) => count_known(&grid, plan, &*opened.cells)?,
        None => vec![0; plan.admitted.len()],
    };
    let counted: Vec<(&SizedModel, u64, u64)> = plan
        .admitted
        .iter()
        .zip(known)
        .map(|(model, known)| (model, grid.count(model), known))
        .map(|(model, cells, known)| (model, cells, cells - known))
        .collect();
    let work: Vec<(&SizedModel, u64)> = counted.iter().map(|it| (it.0, it.2)).collect();
    let missing = work.iter().map(|(_, missing)| missing).sum();
    let models = counted.iter().map(|(model, cells, missing)| DryRunModel {
        model: model.id.to_string(),
        parameter_count: model.parameter_count,
        digest: model.info.digest.clone(),
        cells: *cells,
        missing: *missing,
        hosts: model
            .providers
            .iter()
            .filter_map(|it| it.address())
            .collect(),
    });
    let store = opened.as_ref().map(|it| &*it.store as &dyn Runs);
    let (shares, planned_s) = shares(plan, &work, store);
    let mut estimate = estimate::before(&plan.options, &work, store);
    if let Some(estimate) = estimate.as_mut().filter(|_| shares.len() > 1) {
        // Hosts work side by side.
        estimate.seconds = estimate.seconds.min(planned_s);
    }
    Ok(DryRun {
        experiment: plan.options.values.experiment.clone(),
        models: models.collect(),
        prompts: grid.variants().map(|it| it.label.clone()).collect(),
        scenarios: grid.scenarios().iter().map(|it| it.id.clone()).collect(),
        cells: counted.iter().map(|(_, cells, _)| cells).sum(),
        missing,
        outputs: missing * u64::from(plan.options.values.n_tips),
        loads: shares.len(),
        hosts: shares,
        rejected_models: plan.rejected.clone(),
        estimate,
    })
}

/// Which host would do what, and how long that would take.
fn shares(
    plan: &Plan,
    work: &[(&SizedModel, u64)],
    store: Option<&dyn Runs>,
) -> (Vec<DryRunShare>, f64) {
    let missing: Vec<u64> = work.iter().map(|(_, missing)| *missing).collect();
    let machine = LocalMachine::system();
    let memory = |host: &str| memory_of(host, &machine);
    let (shares, seconds) = collect::plan(&plan.admitted, &missing, &plan.options, store, memory);
    let shares = shares
        .into_iter()
        .map(|(host, model, cells)| DryRunShare { host, model, cells });
    (shares.collect(), seconds)
}

fn as_text(plan: &Plan, dry_run: &DryRun) -> String {
    let n_tips = u64::from(plan.options.values.n_tips);
    let mut text = format!(
        "{} × {} × {} × {n_tips} = {}, {} of them missing · {}\n\n",
        count(dry_run.models.len(), "model"),
        count(dry_run.prompts.len(), "prompt"),
        count(dry_run.scenarios.len(), "scenario"),
        counted(dry_run.cells * n_tips, "output", "outputs"),
        dry_run.outputs,
        count(dry_run.loads, "load"),
    );
    for it in &dry_run.models {
        let size = it
            .parameter_count
            .map_or_else(|| "hosted".to_owned(), billions);
        text.push_str(&format!(
            "  {:<28} {size:>6}  {} of {} to generate\n",
            it.model,
            it.missing,
            counted(it.cells, "cell", "cells")
        ));
    }
    let hosts: BTreeSet<&str> = dry_run.hosts.iter().map(|it| it.host.as_str()).collect();
    if hosts.len() > 1 {
        text.push_str("\n  Hosts, as far as can be said before their speed is known:\n");
        for it in &dry_run.hosts {
            text.push_str(&format!(
                "  {:<28} {}, {} cells\n",
                it.host, it.model, it.cells
            ));
        }
    }
    text.push_str(&format!("\n  prompts    {}\n", dry_run.prompts.join(", ")));
    let shown = dry_run.scenarios.iter().take(12);
    let shown: Vec<&str> = shown.map(String::as_str).collect();
    let more = match dry_run.scenarios.len() - shown.len() {
        0 => String::new(),
        more => format!(", … {more} more"),
    };
    text.push_str(&format!("  scenarios  {}{more}\n", shown.join(", ")));
    text.push_str(&format!("  estimate   {}\n", words(dry_run.estimate)));
    text
}

fn count_known(grid: &Grid<'_>, plan: &Plan, cells: &dyn Cells) -> anyhow::Result<Vec<u64>> {
    let mut counts = Vec::new();
    for model in &plan.admitted {
        let keys: Vec<String> = grid
            .cells(model)
            .map(|cell| cell.map(|it| it.key))
            .collect::<Result<_, _>>()?;
        let known = cells.cells_known(&plan.options.values.experiment, &keys)?;
        counts.push(known.iter().flatten().filter(|it| !it.failed).count() as u64);
    }
    Ok(counts)
}

fn words(estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate else {
        return "no weights are loaded here; as fast as the provider answers".to_owned();
    };
    let seconds = duration(estimate.seconds);
    match estimate.basis {
        Basis::EarlierCells => format!("about {seconds}, from this experiment's earlier cells"),
        Basis::ModelSizes => {
            format!("about {seconds} on a CPU, less on a GPU (a guess from the models' sizes)")
        }
    }
}
