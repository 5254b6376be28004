//! The seats of judges who sit at this server, in a browser or through the API.
//!
//! A judge is a token: whoever holds it sits as `human` under the token's name, has at most one
//! seat over an experiment, and gets it back after the server was restarted, because a sitting
//! is in the store and only the seat is here. Every call blocks, and what [`Desks::submit`] has
//! answered is durable.
//!
//! It deliberately shows no model, no prompt and no board; [`Desks::has_open`] tells those who
//! guard them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assize_domain::case::Case;
use assize_domain::judge::Judge;
use assize_domain::rubric::Rubric;
use assize_domain::sitting::SittingState;
use assize_domain::submission::Submission;
use assize_domain::verdict::Verdict;
use assize_pipeline::judge::held_sitting::{self, HeldSitting};
use assize_pipeline::judge::queue::{Accepted, Finished, LEASE_MS, Progress, SitOptions};
use assize_pipeline::{Now, PipelineError, Result};
use assize_store::embedded::EmbeddedStore;
use assize_store::{Sittings as _, Tracking};

use crate::Config;

/// The kind of everybody who sits here.
const KIND: &str = "human";

/// Hears of every sitting that ends here. Nobody waits for it: it must not block.
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

/// Who sits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Sitter {
    pub token_id: String,
    pub name: String,
}

impl Sitter {
    fn judge(&self) -> Judge {
        Judge {
            kind: KIND.to_owned(),
            name: self.name.clone(),
        }
    }
}

/// Cases in the hands of a judge.
#[derive(Debug, Clone)]
pub(crate) struct Hand {
    pub sitting: String,
    /// Whether an earlier session's sitting goes on.
    pub resumed: bool,
    pub rubric: Rubric,
    /// None where nothing is left for this judge.
    pub cases: Vec<Case>,
    pub pace: Pace,
}

/// How far a sitting has come, and how long the rest takes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Pace {
    pub progress: Progress,
    /// Seconds a case, once a few were scored here.
    pub seconds_per_case: Option<f64>,
}

/// A case that was scored, to be looked at again.
#[derive(Debug, Clone)]
pub(crate) struct Scored {
    pub case: Case,
    pub verdict: Verdict,
    /// The case that was scored before it.
    pub before: Option<String>,
}

/// By judge and experiment.
type Seats = HashMap<(Sitter, String), Arc<Mutex<SeatState>>>;

/// All seats.
#[derive(Debug)]
pub(crate) struct Desks {
    store: Arc<EmbeddedStore>,
    config: Arc<Config>,
    seats: Mutex<Seats>,
}

/// A seat, where it is taken, and what tells the judge's pace.
#[derive(Debug, Default)]
struct SeatState {
    seat: Option<HeldSitting>,
    /// When the last case was handed in.
    last_ms: i64,
    /// Time and number of cases scored without a pause.
    working_ms: i64,
    scored: u32,
}

/// Who pauses for longer does not work at that case.
const PAUSE_MS: i64 = 3 * 60 * 1000;
/// Cases before a pace is told.
const FEWEST: u32 = 3;

impl Desks {
    pub fn new(store: Arc<EmbeddedStore>, config: Arc<Config>) -> Self {
        Self {
            store,
            config,
            seats: Mutex::default(),
        }
    }

    fn store(&self) -> Arc<dyn Tracking> {
        Arc::<EmbeddedStore>::clone(&self.store)
    }

    fn now(&self) -> Now {
        (self.config.clock)()
    }

    fn place(&self, sitter: &Sitter, experiment: &str) -> Arc<Mutex<SeatState>> {
        let mut seats = lock(&self.seats);
        let key = (sitter.clone(), experiment.to_owned());
        Arc::clone(seats.entry(key).or_default())
    }

    /// Where this judge sits, if anywhere.
    fn find(&self, sitter: &Sitter, experiment: &str) -> Option<Arc<Mutex<SeatState>>> {
        let key = (sitter.clone(), experiment.to_owned());
        lock(&self.seats).get(&key).map(Arc::clone)
    }

    /// The next cases, at most so many. Sits down where this judge does not sit yet; `None`
    /// where nothing waits. Asking again without handing in gives the same cases.
    pub fn next(&self, sitter: &Sitter, experiment: &str, limit: usize) -> Result<Option<Hand>> {
        let now = self.now();
        let place = self.place(sitter, experiment);
        let mut place = lock(&place);
        if place.seat.is_none() {
            let options = SitOptions {
                experiment: experiment.to_owned(),
                judge: sitter.judge(),
                desk: None,
                seed: None,
                double: false,
                anchors: self.config.anchors.clone(),
                lease_ms: LEASE_MS,
                entropy: self.config.entropy,
            };
            let seat =
                held_sitting::resume_or_open(&self.store(), options, &self.config.locks, &now)?;
            *place = SeatState {
                seat,
                last_ms: now.ms,
                ..SeatState::default()
            };
        }
        let SeatState { seat, .. } = &mut *place;
        let Some(seat) = seat else {
            return Ok(None);
        };
        let cases = seat.queue.next(limit, &now)?;
        Ok(Some(Hand {
            sitting: seat.queue.id().to_owned(),
            resumed: seat.resumed,
            rubric: seat.queue.rubric().clone(),
            cases,
            pace: place.pace(),
        }))
    }

    /// Hands verdicts in: all of them or none.
    pub fn submit(
        &self,
        sitter: &Sitter,
        experiment: &str,
        verdicts: &[Submission],
    ) -> Result<(Accepted, Pace)> {
        let now = self.now();
        let place = self.find(sitter, experiment);
        let place = place.ok_or_else(|| no_seat(experiment))?;
        let mut place = lock(&place);
        let Some(seat) = &mut place.seat else {
            return Err(no_seat(experiment));
        };
        let accepted = seat.queue.submit(verdicts, &now)?;
        let worked_ms = now.ms - place.last_ms;
        if worked_ms < PAUSE_MS {
            place.working_ms += worked_ms;
            place.scored += u32::try_from(accepted.scored).unwrap_or(0);
        }
        place.last_ms = now.ms;
        Ok((accepted, place.pace()))
    }

    /// A case that this sitting has scored: the one named, or the last.
    pub fn scored(&self, sitter: &Sitter, experiment: &str, case: &str) -> Option<Scored> {
        let place = self.find(sitter, experiment)?;
        let place = lock(&place);
        let queue = &place.seat.as_ref()?.queue;
        let all: Vec<&Case> = queue.scored().collect();
        let at = all.iter().position(|it| it.case == case)?;
        Some(Scored {
            case: all[at].clone(),
            verdict: queue.verdict(case)?.clone(),
            before: at.checked_sub(1).map(|it| all[it].case.clone()),
        })
    }

    /// The case that was scored last.
    pub fn last_scored(&self, sitter: &Sitter, experiment: &str) -> Option<String> {
        let place = self.find(sitter, experiment)?;
        let place = lock(&place);
        let last = place.seat.as_ref()?.queue.scored().last()?;
        Some(last.case.clone())
    }

    /// How far the sitting has come; `None` where nobody sits here.
    pub fn progress(&self, sitter: &Sitter, experiment: &str) -> Option<Pace> {
        let place = self.find(sitter, experiment)?;
        let place = lock(&place);
        place.seat.is_some().then(|| place.pace())
    }

    /// Ends the sitting, also one that an earlier session left open.
    pub fn finish(&self, sitter: &Sitter, experiment: &str) -> Result<Finished> {
        if self.progress(sitter, experiment).is_none() {
            if !self.left_open(&sitter.judge(), experiment)? {
                return Err(no_seat(experiment));
            }
            self.next(sitter, experiment, 1)?;
        }
        let place = self.place(sitter, experiment);
        let Some(seat) = lock(&place).seat.take() else {
            return Err(no_seat(experiment));
        };
        let finished = seat.queue.finish(&self.now())?;
        (self.config.ended.0)(&finished);
        Ok(finished)
    }

    /// Whether this judge has a sitting open, over anything, at whatever door.
    pub fn has_open(&self, sitter: &Sitter) -> Result<bool> {
        Ok(self.store.judge_sits(&sitter.name)?)
    }

    /// Whether this judge has a sitting open over an experiment.
    fn left_open(&self, judge: &Judge, experiment: &str) -> Result<bool> {
        let records = self.store.sitting_list(experiment)?;
        let sits = |it: &assize_store::queue::SittingRecord| {
            it.state == SittingState::Open && it.judge.as_ref() == Some(judge)
        };
        Ok(records.iter().any(sits))
    }

    /// [`Desks::left_open`], for whoever asks.
    pub fn is_open(&self, sitter: &Sitter, experiment: &str) -> Result<bool> {
        self.left_open(&sitter.judge(), experiment)
    }
}

impl SeatState {
    fn pace(&self) -> Pace {
        let progress = self.seat.as_ref().map(|it| it.queue.progress());
        let seconds = self.working_ms as f64 / 1000.0 / f64::from(self.scored.max(1));
        Pace {
            progress: progress.unwrap_or_default(),
            seconds_per_case: (self.scored >= FEWEST).then_some(seconds),
        }
    }
}

fn no_seat(experiment: &str) -> PipelineError {
    PipelineError::Invalid(format!(
        "no sitting over '{experiment}' is open here: take the next cases first"
    ))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
