//! The operations of the policies, for the router and the OpenAPI document.

use std::sync::Arc;

use assize_domain::error_kind::ErrorKind;
use assize_policy::PolicyKind;
use axum::extract::{FromRef, OriginalUri, Request, State};
use axum::http::StatusCode;

use super::decide::{self, Decided};
use super::request::ScoreRequest;
use super::reward::{self, RewardRequest, Rewarded};
use super::stats::{self, AllStats, PolicyStats, StatsRequest};
use super::users::{self, DeletedUser, ResetUser, UserRequest};
use super::{Engine, events};
use crate::access::{Access, Right};
use crate::api::table::Operation;
use crate::error::ApiError;
use crate::http::route::Route;
use crate::mlflow::fields::NoFields;

const RIGHT: Right = Right::Policies;
const READ: Right = Right::ReadService;

/// The routes that score, with the policy that each uses; `None` is the active one.
const SCORES: [(&str, Option<PolicyKind>, &str); 4] = [
    (
        "/recommend",
        None,
        "Choose a candidate with the active policy; enabled shadows score too",
    ),
    (
        "/score/egreedy",
        Some(PolicyKind::EgreedyV1),
        "Choose a candidate with egreedy-v1",
    ),
    (
        "/score/egreedy/v2",
        Some(PolicyKind::EgreedyV2),
        "Choose a candidate with egreedy-v2",
    ),
    (
        "/score/linucb",
        Some(PolicyKind::LinUcb),
        "Choose a candidate with linucb",
    ),
];

const REWARDS: [(&str, Option<PolicyKind>, &str); 5] = [
    (
        "/reward",
        None,
        "Reward a decision of any policy, once; repeating the same reward changes nothing",
    ),
    (
        "/reward/recommend",
        None,
        "Reward a decision of any policy, like POST /reward",
    ),
    (
        "/reward/egreedy",
        Some(PolicyKind::EgreedyV1),
        "Reward a decision of egreedy-v1",
    ),
    (
        "/reward/egreedy/v2",
        Some(PolicyKind::EgreedyV2),
        "Reward a decision of egreedy-v2",
    ),
    (
        "/reward/linucb",
        Some(PolicyKind::LinUcb),
        "Reward a decision of linucb",
    ),
];

const STATS: [(&str, PolicyKind, &str); 3] = [
    (
        "/stats/egreedy",
        PolicyKind::EgreedyV1,
        "Counts and mean reward of egreedy-v1",
    ),
    (
        "/stats/egreedy/v2",
        PolicyKind::EgreedyV2,
        "Counts and mean reward of egreedy-v2",
    ),
    (
        "/stats/linucb",
        PolicyKind::LinUcb,
        "Counts and mean reward of linucb",
    ),
];

/// Every operation of the policies.
pub(crate) fn operations<S>() -> Vec<Operation<S>>
where
    S: Clone + Send + Sync + 'static,
    Arc<Engine>: FromRef<S>,
    Arc<Access>: FromRef<S>,
{
    let mut all = Vec::new();
    for (path, policy, summary) in SCORES {
        let handler = move |State(engine): State<Arc<Engine>>, request: Request| {
            decide::handle(engine, policy, request)
        };
        let operation = Operation::new::<ScoreRequest, Decided<'_>>(
            ("post", path, RIGHT, summary),
            StatusCode::OK,
            Route::post(path, RIGHT, handler),
        );
        all.push(operation.fails(&[ErrorKind::Conflict, ErrorKind::Unavailable]));
    }
    for (path, policy, summary) in REWARDS {
        let handler = move |State(engine): State<Arc<Engine>>, request: Request| {
            reward::handle(engine, policy, request)
        };
        let operation = Operation::new::<RewardRequest, Rewarded>(
            ("post", path, RIGHT, summary),
            StatusCode::OK,
            Route::post(path, RIGHT, handler),
        );
        all.push(operation.fails(&[
            ErrorKind::NotFound,
            ErrorKind::Conflict,
            ErrorKind::Unavailable,
        ]));
    }
    all.extend(figures());
    all.extend(of_users());
    all
}

fn figures<S>() -> Vec<Operation<S>>
where
    S: Clone + Send + Sync + 'static,
    Arc<Engine>: FromRef<S>,
    Arc<Access>: FromRef<S>,
{
    let path = "/stats";
    let summary = "Counts and mean rewards of all policies, shadows and sources";
    let handler =
        |State(engine): State<Arc<Engine>>, request: Request| stats::handle(engine, None, request);
    let mut all = vec![Operation::new::<StatsRequest, AllStats>(
        ("get", path, READ, summary),
        StatusCode::OK,
        Route::get(path, READ, handler),
    )];
    for (path, policy, summary) in STATS {
        let handler = move |State(engine): State<Arc<Engine>>, request: Request| {
            stats::handle(engine, Some(policy), request)
        };
        all.push(Operation::new::<StatsRequest, PolicyStats>(
            ("get", path, READ, summary),
            StatusCode::OK,
            Route::get(path, READ, handler),
        ));
    }
    let path = "/api/policies/events";
    let summary = "Decisions, rewards and shadow signals from now on, as server-sent events";
    let stream = Operation::new::<NoFields, ()>(
        ("get", path, READ, summary),
        StatusCode::OK,
        Route::get(path, READ, events::stream),
    );
    all.push(stream.streams());
    all
}

fn of_users<S>() -> Vec<Operation<S>>
where
    S: Clone + Send + Sync + 'static,
    Arc<Engine>: FromRef<S>,
{
    let (reset, delete) = ("/reset", "/users/{user_id}");
    let about_reset = "Remove a user's models in every policy; the log stays";
    let about_delete = "Delete a user's decisions, rewards and models";
    vec![
        Operation::new::<UserRequest, ResetUser>(
            ("post", reset, RIGHT, about_reset),
            StatusCode::OK,
            Route::post(reset, RIGHT, users::reset),
        )
        .fails(&[ErrorKind::Unavailable]),
        Operation::new::<UserRequest, DeletedUser>(
            ("delete", delete, RIGHT, about_delete),
            StatusCode::OK,
            Route::delete(delete, RIGHT, users::delete),
        )
        .fails(&[ErrorKind::Unavailable]),
    ]
}

/// Routes that tell which policies there are.
pub(crate) fn unknown_routes<S: Clone + Send + Sync + 'static>() -> Vec<Route<S>> {
    let paths = ["/score/{*path}", "/reward/{*path}", "/stats/{*path}"];
    paths.map(|it| Route::any(it, RIGHT, unknown)).into()
}

async fn unknown(OriginalUri(uri): OriginalUri) -> ApiError {
    let path = uri.path();
    let known = PolicyKind::ALL.map(PolicyKind::route).join(", ");
    ApiError::new(
        ErrorKind::EndpointNotFound,
        format!("there is no policy at {path}: the policies are {known}"),
    )
}
