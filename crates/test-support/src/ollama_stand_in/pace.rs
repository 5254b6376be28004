//! How long the stand-in takes, when it was unreachable, and the record of both.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a model takes on this host.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    pub load: Duration,
    pub completion: Duration,
}

/// What a host was busy with.
#[derive(Debug, Clone)]
pub struct Spell {
    pub model: String,
    /// A load, or else a completion.
    pub is_load: bool,
    pub from: Instant,
    pub to: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Times {
    pub(super) paces: BTreeMap<String, Pace>,
    pub(super) spells: Vec<Spell>,
    /// (from, to); the last one may still go on.
    pub(super) outages: Vec<(Instant, Option<Instant>)>,
}

impl Times {
    pub(super) fn is_out(&self) -> bool {
        self.outages.last().is_some_and(|(_, to)| to.is_none())
    }

    pub(super) fn pace(&self, model: &str) -> Pace {
        self.paces.get(model).copied().unwrap_or_default()
    }
}
