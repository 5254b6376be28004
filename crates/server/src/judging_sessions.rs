//! Judging sessions: the open sittings of judges who use the browser or the API.
//!
//! A token identifies a judge of the kind `human`, with the token's name. A judge has at most one
//! session per experiment. The sitting is in the store and the session only in memory, so a
//! session is restored after a restart. All functions block, and accepted verdicts are durable
//! when [`JudgingSessions::submit`] returns.
//!
//! Nothing here reveals a model, a prompt or a board; see [`JudgingSessions::has_open_sitting`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assize_domain::anchor::Anchors;
use assize_domain::case::Case;
use assize_domain::judge::Judge;
use assize_domain::rubric::Rubric;
use assize_domain::sitting::SittingState;
use assize_domain::submission::Submission;
use assize_domain::verdict::Verdict;
use assize_pipeline::judge::held_sitting::{self, HeldSitting};
use assize_pipeline::judge::queue::{Accepted, Finished, LEASE_MS, Progress, SitOptions};
use assize_pipeline::{Now, PipelineError, Result};
use assize_store::Sittings as _;

use crate::{Config, Stores};

/// The kind of all judges who use the server.
const JUDGE_KIND: &str = "human";

/// A callback for every sitting that ends on this server. It must not block.
pub struct EndObserver(Box<dyn Fn(&Finished) + Send + Sync>);

impl EndObserver {
    pub fn new(observe: impl Fn(&Finished) + Send + Sync + 'static) -> Self {
        Self(Box::new(observe))
    }
}

impl std::fmt::Debug for EndObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EndObserver")
    }
}

/// The judge of a session, identified by a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionJudge {
    pub token_id: String,
    pub name: String,
}

impl SessionJudge {
    fn judge(&self) -> Judge {
        Judge {
            kind: JUDGE_KIND.to_owned(),
            name: self.name.clone(),
            version: None,
        }
    }
}

/// The next cases for a judge, with their rubric.
#[derive(Debug, Clone)]
pub(crate) struct CaseBatch {
    pub sitting: String,
    /// Whether the sitting was opened in an earlier session.
    pub resumed: bool,
    pub rubric: Rubric,
    /// Empty if nothing is left for this judge.
    pub cases: Vec<Case>,
    pub pace: Pace,
}

/// The progress of a sitting, and the judge's speed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Pace {
    pub progress: Progress,
    /// Known after a few cases.
    pub seconds_per_case: Option<f64>,
}

/// A scored case, to be revised.
#[derive(Debug, Clone)]
pub(crate) struct ScoredCase {
    pub case: Case,
    pub verdict: Verdict,
    /// The id of the case that was scored before it.
    pub previous: Option<String>,
}

/// Sessions by judge and experiment.
type SessionMap = HashMap<(SessionJudge, String), Arc<Mutex<JudgingSession>>>;

/// All judging sessions of this server.
#[derive(Debug)]
pub(crate) struct JudgingSessions {
    stores: Stores,
    config: Arc<Config>,
    sessions: Mutex<SessionMap>,
}

/// One judge's session in one experiment.
#[derive(Debug, Default)]
struct JudgingSession {
    sitting: Option<HeldSitting>,
    /// When the last verdict was submitted.
    last_ms: i64,
    /// Time spent on the cases that were scored without a pause.
    working_ms: i64,
    /// The number of these cases.
    scored: u32,
}

/// A longer time between two verdicts is a pause and does not count towards the speed.
const PAUSE_MS: i64 = 3 * 60 * 1000;
/// How many cases an estimate of the speed requires.
const MIN_CASES_FOR_PACE: u32 = 3;

impl JudgingSessions {
    pub fn new(stores: Stores, config: Arc<Config>) -> Self {
        Self {
            stores,
            config,
            sessions: Mutex::default(),
        }
    }

    fn now(&self) -> Now {
        (self.config.clock)()
    }

    fn anchors(&self, experiment: &str) -> Result<Anchors> {
        if self.config.no_anchors {
            return Ok(Anchors::default());
        }
        let task = self.config.task_of(self.stores.file.as_ref(), experiment)?;
        task.anchors()
    }

    fn get_or_create(&self, judge: &SessionJudge, experiment: &str) -> Arc<Mutex<JudgingSession>> {
        let mut sessions = lock(&self.sessions);
        let key = (judge.clone(), experiment.to_owned());
        Arc::clone(sessions.entry(key).or_default())
    }

    fn find(&self, judge: &SessionJudge, experiment: &str) -> Option<Arc<Mutex<JudgingSession>>> {
        let key = (judge.clone(), experiment.to_owned());
        lock(&self.sessions).get(&key).map(Arc::clone)
    }

    /// Up to `limit` next cases; `None` if no cases are pending. Opens or resumes a sitting if
    /// necessary. Returns the same cases until their verdicts are submitted.
    pub fn next(
        &self,
        judge: &SessionJudge,
        experiment: &str,
        limit: usize,
    ) -> Result<Option<CaseBatch>> {
        let now = self.now();
        let session = self.get_or_create(judge, experiment);
        let mut session = lock(&session);
        if session.sitting.is_none() {
            let options = SitOptions {
                experiment: experiment.to_owned(),
                judge: judge.judge(),
                desk: None,
                seed: None,
                double: false,
                anchors: self.anchors(experiment)?,
                lease_ms: LEASE_MS,
                entropy: self.config.entropy,
            };
            let sitting = held_sitting::resume_or_open(
                &self.stores.tracking(),
                options,
                &self.config.locks,
                &now,
            )?;
            *session = JudgingSession {
                sitting,
                last_ms: now.ms,
                ..JudgingSession::default()
            };
        }
        let Some(sitting) = &mut session.sitting else {
            return Ok(None);
        };
        let cases = sitting.queue.next(limit, &now)?;
        Ok(Some(CaseBatch {
            sitting: sitting.queue.id().to_owned(),
            resumed: sitting.resumed,
            rubric: sitting.queue.rubric().clone(),
            cases,
            pace: session.pace(),
        }))
    }

    /// Submits verdicts, all of them or none.
    pub fn submit(
        &self,
        judge: &SessionJudge,
        experiment: &str,
        verdicts: &[Submission],
    ) -> Result<(Accepted, Pace)> {
        let now = self.now();
        let session = self.find(judge, experiment);
        let session = session.ok_or_else(|| no_open_sitting(experiment))?;
        let mut session = lock(&session);
        let Some(sitting) = &mut session.sitting else {
            return Err(no_open_sitting(experiment));
        };
        let accepted = sitting.queue.submit(verdicts, &now)?;
        let worked_ms = now.ms - session.last_ms;
        if worked_ms < PAUSE_MS {
            session.working_ms += worked_ms;
            session.scored += u32::try_from(accepted.scored).unwrap_or(0);
        }
        session.last_ms = now.ms;
        Ok((accepted, session.pace()))
    }

    /// A case that was scored in this sitting.
    pub fn scored(&self, judge: &SessionJudge, experiment: &str, case: &str) -> Option<ScoredCase> {
        let session = self.find(judge, experiment)?;
        let session = lock(&session);
        let queue = &session.sitting.as_ref()?.queue;
        let all: Vec<&Case> = queue.scored().collect();
        let at = all.iter().position(|it| it.case == case)?;
        Some(ScoredCase {
            case: all[at].clone(),
            verdict: queue.verdict(case)?.clone(),
            previous: at.checked_sub(1).map(|it| all[it].case.clone()),
        })
    }

    /// The id of the case that was scored last.
    pub fn last_scored(&self, judge: &SessionJudge, experiment: &str) -> Option<String> {
        let session = self.find(judge, experiment)?;
        let session = lock(&session);
        let last = session.sitting.as_ref()?.queue.scored().last()?;
        Some(last.case.clone())
    }

    /// The progress of the session's sitting; `None` without one.
    pub fn progress(&self, judge: &SessionJudge, experiment: &str) -> Option<Pace> {
        let session = self.find(judge, experiment)?;
        let session = lock(&session);
        session.sitting.is_some().then(|| session.pace())
    }

    /// Ends the sitting, including one that was opened in an earlier session.
    pub fn finish(&self, judge: &SessionJudge, experiment: &str) -> Result<Finished> {
        // The session stays open if the team's tracking server is unreachable.
        if let Some(team) = &self.stores.team {
            team.check_reachable()?;
        }
        if self.progress(judge, experiment).is_none() {
            if !self.is_open(judge, experiment)? {
                return Err(no_open_sitting(experiment));
            }
            self.next(judge, experiment, 1)?;
        }
        let session = self.get_or_create(judge, experiment);
        let Some(sitting) = lock(&session).sitting.take() else {
            return Err(no_open_sitting(experiment));
        };
        let finished = sitting.queue.finish(&self.now())?;
        (self.config.ended.0)(&finished);
        Ok(finished)
    }

    /// Whether this judge has an open sitting in any experiment, opened by any client.
    pub fn has_open_sitting(&self, judge: &SessionJudge) -> Result<bool> {
        Ok(self.stores.file.judge_has_open_sitting(&judge.name)?)
    }

    /// Whether this judge has an open sitting in an experiment.
    pub fn is_open(&self, judge: &SessionJudge, experiment: &str) -> Result<bool> {
        let judge = judge.judge();
        let records = self.stores.file.sitting_list(experiment)?;
        let is_own = |it: &assize_store::queue::SittingRecord| {
            it.state == SittingState::Open && it.judge.as_ref() == Some(&judge)
        };
        Ok(records.iter().any(is_own))
    }
}

impl JudgingSession {
    fn pace(&self) -> Pace {
        let progress = self.sitting.as_ref().map(|it| it.queue.progress());
        let seconds = self.working_ms as f64 / 1000.0 / f64::from(self.scored.max(1));
        Pace {
            progress: progress.unwrap_or_default(),
            seconds_per_case: (self.scored >= MIN_CASES_FOR_PACE).then_some(seconds),
        }
    }
}

fn no_open_sitting(experiment: &str) -> PipelineError {
    PipelineError::Invalid(format!(
        "you have no open sitting in experiment '{experiment}': request the next cases first"
    ))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
