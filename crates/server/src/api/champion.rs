//! The champion operation: what an application asks at run time.

use std::collections::BTreeMap;

use assize_domain::hash::sha256_hex;
use assize_domain::promotion::Promotion;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::App;
use crate::error::{ApiError, ApiResult};
use crate::http::{blocking, json, read};

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ChampionRequest {
    /// The task's name
    task: String,
}

/// The model and the prompt to use now.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShippedPair {
    task: String,
    model: String,
    /// Empty where the model's content is not known.
    model_digest: String,
    prompt: ShippedPrompt,
    /// The options with which it was judged; empty for promotions that did not record them.
    settings: BTreeMap<String, Value>,
    /// The number of the promotion, from 1.
    promotion: u32,
    /// RFC 3339, UTC
    promoted_at: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShippedPrompt {
    name: String,
    /// The version in the prompt registry.
    version: u32,
    sha256: String,
    /// The template of the system message, where the prompt has one.
    system: Option<String>,
    /// The template of the user's message.
    text: String,
}

impl From<Promotion> for ShippedPair {
    fn from(latest: Promotion) -> Self {
        let champion = latest.champion;
        Self {
            task: latest.task,
            model: champion.model,
            model_digest: champion.model_digest,
            prompt: ShippedPrompt {
                name: champion.prompt,
                version: latest.version,
                sha256: champion.prompt_sha256,
                system: champion.system,
                text: champion.body,
            },
            settings: champion.settings,
            promotion: latest.number,
            promoted_at: latest.at,
        }
    }
}

/// `GET /api/champion/{task}`. The response has an entity tag, so that a client that polls gets
/// the body only when it has changed.
pub(crate) async fn get(State(app): State<App>, request: Request) -> Response {
    let known = request.headers().get(IF_NONE_MATCH).cloned();
    match find(&app, request).await {
        Ok(body) => respond(body, known.as_ref()),
        Err(error) => error.into_response(),
    }
}

async fn find(app: &App, request: Request) -> ApiResult<String> {
    let ChampionRequest { task } = read(request).await?;
    blocking(app, move |app| {
        let Some(latest) = app.tracking.champion_get(&task)? else {
            return Err(ApiError::not_found(format!(
                "the task '{task}' has no champion: promote a pair with assize promote"
            )));
        };
        let shipped = serde_json::to_string(&ShippedPair::from(latest));
        shipped.map_err(|error| ApiError::internal(error.to_string()))
    })
    .await
}

fn respond(body: String, known: Option<&HeaderValue>) -> Response {
    let tag = format!("\"{}\"", &sha256_hex(body.as_bytes())[..32]);
    let is_known = known.and_then(|it| it.to_str().ok()).is_some_and(|it| {
        let mut tags = it.split(',').map(|it| it.trim().trim_start_matches("W/"));
        tags.any(|it| it == "*" || it == tag)
    });
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        json(StatusCode::OK, body)
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
