//! The tree of versions that a loop's log makes, and the loop's state.
//!
//! [`Tree::fold`] reads a log from the start; [`Tree::apply`] adds one event and refuses one that does
//! not fit ([`fold`] has the rules).

use assize_domain::leaderboard::Pair;
use assize_domain::promotion::GateReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SEED;
use crate::error::OptimiseError;
use crate::event::{Event, Nominated, RoundEnded, SearchEnd, Started};
use crate::packet::Packet;
use crate::race::{Stage, part, stages};
use crate::reply::Kind;
use crate::score::{CellScore, FeedbackEstimate, estimate};
use crate::settings::LoopSettings;
use crate::version::Version;

pub mod fold;
#[cfg(test)]
pub(crate) mod tests;

/// The state of a child, and of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A packet waits for a reflector.
    Reflecting,
    /// Returned and not screened yet.
    Draft,
    /// Passed the screens.
    Screened,
    /// Has scores of the race.
    Racing,
    /// Chosen for the gate.
    Nominated,
    /// Waits for experts on the selection split.
    PendingJudgement,
    /// Passed every check but the confirmation.
    Judged,
    /// Waits for experts on the confirmation split.
    Confirming,
    Promoted,
    Rejected,
}

impl State {
    pub const ALL: [Self; 10] = [
        Self::Reflecting,
        Self::Draft,
        Self::Screened,
        Self::Racing,
        Self::Nominated,
        Self::PendingJudgement,
        Self::Judged,
        Self::Confirming,
        Self::Promoted,
        Self::Rejected,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reflecting => "reflecting",
            Self::Draft => "draft",
            Self::Screened => "screened",
            Self::Racing => "racing",
            Self::Nominated => "nominated",
            Self::PendingJudgement => "pending_judgement",
            Self::Judged => "judged",
            Self::Confirming => "confirming",
            Self::Promoted => "promoted",
            Self::Rejected => "rejected",
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whom a loop waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitingFor {
    Reflector,
    Judge,
    Confirmation,
}

/// One version of the prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// `seed`, `r1c1`.
    pub id: String,
    pub parent: Option<String>,
    /// 0 for the seed.
    pub round: u32,
    pub hypothesis: String,
    pub kind: Kind,
    /// Who wrote it; nobody for the seed.
    pub reflector: Option<String>,
    pub version: Version,
    pub state: State,
    pub reason: Option<String>,
    /// Of the race, in its order.
    pub scores: Vec<CellScore>,
    /// Whether it stayed in its race to the end, so that it can be a parent or the nominee.
    pub is_finished: bool,
}

impl Node {
    /// Its mean on the feedback split.
    pub fn feedback(&self) -> Option<FeedbackEstimate> {
        estimate(&self.scores)
    }
}

/// What a loop has used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Used {
    /// Rounds that have begun.
    pub rounds: u32,
    pub children: u32,
    pub auto_verdicts: u32,
    pub expert_verdicts: u32,
    pub cost_usd: f64,
}

/// Where the loop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    SeedRace,
    /// A parent is known and no packet is out.
    BeforeRound,
    Reflecting,
    Screening,
    /// The stages that are done.
    Racing(usize),
    RoundDone,
    SearchEnded,
    Nominated,
    PendingJudgement,
    Judged,
    Confirming,
    Promoted,
    Rejected,
}

/// A loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    pub settings: LoopSettings,
    pub incumbent: Pair,
    /// The race's scenarios in its order.
    pub scenarios: Vec<String>,
    pub composite_range: (f64, f64),
    /// The seed first, then the children in the order of their return.
    pub nodes: Vec<Node>,
    /// The round that is running, or was the last.
    pub round: u32,
    /// The version that this or the next round starts from.
    pub parent: String,
    pub packets: Vec<Packet>,
    /// The rounds that ended.
    pub rounds: Vec<RoundEnded>,
    pub search_end: Option<(SearchEnd, String)>,
    pub nominee: Option<Nominated>,
    pub used: Used,
    /// Why the loop ended, once it has.
    pub reason: Option<String>,
    /// The latest report of the gate.
    pub gate: Option<GateReport>,
    /// The gain that is shown of what was promoted.
    pub gain: Option<f64>,
    /// Events of the log so far.
    pub events: usize,
    /// Children that entered the race of this round.
    pub(crate) entrants: usize,
    pub(crate) phase: Phase,
}

impl Tree {
    /// Reads a log; `None` for an empty one.
    pub fn fold<'a>(
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Option<Self>, OptimiseError> {
        let mut events = events.into_iter();
        let Some(first) = events.next() else {
            return Ok(None);
        };
        let Event::Started(started) = first else {
            return Err(OptimiseError::IllegalEvent {
                number: 1,
                event: first.name(),
                why: "a log begins with started".to_owned(),
            });
        };
        let mut tree = Self::start(started);
        for event in events {
            tree.apply(event)?;
        }
        Ok(Some(tree))
    }

    /// The tree of a loop that has just started.
    pub fn start(started: &Started) -> Self {
        let seed = Node {
            id: SEED.to_owned(),
            parent: None,
            round: 0,
            hypothesis: String::new(),
            kind: Kind::Other,
            reflector: None,
            version: started.seed.clone(),
            state: State::Racing,
            reason: None,
            scores: Vec::new(),
            is_finished: false,
        };
        Self {
            settings: started.settings.clone(),
            incumbent: started.incumbent.clone(),
            scenarios: started.scenarios.clone(),
            composite_range: started.composite_range,
            nodes: vec![seed],
            round: 0,
            parent: SEED.to_owned(),
            packets: Vec::new(),
            rounds: Vec::new(),
            search_end: None,
            nominee: None,
            used: Used::default(),
            reason: None,
            gate: None,
            gain: None,
            events: 1,
            entrants: 0,
            phase: Phase::SeedRace,
        }
    }

    /// The version with this id.
    pub fn node(&self, id: &str) -> Result<&Node, OptimiseError> {
        let found = self.nodes.iter().find(|it| it.id == id);
        found.ok_or_else(|| OptimiseError::UnknownVersion(id.to_owned()))
    }

    pub fn seed(&self) -> &Node {
        &self.nodes[0]
    }

    /// The children of a round.
    pub fn children_of(&self, round: u32) -> impl Iterator<Item = &Node> {
        let is_child = move |it: &&Node| it.round == round && round > 0;
        self.nodes.iter().filter(is_child)
    }

    /// The loop's state.
    pub const fn state(&self) -> State {
        match self.phase {
            Phase::BeforeRound | Phase::Reflecting => State::Reflecting,
            Phase::Screening => State::Draft,
            Phase::Racing(0) => State::Screened,
            Phase::SeedRace | Phase::Racing(_) | Phase::RoundDone | Phase::SearchEnded => {
                State::Racing
            }
            Phase::Nominated => State::Nominated,
            Phase::PendingJudgement => State::PendingJudgement,
            Phase::Judged => State::Judged,
            Phase::Confirming => State::Confirming,
            Phase::Promoted => State::Promoted,
            Phase::Rejected => State::Rejected,
        }
    }

    /// Whom it waits for; nobody where there is something that can be done now.
    pub const fn waiting_for(&self) -> Option<WaitingFor> {
        match self.phase {
            Phase::Reflecting => Some(WaitingFor::Reflector),
            Phase::PendingJudgement => Some(WaitingFor::Judge),
            Phase::Confirming => Some(WaitingFor::Confirmation),
            _ => None,
        }
    }

    pub const fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Promoted | Phase::Rejected)
    }

    /// The packet that waits for the reflector.
    pub fn open_packet(&self) -> Option<&Packet> {
        let is_open = self.phase == Phase::Reflecting;
        self.packets.last().filter(|_| is_open)
    }

    /// The stage of the race that is next, with the children that are still in it.
    pub(crate) fn stage(&self, done: usize) -> Stage {
        let count = stages(self.entrants, self.scenarios.len());
        let children = self
            .children_of(self.round)
            .filter(|it| matches!(it.state, State::Screened | State::Racing));
        Stage {
            round: self.round,
            stage: u32::try_from(done + 1).unwrap_or(u32::MAX),
            children: children.map(|it| it.id.clone()).collect(),
            scenarios: self.scenarios[part(self.scenarios.len(), count, done)].to_vec(),
            is_last: done + 1 == count,
        }
    }
}

/// `1 child`, `2 children`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = match noun {
        "child" => "children".to_owned(),
        _ => format!("{noun}s"),
    };
    format!("{number} {}", if number == 1 { noun } else { &plural })
}
