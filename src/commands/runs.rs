//! `assize runs`: list, show, export and delete runs.

use assize_pipeline::ledger::Author;
use assize_pipeline::{PipelineError, count};
use assize_store::{Run, RunQuery};
use serde_json::{Value, json};

use crate::Exit;
use crate::cli::{RunFilter, Runs};
use crate::session::Session;

mod export;
mod list;
mod show;

/// A start of an id that is shorter than this may be a typing mistake.
const SHORTEST_TO_DELETE: usize = 4;

pub fn run(session: &Session, args: &Runs) -> anyhow::Result<Exit> {
    let store = session.store(true)?;
    match args {
        Runs::List {
            filter,
            search,
            sort,
            limit,
        } => {
            let wanted = list::Wanted {
                filter,
                search: search.as_deref(),
                sort: *sort,
                limit: *limit,
            };
            list::run(session, store.as_ref(), &wanted)
        }
        Runs::Show { run, unseal } => show::run(
            session,
            store.as_ref(),
            run,
            author(session, *unseal).as_ref(),
        ),
        Runs::Delete { runs } => {
            // Every id is looked up first: a typing mistake deletes nothing.
            if let Some(short) = runs.iter().find(|id| id.len() < SHORTEST_TO_DELETE) {
                let message = format!(
                    "'{short}' is too short to delete a run by: give at least {SHORTEST_TO_DELETE} characters"
                );
                return Err(PipelineError::Invalid(message).into());
            }
            let ids = runs
                .iter()
                .map(|id| Ok(store.run_get(id)?.run_id))
                .collect::<anyhow::Result<Vec<_>>>()?;
            store.run_delete(&ids)?;
            session.output.say(&format!(
                "{} deleted; what was deleted can be collected again.",
                count(ids.len(), "run")
            ));
            Ok(Exit::Done)
        }
        Runs::Export { filter, output } => {
            export::run(session, store.as_ref(), filter, output.as_deref())
        }
    }
}

/// Who unseals scores; `None` if nobody does.
fn author(session: &Session, unseal: bool) -> Option<Author> {
    unseal.then(|| session.author())
}

fn query(filter: &RunFilter, max_results: u32, page_token: Option<String>) -> RunQuery {
    RunQuery {
        model: filter.model.clone(),
        prompt: filter.prompt.clone(),
        scenario: filter.scenario.clone(),
        split: filter.split,
        pending: filter.pending.then_some(true),
        max_results,
        page_token,
        ..RunQuery::default()
    }
}

fn value<'a>(pairs: &'a [(String, String)], key: &str) -> &'a str {
    pairs
        .iter()
        .find(|(known, _)| known == key)
        .map_or("", |(_, value)| value)
}

const SEAL_NOTE: &str = "  Scores of the confirmation split are sealed until a candidate is nominated; \
     --unseal shows them, and the ledger records the look.";

/// A run as programs read it. `sealed` says that its scores were left out.
fn run_json(run: &Run, sealed: bool) -> Value {
    let object = |pairs: &[(String, String)]| -> Value {
        pairs
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let metrics: serde_json::Map<_, _> = run
        .metrics
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    json!({
        "run_id": run.run_id, "experiment": run.experiment, "name": run.name, "status": run.status,
        "start_time": run.start_time_ms, "end_time": run.end_time_ms,
        "params": object(&run.params), "tags": object(&run.tags), "metrics": metrics, "artifacts": run.artifacts,
        "sealed": sealed,
    })
}
