//! Packets that wait for an agent session, and their answers.
//!
//! A loop with the reflector `agent` writes its packet into its log and waits. Any session may read the
//! packet and answer it; the first valid answer is recorded, and the loop's next step goes on with it.

use std::collections::BTreeSet;

use assize_optimise::event::Returned;
use assize_optimise::{Event, Packet, Reply, Tree};
use assize_store::state::State;
use serde_json::{Map, Value, json};

use super::LoopLog;
use super::reflector::Reflector;
use crate::{PipelineError, Result};

/// A packet that waits for an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenPacket {
    pub experiment: String,
    pub packet: Packet,
}

/// An answer of an agent session.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketAnswer<'a> {
    pub experiment: &'a str,
    /// The packet's id.
    pub packet: &'a str,
    /// Children as a reflector returns them.
    pub children: &'a [Map<String, Value>],
    /// Who answers: `agent claude-code`.
    pub reflector: &'a str,
    pub now_ms: i64,
}

/// How an answer was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Recorded,
    /// The same answer had been recorded before.
    Unchanged,
}

/// The packets that wait, and the loops that could not be read.
#[derive(Debug, Default)]
pub struct OpenList {
    /// The loop with the latest event first.
    pub open: Vec<OpenPacket>,
    /// By experiment, with the reason.
    pub unreadable: Vec<(String, PipelineError)>,
}

/// All packets that wait for an agent. A loop that cannot be read does not hide the others.
pub fn open_list(state: &State) -> Result<OpenList> {
    let mut list = OpenList::default();
    for summary in state.optimise_loops()? {
        let experiment = summary.experiment;
        match open_one(state, &experiment) {
            Ok(packet) => list.open.extend(packet),
            Err(error) => list.unreadable.push((experiment, error)),
        }
    }
    Ok(list)
}

/// The packet of one experiment's loop that waits for an agent, where there is one.
pub fn open_one(state: &State, experiment: &str) -> Result<Option<OpenPacket>> {
    let Some(log) = LoopLog::find(state, experiment)? else {
        return Ok(None);
    };
    let packet = open_packet(&log.tree()?)?;
    Ok(packet.map(|packet| OpenPacket {
        packet,
        experiment: experiment.to_owned(),
    }))
}

/// Who has returned children to an experiment's loop, as the log names them.
pub fn reflectors(state: &State, experiment: &str) -> Result<BTreeSet<String>> {
    let log = LoopLog::find(state, experiment)?;
    let events = log.as_ref().map_or(&[][..], LoopLog::events);
    let authors = events.iter().filter_map(|event| match event {
        Event::Returned(it) => Some(it.reflector.clone()),
        _ => None,
    });
    Ok(authors.collect())
}

/// Records the answer to a packet. An answer that does not fit is refused with all of its problems, and
/// the packet stays open.
pub fn submit(state: &State, answer: &PacketAnswer<'_>) -> Result<Taken> {
    let (experiment, id) = (answer.experiment, answer.packet);
    let mut log = LoopLog::open(state, experiment)?;
    let asked = log.events().iter().find_map(|event| match event {
        Event::Reflecting(it) if it.packet.id == id => Some(it.packet.clone()),
        _ => None,
    });
    let Some(packet) = asked else {
        return Err(PipelineError::Invalid(format!(
            "the loop of '{experiment}' has no packet '{id}': call next_packet for the one that waits"
        )));
    };
    let text = json!({"children": answer.children}).to_string();
    let reply = Reply::parse(&text, &packet).map_err(|problems| {
        PipelineError::Invalid(format!(
            "this answer cannot be used, and nothing was recorded: {}",
            problems.join("; ")
        ))
    })?;
    let recorded = log.events().iter().find_map(|event| match event {
        Event::Returned(it) if it.packet == id => Some(&it.children),
        _ => None,
    });
    if let Some(recorded) = recorded {
        if *recorded == reply.children {
            return Ok(Taken::Unchanged);
        }
        return Err(PipelineError::Invalid(format!(
            "packet {id} of '{experiment}' has been answered already, and an answer is not changed: call \
             next_packet for the one that waits"
        )));
    }
    let tree = log.tree()?;
    if open_packet(&tree)?.is_none_or(|it| it.id != id) {
        return Err(PipelineError::Invalid(format!(
            "packet {id} of '{experiment}' waits for no agent any more: {}. Nothing was recorded",
            why_closed(&tree)
        )));
    }
    let returned = Returned {
        packet: id.to_owned(),
        reflector: answer.reflector.to_owned(),
        children: reply.children,
        problem: None,
        cost_usd: 0.0,
    };
    log.append(Event::Returned(returned), answer.now_ms)?;
    Ok(Taken::Recorded)
}

/// Why a packet that was asked for and not answered waits no longer.
fn why_closed(tree: &Tree) -> String {
    let ended = tree.search_end.as_ref();
    let reason = tree.reason.as_deref();
    match (ended, reason) {
        (Some((_, reason)), _) => format!("the search has ended ({reason})"),
        (None, Some(reason)) => format!("the loop has ended ({reason})"),
        (None, None) => format!("the loop's reflector is {}", tree.settings.reflector),
    }
}

/// The packet that waits for an agent, in a loop that has not ended.
fn open_packet(tree: &Tree) -> Result<Option<Packet>> {
    let is_agent = Reflector::parse(&tree.settings.reflector)? == Reflector::Agent;
    Ok(tree.open_packet().filter(|_| is_agent).cloned())
}
