//! Writing to the ledger of an experiment: who looks at its confirmation split, and who tries to
//! promote on it.
//!
//! An entry is durable before anybody sees what it is about: a caller that cannot write the entry
//! must not show the scores.

use std::collections::BTreeMap;

use assize_domain::hash::hex;
use assize_domain::leaderboard::Pair;
use assize_domain::ledger::{AttemptOutcome, ConfirmationUse, Entry, Kind, Via};
use assize_domain::scenario::Split;
use assize_store::Ledger;

use crate::Result;
use crate::judge::{Entropy, draw};

/// Who looks or tries, when, and where.
#[derive(Debug, Clone)]
pub struct Author {
    pub by: String,
    /// RFC 3339, UTC.
    pub at: String,
    pub via: Via,
    /// For the entry's id.
    pub entropy: Entropy,
}

/// What an attempt at a promotion found.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub candidate: Pair,
    pub incumbent: Pair,
    pub outcome: AttemptOutcome,
    /// Whether it saw scores of the confirmation split.
    pub has_seen_confirmation: bool,
    /// By the names of the gate's checks.
    pub figures: BTreeMap<String, f64>,
}

/// Records that somebody looks at the scores of the confirmation split.
pub fn look(store: &dyn Ledger, experiment: &str, author: &Author) -> Result<()> {
    let entry = Entry {
        split: Some(Split::Confirmation),
        ..blank(Kind::Look, author)?
    };
    Ok(store.ledger_append(experiment, &entry)?)
}

/// Records an attempt at a promotion.
pub fn attempt(
    store: &dyn Ledger,
    experiment: &str,
    author: &Author,
    attempt: Attempt,
) -> Result<()> {
    let mut figures = attempt.figures;
    // JSON has no other numbers.
    figures.retain(|_, figure| figure.is_finite());
    let entry = Entry {
        split: attempt.has_seen_confirmation.then_some(Split::Confirmation),
        candidate: Some(attempt.candidate),
        incumbent: Some(attempt.incumbent),
        outcome: Some(attempt.outcome),
        figures,
        ..blank(Kind::Attempt, author)?
    };
    Ok(store.ledger_append(experiment, &entry)?)
}

/// How often the confirmation split was used; `None` if nobody has seen its scores.
pub fn confirmation_use(store: &dyn Ledger, experiment: &str) -> Result<Option<ConfirmationUse>> {
    Ok(ConfirmationUse::of(&store.ledger_list(experiment)?))
}

fn blank(kind: Kind, author: &Author) -> Result<Entry> {
    let time: String = author
        .at
        .chars()
        .take(19)
        .filter(char::is_ascii_alphanumeric)
        .collect();
    Ok(Entry {
        id: format!("{time}-{}", hex(&draw(author.entropy)?[..8])),
        number: 0,
        at: author.at.clone(),
        by: author.by.clone(),
        kind,
        via: author.via,
        split: None,
        candidate: None,
        incumbent: None,
        outcome: None,
        figures: BTreeMap::new(),
    })
}
