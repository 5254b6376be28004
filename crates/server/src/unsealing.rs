//! Who may look at scores of a sealed confirmation split over HTTP, and how the look is recorded.

use assize_domain::error_kind::ErrorKind;
use assize_domain::ledger::Via;
use assize_pipeline::ledger::Author;

use crate::App;
use crate::access::{Caller, Right};
use crate::error::{ApiError, ApiResult};

/// The author of an entry in the ledger.
pub(crate) fn author(app: &App, name: &str, via: Via) -> Author {
    Author {
        by: name.to_owned(),
        at: (app.config.clock)().rfc3339,
        via,
        entropy: app.config.entropy,
    }
}

/// The author of the look that a request asks for with `unseal`; only admins may ask for one.
pub(crate) fn requested(
    app: &App,
    caller: &Caller,
    unseal: Option<&str>,
) -> ApiResult<Option<Author>> {
    match unseal.unwrap_or_default() {
        "" | "false" => Ok(None),
        "true" if Right::Write.is_granted_to(caller.role) => {
            Ok(Some(author(app, &caller.name, Via::Api)))
        }
        "true" => Err(ApiError::new(
            ErrorKind::Forbidden,
            format!(
                "the role '{}' does not permit to unseal the confirmation split: ask an admin",
                caller.role
            ),
        )),
        _ => Err(ApiError::invalid("unseal must be true or false")),
    }
}
