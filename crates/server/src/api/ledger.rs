//! The ledger operation.

use assize_domain::ledger::{ConfirmationUse, Entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::App;
use crate::access::Caller;
use crate::error::ApiResult;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct LedgerRequest {
    /// The experiment's name
    experiment: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Ledger {
    experiment: String,
    /// `null` if nobody has seen the scores of the confirmation split.
    confirmation: Option<ConfirmationUse>,
    /// Oldest first.
    entries: Vec<Entry>,
}

/// `GET /api/bench/ledger/{experiment}`.
pub(crate) fn get(app: &App, _: &Caller, request: &LedgerRequest) -> ApiResult<Ledger> {
    let entries = app.tracking.ledger_list(&request.experiment)?;
    Ok(Ledger {
        experiment: request.experiment.clone(),
        confirmation: ConfirmationUse::of(&entries),
        entries,
    })
}
