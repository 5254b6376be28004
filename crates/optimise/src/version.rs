//! One version of the prompt: its text, identified by its content.

use std::collections::BTreeSet;

use assize_domain::chat::is_chat;
use assize_domain::problem::Problem;
use assize_domain::prompt::{Prompt, content_sha256};
use serde::{Deserialize, Serialize};

/// A prompt's text as a loop records it. It may be invalid: a screen rejects it then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The name under which it is collected: `v2-mentor`, `v2-mentor.r1c2`.
    pub name: String,
    pub system: Option<String>,
    pub body: String,
    /// That of [`Prompt`]: the same text has the same hash.
    pub sha256: String,
}

impl Version {
    /// A version with this text, without white space at the ends of its parts.
    pub fn new(name: &str, system: Option<&str>, body: &str) -> Self {
        let system = system.map(|it| it.trim().to_owned());
        let body = body.trim().to_owned();
        Self {
            name: name.to_owned(),
            sha256: content_sha256(system.as_deref(), &body),
            system,
            body,
        }
    }

    /// The prompt that is rendered and collected; `known` are the variables that scenarios offer.
    pub fn to_prompt(
        &self,
        description: &str,
        known: Option<&BTreeSet<String>>,
    ) -> Result<Prompt, Vec<Problem>> {
        Prompt::from_parts(
            &self.name,
            description,
            self.system.as_deref(),
            &self.body,
            known,
        )
    }

    /// Both parts, as people read them and as versions are compared line by line.
    pub fn as_text(&self) -> String {
        match &self.system {
            Some(system) if is_chat(&self.body) => {
                format!("[system]\n{system}\n\n{}\n", self.body)
            }
            Some(system) => format!("[system]\n{system}\n\n[user]\n{}\n", self.body),
            None => format!("{}\n", self.body),
        }
    }
}

impl From<&Prompt> for Version {
    fn from(prompt: &Prompt) -> Self {
        Self {
            name: prompt.name.clone(),
            system: prompt.system.clone(),
            body: prompt.body.clone(),
            sha256: prompt.sha256.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_the_hash_of_its_prompt() {
        let version = Version::new("v1", Some(" Be brief. "), "Hi {{ persona }}\n");
        let prompt = version.to_prompt("why", None).expect("sound");
        assert_eq!(prompt.sha256, version.sha256);
        assert_eq!(Version::from(&prompt), version);
    }
}
