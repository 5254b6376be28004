//! `assize airflow-run`: starts a run in Airflow and follows it. `assize serve` starts it as a job
//! where `engine = "airflow"`, so that a job is a process with events and a log whatever does the
//! work; it can be used by hand too.

use std::sync::atomic::Ordering;

use anyhow::Context as _;
use assize_domain::task::TaskDefaults;
use assize_pipeline::PipelineError;
use assize_pipeline::airflow::follow::{Counts, Ended, Seen, follow};
use assize_pipeline::airflow::{Airflow, Login};
use assize_pipeline::collect::Summary;
use assize_pipeline::events::{Delegated, JobEvent, JobProgress, SimulationSummary};
use serde_json::Value;

use crate::Exit;
use crate::cli::AirflowRun;
use crate::output::{complain, safe};
use crate::session::{self, Session};
use crate::settings::AirflowSettings;

/// The DAGs of the package assize-airflow.
pub const COLLECTIONS: &str = "bench_collect";
pub const SIMULATIONS: &str = "sim_run";

pub fn run(session: &Session, args: &AirflowRun) -> anyhow::Result<Exit> {
    let settings = session.layers(&TaskDefaults::default())?.finish()?.airflow;
    let conf: Value = serde_json::from_str(&args.conf).context("--conf is not valid JSON")?;
    let airflow = Airflow::new(&settings.url, login(session, &settings)?)?;
    let stop = session::stop_flag()?;
    airflow.check(&args.dag)?;
    if stop.load(Ordering::SeqCst) {
        return Ok(Exit::Interrupted);
    }
    let run = airflow.trigger(&args.dag, &conf, "Started by assize serve")?;
    let url = airflow.page(&run);
    session
        .output
        .say(&format!("{} runs in Airflow: {url}", args.dag));
    session.output.json_line(&JobEvent::Delegated(Delegated {
        engine: "airflow".to_owned(),
        run: run.id.clone(),
        url,
    }))?;
    let (ended, counts) = follow(&airflow, &run, &stop, |seen| tell(session, args, &seen))?;
    if ended == Ended::Stopped || stop.load(Ordering::SeqCst) {
        session
            .output
            .say("The run in Airflow was ended; finished cells are kept.");
        return Ok(Exit::Interrupted);
    }
    session.output.json_line(&summary(args, &conf, counts))?;
    match ended {
        Ended::Failed(reason) => {
            let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
            Err(PipelineError::Service(reason).into())
        }
        _ => Ok(Exit::Done),
    }
}

/// How to sign in; the secrets are in the environment variables that the settings name.
fn login(session: &Session, settings: &AirflowSettings) -> anyhow::Result<Login> {
    let secret = |name: &str| {
        let found = session.environment.get(name).filter(|it| !it.is_empty());
        found.map(str::to_owned).ok_or_else(|| {
            PipelineError::Invalid(format!(
                "the environment variable {name}, which the settings of [airflow] name, is not set"
            ))
        })
    };
    if !settings.token_env.is_empty() {
        return Ok(Login::Token(secret(&settings.token_env)?));
    }
    if settings.username.is_empty() || settings.password_env.is_empty() {
        let message = "set airflow.url, airflow.username and airflow.password_env in assize.toml";
        return Err(PipelineError::Invalid(message.to_owned()).into());
    }
    Ok(Login::Password {
        username: settings.username.clone(),
        password: secret(&settings.password_env)?,
    })
}

fn tell(session: &Session, args: &AirflowRun, seen: &Seen<'_>) {
    match seen {
        Seen::Counted(counts) => {
            let progress = JobProgress {
                done: counts.cells,
                total: args.total.max(counts.cells),
                cost_usd: None,
            };
            // A closed pipe does not stop the run.
            let _ = session.output.json_line(&JobEvent::Progress(progress));
        }
        Seen::Model(model, None) => session.output.say(&format!("{} is collected", safe(model))),
        Seen::Model(_, Some(error)) => complain(&safe(error)),
        Seen::Unreachable(reason) => {
            complain(&format!(
                "{}; it is asked again, and its tasks may go on",
                safe(reason)
            ));
        }
        Seen::Reachable => session.output.say("Airflow answers again"),
    }
}

/// The last event of the job.
fn summary(args: &AirflowRun, conf: &Value, counts: Counts) -> JobEvent {
    if args.dag == SIMULATIONS {
        return JobEvent::Simulated(SimulationSummary {
            experiment: conf["experiment"].as_str().map(str::to_owned),
            conclusion: "The results are in the experiment.".to_owned(),
        });
    }
    JobEvent::Summary(Box::new(Summary {
        cells: counts.cells,
        collected: counts.collected,
        skipped: counts.skipped,
        failed: counts.failed,
        undelivered: counts.undelivered,
        ..Summary::default()
    }))
}
