//! The leaderboard.

use assize_domain::judge::Tier;
use assize_domain::scenario::Split;
use assize_pipeline::compare::{CompareOptions, compare};
use serde::Deserialize;

use super::Reply;
use crate::App;
use crate::access::Caller;
use crate::error::{Answer, ApiError};

#[derive(Debug, Deserialize)]
pub(crate) struct Ask {
    experiment: String,
    #[serde(default)]
    tier: Option<String>,
    #[serde(default)]
    incumbent: Option<String>,
    #[serde(default)]
    split: Option<String>,
}

impl Ask {
    fn options(self) -> Answer<CompareOptions> {
        let tier = self.tier.filter(|it| !it.is_empty());
        let tier = tier.map(|it| it.parse::<Tier>()).transpose();
        let split = self.split.filter(|it| !it.is_empty());
        let split = split.map(|it| it.parse::<Split>()).transpose();
        Ok(CompareOptions {
            experiment: self.experiment,
            tier: tier.map_err(|error| ApiError::invalid(format!("tier: {error}")))?,
            incumbent: self.incumbent.filter(|it| !it.is_empty()),
            split: split
                .map_err(|error| ApiError::invalid(format!("split: {error}")))?
                .unwrap_or(Split::Selection),
            seed: 42,
        })
    }
}

pub(crate) fn get(app: &App, _: &Caller, ask: Ask) -> Answer<Reply> {
    let board = compare(app.store.as_ref(), &ask.options()?)?;
    let body =
        serde_json::to_value(board).map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(body.into())
}
