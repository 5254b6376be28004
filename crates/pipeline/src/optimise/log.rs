//! The log of a loop in this machine's state: reading it, folding it, appending to it.

use assize_optimise::event::Stopped;
use assize_optimise::{Event, Tree};
use assize_store::state::State;

use crate::{PipelineError, Result};

/// The log of one experiment's loop, as far as this process has read it.
#[derive(Debug)]
pub struct LoopLog<'a> {
    state: &'a State,
    experiment: &'a str,
    events: Vec<Event>,
    /// When the first event was recorded; Unix milliseconds.
    started_ms: i64,
}

impl<'a> LoopLog<'a> {
    /// Reads the log; `None` where the experiment has no loop.
    pub fn find(state: &'a State, experiment: &'a str) -> Result<Option<Self>> {
        let stored = state.optimise_events(experiment, 0)?;
        let Some(first) = stored.first() else {
            return Ok(None);
        };
        let started_ms = first.at_ms;
        let events = stored
            .iter()
            .map(|it| Event::parse(it.number as usize, &it.event))
            .collect::<std::result::Result<_, _>>()?;
        Ok(Some(Self {
            state,
            experiment,
            events,
            started_ms,
        }))
    }

    /// Reads the log; it is an error if the experiment has no loop.
    pub fn open(state: &'a State, experiment: &'a str) -> Result<Self> {
        Self::find(state, experiment)?.ok_or_else(|| PipelineError::NoLoop {
            experiment: experiment.to_owned(),
        })
    }

    /// Starts a log with its first event.
    pub fn start(state: &'a State, experiment: &'a str, event: Event, now_ms: i64) -> Result<Self> {
        state.optimise_append(experiment, 0, now_ms, &[event.to_json()])?;
        Ok(Self {
            state,
            experiment,
            events: vec![event],
            started_ms: now_ms,
        })
    }

    pub fn experiment(&self) -> &'a str {
        self.experiment
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// When the loop was started; Unix milliseconds.
    pub const fn started_ms(&self) -> i64 {
        self.started_ms
    }

    /// Hours since the loop was started.
    pub fn hours(&self, now_ms: i64) -> f64 {
        now_ms.saturating_sub(self.started_ms).max(0) as f64 / 3_600_000.0
    }

    /// What the events add up to.
    pub fn tree(&self) -> Result<Tree> {
        let tree = Tree::fold(&self.events)?;
        tree.ok_or_else(|| PipelineError::NoLoop {
            experiment: self.experiment.to_owned(),
        })
    }

    /// Appends one event. It must be legal after the others, and no other process may have appended
    /// one meanwhile.
    pub fn append(&mut self, event: Event, now_ms: i64) -> Result<Tree> {
        let after = u32::try_from(self.events.len()).unwrap_or(u32::MAX);
        self.events.push(event);
        let tree = self.tree();
        let appended = tree.and_then(|tree| {
            let text = self.events[after as usize].to_json();
            self.state
                .optimise_append(self.experiment, after, now_ms, &[text])?;
            Ok(tree)
        });
        if appended.is_err() {
            self.events.pop();
        }
        appended
    }

    /// Ends the loop because somebody asked for it.
    pub fn stop(&mut self, reason: &str, now_ms: i64) -> Result<Tree> {
        let reason = reason.to_owned();
        self.append(Event::Stopped(Stopped { reason }), now_ms)
    }
}
