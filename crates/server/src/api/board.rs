//! The leaderboard operation.

use std::sync::Arc;

use assize_domain::leaderboard::BoardTier;
use assize_domain::scenario::Split;
use assize_pipeline::compare::CompareOptions;
use assize_pipeline::seal;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::access::Caller;
use crate::boards::{Boards, CachedBoard};
use crate::error::{ApiError, ApiResult};
use crate::http::{blocking, json, read};
use crate::{App, unsealing};

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct BoardRequest {
    /// The experiment's name
    experiment: String,
    /// expert, auto or combined
    #[serde(default)]
    tier: Option<String>,
    /// MODEL/PROMPT
    #[serde(default)]
    incumbent: Option<String>,
    /// selection, feedback or confirmation; confirmation is sealed until a candidate is nominated
    #[serde(default)]
    split: Option<String>,
    /// true: show a sealed split; for admins only, and the ledger records the look
    #[serde(default)]
    unseal: Option<String>,
}

impl BoardRequest {
    fn options(self) -> ApiResult<CompareOptions> {
        let tier = self.tier.filter(|it| !it.is_empty());
        let tier = tier.map(|it| it.parse::<BoardTier>()).transpose();
        let split = self.split.filter(|it| !it.is_empty());
        let split = split.map(|it| it.parse::<Split>()).transpose();
        let usual = CompareOptions::usual(&self.experiment);
        Ok(CompareOptions {
            tier: tier.map_err(|error| ApiError::invalid(format!("tier: {error}")))?,
            incumbent: self.incumbent.filter(|it| !it.is_empty()),
            split: split
                .map_err(|error| ApiError::invalid(format!("split: {error}")))?
                .unwrap_or(usual.split),
            ..usual
        })
    }
}

/// `GET /api/bench/leaderboard/{experiment}`.
pub(crate) async fn get(State(app): State<App>, request: Request) -> Response {
    match find(&app, request).await {
        Ok(board) => json(StatusCode::OK, board.json.clone()),
        Err(error) => error.into_response(),
    }
}

async fn find(app: &App, request: Request) -> ApiResult<Arc<CachedBoard>> {
    let caller = request.extensions().get::<Caller>().cloned();
    let caller = caller.ok_or_else(|| ApiError::internal("the route declares no right"))?;
    let request: BoardRequest = read(request).await?;
    let unseal = unsealing::requested(app, &caller, request.unseal.as_deref())?;
    let options = request.options()?;
    if options.split == Split::Confirmation {
        let experiment = options.experiment.clone();
        blocking(app, move |app| {
            let split = Split::Confirmation;
            Ok(seal::check(
                app.tracking.as_ref(),
                &experiment,
                split,
                unseal.as_ref(),
            )?)
        })
        .await?;
    }
    Ok(Boards::get(app, options).await?)
}
