//! What is tracked.

use assize_store::{RunQuery, Runs as _};
use serde::Deserialize;
use serde_json::json;

use super::Reply;
use crate::App;
use crate::access::Caller;
use crate::error::{Answer, ApiError};
use crate::mlflow::fields::{Int, Nothing};

const PAGE: u32 = 100;
const MOST: u32 = 1000;

pub(crate) fn list(app: &App, _: &Caller, _: &Nothing) -> Answer<Reply> {
    let experiments = app.store.experiment_list()?;
    Ok(json!({"experiments": experiments}).into())
}

#[derive(Debug, Deserialize)]
pub(crate) struct Runs {
    experiment: String,
    #[serde(default)]
    page_token: Option<String>,
    #[serde(default)]
    max_results: Option<Int>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    scenario: Option<String>,
}

pub(crate) fn runs(app: &App, _: &Caller, ask: &Runs) -> Answer<Reply> {
    let max_results = ask.max_results.as_ref().map_or(i64::from(PAGE), |it| it.0);
    let max_results = u32::try_from(max_results)
        .ok()
        .filter(|it| (1..=MOST).contains(it))
        .ok_or_else(|| ApiError::invalid(format!("max_results must be from 1 to {MOST}")))?;
    let page = app.store.run_list(
        &ask.experiment,
        &RunQuery {
            model: ask.model.clone(),
            prompt: ask.prompt.clone(),
            scenario: ask.scenario.clone(),
            max_results,
            page_token: ask.page_token.clone(),
            ..RunQuery::default()
        },
    )?;
    let mut body = json!({"runs": page.runs});
    if let (Some(token), Some(fields)) = (page.next_page_token, body.as_object_mut()) {
        fields.insert("next_page_token".to_owned(), token.into());
    }
    Ok(body.into())
}
