//! Tokens over HTTP, for admins.

use assize_domain::role::Role;
use serde::Deserialize;
use serde_json::json;

use super::Reply;
use crate::access::Caller;
use crate::error::{Answer, ApiError};
use crate::mlflow::fields::Nothing;
use crate::{App, token_create};

/// The longest name of a token's holder.
const LONGEST_NAME: usize = 100;

pub(crate) fn list(app: &App, _: &Caller, _: &Nothing) -> Answer<Reply> {
    Ok(json!({"tokens": app.state.token_list()?}).into())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct New {
    role: Role,
    #[serde(default)]
    name: String,
}

pub(crate) fn create(app: &App, caller: &Caller, ask: &New) -> Answer<Reply> {
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
    Ok(json!({"id": token.id, "role": token.role, "name": token.name, "token": secret}).into())
}

#[derive(Debug, Deserialize)]
pub(crate) struct ById {
    id: String,
}

pub(crate) fn revoke(app: &App, caller: &Caller, ask: &ById) -> Answer<Reply> {
    if !app.state.token_revoke(&ask.id, (app.config.clock)().ms)? {
        return Err(ApiError::not_found(format!(
            "there is no valid token '{}'",
            ask.id
        )));
    }
    tracing::info!(token = ask.id, by = caller.name, "token revoked");
    Ok(json!({"id": ask.id, "revoked": true}).into())
}
