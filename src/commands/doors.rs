//! The doors to the judging queue: an agent session (`mcp`), a person (`desk`), a headless
//! agent. What they share is here: who sits, with which calibration cases, and what is said and
//! told when a sitting ends.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use assize_domain::anchor::Anchors;
use assize_domain::judge::{EXPERT_KINDS, Judge};
use assize_pipeline::judge::queue::{Finished, LEASE_MS, SitOptions};

use crate::commands::judge;
use crate::environment::{self, STATE_DIR};
use crate::session::Session;
use crate::webhook::{self, Event, Sat};

pub mod desk;
pub mod headless;
pub mod mcp;

/// A sitting of this judge with the defaults.
fn sit_options(session: &Session, experiment: &str, judge: Judge) -> SitOptions {
    SitOptions {
        experiment: experiment.to_owned(),
        judge,
        desk: None,
        seed: None,
        double: false,
        anchors: anchors(session),
        lease_ms: LEASE_MS,
        entropy: environment::entropy,
    }
}

/// The task's calibration cases; none where the task of the runs is not at hand.
fn anchors(session: &Session) -> Anchors {
    session
        .task()
        .map_or_else(|_| Anchors::default(), |task| task.anchors)
}

pub fn locks() -> PathBuf {
    PathBuf::from(STATE_DIR).join("locks")
}

/// Checks what the user calls the judge.
fn checked_judge(kind: &str, name: Option<&str>) -> anyhow::Result<Judge> {
    let kind = kind.to_lowercase();
    judge::check_kind(&kind)?;
    let name = name.unwrap_or(&kind);
    judge::check_name(name)?;
    Ok(Judge {
        name: name.to_owned(),
        kind,
    })
}

/// The kind of agent that a program's name stands for.
fn kind_of_program(program: &str) -> &'static str {
    let known = [("claude", "claude-code"), ("gemini", "gemini-cli")];
    if let Some((_, kind)) = known.iter().find(|(name, _)| *name == program) {
        return kind;
    }
    let kinds = EXPERT_KINDS.iter().filter(|kind| **kind != "human");
    let found = kinds.copied().find(|kind| *kind == program);
    found.unwrap_or("agent")
}

/// Tells the outside that a sitting is over.
fn tell(session: &Session, finished: &Finished) {
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

/// Tells the webhook of sittings on threads of its own: who judges does not wait for it; the
/// process does, at its end.
pub struct Teller {
    session: Session,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Teller {
    pub fn new(session: &Session) -> Self {
        Self {
            session: session.clone(),
            threads: Arc::default(),
        }
    }

    /// Hears of every sitting that ends.
    pub fn observer(&self) -> impl Fn(&Finished) + Send + Sync + 'static {
        let (session, threads) = (self.session.clone(), Arc::clone(&self.threads));
        move |finished| {
            let (session, finished) = (session.clone(), finished.clone());
            let thread = std::thread::spawn(move || tell(&session, &finished));
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
