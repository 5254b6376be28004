//! All operations of the bench API: the route, the right that it requires, and the types of its
//! request and response, from which the OpenAPI document is generated.

use assize_domain::error_kind::ErrorKind;
use assize_domain::job::JobKind;
use assize_domain::leaderboard::Leaderboard;
use assize_domain::options::{OPTIONS, REQUEST_FIELDS};
use axum::http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{
    Work, board, call, champion, desk, experiments, job_events, jobs, ledger, openapi, plan, tokens,
};
use crate::access::Right;
use crate::http::route::Route;
use crate::{App, policies};

/// One operation, for the router and the OpenAPI document. `S` is the state of its handler.
#[derive(Debug)]
pub(crate) struct Operation<S = App> {
    pub method: &'static str,
    pub path: &'static str,
    pub right: Right,
    pub summary: &'static str,
    pub request: Request,
    /// The status of a successful response.
    pub status: StatusCode,
    pub response: Content,
    /// Errors that this operation can return besides the common ones.
    pub failures: &'static [ErrorKind],
    route: Route<S>,
}

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The source of the description of a request's fields.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request {
    /// The type that is deserialised.
    Type(SchemaOf),
    /// The table of options, because the job planner reads these fields.
    Table(&'static [Field]),
}

/// The content of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content {
    Json(SchemaOf),
    EventStream,
}

/// A field of a request: name, JSON type, whether it is required, and its description.
pub(crate) type Field = (&'static str, &'static str, bool, &'static str);

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Operation {
    fn get<T, A>(path: &'static str, right: Right, summary: &'static str, work: Work<T, A>) -> Self
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + 'static,
    {
        let route = Route::get(path, right, call(StatusCode::OK, work));
        Self::new::<T, A>(("get", path, right, summary), StatusCode::OK, route)
    }

    fn post<T, A>(path: &'static str, right: Right, summary: &'static str, work: Work<T, A>) -> Self
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + 'static,
    {
        let route = Route::post(path, right, call(StatusCode::OK, work));
        Self::new::<T, A>(("post", path, right, summary), StatusCode::OK, route)
    }

    /// A POST whose work is done asynchronously.
    fn start<T, A>(path: &'static str, summary: &'static str, work: Work<T, A>) -> Self
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + 'static,
    {
        let (right, status) = (Right::Write, StatusCode::ACCEPTED);
        let route = Route::post(path, right, call(status, work));
        Self::new::<T, A>(("post", path, right, summary), status, route)
    }
}

impl<S> Operation<S> {
    pub fn new<T: JsonSchema, A: JsonSchema>(
        (method, path, right, summary): (&'static str, &'static str, Right, &'static str),
        status: StatusCode,
        route: Route<S>,
    ) -> Self {
        Self {
            method,
            path,
            right,
            summary,
            request: Request::Type(schema_of::<T>),
            status,
            response: Content::Json(schema_of::<A>),
            failures: &[],
            route,
        }
    }

    pub fn fails(mut self, failures: &'static [ErrorKind]) -> Self {
        self.failures = failures;
        self
    }

    fn takes(mut self, fields: &'static [Field]) -> Self {
        self.request = Request::Table(fields);
        self
    }

    /// The response is a stream of events.
    pub fn streams(mut self) -> Self {
        self.response = Content::EventStream;
        self
    }

    pub fn into_route(self) -> Route<S> {
        self.route
    }
}

const COLLECT: &[Field] = &job_fields::<{ count_job_fields(JobKind::Collect) }>(JobKind::Collect);
const JUDGE: &[Field] = &job_fields::<{ count_job_fields(JobKind::Judge) }>(JobKind::Judge);

const SIMULATE: &[Field] =
    &job_fields::<{ count_job_fields(JobKind::Simulate) }>(JobKind::Simulate);

const OPTIMISE: &[Field] =
    &job_fields::<{ count_job_fields(JobKind::Optimise) }>(JobKind::Optimise);

const PLAN: &[Field] =
    &plan_fields::<{ count_job_fields(JobKind::Collect) + plan::FIELDS.len() }>();

const fn count_job_fields(kind: JobKind) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < REQUEST_FIELDS.len() {
        count += kind.is_in(REQUEST_FIELDS[at].requests) as usize;
        at += 1;
    }
    at = 0;
    while at < OPTIONS.len() {
        count += kind.is_in(OPTIONS[at].fields) as usize;
        at += 1;
    }
    count
}

/// The fields of a job request, from the table of options.
const fn job_fields<const N: usize>(kind: JobKind) -> [Field; N] {
    let mut fields = [("", "", false, ""); N];
    let (mut count, mut at) = (0, 0);
    while at < REQUEST_FIELDS.len() {
        let own = &REQUEST_FIELDS[at];
        if kind.is_in(own.requests) {
            fields[count] = (own.key, own.kind.json_type(), own.is_required, own.help);
            count += 1;
        }
        at += 1;
    }
    at = 0;
    while at < OPTIONS.len() {
        let option = &OPTIONS[at];
        if kind.is_in(option.fields) {
            let help = if option.field_help.is_empty() {
                option.help
            } else {
                option.field_help
            };
            fields[count] = (option.key, option.kind.json_type(), false, help);
            count += 1;
        }
        at += 1;
    }
    fields
}

/// The fields of a collection, and those of a plan.
const fn plan_fields<const N: usize>() -> [Field; N] {
    let mut fields = [("", "", false, ""); N];
    let mut at = 0;
    while at < COLLECT.len() {
        fields[at] = COLLECT[at];
        at += 1;
    }
    while at < N {
        fields[at] = plan::FIELDS[at - COLLECT.len()];
        at += 1;
    }
    fields
}

/// The routes of all operations.
pub(crate) fn routes() -> Vec<Route> {
    operations()
        .into_iter()
        .map(Operation::into_route)
        .collect()
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = tracked();
    all.extend(judging());
    all.extend(job_operations());
    all.extend(policies::operations());
    all.extend(administration());
    all
}

fn tracked() -> Vec<Operation> {
    let missing = &[ErrorKind::NotFound];
    let leaderboard = "/api/bench/leaderboard/{experiment}";
    let shipped = "/api/champion/{task}";
    let about_shipped = "The model, prompt and settings to use now; the response has an ETag";
    let summary = "The leaderboard, as `assize compare --format json` prints it";
    vec![
        Operation::get(
            "/api/bench/experiments",
            Right::Read,
            "Experiments that have runs",
            experiments::list,
        ),
        Operation::get(
            "/api/bench/runs/{experiment}",
            Right::Read,
            "One page of an experiment's runs, oldest first",
            experiments::runs,
        )
        .fails(missing),
        Operation::new::<board::BoardRequest, Leaderboard>(
            ("get", leaderboard, Right::Read, summary),
            StatusCode::OK,
            Route::get(leaderboard, Right::Read, board::get),
        )
        .fails(&[ErrorKind::NotFound, ErrorKind::Sealed]),
        Operation::new::<champion::ChampionRequest, champion::ShippedPair>(
            ("get", shipped, Right::ReadService, about_shipped),
            StatusCode::OK,
            Route::get(shipped, Right::ReadService, champion::get),
        )
        .fails(missing),
        Operation::get(
            "/api/bench/ledger/{experiment}",
            Right::Read,
            "Every look at the confirmation split, and every attempt at a promotion",
            ledger::get,
        )
        .fails(missing),
    ]
}

fn judging() -> Vec<Operation> {
    vec![
        Operation::get(
            "/api/bench/judge/next",
            Right::Judge,
            "The next blind cases for this judge, with the rubric",
            desk::next,
        )
        .fails(&[ErrorKind::NotFound]),
        Operation::post(
            "/api/bench/judge/verdicts",
            Right::Judge,
            "Submit verdicts; all are accepted or none",
            desk::verdicts,
        )
        .fails(&[ErrorKind::NotFound, ErrorKind::Conflict]),
        Operation::post(
            "/api/bench/judge/finish",
            Right::Judge,
            "End this judge's sitting; unscored cases are pending again",
            desk::finish,
        )
        .fails(&[ErrorKind::NotFound, ErrorKind::Conflict]),
    ]
}

fn job_operations() -> Vec<Operation> {
    let missing = &[ErrorKind::NotFound];
    let events = "/api/bench/jobs/{job_id}/events";
    let about = "A job's events as server-sent events; Last-Event-ID resumes a stream";
    vec![
        Operation::post(
            "/api/bench/plan",
            Right::Write,
            "Power, hours and cost of a collection, as `assize plan --json` prints them",
            plan::get,
        )
        .takes(PLAN),
        Operation::start("/api/bench/run", "Queue a collection", jobs::run).takes(COLLECT),
        Operation::start(
            "/api/bench/judge",
            "Queue automatic judging of the pending cells",
            jobs::judge,
        )
        .takes(JUDGE),
        Operation::start(
            "/api/sim/run",
            "Queue a simulation of policies",
            jobs::simulate,
        )
        .takes(SIMULATE),
        Operation::start(
            "/api/bench/optimise",
            "Queue a step of a prompt loop; with a judge, start the loop first",
            jobs::optimise,
        )
        .takes(OPTIMISE),
        Operation::get(
            "/api/bench/jobs",
            Right::Read,
            "The newest jobs, newest first",
            jobs::list,
        ),
        Operation::get(
            "/api/bench/jobs/{job_id}",
            Right::Read,
            "One job, with the end of its log",
            jobs::get,
        )
        .fails(missing),
        Operation::new::<jobs::ById, ()>(
            ("get", events, Right::Read, about),
            StatusCode::OK,
            Route::get(events, Right::Read, job_events::stream),
        )
        .streams()
        .fails(missing),
        Operation::start(
            "/api/bench/jobs/{job_id}/cancel",
            "Cancel a job; finished cells are kept",
            jobs::cancel,
        )
        .fails(missing),
        Operation::start(
            "/api/bench/jobs/{job_id}/resume",
            "Queue a finished job again; only missing cells are run",
            jobs::resume,
        )
        .fails(&[ErrorKind::NotFound, ErrorKind::Conflict]),
    ]
}

fn administration() -> Vec<Operation> {
    vec![
        Operation::get(
            "/api/tokens",
            Right::Write,
            "All tokens, without their secrets",
            tokens::list,
        ),
        Operation::post(
            "/api/tokens",
            Right::Write,
            "Create a token; its secret is returned only once",
            tokens::create,
        )
        .fails(&[ErrorKind::Conflict]),
        Operation::post(
            "/api/tokens/{id}/revoke",
            Right::Write,
            "Revoke a token",
            tokens::revoke,
        )
        .fails(&[ErrorKind::NotFound]),
        Operation::get(
            "/api/openapi.json",
            Right::AnyRole,
            "This document",
            openapi::document,
        ),
    ]
}
