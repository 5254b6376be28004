//! Every operation of the bench's API, once.

use axum::routing::{self, MethodRouter};

use super::{board, desk, experiments, get, jobs, openapi, post, tokens};
use crate::App;
use crate::access::Right;

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
    pub route: fn() -> MethodRouter<App>,
}

const EXPERIMENT: (&str, &str, bool, &str) =
    ("experiment", "string", true, "The experiment's name");

/// Fields that a collection takes; the same as flags and settings.
const COLLECT: &[(&str, &str, bool, &str)] = &[
    ("models", "array", false, "Models to evaluate"),
    ("prompts", "array", false, "Prompt versions"),
    ("experiment", "string", false, "The experiment's name"),
    (
        "task",
        "string",
        false,
        "The task: a built-in name, or what the server allows",
    ),
    ("n_tips", "integer", false, "Candidates per cell"),
    ("n_scenarios", "integer", false, "Cap on scenarios, 0 = all"),
    ("temperature", "number", false, "Sampling temperature"),
    (
        "max_model_b",
        "number",
        false,
        "Larger models are rejected, in billions",
    ),
    (
        "diversity",
        "boolean",
        false,
        "Give each candidate its own angle",
    ),
    (
        "ollama_url",
        "array",
        false,
        "Ollama hosts, from the server's allow-list",
    ),
    (
        "mlflow_url",
        "string",
        false,
        "Where runs are tracked, from the server's allow-list",
    ),
    (
        "base_url",
        "string",
        false,
        "For openai: models, from the server's allow-list",
    ),
    (
        "script",
        "string",
        false,
        "For scripted: models, from the server's allow-list",
    ),
    ("seed", "integer", false, "Determines seeds and orders"),
    (
        "split",
        "string",
        false,
        "selection, feedback or confirmation",
    ),
    ("max_tokens", "integer", false, "Most tokens per candidate"),
    (
        "num_ctx",
        "integer",
        false,
        "Context per candidate, in tokens",
    ),
    (
        "jobs",
        "integer",
        false,
        "Requests in flight for the resident model",
    ),
    (
        "timeout",
        "integer",
        false,
        "Seconds that one request may take",
    ),
    (
        "retries",
        "integer",
        false,
        "Further tries for what is worth another",
    ),
    ("judge_kind", "string", false, "Whose desk the runs wait on"),
    (
        "assume_size",
        "array",
        false,
        "Sizes that models do not report: MODEL=BILLIONS",
    ),
];

const JUDGE: &[(&str, &str, bool, &str)] = &[
    EXPERIMENT,
    (
        "judge",
        "string",
        true,
        "The judging model; ids as in models",
    ),
    (
        "task",
        "string",
        false,
        "The task, for its calibration cases",
    ),
    (
        "limit",
        "integer",
        false,
        "Cases to judge at most, rounded up to whole scenarios; 0 for all",
    ),
    (
        "max_cost",
        "number",
        false,
        "The most that it may spend, in US dollars",
    ),
    (
        "max_model_b",
        "number",
        false,
        "Larger models are rejected, in billions",
    ),
    (
        "ollama_url",
        "array",
        false,
        "Ollama hosts, from the server's allow-list",
    ),
    (
        "base_url",
        "string",
        false,
        "For openai: models, from the server's allow-list",
    ),
    (
        "script",
        "string",
        false,
        "For scripted: models, from the server's allow-list",
    ),
    ("jobs", "integer", false, "Requests in flight"),
    (
        "timeout",
        "integer",
        false,
        "Seconds that one request may take",
    ),
    (
        "retries",
        "integer",
        false,
        "Further tries for what is worth another",
    ),
];

const BY_ID: &[(&str, &str, bool, &str)] = &[];

pub(crate) const OPERATIONS: &[Operation] = &[
    Operation {
        method: "get",
        path: "/api/bench/experiments",
        right: Right::Read,
        summary: "Experiments that hold runs",
        fields: &[],
        answer: (200, "Experiments"),
        others: &[],
        route: || get(experiments::list),
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
        route: || get(experiments::runs),
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
        route: || routing::get(board::get),
    },
    Operation {
        method: "post",
        path: "/api/bench/run",
        right: Right::Write,
        summary: "Queue a collection",
        fields: COLLECT,
        answer: (202, "Queued"),
        others: &[],
        route: || post(jobs::run),
    },
    Operation {
        method: "post",
        path: "/api/bench/judge",
        right: Right::Write,
        summary: "Queue an automatic judge over what is pending",
        fields: JUDGE,
        answer: (202, "Queued"),
        others: &[],
        route: || post(jobs::judge),
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
        route: || get(desk::next),
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
        route: || post(desk::verdicts),
    },
    Operation {
        method: "post",
        path: "/api/bench/judge/finish",
        right: Right::Judge,
        summary: "End this judge's sitting; what was not scored waits again",
        fields: &[EXPERIMENT],
        answer: (200, "Finished"),
        others: &[404],
        route: || post(desk::finish),
    },
    Operation {
        method: "get",
        path: "/api/bench/jobs",
        right: Right::Read,
        summary: "The newest jobs, newest first",
        fields: &[],
        answer: (200, "Jobs"),
        others: &[],
        route: || get(jobs::list),
    },
    Operation {
        method: "get",
        path: "/api/bench/jobs/{job_id}",
        right: Right::Read,
        summary: "One job, with the end of its log",
        fields: BY_ID,
        answer: (200, "Job"),
        others: &[404],
        route: || get(jobs::get),
    },
    Operation {
        method: "get",
        path: "/api/bench/jobs/{job_id}/events",
        right: Right::Read,
        summary: "What a job prints, as server-sent events; Last-Event-ID goes on where it was",
        fields: BY_ID,
        answer: (200, "text/event-stream"),
        others: &[404],
        route: || routing::get(jobs::events),
    },
    Operation {
        method: "post",
        path: "/api/bench/jobs/{job_id}/cancel",
        right: Right::Write,
        summary: "Stop a job cleanly; what was done is kept",
        fields: BY_ID,
        answer: (202, "Queued"),
        others: &[404],
        route: || post(jobs::cancel),
    },
    Operation {
        method: "post",
        path: "/api/bench/jobs/{job_id}/resume",
        right: Right::Write,
        summary: "Queue a job that is over once more; only what is missing is done",
        fields: BY_ID,
        answer: (202, "Queued"),
        others: &[404, 409],
        route: || post(jobs::resume),
    },
    Operation {
        method: "get",
        path: "/api/tokens",
        right: Right::Write,
        summary: "All tokens, without their secrets",
        fields: &[],
        answer: (200, "Tokens"),
        others: &[],
        route: || get(tokens::list),
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
        route: || post(tokens::create),
    },
    Operation {
        method: "post",
        path: "/api/tokens/{id}/revoke",
        right: Right::Write,
        summary: "Make a token useless",
        fields: BY_ID,
        answer: (200, "Token"),
        others: &[404],
        route: || post(tokens::revoke),
    },
    Operation {
        method: "get",
        path: "/api/openapi.json",
        right: Right::Read,
        summary: "This document",
        fields: &[],
        answer: (200, "OpenApi"),
        others: &[],
        route: || get(openapi::document),
    },
];
