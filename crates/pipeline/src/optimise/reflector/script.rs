//! A scripted reflector: answers that are written down, or children by rules.
//!
//! The file is JSON or TOML (by its ending). `rounds` has the children of each round as a reflector
//! would return them, or a text that is the whole answer. Later rounds, and files without `rounds`, use
//! `rules`: as many rules as children are asked for are drawn without repetition, by weight, from those
//! that apply to the packet, and each makes one child. Draws depend on the file's seed, the loop's seed
//! and the packet's id, and on nothing else. docs/scripted.md describes the file.

use std::path::Path;

use assize_domain::hash::sha256_fields;
use assize_optimise::Packet;
use assize_stats::rng::SplitMix64;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Reflection;
use crate::{PipelineError, Result};
use rules::{Made, Rule};

mod rules;

/// A script, as its file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    rounds: Vec<Round>,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list of children, or a text that is the whole answer"
)]
enum Round {
    Children(Vec<serde_json::Map<String, Value>>),
    Text(String),
}

/// Reads and checks a script.
pub fn read(path: &Path) -> Result<Script> {
    let wrong = |reason: String| PipelineError::File {
        path: path.display().to_string(),
        reason,
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong(format!("the reflector's script cannot be read: {error}")))?;
    let invalid = |reason: &dyn std::fmt::Display| {
        PipelineError::Invalid(format!(
            "{} is not a reflector's script: {}",
            path.display(),
            reason.to_string().trim()
        ))
    };
    let is_toml = path.extension().is_some_and(|it| it == "toml");
    let script: Script = if is_toml {
        toml::from_str(&text).map_err(|error| invalid(&error))?
    } else {
        serde_json::from_str(&text).map_err(|error| invalid(&error))?
    };
    if script.rounds.is_empty() && script.rules.is_empty() {
        return Err(invalid(&"it has neither rounds nor rules"));
    }
    for (position, rule) in script.rules.iter().enumerate() {
        rule.check()
            .map_err(|reason| invalid(&format!("rules[{position}]: {reason}")))?;
    }
    Ok(script)
}

/// Answers a packet.
pub fn ask(path: &Path, packet: &Packet, seed: u64) -> Result<Reflection> {
    let script = read(path)?;
    Ok(Reflection::of(&script.answer(packet, seed), packet, 0.0))
}

impl Script {
    fn answer(&self, packet: &Packet, seed: u64) -> String {
        let place = usize::try_from(packet.round).unwrap_or(usize::MAX);
        match place
            .checked_sub(1)
            .and_then(|place| self.rounds.get(place))
        {
            Some(Round::Text(text)) => text.clone(),
            Some(Round::Children(children)) => json!({ "children": children }).to_string(),
            None => self.by_rules(packet, seed),
        }
    }

    fn by_rules(&self, packet: &Packet, seed: u64) -> String {
        let mut draws = self.draws(packet, seed);
        let mut open: Vec<&Rule> = self.rules.iter().filter(|it| it.applies(packet)).collect();
        let mut children = Vec::new();
        for _ in 0..packet.children {
            let Some(place) = draw_by_weight(&open, &mut draws) else {
                break;
            };
            match open.remove(place).make(packet, &mut draws) {
                Made::Child(child) => children.push(child),
                Made::Nothing => {}
                Made::Malformed(text) => return text,
            }
        }
        json!({ "children": children }).to_string()
    }

    fn draws(&self, packet: &Packet, seed: u64) -> SplitMix64 {
        let digest = sha256_fields(&[
            ("script", &self.seed.to_string()),
            ("loop", &seed.to_string()),
            ("packet", &packet.id),
        ]);
        SplitMix64::new(u64::from_str_radix(&digest[..16], 16).unwrap_or(0))
    }
}

fn draw_by_weight(rules: &[&Rule], draws: &mut SplitMix64) -> Option<usize> {
    let total: f64 = rules.iter().map(|it| it.weight()).sum();
    let mut left = draws.next_f64() * total;
    let place = rules.iter().position(|rule| {
        left -= rule.weight();
        left < 0.0
    });
    // Rounding may leave a rest after the last rule.
    place.or_else(|| rules.len().checked_sub(1))
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::super::{Reflection, Reflector};
    use super::*;

    fn answer(name: &str, text: &str, packet: &Packet) -> Reflection {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a script");
        ask(&path, packet, 42).expect("a sound script")
    }

    fn by_rules(rules: &str) -> Reflection {
        answer("script.json", &format!("{{\"rules\":{rules}}}"), &packet())
    }

    #[test]
    fn rounds_are_answered_as_they_are_written() {
        let script = r#"{"rounds":[
            [{"prompt":"One {{ persona }}","hypothesis":"first"},
             {"template":"Two {{ persona }}","hypothesis":"second","kind":"restart","system":null}],
            "no JSON at all",
            []]}"#;
        let mut packet = packet();
        let first = answer("script.json", script, &packet);
        let texts: Vec<&str> = first
            .children
            .iter()
            .map(|it| it.template.as_str())
            .collect();
        assert_eq!(texts, ["One {{ persona }}", "Two {{ persona }}"]);
        assert_eq!(first.children[0].system.as_deref(), Some("Be brief."));
        assert_eq!(first.children[1].system, None);
        for (round, part) in [
            (2, "JSON object"),
            (3, "children is empty"),
            (4, "children is empty"),
        ] {
            packet.round = round;
            let problem = answer("script.json", script, &packet)
                .problem
                .expect("a problem");
            assert!(problem.contains(part), "{round}: {problem}");
        }
    }

    #[test]
    fn draws_follow_seed_and_packet() {
        let rules: Vec<String> = (0..20)
            .map(|n| format!("[[rules]]\nrule = \"neutral\"\ntext = \"Sentence {n}.\"\n"))
            .collect();
        let script = rules.concat();
        let texts = |seed: u64, id: &str| -> Vec<String> {
            let mut packet = packet();
            id.clone_into(&mut packet.id);
            let script = format!("seed = {seed}\n{script}");
            let reflection = answer("script.toml", &script, &packet);
            reflection
                .children
                .into_iter()
                .map(|it| it.template)
                .collect()
        };
        let first = texts(1, "p1");
        assert_eq!(first.len(), 4);
        assert_eq!(first, texts(1, "p1"));
        assert_ne!(first, texts(2, "p1"));
        assert_ne!(first, texts(1, "p2"));
        let different: std::collections::BTreeSet<&String> = first.iter().collect();
        assert_eq!(different.len(), 4, "a rule is used once");
    }

    #[test]
    fn a_rule_without_weight_is_never_drawn_before_the_others() {
        let reflection = by_rules(
            r#"[{"rule":"malformed","weight":0},
                {"rule":"neutral","text":"First."},{"rule":"neutral","text":"Second."},
                {"rule":"neutral","text":"Third."},{"rule":"neutral","text":"Fourth."}]"#,
        );
        assert_eq!(reflection.children.len(), 4);
    }

    #[test]
    fn malformed_and_silent_answers_are_problems() {
        let malformed = by_rules(r#"[{"rule":"malformed"}]"#);
        assert!(
            malformed
                .problem
                .is_some_and(|it| it.contains("JSON object"))
        );
        let silent = by_rules(r#"[{"rule":"silent"}]"#);
        assert!(
            silent
                .problem
                .is_some_and(|it| it.contains("children is empty"))
        );
        let one = by_rules(r#"[{"rule":"silent"},{"rule":"neutral"}]"#);
        assert_eq!(one.children.len(), 1);
    }

    #[test]
    fn mistakes_in_the_file_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text, part) in [
            ("a.json", "{}", "neither rounds nor rules"),
            (
                "b.json",
                r#"{"rules":[{"rule":"fixing"}]}"#,
                "rules[0]: a fixing rule needs text",
            ),
            ("c.json", r#"{"rules":[{"rule":"mending"}]}"#, "mending"),
            (
                "d.json",
                r#"{"rules":[{"rule":"silent","weight":-1}]}"#,
                "weight is -1",
            ),
            ("e.toml", "rounds = 3", "rounds"),
            ("f.json", r#"{"round":[]}"#, "round"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a script");
            let spec = format!("script:{}", path.display());
            let checked = Reflector::parse(&spec).and_then(|it| it.check(false));
            let error = checked.expect_err("wrong").to_string();
            assert!(
                error.contains(part) && error.contains(name),
                "{name}: {error}"
            );
        }
        let missing = Reflector::parse("script:nowhere.json").expect("a path");
        assert!(missing.check(false).is_err());
    }
}
