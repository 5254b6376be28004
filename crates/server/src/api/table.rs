//! Every operation of the bench's API, once.

use assize_domain::job::JobKind;
use assize_domain::options::{OPTIONS, REQUEST_FIELDS};

use super::{board, call, desk, experiments, job_events, jobs, openapi, tokens};
use crate::access::Right;
use crate::http::route::Route;

/// One operation, as the router and the OpenAPI document need it.
#[derive(Debug)]
pub(crate) struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub right: Right,
    pub summary: &'static str,
    /// Fields of the query or of the JSON body: name, JSON type, whether it is required, and
    /// what it means.
    pub fields: &'static [(&'static str, &'static str, bool, &'static str)],
    /// The status of success, and the shape of what comes back.
    pub answer: (u16, &'static str),
    /// Other answers that this operation has for a reason of its own.
    pub others: &'static [u16],
    pub route: fn(&'static str, Right) -> Route,
}

const EXPERIMENT: (&str, &str, bool, &str) =
    ("experiment", "string", true, "The experiment's name");

/// A field of a request: name, JSON type, whether it is required, and what it means.
type Field = (&'static str, &'static str, bool, &'static str);

const COLLECT: &[Field] = &job_fields::<{ count_job_fields(JobKind::Collect) }>(JobKind::Collect);
const JUDGE: &[Field] = &job_fields::<{ count_job_fields(JobKind::Judge) }>(JobKind::Judge);

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

/// The fields of a request for a job, from the table of options.
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

const BY_ID: &[(&str, &str, bool, &str)] = &[];

/// The routes of all operations.
pub(crate) fn routes() -> Vec<Route> {
    let all = OPERATIONS.iter();
    all.map(|it| (it.route)(it.path, it.right)).collect()
}

pub(crate) const OPERATIONS: &[Operation] = &[
    Operation {
        method: "get",
        path: "/api/bench/experiments",
        right: Right::Read,
        summary: "Experiments that hold runs",
        fields: &[],
        answer: (200, "Experiments"),
        others: &[],
        route: |path, right| Route::get(path, right, call(experiments::list)),
    },
    Operation {
        method: "get",
        path: "/api/bench/runs/{experiment}",
        right: Right::Read,
        summary: "One page of an experiment's runs, oldest first",
        fields: &[
            ("page_token", "string", false, "Where the last page ended"),
            ("max_results", "integer", false, "1 to 1000, else 100"),
            ("model", "string", false, "Only this model"),
            ("prompt", "string", false, "Only this prompt"),
            ("scenario", "string", false, "Only this scenario"),
        ],
        answer: (200, "Runs"),
        others: &[404],
        route: |path, right| Route::get(path, right, call(experiments::runs)),
    },
    Operation {
        method: "get",
        path: "/api/bench/leaderboard/{experiment}",
        right: Right::Read,
        summary: "The leaderboard, as `assize compare --format json` prints it",
        fields: &[
            ("tier", "string", false, "expert or auto"),
            ("incumbent", "string", false, "MODEL/PROMPT"),
            (
                "split",
                "string",
                false,
                "selection, feedback or confirmation",
            ),
        ],
        answer: (200, "Leaderboard"),
        others: &[404],
        route: |path, right| Route::get(path, right, board::get),
    },
    Operation {
        method: "post",
        path: "/api/bench/run",
        right: Right::Write,
        summary: "Queue a collection",
        fields: COLLECT,
        answer: (202, "Queued"),
        others: &[],
        route: |path, right| Route::post(path, right, call(jobs::run)),
    },
    Operation {
        method: "post",
        path: "/api/bench/judge",
        right: Right::Write,
        summary: "Queue an automatic judge over what is pending",
        fields: JUDGE,
        answer: (202, "Queued"),
        others: &[],
        route: |path, right| Route::post(path, right, call(jobs::judge)),
    },
    Operation {
        method: "get",
        path: "/api/bench/judge/next",
        right: Right::Judge,
        summary: "The next blind cases for this judge, under the rubric",
        fields: &[
            EXPERIMENT,
            ("limit", "integer", false, "Cases at once, 1 to 50, else 1"),
        ],
        answer: (200, "Cases"),
        others: &[404],
        route: |path, right| Route::get(path, right, call(desk::next)),
    },
    Operation {
        method: "post",
        path: "/api/bench/judge/verdicts",
        right: Right::Judge,
        summary: "Hand verdicts in: all of them or none",
        fields: &[
            EXPERIMENT,
            (
                "verdicts",
                "verdicts",
                true,
                "One a case: case, scores, rationale",
            ),
        ],
        answer: (200, "Accepted"),
        others: &[404],
        route: |path, right| Route::post(path, right, call(desk::verdicts)),
    },
    Operation {
        method: "post",
        path: "/api/bench/judge/finish",
        right: Right::Judge,
        summary: "End this judge's sitting; what was not scored waits again",
        fields: &[EXPERIMENT],
        answer: (200, "Finished"),
        others: &[404],
        route: |path, right| Route::post(path, right, call(desk::finish)),
    },
    Operation {
        method: "get",
        path: "/api/bench/jobs",
        right: Right::Read,
        summary: "The newest jobs, newest first",
        fields: &[],
        answer: (200, "Jobs"),
        others: &[],
        route: |path, right| Route::get(path, right, call(jobs::list)),
    },
    Operation {
        method: "get",
        path: "/api/bench/jobs/{job_id}",
        right: Right::Read,
        summary: "One job, with the end of its log",
        fields: BY_ID,
        answer: (200, "Job"),
        others: &[404],
        route: |path, right| Route::get(path, right, call(jobs::get)),
    },
    Operation {
        method: "get",
        path: "/api/bench/jobs/{job_id}/events",
        right: Right::Read,
        summary: "What a job prints, as server-sent events; Last-Event-ID goes on where it was",
        fields: BY_ID,
        answer: (200, "text/event-stream"),
        others: &[404],
        route: |path, right| Route::get(path, right, job_events::stream),
    },
    Operation {
        method: "post",
        path: "/api/bench/jobs/{job_id}/cancel",
        right: Right::Write,
        summary: "Stop a job cleanly; what was done is kept",
        fields: BY_ID,
        answer: (202, "Queued"),
        others: &[404],
        route: |path, right| Route::post(path, right, call(jobs::cancel)),
    },
    Operation {
        method: "post",
        path: "/api/bench/jobs/{job_id}/resume",
        right: Right::Write,
        summary: "Queue a job that is over once more; only what is missing is done",
        fields: BY_ID,
        answer: (202, "Queued"),
        others: &[404, 409],
        route: |path, right| Route::post(path, right, call(jobs::resume)),
    },
    Operation {
        method: "get",
        path: "/api/tokens",
        right: Right::Write,
        summary: "All tokens, without their secrets",
        fields: &[],
        answer: (200, "Tokens"),
        others: &[],
        route: |path, right| Route::get(path, right, call(tokens::list)),
    },
    Operation {
        method: "post",
        path: "/api/tokens",
        right: Right::Write,
        summary: "Make a token; its secret is shown once",
        fields: &[
            ("role", "role", true, "admin, judge, viewer or service"),
            ("name", "string", false, "Whose it is"),
        ],
        answer: (200, "Token"),
        others: &[409],
        route: |path, right| Route::post(path, right, call(tokens::create)),
    },
    Operation {
        method: "post",
        path: "/api/tokens/{id}/revoke",
        right: Right::Write,
        summary: "Make a token useless",
        fields: BY_ID,
        answer: (200, "Token"),
        others: &[404],
        route: |path, right| Route::post(path, right, call(tokens::revoke)),
    },
    Operation {
        method: "get",
        path: "/api/openapi.json",
        right: Right::Read,
        summary: "This document",
        fields: &[],
        answer: (200, "OpenApi"),
        others: &[],
        route: |path, right| Route::get(path, right, call(openapi::document)),
    },
];
