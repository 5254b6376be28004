//! What a reflector answers: children, each with a one-line hypothesis.
//!
//! `{"children":[{"hypothesis":"…","kind":"edit"|"restart"|"other","system":null|"…","template":"…"}]}`
//!
//! `template` is the whole template of the user message; `prompt` is accepted as its name, and a text with
//! front matter as in a task's prompt files. Without `system` a child keeps its parent's, with `null`
//! it has none. An answer that does not fit is refused as a whole, with every problem in it, and never
//! repaired: the reflector is told what was wrong.

use assize_domain::fence::is_invisible;
use assize_domain::front_matter;
use assize_domain::output::cut_thinking;
use assize_domain::prompt::Prompt;
use serde::{Deserialize, Deserializer, Serialize};

use crate::packet::Packet;

/// The most characters of a hypothesis.
pub const LONGEST_HYPOTHESIS: usize = 200;
/// Longer templates are refused before they are recorded.
const LONGEST_TEMPLATE: usize = 200_000;

/// How a child differs from its parent, as its author says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A small change.
    Edit,
    /// Written from nothing.
    Restart,
    #[default]
    Other,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Restart => "restart",
            Self::Other => "other",
        }
    }
}

/// One proposed version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// What the change should improve, in one line.
    pub hypothesis: String,
    pub kind: Kind,
    pub system: Option<String>,
    pub template: String,
}

/// A valid answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub children: Vec<Proposal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReply {
    children: Vec<RawProposal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProposal {
    hypothesis: String,
    #[serde(default)]
    kind: Kind,
    #[serde(default, deserialize_with = "given")]
    system: SystemText,
    #[serde(alias = "prompt")]
    template: String,
}

/// Tells `null` from a field that is not there.
#[derive(Default)]
enum SystemText {
    #[default]
    Inherited,
    Given(Option<String>),
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemText, D::Error> {
    Option::deserialize(deserializer).map(SystemText::Given)
}

impl Reply {
    /// Reads the answer to a packet, or says everything that is wrong with it. A code fence and a
    /// model's thinking around the object are cut off, as for judges; a template may speak of thinking.
    pub fn parse(text: &str, packet: &Packet) -> Result<Self, Vec<String>> {
        let is_json = serde_json::from_str::<serde_json::Value>(unfenced(text)).is_ok();
        let text = if is_json {
            text.to_owned()
        } else {
            cut_thinking(text)
        };
        let raw: RawReply = serde_json::from_str(unfenced(&text)).map_err(|error| {
            vec![format!(
                "the answer is not the JSON object {{\"children\":[…]}} that was asked for: {error}"
            )]
        })?;
        let mut problems = Vec::new();
        let asked = packet.children as usize;
        if raw.children.is_empty() {
            problems.push("children is empty: return at least one".to_owned());
        }
        if raw.children.len() > asked {
            problems.push(format!(
                "children has {} entries: return at most {asked}",
                raw.children.len()
            ));
        }
        let mut children = Vec::new();
        for (place, raw) in raw.children.into_iter().enumerate() {
            let wrong = raw.problems();
            problems.extend(
                wrong
                    .into_iter()
                    .map(|it| format!("children[{place}].{it}")),
            );
            children.push(raw.resolve(packet.version.system.as_deref()));
        }
        if problems.is_empty() {
            Ok(Self { children })
        } else {
            Err(problems)
        }
    }
}

impl RawProposal {
    fn problems(&self) -> Vec<String> {
        let hypothesis = self.hypothesis.trim();
        let mut problems = Vec::new();
        if hypothesis.is_empty() {
            problems
                .push("hypothesis is empty: say in one line what the change improves".to_owned());
        }
        if hypothesis.lines().count() > 1 {
            problems.push("hypothesis has more than one line".to_owned());
        }
        if hypothesis.chars().any(|it| it != '\n' && is_invisible(it)) {
            problems.push("hypothesis holds a control or invisible character".to_owned());
        }
        let length = hypothesis.chars().count();
        if length > LONGEST_HYPOTHESIS {
            problems.push(format!(
                "hypothesis has {length} characters: use at most {LONGEST_HYPOTHESIS}"
            ));
        }
        if self.template.trim().is_empty() {
            problems.push("template is empty: return the whole template".to_owned());
        }
        let is_fence = |it: &str| {
            it.starts_with("<<<prompt ") || (it.starts_with("prompt ") && it.ends_with(">>>"))
        };
        if self.template.lines().any(|it| is_fence(it.trim())) {
            problems.push(
                "template holds the lines around the packet's prompt: return what stands between them"
                    .to_owned(),
            );
        }
        let system = match &self.system {
            SystemText::Given(Some(system)) => system.as_str(),
            SystemText::Given(None) | SystemText::Inherited => "",
        };
        for (name, text) in [("template", self.template.as_str()), ("system", system)] {
            let length = text.chars().count();
            if length > LONGEST_TEMPLATE {
                problems.push(format!(
                    "{name} has {length} characters: use at most {LONGEST_TEMPLATE}"
                ));
            }
        }
        problems
    }

    fn resolve(self, inherited: Option<&str>) -> Proposal {
        let text = self.template.replace("\r\n", "\n");
        let text = text.trim();
        let has_head = front_matter::split("template", text).is_ok_and(|it| !it.head.is_empty());
        let is_inherited = matches!(self.system, SystemText::Inherited);
        let file = (has_head && is_inherited)
            .then(|| Prompt::parse("template", "child", text, None).ok())
            .flatten();
        let (system, template) = match (file, self.system) {
            (Some(prompt), _) => (prompt.system, prompt.body),
            (None, SystemText::Given(system)) => (system, text.to_owned()),
            (None, SystemText::Inherited) => (inherited.map(str::to_owned), text.to_owned()),
        };
        let system = system.map(|it| it.replace("\r\n", "\n"));
        let system = system.filter(|it| !it.trim().is_empty());
        Proposal {
            hypothesis: self.hypothesis.trim().to_owned(),
            kind: self.kind,
            system,
            template,
        }
    }
}

/// Models like to wrap JSON into a code fence.
fn unfenced(answer: &str) -> &str {
    let answer = answer.trim();
    let inner = answer
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"));
    inner.map_or(answer, |inner| {
        inner.strip_prefix("json").unwrap_or(inner).trim()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tests::packet;

    fn parse(text: &str) -> Result<Reply, Vec<String>> {
        Reply::parse(text, &packet())
    }

    #[test]
    fn a_child_inherits_the_system_text_unless_it_names_one() {
        let reply = parse(
            "```json\n{\"children\":[\
             {\"hypothesis\":\" a \",\"kind\":\"edit\",\"template\":\"T {{ persona }}\\n\"},\
             {\"hypothesis\":\"b\",\"system\":null,\"prompt\":\"U\"},\
             {\"hypothesis\":\"c\",\"kind\":\"restart\",\"system\":\"S\",\"template\":\"V\"}]}\n```",
        )
        .expect("sound");
        let systems: Vec<_> = reply
            .children
            .iter()
            .map(|it| it.system.as_deref())
            .collect();
        assert_eq!(systems, [Some("Be brief."), None, Some("S")]);
        assert_eq!(reply.children[0].hypothesis, "a");
        assert_eq!(reply.children[0].template, "T {{ persona }}");
        assert_eq!(reply.children[1].kind, Kind::Other);
    }

    #[test]
    fn a_template_may_speak_of_thinking_and_thinking_around_the_answer_is_cut() {
        let answer = "{\"children\":[{\"hypothesis\":\"h\",\"template\":\"No <think> block.\"}]}";
        for text in [
            answer.to_owned(),
            format!("```json\n{answer}\n```"),
            format!(
                "<think>Is {{this}} it?</think>{}",
                answer.replace("<think>", "long")
            ),
        ] {
            let reply = parse(&text).expect("sound");
            assert!(reply.children[0].template.starts_with("No "), "{text}");
        }
        assert_eq!(
            parse(answer).expect("sound").children[0].template,
            "No <think> block."
        );
    }

    #[test]
    fn both_texts_have_a_longest_length() {
        let long = "x".repeat(LONGEST_TEMPLATE + 1);
        let text = format!(
            "{{\"children\":[{{\"hypothesis\":\"h\",\"system\":\"{long}\",\"template\":\"T\"}}]}}"
        );
        assert_eq!(
            parse(&text).expect_err("too long"),
            ["children[0].system has 200001 characters: use at most 200000"]
        );
    }

    #[test]
    fn front_matter_brings_its_own_system_text() {
        let text = "{\"children\":[{\"hypothesis\":\"h\",\
                    \"prompt\":\"+++\\nsystem = \\\"Own.\\\"\\n+++\\nBody\"}]}";
        let child = parse(text).expect("sound").children.remove(0);
        assert_eq!(child.system.as_deref(), Some("Own."));
        assert_eq!(child.template, "Body");
    }

    #[test]
    fn every_problem_is_named_and_nothing_is_repaired() {
        let long = "x".repeat(201);
        let text = format!(
            "{{\"children\":[{{\"hypothesis\":\"a\\nb\",\"template\":\"T\"}},\
             {{\"hypothesis\":\"{long}\",\"template\":\" \"}},\
             {{\"hypothesis\":\"\",\"template\":\"T\"}},\
             {{\"hypothesis\":\"d\",\"template\":\"T\"}},\
             {{\"hypothesis\":\"e\",\"template\":\"T\"}}]}}"
        );
        let problems = parse(&text).expect_err("wrong");
        assert_eq!(
            problems,
            [
                "children has 5 entries: return at most 4",
                "children[0].hypothesis has more than one line",
                "children[1].hypothesis has 201 characters: use at most 200",
                "children[1].template is empty: return the whole template",
                "children[2].hypothesis is empty: say in one line what the change improves",
            ]
        );
        let fenced = "{\"children\":[{\"hypothesis\":\"h\",\"template\":\"<<<prompt 07\\nT\\nprompt 07>>>\"}]}";
        assert_eq!(parse(fenced).expect_err("fenced").len(), 1);
        let hidden = "{\"children\":[{\"hypothesis\":\"\\u001b[31mred\",\"template\":\"T\"}]}";
        assert_eq!(
            parse(hidden).expect_err("hidden"),
            ["children[0].hypothesis holds a control or invisible character"]
        );
        for text in [
            "",
            "no",
            "[]",
            "{\"children\":[]}",
            "{\"children\":[{\"hypothesis\":\"h\",\"template\":\"t\",\"score\":5}]}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
