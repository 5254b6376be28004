//! From a request's fields to a command line of this program.
//!
//! Everything is checked before the job is queued, and every bad field is named. Addresses and
//! paths must be configured or allowed, so that no client can use the server to reach what only it
//! can reach.

use std::path::PathBuf;
use std::sync::Arc;

use assize_domain::job::JobKind;
use assize_domain::model::{ModelId, ProviderKind};
use assize_domain::options::{OptionSpec, Place, request_keys};
use assize_domain::sweep;
use assize_domain::task::Task;
use assize_http::{LocalMachine, THIS_MACHINE};
use assize_pipeline::computed::refuse_commands;
use assize_pipeline::experiment_task::ExperimentTask;
use assize_pipeline::guard::memory_of;
use assize_pipeline::task_files;
use assize_policy::PolicyKind;
use assize_server::{FieldProblem, Plan, Planner, experiment_task};
use assize_store::Tracking;
use assize_store::state::State;
use serde_json::{Map, Value};

use crate::commands::judge::auto::check_spending;
use crate::commands::serve::task_folders;
use crate::commands::simulate::simulated_experiment;
use crate::environment;
use crate::session::Session;
use crate::settings::{Settings, is_airflow};

mod on_airflow;

mod optimise;

/// Checks requests by the server's own settings.
pub fn planner(
    session: &Session,
    settings: &Settings,
    allowed: Vec<String>,
    (store, state, no_anchors): (Arc<dyn Tracking>, Arc<State>, bool),
) -> Planner {
    let checker = Checker {
        session: session.clone(),
        settings: settings.clone(),
        task_folders: task_folders(session, &allowed),
        allowed,
        store,
        state,
        no_anchors,
    };
    Planner::new(move |kind, fields| match kind {
        JobKind::Collect => checker.collect(fields),
        JobKind::Judge => checker.judge(fields),
        JobKind::Simulate => checker.simulate(fields),
        JobKind::Optimise => checker.optimise(fields),
    })
}

/// The host of simulations: they use all cores, so that only one runs at a time.
const THIS_PROCESSOR: &str = "processor";

/// The numbers of a simulation: field, flag and the largest value.
const SIMULATED_NUMBERS: [(&str, &str, u64); 4] = [
    ("steps", "steps", 1_000_000),
    ("seeds", "seeds", 10_000),
    ("seed", "seed", u64::MAX),
    ("warm_up", "warm-up", 1_000_000),
];

struct Checker {
    session: Session,
    settings: Settings,
    allowed: Vec<String>,
    task_folders: Vec<PathBuf>,
    store: Arc<dyn Tracking>,
    state: Arc<State>,
    no_anchors: bool,
}

type Problems = Vec<FieldProblem>;

fn problem(field: &str, message: impl Into<String>) -> FieldProblem {
    FieldProblem {
        field: field.to_owned(),
        message: message.into(),
    }
}

impl Checker {
    fn collect(&self, fields: &Map<String, Value>) -> Result<Plan, Problems> {
        let mut problems = unknown(fields, JobKind::Collect);
        let task = self.task(fields, &mut problems);
        self.check_places(fields, &mut problems);
        let settings = self.settings_of(task.as_ref(), fields, &mut problems);
        let models = fields.get("models").map(places).unwrap_or_default();
        self.check_weights("models", models.into_iter(), &mut problems);
        let of_settings = settings.iter().flat_map(|it| &it.options.prompts);
        let prompts = match fields.get("prompts") {
            Some(named) => places(named),
            None => of_settings.map(String::as_str).collect(),
        };
        problems.extend(unknown_prompts(task.as_ref(), &prompts));
        let (Some(task), Some(settings), true) = (task, settings, problems.is_empty()) else {
            return Err(problems);
        };
        let named = fields.get("task").and_then(Value::as_str);
        let named = named.unwrap_or(&self.session.task_name).to_owned();
        let total = cells(&task, &settings);
        if is_airflow(&self.settings.engine) {
            return self.collect_on_airflow(&settings, fields, (named, total));
        }
        let mut words = self.words(&["collect"], fields, Some(named));
        words.push("--events".to_owned());
        words.extend(flags(fields));
        Ok(Plan {
            kind: JobKind::Collect,
            hosts: hosts(&settings.options.models, &settings),
            total,
            experiment: settings.options.experiment,
            words,
        })
    }

    fn judge(&self, fields: &Map<String, Value>) -> Result<Plan, Problems> {
        let mut problems = unknown(fields, JobKind::Judge);
        let task = self.judged_task(fields, &mut problems);
        self.check_places(fields, &mut problems);
        let settings = self.settings_of(None, fields, &mut problems);
        if !fields.contains_key("experiment") {
            problems.push(problem("experiment", "is missing"));
        }
        let judge = fields.get("judge").and_then(Value::as_str);
        self.check_weights("judge", judge.into_iter(), &mut problems);
        match judge.map(str::parse::<ModelId>) {
            None => problems.push(problem("judge", "is missing: name a model, as in models")),
            Some(Err(error)) => problems.push(problem("judge", format!("has a mistake: {error}"))),
            Some(Ok(id)) => {
                let cap = fields.get("max_cost").and_then(Value::as_f64);
                let checked = settings
                    .as_ref()
                    .map_or(Ok(()), |it| check_spending(&id, cap, it));
                if let Err(error) = checked {
                    problems.push(problem("max_cost", format!("cannot be kept: {error}")));
                }
            }
        }
        let limit = fields.get("limit").filter(|it| !it.is_null());
        let limit = limit.map(|it| it.as_u64().and_then(|it| u32::try_from(it).ok()));
        if limit == Some(None) {
            problems.push(problem(
                "limit",
                "must be a whole number of cases, 0 for all",
            ));
        }
        let (Some(settings), Some(judge), true) = (settings, judge, problems.is_empty()) else {
            return Err(problems);
        };
        let mut words = self.words(&["judge", "auto"], fields, task);
        words.push("--events".to_owned());
        words.extend(self.no_anchors.then(|| "--no-anchors".to_owned()));
        words.push(format!("--judge={judge}"));
        words.extend(limit.flatten().map(|it| format!("--limit={it}")));
        words.extend(flags(fields));
        Ok(Plan {
            kind: JobKind::Judge,
            hosts: hosts(&[judge.to_owned()], &settings),
            total: 0,
            experiment: settings.options.experiment,
            words,
        })
    }

    fn simulate(&self, fields: &Map<String, Value>) -> Result<Plan, Problems> {
        let mut problems = unknown(fields, JobKind::Simulate);
        let mut words = self.words(&["simulate"], fields, None);
        words.push("--events".to_owned());
        let policies = fields.get("policies").map(places).unwrap_or_default();
        for name in &policies {
            if let Err(error) = name.parse::<PolicyKind>() {
                problems.push(problem("policies", format!("has a mistake: {error}")));
            }
        }
        if !policies.is_empty() {
            words.push(format!("--policies={}", policies.join(",")));
        }
        for (key, flag, most) in SIMULATED_NUMBERS {
            match fields.get(key).map(Value::as_u64) {
                None => {}
                Some(Some(number)) if (1..=most).contains(&number) => {
                    words.push(format!("--{flag}={number}"));
                }
                Some(_) => {
                    let message = format!("must be a whole number from 1 to {most}");
                    problems.push(problem(key, message));
                }
            }
        }
        let is_short = match fields.get("sensitivity") {
            None | Some(Value::Bool(true)) => false,
            Some(Value::Bool(false)) => true,
            Some(_) => {
                problems.push(problem("sensitivity", "must be true or false"));
                false
            }
        };
        words.extend(is_short.then(|| "--no-sensitivity".to_owned()));
        if !problems.is_empty() {
            return Err(problems);
        }
        let now = environment::now();
        let experiment = simulated_experiment(&now.rfc3339);
        if is_airflow(&self.settings.engine) {
            return Ok(self.simulate_on_airflow(fields, experiment));
        }
        words.push(format!("--experiment={experiment}"));
        let variants = if is_short { 1 } else { 5 };
        Ok(Plan {
            kind: JobKind::Simulate,
            // Jobs with the same host run one after the other.
            hosts: vec![THIS_PROCESSOR.to_owned()],
            total: variants,
            experiment,
            words,
        })
    }

    /// The command with the arguments that every job gets.
    fn words(
        &self,
        command: &[&str],
        fields: &Map<String, Value>,
        task: Option<String>,
    ) -> Vec<String> {
        let text = |key: &str| fields.get(key).and_then(Value::as_str);
        let mut words: Vec<String> = command.iter().map(|it| (*it).to_owned()).collect();
        let uri = text("mlflow_url").unwrap_or_else(|| self.session.tracking_uri());
        words.push("--json".to_owned());
        words.push(format!("--tracking-uri={uri}"));
        if !self.settings.serve_allow_commands {
            words.push("--no-commands".to_owned());
        }
        words.extend(task.map(|it| format!("--task={it}")));
        if let Some(file) = self.session.config_file() {
            words.push(format!("--config={}", file.display()));
        }
        words
    }

    /// The task of a judging job: the one that is named, else the experiment's. Runs that name no
    /// task, and experiments of other stores, are left to the command.
    fn judged_task(&self, fields: &Map<String, Value>, problems: &mut Problems) -> Option<String> {
        if let Some(named) = fields.get("task").filter(|it| !it.is_null()) {
            self.task(fields, problems)?;
            return named.as_str().map(str::to_owned);
        }
        let experiment = fields.get("experiment").and_then(Value::as_str)?;
        if self.no_anchors || fields.contains_key("mlflow_url") {
            return None;
        }
        let task = &self.session.task_name;
        let found = experiment_task(task, &self.task_folders, self.store.as_ref(), experiment);
        match found {
            Ok(ExperimentTask::Found(found)) => Some(found.place),
            // The command says that there is no such experiment.
            Ok(ExperimentTask::Unnamed) | Err(_) => None,
            Ok(missing @ ExperimentTask::Missing { .. }) => {
                let missing = missing.need().err().map(|it| it.to_string());
                problems.push(problem(
                    "task",
                    format!("cannot be used: {}", missing.unwrap_or_default()),
                ));
                None
            }
        }
    }

    fn task(&self, fields: &Map<String, Value>, problems: &mut Problems) -> Option<Task> {
        let named = match fields.get("task") {
            None | Some(Value::Null) => self.session.task_name.as_str(),
            Some(Value::String(name)) => name,
            Some(_) => {
                problems.push(problem("task", "must be a text"));
                return None;
            }
        };
        let is_builtin = assize_domain::builtin::NAMES.contains(&named);
        if !is_builtin && named != self.session.task_name && !self.allows(named) {
            problems.push(problem("task", not_allowed(named)));
            return None;
        }
        let task = task_files::load(named).and_then(|task| {
            if !self.settings.serve_allow_commands {
                refuse_commands(&task)?;
            }
            Ok(task)
        });
        task.map_err(|error| problems.push(problem("task", format!("cannot be used: {error}"))))
            .ok()
    }

    fn allows(&self, place: &str) -> bool {
        self.allowed.iter().any(|it| it == place)
    }

    /// Addresses and paths must be known to the server.
    fn check_places(&self, fields: &Map<String, Value>, problems: &mut Problems) {
        let openai = self.session.environment.get("OPENAI_BASE_URL");
        let configured = self.settings.options.texts().into_iter();
        let options = configured.filter(|(spec, _)| spec.place != Place::No);
        let of_airflow = self.settings.airflow.tracking_uri.as_str();
        let tracking = [self.session.tracking_uri(), of_airflow].into_iter();
        let tracking: Vec<&str> = tracking.filter(|it| !it.is_empty()).collect();
        let tracking = ("mlflow_url", tracking.join(","));
        let known = options.map(|(spec, text)| (spec.key, text));
        for (field, known) in known.chain([tracking]) {
            let also = openai.filter(|_| field == "base_url").unwrap_or_default();
            for place in fields.get(field).map(places).unwrap_or_default() {
                let is_known = known
                    .split(',')
                    .chain(also.split(','))
                    .any(|it| it.trim() == place);
                if !is_known && !self.allows(place) {
                    problems.push(problem(field, not_allowed(place)));
                }
            }
        }
    }

    /// The embedded engine also takes files of weights, and programs are models too: only those that
    /// are allowed.
    fn check_weights<'a>(
        &self,
        field: &str,
        models: impl Iterator<Item = &'a str>,
        problems: &mut Problems,
    ) {
        for model in models {
            let is_file = model.contains(['/', '\\']) || model.to_lowercase().contains(".gguf");
            let kind = model.parse::<ModelId>().map(|it| it.provider);
            let is_restricted = match kind {
                Ok(ProviderKind::Embedded) => is_file,
                Ok(ProviderKind::Command) => true,
                _ => false,
            };
            if is_restricted && !self.allows(model) {
                problems.push(problem(field, not_allowed(model)));
            }
        }
    }

    /// The settings that the job would have.
    fn settings_of(
        &self,
        task: Option<&Task>,
        fields: &Map<String, Value>,
        problems: &mut Problems,
    ) -> Option<Settings> {
        let defaults = task.map(|it| it.defaults.clone()).unwrap_or_default();
        let mut layers = match self.session.layers(&defaults) {
            Ok(layers) => layers,
            Err(error) => {
                problems.push(problem("task", error.to_string()));
                return None;
            }
        };
        for (key, value) in fields {
            if OptionSpec::find(key).is_none() {
                continue;
            }
            match toml::Value::try_from(value) {
                Ok(value) if layers.fits(key, &value) => layers.set(key, value, "the request"),
                _ => problems.push(problem(key, format!("must be {}", layers.kind(key)))),
            }
        }
        match layers.check() {
            Ok(settings) => Some(settings),
            Err(found) => {
                problems.extend(
                    found
                        .into_iter()
                        .map(|(key, message)| problem(&key, message)),
                );
                None
            }
        }
    }
}

fn unknown_prompts(task: Option<&Task>, prompts: &[&str]) -> Problems {
    let Some(task) = task else {
        return Problems::new();
    };
    let known: Vec<&str> = task.prompts.iter().map(|it| it.name.as_str()).collect();
    let unknown = prompts.iter().filter(|it| !known.contains(it));
    unknown
        .map(|it| problem("prompts", format!("has '{it}': use {}", known.join(", "))))
        .collect()
}

fn not_allowed(place: &str) -> String {
    format!(
        "has '{place}', which this server does not allow: start it with --allow, or leave it out"
    )
}

fn unknown(fields: &Map<String, Value>, kind: JobKind) -> Problems {
    let known = request_keys(kind);
    let unknown = fields.keys().filter(|key| !known.contains(&key.as_str()));
    unknown
        .map(|key| {
            problem(
                key,
                format!("is not a field of this request: use {}", known.join(", ")),
            )
        })
        .collect()
}

/// The texts of a field that is one or several.
fn places(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => text.split(',').map(str::trim).collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Options as flags; what is not set is left out.
fn flags(fields: &Map<String, Value>) -> Vec<String> {
    let mut words = Vec::new();
    for (key, value) in fields {
        let Some(spec) = OptionSpec::find(key) else {
            continue;
        };
        let flag = format!("--{}", spec.flag);
        match value {
            Value::Null => {}
            Value::Array(list) if list.is_empty() => {}
            Value::Array(list) if spec.repeats => {
                let each = list.iter().filter_map(Value::as_str);
                words.extend(each.map(|it| format!("{flag}={it}")));
            }
            Value::Array(_) => words.push(format!("{flag}={}", places(value).join(","))),
            Value::String(text) => words.push(format!("{flag}={text}")),
            other => words.push(format!("{flag}={other}")),
        }
    }
    words
}

/// The hosts whose memory these models occupy.
fn hosts(models: &[String], settings: &Settings) -> Vec<String> {
    let machine = LocalMachine::system();
    let mut hosts = Vec::new();
    let ollama = settings
        .options
        .ollama_url
        .iter()
        .map(|url| memory_of(url, &machine));
    let kinds: Vec<ProviderKind> = models
        .iter()
        .filter_map(|it| it.parse::<ModelId>().ok())
        .map(|it| it.provider)
        .collect();
    // No model is named: it will be Ollama's or the embedded one.
    if kinds.is_empty() || kinds.contains(&ProviderKind::Ollama) {
        hosts.extend(ollama);
    }
    if kinds.is_empty() || kinds.contains(&ProviderKind::Embedded) {
        hosts.push(THIS_MACHINE.to_owned());
    }
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// Cells in all; 0 where no model is named.
fn cells(task: &Task, settings: &Settings) -> u32 {
    let in_split = task
        .scenarios
        .iter()
        .filter(|it| it.split == settings.options.split);
    let scenarios = in_split.count();
    let cap = settings.options.n_scenarios as usize;
    let scenarios = if cap == 0 {
        scenarios
    } else {
        scenarios.min(cap)
    };
    let prompts = match settings.options.prompts.len() {
        0 => task.prompts.len(),
        named => named,
    };
    let variants = sweep::variants(&settings.options.sweep).map_or(1, |it| it.len());
    let pairs = settings.options.models.len() * prompts * variants;
    u32::try_from(pairs * scenarios).unwrap_or(u32::MAX)
}
