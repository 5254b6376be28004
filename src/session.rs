//! What every command works with: settings, store, providers, guard.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::bail;
use assize_domain::anchor::Anchors;
use assize_domain::builtin;
use assize_domain::hash::sha256_hex;
use assize_domain::ledger::Via;
use assize_domain::model::ModelId;
use assize_domain::options::Options;
use assize_domain::task::{Task, TaskDefaults, TaskScenarios};
use assize_http::{Address, LocalMachine, place_of, redacted};
use assize_mlflow::MlflowStore;
use assize_pipeline::computed::refuse_commands;
use assize_pipeline::experiment_task::{self, ExperimentTask, Lookup, TaskContent};
use assize_pipeline::guard::Guard;
use assize_pipeline::ledger::Author;
use assize_pipeline::team::Team;
use assize_pipeline::{PipelineError, lock, task_files};
use assize_report::shell::{command_line, command_lines};
use assize_report::text::width;
use assize_server::{JobCredentials, Stores};
use assize_store::embedded::EmbeddedStore;
use assize_store::state::State;
use assize_store::{Runs, Tracking};

use crate::cli::Global;
use crate::delivery;
use crate::environment::{self, Environment, STATE_DIR};
use crate::output::Output;
use crate::settings::{Layers, Settings, configured_task};
use crate::tracking::{self, OpenStore};

mod providers;

pub use providers::Providers;
use providers::ollama_answers;

/// The default model where no Ollama answers.
pub const EMBEDDED_DEFAULT: &str = "embedded:smollm2-135m";
/// The default models where an Ollama answers.
const OLLAMA_DEFAULTS: [&str; 4] = ["qwen2.5:0.5b", "qwen2.5:1.5b", "gemma3:1b", "llama3.2:3b"];
/// The default tracking URI.
const DEFAULT_STORE: &str = "sqlite:.assize/assize.db";
/// The dead man's switch: a host unloads our model so long after our last call.
const KEEP_ALIVE: Duration = Duration::from_mins(2);

/// One invocation of the binary.
#[derive(Debug, Clone)]
pub struct Session {
    pub environment: Environment,
    pub output: Output,
    /// The task of what is made anew: the one that was named, else the default.
    pub task_name: String,
    /// The task that was named with `--task`.
    pub task_given: Option<String>,
    /// The task that the settings name, and the place that names it.
    task_setting: Option<(String, String)>,
    /// As it was given; it may contain credentials.
    full_uri: String,
    /// Whether a flag or the environment names it.
    is_tracking_given: bool,
    tracking_uri: String,
    config: Option<PathBuf>,
    /// Whether tasks whose computed criteria run commands are refused.
    no_commands: bool,
    /// What the user typed that the next command needs too.
    globals: Vec<(&'static str, String)>,
}

impl Session {
    pub fn open(global: &Global) -> anyhow::Result<Self> {
        let environment = Environment::read().map_err(PipelineError::Invalid)?;
        let output = Output::new(global, &environment);
        for warning in &environment.warnings {
            output.say(&format!("warning: {warning}"));
        }
        lock::identify(environment::identity());
        let task_setting = configured_task(global.config.as_deref(), &environment)?;
        let configured = task_setting.as_ref().map(|(task, _)| task.clone());
        let is_task_set = configured.is_some();
        let given = global
            .tracking_uri
            .clone()
            .or_else(|| environment.get("MLFLOW_TRACKING_URI").map(str::to_owned));
        let is_tracking_given = given.is_some();
        let full_uri = given.unwrap_or_else(|| DEFAULT_STORE.to_owned());
        Ok(Self {
            output,
            environment,
            task_name: (global.task.clone())
                .or(configured)
                .unwrap_or_else(|| builtin::DEFAULT.to_owned()),
            task_given: global.task.clone(),
            task_setting,
            tracking_uri: redacted(&full_uri),
            full_uri,
            is_tracking_given,
            config: global.config.clone(),
            no_commands: global.no_commands,
            globals: globals(global, is_task_set),
        })
    }

    /// Refuses a task whose computed criteria run commands, where they are not allowed.
    pub fn check_commands(&self, task: &Task) -> anyhow::Result<()> {
        if self.no_commands {
            refuse_commands(task)?;
        }
        Ok(())
    }

    /// Flags for a command that the user may type next, with the globals that were given now.
    pub fn flags<'a>(&'a self, flags: &[(&'a str, &str)]) -> Vec<(&'a str, String)> {
        let own = flags
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let globals = self.globals.iter().filter(|(name, _)| {
            let mut own = flags.iter();
            own.all(|(taken, _)| taken != name)
        });
        own.chain(globals.cloned()).collect()
    }

    /// `Next: assize VERB …`, ready for a shell, on lines of its own where it is long.
    pub fn next(&self, verb: &str, flags: &[(&str, &str)]) -> String {
        self.next_after("", verb, flags)
    }

    /// The same, where something has to be done before.
    pub fn next_after(&self, first: &str, verb: &str, flags: &[(&str, &str)]) -> String {
        let flags = self.flags(flags);
        let line = format!("Next: {first}{}", command_line(verb, &flags));
        if width(&line) <= self.output.width {
            return line;
        }
        let lines = command_lines(verb, &flags, self.output.width);
        format!("Next: {}\n{lines}", first.trim_end()).replace("Next: \n", "Next:\n")
    }

    /// Who runs this command, for the ledger.
    pub fn author(&self) -> Author {
        Author {
            by: self.user(),
            at: environment::now_rfc3339(),
            via: Via::Command,
            entropy: environment::entropy,
        }
    }

    /// The name of the user who runs this command.
    pub fn user(&self) -> String {
        self.environment
            .user()
            .unwrap_or_else(|| "unknown".to_owned())
    }

    /// The settings file that the user named.
    pub fn config_file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The task that the user named, else the default, for what is made anew.
    pub fn task(&self) -> anyhow::Result<Task> {
        Ok(task_files::load(&self.task_name)?)
    }

    /// The task of an experiment. It is an error if `--task` names another one.
    pub fn task_of<T: TaskContent>(
        &self,
        store: &dyn Runs,
        experiment: &str,
    ) -> anyhow::Result<ExperimentTask<T>> {
        let lookup = Lookup {
            given: self.task_given.as_deref(),
            // The settings name a task for what is made anew: an experiment may have another one.
            preferred: self.task_setting.as_ref().map(|(task, _)| task.as_str()),
            ..Lookup::default()
        };
        Ok(experiment_task::find(store, experiment, lookup)?)
    }

    /// Refuses a `--task` that is not the experiment's, for commands that need nothing else of it.
    pub fn check_task(&self, store: &dyn Runs, experiment: &str) -> anyhow::Result<()> {
        if self.task_given.is_some() {
            self.task_of::<TaskScenarios>(store, experiment)?;
        }
        Ok(())
    }

    /// Refuses to collect the default task into an experiment whose runs have files of their own: the
    /// newest runs say which scenarios count, so a forgotten `--task` would replace them all.
    pub fn check_default_task(&self, experiment: &str) -> anyhow::Result<()> {
        if self.task_given.is_some()
            || tracking::is_server(&self.full_uri)
            || !self.store_exists()?
        {
            return Ok(());
        }
        let store = self.store(true)?;
        // An experiment that does not exist yet has no task.
        let Ok(ExperimentTask::Found(found)) = self.task_of::<Task>(store.as_ref(), experiment)
        else {
            return Ok(());
        };
        if found.place == self.task_name {
            return Ok(());
        }
        Err(PipelineError::Invalid(format!(
            "the experiment '{experiment}' holds runs of the task in {}, and without --task this collection would use \
             '{}': name the folder with --task {}, or collect into another experiment",
            found.place, self.task_name, found.place
        ))
        .into())
    }

    /// The calibration cases for an experiment. It is an error if its task's files are missing,
    /// unless the user leaves the calibration cases out.
    pub fn anchors(
        &self,
        store: &dyn Runs,
        experiment: &str,
        left_out: bool,
    ) -> anyhow::Result<Anchors> {
        if left_out {
            self.check_task(store, experiment)?;
            return Ok(Anchors::default());
        }
        Ok(self.task_of(store, experiment)?.anchors()?)
    }

    /// Settings below the flags.
    pub fn layers(&self, task: &TaskDefaults) -> anyhow::Result<Layers> {
        let mut layers = Layers::new(task)?;
        layers.file(self.config.as_deref())?;
        layers.environment(&self.environment)?;
        Ok(layers)
    }

    /// This invocation with the tracking URI that something was begun with. It is an error if the user
    /// names another one.
    pub fn tracking_at(&self, begun_with: &str) -> anyhow::Result<Self> {
        if self.tracking_uri == begun_with {
            return Ok(self.clone());
        }
        if self.is_tracking_given {
            bail!(PipelineError::Invalid(format!(
                "this was begun with --tracking-uri {begun_with}, and the tracking URI (--tracking-uri or \
                 MLFLOW_TRACKING_URI) is {} now: name the first one, or none",
                self.tracking_uri
            )));
        }
        Ok(Self {
            full_uri: begun_with.to_owned(),
            tracking_uri: begun_with.to_owned(),
            ..self.clone()
        })
    }

    /// The task where none is named with `--task`.
    pub fn default_task(&self) -> &str {
        let configured = self.task_setting.as_ref();
        configured.map_or(builtin::DEFAULT, |(task, _)| task)
    }

    /// Where the name of the task comes from.
    pub fn task_origin(&self) -> &str {
        match (&self.task_given, &self.task_setting) {
            (Some(_), _) => "--task",
            (None, Some((_, origin))) => origin,
            (None, None) => "default",
        }
    }

    /// Where the tracking URI comes from.
    pub fn tracking_origin(&self) -> String {
        let is_flag = self
            .globals
            .iter()
            .any(|(name, _)| *name == "--tracking-uri");
        match (is_flag, self.is_tracking_given) {
            (true, _) => "--tracking-uri".to_owned(),
            (false, true) => self.environment.origin("MLFLOW_TRACKING_URI"),
            (false, false) => "default".to_owned(),
        }
    }

    /// Where runs are tracked, as the user would name it, without credentials.
    pub fn tracking_uri(&self) -> &str {
        &self.tracking_uri
    }

    /// The tracking URI for files that others read; `None` if it contains credentials.
    pub fn portable_uri(&self) -> Option<&str> {
        (self.tracking_uri == self.full_uri).then_some(self.tracking_uri.as_str())
    }

    /// Whether anything can be tracked there yet. A tracking URI that cannot be used is an error.
    pub fn store_exists(&self) -> anyhow::Result<bool> {
        exists(&self.full_uri)
    }

    /// The tracking store. `must_exist` keeps commands that only read from making an empty one.
    pub fn store(&self, must_exist: bool) -> anyhow::Result<Arc<dyn Tracking>> {
        Ok(self.open_store(must_exist)?.store)
    }

    /// The tracking store, with what records cells in it.
    pub fn open_store(&self, must_exist: bool) -> anyhow::Result<OpenStore> {
        self.open_store_at(&self.full_uri, must_exist)
    }

    /// A store that need not be the one of this invocation.
    pub fn open_store_at(&self, uri: &str, must_exist: bool) -> anyhow::Result<OpenStore> {
        if tracking::is_server(uri) {
            let config = tracking::config(uri, &self.environment);
            let store = Arc::new(MlflowStore::open(&config, environment::now_ms)?);
            return delivery::journaled(store, must_exist, &self.output);
        }
        Ok(OpenStore::direct(embedded_at(uri, must_exist)?))
    }

    /// The stores that are served: the embedded one, or a tracking server with its copy.
    pub fn served_stores(&self, state: &Arc<State>) -> anyhow::Result<Stores> {
        if !tracking::is_server(&self.full_uri) {
            let file = embedded_at(&self.tracking_uri, false)?;
            return Ok(Stores { file, team: None });
        }
        let config = tracking::config(&self.full_uri, &self.environment);
        let server = Arc::new(MlflowStore::open(&config, environment::now_ms)?);
        let place = place_of(server.uri());
        let name = format!("{}.db", &sha256_hex(place.as_bytes())[..16]);
        let path = Path::new(STATE_DIR).join("copies").join(name);
        if !path.exists() {
            state.copy_read_remove(&place)?;
        }
        let file = EmbeddedStore::open(&path, environment::now_ms, environment::entropy)?;
        let file = Arc::new(file);
        let clock = environment::now_ms;
        let team = Team::open(server, Arc::clone(&file), Arc::clone(state), clock)?;
        Ok(Stores {
            file,
            team: Some(team),
        })
    }

    /// What jobs need to use the tracking server if its address names a user: words of a command
    /// line can be seen by everybody on the machine.
    pub fn job_credentials(&self) -> JobCredentials {
        let address = Address::parse(&self.full_uri).ok();
        let user = address.as_ref().and_then(Address::credentials);
        let variables = user.into_iter().flat_map(|it| {
            [
                ("MLFLOW_TRACKING_USERNAME", it.username.clone()),
                ("MLFLOW_TRACKING_PASSWORD", it.password.clone()),
            ]
        });
        JobCredentials(variables.collect())
    }

    /// The guard over every host's memory.
    pub fn guard(&self, options: &Options) -> anyhow::Result<Guard> {
        Ok(Guard {
            state: Arc::new(State::open(Path::new(STATE_DIR))?),
            locks: self.environment.cache_dir().join("locks"),
            evict: options.evict,
            wait: Duration::from_secs(options.wait),
            keep_alive_ms: i64::try_from(KEEP_ALIVE.as_millis())?,
            clock: environment::now_ms,
            machine: LocalMachine::system(),
        })
    }

    /// The models to evaluate: the ones named, else what is there.
    pub fn models(&self, settings: &Settings) -> anyhow::Result<Vec<ModelId>> {
        let named: Vec<&str> = if !settings.options.models.is_empty() {
            settings.options.models.iter().map(String::as_str).collect()
        } else if ollama_answers(settings) {
            OLLAMA_DEFAULTS.to_vec()
        } else {
            self.output.say(&format!(
                "No Ollama answers at {}: using {EMBEDDED_DEFAULT}",
                settings.options.ollama_url.join(", ")
            ));
            vec![EMBEDDED_DEFAULT]
        };
        Ok(named
            .into_iter()
            .map(str::parse)
            .collect::<Result<_, _>>()?)
    }

    /// The providers of these models, each once.
    pub fn providers(&self, settings: &Settings) -> Providers {
        Providers::new(settings, &self.environment)
    }
}

fn embedded_at(uri: &str, must_exist: bool) -> anyhow::Result<Arc<EmbeddedStore>> {
    let path = usable_path(uri)?;
    if must_exist && !Path::new(path).exists() {
        let remedy = "run assize collect or assize demo first, or name another with --tracking-uri";
        bail!(PipelineError::Invalid(format!(
            "nothing is tracked in {path} yet: {remedy}"
        )));
    }
    Ok(Arc::new(EmbeddedStore::open(
        Path::new(path),
        environment::now_ms,
        environment::entropy,
    )?))
}

/// Whether anything can be tracked there yet. A URI that cannot be used is an error.
pub fn exists(uri: &str) -> anyhow::Result<bool> {
    Ok(tracking::is_server(uri) || Path::new(usable_path(uri)?).exists())
}

/// The file that a tracking URI names.
pub fn usable_path(uri: &str) -> anyhow::Result<&str> {
    let Some(path) = store_path(uri) else {
        let shown = redacted(uri);
        bail!(PipelineError::Invalid(format!(
            "the tracking URI '{shown}' cannot be used: use --tracking-uri sqlite:PATH or http://HOST:PORT"
        )));
    };
    if path.is_empty() {
        bail!(PipelineError::Invalid(
            "the tracking URI names no file: use sqlite:PATH".to_owned()
        ));
    }
    Ok(path)
}

/// What the user named on the command line; the environment and `assize.toml` stay as they are.
fn globals(global: &Global, is_task_set: bool) -> Vec<(&'static str, String)> {
    let task = global.task.clone();
    let task = task.filter(|it| is_task_set || it != builtin::DEFAULT);
    let config = global.config.as_ref().map(|it| it.display().to_string());
    // These are printed as the next command to run, so they must not contain credentials.
    let uri = global.tracking_uri.as_deref().map(redacted);
    let given = [
        ("--task", task),
        ("--tracking-uri", uri),
        ("--config", config),
    ];
    let given = given.into_iter();
    given
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// The file that a tracking URI names. `sqlite:///X` is how MLflow writes a relative path.
fn store_path(uri: &str) -> Option<&str> {
    let path = uri.strip_prefix("sqlite:")?;
    Some(path.strip_prefix("///").unwrap_or(path))
}

/// How long further signals count as the first one: `timeout` sends two at once.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// A stop flag that Ctrl-C and `kill` set. Another signal that comes a second later or after that ends
/// the process at once.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let is_repeated = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&is_repeated))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let watched = Arc::clone(&stop);
    std::thread::spawn(move || {
        while !watched.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        std::thread::sleep(SAME_SIGNAL);
        is_repeated.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}
