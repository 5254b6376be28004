//! The table itself; [`super`] explains its columns.

use serde::{Deserialize, Serialize};

use super::FormField::{Custom, Main, More};
use super::{FormField, Identity, Kind, OptionSpec, OptionValue, Place, Range};
use crate::job::JobKind;
use crate::scenario::Split;

/// An option of `collect` and of prompt loops, which collect too, and a field of their requests.
const COLLECT: OptionSpec = OptionSpec {
    key: "",
    flag: "",
    kind: Kind::Text,
    help: "",
    field_help: "",
    comment: "",
    default_note: "",
    value_name: "N",
    short: None,
    repeats: false,
    flags: &[JobKind::Collect, JobKind::Optimise],
    fields: &[JobKind::Collect, JobKind::Optimise],
    range: None,
    identity: Identity::No,
    place: Place::No,
    is_proposable: false,
    collect_form: FormField::None,
    judge_form: FormField::None,
    suggestions: &[],
};

/// An option of every command and request that talks to a model.
const MODEL: OptionSpec = OptionSpec {
    flags: &JobKind::WITH_MODELS,
    fields: &JobKind::WITH_MODELS,
    ..COLLECT
};

/// An option of `collect` alone: a prompt loop decides it itself, or has a flag of its own for it.
const COLLECT_ONLY: OptionSpec = OptionSpec {
    flags: &[JobKind::Collect],
    fields: &[JobKind::Collect],
    ..COLLECT
};

/// Like [`MODEL`], but requests for automatic judges do not have it as a field.
const MODEL_FLAG: OptionSpec = OptionSpec {
    fields: &[JobKind::Collect, JobKind::Optimise],
    ..MODEL
};

/// An option that depends on the machine, so requests cannot set it.
const MACHINE: OptionSpec = OptionSpec {
    fields: &[],
    ..MODEL
};

/// `n_tips` → `n-tips`
const fn dashed<const N: usize>(key: &str) -> [u8; N] {
    let mut bytes = [b'-'; N];
    let mut at = 0;
    while at < N {
        if key.as_bytes()[at] != b'_' {
            bytes[at] = key.as_bytes()[at];
        }
        at += 1;
    }
    bytes
}

const fn as_text(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => "",
    }
}

const fn range(min: f64, max: f64, allowed: &'static str) -> Range {
    Range { min, max, allowed }
}

/// Makes the typed [`Options`], the [`PartialOptions`] that a task proposes, and [`OPTIONS`] from
/// one list. A row's doc comment is its help; its type gives its [`Kind`].
macro_rules! options {
    ($(
        #[doc = $help:literal]
        $key:ident: $type:ty = $default:expr,
        $base:ident { $($column:ident: $value:expr),* $(,)? }
    )*) => {
        /// Every option with its value.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Options {
            $(#[doc = $help] pub $key: $type,)*
        }

        impl Default for Options {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        /// Some options with values, for example those that a task proposes.
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct PartialOptions {
            $(
                #[doc = $help]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $key: Option<$type>,
            )*
        }

        /// The table.
        pub const OPTIONS: &[OptionSpec] = &[$(OptionSpec {
            key: stringify!($key),
            flag: {
                const DASHED: [u8; stringify!($key).len()] = dashed(stringify!($key));
                as_text(&DASHED)
            },
            kind: <$type as OptionValue>::KIND,
            help: $help.trim_ascii(),
            $($column: $value,)*
            ..$base
        },)*];

        impl Options {
            /// Every option with its value as a text.
            pub fn texts(&self) -> Vec<(&'static OptionSpec, String)> {
                let texts = [$(self.$key.text(),)*];
                OPTIONS.iter().zip(texts).collect()
            }

            pub(super) fn numbers(&self) -> Vec<(&'static OptionSpec, f64)> {
                let numbers = [$(self.$key.number(),)*];
                let numbers = OPTIONS.iter().zip(numbers);
                numbers.filter_map(|(spec, number)| Some((spec, number?))).collect()
            }
        }

        impl PartialOptions {
            /// The keys that have a value.
            pub fn keys(&self) -> Vec<&'static str> {
                let keys = [$(self.$key.as_ref().map(|_| stringify!($key)),)*];
                keys.into_iter().flatten().collect()
            }

            pub(super) fn numbers(&self) -> Vec<(&'static OptionSpec, f64)> {
                let numbers = [$(self.$key.as_ref().and_then(OptionValue::number),)*];
                let numbers = OPTIONS.iter().zip(numbers);
                numbers.filter_map(|(spec, number)| Some((spec, number?))).collect()
            }
        }
    };
}

options! {
    /// Models to evaluate: Ollama tags, embedded:NAME, openai:NAME, anthropic:NAME, gemini:NAME, command:NAME
    models: Vec<String> = Vec::new(), COLLECT {
        value_name: "MODEL,…",
        comment: "Models to evaluate. Empty: qwen2.5:0.5b, qwen2.5:1.5b, gemma3:1b and llama3.2:3b where an\nOllama server answers, else the embedded model.",
        identity: Identity::Axis,
        collect_form: Custom("Models"),
    }
    /// Prompt versions
    prompts: Vec<String> = Vec::new(), COLLECT_ONLY {
        value_name: "NAME,…",
        comment: "Prompt versions. Empty: the task's own list.",
        default_note: "the task's",
        identity: Identity::Axis,
        is_proposable: true,
        collect_form: Custom("Prompts"),
    }
    /// Candidates per cell
    n_tips: u32 = 5, COLLECT {
        range: Some(range(1.0, 1000.0, "1 to 1000")),
        identity: Identity::Always,
        is_proposable: true,
        collect_form: Main("outputs per cell"),
    }
    /// Cap on scenarios, 0 = all
    n_scenarios: u32 = 0, COLLECT_ONLY {
        collect_form: Main("at most so many scenarios (0: all)"),
    }
    /// Sampling temperature
    temperature: f64 = 0.7, COLLECT {
        value_name: "T",
        range: Some(range(0.0, 10.0, "0 to 10")),
        identity: Identity::Always,
        is_proposable: true,
        collect_form: Main("temperature"),
    }
    /// Most tokens per candidate
    max_tokens: u32 = 128, COLLECT {
        range: Some(range(1.0, f64::MAX, "at least 1")),
        identity: Identity::Always,
        is_proposable: true,
        collect_form: More("longest output, in tokens"),
    }
    /// Context per candidate, in tokens
    num_ctx: u32 = 2048, MODEL_FLAG {
        range: Some(range(1.0, f64::MAX, "at least 1")),
        identity: Identity::Always,
        is_proposable: true,
    }
    /// Determines seeds and orders
    seed: u64 = 42, MODEL_FLAG {
        comment: "Every candidate's seed derives from (seed, cell, index).",
        identity: Identity::Always,
        collect_form: More("seed"),
    }
    /// Give each candidate its own angle, and log a diversity metric
    diversity: bool = false, COLLECT {
        identity: Identity::Always,
        collect_form: More("each output gets an angle of its own"),
    }
    /// Which scenarios: selection, feedback or confirmation
    split: Split = Split::Selection, COLLECT_ONLY {
        value_name: "SPLIT",
        identity: Identity::Axis,
        collect_form: Custom("Scenarios"),
    }
    /// Values of a setting to compare, each as pairs of their own: temperature=0.2,0.7
    sweep: Vec<String> = Vec::new(), COLLECT_ONLY {
        value_name: "NAME=A,B",
        comment: "Settings that become part of the pairs: [\"temperature=0.2,0.7\"]. Several form the product. Names:\ntemperature, max_tokens, system (of the task's systems/), or an option of the model such as top_k.",
        identity: Identity::Axis,
        repeats: true,
        collect_form: More("settings to compare, such as temperature=0.2,0.7"),
    }
    /// Experiment name
    experiment: String = "tip-bench-auto".to_owned(), COLLECT_ONLY {
        value_name: "NAME",
        collect_form: Main("experiment"),
    }
    /// The kind of judge that the runs are pending for
    judge_kind: String = "claude-code".to_owned(), COLLECT {
        value_name: "KIND",
        comment: "The kind of judge that the runs wait for.",
        collect_form: More("kind of judge that is to score it"),
        suggestions: &["human", "claude-code"],
    }
    /// Reject larger models, in billions of parameters
    max_model_b: f64 = 4.0, MODEL {
        value_name: "B",
        comment: "Larger models are rejected before anything is generated, in billions of parameters.",
        range: Some(range(f64::MIN_POSITIVE, 1e6, "billions of parameters above 0")),
        collect_form: More("largest model, in billions of parameters"),
    }
    /// One or several Ollama hosts; they share the work
    ollama_url: Vec<String> = vec!["http://localhost:11434".to_owned()], MODEL {
        value_name: "URL,…",
        field_help: "Ollama hosts, from the server's allow-list",
        place: Place::Url,
    }
    /// One or several endpoints of openai: models
    base_url: String = String::new(), MODEL {
        value_name: "URL,…",
        field_help: "Endpoints of openai: models, separated by commas, from the server's allow-list",
        comment: "Endpoints of openai: models, separated by commas. Empty: OPENAI_BASE_URL. The key comes from OPENAI_API_KEY.",
        default_note: "$OPENAI_BASE_URL; key from $OPENAI_API_KEY",
        place: Place::Url,
    }
    /// Answers of scripted: models
    script: String = String::new(), MODEL {
        value_name: "FILE",
        field_help: "Answers of scripted: models, from the server's allow-list",
        place: Place::File,
        collect_form: Main("script (for scripted models)"),
        judge_form: Main("script (for scripted models)"),
    }
    /// The size of a model that does not report one, in billions
    assume_size: Vec<String> = Vec::new(), MODEL_FLAG {
        value_name: "MODEL=B",
        comment: "Sizes in billions for models that do not report one: [\"openai:gpt-x=8\"].",
        repeats: true,
    }
    /// Requests in flight for the resident model
    jobs: u32 = 1, MODEL {
        short: Some('j'),
        range: Some(range(1.0, 1024.0, "1 to 1024")),
    }
    /// Seconds that one request may take
    timeout: u64 = 120, MODEL {
        value_name: "S",
        range: Some(range(1.0, f64::MAX, "at least 1 second")),
    }
    /// Further tries for a request that failed and may succeed later
    retries: u32 = 3, MODEL {
        range: Some(range(0.0, 100.0, "at most 100")),
    }
    /// Threads of the embedded engine
    threads: usize = 0, MACHINE {
        comment: "Threads of the embedded engine; 0 means as many as there are free cores.",
        default_note: "as many as there are free cores",
    }
    /// Give up exact sampling of the embedded engine for more speed
    fast: bool = false, MACHINE {
        comment: "Give up exact, batch-independent sampling of the embedded engine for about a seventh more speed.",
    }
    /// Unload other people's models from the host instead of stopping
    evict: bool = false, MACHINE {}
    /// Seconds to wait for another Assize process that uses the same memory or the same cells
    wait: u64 = 604_800, MACHINE {
        value_name: "S",
        comment: "Seconds to wait for another Assize process that uses the same memory or the same cells; 0: do not\nwait.",
        default_note: "a week",
    }
    /// Stop before this sitting costs more, in US dollars
    max_cost: f64 = 0.0, MODEL {
        flags: &[JobKind::Judge],
        fields: &[JobKind::Judge],
        value_name: "USD",
        comment: "The most that an automatic judge may spend in one sitting, in US dollars; 0 means no cap.",
        default_note: "no cap",
        range: Some(range(0.0, f64::MAX, "US dollars from 0, which means no cap")),
        judge_form: Main("may cost at most, in US dollars"),
    }
    /// An option that is sent to the model as it is, by its own name
    model_options: Vec<String> = Vec::new(), COLLECT {
        value_name: "NAME=VALUE",
        comment: "Options that are sent to the models as they are: [\"top_k=20\"].",
        identity: Identity::WhereChanged,
        is_proposable: true,
        repeats: true,
    }
    /// What a million tokens cost, for endpoints that do not report costs
    price_per_mtok: String = String::new(), MODEL {
        flags: &[JobKind::Judge, JobKind::Optimise],
        fields: &[],
        value_name: "IN,OUT",
        comment: "What a million tokens cost, \"IN,OUT\" in US dollars, for endpoints that do not report costs.",
    }
}
