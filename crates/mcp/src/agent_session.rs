//! What the tools do, without the protocol: one agent session, at most one open sitting.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use assize_domain::anchor::Anchors;
use assize_domain::judge::{EXPERT_KINDS, Judge, clean_version};
use assize_domain::sitting::SittingState;
use assize_domain::submission::Submission;
use assize_pipeline::judge::Entropy;
use assize_pipeline::judge::held_sitting::{self, HeldSitting};
use assize_pipeline::judge::queue::{Finished, Progress, SitOptions};
use assize_pipeline::optimise::{packets, searched_experiment};
use assize_pipeline::{Now, PipelineError};
use assize_store::state::State;
use assize_store::{ExperimentSummary, Tracking};
use serde_json::Value;

use crate::wire::{
    AcceptedOut, BoardOut, CaseList, CaseOut, FinishedOut, NextCases, PendingExperiment,
    PendingList, ProgressOut, RubricOut, VerdictIn,
};

/// The board of an experiment, as JSON.
pub type BoardReader = Box<dyn Fn(&dyn Tracking, &str) -> Result<Value, String> + Send>;
/// The calibration cases for an experiment.
pub type AnchorReader = Box<dyn Fn(&dyn Tracking, &str) -> Result<Anchors, String> + Send>;
/// Opens the tracking store.
pub type StoreOpener = Box<dyn Fn() -> Result<Arc<dyn Tracking>, String> + Send>;
/// Opens this machine's state, where the logs of prompt loops are.
pub type StateOpener = Box<dyn Fn() -> Result<State, String> + Send>;
/// Called for every sitting that ends.
pub type EndObserver = Box<dyn Fn(&Finished) + Send>;
/// The current time.
pub type Clock = fn() -> Now;

/// How many cases are shown at once.
const CASES: usize = 5;
const MOST_CASES: usize = 50;

/// What an agent session works with.
pub struct SessionConfig {
    /// Called until it succeeds once.
    pub open_store: StoreOpener,
    pub open_state: StateOpener,
    /// Where this machine's locks are.
    pub locks: PathBuf,
    pub clock: Clock,
    pub entropy: Entropy,
    /// The judge's kind; found out from the client where it is `None`.
    pub judge_kind: Option<String>,
    pub judged_by: Option<String>,
    pub anchors: AnchorReader,
    pub lease_ms: i64,
    pub board: BoardReader,
    pub ended: EndObserver,
}

impl fmt::Debug for SessionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionConfig")
            .field("judge_kind", &self.judge_kind)
            .finish_non_exhaustive()
    }
}

/// What the client says about itself when it connects; untrusted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Client {
    pub name: String,
    pub version: String,
}

/// An agent session, with its sitting where one is open.
#[derive(Debug)]
pub(crate) struct AgentSession {
    pub(crate) config: SessionConfig,
    store: Option<Arc<dyn Tracking>>,
    held: Option<HeldSitting>,
    rubric_shown: bool,
    /// Experiments for whose prompt loops this session wrote children.
    wrote_for: BTreeSet<String>,
}

pub(crate) type Answer<T> = Result<T, String>;

impl AgentSession {
    pub fn new(config: SessionConfig) -> Self {
        Self {
            config,
            store: None,
            held: None,
            rubric_shown: false,
            wrote_for: BTreeSet::new(),
        }
    }

    fn store(&mut self) -> Answer<Arc<dyn Tracking>> {
        if let Some(store) = &self.store {
            return Ok(Arc::clone(store));
        }
        let store = (self.config.open_store)()?;
        self.store = Some(Arc::clone(&store));
        Ok(store)
    }

    pub fn pending(&mut self) -> Answer<PendingList> {
        let all = self.store()?.experiment_list();
        let all = all.map_err(|error| error.to_string())?;
        let mut names: BTreeSet<String> = all.iter().map(|it| it.name.clone()).collect();
        // A loop's own experiment holds no outputs before its nominee is collected.
        let loops = (self.config.open_state)().map(|it| it.optimise_loops());
        if let Ok(Ok(loops)) = loops {
            names.extend(loops.into_iter().map(|it| it.experiment));
        }
        let is_race = |name: &str| searched_experiment(name).is_some_and(|it| names.contains(it));
        let is_waiting = |it: &ExperimentSummary| it.pending > 0 && !is_race(&it.name);
        let waiting = all.into_iter().filter(is_waiting);
        Ok(PendingList {
            experiments: waiting
                .map(|it| PendingExperiment {
                    name: it.name,
                    pending: it.pending,
                    judged: it.judged,
                })
                .collect(),
            sitting_over: self
                .held
                .as_ref()
                .map_or_else(String::new, |held| held.queue.experiment().to_owned()),
        })
    }

    pub fn next_cases(&mut self, request: &NextCases, client: &Client) -> Answer<CaseList> {
        let now = (self.config.clock)();
        self.refuse_own_children(&request.experiment)?;
        let warning = self.namesake_warning(&request.experiment, client);
        self.sit(&request.experiment, client, &now)?;
        let Some(held) = &mut self.held else {
            return Err(format!(
                "nothing is pending in '{}': pending shows where something waits",
                request.experiment
            ));
        };
        let limit = match request.limit {
            0 => CASES,
            asked => (asked as usize).min(MOST_CASES),
        };
        let cases = held.queue.next(limit, &now).map_err(|it| explain(&it))?;
        let with_text = request.with_rubric || !self.rubric_shown;
        self.rubric_shown = true;
        Ok(CaseList {
            experiment: held.queue.experiment().to_owned(),
            sitting: held.queue.id().to_owned(),
            resumed: held.resumed,
            rubric: RubricOut::new(held.queue.rubric(), with_text),
            cases: cases.into_iter().map(CaseOut::new).collect(),
            progress: progress(held.queue.progress()),
            warning,
        })
    }

    /// Remembers that this session wrote versions that are compared in an experiment.
    pub(crate) fn wrote_for(&mut self, experiment: &str) {
        self.wrote_for.insert(experiment.to_owned());
    }

    /// Whoever wrote the versions knows them again, and would judge its own work.
    fn refuse_own_children(&self, experiment: &str) -> Answer<()> {
        let searched = searched_experiment(experiment).unwrap_or(experiment);
        let is_own = |it: &str| self.wrote_for.contains(it);
        if is_own(experiment) || is_own(searched) {
            return Err(format!(
                "this session wrote versions for the prompt loop of '{searched}', so it cannot judge them: judge in \
                 another session, best by another agent or a person"
            ));
        }
        Ok(())
    }

    /// What to tell a judge whose kind has written versions for the experiment's prompt loop.
    fn namesake_warning(&self, experiment: &str, client: &Client) -> String {
        let kind = self.judge(client).kind;
        let state = (self.config.open_state)().ok();
        let authors = state.and_then(|it| packets::reflectors(&it, experiment).ok());
        if !authors.is_some_and(|it| it.contains(&reflector_name(&kind))) {
            return String::new();
        }
        format!(
            "an agent of the kind {kind} wrote versions for the prompt loop of '{experiment}'. If it was you, stop: \
             whoever wrote them should not judge them"
        )
    }

    /// Opens or resumes a sitting over the experiment, where anything is pending there.
    fn sit(&mut self, experiment: &str, client: &Client, now: &Now) -> Answer<()> {
        if let Some(held) = &self.held {
            let current = held.queue.experiment();
            if current == experiment {
                return Ok(());
            }
            return Err(format!(
                "this session judges '{current}': call finish_sitting before you take cases of '{experiment}'"
            ));
        }
        let store = self.store()?;
        let options = SitOptions {
            experiment: experiment.to_owned(),
            judge: self.judge(client),
            desk: None,
            seed: None,
            double: false,
            anchors: (self.config.anchors)(store.as_ref(), experiment)?,
            lease_ms: self.config.lease_ms,
            entropy: self.config.entropy,
        };
        let held = held_sitting::resume_or_open(&store, options, &self.config.locks, now);
        self.held = held.map_err(|error| explain(&error))?;
        self.rubric_shown = false;
        Ok(())
    }

    pub fn submit(&mut self, verdicts: Vec<VerdictIn>) -> Answer<AcceptedOut> {
        let now = (self.config.clock)();
        let Some(held) = &mut self.held else {
            return Err("this session holds no cases: call next_cases first".to_owned());
        };
        if verdicts.is_empty() {
            return Err("verdicts is empty: give at least one case with its scores".to_owned());
        }
        let submissions: Vec<Submission> = verdicts
            .into_iter()
            .map(|it| Submission {
                case: it.case,
                scores: it.scores,
                rationale: Some(it.rationale),
            })
            .collect();
        let accepted = held.queue.submit(&submissions, &now);
        let accepted = accepted.map_err(|error| explain_submission(&error, &submissions))?;
        Ok(AcceptedOut {
            scored: accepted.scored as u64,
            revised: accepted.revised as u64,
            unchanged: accepted.unchanged as u64,
            progress: progress(held.queue.progress()),
        })
    }

    pub fn progress(&self) -> Answer<ProgressOut> {
        match &self.held {
            Some(held) => Ok(progress(held.queue.progress())),
            None => Err("no sitting is open in this session: call next_cases first".to_owned()),
        }
    }

    pub fn finish(&mut self) -> Answer<FinishedOut> {
        let now = (self.config.clock)();
        let Some(held) = self.held.take() else {
            return Err(
                "no sitting is open in this session, so there is nothing to finish".to_owned(),
            );
        };
        let finished = held.queue.finish(&now).map_err(|error| explain(&error))?;
        (self.config.ended)(&finished);
        Ok(FinishedOut {
            sitting: finished.sitting,
            experiment: finished.experiment,
            judge_kind: finished.judge.kind,
            judged_by: finished.judge.name,
            state: finished.state.to_string(),
            judged: finished.done as u64,
            released: finished.released as u64,
        })
    }

    pub fn leaderboard(&mut self, experiment: &str, client: &Client) -> Answer<BoardOut> {
        let store = self.store()?;
        self.refuse_while_sitting([experiment], client)?;
        let leaderboard = (self.config.board)(store.as_ref(), experiment)?;
        Ok(BoardOut { leaderboard })
    }

    /// Refuses what would end the blindness of a judge who has a sitting over one of these
    /// experiments open.
    pub(crate) fn refuse_while_sitting<'a>(
        &mut self,
        experiments: impl IntoIterator<Item = &'a str>,
        client: &Client,
    ) -> Answer<()> {
        let store = self.store()?;
        let judge = self.judge(client);
        let mut sits = self.held.is_some();
        for experiment in experiments {
            let records = store.sitting_list(experiment);
            let records = records.map_err(|error| error.to_string())?;
            sits |= records.iter().any(|it| {
                let is_own = it.judge.as_ref().is_some_and(|it| it.is_namesake(&judge));
                it.state == SittingState::Open && is_own
            });
        }
        if sits {
            return Err(
                "a sitting of yours is open, and judges are blind until it is over: call finish_sitting first \
                 (after next_cases, where an earlier session left it open)"
                    .to_owned(),
            );
        }
        Ok(())
    }

    pub fn judge(&self, client: &Client) -> Judge {
        let kind = self.config.judge_kind.clone();
        let kind = kind.unwrap_or_else(|| kind_of_client(&client.name));
        let name = self.config.judged_by.clone();
        Judge {
            name: name.unwrap_or_else(|| kind.clone()),
            kind,
            version: clean_version(&format!("{} {}", client.name, client.version)),
        }
    }
}

/// How the log of a loop names an agent of this kind that wrote children.
pub(crate) fn reflector_name(kind: &str) -> String {
    match kind {
        "agent" => "agent".to_owned(),
        kind => format!("agent {kind}"),
    }
}

/// The kind of judge behind an MCP client's name: `codex-mcp-client` is `codex`.
fn kind_of_client(client: &str) -> String {
    let client = client.to_lowercase();
    let known = EXPERT_KINDS
        .iter()
        .filter(|kind| **kind != "human" && **kind != "agent")
        .find(|kind| client.contains(**kind));
    (*known.unwrap_or(&"agent")).to_owned()
}

fn progress(progress: Progress) -> ProgressOut {
    ProgressOut {
        done: progress.done as u64,
        held: progress.held as u64,
        left: progress.left,
    }
}

fn explain(error: &PipelineError) -> String {
    error.to_string()
}

/// Every problem, with the case and the field that it is about.
fn explain_submission(error: &PipelineError, submissions: &[Submission]) -> String {
    let PipelineError::JudgeFile { problems, .. } = error else {
        return error.to_string();
    };
    let mut text = format!(
        "{} in these verdicts; nothing of this call was written:",
        assize_pipeline::count(problems.len(), "problem")
    );
    for problem in problems {
        let mut parts = problem.pointer.trim_start_matches('/').splitn(2, '/');
        let place = parts.next().and_then(|it| it.parse::<usize>().ok());
        let field = parts.next().unwrap_or_default().replace('/', ".");
        let case = place.and_then(|it| submissions.get(it));
        let case = case.map_or_else(String::new, |it| format!("case {}: ", it.case));
        text.push_str(&format!("\n- {case}{field} {}", problem.message));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_by_their_names() {
        for (client, kind) in [
            ("claude-code", "claude-code"),
            ("codex-mcp-client", "codex"),
            ("gemini-cli-mcp-client", "gemini-cli"),
            ("human-friendly-client", "agent"),
            ("", "agent"),
        ] {
            assert_eq!(kind_of_client(client), kind);
        }
    }
}
