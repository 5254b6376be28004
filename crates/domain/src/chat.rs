//! Conversations: prompts of several messages.
//!
//! A prompt whose body begins with one of these lines is a conversation:
//!
//! ```text
//! [system]
//! You are the support desk of {{ shop }}.
//! [history turns]
//! [user]
//! {{ question }}
//! ```
//!
//! `[system]` may only come first, `[user]` and `[assistant]` open a message, and `[history FIELD]`
//! stands for the messages in a field of the scenario: a list of `{role, content}`. The body is split
//! before anything is filled in, so no scenario can open a message of its own, and what the history
//! says is never read as a template. Every other prompt is one message of the user.

use serde::Serialize;
use serde_json::{Map, Value};

/// Who says a message, besides the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    User,
    Assistant,
}

impl Speaker {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message with everything filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Turn {
    pub speaker: Speaker,
    pub content: String,
}

/// A part of a conversation's template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// One message, as a template.
    Message(Speaker, String),
    /// The messages in this field of the scenario.
    History(String),
}

/// The templates of a prompt's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// What stands under `[system]`.
    pub system: Option<String>,
    pub parts: Vec<Part>,
}

enum Marker<'a> {
    System,
    Says(Speaker),
    History(&'a str),
}

fn marker(line: &str) -> Option<Marker<'_>> {
    let name = line.trim_end().strip_prefix('[')?.strip_suffix(']')?;
    match name {
        "system" => Some(Marker::System),
        "user" => Some(Marker::Says(Speaker::User)),
        "assistant" => Some(Marker::Says(Speaker::Assistant)),
        _ => {
            let field = name.strip_prefix("history ")?.trim();
            let is_name = |it: char| it.is_alphanumeric() || it == '_';
            let is_field = !field.is_empty() && field.chars().all(is_name);
            is_field.then_some(Marker::History(field))
        }
    }
}

/// Whether a body is a conversation.
pub fn is_chat(body: &str) -> bool {
    let first = body.trim_start().lines().next();
    first.is_some_and(|line| marker(line).is_some())
}

/// Splits a body at its markers. The error has a line, from 1.
pub fn split(body: &str) -> Result<Parts, (usize, String)> {
    if !is_chat(body) {
        return Ok(Parts {
            system: None,
            parts: vec![Part::Message(Speaker::User, body.trim().to_owned())],
        });
    }
    let mut system: Option<String> = None;
    let mut parts: Vec<Part> = Vec::new();
    let mut in_system = false;
    for (number, line) in (1..).zip(body.lines()) {
        match marker(line) {
            Some(Marker::System) if system.is_none() && parts.is_empty() => {
                system = Some(String::new());
                in_system = true;
            }
            Some(Marker::System) => {
                let message = "[system] may only be the first message of a conversation";
                return Err((number, message.to_owned()));
            }
            Some(Marker::Says(speaker)) => {
                in_system = false;
                parts.push(Part::Message(speaker, String::new()));
            }
            Some(Marker::History(field)) => {
                in_system = false;
                parts.push(Part::History(field.to_owned()));
            }
            None => {
                let open = match parts.last_mut() {
                    _ if in_system => system.as_mut(),
                    Some(Part::Message(_, text)) => Some(text),
                    _ => None,
                };
                match open {
                    Some(text) => {
                        text.push_str(line);
                        text.push('\n');
                    }
                    None if line.trim().is_empty() => {}
                    None => {
                        let message = "this line belongs to no message: write [user] or [assistant] before it";
                        return Err((number, message.to_owned()));
                    }
                }
            }
        }
    }
    for part in &mut parts {
        if let Part::Message(_, text) = part {
            *text = text.trim().to_owned();
        }
    }
    let system = system.map(|it| it.trim().to_owned());
    if !matches!(
        parts.last(),
        Some(Part::Message(Speaker::User, _) | Part::History(_))
    ) {
        let message = "the conversation must end with the user's message: add [user] at the end";
        return Err((body.lines().count(), message.to_owned()));
    }
    Ok(Parts { system, parts })
}

/// The body without `[system]`, which is a part of its own.
pub fn without_system(body: &str) -> &str {
    let rest = body.trim_start();
    if !matches!(rest.lines().next().and_then(marker), Some(Marker::System)) {
        return body;
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if at > 0 && marker(line).is_some() {
            return &rest[at..];
        }
        at += line.len();
    }
    ""
}

/// The messages in a field of a scenario; a system message is told apart.
pub fn history(
    field: &str,
    fields: &Map<String, Value>,
) -> Result<(Option<String>, Vec<Turn>), String> {
    let shape = format!(
        "the field '{field}' must be a list of messages such as {{\"role\": \"user\", \"content\": \"…\"}}"
    );
    let Some(Value::Array(list)) = fields.get(field) else {
        return Err(shape);
    };
    let (mut system, mut turns) = (None, Vec::new());
    for (number, message) in (1..).zip(list) {
        let text = |key: &str| message.get(key).and_then(Value::as_str);
        let (Some(role), Some(content)) = (text("role"), text("content")) else {
            return Err(format!("{shape}; message {number} is not"));
        };
        let speaker = match role {
            "user" => Speaker::User,
            "assistant" => Speaker::Assistant,
            "system" if number == 1 => {
                system = Some(content.trim().to_owned());
                continue;
            }
            other => {
                return Err(format!(
                    "message {number} of the field '{field}' has the role '{other}': use user or assistant, or system \
                     in the first message"
                ));
            }
        };
        turns.push(Turn {
            speaker,
            content: content.trim().to_owned(),
        });
    }
    Ok((system, turns))
}

/// Whether a value is a conversation: a list of `{role, content}`.
pub fn is_conversation(value: &Value) -> bool {
    let is_message = |it: &Value| {
        let is_text = |key: &str| it.get(key).is_some_and(Value::is_string);
        it.as_object().is_some_and(|it| it.len() == 2) && is_text("role") && is_text("content")
    };
    let list = value.as_array();
    list.is_some_and(|it| !it.is_empty() && it.iter().all(is_message))
}

/// A conversation as people read it.
pub fn transcript(value: &Value) -> String {
    let lines = value.as_array().into_iter().flatten().map(|message| {
        let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
        format!("{}: {}", text("role"), text("content"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plain_body_is_one_message_of_the_user() {
        let parts = split("Hello\n[user] is not a marker here\n").expect("valid");
        assert_eq!(parts.system, None);
        assert!(
            matches!(&parts.parts[..], [Part::Message(Speaker::User, text)] if text.starts_with("Hello"))
        );
        assert!(!is_chat("[user]: no\n[user]\n"));
    }

    #[test]
    fn markers_open_messages() {
        let body = "[system]\nBe brief.\n[user]\nHi\n[assistant]\n\nHello.\n[history turns]\n\n[user]\n{{ q }}\n";
        let parts = split(body).expect("valid");
        assert_eq!(parts.system.as_deref(), Some("Be brief."));
        assert_eq!(
            parts.parts,
            [
                Part::Message(Speaker::User, "Hi".to_owned()),
                Part::Message(Speaker::Assistant, "Hello.".to_owned()),
                Part::History("turns".to_owned()),
                Part::Message(Speaker::User, "{{ q }}".to_owned()),
            ]
        );
        assert!(without_system(body).starts_with("[user]\nHi"));
        assert_eq!(without_system("[user]\nHi"), "[user]\nHi");
    }

    #[test]
    fn mistakes_have_their_line() {
        for (body, line, mistake) in [
            (
                "[user]\nHi\n[system]\nBe brief.\n[user]\n",
                3,
                "first message",
            ),
            ("[history turns]\nHi\n", 2, "belongs to no message"),
            ("[user]\nHi\n[assistant]\nHello\n", 4, "end with the user's"),
        ] {
            let (at, message) = split(body).expect_err(body);
            assert_eq!(at, line, "{message}");
            assert!(message.contains(mistake), "{message}");
        }
    }

    #[test]
    fn a_history_is_checked() {
        let fields = |value: Value| {
            json!({"turns": value})
                .as_object()
                .cloned()
                .expect("an object")
        };
        let said = |role: &str| json!({"role": role, "content": " Hi "});
        let (system, turns) =
            history("turns", &fields(json!([said("system"), said("user")]))).expect("valid");
        assert_eq!(system.as_deref(), Some("Hi"));
        assert_eq!(turns.len(), 1);
        assert_eq!(turns[0].content, "Hi");
        for wrong in [
            json!("Hi"),
            json!([{"role": "user"}]),
            json!([said("tool")]),
            json!([said("user"), said("system")]),
        ] {
            assert!(history("turns", &fields(wrong.clone())).is_err(), "{wrong}");
        }
        assert!(history("lacking", &fields(json!([]))).is_err());
    }
}
