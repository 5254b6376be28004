//! The judge's desk, for programs: the same seats as the pages have.

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

/// Cases that are handed out at once at most.
const MOST: i64 = 50;

fn session_judge(caller: &Caller) -> SessionJudge {
    SessionJudge {
        token_id: caller.token_id.clone(),
        name: caller.name.clone(),
    }
}

/// How far a sitting has come, in cases.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Progress")]
struct SittingProgress {
    /// Scored in this sitting.
    done: usize,
    /// Held and not scored.
    held: usize,
    /// Still to come.
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
    /// Cases at once, 1 to 50, else 1
    #[serde(default)]
    #[schemars(with = "Option<i64>")]
    limit: Option<Int>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Cases")]
pub(crate) struct NextCases {
    experiment: String,
    /// `null` where nothing waits for this judge.
    sitting: Option<String>,
    /// Whether an earlier session's sitting goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed: Option<bool>,
    /// The rubric as a judge file has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rubric: Option<Value>,
    cases: Vec<Case>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<SittingProgress>,
}

/// `GET /api/bench/judge/next`: blind cases under the rubric; none where nothing waits.
pub(crate) fn next(app: &App, caller: &Caller, ask: &NextRequest) -> ApiResult<NextCases> {
    let limit = ask.limit.as_ref().map_or(1, |it| it.0);
    let limit = usize::try_from(limit)
        .ok()
        .filter(|_| (1..=MOST).contains(&limit))
        .ok_or_else(|| ApiError::invalid(format!("limit must be from 1 to {MOST}")))?;
    let Some(batch) = app
        .judging
        .next(&session_judge(caller), &ask.experiment, limit)?
    else {
        return Ok(NextCases {
            experiment: ask.experiment.clone(),
            sitting: None,
            resumed: None,
            rubric: None,
            cases: Vec::new(),
            progress: None,
        });
    };
    let mut head = file::head(&ask.experiment, &batch.sitting, &batch.rubric);
    Ok(NextCases {
        experiment: ask.experiment.clone(),
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
}

/// `POST /api/bench/judge/verdicts`: all of them or none.
pub(crate) fn verdicts(app: &App, caller: &Caller, ask: &VerdictsRequest) -> ApiResult<Accepted> {
    if ask.verdicts.is_empty() {
        return Err(ApiError::invalid("verdicts is empty: give at least one"));
    }
    let (accepted, pace) =
        app.judging
            .submit(&session_judge(caller), &ask.experiment, &ask.verdicts)?;
    Ok(Accepted {
        scored: accepted.scored,
        revised: accepted.revised,
        unchanged: accepted.unchanged,
        progress: pace.progress.into(),
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
    /// Cases that were not scored and wait again.
    released: usize,
}

/// `POST /api/bench/judge/finish`: ends the sitting; what was not scored waits again.
pub(crate) fn finish(app: &App, caller: &Caller, ask: &FinishRequest) -> ApiResult<Finished> {
    let finished = app
        .judging
        .finish(&session_judge(caller), &ask.experiment)?;
    Ok(Finished {
        sitting: finished.sitting,
        state: finished.state,
        judged: finished.done,
        released: finished.released,
    })
}
