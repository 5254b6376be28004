//! The judge's desk, for programs: the same seats as the pages have.

use assize_domain::submission::Submission;
use assize_pipeline::judge::file;
use assize_pipeline::judge::queue::Progress;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Reply;
use crate::App;
use crate::access::Caller;
use crate::desks::Sitter;
use crate::error::{Answer, ApiError};
use crate::mlflow::fields::Int;

/// Cases that are handed out at once at most.
const MOST: i64 = 50;

fn sitter(caller: &Caller) -> Sitter {
    Sitter {
        token_id: caller.token_id.clone(),
        name: caller.name.clone(),
    }
}

fn progress(it: Progress) -> Value {
    json!({"done": it.done, "held": it.held, "left": it.left})
}

#[derive(Debug, Deserialize)]
pub(crate) struct Next {
    experiment: String,
    #[serde(default)]
    limit: Option<Int>,
}

/// `GET /api/bench/judge/next`: blind cases under the rubric; none where nothing waits.
pub(crate) fn next(app: &App, caller: &Caller, ask: &Next) -> Answer<Reply> {
    let limit = ask.limit.as_ref().map_or(1, |it| it.0);
    let limit = usize::try_from(limit)
        .ok()
        .filter(|_| (1..=MOST).contains(&limit))
        .ok_or_else(|| ApiError::invalid(format!("limit must be from 1 to {MOST}")))?;
    let Some(hand) = app.desks.next(&sitter(caller), &ask.experiment, limit)? else {
        return Ok(json!({"experiment": ask.experiment, "sitting": null, "cases": []}).into());
    };
    let mut head = file::head(&ask.experiment, &hand.sitting, &hand.rubric);
    Ok(json!({
        "experiment": ask.experiment,
        "sitting": hand.sitting,
        "resumed": hand.resumed,
        "rubric": head.remove("rubric"),
        "cases": hand.cases,
        "progress": progress(hand.pace.progress),
    })
    .into())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verdicts {
    experiment: String,
    verdicts: Vec<Submission>,
}

/// `POST /api/bench/judge/verdicts`: all of them or none.
pub(crate) fn verdicts(app: &App, caller: &Caller, ask: &Verdicts) -> Answer<Reply> {
    if ask.verdicts.is_empty() {
        return Err(ApiError::invalid("verdicts is empty: give at least one"));
    }
    let (accepted, pace) = app
        .desks
        .submit(&sitter(caller), &ask.experiment, &ask.verdicts)?;
    Ok(json!({
        "scored": accepted.scored,
        "revised": accepted.revised,
        "unchanged": accepted.unchanged,
        "progress": progress(pace.progress),
    })
    .into())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finish {
    experiment: String,
}

/// `POST /api/bench/judge/finish`: ends the sitting; what was not scored waits again.
pub(crate) fn finish(app: &App, caller: &Caller, ask: &Finish) -> Answer<Reply> {
    let finished = app.desks.finish(&sitter(caller), &ask.experiment)?;
    Ok(json!({
        "sitting": finished.sitting,
        "state": finished.state,
        "judged": finished.done,
        "released": finished.released,
    })
    .into())
}
