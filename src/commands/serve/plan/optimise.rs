//! Requests for prompt loops: the next step of a loop that is there, or the start of one.
//!
//! A reflector that is a command or a file executes or reads what a client names, so it must be allowed
//! when the server is started, as addresses and folders must.

use assize_domain::job::JobKind;
use assize_domain::model::ModelId;
use assize_domain::options::{Kind, OptionSpec, REQUEST_FIELDS, RequestField};
use assize_optimise::{LoopSettings, Tree};
use assize_pipeline::PipelineError;
use assize_pipeline::optimise::reflector::Reflector;
use assize_pipeline::optimise::{LoopLog, Setup};
use assize_server::Plan;
use serde_json::{Map, Value};

use super::{Checker, Problems, flags, hosts, not_allowed, places, problem, unknown};

impl Checker {
    pub(super) fn optimise(&self, fields: &Map<String, Value>) -> Result<Plan, Problems> {
        let mut problems = unknown(fields, JobKind::Optimise);
        let experiment = fields.get("experiment").and_then(Value::as_str);
        let Some(experiment) = experiment.filter(|it| !it.trim().is_empty()) else {
            problems.push(problem("experiment", "is missing"));
            return Err(problems);
        };
        let found = self.started(experiment).map_err(|error| {
            let message = format!("has a loop that cannot be continued: {error}");
            vec![problem("experiment", message)]
        })?;
        let (mut hosts, words) = match &found {
            Some((setup, tree)) => self.step(fields, experiment, (setup, tree), problems),
            None => self.start(fields, problems),
        }?;
        // Jobs with the same host run one after the other, and so do the steps of one loop.
        hosts.push(format!("the loop of {experiment}"));
        Ok(Plan {
            kind: JobKind::Optimise,
            hosts,
            total: 0,
            experiment: experiment.to_owned(),
            words,
        })
    }

    /// How the experiment's loop was started; `None` where it has none.
    fn started(&self, experiment: &str) -> Result<Option<(Setup, Tree)>, PipelineError> {
        let Some(log) = LoopLog::find(&self.state, experiment)? else {
            return Ok(None);
        };
        Ok(Some((Setup::of(&log)?, log.tree()?)))
    }

    /// The hosts and the command of a step. A loop keeps what it was started with, so a step takes
    /// nothing but the experiment.
    fn step(
        &self,
        fields: &Map<String, Value>,
        experiment: &str,
        (setup, tree): (&Setup, &Tree),
        mut problems: Problems,
    ) -> Result<(Vec<String>, Vec<String>), Problems> {
        let others = fields
            .iter()
            .filter(|(key, value)| *key != "experiment" && !value.is_null());
        problems.extend(others.map(|(key, _)| {
            let message = format!(
                "cannot be changed: '{experiment}' has a loop already, which keeps what it was started \
                 with. For its next step name the experiment only; for a new loop name another experiment"
            );
            problem(key, message)
        }));
        if tree.is_finished() {
            let message = format!(
                "is '{experiment}', whose loop has ended: start another one in another experiment"
            );
            problems.push(problem("experiment", message));
        }
        let tracked = self.session.tracking_uri();
        if setup.tracking_uri != tracked {
            let message = format!(
                "is '{experiment}', whose loop is tracked at {}, and this server tracks at {tracked}: take its \
                 steps with `assize optimise step`",
                setup.tracking_uri
            );
            problems.push(problem("experiment", message));
        }
        let recorded = self.settings_of(None, &setup.options, &mut problems);
        let (Some(recorded), true) = (recorded, problems.is_empty()) else {
            return Err(problems);
        };
        let settings = &tree.settings;
        let reflector = Reflector::parse(&settings.reflector).ok();
        let mut models = settings.models.clone();
        if !settings.judge.is_empty() {
            models.push(settings.judge.clone());
        }
        models.extend(reflector.and_then(|it| it.model().map(ToString::to_string)));
        let mut words = self.words(&["optimise", "step"], fields, None);
        words.push("--events".to_owned());
        words.push(format!("--experiment={experiment}"));
        Ok((hosts(&models, &recorded), words))
    }

    /// The hosts and the command of a start with its first step.
    fn start(
        &self,
        fields: &Map<String, Value>,
        mut problems: Problems,
    ) -> Result<(Vec<String>, Vec<String>), Problems> {
        let task = self.task(fields, &mut problems);
        self.check_places(fields, &mut problems);
        let settings = self.settings_of(task.as_ref(), fields, &mut problems);
        let mut words = self.start_words(fields, &mut problems);
        let needs_judge = task.as_ref().is_none_or(|it| it.rubric.needs_judge());
        if needs_judge && fields.get("judge").is_none_or(Value::is_null) {
            let message =
                "is missing: this experiment has no loop yet, and a loop needs an automatic judge";
            problems.push(problem("judge", message));
        }
        let text = |key: &str| fields.get(key).and_then(Value::as_str);
        let models = fields.get("models").map(places).unwrap_or_default();
        self.check_weights("models", models.iter().copied(), &mut problems);
        self.check_weights("judge", text("judge").into_iter(), &mut problems);
        if let Some(Err(error)) = text("judge").map(str::parse::<ModelId>) {
            problems.push(problem("judge", format!("has a mistake: {error}")));
        }
        let reflector = self.reflector(text("reflector"), &mut problems);
        let (Some(settings), true) = (settings, problems.is_empty()) else {
            return Err(problems);
        };
        let mut asked: Vec<String> = models.into_iter().map(str::to_owned).collect();
        // Without models, `hosts` takes those that would be found.
        if !asked.is_empty() {
            asked.extend(text("judge").map(str::to_owned));
            asked.extend(reflector);
        }
        words.extend(flags(fields));
        Ok((hosts(&asked, &settings), words))
    }

    /// The command, with the flags that are not options.
    fn start_words(&self, fields: &Map<String, Value>, problems: &mut Problems) -> Vec<String> {
        let task = fields.get("task").and_then(Value::as_str);
        let task = task.unwrap_or(&self.session.task_name).to_owned();
        let mut words = self.words(&["optimise", "start"], fields, Some(task));
        words.push("--then-step".to_owned());
        let own = REQUEST_FIELDS
            .iter()
            .filter(|it| JobKind::Optimise.is_in(it.requests))
            .filter(|it| it.key != "task" && OptionSpec::find(it.key).is_none());
        let before = problems.len();
        for field in own {
            match flag(field, fields.get(field.key)) {
                Ok(word) => words.extend(word),
                Err(message) => problems.push(problem(field.key, message)),
            }
        }
        if problems.len() == before {
            problems.extend(
                loop_problems(fields)
                    .iter()
                    .map(|(key, it)| problem(key, it)),
            );
        }
        words
    }

    /// The reflector, where it is a model.
    fn reflector(&self, named: Option<&str>, problems: &mut Problems) -> Option<String> {
        let named = named?;
        let is_allowed =
            |more: Option<&str>| self.allows(named) || more.is_some_and(|it| self.allows(it));
        match Reflector::parse(named) {
            Err(error) => problems.push(problem("reflector", format!("has a mistake: {error}"))),
            Ok(Reflector::Agent) => {}
            Ok(Reflector::Model(id)) => {
                let id = id.to_string();
                self.check_weights("reflector", std::iter::once(id.as_str()), problems);
                return Some(id);
            }
            Ok(Reflector::Command(_)) if is_allowed(None) => {}
            Ok(Reflector::Script(file)) if is_allowed(file.to_str()) => {}
            Ok(Reflector::Command(_) | Reflector::Script(_)) => {
                problems.push(problem("reflector", not_allowed(named)));
            }
        }
        None
    }
}

/// A field as a flag; what is not set is left out.
fn flag(field: &RequestField, value: Option<&Value>) -> Result<Option<String>, &'static str> {
    let Some(value) = value.filter(|it| !it.is_null()) else {
        return Ok(None);
    };
    let flag = format!("--{}", field.key.replace('_', "-"));
    let is_counted = |it: &Value| it.as_u64().is_some_and(|it| u32::try_from(it).is_ok());
    match (field.kind, value) {
        (Kind::Switch, Value::Bool(is_set)) => Ok(is_set.then_some(flag)),
        (Kind::Text, Value::String(text)) => Ok(Some(format!("{flag}={text}"))),
        (Kind::Integer, number) if is_counted(number) => Ok(Some(format!("{flag}={number}"))),
        (Kind::Number, Value::Number(number)) => Ok(Some(format!("{flag}={number}"))),
        (Kind::Switch, _) => Err("must be true or false"),
        (Kind::Integer, _) => Err("must be a whole number"),
        (Kind::Number, _) => Err("must be a number"),
        (Kind::Text | Kind::Choice(_) | Kind::List, _) => Err("must be a text"),
    }
}

/// What is wrong with the budgets of a loop, by the request's fields. The names of prompt, models and
/// judge are found out elsewhere.
fn loop_problems(fields: &Map<String, Value>) -> Vec<(&'static str, String)> {
    const FIELDS: [(&str, &str); 8] = [
        ("rounds", "rounds"),
        ("children", "children"),
        ("max_auto", "max_auto"),
        ("max_children", "max_children"),
        ("max_cost", "max_cost_usd"),
        ("max_hours", "max_hours"),
        ("stale_rounds", "stale_rounds"),
        ("ceiling", "ceiling"),
    ];
    let given = FIELDS.iter().filter_map(|(key, setting)| {
        let value = fields.get(*key).filter(|it| !it.is_null())?;
        Some(((*setting).to_owned(), value.clone()))
    });
    // Values of a wrong type have been reported.
    let settings = serde_json::from_value::<LoopSettings>(Value::Object(given.collect()));
    let found = settings.map(|it| it.problems()).unwrap_or_default();
    let of_field = |(setting, message): (&'static str, String)| {
        let (key, _) = FIELDS.iter().find(|(_, it)| *it == setting)?;
        Some((*key, message))
    };
    found.into_iter().filter_map(of_field).collect()
}
