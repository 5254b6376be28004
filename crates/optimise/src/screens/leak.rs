//! Finds text of scenarios, references and anchors in a prompt.
//!
//! A prompt that quotes the scenarios it was written from does well on them and on nothing else. Texts
//! are compared as runs of five words, in lower case and without punctuation. Runs that the seed, the
//! output contract or the rubric hold are no leak: they were known before. Of scripts without spaces,
//! what stands between two punctuation marks counts as one word.

use std::collections::HashSet;

use serde_json::Value;

use super::Material;

/// Words in a run.
pub const RUN: usize = 5;

/// The runs of five words that no child may hold.
#[derive(Debug)]
pub struct LeakIndex {
    forbidden: HashSet<String>,
}

impl LeakIndex {
    pub fn new(material: &Material<'_>) -> Self {
        let mut forbidden = HashSet::new();
        for scenario in material.scenarios {
            for value in scenario.fields.values() {
                add_value(value, &mut forbidden);
            }
            forbidden.extend(scenario.reference.iter().flat_map(|it| runs(it)));
        }
        for anchor in material.anchors {
            add_value(&anchor.context, &mut forbidden);
            forbidden.extend(runs(&anchor.candidate));
        }
        let seed = material.seed;
        let known = seed
            .system
            .iter()
            .map(String::as_str)
            .chain([
                seed.body.as_str(),
                material.output_contract,
                material.rubric,
            ])
            .flat_map(runs);
        for run in known {
            forbidden.remove(&run);
        }
        Self { forbidden }
    }

    /// The forbidden runs that a text holds, in its order and each once.
    pub fn shared_with(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for run in runs(text) {
            if self.forbidden.contains(&run) && !found.contains(&run) {
                found.push(run);
            }
        }
        found
    }
}

fn add_value(value: &Value, runs_of: &mut HashSet<String>) {
    match value {
        Value::String(text) => runs_of.extend(runs(text)),
        Value::Array(items) => items.iter().for_each(|it| add_value(it, runs_of)),
        Value::Object(map) => map.values().for_each(|it| add_value(it, runs_of)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn runs(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|it| !it.is_empty())
        .collect();
    words.windows(RUN).map(|it| it.join(" ")).collect()
}
