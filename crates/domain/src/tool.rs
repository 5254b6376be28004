//! Tools that a model may call instead of answering: a task's `tools.json`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::problem::Problem;

/// A function that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// A JSON schema of its arguments.
    #[serde(default = "no_parameters")]
    pub parameters: Value,
}

fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}})
}

/// A tool as OpenAI and others write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Wrapped { function: Tool },
    Plain(Tool),
}

impl Tool {
    /// As OpenAI-compatible servers and Ollama take it.
    pub fn function(&self) -> Value {
        json!({"type": "function", "function": self})
    }

    /// Reads the list of a task's tools.
    pub fn parse_all(file: &str, text: &str) -> Result<Vec<Self>, Vec<Problem>> {
        let one = |message: String, line| vec![Problem::new(file, line, message)];
        let written: Vec<Written> = serde_json::from_str(text).map_err(|error| {
            let shape = "a list of {\"name\", \"description\", \"parameters\"}";
            one(format!("is not {shape}: {error}"), Some(error.line()))
        })?;
        let mut tools: Vec<Self> = Vec::new();
        let mut problems = Vec::new();
        for it in written {
            let (Written::Wrapped { function: tool } | Written::Plain(tool)) = it;
            let is_plain = |it: char| it.is_ascii_alphanumeric() || "_-".contains(it);
            let name = &tool.name;
            let problem = if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
                Some(format!(
                    "the tool's name '{name}' may hold letters, digits, _ and - only, and 64 at most"
                ))
            } else if tools.iter().any(|known| known.name == *name) {
                Some(format!("there are two tools '{name}'"))
            } else {
                let schema = jsonschema::validator_for(&tool.parameters);
                let error = schema.err().filter(|_| tool.parameters.is_object());
                let is_object = tool.parameters.is_object();
                error
                    .map(|it| format!("the parameters of '{name}' are not a JSON schema: {it}"))
                    .or_else(|| {
                        (!is_object)
                            .then(|| format!("the parameters of '{name}' are not an object"))
                    })
            };
            problems.extend(problem.map(|it| Problem::new(file, None, it)));
            tools.push(tool);
        }
        if problems.is_empty() {
            Ok(tools)
        } else {
            Err(problems)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_are_read() {
        let text = r#"[{"name":"find","parameters":{"type":"object"}},
            {"type":"function","function":{"name":"book","description":"d"}}]"#;
        let tools = Tool::parse_all("tools.json", text).expect("valid");
        assert_eq!(tools.len(), 2);
        assert_eq!(tools[1].function()["function"]["name"], "book");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, mistake) in [
            ("{}", "is not a list"),
            (r#"[{"name":"a b"}]"#, "letters, digits"),
            (r#"[{"name":"a"},{"name":"a"}]"#, "two tools 'a'"),
            (
                r#"[{"name":"a","parameters":{"type":"odd"}}]"#,
                "not a JSON schema",
            ),
            (r#"[{"name":"a","parameters":[]}]"#, "not an object"),
        ] {
            let problems = Tool::parse_all("tools.json", text).expect_err(text);
            assert!(problems[0].to_string().contains(mistake), "{problems:?}");
        }
    }
}
