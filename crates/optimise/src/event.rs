//! The events of a loop's log. Each is one step that happened and was committed as one transaction.
//!
//! Events hold whole texts, figures and the decisions that were made from them, so that the log
//! alone tells the story, and so that a later version of a rule does not change an old tree. They hold
//! no times: those are kept beside them.

use assize_domain::leaderboard::Pair;
use assize_domain::promotion::{Check, GateReport};
use serde::{Deserialize, Serialize};

use crate::error::OptimiseError;
use crate::packet::Packet;
use crate::reply::Proposal;
use crate::score::CellScore;
use crate::settings::LoopSettings;
use crate::version::Version;

/// One step of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Started(Box<Started>),
    /// The seed has its scores on the feedback split.
    SeedRaced(SeedRaced),
    /// A packet waits for the reflector.
    Reflecting(Box<Reflecting>),
    /// The reflector answered, or did not in a way that can be used.
    Returned(Returned),
    /// A child went through all screens.
    Screened(Screened),
    /// A stage of the race is judged.
    Raced(Raced),
    RoundEnded(RoundEnded),
    /// No further round: a budget is used up, or there is nothing left to gain.
    SearchEnded(SearchEnded),
    /// One child goes to the gate.
    Nominated(Nominated),
    /// Nominee and incumbent are collected on the selection split and wait for experts.
    Submitted(Submitted),
    /// The selection split is judged, and every check of the gate but the confirmation holds.
    Judged(Judged),
    /// Nominee and incumbent are collected on the confirmation split and wait for experts.
    Confirming(Confirming),
    /// The gate passed, and the alias has moved.
    Promoted(Promoted),
    /// The loop ended without a promotion.
    Rejected(Rejected),
    /// Somebody stopped the loop.
    Stopped(Stopped),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub settings: LoopSettings,
    pub seed: Version,
    /// The pair that the nominee is compared with in the end.
    pub incumbent: Pair,
    /// The scenarios of the race, in its order ([`crate::race::scenarios`]).
    pub scenarios: Vec<String>,
    /// The smallest and the largest composite that the rubric allows.
    pub composite_range: (f64, f64),
    /// How the loop is collected and judged, for whoever does that; nothing is decided by it.
    #[serde(default)]
    pub setup: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeedRaced {
    pub scores: Vec<CellScore>,
    /// Verdicts that were made for this, here and in the events below.
    pub auto_verdicts: u32,
    #[serde(default)]
    pub cost_usd: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reflecting {
    pub packet: Packet,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Returned {
    /// The packet's id.
    pub packet: String,
    /// Who answered: `agent claude-code`, `cmd:…`, a model.
    pub reflector: String,
    pub children: Vec<Proposal>,
    /// Why there are no children, where there are none.
    #[serde(default)]
    pub problem: Option<String>,
    #[serde(default)]
    pub cost_usd: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Screened {
    pub child: String,
    /// The first screen that the child did not pass.
    pub rejected: Option<Rejection>,
    #[serde(default)]
    pub cost_usd: f64,
}

/// Why a child was screened out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The screen's name: `variables`, `length`, `leak`, `smoke`.
    pub screen: String,
    /// With figures. It is shown to reflectors, so it quotes nothing but the child itself.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Raced {
    pub round: u32,
    /// From 1.
    pub stage: u32,
    /// Of the stage's children on the stage's scenarios.
    pub scores: Vec<CellScore>,
    /// Children that do not go on.
    pub dropped: Vec<Dropped>,
    pub auto_verdicts: u32,
    #[serde(default)]
    pub cost_usd: f64,
}

/// A child that left the race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    pub child: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundEnded {
    pub round: u32,
    /// The child that is ahead of the round's parent.
    pub leader: Option<String>,
    /// The version that the next round starts from.
    pub parent: String,
    /// Why this version.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchEnded {
    pub end: SearchEnd,
    pub reason: String,
    /// Of a stage that was broken off.
    #[serde(default)]
    pub auto_verdicts: u32,
    #[serde(default)]
    pub cost_usd: f64,
}

/// Which limit ended the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchEnd {
    Rounds,
    StaleRounds,
    Verdicts,
    Children,
    Cost,
    Hours,
    Ceiling,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nominated {
    pub child: String,
    pub pair: Pair,
    /// The lead over the seed in the race, which is too large on average.
    pub lead: f64,
    /// Its level, which is corrected for that ([`crate::correct`]).
    pub level: f64,
    /// The version's number in the prompt registry, where it is registered.
    #[serde(default)]
    pub registered_version: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Submitted {
    #[serde(default)]
    pub auto_verdicts: u32,
    #[serde(default)]
    pub cost_usd: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Judged {
    pub expert_verdicts: u32,
    #[serde(default)]
    pub auto_verdicts: u32,
    #[serde(default)]
    pub gate: Option<GateReport>,
    #[serde(default)]
    pub cost_usd: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Confirming {
    #[serde(default)]
    pub cost_usd: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Promoted {
    /// The promotion's number in the task's history.
    pub promotion: u32,
    #[serde(default)]
    pub expert_verdicts: u32,
    /// The nominee's gain over the incumbent that is shown ([`confirmed_gain`]).
    #[serde(default)]
    pub gain: Option<f64>,
    #[serde(default)]
    pub gate: Option<GateReport>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Rejected {
    pub reason: String,
    #[serde(default)]
    pub expert_verdicts: u32,
    #[serde(default)]
    pub auto_verdicts: u32,
    #[serde(default)]
    pub gate: Option<GateReport>,
    #[serde(default)]
    pub cost_usd: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    pub reason: String,
}

/// The gain that is shown of what was promoted: the mean difference to the incumbent on the
/// confirmation split, on which nothing was selected but whether it passed.
pub fn confirmed_gain(checks: &[Check]) -> Option<f64> {
    let found = checks.iter().find(|it| it.name == "confirmation.margin");
    found.and_then(|it| it.figure)
}

impl Event {
    /// Reads event `number` of a log.
    pub fn parse(number: usize, text: &str) -> Result<Self, OptimiseError> {
        serde_json::from_str(text).map_err(|error| OptimiseError::UnreadableEvent {
            number,
            why: error.to_string(),
        })
    }

    /// As it is written to the log.
    pub fn to_json(&self) -> String {
        // Every field is a string, a finite number, a list or a map with string keys.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// As the log names it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::SeedRaced(_) => "seed_raced",
            Self::Reflecting(_) => "reflecting",
            Self::Returned(_) => "returned",
            Self::Screened(_) => "screened",
            Self::Raced(_) => "raced",
            Self::RoundEnded(_) => "round_ended",
            Self::SearchEnded(_) => "search_ended",
            Self::Nominated(_) => "nominated",
            Self::Submitted(_) => "submitted",
            Self::Judged(_) => "judged",
            Self::Confirming(_) => "confirming",
            Self::Promoted(_) => "promoted",
            Self::Rejected(_) => "rejected",
            Self::Stopped(_) => "stopped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tests::packet;

    #[test]
    fn events_are_tagged_by_name_and_read_back() {
        let events = [
            Event::Reflecting(Box::new(Reflecting { packet: packet() })),
            Event::Screened(Screened {
                child: "r1c1".to_owned(),
                rejected: None,
                cost_usd: 0.25,
            }),
            Event::Rejected(Rejected::default()),
        ];
        for event in events {
            let text = event.to_json();
            assert!(text.starts_with(&format!("{{\"event\":\"{}\"", event.name())));
            assert_eq!(Event::parse(1, &text), Ok(event));
        }
        let error = Event::parse(7, "{\"event\":\"risen\"}").expect_err("unknown");
        assert!(error.to_string().starts_with("event 7 of"), "{error}");
    }
}
