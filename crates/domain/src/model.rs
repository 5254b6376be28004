//! Model ids: which provider runs a model, and under which name.
//!
//! A bare tag (`qwen2.5:0.5b`) is an Ollama tag, and so is `ollama:TAG`; `embedded:NAME`,
//! `openai:NAME`, `anthropic:NAME`, `gemini:NAME`, `command:NAME` and `scripted:NAME` name the other
//! providers. Tags contain colons themselves, so only the known prefixes count as one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The provider of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProviderKind {
    Ollama,
    Embedded,
    OpenAi,
    Scripted,
    Anthropic,
    Gemini,
    Command,
}

impl ProviderKind {
    pub const ALL: [Self; 7] = [
        Self::Ollama,
        Self::Embedded,
        Self::OpenAi,
        Self::Scripted,
        Self::Anthropic,
        Self::Gemini,
        Self::Command,
    ];

    /// The prefix that names this provider in a model id.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Ollama => "ollama",
            Self::Embedded => "embedded",
            Self::OpenAi => "openai",
            Self::Scripted => "scripted",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Command => "command",
        }
    }
}

/// A provider-qualified model id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ModelId {
    pub provider: ProviderKind,
    pub name: String,
}

/// A string that names no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a model id: write an Ollama tag (qwen2.5:0.5b), embedded:NAME, openai:NAME, \
     anthropic:NAME, gemini:NAME, command:NAME or scripted:NAME, without spaces"
)]
pub struct BadModelId(pub String);

impl FromStr for ModelId {
    type Err = BadModelId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (provider, name) = ProviderKind::ALL
            .into_iter()
            .find_map(|kind| {
                let rest = text.strip_prefix(kind.prefix())?.strip_prefix(':')?;
                Some((kind, rest))
            })
            .unwrap_or((ProviderKind::Ollama, text));
        let legal = |c: char| !c.is_whitespace() && !c.is_control() && c != ',';
        if name.is_empty() || !name.chars().all(legal) {
            return Err(BadModelId(text.to_owned()));
        }
        Ok(Self {
            provider,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.provider {
            ProviderKind::Ollama => f.write_str(&self.name),
            other => write!(f, "{}:{}", other.prefix(), self.name),
        }
    }
}

impl From<ModelId> for String {
    fn from(id: ModelId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for ModelId {
    type Error = BadModelId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_parse_and_print_the_same() {
        for (text, provider, name, shown) in [
            (
                "qwen2.5:0.5b",
                ProviderKind::Ollama,
                "qwen2.5:0.5b",
                "qwen2.5:0.5b",
            ),
            (
                "ollama:gemma3:1b",
                ProviderKind::Ollama,
                "gemma3:1b",
                "gemma3:1b",
            ),
            (
                "embedded:smollm2-135m",
                ProviderKind::Embedded,
                "smollm2-135m",
                "embedded:smollm2-135m",
            ),
            (
                "openai:gpt-x",
                ProviderKind::OpenAi,
                "gpt-x",
                "openai:gpt-x",
            ),
            (
                "scripted:good",
                ProviderKind::Scripted,
                "good",
                "scripted:good",
            ),
        ] {
            let id: ModelId = text.parse().expect(text);
            assert_eq!((id.provider, id.name.as_str()), (provider, name));
            assert_eq!(id.to_string(), shown);
        }
    }

    #[test]
    fn nothing_and_spaces_are_refused() {
        for text in ["", "  ", "openai:", "two words", "a,b"] {
            assert!(text.parse::<ModelId>().is_err(), "{text:?}");
        }
    }
}
