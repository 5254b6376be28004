//! Tokens over HTTP, for admins.

use assize_domain::role::Role;
use assize_store::state::tokens::Token;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::error::{ApiError, ApiResult};
use crate::mlflow::fields::Nothing;
use crate::{App, token_create};

/// The longest name of a token's holder.
const LONGEST_NAME: usize = 100;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tokens {
    tokens: Vec<Token>,
}

pub(crate) fn list(app: &App, _: &Caller, _: &Nothing) -> ApiResult<Tokens> {
    let tokens = app.state.token_list()?;
    Ok(Tokens { tokens })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateRequest {
    /// What its holder may do
    role: Role,
    /// Whose it is
    #[serde(default)]
    name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreatedToken {
    id: String,
    role: Role,
    name: String,
    /// The secret, which is never shown again.
    token: String,
}

pub(crate) fn create(app: &App, caller: &Caller, ask: &CreateRequest) -> ApiResult<CreatedToken> {
    let name = ask.name.trim();
    if name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(ApiError::invalid(format!(
            "name must be at most {LONGEST_NAME} characters on one line"
        )));
    }
    let name = Some(name).filter(|it| !it.is_empty());
    let tools = (app.config.clock, app.config.entropy);
    let (token, secret) = token_create(&app.state, ask.role, name, tools)?;
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

pub(crate) fn revoke(app: &App, caller: &Caller, ask: &ById) -> ApiResult<RevokedToken> {
    if !app.state.token_revoke(&ask.id, (app.config.clock)().ms)? {
        return Err(ApiError::not_found(format!(
            "there is no valid token '{}'",
            ask.id
        )));
    }
    tracing::info!(token = ask.id, by = caller.name, "token revoked");
    Ok(RevokedToken {
        id: ask.id.clone(),
        revoked: true,
    })
}
