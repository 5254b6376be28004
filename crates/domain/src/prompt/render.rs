//! Filling a scenario into a prompt.

use minijinja::Environment;
use minijinja::value::Serde;
use serde_json::Value;

use super::Prompt;
use crate::chat::{self, Part, Speaker, Turn};
use crate::hash::sha256_fields;
use crate::scenario::Scenario;
use crate::template;

/// A prompt with a scenario's facts filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rendered {
    pub system: Option<String>,
    /// The conversation; mostly one message of the user.
    pub turns: Vec<Turn>,
}

impl Rendered {
    /// As people read it, and as it is kept with the run.
    pub fn as_text(&self) -> String {
        if let (None, [only]) = (&self.system, &self.turns[..]) {
            return format!("{}\n", only.content);
        }
        let system = self.system.iter().map(|it| ("system", it));
        let turns = self
            .turns
            .iter()
            .map(|it| (it.speaker.as_str(), &it.content));
        let parts = system.chain(turns);
        let parts: Vec<String> = parts.map(|(who, it)| format!("[{who}]\n{it}\n")).collect();
        parts.join("\n")
    }

    /// Identifies what the model is given.
    pub fn sha256(&self) -> String {
        let system = ("system", self.system.as_deref().unwrap_or(""));
        let turns = self.turns.iter();
        let turns = turns.map(|it| (it.speaker.as_str(), it.content.as_str()));
        let fields: Vec<(&str, &str)> = [system].into_iter().chain(turns).collect();
        sha256_fields(&fields)
    }
}

/// A prompt's templates, compiled once for many scenarios.
#[derive(Debug)]
pub struct Renderer {
    environment: Environment<'static>,
    has_system: bool,
    parts: Vec<CompiledPart>,
}

/// A part of a conversation whose template is compiled under this name.
#[derive(Debug)]
enum CompiledPart {
    Message(Speaker, String),
    History(String),
}

impl Renderer {
    pub fn new(prompt: &Prompt) -> Result<Self, String> {
        let mut environment = template::environment(prompt.length());
        let failed = |error: String| format!("prompt {}: {error}", prompt.name);
        let mut add = |name: String, source: &str| {
            template::check_growth(source).map_err(|(_, reason)| failed(reason))?;
            environment
                .add_template_owned(name, source.to_owned())
                .map_err(|error| failed(format!("{error:#}")))
        };
        let split = chat::split(&prompt.body).map_err(|(_, message)| failed(message))?;
        let mut parts = Vec::new();
        for (number, part) in split.parts.into_iter().enumerate() {
            parts.push(match part {
                Part::Message(speaker, source) => {
                    let name = format!("message {number}");
                    add(name.clone(), &source)?;
                    CompiledPart::Message(speaker, name)
                }
                Part::History(field) => CompiledPart::History(field),
            });
        }
        if let Some(system) = &prompt.system {
            add("system".to_owned(), system)?;
        }
        Ok(Self {
            parts,
            environment,
            has_system: prompt.system.is_some(),
        })
    }

    /// Fills in a scenario.
    pub fn render(&self, scenario: &Scenario, angle: &str) -> Result<Rendered, String> {
        let fields = &scenario.fields;
        let mut context = fields.clone();
        context.insert("angle".to_owned(), Value::from(angle));
        let context = minijinja::Value::from(Serde(&context));
        let fill = |name: &str| {
            let text = template::render(&self.environment, name, &context)?;
            Ok::<_, String>(text.trim().to_owned())
        };
        let mut system = self.has_system.then(|| fill("system")).transpose()?;
        let mut turns = Vec::new();
        for part in &self.parts {
            match part {
                CompiledPart::Message(speaker, name) => turns.push(Turn {
                    speaker: *speaker,
                    content: fill(name)?,
                }),
                CompiledPart::History(field) => {
                    let (found, messages) = chat::history(field, fields)?;
                    if found.is_some() && system.is_some() {
                        return Err(format!(
                            "the prompt and the field '{field}' both have a system message: leave one out"
                        ));
                    }
                    system = system.or(found);
                    turns.extend(messages);
                }
            }
        }
        // A part of a conversation may be there for some scenarios only.
        if turns.len() > 1 {
            turns.retain(|turn| !turn.content.is_empty());
        }
        if turns
            .last()
            .is_none_or(|turn| turn.speaker != Speaker::User)
        {
            return Err("the conversation does not end with a message of the user".to_owned());
        }
        Ok(Rendered { system, turns })
    }
}
