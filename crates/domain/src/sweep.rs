//! Sweeps: settings that are part of a pair, so that "which settings" is answered like "which
//! prompt".
//!
//! `--sweep temperature=0.2,0.7` collects every (model, prompt) with both values; several sweeps
//! form the product. A pair with swept settings is named by its prompt's **label**,
//! `v1+temperature=0.2`; a prompt's own name cannot have a `+`. Commands, boards and the promotion
//! gate use the label as they use a prompt's name; JSON has the name in `prompt` and the settings in
//! `settings` ([`label_json`]).
//!
//! A run records all settings that shape its output in the tag `settings`, in words
//! ([`SettingsWords`]), and which of them were swept. What was swept by any run of an experiment
//! tells all its runs apart, so a cell that was collected before the sweep is the cell of its value.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::options::{Identity, OPTIONS, Options};

/// The setting that names a system message of the task.
pub const SYSTEM: &str = "system";
/// The value of [`SYSTEM`] that keeps the prompt's own system message.
pub const OWN_SYSTEM: &str = "own";
/// The value of [`SYSTEM`] that leaves the system message out.
pub const NO_SYSTEM: &str = "none";
/// The option that holds what is sent to the model as it is.
const MODEL_OPTIONS: &str = "model_options";
/// The pairs of a grid are compared all at once, which needs some restraint.
const MOST_VARIANTS: usize = 64;
/// Fields of requests that are not options of a model.
const RESERVED: [&str; 6] = ["model", "messages", "stream", "tools", "format", "options"];
/// Options that can be swept; every other name is an option of the model.
const SWEEPABLE: [&str; 2] = ["temperature", "max_tokens"];

/// Swept settings: values as texts, by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// `v1+max_tokens=64+temperature=0.2`
    pub fn label(&self, prompt: &str) -> String {
        let mut label = prompt.to_owned();
        for (key, value) in &self.0 {
            label.push_str(&format!("+{key}={value}"));
        }
        label
    }

    /// Numbers and switches as such, everything else as a text.
    pub fn to_json(&self) -> Map<String, Value> {
        let values = self.iter();
        values
            .map(|(key, text)| (key.to_owned(), value_of(text)))
            .collect()
    }

    /// The options with these settings.
    #[must_use]
    pub fn applied(&self, options: &Options) -> Options {
        let mut options = options.clone();
        for (key, value) in self.iter() {
            match key {
                "temperature" => options.temperature = value.parse().unwrap_or_default(),
                "max_tokens" => options.max_tokens = value.parse().unwrap_or_default(),
                SYSTEM => {}
                _ => {
                    let is_other = |it: &String| option_key(it) != key;
                    options.model_options.retain(is_other);
                    options.model_options.push(format!("{key}={value}"));
                    options.model_options.sort();
                }
            }
        }
        options
    }
}

impl FromIterator<(String, String)> for Settings {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

fn option_key(text: &str) -> &str {
    text.split_once('=').map_or(text, |(key, _)| key)
}

/// A scalar as JSON has it.
pub fn value_of(text: &str) -> Value {
    let parsed = serde_json::from_str(text).ok();
    parsed
        .filter(|it: &Value| it.is_number() || it.is_boolean())
        .unwrap_or_else(|| Value::from(text))
}

/// The name of a prompt and the swept settings in a label.
pub fn split_label(label: &str) -> (&str, Settings) {
    let Some((prompt, rest)) = label.split_once('+') else {
        return (label, Settings::default());
    };
    let parts = rest.split('+').map(|part| part.split_once('='));
    let parts: Option<BTreeMap<String, String>> = parts
        .map(|part| part.map(|(key, value)| (key.to_owned(), value.to_owned())))
        .collect();
    // Tools of others may name prompts as they like.
    parts.map_or((label, Settings::default()), |it| (prompt, Settings(it)))
}

/// The settings of every variant that these sweeps make, the first values first; one without
/// settings where there is no sweep. A part without `=` is one more value of the sweep before it, so
/// that lists which were split at commas mean the same.
pub fn variants(sweeps: &[String]) -> Result<Vec<Settings>, String> {
    let mut axes: Vec<(String, Vec<String>)> = Vec::new();
    for part in sweeps.iter().flat_map(|it| it.split(',')).map(str::trim) {
        if part.is_empty() {
            continue;
        }
        let value = match part.split_once('=') {
            Some((key, value)) => {
                let key = key.trim();
                check_key(key)?;
                if axes.iter().any(|(known, _)| known == key) {
                    return Err(format!(
                        "names {key} twice: give all its values at once, as in {key}=A,B"
                    ));
                }
                axes.push((key.to_owned(), Vec::new()));
                value.trim()
            }
            None => part,
        };
        let Some((key, values)) = axes.last_mut() else {
            return Err(format!(
                "has '{part}': write NAME=VALUE,VALUE, for example temperature=0.2,0.7"
            ));
        };
        let value = checked(key, value)?;
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let mut variants = vec![Settings::default()];
    for (key, values) in &axes {
        let with = |it: &Settings, value: &String| {
            let mut it = it.clone();
            it.0.insert(key.clone(), value.clone());
            it
        };
        variants = variants
            .iter()
            .flat_map(|it| values.iter().map(move |value| with(it, value)))
            .collect();
        if variants.len() > MOST_VARIANTS {
            return Err(format!(
                "makes more than {MOST_VARIANTS} variants of every prompt: sweep fewer values"
            ));
        }
    }
    Ok(variants)
}

/// What is wrong with a list of `NAME=VALUE` for the model.
pub fn model_options_problem(options: &[String]) -> Option<String> {
    options.iter().find_map(|it| {
        let Some((key, value)) = it.split_once('=') else {
            return Some(format!(
                "has '{it}': write NAME=VALUE, for example top_k=20"
            ));
        };
        if is_option(key) || key == SYSTEM {
            return Some(format!("has '{key}', which is an option of its own"));
        }
        check_key(key).and_then(|()| checked(key, value)).err()
    })
}

fn is_option(key: &str) -> bool {
    OPTIONS.iter().any(|it| it.key == key)
}

fn check_key(key: &str) -> Result<(), String> {
    let is_name = |it: &str| {
        let mut characters = it.chars();
        characters.next().is_some_and(|it| it.is_ascii_lowercase())
            && characters.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_')
    };
    if !is_name(key) {
        return Err(format!(
            "has the name '{key}': use temperature, max_tokens, system, or an option of the model such as top_k"
        ));
    }
    if RESERVED.contains(&key) {
        return Err(format!("names {key}, which is not an option of a model"));
    }
    if is_option(key) && !SWEEPABLE.contains(&key) {
        return Err(format!(
            "names {key}, which cannot be swept: use temperature, max_tokens, system, or an option of the model \
             such as top_k"
        ));
    }
    Ok(())
}

/// A value as keys, labels and runs have it.
fn checked(key: &str, text: &str) -> Result<String, String> {
    let problem = |it: String| format!("has {key}={text}: {it}");
    if SWEEPABLE.contains(&key) {
        let range = OPTIONS
            .iter()
            .find(|it| it.key == key)
            .and_then(|it| it.range);
        let number: f64 = text
            .parse()
            .map_err(|_| problem("that is not a number".to_owned()))?;
        if let Some(wrong) = range.and_then(|it| it.problem(number)) {
            return Err(problem(wrong));
        }
        if key == "max_tokens" {
            let whole: Result<u32, _> = text.parse();
            return whole
                .map(|it| it.to_string())
                .map_err(|_| problem("use a whole number".to_owned()));
        }
        return Ok(number.to_string());
    }
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    if text.is_empty() || !text.chars().all(is_plain) {
        return Err(problem(
            "a value may have letters, digits, . _ and - only".to_owned(),
        ));
    }
    // As it is read back from JSON.
    Ok(match value_of(text) {
        Value::Number(number) => number.to_string(),
        _ => text.to_owned(),
    })
}

/// Between the words of two settings.
const BETWEEN: &str = ", ";
/// Before the names of what was swept.
const SWEPT: &str = "swept ";

/// The tag `settings` of a run, in its parts: `temperature 0.2, max_tokens 128, swept temperature`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SettingsWords<'a> {
    values: Vec<(&'a str, &'a str)>,
    pub swept: Vec<&'a str>,
}

/// The words for a run's options and swept settings.
pub fn settings_words(options: &Options, swept: &Settings) -> String {
    let (always, changed) = options.identity();
    let words = always.into_iter().chain(changed);
    let mut words: Vec<String> = words.map(|(key, text)| format!("{key} {text}")).collect();
    if let Some(system) = swept.get(SYSTEM) {
        words.push(format!("{SYSTEM} {system}"));
    }
    if !swept.is_empty() {
        let keys: Vec<&str> = swept.keys().collect();
        words.push(format!("{SWEPT}{}", keys.join(" ")));
    }
    words.join(BETWEEN)
}

/// The label of a run's prompt, by its tag `settings`.
pub fn label_of(prompt: &str, words: &str) -> String {
    SettingsWords::parse(words).own().label(prompt)
}

impl<'a> SettingsWords<'a> {
    pub fn parse(text: &'a str) -> Self {
        let mut words = Self::default();
        for part in text.split(BETWEEN) {
            if let Some(keys) = part.strip_prefix(SWEPT) {
                words.swept = keys.split(' ').collect();
            } else if let Some((key, value)) = part.split_once(' ') {
                words.values.push((key, value));
            } else if !part.is_empty() {
                words.values.push((part, ""));
            }
        }
        words
    }

    /// The value of a setting; `None` where the run left it to the model.
    fn get(&self, key: &str) -> Option<&'a str> {
        let value = |wanted: &str| {
            let found = self.values.iter().find(|(key, _)| *key == wanted);
            found.map(|(_, value)| *value)
        };
        value(key).or_else(|| {
            let options = value(MODEL_OPTIONS)?.split(',');
            let mut options = options.filter_map(|it| it.split_once('='));
            options.find(|it| it.0 == key).map(|it| it.1)
        })
    }

    /// The values of some settings. A run that was collected without a sweep of `system` has the
    /// prompt's own.
    pub fn of(&self, keys: &BTreeSet<String>) -> Settings {
        let value = |key: &str| match self.get(key) {
            None if key == SYSTEM => Some(OWN_SYSTEM),
            found => found,
        };
        let found = keys.iter().filter_map(|key| Some((key, value(key)?)));
        found
            .map(|(key, value)| (key.clone(), value.to_owned()))
            .collect()
    }

    /// The values of what this run's collection swept.
    pub fn own(&self) -> Settings {
        self.of(&self.swept.iter().map(|it| (*it).to_owned()).collect())
    }

    /// Whether the run has these settings.
    pub fn has(&self, settings: &Settings) -> bool {
        let keys = settings.keys().map(str::to_owned).collect();
        self.of(&keys) == *settings
    }

    /// The words of the other settings.
    pub fn without(&self, keys: &BTreeSet<String>) -> String {
        let mut words = Vec::new();
        for (key, value) in &self.values {
            if *key == MODEL_OPTIONS {
                let rest = value.split(',').filter(|it| !keys.contains(option_key(it)));
                let rest: Vec<&str> = rest.collect();
                if !rest.is_empty() {
                    words.push(format!("{key} {}", rest.join(",")));
                }
            } else if !keys.contains(*key) {
                words.push(format!("{key} {value}").trim_end().to_owned());
            }
        }
        words.join(BETWEEN)
    }
}

/// The options among a run's params that change what is generated, each by its name.
pub fn settings_of(params: &[(String, String)]) -> BTreeMap<String, Value> {
    let changes_output = |key: &str| {
        let mut options = OPTIONS.iter().filter(|it| it.key == key);
        options.any(|it| matches!(it.identity, Identity::Always | Identity::WhereChanged))
    };
    let own = params.iter().filter(|(key, _)| changes_output(key));
    let mut settings = BTreeMap::new();
    for (key, text) in own {
        if key == MODEL_OPTIONS {
            let options = text.split(',').filter_map(|it| it.split_once('='));
            settings.extend(options.map(|(key, value)| (key.to_owned(), value_of(value))));
        } else {
            settings.insert(key.clone(), value_of(text));
        }
    }
    settings
}

/// A prompt's label as JSON has it: the fields `prompt` and `settings` of the object around it. For
/// `#[serde(flatten, with = "label_json")]`.
pub mod label_json {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::{Map, Value};

    use super::{Settings, split_label};

    /// The fields.
    #[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
    pub struct LabelFields {
        prompt: String,
        /// The swept settings of the pair; `null` where nothing was swept.
        #[serde(default)]
        settings: Option<Map<String, Value>>,
    }

    pub fn serialize<S: Serializer>(label: &str, serializer: S) -> Result<S::Ok, S::Error> {
        let (prompt, settings) = split_label(label);
        let fields = LabelFields {
            prompt: prompt.to_owned(),
            settings: (!settings.is_empty()).then(|| settings.to_json()),
        };
        fields.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        let fields = LabelFields::deserialize(deserializer)?;
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let settings = fields.settings.unwrap_or_default().into_iter();
        let settings: Settings = settings.map(|(key, value)| (key, text(value))).collect();
        Ok(settings.label(&fields.prompt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweeps(texts: &[&str]) -> Result<Vec<Settings>, String> {
        variants(&texts.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    fn labels(texts: &[&str]) -> Vec<String> {
        let variants = sweeps(texts).expect("valid");
        variants.iter().map(|it| it.label("v1")).collect()
    }

    #[test]
    fn sweeps_form_their_product() {
        assert_eq!(labels(&[]), ["v1"]);
        assert_eq!(
            labels(&["temperature=0.20,0.7", "top_k=1,40"]),
            [
                "v1+temperature=0.2+top_k=1",
                "v1+temperature=0.2+top_k=40",
                "v1+temperature=0.7+top_k=1",
                "v1+temperature=0.7+top_k=40",
            ]
        );
        assert_eq!(
            labels(&["max_tokens=64", "128"]),
            ["v1+max_tokens=64", "v1+max_tokens=128"]
        );
        assert_eq!(labels(&["temperature=0.7,0.70"]), ["v1+temperature=0.7"]);
    }

    #[test]
    fn mistakes_in_sweeps_are_named() {
        for (sweep, mistake) in [
            ("temperature", "write NAME=VALUE"),
            ("temperature=warm", "not a number"),
            ("temperature=11", "0 to 10"),
            ("max_tokens=1.5", "whole number"),
            ("n_tips=1,2", "cannot be swept"),
            ("Top=1", "has the name 'Top'"),
            ("top_k=1+2", "letters, digits"),
        ] {
            let wrong = sweeps(&[sweep]).expect_err(sweep);
            assert!(wrong.contains(mistake), "{sweep}: {wrong}");
        }
        assert!(sweeps(&["temperature=1", "temperature=2"]).is_err());
    }

    #[test]
    fn labels_are_read_as_they_are_written() {
        for label in ["v1", "v1@3fa2c1", "v1+temperature=0.2+top_k=40", "a+b"] {
            let (prompt, settings) = split_label(label);
            assert_eq!(settings.label(prompt), label);
        }
    }

    #[test]
    fn a_run_of_before_the_sweep_has_its_value() {
        let keys: BTreeSet<String> = ["temperature", "system", "top_k"].map(str::to_owned).into();
        let words = settings_words(&Options::default(), &Settings::default());
        let parsed = SettingsWords::parse(&words);
        assert_eq!(
            parsed.of(&keys).label("v1"),
            "v1+system=own+temperature=0.7"
        );
        assert!(parsed.own().is_empty());
        let swept = sweeps(&["temperature=0.7", "top_k=5"])
            .expect("valid")
            .remove(0);
        let words = settings_words(&swept.applied(&Options::default()), &swept);
        let parsed = SettingsWords::parse(&words);
        assert_eq!(parsed.own(), swept);
        assert_eq!(
            parsed.of(&keys).label("v1"),
            "v1+system=own+temperature=0.7+top_k=5"
        );
        assert_eq!(
            parsed.without(&keys),
            "n_tips 5, max_tokens 128, num_ctx 2048, seed 42, diversity false"
        );
    }
}
