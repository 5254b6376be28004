//! Judges: their kinds and the two tiers they belong to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The expert tier scores on demand and well, the automatic tier at once and cheaply.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// An agent session or a person.
    Expert,
    /// A cheap model.
    Auto,
}

/// The kinds of judge that are people or agent sessions; every other kind is automatic.
pub const EXPERT_KINDS: [&str; 8] = [
    "human",
    "agent",
    "claude-code",
    "codex",
    "gemini-cli",
    "opencode",
    "cursor",
    "copilot",
];

/// The kind of verdicts that rules gave. It counts in both tiers, because there is nobody whose
/// judgement could differ.
pub const COMPUTED: &str = "computed";

impl Tier {
    pub const ALL: [Self; 2] = [Self::Expert, Self::Auto];

    /// The tier that a kind of judge belongs to.
    pub fn of_kind(kind: &str) -> Self {
        if EXPERT_KINDS.contains(&kind) {
            Self::Expert
        } else {
            Self::Auto
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expert => "expert",
            Self::Auto => "auto",
        }
    }

    /// The tag that is `true` until this tier has judged the whole run.
    pub const fn pending_tag(self) -> &'static str {
        match self {
            Self::Expert => crate::run::tag::JUDGE_PENDING,
            Self::Auto => crate::run::tag::AUTO_PENDING,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|tier| tier.as_str() == text);
        known.ok_or_else(|| format!("'{text}' is not a tier: use expert or auto"))
    }
}

/// A judge, as verdicts name it. Two versions of a judge are two judges: each has its own drift
/// chart, and their scores are not assumed to be on one scale.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Judge<T = String> {
    pub kind: T,
    pub name: T,
    /// The digest of a judging model, or an agent's program with its version. People have none,
    /// and neither have verdicts of before versions were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<T>,
}

impl<T: AsRef<str>> Judge<T> {
    pub fn tier(&self) -> Tier {
        Tier::of_kind(self.kind.as_ref())
    }

    /// Whether kind and name are the same, regardless of the version.
    pub fn is_namesake<U: AsRef<str>>(&self, other: &Judge<U>) -> bool {
        self.kind.as_ref() == other.kind.as_ref() && self.name.as_ref() == other.name.as_ref()
    }
}

/// The longest version, in characters.
const LONGEST_VERSION: usize = 100;

/// What a program says about its version, made fit for tags and terminals: one line without
/// control characters, of limited length. `None` where nothing remains.
pub fn clean_version(text: &str) -> Option<String> {
    let printable = |c: &char| !c.is_control();
    let words: Vec<&str> = text.split_whitespace().collect();
    let joined = words.join(" ");
    let line: String = joined
        .chars()
        .filter(printable)
        .take(LONGEST_VERSION)
        .collect();
    Some(line.trim().to_owned()).filter(|line| !line.is_empty())
}

/// Whether a text can be a judge's kind: it becomes a tag that people filter by.
pub fn is_kind(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.:/@".contains(c))
}

/// Whether a text can be a judge's name: it is shown on terminals.
pub fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= 200 && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_agents_are_experts() {
        assert_eq!(Tier::of_kind("human"), Tier::Expert);
        assert_eq!(Tier::of_kind("claude-code"), Tier::Expert);
        assert_eq!(Tier::of_kind("haiku"), Tier::Auto);
        assert_eq!(Tier::of_kind("embedded:smollm2-135m"), Tier::Auto);
    }

    #[test]
    fn a_version_is_written_only_where_there_is_one() {
        let mut judge = Judge {
            kind: "codex".to_owned(),
            name: "nightly".to_owned(),
            version: None,
        };
        let text = serde_json::to_string(&judge).unwrap();
        assert_eq!(text, r#"{"kind":"codex","name":"nightly"}"#);
        assert_eq!(serde_json::from_str::<Judge>(&text).unwrap(), judge);
        let older = judge.clone();
        judge.version = Some("codex 0.46".to_owned());
        let text = serde_json::to_string(&judge).unwrap();
        assert_eq!(serde_json::from_str::<Judge>(&text).unwrap(), judge);
        assert!(judge != older && judge.is_namesake(&older));
    }

    #[test]
    fn a_version_is_one_short_line() {
        assert_eq!(
            clean_version(" codex\n 0.46\x1b[2J "),
            Some("codex 0.46[2J".to_owned())
        );
        assert_eq!(clean_version(" \n\t"), None);
        let long = clean_version(&"v".repeat(5000)).unwrap();
        assert_eq!(long.len(), LONGEST_VERSION);
    }
}
