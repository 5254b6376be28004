//! Starting a loop: everything is checked and shown before anything is spent.

use assize_domain::judge::Tier;
use assize_domain::leaderboard::Pair;
use assize_domain::promotion::Champion;
use assize_domain::scenario::Split;
use assize_domain::sweep::{SYSTEM, Settings, SettingsWords, settings_words};
use assize_domain::task::Task;
use assize_optimise::event::Started;
use assize_optimise::race::scenarios;
use assize_optimise::tree::fold::child_name;
use assize_optimise::{Event, LoopSettings, Version};
use assize_stats::MIN_TEST_BLOCKS;
use assize_store::state::State;
use assize_store::{StoreError, Tracking};
use serde_json::{Map, Value};

use super::looks::{judge_looks, nominees};
use super::plan::{LoopPlan, Planned, selection_verdicts};
use super::reflector::Reflector;
use super::setup::{Setup, content_sha256};
use super::{LoopLog, LoopModels, preflight, search_experiment};
use crate::judge::auto::Prices;
use crate::promote::Thresholds;
use crate::{PipelineError, Result, count};

/// What a loop is asked to do.
#[derive(Clone, Copy)]
pub struct StartOptions<'a> {
    pub experiment: &'a str,
    pub task: &'a Task,
    /// How the user names the task.
    pub task_place: &'a str,
    /// The prompt may be empty: it is the champion's, else the task's first one.
    pub settings: &'a LoopSettings,
    /// The options that were given, by key; later steps use them again.
    pub given: &'a Map<String, Value>,
    /// All options with their values.
    pub values: &'a assize_domain::options::Options,
    pub thresholds: &'a Thresholds,
    pub models: &'a dyn LoopModels,
    pub prices: Option<Prices>,
    /// Whether to start although the preflight advises against it, and to admit a local reflector.
    pub force: bool,
    pub state: &'a State,
    /// `None` where nothing is tracked yet.
    pub store: Option<&'a dyn Tracking>,
    /// Where that is or will be, without credentials.
    pub tracking_uri: &'a str,
}

impl std::fmt::Debug for StartOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StartOptions")
            .field("experiment", &self.experiment)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A loop that can be started.
#[derive(Debug)]
pub struct Starting {
    pub plan: LoopPlan,
    /// Why it should not be started; empty where nothing speaks against it.
    pub objections: Vec<String>,
    event: Event,
}

impl Starting {
    /// Checks everything and plans; changes nothing.
    pub fn prepare(options: &StartOptions<'_>) -> Result<Self> {
        let task = options.task;
        refuse_second(options)?;
        refuse_runs(options)?;
        check_splits(task)?;
        check_gate(options)?;
        check_judge(options)?;
        Reflector::parse(&options.settings.reflector)?.check(options.force)?;
        let champion = champion(options)?;
        let seed = seed(options, champion.as_ref())?;
        let settings = LoopSettings {
            prompt: seed.name.clone(),
            reserved_auto: selection_verdicts(task, options.values.n_tips, options.thresholds),
            judge: if task.rubric.needs_judge() {
                options.settings.judge.clone()
            } else {
                String::new()
            },
            ..options.settings.clone()
        };
        let settings = settings.checked()?;
        let (incumbent, incumbent_version) = incumbent(&settings, &seed, champion)?;
        let feedback: Vec<String> = task
            .split(Split::Feedback)
            .map(|it| it.id.clone())
            .collect();
        let race = scenarios(&settings, &feedback)?;
        let generators = settings.models.iter().chain([&incumbent.model]);
        let generators = generators.map(|it| options.models.generator(it));
        let generators = generators.collect::<Result<Vec<_>>>()?;
        let judge = (!settings.judge.is_empty()).then(|| options.models.judge(&settings.judge));
        let judge = judge.transpose()?;
        let (notes, objections) = remarks(options, &settings, &seed, (race.len(), feedback.len()))?;
        let planned = Planned {
            experiment: options.experiment,
            task,
            seed: &seed.name,
            incumbent: &incumbent,
            settings: &settings,
            race_scenarios: race.len(),
            candidates: options.values.n_tips,
            max_tokens: options.values.max_tokens,
            jobs: options.values.jobs,
            thresholds: options.thresholds,
            generators: &generators[..settings.models.len()],
            judge: judge.as_ref(),
            prices: options.prices,
        };
        let plan = planned.plan(options.store, notes)?;
        let setup = Setup {
            task: options.task_place.to_owned(),
            task_name: task.name.clone(),
            task_sha256: content_sha256(task),
            tracking_uri: options.tracking_uri.to_owned(),
            options: options.given.clone(),
            incumbent: incumbent_version,
        };
        let event = Event::Started(Box::new(Started {
            settings,
            seed,
            incumbent,
            scenarios: race,
            composite_range: task.rubric.composite_range(),
            setup: serde_json::to_value(setup).unwrap_or_default(),
        }));
        Ok(Self {
            plan,
            objections,
            event,
        })
    }

    /// Writes the first event of the loop's log.
    pub fn start<'a>(
        self,
        state: &'a State,
        experiment: &'a str,
        now_ms: i64,
    ) -> Result<LoopLog<'a>> {
        LoopLog::start(state, experiment, self.event, now_ms)
    }
}

/// What a user should know before the start, and what speaks against it. `race` and `feedback` are numbers
/// of scenarios.
fn remarks(
    options: &StartOptions<'_>,
    settings: &LoopSettings,
    seed: &Version,
    (race, feedback): (usize, usize),
) -> Result<(Vec<String>, Vec<String>)> {
    let (mut notes, mut objections) = (Vec::new(), Vec::new());
    let named = options.settings.judge.as_str();
    if settings.judge.is_empty() && !named.is_empty() {
        notes.push(format!(
            "{named} is not asked: every criterion of {} is computed",
            options.task.rubric.id
        ));
    }
    if race < feedback {
        notes.push(format!(
            "the race uses {race} of {} of the feedback split: {} verdicts are not enough for all",
            count(feedback, "scenario"),
            settings.race_verdicts()
        ));
    }
    let Some(store) = options.store else {
        return Ok((notes, objections));
    };
    match judge_looks(nominees(store, options.task)?.len()) {
        Ok(warning) => notes.extend(warning),
        // A later step would refuse it all the same, whatever the user insists on.
        Err(problem) => return Err(PipelineError::Refused(problem)),
    }
    for obstacle in preflight::obstacles(store, options.task, settings, seed, race)? {
        let words = format!("{}. What would help: {}", obstacle.reason, obstacle.remedy);
        if obstacle.is_certain {
            objections.push(words);
        } else {
            notes.push(words);
        }
    }
    Ok((notes, objections))
}

fn refuse_second(options: &StartOptions<'_>) -> Result<()> {
    match LoopLog::find(options.state, options.experiment)? {
        None => Ok(()),
        Some(log) => Err(StoreError::AlreadyExists(format!(
            "the experiment '{}' has a loop already, in the state {}: continue it with `assize optimise step`, or \
             start another in a new experiment",
            options.experiment,
            log.tree()?.state()
        ))
        .into()),
    }
}

/// Runs that were collected or judged apart from the loop's could not be compared with its own, and would
/// wait in the same queue.
fn refuse_runs(options: &StartOptions<'_>) -> Result<()> {
    let Some(store) = options.store else {
        return Ok(());
    };
    let own = [
        options.experiment.to_owned(),
        search_experiment(options.experiment),
    ];
    let known = store.experiment_list()?;
    match known
        .iter()
        .find(|it| it.runs > 0 && own.contains(&it.name))
    {
        None => Ok(()),
        Some(found) => Err(PipelineError::Invalid(format!(
            "the experiment '{}' has {} already, and a loop needs an experiment of its own: choose another name with \
             --experiment",
            found.name,
            count(usize::try_from(found.runs).unwrap_or(usize::MAX), "run")
        ))),
    }
}

/// The race needs a judge, unless rules give all its scores.
fn check_judge(options: &StartOptions<'_>) -> Result<()> {
    let rubric = &options.task.rubric;
    if !rubric.needs_judge() || !options.settings.judge.is_empty() {
        return Ok(());
    }
    Err(PipelineError::Invalid(format!(
        "a loop needs --judge MODEL: an automatic judge scores the race, because not every criterion of {} is computed",
        rubric.id
    )))
}

/// Refuses a loop whose nominee could never pass the gate, whatever the judges say.
fn check_gate(options: &StartOptions<'_>) -> Result<()> {
    let gate = options.thresholds;
    // The gate asks nothing of tiers where every criterion is computed.
    if !gate.require.contains(&Tier::Auto) || !options.task.rubric.needs_judge() {
        return Ok(());
    }
    if !gate.require.contains(&Tier::Expert) && gate.double_scored > 0 {
        return Err(PipelineError::Invalid(format!(
            "the gate requires the automatic tier alone, and {} candidates that experts judged too (double_scored): no \
             loop could pass it. Add \"expert\" to require in [gate], or set double_scored = 0",
            gate.double_scored
        )));
    }
    let scenarios = options.task.split(Split::Selection).count();
    let candidates = 2 * scenarios * options.values.n_tips as usize;
    if candidates < gate.double_scored as usize {
        return Err(PipelineError::Invalid(format!(
            "nominee and incumbent will have {candidates} candidates on the selection split ({} × {} a cell), and the \
             gate needs {} that both tiers judged: raise --n-tips, add scenarios with split = \"selection\", or lower \
             double_scored in [gate]",
            count(scenarios, "scenario"),
            options.values.n_tips,
            gate.double_scored
        )));
    }
    Ok(())
}

/// The gate needs enough scenarios to test on, and the race some that nobody ships by.
fn check_splits(task: &Task) -> Result<()> {
    for split in [Split::Selection, Split::Confirmation] {
        let scenarios = task.split(split).count();
        if scenarios < MIN_TEST_BLOCKS {
            return Err(PipelineError::Invalid(format!(
                "the task {} has {} in the split {split}, and the gate needs {MIN_TEST_BLOCKS}: add scenarios with \
                 split = \"{split}\"",
                task.name,
                count(scenarios, "scenario"),
            )));
        }
    }
    Ok(())
}

fn champion(options: &StartOptions<'_>) -> Result<Option<Champion>> {
    let Some(store) = options.store else {
        return Ok(None);
    };
    let promotion = store.champion_get(&options.task.name)?;
    let champion = promotion.map(|it| it.champion);
    if let Some(champion) = &champion {
        check_settings(options, champion)?;
    }
    Ok(champion)
}

fn version_of(champion: &Champion) -> Version {
    Version::new(&champion.prompt, champion.system.as_deref(), &champion.body)
}

/// The version that the loop starts from: the prompt that was named, else the champion's, else the
/// task's first one.
fn seed(options: &StartOptions<'_>, champion: Option<&Champion>) -> Result<Version> {
    let task = options.task;
    let name = options.settings.prompt.as_str();
    let champion = champion.filter(|it| name.is_empty() || it.prompt == name);
    if let Some(champion) = champion {
        let version = version_of(champion);
        let file = task.prompt(name);
        if let Some(file) = file.filter(|it| it.sha256 != version.sha256) {
            return Err(PipelineError::Invalid(format!(
                "the prompt {} was edited since it became the champion's: keep the edited text under another name and \
                 name that with --prompt, or leave --prompt out to start from the champion's text",
                file.name
            )));
        }
        return Ok(version);
    }
    let first = || {
        let proposed = options.values.prompts.first().map(String::as_str);
        proposed.map_or_else(|| task.prompts.first(), |it| task.prompt(it))
    };
    let prompt = if name.is_empty() {
        first()
    } else {
        task.prompt(name)
    };
    prompt.map(Version::from).ok_or_else(|| {
        let names: Vec<&str> = task.prompts.iter().map(|it| it.name.as_str()).collect();
        PipelineError::Invalid(format!(
            "the task {} has no prompt '{name}': use one of {}",
            task.name,
            names.join(", ")
        ))
    })
}

/// The pair that the nominee must beat: the champion, else the first model with the seed.
fn incumbent(
    settings: &LoopSettings,
    seed: &Version,
    champion: Option<Champion>,
) -> Result<(Pair, Version)> {
    let Some(champion) = champion else {
        let pair = Pair {
            model: settings.models.first().cloned().unwrap_or_default(),
            prompt: seed.name.clone(),
        };
        return Ok((pair, seed.clone()));
    };
    let version = version_of(&champion);
    let rounds = 1..=settings.rounds;
    let mut ids = rounds.flat_map(|round| {
        let children = 1..=settings.children;
        children.map(move |child| format!("r{round}c{child}"))
    });
    if ids.any(|id| child_name(settings, &id) == version.name) {
        return Err(PipelineError::Invalid(format!(
            "children of {} would have the name of the champion's prompt {}: start from the champion (leave \
             --prompt out), or from a prompt with another name",
            seed.name, version.name
        )));
    }
    let pair = Pair {
        model: champion.model,
        prompt: champion.prompt,
    };
    Ok((pair, version))
}

/// A champion with swept settings is compared with new versions under the same settings. Its system
/// message is a part of its text here.
fn check_settings(options: &StartOptions<'_>, champion: &Champion) -> Result<()> {
    let keys = champion.swept.iter().map(String::as_str);
    let swept = champion.settings_of(keys.filter(|it| *it != SYSTEM));
    let words = settings_words(options.values, &Settings::default());
    if SettingsWords::parse(&words).has(&swept) {
        return Ok(());
    }
    Err(PipelineError::Invalid(format!(
        "the champion {} was promoted with other settings than this loop would use: start it with {} too",
        champion.pair(),
        swept
            .iter()
            .map(|(key, value)| match key {
                "temperature" => format!("--temperature {value}"),
                "max_tokens" => format!("--max-tokens {value}"),
                _ => format!("--model-options {key}={value}"),
            })
            .collect::<Vec<_>>()
            .join(" ")
    )))
}
