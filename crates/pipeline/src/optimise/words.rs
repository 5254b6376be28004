//! What happened, in a sentence each, and what to do next.

use assize_domain::leaderboard::Pair;
use assize_optimise::{Event, Node, Tree, WaitingFor};

use crate::count;

/// What an event says, for people. `tree` is the tree after it.
pub(super) fn of(event: &Event, tree: &Tree) -> String {
    match event {
        Event::Started(it) => format!("Started from {}.", it.seed.name),
        Event::SeedRaced(it) => format!(
            "Seed: {} on {} of the feedback split ({}).",
            mean(tree, assize_optimise::SEED),
            count(tree.scenarios.len(), "scenario"),
            count(it.auto_verdicts as usize, "automatic verdict"),
        ),
        Event::Reflecting(it) => format!(
            "Round {}: packet {} asks for up to {} of {}.",
            it.packet.round,
            it.packet.id,
            children(it.packet.children as usize),
            it.packet.parent
        ),
        Event::Returned(it) => match &it.problem {
            Some(problem) => format!("{} returned nothing usable: {problem}", it.reflector),
            None => format!("{} returned {}.", it.reflector, children(it.children.len())),
        },
        Event::Screened(it) => match &it.rejected {
            Some(why) => format!(
                "  {} rejected by the screen {}: {}",
                it.child, why.screen, why.reason
            ),
            None => format!("  {} passed the screens.", it.child),
        },
        Event::Raced(it) => {
            let dropped: Vec<String> = it
                .dropped
                .iter()
                .map(|it| format!("\n  {} dropped: {}", it.child, it.reason))
                .collect();
            format!(
                "Round {}, stage {}: {}.{}",
                it.round,
                it.stage,
                count(it.auto_verdicts as usize, "automatic verdict"),
                dropped.concat()
            )
        }
        Event::RoundEnded(it) => format!("Round {} ended: {}.", it.round, it.reason),
        Event::SearchEnded(it) => format!("The search ended: {}.", it.reason),
        decision => of_decision(decision, tree),
    }
}

/// The same for what follows the search.
fn of_decision(event: &Event, tree: &Tree) -> String {
    match event {
        Event::Nominated(it) => format!(
            "Nominated: {} ({}), {:+.2} over the seed in the race, which is too large on average.",
            it.child, it.pair, it.lead
        ),
        Event::Submitted(_) => format!(
            "{} and {} are collected on the selection split.",
            nominee(tree),
            tree.incumbent
        ),
        Event::Judged(_) => format!(
            "{} passes every check of the gate but the confirmation.",
            nominee(tree)
        ),
        Event::Confirming(_) => format!(
            "{} and {} are collected on the confirmation split.",
            nominee(tree),
            tree.incumbent
        ),
        Event::Promoted(it) => format!(
            "Promoted: {} is the champion (entry {}){}.",
            nominee(tree),
            it.promotion,
            it.gain
                .map_or_else(String::new, |it| format!(", {it:+.2} on unseen scenarios"))
        ),
        Event::Rejected(it) => format!("Rejected: {}.", it.reason),
        Event::Stopped(it) => format!("Stopped: {}.", it.reason),
        other => other.name().to_owned(),
    }
}

fn children(number: usize) -> String {
    if number == 1 {
        "1 child".to_owned()
    } else {
        format!("{number} children")
    }
}

fn mean(tree: &Tree, id: &str) -> String {
    let node = tree.node(id).ok();
    let mean = node.and_then(Node::feedback).map(|it| it.mean);
    mean.map_or_else(|| "no score".to_owned(), |mean| format!("mean {mean:.2}"))
}

fn nominee(tree: &Tree) -> String {
    let pair: Option<&Pair> = tree.nominee.as_ref().map(|it| &it.pair);
    pair.map_or_else(String::new, ToString::to_string)
}

/// Whom the loop waits for, in a sentence; `None` where it has ended or can go on.
pub fn waiting(tree: &Tree) -> Option<String> {
    Some(match tree.waiting_for()? {
        WaitingFor::Reflector => {
            let packet = tree.open_packet().map_or("", |it| it.id.as_str());
            format!(
                "Waiting for the reflector {}: packet {packet}.",
                tree.settings.reflector
            )
        }
        WaitingFor::Judge => "Waiting for judges: the selection split.".to_owned(),
        WaitingFor::Confirmation => {
            "Waiting for judges: the confirmation split, which stays sealed.".to_owned()
        }
    })
}
