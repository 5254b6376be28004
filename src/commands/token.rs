//! `assize token`: access tokens of `assize serve`.

use std::path::Path;

use anyhow::bail;
use assize_domain::judge::is_name;
use assize_pipeline::PipelineError;
use assize_store::state::State;
use serde_json::json;

use crate::Exit;
use crate::cli::TokenAction;
use crate::environment::{self, STATE_DIR};
use crate::output::text_table::{Align, render};
use crate::session::Session;

pub fn run(session: &Session, action: &TokenAction) -> anyhow::Result<Exit> {
    let state = State::open(Path::new(STATE_DIR))?;
    let output = &session.output;
    match action {
        TokenAction::Create { role, name } => {
            if let Some(name) = name.as_deref().filter(|it| !is_name(it)) {
                bail!(PipelineError::Invalid(format!(
                    "--name is '{name}': use a short name on one line"
                )));
            }
            let tools = (environment::now as fn() -> _, environment::entropy as _);
            let (token, secret) =
                assize_server::token_create(&state, *role, name.as_deref(), tools)?;
            if output.json {
                output.json_line(&json!({
                    "id": token.id, "role": token.role, "name": token.name, "token": secret,
                }))?;
            } else {
                output.data(&secret)?;
                output.say(&format!(
                    "It is shown this once, and ends with: assize token revoke {}",
                    token.id
                ));
            }
        }
        TokenAction::List => list(session, &state)?,
        TokenAction::Revoke { id } => {
            if !state.token_revoke(id, environment::now_ms())? {
                bail!(PipelineError::Invalid(format!(
                    "there is no valid token '{id}': see assize token list"
                )));
            }
            if output.json {
                output.json_line(&json!({"id": id, "revoked": true}))?;
            } else {
                output.say(&format!("Token {id} is revoked."));
            }
        }
    }
    Ok(Exit::Done)
}

fn list(session: &Session, state: &State) -> anyhow::Result<()> {
    let tokens = state.token_list()?;
    let output = &session.output;
    if output.json {
        return Ok(output.json_pretty(&json!({"tokens": tokens}))?);
    }
    if tokens.is_empty() {
        output.say("There are no tokens yet. Next: assize token create --role admin");
        return Ok(());
    }
    let day = |ms: i64| {
        let time = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
        time.strftime("%Y-%m-%d %H:%M").to_string()
    };
    let headings = [
        ("id", Align::Left),
        ("role", Align::Left),
        ("name", Align::Left),
        ("made (UTC)", Align::Left),
        ("revoked", Align::Left),
    ];
    let rows: Vec<Vec<String>> = tokens
        .iter()
        .map(|it| {
            vec![
                it.id.clone(),
                it.role.to_string(),
                it.name.clone(),
                day(it.created_ms),
                it.revoked_ms.map_or_else(|| "–".to_owned(), day),
            ]
        })
        .collect();
    Ok(output.data(&render(&headings, &rows, output.width))?)
}
