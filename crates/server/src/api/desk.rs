//! The judge's desk for programs. It shares its judging sessions with the panel's pages.

use assize_domain::case::Case;
use assize_domain::sitting::SittingState;
use assize_domain::submission::Submission;
use assize_pipeline::judge::file;
use assize_pipeline::judge::queue::Progress;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::App;
use crate::access::Caller;
use crate::error::{ApiError, ApiResult};
use crate::judging_sessions::SessionJudge;
use crate::mlflow::fields::Int;

/// The largest number of cases per request.
const MAX_CASES: i64 = 50;

fn session_judge(caller: &Caller) -> SessionJudge {
    SessionJudge {
        token_id: caller.token_id.clone(),
        name: caller.name.clone(),
    }
}

/// The progress of a sitting, in cases.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Progress")]
struct SittingProgress {
    /// Scored in this sitting.
    done: usize,
    /// Leased and not yet scored.
    held: usize,
    /// Not yet leased.
    left: u64,
}

impl From<Progress> for SittingProgress {
    fn from(it: Progress) -> Self {
        Self {
            done: it.done,
            held: it.held,
            left: it.left,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct NextRequest {
    /// The experiment's name
    experiment: String,
    /// The number of cases, 1 to 50; default 1
    #[serde(default)]
    #[schemars(with = "Option<i64>")]
    limit: Option<Int>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Cases")]
pub(crate) struct NextCases {
    experiment: String,
    /// `null` if no cases are pending for this judge.
    sitting: Option<String>,
    /// Whether the sitting was opened in an earlier session.
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed: Option<bool>,
    /// The rubric, in the format of a judge file.
    #[serde(skip_serializing_if = "Option::is_none")]
    rubric: Option<Value>,
    cases: Vec<Case>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<SittingProgress>,
}

/// `GET /api/bench/judge/next`: the next blind cases, with the rubric.
pub(crate) fn next(app: &App, caller: &Caller, request: &NextRequest) -> ApiResult<NextCases> {
    let limit = request.limit.as_ref().map_or(1, |it| it.0);
    let limit = usize::try_from(limit)
        .ok()
        .filter(|_| (1..=MAX_CASES).contains(&limit))
        .ok_or_else(|| ApiError::invalid(format!("limit must be from 1 to {MAX_CASES}")))?;
    let Some(batch) = app
        .judging
        .next(&session_judge(caller), &request.experiment, limit)?
    else {
        return Ok(NextCases {
            experiment: request.experiment.clone(),
            sitting: None,
            resumed: None,
            rubric: None,
            cases: Vec::new(),
            progress: None,
        });
    };
    let mut head = file::head(&request.experiment, &batch.sitting, &batch.rubric);
    Ok(NextCases {
        experiment: request.experiment.clone(),
        sitting: Some(batch.sitting),
        resumed: Some(batch.resumed),
        rubric: head.remove("rubric"),
        cases: batch.cases,
        progress: Some(batch.pace.progress.into()),
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerdictsRequest {
    /// The experiment's name
    experiment: String,
    /// One per case: case, scores, rationale
    verdicts: Vec<Submission>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Accepted {
    scored: usize,
    revised: usize,
    unchanged: usize,
    progress: SittingProgress,
    /// Verdicts that are saved on the server's machine and wait for the tracking server, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    undelivered: Option<u64>,
}

/// `POST /api/bench/judge/verdicts`: accepts all verdicts or none.
pub(crate) fn verdicts(
    app: &App,
    caller: &Caller,
    request: &VerdictsRequest,
) -> ApiResult<Accepted> {
    if request.verdicts.is_empty() {
        return Err(ApiError::invalid("verdicts is empty: send at least one"));
    }
    let (accepted, pace) = app.judging.submit(
        &session_judge(caller),
        &request.experiment,
        &request.verdicts,
    )?;
    Ok(Accepted {
        scored: accepted.scored,
        revised: accepted.revised,
        unchanged: accepted.unchanged,
        progress: pace.progress.into(),
        undelivered: app
            .team
            .as_ref()
            .map(|it| it.status().undelivered)
            .filter(|it| *it > 0),
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinishRequest {
    /// The experiment's name
    experiment: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Finished {
    sitting: String,
    state: SittingState,
    /// Cases scored.
    judged: usize,
    /// Cases that were not scored and are pending again.
    released: usize,
}

/// `POST /api/bench/judge/finish`: ends the sitting; unscored cases are pending again.
pub(crate) fn finish(app: &App, caller: &Caller, request: &FinishRequest) -> ApiResult<Finished> {
    let finished = app
        .judging
        .finish(&session_judge(caller), &request.experiment)?;
    Ok(Finished {
        sitting: finished.sitting,
        state: finished.state,
        judged: finished.done,
        released: finished.released,
    })
}
