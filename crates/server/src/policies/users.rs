//! `POST /reset` and `DELETE /users/{user_id}`.

use std::sync::Arc;

use assize_store::StoreError;
use assize_store::policies::Deleted;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::Engine;
use super::request::{body, check_name, parse, problem};
use crate::error::{ApiError, ApiResult};
use crate::http::json;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserRequest {
    /// 1 to 200 characters
    user_id: String,
}

/// The answer to a reset.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResetUser {
    user_id: String,
    /// The number of models that were removed.
    models: u64,
}

/// The answer to a deletion.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeletedUser {
    user_id: String,
    decisions: u64,
    rewards: u64,
    models: u64,
}

pub(crate) async fn reset(State(engine): State<Arc<Engine>>, request: Request) -> Response {
    let outcome = async {
        let UserRequest { user_id } = parse(&body(request).await?)?;
        check_name("user_id", &user_id)?;
        let (at_ms, user) = (engine.now_ms(), user_id.clone());
        let models = engine.committed(user.clone(), |done| {
            engine.store.user_reset(&user, at_ms, done);
        });
        let models = models.await?;
        Ok(ResetUser { user_id, models })
    };
    respond(outcome.await)
}

pub(crate) async fn delete(
    State(engine): State<Arc<Engine>>,
    params: Result<RawPathParams, RawPathParamsRejection>,
) -> Response {
    let outcome = async {
        let params = params.map_err(|_| {
            problem(
                "user_id",
                "is not valid UTF-8: percent-encode its UTF-8 bytes",
            )
        })?;
        let named = params.iter().find(|it| it.0 == "user_id");
        let user_id = named.map_or_else(String::new, |it| it.1.to_owned());
        check_name("user_id", &user_id)?;
        let user = user_id.clone();
        let deleted = engine.committed(user.clone(), |done| engine.store.user_delete(&user, done));
        let Deleted {
            decisions,
            rewards,
            models,
        } = deleted.await?;
        Ok(DeletedUser {
            user_id,
            decisions,
            rewards,
            models,
        })
    };
    respond(outcome.await)
}

type Done<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

impl Engine {
    /// Waits for a change to a user's models and forgets what was cached before it.
    async fn committed<T: Send + 'static>(
        self: &Arc<Self>,
        user: String,
        start: impl FnOnce(Done<T>),
    ) -> ApiResult<T> {
        let (committed, commit) = oneshot::channel();
        let engine = Arc::clone(self);
        start(Box::new(move |outcome| {
            engine.cache.remove_user(&user);
            engine.shadows.forget_user(&user);
            // The client may no longer be waiting.
            let _ = committed.send(outcome);
        }));
        let outcome = commit.await.map_err(|_| ApiError::worker_panicked())?;
        Ok(outcome?)
    }
}

fn respond<T: Serialize>(outcome: ApiResult<T>) -> Response {
    let written = outcome.and_then(|it| {
        serde_json::to_vec(&it).map_err(|error| ApiError::internal(error.to_string()))
    });
    match written {
        Ok(body) => json(StatusCode::OK, body),
        Err(error) => error.into_response(),
    }
}
