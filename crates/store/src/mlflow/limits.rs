//! MLflow's limits for logged data. Values that exceed them are rejected, never truncated.

use super::{Batch, DatasetInput, Entry};
use crate::{Result, StoreError};

pub const KEY: usize = 250;
pub const PARAM_VALUE: usize = 6_000;
pub const TAG_VALUE: usize = 8_000;
pub const EXPERIMENT_NAME: usize = 500;
pub const EXPERIMENT_TAG_VALUE: usize = 5_000;
pub const RUN_NAME: usize = 250;
pub const MODEL_NAME: usize = 250;
pub const ALIAS: usize = 255;
pub const REGISTRY_TAG_VALUE: usize = 100_000;
pub const ARTIFACT_PATH: usize = 1_000;
/// The maximum size of a value in SQLite, minus a margin.
pub const ARTIFACT_BYTES: u64 = 999_000_000;
/// The maximum number of keys in one `order_by`.
pub const ORDERS: usize = 16;
pub const BATCH_METRICS: usize = 1_000;
pub const BATCH_PARAMS: usize = 100;
pub const BATCH_TAGS: usize = 100;
pub const BATCH_TOTAL: usize = 1_000;

pub(crate) fn invalid<T>(message: String) -> Result<T> {
    Err(StoreError::Invalid(message))
}

/// Checks the length of a text; `what` names it in the error.
pub fn length(what: &str, text: &str, limit: usize) -> Result<()> {
    let length = text.chars().count();
    if length > limit {
        return invalid(format!(
            "{what} has {length} characters, and the limit is {limit}: shorten it, or log it as \
             an artifact"
        ));
    }
    Ok(())
}

/// The name of a parameter, which is only needed for an error.
type Parameter<'a> = &'a dyn Fn() -> String;

/// Checks the length of a parameter, with MLflow's message.
fn parameter_length(parameter: &str, text: &str, limit: usize) -> Result<()> {
    if text.chars().count() > limit {
        return invalid(format!(
            "'{parameter}' exceeds the maximum length of {limit} characters"
        ));
    }
    Ok(())
}

/// Checks the name of a metric, param or tag: letters, digits, `_-. :/`, and a normalised path.
/// `parameter` names it in MLflow's messages.
pub fn key(parameter: &str, name: &str) -> Result<()> {
    key_at(&|| parameter.to_owned(), name)
}

fn key_at(parameter: Parameter<'_>, name: &str) -> Result<()> {
    if name.len() > KEY {
        parameter_length(&parameter(), name, KEY)?;
    }
    let refused = |reason: String| {
        let (parameter, name) = (parameter(), serde_json::Value::from(name));
        invalid(format!(
            "Invalid value {name} for parameter '{parameter}' supplied: {reason}"
        ))
    };
    let is_legal = |c: char| c.is_alphanumeric() || "_-. :/".contains(c);
    if !name.chars().all(is_legal) {
        return refused(
            "Names may only contain alphanumerics, underscores (_), dashes (-), periods (.), \
             spaces ( ), colon(:) and slashes (/)."
                .to_owned(),
        );
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return refused(format!(
            "Names may be treated as files in certain cases, and must not resolve to other names \
             when treated as such. This name would resolve to '{}'",
            normalized(name)
        ));
    }
    Ok(())
}

/// A path without empty parts, `.` and `..`, as Python's `normpath` has it.
fn normalized(path: &str) -> String {
    let start = if path.starts_with('/') { "/" } else { "" };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|it| *it != "..") => {
                parts.pop();
            }
            ".." if !start.is_empty() => {}
            _ => parts.push(part),
        }
    }
    match (start, parts.as_slice()) {
        ("", []) => ".".to_owned(),
        _ => format!("{start}{}", parts.join("/")),
    }
}

/// A text shortened for an error message.
pub(crate) fn shown(text: &str) -> String {
    if text.chars().count() > 60 {
        text.chars().take(60).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

pub fn param(entry: &Entry) -> Result<()> {
    param_at(&|| "key".to_owned(), entry)
}

fn param_at(parameter: Parameter<'_>, entry: &Entry) -> Result<()> {
    key_at(parameter, &entry.key)?;
    length(
        &format!("the param '{}'", entry.key),
        &entry.value,
        PARAM_VALUE,
    )
}

pub fn tag(entry: &Entry) -> Result<()> {
    tag_at(&|| "key".to_owned(), entry)
}

fn tag_at(parameter: Parameter<'_>, entry: &Entry) -> Result<()> {
    key_at(parameter, &entry.key)?;
    length(&format!("the tag '{}'", entry.key), &entry.value, TAG_VALUE)
}

/// Checks the parts of a dataset.
pub fn dataset(input: &DatasetInput) -> Result<()> {
    let dataset = &input.dataset;
    parameter_length("name", &dataset.name, EXPERIMENT_NAME)?;
    parameter_length("digest", &dataset.digest, 36)?;
    parameter_length("source", &dataset.source, 65_535)?;
    let schema = dataset.schema.as_deref().unwrap_or_default();
    parameter_length("schema", schema, 1_048_575)?;
    let profile = dataset.profile.as_deref().unwrap_or_default();
    parameter_length("profile", profile, 16_777_215)?;
    for tag in &input.tags {
        parameter_length("key", &tag.key, 255)?;
        parameter_length("value", &tag.value, 500)?;
    }
    Ok(())
}

pub fn experiment_name(name: &str) -> Result<()> {
    if name.trim().is_empty() {
        return invalid("an experiment needs a name".to_owned());
    }
    parameter_length("name", name, EXPERIMENT_NAME)
}

pub fn experiment_tag(entry: &Entry) -> Result<()> {
    key("key", &entry.key)?;
    let what = format!("the experiment tag '{}'", entry.key);
    length(&what, &entry.value, EXPERIMENT_TAG_VALUE)
}

/// Checks that a path stays below a run's root.
pub fn artifact_path(path: &str) -> Result<()> {
    length("the artifact's path", path, ARTIFACT_PATH)?;
    let is_invalid = |part: &str| matches!(part, "" | "." | "..");
    if path.split('/').any(is_invalid)
        || path.contains(['\\', '\0'])
        || path.contains(char::is_control)
    {
        return invalid("Invalid path".to_owned());
    }
    Ok(())
}

pub fn batch(batch: &Batch) -> Result<()> {
    let counts = [
        ("metrics", batch.metrics.len(), BATCH_METRICS),
        ("params", batch.params.len(), BATCH_PARAMS),
        ("tags", batch.tags.len(), BATCH_TAGS),
        (
            "metrics, params, and tags",
            batch.metrics.len() + batch.params.len() + batch.tags.len(),
            BATCH_TOTAL,
        ),
    ];
    for (what, count, limit) in counts {
        if count > limit {
            return invalid(format!(
                "A batch logging request can contain at most {limit} {what}. Got {count} {what}. \
                 Please split up {what} across multiple requests and try again."
            ));
        }
    }
    let named = |list: &str, at: usize, field: &str| {
        if batch.is_single {
            field.to_owned()
        } else {
            format!("{list}[{at}].{field}")
        }
    };
    for (at, point) in batch.metrics.iter().enumerate() {
        key_at(&|| named("metrics", at, "name"), &point.key)?;
    }
    for logged in &batch.model_metrics {
        length("the dataset's name", &logged.dataset_name, EXPERIMENT_NAME)?;
        length("the dataset's digest", &logged.dataset_digest, 36)?;
    }
    for (at, param) in batch.params.iter().enumerate() {
        param_at(&|| named("params", at, "key"), param)?;
    }
    for (at, tag) in batch.tags.iter().enumerate() {
        tag_at(&|| named("tags", at, "key"), tag)?;
    }
    Ok(())
}

/// Checks the name of a registered model or prompt.
pub fn model_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains(['/', ':']) {
        return invalid(format!(
            "Invalid model name '{}'. Names cannot contain '/' or ':'.",
            shown(name)
        ));
    }
    length("the registered model's name", name, MODEL_NAME)
}

/// Checks the length of a list in a search, which the database limits.
pub fn list(what: &str, length: usize, limit: usize) -> Result<()> {
    if length > limit {
        return invalid(format!(
            "{what} has {length} entries, and the limit is {limit}"
        ));
    }
    Ok(())
}

pub fn logged_model_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains(['/', ':', '.', '%', '"', '\'']) {
        return invalid(format!(
            "'{}' is not a valid name of a logged model: it must not be empty or contain / : . % or \
             quotes",
            shown(name)
        ));
    }
    length("the logged model's name", name, EXPERIMENT_NAME)
}

/// Checks a tag of a registered model or of a version; a prompt's text is such a tag.
pub fn registry_tag(entry: &Entry) -> Result<()> {
    key("key", &entry.key)?;
    length(
        &format!("the tag '{}'", entry.key),
        &entry.value,
        REGISTRY_TAG_VALUE,
    )
}

pub fn trace_tag(entry: &Entry) -> Result<()> {
    length("the name of a trace's tag", &entry.key, KEY)?;
    length(&format!("the tag '{}'", entry.key), &entry.value, TAG_VALUE)
}

/// Checks an alias: not a number, not `latest`, not `v1`.
pub fn alias(alias: &str) -> Result<()> {
    length("the alias", alias, ALIAS)?;
    let is_legal = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if alias.eq_ignore_ascii_case("latest") {
        return invalid("'latest' alias name (case insensitive) is reserved.".to_owned());
    }
    let number = alias.strip_prefix(['v', 'V']).unwrap_or_default();
    if !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()) {
        return invalid(format!(
            "Version alias name '{}' is reserved.",
            shown(alias)
        ));
    }
    let is_number = alias.chars().all(|c| c.is_ascii_digit());
    if alias.is_empty() || is_number || !alias.chars().all(is_legal) {
        return invalid(format!(
            "'{}' is not a valid alias: use letters, digits, _ and -, and neither a version nor \
             'latest'",
            shown(alias)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_paths() {
        for good in [
            "acc",
            "a/b",
            "artifact:candidates.json",
            "my metric",
            "é_1-2",
        ] {
            assert!(key("tag", good).is_ok(), "{good}");
        }
        for bad in [
            "", ".", "a//b", "/a", "a/", "../a", "a/./b", "a\nb", "a#b", "a'b",
        ] {
            assert!(key("tag", bad).is_err(), "{bad}");
        }
        assert!(key("tag", &"k".repeat(250)).is_ok());
        let error = key("tag", &"k".repeat(251)).unwrap_err().to_string();
        assert!(error.contains("maximum length of 250"), "{error}");
        for (name, would_be) in [
            ("a//b", "a/b"),
            ("a/../b", "b"),
            ("", "."),
            ("/../a/", "/a"),
        ] {
            assert_eq!(normalized(name), would_be, "{name}");
        }
    }
}
