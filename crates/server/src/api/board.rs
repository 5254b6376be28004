//! The leaderboard operation.

use assize_domain::judge::Tier;
use assize_domain::scenario::Split;
use assize_pipeline::compare::CompareOptions;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::App;
use crate::boards::Boards;
use crate::error::{ApiError, ApiResult};
use crate::http::{json, read};

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct BoardRequest {
    /// The experiment's name
    experiment: String,
    /// expert or auto
    #[serde(default)]
    tier: Option<String>,
    /// MODEL/PROMPT
    #[serde(default)]
    incumbent: Option<String>,
    /// selection, feedback or confirmation
    #[serde(default)]
    split: Option<String>,
}

impl BoardRequest {
    fn options(self) -> ApiResult<CompareOptions> {
        let tier = self.tier.filter(|it| !it.is_empty());
        let tier = tier.map(|it| it.parse::<Tier>()).transpose();
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
    let found = async {
        let request: BoardRequest = read(request).await?;
        Ok::<_, ApiError>(Boards::get(&app, request.options()?).await?)
    };
    match found.await {
        Ok(board) => json(StatusCode::OK, board.json.clone()),
        Err(error) => error.into_response(),
    }
}
