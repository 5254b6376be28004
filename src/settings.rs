//! Settings: documented defaults, then the task's, then the file, the environment and flags.
//!
//! Raw values become valid ones in two phases: the layers are merged key by key, each key
//! remembering where its value came from, and then everything is checked at once, so that a
//! message can name the key and its origin.

use std::collections::BTreeMap;

use assize_domain::model::ModelId;
use assize_domain::options::{Options, documented_defaults};
use assize_domain::sweep;
use assize_http::{Address, redacted};
use assize_pipeline::promote::Thresholds;
use serde::Deserialize;

use crate::webhook::WebhookSettings;

mod airflow;
mod command;
mod layers;
mod policy;

pub use airflow::{AirflowSettings, is_airflow};
pub use command::CommandSettings;
pub use layers::{InForce, Layers, configured_task};
pub use policy::PolicySection;

/// The documented defaults of the settings that are not options, after those of the options.
const OTHER_DEFAULTS: &str = include_str!("defaults.toml");

const HEADER: &str = "\
# Assize's settings and their defaults. An assize.toml in the working directory may set any of
# them; environment variables (ASSIZE_N_TIPS=3) win over the file, and flags (--n-tips 3) win
# over both. A task may propose its own defaults, which stand below the file. A line that starts
# with # and a key (#margin = 0.5) is a setting that is unset by default, with an example.

";

/// All settings with their defaults and explanations, as TOML; `assize config --defaults` prints it.
pub fn documented() -> Result<String, BadSettings> {
    let options = documented_defaults()
        .map_err(|error| BadSettings::one(format!("defaults of options: {error}")))?;
    Ok(format!("{HEADER}{options}{OTHER_DEFAULTS}"))
}

/// Settings that are unset by default, each with an example: the lines `#key = value`.
fn documented_optional() -> Result<String, BadSettings> {
    let is_setting = |line: &str| {
        line.strip_prefix('#')
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_lowercase()))
    };
    let text = documented()?;
    let lines = text.lines().filter_map(|line| match line {
        line if line.starts_with('[') => Some(line),
        line if is_setting(line) => Some(&line[1..]),
        _ => None,
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// The file that is read where it is present and no other is named.
pub const DEFAULT_FILE: &str = "assize.toml";

/// Everything that can be set, by the key that sets it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The options of `collect` and `judge auto`; they are read apart from the rest.
    #[serde(skip)]
    pub options: Options,
    /// The task, where none is named with `--task`; the session reads it before the others.
    #[serde(default)]
    pub task: Option<String>,
    pub serve_open_loopback: bool,
    pub serve_allow: Vec<String>,
    pub serve_allow_commands: bool,
    pub serve_log: String,
    /// What runs the jobs of `assize serve`.
    pub engine: String,
    pub airflow: AirflowSettings,
    /// What `assize promote` asks for.
    pub gate: Thresholds,
    pub webhook: WebhookSettings,
    /// Programs that are models, by name.
    #[serde(default)]
    pub command: BTreeMap<String, CommandSettings>,
    /// The online policies.
    pub policy: PolicySection,
}

/// What is wrong with the settings, all at once.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n       "))]
pub struct BadSettings(pub Vec<String>);

impl BadSettings {
    fn one(message: String) -> Self {
        Self(vec![message])
    }
}

impl Settings {
    fn problems(&self) -> Vec<(String, String)> {
        let options = self.options.range_problems().into_iter();
        let own = options
            .chain(self.number_problems())
            .chain(self.name_problems());
        let own = own.map(|(key, message)| (key.to_owned(), message));
        let gate = self.gate.problems().into_iter();
        let gate = gate.map(|(key, message)| (format!("gate.{key}"), message));
        let policy = self.policy.problems().into_iter();
        let policy = policy.map(|(key, message)| (format!("policy.{key}"), message));
        let commands = self.command.iter();
        let commands = commands.flat_map(|(name, it)| it.problems(name));
        own.chain(gate).chain(policy).chain(commands).collect()
    }

    /// What a range in the table of options cannot say.
    fn number_problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let (num_ctx, max_tokens) = (self.options.num_ctx, self.options.max_tokens);
        if num_ctx > 0 && num_ctx <= max_tokens {
            let message =
                format!("is {num_ctx}: it must hold the prompt and max_tokens ({max_tokens})");
            problems.push(("num_ctx", message));
        }
        let prices = &self.options.price_per_mtok;
        if !prices.is_empty() && self.prices().is_none() {
            let message = format!("is '{prices}': write IN,OUT, for example 0.25,1.25");
            problems.push(("price_per_mtok", message));
        }
        problems
    }

    fn name_problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let name = self.options.experiment.trim();
        if matches!(name, "" | "." | ".." | "assize-sittings")
            || name.chars().count() > 500
            || name.chars().any(char::is_control)
        {
            problems.push((
                "experiment",
                "must be a name of 1 to 500 characters on one line, and none that Assize uses itself"
                    .to_owned(),
            ));
        }
        if !assize_domain::judge::is_kind(&self.options.judge_kind) {
            let message = format!(
                "is '{}': use a kind such as human or claude-code",
                self.options.judge_kind
            );
            problems.push(("judge_kind", message));
        }
        if self.options.ollama_url.is_empty() {
            problems.push(("ollama_url", "is empty: name at least one host".to_owned()));
        }
        let bad_url = |url: &String| format!("is '{}': use http://HOST:PORT", redacted(url));
        let hosts = self
            .options
            .ollama_url
            .iter()
            .filter(|url| Address::parse(url).is_err());
        problems.extend(hosts.map(|url| ("ollama_url", bad_url(url))));
        let endpoints = url_list(&self.options.base_url).into_iter();
        let endpoints = endpoints.filter(|url| Address::parse(url).is_err());
        problems.extend(endpoints.map(|url| ("base_url", bad_url(&url))));
        if self.serve_log.parse::<tracing::Level>().is_err() {
            let message = format!("is '{}': use error, warn, info or debug", self.serve_log);
            problems.push(("serve_log", message));
        }
        problems.extend(self.webhook.problem());
        problems.extend(self.airflow.problem(&self.engine));
        let sweep = sweep::variants(&self.options.sweep).err();
        problems.extend(sweep.map(|problem| ("sweep", problem)));
        let options = sweep::model_options_problem(&self.options.model_options);
        problems.extend(options.map(|problem| ("model_options", problem)));
        let ids = self
            .options
            .models
            .iter()
            .filter_map(|model| model.parse::<ModelId>().err());
        problems.extend(ids.map(|error| ("models", format!("has a mistake: {error}"))));
        let sizes = self
            .options
            .assume_size
            .iter()
            .filter(|text| parse_size(text).is_none());
        problems.extend(
            sizes.map(|text| ("assume_size", format!("has '{text}': write MODEL=BILLIONS"))),
        );
        problems
    }

    /// What a million tokens in and out cost, in US dollars, where the user says so.
    pub fn prices(&self) -> Option<(f64, f64)> {
        let (input, output) = self.options.price_per_mtok.split_once(',')?;
        let read = |text: &str| text.trim().parse().ok();
        let is_valid = |price: &f64| price.is_finite() && *price >= 0.0;
        Some((
            read(input).filter(is_valid)?,
            read(output).filter(is_valid)?,
        ))
    }

    /// Sizes that the user vouches for, by model id.
    pub fn assumed_sizes(&self) -> BTreeMap<String, f64> {
        self.options
            .assume_size
            .iter()
            .filter_map(|text| parse_size(text))
            .collect()
    }
}

/// The addresses in a text, separated by commas.
pub fn url_list(text: &str) -> Vec<String> {
    let urls = text.split(',').map(str::trim);
    urls.filter(|url| !url.is_empty())
        .map(str::to_owned)
        .collect()
}

fn parse_size(text: &str) -> Option<(String, f64)> {
    let (model, billions) = text.rsplit_once('=')?;
    let billions: f64 = billions.trim().trim_end_matches(['b', 'B']).parse().ok()?;
    let model: ModelId = model.parse().ok()?;
    (billions > 0.0 && billions < 1e6).then(|| (model.to_string(), billions))
}

#[cfg(test)]
mod tests;
