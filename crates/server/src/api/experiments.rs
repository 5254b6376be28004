//! Operations on experiments and runs.

use assize_domain::scenario::Split;
use assize_pipeline::seal::RunSeal;
use assize_store::{ExperimentSummary, Run, RunQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::error::{ApiError, ApiResult};
use crate::mlflow::fields::{Int, NoFields};
use crate::{App, unsealing};

const DEFAULT_PAGE_SIZE: u32 = 100;
const MAX_PAGE_SIZE: u32 = 1000;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Experiments {
    experiments: Vec<ExperimentSummary>,
}

pub(crate) fn list(app: &App, _: &Caller, _: &NoFields) -> ApiResult<Experiments> {
    let experiments = app.tracking.experiment_list()?;
    Ok(Experiments { experiments })
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct RunsRequest {
    /// The experiment's name
    experiment: String,
    /// The `next_page_token` of the previous page
    #[serde(default)]
    page_token: Option<String>,
    /// Runs per page, 1 to 1000; default 100
    #[serde(default)]
    #[schemars(with = "Option<i64>")]
    max_results: Option<Int>,
    /// Only this model
    #[serde(default)]
    model: Option<String>,
    /// Only this prompt
    #[serde(default)]
    prompt: Option<String>,
    /// Only this scenario
    #[serde(default)]
    scenario: Option<String>,
    /// Only this split: selection, feedback or confirmation; default all
    #[serde(default)]
    split: Option<String>,
    /// true: show scores of a sealed confirmation split; for admins only, and the ledger records
    /// the look
    #[serde(default)]
    unseal: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Runs {
    runs: Vec<ShownRun>,
    /// Present if there is another page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShownRun {
    #[serde(flatten)]
    run: Run,
    /// Whether its scores were left out, because the confirmation split is sealed.
    sealed: bool,
}

pub(crate) fn runs(app: &App, caller: &Caller, request: &RunsRequest) -> ApiResult<Runs> {
    let unseal = unsealing::requested(app, caller, request.unseal.as_deref())?;
    let split = request.split.as_deref().filter(|it| !it.is_empty());
    let split = split.map(str::parse::<Split>).transpose();
    let split = split.map_err(|error| ApiError::invalid(format!("split: {error}")))?;
    let max_results = request
        .max_results
        .as_ref()
        .map_or(i64::from(DEFAULT_PAGE_SIZE), |it| it.0);
    let max_results = u32::try_from(max_results)
        .ok()
        .filter(|it| (1..=MAX_PAGE_SIZE).contains(it))
        .ok_or_else(|| {
            ApiError::invalid(format!("max_results must be from 1 to {MAX_PAGE_SIZE}"))
        })?;
    let page = app.tracking.run_list(
        &request.experiment,
        &RunQuery {
            model: request.model.clone(),
            prompt: request.prompt.clone(),
            scenario: request.scenario.clone(),
            split,
            max_results,
            page_token: request.page_token.clone(),
            ..RunQuery::default()
        },
    )?;
    let mut seal = RunSeal::new(app.tracking.as_ref(), unseal.as_ref());
    let runs = page.runs.into_iter().map(|mut run| {
        let sealed = seal.apply(&mut run)?;
        Ok(ShownRun { run, sealed })
    });
    Ok(Runs {
        runs: runs.collect::<ApiResult<_>>()?,
        next_page_token: page.next_page_token,
    })
}
