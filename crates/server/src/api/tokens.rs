//! Operations on tokens, for admins.

use assize_domain::role::Role;
use assize_store::state::tokens::Token;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::error::{ApiError, ApiResult};
use crate::mlflow::fields::NoFields;
use crate::{App, token_create};

/// The maximum length of a name, in characters.
const MAX_NAME_LENGTH: usize = 100;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tokens {
    tokens: Vec<Token>,
}

pub(crate) fn list(app: &App, _: &Caller, _: &NoFields) -> ApiResult<Tokens> {
    let tokens = app.state.token_list()?;
    Ok(Tokens { tokens })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateRequest {
    /// The role that the token grants
    role: Role,
    /// The name of its holder
    #[serde(default)]
    name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreatedToken {
    id: String,
    role: Role,
    name: String,
    /// The secret, which is returned only once.
    token: String,
}

pub(crate) fn create(
    app: &App,
    caller: &Caller,
    request: &CreateRequest,
) -> ApiResult<CreatedToken> {
    let name = request.name.trim();
    if name.chars().count() > MAX_NAME_LENGTH || name.chars().any(char::is_control) {
        return Err(ApiError::invalid(format!(
            "name must be at most {MAX_NAME_LENGTH} characters on one line"
        )));
    }
    let name = Some(name).filter(|it| !it.is_empty());
    let tools = (app.config.clock, app.config.entropy);
    let (token, secret) = token_create(&app.state, request.role, name, tools)?;
    tracing::info!(
        token = token.id,
        role = token.role.as_str(),
        by = caller.name,
        "token created"
    );
    Ok(CreatedToken {
        id: token.id,
        role: token.role,
        name: token.name,
        token: secret,
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ById {
    id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RevokedToken {
    id: String,
    revoked: bool,
}

pub(crate) fn revoke(app: &App, caller: &Caller, request: &ById) -> ApiResult<RevokedToken> {
    if !app
        .state
        .token_revoke(&request.id, (app.config.clock)().ms)?
    {
        return Err(ApiError::not_found(format!(
            "there is no valid token '{}'",
            request.id
        )));
    }
    tracing::info!(token = request.id, by = caller.name, "token revoked");
    Ok(RevokedToken {
        id: request.id.clone(),
        revoked: true,
    })
}
