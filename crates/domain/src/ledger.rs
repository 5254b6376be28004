//! The ledger of an experiment: every look at the scores of its confirmation split, and every
//! attempt at a promotion.
//!
//! Entries are added and never changed or deleted. A store keeps each entry as a tag of the
//! experiment, under a key of its own ([`Entry::tag`]): two writers never write the same tag, one
//! request writes a whole entry, and a copy of the tags is a copy of the ledger.
//!
//! Numbers follow from the order of time and are not stored. An entry that is copied from another
//! store can therefore change the numbers of later ones; its id stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::leaderboard::Pair;
use crate::scenario::Split;

/// The start of the keys of all entries; the rest is the entry's id.
pub const TAG_PREFIX: &str = "assize.ledger.";

/// The figure with the scale σ₀ of the confirmation's test, which every later attempt uses again:
/// the test is valid only for a scale that was fixed before the scores were seen.
pub const SCALE: &str = "confirmation.scale";

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Somebody unsealed scores and saw them.
    Look,
    /// The gate was run to promote a candidate.
    Attempt,
}

/// Where somebody looked or tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    Command,
    Api,
    Panel,
}

impl Via {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Api => "api",
            Self::Panel => "panel",
        }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// Another check failed, so the confirmation split stayed sealed.
    NotReached,
    /// Every other check passed, but the two pairs are not collected and judged on the
    /// confirmation split.
    Incomplete,
    Failed,
    Passed,
}

impl AttemptOutcome {
    /// For people.
    pub const fn as_words(self) -> &'static str {
        match self {
            Self::NotReached => "not reached",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Passed => "passed",
        }
    }
}

/// One look or attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Identifies the entry in every store.
    pub id: String,
    /// From 1, in the order of time.
    #[serde(default)]
    pub number: u32,
    /// RFC 3339, UTC.
    pub at: String,
    pub by: String,
    pub kind: Kind,
    pub via: Via,
    /// The split whose scores were seen; `null` for an attempt that saw none.
    pub split: Option<Split>,
    pub candidate: Option<Pair>,
    pub incumbent: Option<Pair>,
    pub outcome: Option<AttemptOutcome>,
    /// What an attempt saw, by the names of the gate's checks.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
}

/// A tag with the key of an entry that does not hold one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableEntry {
    pub key: String,
    pub reason: String,
}

impl Entry {
    /// The key and the value of the tag that holds the entry.
    pub fn tag(&self) -> (String, String) {
        let mut stored = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = stored.as_object_mut() {
            fields.remove("number");
        }
        (format!("{TAG_PREFIX}{}", self.id), stored.to_string())
    }

    /// Whether scores of the confirmation split were seen.
    pub fn has_seen_confirmation(&self) -> bool {
        self.split == Some(Split::Confirmation)
    }
}

/// Whether a tag with this key holds an entry.
pub fn is_entry_key(key: &str) -> bool {
    key.starts_with(TAG_PREFIX)
}

/// The entry that a tag holds, without its number.
pub fn parse_tag(key: &str, value: &str) -> Result<Entry, UnreadableEntry> {
    let unreadable = |reason: String| UnreadableEntry {
        key: key.to_owned(),
        reason,
    };
    let entry: Entry =
        serde_json::from_str(value).map_err(|error| unreadable(error.to_string()))?;
    if key.strip_prefix(TAG_PREFIX) == Some(entry.id.as_str()) {
        Ok(entry)
    } else {
        Err(unreadable(format!("it holds the entry '{}'", entry.id)))
    }
}

/// The entries among the tags of an experiment, in the order of time, numbered from 1.
pub fn from_tags<'a>(
    tags: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<Entry>, UnreadableEntry> {
    let ours = tags.into_iter().filter(|(key, _)| is_entry_key(key));
    let mut entries: Vec<Entry> = ours
        .map(|(key, value)| parse_tag(key, value))
        .collect::<Result<_, _>>()?;
    entries.sort_by(|a, b| (&a.at, &a.id).cmp(&(&b.at, &b.id)));
    for (number, entry) in (1..).zip(&mut entries) {
        entry.number = number;
    }
    Ok(entries)
}

/// How often the confirmation split of an experiment was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmationUse {
    /// Times that somebody unsealed its scores before a candidate was nominated.
    pub looks: u32,
    /// Attempts at a promotion that saw its scores.
    pub attempts: u32,
    /// Different candidates of those attempts.
    pub candidates: u32,
}

impl ConfirmationUse {
    /// `None` if nobody has seen its scores.
    pub fn of(entries: &[Entry]) -> Option<Self> {
        let seen = || entries.iter().filter(|it| it.has_seen_confirmation());
        let count = |kind: Kind| {
            let found = seen().filter(|it| it.kind == kind).count();
            u32::try_from(found).unwrap_or(u32::MAX)
        };
        let candidates: BTreeSet<&Pair> = seen().filter_map(|it| it.candidate.as_ref()).collect();
        let it = Self {
            looks: count(Kind::Look),
            attempts: count(Kind::Attempt),
            candidates: u32::try_from(candidates.len()).unwrap_or(u32::MAX),
        };
        (it.looks + it.attempts > 0).then_some(it)
    }
}

impl fmt::Display for ConfirmationUse {
    /// `looked at 2 times, 1 attempt`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |number: u32| if number == 1 { "" } else { "s" };
        let looks = format!("looked at {} time{}", self.looks, plural(self.looks));
        let attempts = format!("{} attempt{}", self.attempts, plural(self.attempts));
        match (self.looks, self.attempts) {
            (_, 0) => f.write_str(&looks),
            (0, _) => f.write_str(&attempts),
            _ => write!(f, "{looks}, {attempts}"),
        }
    }
}

/// The scale that the first attempt with these pairs used on the confirmation split.
pub fn first_scale(entries: &[Entry], candidate: &Pair, incumbent: &Pair) -> Option<f64> {
    let is_theirs = |it: &&Entry| {
        it.has_seen_confirmation()
            && it.candidate.as_ref() == Some(candidate)
            && it.incumbent.as_ref() == Some(incumbent)
    };
    let mut scales = entries.iter().filter(is_theirs);
    scales.find_map(|it| it.figures.get(SCALE).copied())
}

/// Whether everybody may see the scores of the confirmation split: an attempt at a promotion has
/// nominated a candidate and seen them.
pub fn is_confirmation_open(entries: &[Entry]) -> bool {
    entries
        .iter()
        .any(|it| it.kind == Kind::Attempt && it.has_seen_confirmation())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, at: &str, kind: Kind, split: Option<Split>) -> Entry {
        Entry {
            id: id.to_owned(),
            number: 0,
            at: at.to_owned(),
            by: "ana".to_owned(),
            kind,
            via: Via::Command,
            split,
            candidate: None,
            incumbent: None,
            outcome: None,
            figures: BTreeMap::from([("confirmation".to_owned(), 0.25)]),
        }
    }

    #[test]
    fn entries_are_read_back_in_the_order_of_time() {
        let late = entry("a", "2026-02-01T00:00:00Z", Kind::Look, None);
        let early = entry("b", "2026-01-01T00:00:00Z", Kind::Attempt, None);
        let tags = [late.tag(), early.tag()];
        assert!(tags[0].0 == "assize.ledger.a" && !tags[0].1.contains("number"));
        let other = ("mlflow.note", "{");
        let all = tags.iter().map(|(key, value)| (&**key, &**value));
        let read = from_tags(all.chain([other])).unwrap();
        let expected = [(early, 1), (late, 2)].map(|(entry, number)| Entry { number, ..entry });
        assert_eq!(read, expected);
        let wrong = from_tags([("assize.ledger.c", &*tags[0].1)]).unwrap_err();
        assert_eq!(wrong.reason, "it holds the entry 'a'");
        assert!(from_tags([("assize.ledger.c", "{}")]).is_err());
    }

    #[test]
    fn only_what_saw_the_confirmation_is_counted() {
        let seen = Some(Split::Confirmation);
        let at = "2026-01-01T00:00:00Z";
        let mut entries = vec![entry("a", at, Kind::Attempt, None)];
        assert_eq!(ConfirmationUse::of(&entries), None);
        let words = |entries: &[Entry]| ConfirmationUse::of(entries).unwrap().to_string();
        entries.push(entry("b", at, Kind::Look, seen));
        assert_eq!(words(&entries), "looked at 1 time");
        assert!(!is_confirmation_open(&entries));
        entries.push(entry("c", at, Kind::Look, seen));
        entries.push(entry("d", at, Kind::Attempt, seen));
        assert_eq!(words(&entries), "looked at 2 times, 1 attempt");
        assert_eq!(words(&entries[3..]), "1 attempt");
        assert!(is_confirmation_open(&entries));
    }

    #[test]
    fn the_first_scale_of_two_pairs_stays() {
        let pair = |prompt: &str| Pair {
            model: "m".to_owned(),
            prompt: prompt.to_owned(),
        };
        let (new, old) = (pair("new"), pair("old"));
        let seen = Some(Split::Confirmation);
        let attempt = |id: &str, candidate: &Pair, split, scale: f64| Entry {
            candidate: Some(candidate.clone()),
            incumbent: Some(old.clone()),
            figures: BTreeMap::from([(SCALE.to_owned(), scale)]),
            ..entry(id, "2026-01-01T00:00:00Z", Kind::Attempt, split)
        };
        let entries = [
            attempt("a", &pair("other"), seen, 1.0),
            attempt("b", &new, None, 2.0),
            attempt("c", &new, seen, 3.0),
            attempt("d", &new, seen, 4.0),
        ];
        assert_eq!(first_scale(&entries, &new, &old), Some(3.0));
        assert_eq!(first_scale(&entries, &old, &new), None);
    }
}
