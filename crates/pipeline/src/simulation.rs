//! Studies of policies: personas from files, runs in the tracking store, and the same through the
//! HTTP service ([`http_player`]). The simulation itself is `assize_policy::simulate`.

use std::path::Path;
use std::sync::Arc;

use assize_domain::run::{CellRecord, RunStatus};
use assize_policy::persona::PersonaSet;
use assize_policy::simulate::{EntrantResult, Simulation};
use assize_policy::study::{StudiedPolicy, Study};
use assize_store::mlflow::Point;
use assize_store::{ImportedRun, Tracking};

use crate::{Now, PipelineError, Result};

pub mod http_player;

/// The name under which a study says that its personas are the built-in ones.
pub const BUILT_IN: &str = "built-in";
/// The file of a study's first run that holds all its results.
pub const RESULTS: &str = "study.json";
/// The tag of runs that are a policy in a simulation.
pub const KIND_TAG: (&str, &str) = ("assize.kind", "simulation");

/// Reads personas from a file, or the built-in ones.
pub fn personas(file: Option<&Path>) -> Result<(PersonaSet, String)> {
    let Some(file) = file else {
        let set =
            PersonaSet::built_in().map_err(|error| PipelineError::Internal(error.to_string()))?;
        return Ok((set, BUILT_IN.to_owned()));
    };
    let name = file.display().to_string();
    let invalid = |problem: String| PipelineError::Invalid(format!("{name}: {problem}"));
    let text = std::fs::read_to_string(file).map_err(|error| invalid(error.to_string()))?;
    let set = PersonaSet::parse(&text).map_err(|error| invalid(error.to_string()))?;
    Ok((set, name))
}

/// Records a study as an experiment of its own: a run for each policy and assumption, with the
/// curves as metrics over steps, and the whole study as a file of the first one.
pub fn record(
    store: &dyn Tracking,
    experiment: &str,
    study: &Study,
    started_ms: i64,
    now: &Now,
    version: &str,
) -> Result<()> {
    let known = store.experiment_list()?;
    let is_taken = known.iter().any(|it| it.name == experiment)
        || !store.experiment_tags_get(experiment)?.is_empty();
    if is_taken {
        return Err(PipelineError::Invalid(format!(
            "the experiment '{experiment}' exists, and a simulation is an experiment of its own: \
             choose another name with --experiment"
        )));
    }
    let kind = (KIND_TAG.0.to_owned(), KIND_TAG.1.to_owned());
    store.experiment_tags_add(experiment, &[kind])?;
    let mut runs = Vec::new();
    for simulation in &study.simulations {
        for (entrant, policy) in simulation.entrants.iter().zip(&study.policies) {
            let params = params(study, simulation, policy);
            let record = CellRecord {
                cell_key: String::new(),
                name: format!("{} × {}", entrant.name, simulation.variant),
                status: RunStatus::Finished,
                start_time_ms: started_ms,
                end_time_ms: now.ms,
                params: shared(params),
                tags: shared([KIND_TAG, ("assize_version", version)].map(owned).to_vec()),
                metrics: Vec::new(),
                artifacts: Vec::new(),
            };
            runs.push(ImportedRun {
                origin: format!("{experiment}/{}/{}", entrant.name, simulation.variant),
                record,
                end_time_ms: Some(now.ms),
                points: points(entrant, now.ms),
                datasets: Vec::new(),
            });
        }
    }
    let imported = store.runs_import(experiment, &runs)?;
    if let Some(first) = imported.first() {
        let whole = serde_json::to_vec(study);
        let whole = whole.map_err(|error| PipelineError::Internal(error.to_string()))?;
        store.artifact_add(&first.run_id, RESULTS, whole)?;
    }
    Ok(())
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn shared(entries: Vec<(String, String)>) -> Vec<(Arc<str>, Arc<str>)> {
    let entries = entries.into_iter();
    entries
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

fn params(study: &Study, simulation: &Simulation, policy: &StudiedPolicy) -> Vec<(String, String)> {
    let settings = &policy.settings;
    let of = |key: &str, value: &dyn std::fmt::Display| (key.to_owned(), value.to_string());
    vec![
        of("policy", &policy.name),
        of("variant", &simulation.variant),
        of("baseline", &study.baseline()),
        of("personas", &study.personas),
        of("steps", &simulation.steps),
        of("seeds", &simulation.seeds),
        of("seed", &simulation.seed),
        of("warm_up", &simulation.warm_up),
        of("feature_version", &policy.feature_version.number()),
        of("alpha", &settings.alpha),
        of("lambda", &settings.lambda),
        of("epsilon", &settings.epsilon),
        of("gamma", &settings.gamma),
        of("prior", &settings.prior),
    ]
}

/// The final figures, and the curves by step.
fn points(entrant: &EntrantResult, at_ms: i64) -> Vec<Point> {
    let point = |key: &str, value: f64, step: usize| Point {
        key: key.to_owned(),
        value,
        timestamp: at_ms,
        step: i64::try_from(step).unwrap_or(i64::MAX),
    };
    let mut points = vec![
        point("expected_reward", entrant.expected_reward, 0),
        point("total_regret", entrant.regret, 0),
    ];
    for it in &entrant.curve {
        points.push(point("reward", it.reward, it.step));
        points.push(point("regret", it.regret, it.step));
    }
    let personas = entrant.personas.iter();
    points.extend(personas.map(|it| {
        let key = format!("persona.{}", it.persona);
        point(&key, it.expected_reward, 0)
    }));
    points
}
