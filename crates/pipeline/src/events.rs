//! What commands print as JSON for other programs: the events of a collection, of an automatic judge and
//! of a prompt loop, a dry run, and the list of models.
//!
//! The commands print these types and `assize serve` reads them from its jobs, so both always
//! agree. An event is one object on one line, and its `event` says which one it is.

use assize_domain::sweep::label_json;
use assize_optimise::Status;
use serde::{Deserialize, Serialize};

use crate::collect::{CellEvent, CellStatus, HostEvent, HostState, Summary};
use crate::estimate::Estimate;
use crate::judge::auto::AutoSummary;
use crate::size_gate::Rejected;

/// One line of `collect --json`, `judge auto --json`, `simulate --events` or `optimise step --events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum JobEvent {
    /// Another engine does the work.
    Delegated(Delegated),
    /// How far it has come; printed with `--events`.
    Progress(JobProgress),
    /// A cell is settled.
    Cell(SettledCell),
    /// A host begins something else; printed with `--events`.
    Host(HostNow),
    /// A round of an adaptive collection is decided.
    Round(Box<SettledRound>),
    /// A collection is over.
    Summary(Box<Summary>),
    /// An automatic judge is done.
    Judged(Box<AutoSummary>),
    /// A simulation of policies is done.
    Simulated(SimulationSummary),
    /// A prompt loop was started, or not because the preflight advises against it.
    Started(LoopStarted),
    /// The automatic judge of a prompt loop scores what was collected for a stage.
    Judging(JobProgress),
    /// Something was done and appended to the log of a prompt loop.
    Logged(LoopEntry),
    /// A step of a prompt loop is over.
    Stepped(Box<LoopStepped>),
}

impl JobEvent {
    /// The name of the server-sent event that carries it; the last event of every job is its
    /// summary.
    pub const fn sse_name(&self) -> &'static str {
        match self {
            Self::Delegated(_) => "delegated",
            Self::Progress(_) => "progress",
            Self::Cell(_) => "cell",
            Self::Host(_) => "host",
            Self::Round(_) => "round",
            Self::Started(_) => "started",
            Self::Judging(_) => "judging",
            Self::Logged(_) => "logged",
            Self::Summary(_) | Self::Judged(_) | Self::Simulated(_) | Self::Stepped(_) => "summary",
        }
    }
}

/// The run of another engine that does a job's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegated {
    /// `airflow`
    pub engine: String,
    /// The run's id there.
    pub run: String,
    /// The run's page.
    pub url: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct JobProgress {
    /// Cells of a collection, cases of a judge, simulations of a study. The cells of a prompt loop are those
    /// that it has begun with: what it will race next depends on their scores.
    pub done: u64,
    pub total: u64,
    /// What a judge has spent so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// The last line of `simulate --events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulationSummary {
    /// The experiment that holds the results.
    pub experiment: Option<String>,
    /// Which policy earns more, in words.
    pub conclusion: String,
}

/// How the start of a prompt loop ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopStarted {
    pub experiment: String,
    pub started: bool,
    /// What the preflight says against it.
    pub objections: Vec<String>,
}

/// An event of a prompt loop's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopEntry {
    /// Its place in the log, from 1.
    pub number: usize,
    /// `raced`, `nominated`, …
    pub name: String,
    /// What happened, in a sentence.
    pub text: String,
}

/// The last line of `optimise step --events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopStepped {
    /// Whether the gate refused the nominee in this step.
    pub refused: bool,
    /// As `optimise status --json` prints it.
    pub status: Status,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettledCell {
    pub model: String,
    /// The label; JSON has swept settings in the field `settings`.
    #[serde(flatten, with = "label_json")]
    pub prompt: String,
    pub scenario: String,
    pub status: CellStatus,
    /// `None` where nothing is tracked, or not yet.
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where it was generated now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// What a host of a collection is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNow {
    pub host: String,
    pub state: HostState,
    /// The model that it loads or holds.
    pub model: Option<String>,
    /// Why it failed, or cannot run a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl From<&HostEvent<'_>> for HostNow {
    fn from(event: &HostEvent<'_>) -> Self {
        Self {
            host: event.host.to_owned(),
            state: event.state,
            model: event.model.map(|it| it.id.to_string()),
            error: event.error.map(str::to_owned),
        }
    }
}

impl From<&CellEvent<'_>> for SettledCell {
    fn from(cell: &CellEvent<'_>) -> Self {
        Self {
            model: cell.model.id.to_string(),
            prompt: cell.prompt.to_owned(),
            scenario: cell.scenario.to_owned(),
            status: cell.status,
            run_id: cell.run_id.map(str::to_owned),
            error: cell.error.map(str::to_owned),
            host: cell.host.map(str::to_owned),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettledRound {
    pub round: usize,
    pub rounds: usize,
    pub scenarios: Vec<String>,
    pub cells: usize,
    pub kept: Vec<RoundPair>,
    pub dropped: Vec<RoundPair>,
}

/// A (model, prompt) pair after a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundPair {
    pub model: String,
    /// As in [`SettledCell`].
    #[serde(flatten, with = "label_json")]
    pub prompt: String,
    /// Points of the composite above the incumbent.
    pub diff: Option<f64>,
    pub scenarios: usize,
    /// Why it was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `collect --dry-run --json`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DryRun {
    pub experiment: String,
    pub models: Vec<DryRunModel>,
    pub prompts: Vec<String>,
    pub scenarios: Vec<String>,
    pub cells: u64,
    pub missing: u64,
    /// Candidates to generate.
    pub outputs: u64,
    pub loads: usize,
    /// Which host would do what.
    #[serde(default)]
    pub hosts: Vec<DryRunShare>,
    pub rejected_models: Vec<Rejected>,
    /// `None` where there is nothing to go by.
    pub estimate: Option<Estimate>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DryRunModel {
    pub model: String,
    /// `None` for a hosted model that does not report it.
    pub parameter_count: Option<u64>,
    pub digest: String,
    pub cells: u64,
    pub missing: u64,
    /// The hosts that have it.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// Cells that a host would generate, as far as can be said before anything is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRunShare {
    pub host: String,
    pub model: String,
    pub cells: u64,
}

/// `models list --json`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModelList {
    pub models: Vec<ListedModel>,
    pub max_model_b: f64,
    /// Why hosts could not be asked.
    pub unreachable: Vec<String>,
    /// (name, description) of embedded models that can be downloaded.
    pub pullable: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListedModel {
    pub model: String,
    /// `None` where the model does not report it.
    pub parameter_count: Option<u64>,
    /// Whether the size gate admits it.
    pub admitted: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_are_printed() {
        let summary = Summary {
            cells: 3,
            failed: 1,
            rejected_models: vec!["m".to_owned()],
            ..Summary::default()
        };
        let events = [
            JobEvent::Progress(JobProgress {
                total: 3,
                ..JobProgress::default()
            }),
            JobEvent::Cell(SettledCell {
                model: "m".to_owned(),
                prompt: "v1".to_owned(),
                scenario: "s".to_owned(),
                status: CellStatus::Failed,
                run_id: None,
                error: Some("timeout".to_owned()),
                host: None,
            }),
            JobEvent::Host(HostNow {
                host: "http://gpu-a:11434".to_owned(),
                state: HostState::Loading,
                model: Some("m".to_owned()),
                error: None,
            }),
            JobEvent::Summary(Box::new(summary)),
            JobEvent::Judged(Box::default()),
            JobEvent::Logged(LoopEntry {
                number: 2,
                name: "seed_raced".to_owned(),
                text: "Seed: mean 8.00.".to_owned(),
            }),
        ];
        for event in events {
            let line = serde_json::to_string(&event).unwrap();
            let read: JobEvent = serde_json::from_str(&line).unwrap();
            assert_eq!(read, event, "{line}");
        }
        let line = r#"{"event":"cell","model":"m","prompt":"v1","settings":null,"scenario":"s","status":"skipped","run_id":"r"}"#;
        let read: JobEvent = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
    }
}
