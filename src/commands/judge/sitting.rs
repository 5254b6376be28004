//! What the commands share that judge at the queue (`mcp`, `judge desk`, `judge agent`, `serve`):
//! who judges, with which calibration cases, and the webhook's call when a sitting ends.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use assize_domain::anchor::Anchors;
use assize_domain::judge::{EXPERT_KINDS, Judge};
use assize_pipeline::judge::queue::{Finished, LEASE_MS, SitOptions};

use crate::environment::{self, STATE_DIR};
use crate::session::Session;
use crate::webhook::{self, Event, Sat};

/// A sitting of this judge with the defaults.
pub fn sit_options(experiment: &str, judge: Judge, anchors: Anchors) -> SitOptions {
    SitOptions {
        experiment: experiment.to_owned(),
        judge,
        desk: None,
        seed: None,
        double: false,
        anchors,
        lease_ms: LEASE_MS,
        entropy: environment::entropy,
    }
}

pub fn locks() -> PathBuf {
    PathBuf::from(STATE_DIR).join("locks")
}

/// Checks what the user calls the judge.
pub fn checked_judge(kind: &str, name: Option<&str>) -> anyhow::Result<Judge> {
    let kind = kind.to_lowercase();
    super::check_kind(&kind)?;
    let name = name.unwrap_or(&kind);
    super::check_name(name)?;
    Ok(Judge {
        name: name.to_owned(),
        kind,
        version: None,
    })
}

/// The judge kind of a known agent program.
pub fn kind_of_program(program: &str) -> &'static str {
    let known = [("claude", "claude-code"), ("gemini", "gemini-cli")];
    if let Some((_, kind)) = known.iter().find(|(name, _)| *name == program) {
        return kind;
    }
    let kinds = EXPERT_KINDS.iter().filter(|kind| **kind != "human");
    let found = kinds.copied().find(|kind| *kind == program);
    found.unwrap_or("agent")
}

/// Calls the webhook: a sitting has ended.
pub fn notify(session: &Session, finished: &Finished) {
    let sat = Sat {
        experiment: &finished.experiment,
        sitting: Some(&finished.sitting),
        judge: &finished.judge,
        state: finished.state,
        judged: finished.done as u64,
        left: finished.released as u64,
    };
    webhook::notify(session, &Event::SittingEnded(sat));
}

/// Calls the webhook on threads of its own: judging does not wait for it, the process does at its
/// end.
pub struct Notifier {
    session: Session,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Notifier {
    pub fn new(session: &Session) -> Self {
        Self {
            session: session.clone(),
            threads: Arc::default(),
        }
    }

    /// Called for every sitting that ends.
    pub fn observer(&self) -> impl Fn(&Finished) + Send + Sync + 'static {
        let (session, threads) = (self.session.clone(), Arc::clone(&self.threads));
        move |finished| {
            let (session, finished) = (session.clone(), finished.clone());
            let thread = std::thread::spawn(move || notify(&session, &finished));
            let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
            threads.retain(|it| !it.is_finished());
            threads.push(thread);
        }
    }

    pub fn wait(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in std::mem::take(&mut *threads) {
            let _ = thread.join();
        }
    }
}
