//! MLflow's limits for logged data. Values that exceed them are rejected, never truncated.

use super::{Batch, Entry, Point};
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

/// Checks the name of a metric, param or tag: letters, digits, `_-. :/`, and a normalised path.
pub fn key(what: &str, name: &str) -> Result<()> {
    length(
        &format!("the name of the {what} '{}'", shown(name)),
        name,
        KEY,
    )?;
    let is_legal = |c: char| c.is_alphanumeric() || "_-. :/".contains(c);
    if !name.chars().all(is_legal) {
        return invalid(format!(
            "the {what} name '{}' may only contain letters, digits, spaces and _ - . : /",
            shown(name)
        ));
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return invalid(format!(
            "the {what} name '{}' is not a valid path: remove empty parts, '.' and '..'",
            shown(name)
        ));
    }
    Ok(())
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
    key("param", &entry.key)?;
    length(
        &format!("the param '{}'", entry.key),
        &entry.value,
        PARAM_VALUE,
    )
}

pub fn tag(entry: &Entry) -> Result<()> {
    key("tag", &entry.key)?;
    length(&format!("the tag '{}'", entry.key), &entry.value, TAG_VALUE)
}

pub fn point(point: &Point) -> Result<()> {
    key("metric", &point.key)
}

pub fn experiment_name(name: &str) -> Result<()> {
    if name.trim().is_empty() {
        return invalid("an experiment needs a name".to_owned());
    }
    length("the experiment's name", name, EXPERIMENT_NAME)
}

pub fn experiment_tag(entry: &Entry) -> Result<()> {
    key("experiment tag", &entry.key)?;
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
        return invalid(format!(
            "Invalid path '{}': use a path below the run's root, without '..'",
            shown(path)
        ));
    }
    Ok(())
}

pub fn batch(batch: &Batch) -> Result<()> {
    let counts = [
        ("metrics", batch.metrics.len(), BATCH_METRICS),
        ("params", batch.params.len(), BATCH_PARAMS),
        ("tags", batch.tags.len(), BATCH_TAGS),
        (
            "entries",
            batch.metrics.len() + batch.params.len() + batch.tags.len(),
            BATCH_TOTAL,
        ),
    ];
    for (what, count, limit) in counts {
        if count > limit {
            return invalid(format!(
                "a batch of {count} {what} is too large, the limit is {limit}: send several batches"
            ));
        }
    }
    batch.metrics.iter().try_for_each(point)?;
    for logged in &batch.model_metrics {
        length("the dataset's name", &logged.dataset_name, EXPERIMENT_NAME)?;
        length("the dataset's digest", &logged.dataset_digest, 36)?;
    }
    batch.params.iter().try_for_each(param)?;
    batch.tags.iter().try_for_each(tag)
}

/// Checks the name of a registered model or prompt.
pub fn model_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains(['/', ':']) {
        return invalid(format!(
            "'{}' is not a valid name of a registered model: it must not be empty or contain / or :",
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
    key("tag", &entry.key)?;
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
    let number = alias.strip_prefix(['v', 'V']).unwrap_or(alias);
    let is_version = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    if alias.is_empty()
        || is_version
        || alias.eq_ignore_ascii_case("latest")
        || !alias.chars().all(is_legal)
    {
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
        assert!(error.contains("the limit is 250"), "{error}");
    }
}
