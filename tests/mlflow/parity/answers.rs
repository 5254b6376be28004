//! Answers of two servers, in a form that can be compared: without times, with names for ids, and
//! without what is empty, which MLflow's protocol treats as absent.

use std::fmt;

use serde_json::{Map, Value};

use super::{Compared, pointed};
use assize_test_support::server::Reply;

/// What differs between any two servers: times, and fields about the error that only newer
/// versions of MLflow send.
const VOLATILE: [&str; 14] = [
    "creation_time",
    "last_update_time",
    "creation_timestamp",
    "last_updated_timestamp",
    "creation_timestamp_ms",
    "last_updated_timestamp_ms",
    "create_time",
    "error",
    "error_class",
    "sqlstate",
    "stack_trace",
    "mlflow.trace.infoFinalized",
    "server",
    "detail",
];

/// Ids that a server gave, by the names that the tables use for them.
#[derive(Debug, Default)]
pub struct Variables(Vec<(String, String)>);

impl Variables {
    /// Puts ids and long texts into a request.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.0 {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        while let Some(star) = filled.find('*') {
            let start = filled[..star].rfind('{');
            let Some((start, count)) = start
                .and_then(|start| Some((start, filled[start + 1..star].parse::<usize>().ok()?)))
            else {
                break;
            };
            let letter = filled[star + 1..].chars().next().expect("a letter");
            filled.replace_range(start..star + 3, &letter.to_string().repeat(count));
        }
        filled
    }

    /// Reads an answer, and keeps what later requests name.
    pub fn answer(
        &mut self,
        reply: &Reply,
        keep: &[(String, String)],
        is_download: bool,
    ) -> Answer {
        let text = String::from_utf8_lossy(&reply.body).replace(":NaN", ":\"NaN\"");
        let mut value: Value = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text));
        for (name, pointer) in keep {
            let found = pointed(&value, pointer).unwrap_or("missing").to_owned();
            self.0.retain(|(known, _)| known != name);
            self.0.push((name.clone(), found));
        }
        if let Value::String(page) = &value
            && page.starts_with("<!doctype")
        {
            value = Value::Null;
        }
        let header = |name: &str| reply.header(name).unwrap_or_default().to_owned();
        Answer {
            status: reply.status,
            value: self.plain(value),
            headers: (is_download && reply.status == 200)
                .then(|| (header("content-type"), header("content-disposition"))),
        }
    }

    fn plain(&self, value: Value) -> Value {
        match value {
            Value::Object(fields) => Value::Object(self.plain_fields(fields)),
            Value::Array(items) => {
                let mut items: Vec<Value> = items.into_iter().map(|it| self.plain(it)).collect();
                let is_entry = |it: &Value| it.get("key").is_some() && it.get("step").is_none();
                if items.iter().all(is_entry) {
                    items.sort_by_key(|it| it["key"].to_string());
                }
                Value::Array(items)
            }
            Value::String(text) => self.named(&text).into(),
            other => other,
        }
    }

    fn plain_fields(&self, fields: Map<String, Value>) -> Map<String, Value> {
        // The model of a version, which MLflow knows and does not show.
        let is_version = fields.contains_key("current_stage");
        let mut plain = Map::new();
        for (name, value) in fields {
            if VOLATILE.contains(&name.as_str()) || (is_version && name == "model_id") {
                continue;
            }
            let value = match (name.as_str(), value) {
                ("next_page_token", _) => "a token".into(),
                ("execution_duration", Value::String(text)) => duration(&text).into(),
                (_, value) => self.plain(value),
            };
            let is_empty = match &value {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                _ => false,
            };
            if !is_empty {
                plain.insert(name, value);
            }
        }
        plain
    }

    /// Names instead of ids, and no text of the database.
    fn named(&self, text: &str) -> String {
        let mut named = text
            .split(" Error: (sqlite3")
            .next()
            .unwrap_or_default()
            .to_owned();
        for (name, value) in &self.0 {
            if value.len() > 6 {
                named = named.replace(value, &format!("{{{name}}}"));
            }
        }
        named
    }
}

/// `0.500s` and `0.5s` are the same.
fn duration(text: &str) -> String {
    let seconds = text.trim_end_matches('s');
    if seconds.contains('.') {
        format!("{}s", seconds.trim_end_matches('0').trim_end_matches('.'))
    } else {
        text.to_owned()
    }
}

/// An answer that can be compared.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    value: Value,
    /// Media type and disposition of a download.
    headers: Option<(String, String)>,
}

impl Answer {
    pub fn equals(&self, other: &Self, compared: Compared) -> bool {
        let code = |it: &Self| it.value["error_code"].clone();
        let body = |it: &Self| match &it.value {
            Value::Object(fields) if fields.is_empty() => Value::Null,
            Value::String(text) if text.is_empty() => Value::Null,
            other => other.clone(),
        };
        self.status == other.status
            && match compared {
                Compared::Status => true,
                Compared::Code => code(self) == code(other),
                Compared::All => body(self) == body(other) && self.headers == other.headers,
            }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.value.to_string().chars().take(900).collect();
        write!(f, "{} {shown}", self.status)?;
        match &self.headers {
            Some((kind, disposition)) => write!(f, " [{kind}] [{disposition}]"),
            None => Ok(()),
        }
    }
}
