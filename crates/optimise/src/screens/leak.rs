//! Finds text of scenarios, references and anchors in a prompt.
//!
//! A prompt that quotes the scenarios it was written from does well on them and on nothing else. Texts
//! are compared as runs of five words, in lower case and without punctuation; in scripts without
//! spaces between words, as runs of ten characters. Runs that the seed, the output contract or the
//! rubric hold are no leak: they were known before.
//!
//! A prompt is searched as it is written, without its comments, and filled in with empty fields, so that
//! neither comments nor tags can divide a run. Invisible characters count as if they were not there.

use std::collections::HashSet;

use assize_domain::fence::is_invisible;
use assize_domain::prompt::{Prompt, Renderer};
use assize_domain::scenario::Scenario;
use assize_domain::template::literal_text;
use serde_json::Value;

use super::Material;

/// Words in a run.
pub const RUN: usize = 5;
/// Characters in a run of a script without spaces.
const CHARACTERS: usize = 10;

/// The runs that no child may hold.
#[derive(Debug)]
pub struct LeakIndex {
    forbidden: HashSet<String>,
    /// The scenarios with empty fields, each different one once.
    blank: Vec<Scenario>,
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
        let blank = blank(material.scenarios);
        let known = [material.output_contract, material.rubric].map(str::to_owned);
        for text in texts(material.seed, &blank).into_iter().chain(known) {
            for run in runs(&text) {
                forbidden.remove(&run);
            }
        }
        Self { forbidden, blank }
    }

    /// The forbidden runs that a prompt holds, in its order and each once.
    pub fn shared_with(&self, prompt: &Prompt) -> Vec<String> {
        let mut found = Vec::new();
        for run in texts(prompt, &self.blank).iter().flat_map(|it| runs(it)) {
            if self.forbidden.contains(&run) && !found.contains(&run) {
                found.push(run);
            }
        }
        found
    }
}

/// The texts in which a prompt can hold a run.
fn texts(prompt: &Prompt, blank: &[Scenario]) -> Vec<String> {
    let parts = prompt.system.iter().chain([&prompt.body]);
    let mut texts: Vec<String> = parts
        .flat_map(|it| [it.clone(), literal_text(it)])
        .collect();
    if let Ok(renderer) = Renderer::new(prompt) {
        let rendered = blank.iter().filter_map(|it| renderer.render(it, "").ok());
        texts.extend(rendered.map(|it| it.as_text()));
    }
    texts
}

/// The scenarios without the texts in their fields.
fn blank(scenarios: &[Scenario]) -> Vec<Scenario> {
    let mut blank: Vec<Scenario> = Vec::new();
    for scenario in scenarios {
        let mut empty = scenario.clone();
        empty.fields.values_mut().for_each(clear);
        if !blank.iter().any(|it| it.fields == empty.fields) {
            blank.push(empty);
        }
    }
    blank
}

fn clear(value: &mut Value) {
    match value {
        Value::String(text) => text.clear(),
        Value::Array(items) => items.iter_mut().for_each(clear),
        Value::Object(map) => map.values_mut().for_each(clear),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
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
    let seen = |c: &char| !is_invisible(*c) && !is_joiner(*c);
    let lower: String = text.to_lowercase().chars().filter(seen).collect();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|it| !it.is_empty())
        .collect();
    let characters: Vec<char> = lower.chars().filter(|it| is_unspaced(*it)).collect();
    let words = words.windows(RUN).map(|it| it.join(" "));
    let characters = characters.windows(CHARACTERS);
    words
        .chain(characters.map(|it| it.iter().collect()))
        .collect()
}

/// Scripts and emoji need these, but words are the same without them.
const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// Letters of scripts that put no spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, Japanese, Chinese.
const fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0fff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9d}'
        | '\u{20000}'..='\u{3ffff}')
}
