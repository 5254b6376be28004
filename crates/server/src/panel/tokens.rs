//! The page for creating, listing and revoking tokens.

use askama::Template;
use assize_domain::role::Role;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect};

use super::fields::{Form, Path};
use super::page::{Frame, PageError, PageResult, Visit, blocking, show};
use super::relative_time::RelativeTime;
use crate::error::ApiError;
use crate::{App, token_create};

/// The maximum length of a name, in characters.
const MAX_NAME_LENGTH: usize = 100;

#[derive(Template)]
#[template(path = "tokens.html")]
struct TokensPage {
    frame: Frame,
    tokens: Vec<TokenRow>,
    /// The name and the secret of a token that was just created.
    created: Option<(String, String)>,
}

struct TokenRow {
    id: String,
    name: String,
    role: &'static str,
    rights: &'static str,
    created: RelativeTime,
    revoked: Option<RelativeTime>,
    is_own: bool,
}

pub(crate) async fn page(State(app): State<App>, visit: Visit) -> PageResult {
    blocking(&app, move |app| list(app, &visit, None)).await
}

fn list(app: &App, visit: &Visit, created: Option<(String, String)>) -> PageResult {
    let when = |ms| RelativeTime::of_ms(ms, visit.now_ms);
    let mut tokens: Vec<TokenRow> = app
        .state
        .token_list()?
        .into_iter()
        .map(|it| TokenRow {
            role: it.role.as_str(),
            rights: rights(it.role),
            created: when(it.created_ms),
            revoked: it.revoked_ms.map(when),
            is_own: it.id == visit.token_id,
            id: it.id,
            name: it.name,
        })
        .collect();
    tokens.sort_by_key(|it| it.revoked.is_some());
    show(&TokensPage {
        frame: Frame::new("tokens", visit),
        tokens,
        created,
    })
}

const fn rights(role: Role) -> &'static str {
    match role {
        Role::Admin => "everything",
        Role::Judge => "judge (blind)",
        Role::Viewer => "read",
        Role::Service => "use policies",
    }
}

/// Responds with the secret directly instead of a redirect, because it must not be in a URL or log.
pub(crate) async fn create(State(app): State<App>, visit: Visit, Form(fields): Form) -> PageResult {
    let Some(role) = fields.read::<Role>("role")? else {
        return Err(PageError::invalid("Choose a role for the token."));
    };
    let name = fields.owned("name");
    let is_invalid =
        |it: &String| it.chars().count() > MAX_NAME_LENGTH || it.chars().any(char::is_control);
    if name.as_ref().is_some_and(is_invalid) {
        let message = format!("The name must be at most {MAX_NAME_LENGTH} characters on one line.");
        return Err(PageError::invalid(message));
    }
    blocking(&app, move |app| {
        let tools = (app.config.clock, app.config.entropy);
        let (token, secret) =
            token_create(&app.state, role, name.as_deref(), tools).map_err(ApiError::from)?;
        tracing::info!(token = token.id, by = visit.name, "token created");
        list(app, &visit, Some((token.name, secret)))
    })
    .await
}

pub(crate) async fn revoke(State(app): State<App>, Path(id): Path, visit: Visit) -> PageResult {
    if id == visit.token_id {
        let message = "You are signed in with this token. Sign in with another one to revoke it.";
        return Err(PageError::invalid(message));
    }
    blocking(&app, move |app| {
        app.state.token_revoke(&id, visit.now_ms)?;
        tracing::info!(token = id, by = visit.name, "token revoked");
        Ok(Redirect::to("/tokens").into_response())
    })
    .await
}
