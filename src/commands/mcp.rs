//! `assize mcp`: the queue for an agent session, over stdio.

use std::path::Path;
use std::sync::Arc;

use assize_domain::task::TaskScenarios;
use assize_mcp::SessionConfig;
use assize_pipeline::compare::{CompareOptions, CurrentScenarios, DecisionRule, compare};
use assize_store::Tracking;
use assize_store::state::State;
use serde_json::Value;

use super::compare::decision_rule;
use super::judge::sitting::{Notifier, checked_judge, locks};
use crate::Exit;
use crate::cli::Mcp;
use crate::environment::{self, STATE_DIR};
use crate::session::Session;

pub fn run(session: &Session, args: &Mcp) -> anyhow::Result<Exit> {
    let user = session.environment.user();
    let name = args.judged_by.clone().or(user);
    let kind = args.judge_kind.as_deref().unwrap_or("agent");
    checked_judge(kind, name.as_deref())?;
    let rule = decision_rule(session)?;
    let session = Arc::new(session.clone());
    let notifier = Notifier::new(&session);
    let for_store = Arc::clone(&session);
    let for_board = Arc::clone(&session);
    let (for_anchors, no_anchors) = (Arc::clone(&session), args.no_anchors);
    let config = SessionConfig {
        // Opened when it is first needed: an agent may connect before anything was collected.
        open_store: Box::new(move || for_store.store(true).map_err(|error| format!("{error:#}"))),
        open_state: Box::new(|| {
            State::open(Path::new(STATE_DIR)).map_err(|error| error.to_string())
        }),
        locks: locks(),
        clock: environment::now,
        entropy: environment::entropy,
        judge_kind: args.judge_kind.as_deref().map(str::to_lowercase),
        judged_by: name,
        anchors: Box::new(move |store, experiment| {
            let anchors = for_anchors.anchors(store, experiment, no_anchors);
            anchors.map_err(|error| format!("{error:#}"))
        }),
        lease_ms: i64::from(args.lease) * 1000,
        board: Box::new(move |store, experiment| board(&for_board, store, experiment, rule)),
        ended: Box::new(notifier.observer()),
    };
    let served = assize_mcp::serve(config, env!("CARGO_PKG_VERSION"));
    notifier.wait();
    served?;
    Ok(Exit::Done)
}

fn board(
    session: &Session,
    store: &dyn Tracking,
    experiment: &str,
    rule: DecisionRule,
) -> Result<Value, String> {
    let task = session.task_of::<TaskScenarios>(store, experiment);
    let task = task.map_err(|error| format!("{error:#}"))?;
    let options = CompareOptions {
        current: task.task().map(CurrentScenarios::from),
        ..CompareOptions::usual(experiment)
    };
    let board = compare(store, &options, rule).map_err(|error| error.to_string())?;
    serde_json::to_value(board).map_err(|error| error.to_string())
}
