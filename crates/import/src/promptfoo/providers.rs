//! Providers as models of `collect`.

use serde_json::Value;

/// Models, and settings that all of them share.
#[derive(Debug, Default)]
pub struct Providers {
    pub models: Vec<String>,
    pub defaults: Vec<(&'static str, Value)>,
}

/// Settings that a task can propose.
const SETTINGS: [(&str, &str); 2] = [("temperature", "temperature"), ("max_tokens", "max_tokens")];

pub fn read(value: Option<&Value>, notes: &mut Vec<String>) -> Providers {
    let list = match value {
        Some(Value::Array(list)) => list.clone(),
        Some(one @ (Value::String(_) | Value::Object(_))) => vec![one.clone()],
        _ => Vec::new(),
    };
    let mut found = Providers::default();
    let mut configs: Vec<Value> = Vec::new();
    for provider in &list {
        let (id, config) = match provider {
            Value::String(id) => (id.clone(), Value::Null),
            Value::Object(object) => named(object),
            _ => continue,
        };
        match model(&id) {
            Some(model) => {
                found.models.push(model);
                configs.push(config);
            }
            None => notes.push(format!(
                "the provider {id} (no model of it can be named here)"
            )),
        }
    }
    for (theirs, ours) in SETTINGS {
        let values: Vec<Option<&Value>> = configs.iter().map(|it| it.get(theirs)).collect();
        let first = values
            .first()
            .copied()
            .flatten()
            .filter(|it| it.is_number());
        if let Some(first) = first.filter(|first| values.iter().all(|it| *it == Some(*first))) {
            found.defaults.push((ours, first.clone()));
        } else if values.iter().any(Option::is_some) {
            notes.push(format!(
                "{theirs} of single providers: collect has one value for all, or --sweep"
            ));
        }
    }
    let others = configs
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|it| it.keys());
    let mut others: Vec<&String> = others
        .filter(|key| !SETTINGS.iter().any(|(it, _)| it == key))
        .collect();
    others.sort();
    others.dedup();
    notes.extend(
        others
            .into_iter()
            .map(|key| format!("'{key}' of a provider's config")),
    );
    found
}

/// `{id, config}`, or `{"openai:…": {config}}`.
fn named(object: &serde_json::Map<String, Value>) -> (String, Value) {
    let config = |value: Option<&Value>| value.cloned().unwrap_or_default();
    if let Some(id) = object.get("id").and_then(Value::as_str) {
        return (id.to_owned(), config(object.get("config")));
    }
    let first = object.iter().next();
    let (id, value) = first.map_or((String::new(), None), |(id, value)| {
        (id.clone(), Some(value))
    });
    (id, config(value.and_then(|it| it.get("config"))))
}

/// The id of a model as `--models` has it.
fn model(id: &str) -> Option<String> {
    let (provider, rest) = id.split_once(':')?;
    let name = ["chat:", "completion:", "responses:"]
        .iter()
        .find_map(|it| rest.strip_prefix(it));
    let name = name.unwrap_or(rest);
    let is_other = ["embedding", "image", "realtime", "moderation"]
        .iter()
        .any(|it| rest.starts_with(it));
    if name.is_empty() || is_other {
        return None;
    }
    match provider {
        "ollama" => Some(name.to_owned()),
        "openai" => Some(format!("openai:{name}")),
        _ => None,
    }
}
