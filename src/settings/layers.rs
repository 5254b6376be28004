//! Merging the layers, key by key, with each value's origin.

use std::collections::BTreeMap;
use std::path::Path;

use assize_domain::options::{OptionSpec, Options};
use assize_domain::task::TaskDefaults;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::policy::DEFAULT_SHADOW;
use super::{BadSettings, DEFAULT_FILE, Settings, documented, documented_optional};
use crate::cli::GivenOptions;
use crate::environment::Environment;

/// The program that the documented settings show.
const EXAMPLE_COMMAND: &str = "example";

/// Layers of settings, merged.
#[derive(Debug)]
pub struct Layers {
    /// By key; `gate.margin` is `margin` of the table `[gate]`.
    values: Table,
    /// Settings that need not be set, with an example of their values.
    optional: Table,
    origins: BTreeMap<String, String>,
}

/// A setting as it is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct InForce {
    pub key: String,
    /// `None` if it is unset.
    pub value: Option<Value>,
    /// Where the value is from; `None` for the default.
    pub origin: Option<String>,
}

/// The settings file: the one named, or `assize.toml` where there is one.
fn read_file(named: Option<&Path>) -> Result<Option<(String, Table)>, BadSettings> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(BadSettings::one(format!("{}: {error}", path.display()))),
    };
    let table = text.parse().map_err(|error: toml::de::Error| {
        BadSettings::one(format!("{}: {error}", path.display()))
    })?;
    Ok(Some((text, table)))
}

/// `assize.toml:3`, or the file alone where the line cannot be told.
fn place(path: &Path, text: &str, key: &str) -> String {
    let mut table = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.split(']').next()) {
            table = format!("{}.", name.trim());
        } else if let Some((name, _)) = line.split_once('=')
            && format!("{table}{}", name.trim()).replace('"', "") == key
        {
            return format!("{}:{}", path.display(), number + 1);
        }
    }
    path.display().to_string()
}

/// The task that the environment or the settings file names, with the place that names it. It is read
/// before the other settings, because a task proposes some of them.
pub fn configured_task(
    file: Option<&Path>,
    environment: &Environment,
) -> Result<Option<(String, String)>, BadSettings> {
    const KEY: &str = "task";
    if let Some(task) = environment.get("ASSIZE_TASK") {
        return Ok(Some((task.to_owned(), environment.origin("ASSIZE_TASK"))));
    }
    let Some((text, table)) = read_file(file)? else {
        return Ok(None);
    };
    let origin = place(file.unwrap_or(Path::new(DEFAULT_FILE)), &text, KEY);
    match table.get(KEY) {
        None => Ok(None),
        Some(Value::String(task)) if !task.is_empty() => Ok(Some((task.clone(), origin))),
        Some(_) => Err(BadSettings::one(format!(
            "{origin}: task must be the name of a built-in task or a folder, in quotes"
        ))),
    }
}

impl Layers {
    /// Defaults, then the task's.
    pub fn new(task: &TaskDefaults) -> Result<Self, BadSettings> {
        let mut layers = Self {
            values: flat(&documented()?)?,
            optional: flat(&documented_optional()?)?,
            origins: BTreeMap::new(),
        };
        let proposed =
            Table::try_from(task).map_err(|error| BadSettings::one(error.to_string()))?;
        for (key, value) in proposed {
            layers.set(&key, value, "the task's defaults");
        }
        Ok(layers)
    }

    /// The configuration file: the one named, or `assize.toml` where there is one.
    pub fn file(&mut self, named: Option<&Path>) -> Result<(), BadSettings> {
        let path = named.unwrap_or(Path::new(DEFAULT_FILE));
        let Some((text, table)) = read_file(named)? else {
            return Ok(());
        };
        for (key, value) in flatten(table) {
            let origin = place(path, &text, &key);
            if self.like(&key).is_none() {
                let similar = self.similar(&key);
                let message = format!("{origin}: there is no setting '{key}'{similar}");
                return Err(BadSettings::one(message));
            }
            self.set(&key, value, &origin);
        }
        Ok(())
    }

    /// Every setting with its value and origin; those that are unset have no value.
    pub fn in_force(&self) -> Vec<InForce> {
        let unset = self.optional.keys();
        let unset = unset.filter(|key| !self.values.contains_key(key.as_str()));
        let known = self.values.keys().chain(unset);
        let entries = known.map(|key| InForce {
            key: key.clone(),
            value: self.values.get(key).cloned(),
            origin: self.origins.get(key).cloned(),
        });
        entries.collect()
    }

    /// `ASSIZE_N_TIPS` and the like.
    pub fn environment(&mut self, environment: &Environment) -> Result<(), BadSettings> {
        for (suffix, text) in environment.with_prefix("ASSIZE_") {
            let name = suffix.to_lowercase();
            let mut keys = self.values.keys().chain(self.optional.keys());
            let found = keys.find(|key| key.replace(['.', '-'], "_") == name);
            let found = found.cloned();
            let Some(key) = found.filter(|_| !text.is_empty()) else {
                continue;
            };
            let Some(known) = self.like(&key) else {
                continue;
            };
            let origin = environment.origin(&format!("ASSIZE_{suffix}"));
            let value = from_text(known, text).ok_or_else(|| {
                BadSettings::one(format!(
                    "{origin} is '{text}', which is not {}",
                    kind_of(known)
                ))
            })?;
            self.set(&key, value, &origin);
        }
        Ok(())
    }

    /// A flag, where it was given.
    pub fn flag<T: Into<Value>>(&mut self, key: &str, value: Option<T>) {
        if let Some(value) = value {
            self.set(key, value.into(), &format!("--{}", key.replace('_', "-")));
        }
    }

    /// The options that were given as flags.
    pub fn given(&mut self, options: &GivenOptions) {
        for (spec, value) in options.iter() {
            self.flag(spec.key, Some(value.clone()));
        }
    }

    /// A value of the kind that a key takes; `None` where there is no such setting.
    fn like(&self, key: &str) -> Option<&Value> {
        let known = self.values.get(key).or_else(|| self.optional.get(key));
        known.or_else(|| {
            let example = example_of(key)?;
            self.values
                .get(&example)
                .or_else(|| self.optional.get(&example))
        })
    }

    /// Whether a value is of the kind that a key takes.
    pub fn fits(&self, key: &str, value: &Value) -> bool {
        match (self.like(key), value) {
            (Some(Value::Array(_)), Value::Array(list)) => list.iter().all(Value::is_str),
            (Some(Value::Array(_)), Value::String(_))
            | (Some(Value::Float(_)), Value::Integer(_)) => true,
            (Some(known), value) => known.same_type(value),
            (None, _) => false,
        }
    }

    /// What a key takes, in words.
    pub fn kind(&self, key: &str) -> &'static str {
        self.like(key).map_or("known", kind_of)
    }

    /// Puts a value over what is there.
    pub fn set(&mut self, key: &str, value: Value, origin: &str) {
        // A lone string is a list of one, and a whole number is a fine fraction.
        let value = match (self.like(key), value) {
            (Some(Value::Array(_)), Value::String(text)) => {
                Value::Array(text.split(',').map(|it| Value::from(it.trim())).collect())
            }
            #[expect(clippy::cast_precision_loss, reason = "settings are small numbers")]
            (Some(Value::Float(_)), Value::Integer(number)) => Value::Float(number as f64),
            (_, value) => value,
        };
        self.values.insert(key.to_owned(), value);
        self.origins.insert(key.to_owned(), origin.to_owned());
    }

    fn similar(&self, key: &str) -> String {
        let folded = key.replace('-', "_");
        let mut keys = self.values.keys().chain(self.optional.keys());
        let found = keys.find(|known| **known == folded || known.starts_with(&folded));
        found.map_or_else(String::new, |known| format!(": did you mean '{known}'?"))
    }

    /// Checks everything.
    pub fn finish(self) -> Result<Settings, BadSettings> {
        let origins = self.origins.clone();
        let origin = |key: &str| {
            let origin = origins.get(key);
            origin.map_or_else(
                || key.to_owned(),
                |origin| {
                    if origin.starts_with("--") {
                        origin.clone()
                    } else {
                        format!("{key} (from {origin})")
                    }
                },
            )
        };
        self.check().map_err(|problems| {
            let problems = problems.into_iter();
            BadSettings(
                problems
                    .map(|(key, message)| format!("{} {message}", origin(&key)))
                    .collect(),
            )
        })
    }

    /// Checks everything; every problem with its key.
    pub fn check(self) -> Result<Settings, Vec<(String, String)>> {
        let mut problems = Vec::new();
        let values = self.values.into_iter();
        let (options, others): (Vec<_>, Vec<_>) =
            values.partition(|(key, _)| OptionSpec::find(key).is_some());
        let options: Option<Options> = read(options.into_iter().collect(), &mut problems);
        let others: Option<Settings> = read(others.into_iter().collect(), &mut problems);
        let (Some(options), Some(others)) = (options, others) else {
            return Err(problems);
        };
        let mut settings = Settings { options, ..others };
        dedupe(&mut settings.options.models);
        dedupe(&mut settings.options.prompts);
        problems.extend(settings.problems());
        if problems.is_empty() {
            Ok(settings)
        } else {
            Err(problems)
        }
    }
}

/// Reads values into their types. A value that cannot be read becomes a problem and is replaced
/// by its default, so that the problems after it are found too.
fn read<T: DeserializeOwned>(mut values: Table, problems: &mut Vec<(String, String)>) -> Option<T> {
    loop {
        let read = serde_path_to_error::deserialize(nest(values.clone()));
        let error: serde_path_to_error::Error<toml::de::Error> = match read {
            Ok(settings) => return Some(settings),
            Err(error) => error,
        };
        let path = error.path().to_string();
        let key = path.split('[').next().unwrap_or_default().to_owned();
        let bad = values.get(&key);
        problems.push((key.clone(), unreadable(bad, error.into_inner().message())));
        // An optional setting has no default and is left out instead.
        let known = documented().and_then(|text| flat(&text)).ok();
        let known = known.and_then(|mut it| it.remove(&key));
        if known.is_some() && known.as_ref() == bad {
            return None;
        }
        match known {
            Some(known) => values.insert(key, known),
            None => Some(values.remove(&key)?),
        };
    }
}

fn flat(text: &str) -> Result<Table, BadSettings> {
    let values = text.parse();
    values
        .map(flatten)
        .map_err(|error| BadSettings::one(format!("defaults: {error}")))
}

/// Why a value cannot be taken, without the words of the language that this is written in.
fn unreadable(value: Option<&Value>, reason: &str) -> String {
    let expected = reason.rsplit_once("expected ").map(|(_, rest)| rest);
    let (Some(value), Some(expected)) = (value, expected) else {
        return format!("cannot be read: {reason}");
    };
    let expected = match expected {
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        "u64" | "usize" => "a whole number from 0".to_owned(),
        other => other.replace('`', ""),
    };
    match value {
        Value::String(text) => format!("is '{text}': use {expected}"),
        value => format!("is {value}: use {expected}"),
    }
}

/// The setting that shows what an entry of a table with free names takes: `policy.shadows.NAME.enabled`
/// takes what the entry that exists by default takes.
fn example_of(key: &str) -> Option<String> {
    if let Some((name, field)) = key
        .strip_prefix("command.")
        .and_then(|it| it.split_once('.'))
    {
        return (!name.is_empty()).then(|| format!("command.{EXAMPLE_COMMAND}.{field}"));
    }
    let (name, field) = key.strip_prefix("policy.shadows.")?.split_once('.')?;
    (!name.is_empty()).then(|| format!("policy.shadows.{DEFAULT_SHADOW}.{field}"))
}

/// One table of keys: what is in a table `[gate]` gets keys such as `gate.margin`.
pub(super) fn flatten(table: Table) -> Table {
    let mut flat = Table::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => flat.extend(
                flatten(inner)
                    .into_iter()
                    .map(|(name, value)| (format!("{key}.{name}"), value)),
            ),
            value => {
                flat.insert(key, value);
            }
        }
    }
    flat
}

/// The opposite of [`flatten`].
fn nest(flat: Table) -> Table {
    let mut table = Table::new();
    let mut inner: BTreeMap<String, Table> = BTreeMap::new();
    for (key, value) in flat {
        match key.split_once('.') {
            None => {
                table.insert(key, value);
            }
            Some((outer, name)) => {
                let outer = inner.entry(outer.to_owned()).or_default();
                outer.insert(name.to_owned(), value);
            }
        }
    }
    let inner = inner.into_iter();
    table.extend(inner.map(|(name, inner)| (name, Value::Table(nest(inner)))));
    table
}

fn dedupe(items: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    items.retain(|item| seen.insert(item.clone()));
}

fn from_text(like: &Value, text: &str) -> Option<Value> {
    match like {
        Value::Integer(_) => text.trim().parse().ok().map(Value::Integer),
        Value::Float(_) => text.trim().parse().ok().map(Value::Float),
        Value::Boolean(_) => match text.trim() {
            "1" | "true" | "yes" => Some(Value::Boolean(true)),
            "0" | "false" | "no" => Some(Value::Boolean(false)),
            _ => None,
        },
        _ => Some(Value::from(text)),
    }
}

fn kind_of(like: &Value) -> &'static str {
    match like {
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Array(_) => "a list of texts",
        _ => "a text",
    }
}
