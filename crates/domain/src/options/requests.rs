//! The fields of requests for jobs: those that are not options of the table, and the names of all.

use super::{Kind, OPTIONS, OptionSpec};
use crate::job::JobKind;

/// A field of a request that is not an option: what the job is about.
#[derive(Debug, Clone, Copy)]
pub struct RequestField {
    pub key: &'static str,
    pub kind: Kind,
    pub is_required: bool,
    pub help: &'static str,
    pub requests: &'static [JobKind],
    /// What the panel's form calls it.
    pub label: &'static str,
}

/// The fields of requests besides [`OPTIONS`].
pub const REQUEST_FIELDS: &[RequestField] = &[
    RequestField {
        key: "experiment",
        kind: Kind::Text,
        is_required: true,
        help: "The experiment's name",
        requests: &[JobKind::Judge, JobKind::Optimise],
        label: "experiment",
    },
    RequestField {
        key: "judge",
        kind: Kind::Text,
        is_required: true,
        help: "The judging model; ids as in models",
        requests: &[JobKind::Judge],
        label: "Judge",
    },
    RequestField {
        key: "limit",
        kind: Kind::Integer,
        is_required: false,
        help: "Cases to judge at most, rounded up to whole scenarios; 0 for all",
        requests: &[JobKind::Judge],
        label: "cases at most",
    },
    RequestField {
        key: "task",
        kind: Kind::Text,
        is_required: false,
        help: "The task: a built-in name, or what the server allows",
        requests: &JobKind::WITH_MODELS,
        label: "task",
    },
    RequestField {
        key: "mlflow_url",
        kind: Kind::Text,
        is_required: false,
        help: "Where runs are tracked, from the server's allow-list",
        requests: &[JobKind::Collect],
        label: "tracking server",
    },
    RequestField {
        key: "policies",
        kind: Kind::List,
        is_required: false,
        help: "The policies, the baseline first; all by default",
        requests: &[JobKind::Simulate],
        label: "policies",
    },
    RequestField {
        key: "steps",
        kind: Kind::Integer,
        is_required: false,
        help: "Decisions for each persona, seed and policy",
        requests: &[JobKind::Simulate],
        label: "decisions",
    },
    RequestField {
        key: "seeds",
        kind: Kind::Integer,
        is_required: false,
        help: "Repetitions with other draws",
        requests: &[JobKind::Simulate],
        label: "seeds",
    },
    RequestField {
        key: "seed",
        kind: Kind::Integer,
        is_required: false,
        help: "Determines all draws",
        requests: &[JobKind::Simulate],
        label: "seed",
    },
    RequestField {
        key: "warm_up",
        kind: Kind::Integer,
        is_required: false,
        help: "Decisions of the baseline from which every policy learns first",
        requests: &[JobKind::Simulate],
        label: "warm-up",
    },
    RequestField {
        key: "sensitivity",
        kind: Kind::Switch,
        is_required: false,
        help: "Whether drift, delayed reward, cold start and misspecified reward are simulated too",
        requests: &[JobKind::Simulate],
        label: "sensitivity runs",
    },
    loop_field(
        "judge",
        Kind::Text,
        "The automatic judge of the race; a loop that is to be started needs one, unless every criterion is computed",
        "judge",
    ),
    loop_field(
        "reflector",
        Kind::Text,
        "Who writes new versions: agent, a model, or what the server allows",
        "reflector",
    ),
    loop_field(
        "prompt",
        Kind::Text,
        "The prompt to start from; the champion's by default",
        "prompt",
    ),
    loop_field(
        "rounds",
        Kind::Integer,
        "Rounds at most; 5 by default",
        "rounds",
    ),
    loop_field(
        "children",
        Kind::Integer,
        "Children that are asked for in a round, 1 to 4",
        "children",
    ),
    loop_field(
        "max_auto",
        Kind::Integer,
        "Automatic verdicts at most; 300 by default",
        "automatic verdicts",
    ),
    loop_field(
        "max_children",
        Kind::Integer,
        "Children of the whole loop at most",
        "children in all",
    ),
    loop_field(
        "max_cost",
        Kind::Number,
        "Stop searching before the loop costs more, in US dollars",
        "cost",
    ),
    loop_field(
        "max_hours",
        Kind::Number,
        "Stop searching so many hours after the start",
        "hours",
    ),
    loop_field(
        "stale_rounds",
        Kind::Integer,
        "Stop searching after so many rounds without a leader in a row; 3 by default",
        "rounds without a leader",
    ),
    loop_field(
        "ceiling",
        Kind::Number,
        "Stop searching when a version reaches this share of the composite's range; 0.97 by default",
        "ceiling",
    ),
    loop_field(
        "force",
        Kind::Switch,
        "Start although the preflight advises against it; admit a local model as reflector",
        "start anyway",
    ),
];

/// A field of requests that start a prompt loop; a request for the next step has none of them.
const fn loop_field(
    key: &'static str,
    kind: Kind,
    help: &'static str,
    label: &'static str,
) -> RequestField {
    RequestField {
        key,
        kind,
        is_required: false,
        help,
        requests: &[JobKind::Optimise],
        label,
    }
}

/// The keys that a request for a job of this kind may have.
pub fn request_keys(kind: JobKind) -> Vec<&'static str> {
    let own = REQUEST_FIELDS
        .iter()
        .filter(|it| kind.is_in(it.requests))
        .map(|it| it.key);
    let options = OPTIONS.iter().filter(|it| kind.is_in(it.fields));
    options.map(|it| it.key).chain(own).collect()
}

/// What the panel's form for a kind of job calls a field of its request.
pub fn form_label(kind: JobKind, key: &str) -> Option<&'static str> {
    let option = OptionSpec::find(key).and_then(|it| it.form(kind).label());
    option.or_else(|| {
        let mut own = REQUEST_FIELDS.iter().filter(|it| kind.is_in(it.requests));
        own.find(|it| it.key == key).map(|it| it.label)
    })
}
