//! Prompts: versions of a template, identified by their content.
//!
//! A prompt is a Jinja template with optional front matter (`description`, `system`), or several of
//! them that make a conversation ([`crate::chat`]). Its
//! variables are the scenario's fields and `angle`. Templates cannot read files or run code;
//! they only lay out what they are given, within limits ([`crate::template`]).

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::chat::{self, Part};
use crate::front_matter;
use crate::hash::sha256_fields;
use crate::problem::{Problem, line_of};
use crate::scenario::Scenario;
use crate::template;

mod render;

pub use render::{Rendered, Renderer};

/// One version of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The file's stem: `v2-mentor`.
    pub name: String,
    pub description: String,
    pub system: Option<String>,
    pub body: String,
    /// Over what is rendered (system and body), not over the description.
    pub sha256: String,
}

/// Identifies a prompt by what is rendered. Both parts are without white space at their ends.
pub fn content_sha256(system: Option<&str>, body: &str) -> String {
    sha256_fields(&[("system", system.unwrap_or("")), ("body", body)])
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Head {
    description: String,
    system: Option<String>,
}

/// Where a template was read, for messages.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
    body_line: usize,
}

impl Prompt {
    /// Reads a prompt file; `known` are the variables that scenarios offer, where they could be
    /// read.
    pub fn parse(
        file: &str,
        name: &str,
        text: &str,
        known: Option<&BTreeSet<String>>,
    ) -> Result<Self, Vec<Problem>> {
        let parts = front_matter::split(file, text).map_err(|problem| vec![problem])?;
        let head: Head = front_matter::parse_head(file, &parts)?;
        let body = parts.body.trim().to_owned();
        let parts = Source {
            file,
            text,
            body_line: parts.body_line,
        };
        Self::check(&parts, name, head, body, known)
    }

    /// A prompt from its parts, as a program gives them; `known` as for [`Prompt::parse`].
    pub fn from_parts(
        name: &str,
        description: &str,
        system: Option<&str>,
        body: &str,
        known: Option<&BTreeSet<String>>,
    ) -> Result<Self, Vec<Problem>> {
        let head = Head {
            description: description.to_owned(),
            system: system.map(str::to_owned),
        };
        let source = Source {
            file: name,
            text: body,
            body_line: 1,
        };
        Self::check(&source, name, head, body.trim().to_owned(), known)
    }

    fn check(
        source: &Source<'_>,
        name: &str,
        head: Head,
        body: String,
        known: Option<&BTreeSet<String>>,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let (system, body) = split_system(source, head.system, body).map_err(|it| vec![it])?;
        if body.is_empty() {
            problems.push(Problem::new(
                source.file,
                Some(source.body_line),
                "the prompt is empty: write what the model is asked",
            ));
        }
        let parts = chat::split(&body).map_err(|(line, message)| {
            let line = Some(source.body_line + line - 1);
            vec![Problem::new(source.file, line, message)]
        })?;
        for part in &parts.parts {
            match part {
                Part::Message(_, template) => {
                    problems.extend(check_template(source.file, source.text, template, known));
                }
                Part::History(field) => problems.extend(check_field(source, field, known)),
            }
        }
        if let Some(template) = &system {
            problems.extend(check_template(source.file, source.text, template, known));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let sha256 = content_sha256(system.as_deref(), &body);
        Ok(Self {
            name: name.to_owned(),
            description: head.description,
            system,
            body,
            sha256,
        })
    }

    /// The same prompt with another system message.
    #[must_use]
    pub fn with_system(&self, system: Option<&str>) -> Self {
        Self {
            system: system.map(str::to_owned),
            sha256: content_sha256(system, &self.body),
            ..self.clone()
        }
    }

    /// The variables that the templates name.
    pub fn variables(&self) -> BTreeSet<String> {
        let environment = template::environment(self.length());
        let parts = chat::split(&self.body).map_or(Vec::new(), |it| it.parts);
        let mut names = BTreeSet::new();
        let mut templates: Vec<&str> = self.system.iter().map(String::as_str).collect();
        for part in &parts {
            match part {
                Part::Message(_, template) => templates.push(template),
                Part::History(field) => drop(names.insert(field.clone())),
            }
        }
        let templates = templates.into_iter();
        names.extend(
            templates
                .filter_map(|source| environment.template_from_str(source).ok())
                .flat_map(|template| template.undeclared_variables(false)),
        );
        names
    }

    /// Bytes of both templates.
    fn length(&self) -> usize {
        self.body.len() + self.system.as_ref().map_or(0, String::len)
    }

    /// Fills in a scenario. `angle` is empty without `--diversity`.
    pub fn render(&self, scenario: &Scenario, angle: &str) -> Result<Rendered, String> {
        Renderer::new(self)?.render(scenario, angle)
    }
}

/// The system message of the front matter or of the conversation, and the rest of the body.
fn split_system(
    source: &Source<'_>,
    of_head: Option<String>,
    body: String,
) -> Result<(Option<String>, String), Problem> {
    let of_head = of_head.map(|it| it.trim().to_owned());
    let rest = chat::without_system(&body);
    if rest.len() == body.len() {
        return Ok((of_head, body));
    }
    if of_head.is_some() {
        let message = "the front matter has a system message too: leave one out";
        return Err(Problem::new(source.file, Some(source.body_line), message));
    }
    let parts = chat::split(&body).map_err(|(line, message)| {
        Problem::new(source.file, Some(source.body_line + line - 1), message)
    })?;
    Ok((parts.system, rest.trim().to_owned()))
}

fn check_field(
    source: &Source<'_>,
    field: &str,
    known: Option<&BTreeSet<String>>,
) -> Option<Problem> {
    known.filter(|it| !it.contains(field)).map(|_| {
        let line = line_of(source.text, &format!("[history {field}]"));
        let message = format!("no scenario has a field '{field}' with the history");
        Problem::new(source.file, line, message)
    })
}

fn check_template(
    file: &str,
    text: &str,
    source: &str,
    known: Option<&BTreeSet<String>>,
) -> Vec<Problem> {
    let first = || {
        let offset = text.find(source.lines().next().unwrap_or("")).unwrap_or(0);
        crate::problem::line_at(text, offset)
    };
    if let Err((line, reason)) = template::check_growth(source) {
        let line = Some(first() + line.max(1) - 1);
        return vec![Problem::new(file, line, reason)];
    }
    let environment = template::environment(source.len());
    let template = match environment.template_from_str(source) {
        Ok(template) => template,
        Err(error) => {
            let line = error.line().map(|line| first() + line - 1);
            let message = format!(
                "the template does not parse: {}",
                error.detail().unwrap_or("syntax error")
            );
            return vec![Problem::new(file, line, message)];
        }
    };
    let Some(known) = known else {
        return Vec::new();
    };
    let names: BTreeSet<String> = template.undeclared_variables(false).into_iter().collect();
    names
        .into_iter()
        .filter(|name| name != "angle" && !known.contains(name))
        .map(|name| {
            let offered = known
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            let message = format!("no scenario has a field '{name}': use one of {offered}, angle");
            Problem::new(file, line_of_variable(text, &name), message)
        })
        .collect()
}

fn line_of_variable(text: &str, name: &str) -> Option<usize> {
    let mention = text.lines().position(|line| {
        (line.contains("{{") || line.contains("{%"))
            && line
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == name)
    });
    mention.map(|line| line + 1).or_else(|| line_of(text, name))
}

/// Short form of a hash, for names such as `v1@3fa2c1`.
pub fn short_hash(sha256: &str) -> &str {
    sha256.get(..6).unwrap_or(sha256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse_all;

    fn known(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn scenario() -> Scenario {
        parse_all(
            "s.jsonl",
            "{\"id\":\"a\",\"persona\":\"nurse\",\"tasks\":[\"x\",\"y\"]}",
        )
        .expect("ok")
        .remove(0)
    }

    #[test]
    fn fields_and_angle_are_filled_in() {
        let text = "+++\nsystem = \"Be {{ persona }}.\"\n+++\n{% for task in tasks %}\n- {{ task }}\n{% endfor %}\n{% if angle %}Think of {{ angle }}.{% endif %}\n";
        let prompt =
            Prompt::parse("p.md", "v1", text, Some(&known(&["persona", "tasks"]))).expect("sound");
        let rendered = prompt.render(&scenario(), "rest").expect("renders");
        assert_eq!(rendered.system.as_deref(), Some("Be nurse."));
        let text = |rendered: &Rendered| rendered.turns[0].content.clone();
        assert_eq!(text(&rendered), "- x\n- y\nThink of rest.");
        assert_eq!(
            text(&prompt.render(&scenario(), "").expect("renders")),
            "- x\n- y"
        );
    }

    #[test]
    fn unknown_variables_and_syntax_errors_have_lines() {
        let bad = "+++\ndescription = \"d\"\n+++\nHello\n{{ person }}\n";
        let problems =
            Prompt::parse("p.md", "v1", bad, Some(&known(&["persona"]))).expect_err("unknown");
        assert_eq!(
            problems[0].to_string(),
            "p.md:5: no scenario has a field 'person': use one of persona, angle"
        );
        let problems = Prompt::parse("p.md", "v1", "a\n{% if %}\n", None).expect_err("syntax");
        assert_eq!(problems[0].line, Some(2));
    }

    #[test]
    fn a_description_does_not_change_the_hash() {
        let parse = |text| {
            Prompt::parse("p.md", "v1", text, None)
                .expect("sound")
                .sha256
        };
        assert_eq!(parse("Hi"), parse("+++\ndescription = \"d\"\n+++\nHi\n"));
        assert_ne!(parse("Hi"), parse("Ho"));
    }

    #[test]
    fn parts_and_a_file_make_the_same_prompt() {
        let text = "+++\nsystem = \" Be kind. \"\n+++\nHi {{ persona }}\n";
        let read = Prompt::parse("p.md", "v1", text, None).expect("sound");
        let made = Prompt::from_parts("v1", "", Some("Be kind."), "Hi {{ persona }}\n", None);
        assert_eq!(made.expect("sound"), read);
        assert_eq!(
            content_sha256(Some("Be kind."), "Hi {{ persona }}"),
            read.sha256
        );
        assert!(Prompt::from_parts("v1", "", None, " ", None).is_err());
        let unknown = Prompt::from_parts("v1", "", None, "{{ mood }}", Some(&known(&["persona"])));
        assert!(unknown.is_err());
    }

    #[test]
    fn a_missing_field_is_an_error_and_not_an_empty_string() {
        let prompt = Prompt::parse(
            "p.md",
            "v1",
            "{{ mood }}{% if mood %}!{% endif %}",
            Some(&known(&["mood"])),
        )
        .expect("sound");
        assert!(prompt.render(&scenario(), "").is_err());
    }

    #[test]
    fn one_message_keeps_its_hash() {
        let prompt = Prompt::parse("p.md", "v1", "Hi {{ persona }}", None).expect("sound");
        assert_eq!(
            prompt.sha256,
            sha256_fields(&[("system", ""), ("body", "Hi {{ persona }}")])
        );
        let rendered = prompt.render(&scenario(), "").expect("renders");
        assert_eq!(
            rendered.sha256(),
            sha256_fields(&[("system", ""), ("user", "Hi nurse")])
        );
    }

    #[test]
    fn a_conversation_is_filled_in_message_by_message() {
        let text = "[system]\nBe {{ persona }}.\n\n[user]\nHi\n[assistant]\nHello\n[history turns]\n[user]\n{{ persona }}?\n";
        let prompt = Prompt::parse("p.md", "v1", text, None).expect("sound");
        assert_eq!(prompt.system.as_deref(), Some("Be {{ persona }}."));
        let head = "+++\nsystem = \"Be {{ persona }}.\"\n+++\n[user]\nHi\n[assistant]\nHello\n[history turns]\n[user]\n{{ persona }}?\n";
        assert_eq!(
            Prompt::parse("p.md", "v1", head, None).expect("sound"),
            prompt
        );
        assert!(prompt.variables().contains("turns"));
        let scenario = parse_all(
            "s.jsonl",
            "{\"id\":\"a\",\"persona\":\"[user]\",\"turns\":[{\"role\":\"user\",\"content\":\"{{ persona }}\"}]}",
        )
        .expect("ok")
        .remove(0);
        let rendered = prompt.render(&scenario, "").expect("renders");
        assert_eq!(
            rendered.as_text(),
            "[system]\nBe [user].\n\n[user]\nHi\n\n[assistant]\nHello\n\n[user]\n{{ persona }}\n\n[user]\n[user]?\n"
        );
        let unknown = Prompt::parse("p.md", "v1", text, Some(&known(&["persona"])));
        let problems = unknown.expect_err("no such field");
        assert_eq!(
            problems[0].to_string(),
            "p.md:8: no scenario has a field 'turns' with the history"
        );
    }
}
