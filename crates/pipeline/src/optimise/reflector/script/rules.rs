//! The rules of a scripted reflector: each makes one child of a known kind from the packet's prompt.

use assize_optimise::reply::LONGEST_HYPOTHESIS;
use assize_optimise::{FeedbackCell, Kind, Packet, Version};
use assize_stats::rng::SplitMix64;
use serde::Deserialize;
use serde_json::{Value, json};

/// Sentences that change nothing a script or a judge would look for.
const NEUTRAL: [&str; 8] = [
    "Read everything above before you begin.",
    "Take the request as it stands.",
    "Work through it step by step in your head.",
    "Keep in mind what was said at the start.",
    "Consider the whole picture first.",
    "Check your result once before you give it.",
    "Think about what matters most here.",
    "Begin when you have understood the request.",
];
const HARMFUL: &str = "Answer with the first thing that comes to mind.";
const MALFORMED: &str = "{\"children\": [{\"hypothesis\": \"cut off";
/// How much longer than its parent a bloated child is at least.
const BLOAT: usize = 3;

/// One rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(rename = "rule")]
    effect: RuleKind,
    /// What a child adds to the prompt, on a line of its own.
    #[serde(default)]
    text: Option<String>,
    /// What it removes from it.
    #[serde(default)]
    remove: Option<String>,
    /// It applies only where this occurs in an output of the worst cells or in a judge's reason.
    #[serde(default)]
    when: Option<String>,
    #[serde(default = "one")]
    weight: f64,
    #[serde(default)]
    hypothesis: Option<String>,
    #[serde(default)]
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RuleKind {
    /// Adds what the judges missed.
    Fixing,
    /// Changes words without an effect.
    Neutral,
    /// Makes it worse.
    Harmful,
    /// Copies a scenario into the prompt.
    Copying,
    /// Makes the prompt far too long.
    Bloating,
    /// Loses a variable of the template.
    VariableDropping,
    /// The whole answer cannot be read.
    Malformed,
    /// Proposes nothing.
    Silent,
}

/// What a rule makes.
#[derive(Debug)]
pub enum Made {
    Child(Value),
    Nothing,
    /// This is the whole answer.
    Malformed(String),
}

const fn one() -> f64 {
    1.0
}

impl Rule {
    pub const fn weight(&self) -> f64 {
        self.weight
    }

    /// Whether the rule can be used.
    pub fn check(&self) -> Result<(), String> {
        if !(self.weight.is_finite() && self.weight >= 0.0) {
            return Err(format!("weight is {}: use a number from 0", self.weight));
        }
        let texts = [&self.text, &self.remove, &self.when];
        if texts.into_iter().flatten().any(String::is_empty) {
            return Err("text, remove and when must not be empty: leave them out".to_owned());
        }
        if self.effect == RuleKind::Fixing && self.text.is_none() && self.remove.is_none() {
            return Err("a fixing rule needs text (what it adds) or remove".to_owned());
        }
        Ok(())
    }

    /// Whether the rule has anything to change in this packet's prompt.
    pub fn applies(&self, packet: &Packet) -> bool {
        let prompt = packet.version.as_text();
        let is_new = self.text.as_ref().is_none_or(|text| !prompt.contains(text));
        let is_there = self
            .remove
            .as_ref()
            .is_none_or(|text| prompt.contains(text));
        let is_seen = self
            .when
            .as_ref()
            .is_none_or(|text| is_criticised(packet, text));
        is_new && is_there && is_seen
    }

    pub fn make(&self, packet: &Packet, draws: &mut SplitMix64) -> Made {
        let body = &packet.version.body;
        let (template, hypothesis) = match self.effect {
            RuleKind::Silent => return Made::Nothing,
            RuleKind::Malformed => return Made::Malformed(MALFORMED.to_owned()),
            RuleKind::Fixing => (
                self.edited(body, None),
                "It removes what judges criticised.",
            ),
            RuleKind::Neutral => {
                let sentence = neutral(&packet.version, draws);
                (
                    self.edited(body, Some(&sentence)),
                    "Other words with the same effect.",
                )
            }
            RuleKind::Harmful => (
                self.edited(body, Some(HARMFUL)),
                "Quicker answers may be better.",
            ),
            RuleKind::Copying => (
                self.edited(body, Some(&copied(packet))),
                "An example from the task may help.",
            ),
            RuleKind::Bloating => (bloated(packet), "Saying it more often may help."),
            RuleKind::VariableDropping => {
                (without_variable(packet), "A simpler template may help.")
            }
        };
        let hypothesis = self.hypothesis.as_deref().unwrap_or(hypothesis);
        let hypothesis: String = hypothesis.chars().take(LONGEST_HYPOTHESIS).collect();
        Made::Child(json!({
            "hypothesis": hypothesis,
            "kind": self.kind.as_str(),
            "template": template,
        }))
    }

    /// The body without what is removed, and with the rule's text or `otherwise` at its end.
    fn edited(&self, body: &str, otherwise: Option<&str>) -> String {
        let kept = match &self.remove {
            Some(text) => body.replace(text, ""),
            None => body.to_owned(),
        };
        let otherwise = otherwise.filter(|_| self.remove.is_none());
        match self.text.as_deref().or(otherwise) {
            Some(text) => format!("{}\n{text}", kept.trim_end()),
            None => kept,
        }
    }
}

fn is_criticised(packet: &Packet, text: &str) -> bool {
    let outputs = packet.worst.iter().flat_map(FeedbackCell::outputs);
    let mut texts = outputs.flat_map(|it| [Some(&it.text), it.rationale.as_ref()]);
    texts.any(|it| it.is_some_and(|it| it.contains(text)))
}

/// A sentence that the prompt does not have.
fn neutral(version: &Version, draws: &mut SplitMix64) -> String {
    let start = draws.below(NEUTRAL.len());
    let sentences = NEUTRAL.iter().cycle().skip(start).take(NEUTRAL.len());
    let unused = sentences
        .into_iter()
        .find(|it| !version.body.contains(**it));
    unused.map_or_else(
        || format!("{} ({start})", NEUTRAL[start]),
        |it| (*it).to_owned(),
    )
}

/// The longest text of the scenarios in the packet.
fn copied(packet: &Packet) -> String {
    let cells = packet.worst.iter().chain(&packet.good);
    let fields = cells.flat_map(|cell| cell.fields().values());
    let texts = fields.filter_map(Value::as_str);
    let longest = texts.max_by_key(|text| text.split_whitespace().count());
    format!("For example: {}", longest.unwrap_or_default())
}

fn bloated(packet: &Packet) -> String {
    let body = &packet.version.body;
    let longest = packet.longest.map_or(0, |it| it as usize);
    let most = longest.max(BLOAT * body.chars().count());
    let mut text = body.clone();
    while text.chars().count() <= most {
        text.push_str("\n\nTo say it once more, and in full:\n\n");
        text.push_str(body);
    }
    text
}

/// The template without one of its variables, or without all where none can be taken out alone.
fn without_variable(packet: &Packet) -> String {
    for variable in &packet.variables {
        let body = without_tags_of(&packet.version.body, variable);
        let child = Version::new("child", packet.version.system.as_deref(), &body);
        let kept = child.to_prompt("", None).map(|it| it.variables());
        if kept.is_ok_and(|kept| !kept.contains(variable)) {
            return body;
        }
    }
    "Answer as well as you can.".to_owned()
}

/// The template with every `{{ … }}` that names the variable replaced by its name.
fn without_tags_of(body: &str, variable: &str) -> String {
    let mut out = String::new();
    let mut rest = body;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((tag, next)) = after.split_once("}}") else {
            break;
        };
        out.push_str(before);
        let mut names = tag.split(|c: char| !c.is_alphanumeric() && c != '_');
        if names.any(|name| name == variable) {
            out.push_str(variable);
        } else {
            out.push_str(&format!("{{{{{tag}}}}}"));
        }
        rest = next;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::packet;
    use super::*;

    fn rule(text: &str) -> Rule {
        serde_json::from_str(text).expect("a rule")
    }

    fn made(text: &str, packet: &Packet) -> String {
        match rule(text).make(packet, &mut SplitMix64::new(1)) {
            Made::Child(child) => child["template"].as_str().expect("a text").to_owned(),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn every_rule_makes_what_it_is_called() {
        let packet = packet();
        let body = &packet.version.body;
        assert_eq!(
            made(r#"{"rule":"fixing","text":"Be exact."}"#, &packet),
            format!("{body}\nBe exact.")
        );
        let harmful = made(r#"{"rule":"harmful"}"#, &packet);
        assert_eq!(harmful, format!("{body}\n{HARMFUL}"));
        let neutral = made(r#"{"rule":"neutral"}"#, &packet);
        assert!(NEUTRAL.iter().any(|it| neutral.ends_with(it)), "{neutral}");
        let copying = made(r#"{"rule":"copying"}"#, &packet);
        assert!(
            copying.contains("a nurse who works at night and sleeps by day"),
            "{copying}"
        );
        let bloating = made(r#"{"rule":"bloating"}"#, &packet);
        assert!(bloating.chars().count() > 900, "{}", bloating.len());
        let dropping = made(r#"{"rule":"variable_dropping"}"#, &packet);
        assert_eq!(dropping, body.replace("{{ persona }}", "persona"));
    }

    #[test]
    fn text_can_be_taken_out() {
        let mut packet = packet();
        packet.version.body.push_str("\nAnswer in capitals.");
        let text = r#"{"rule":"fixing","remove":"Answer in capitals."}"#;
        assert!(rule(text).applies(&packet));
        assert_eq!(
            made(text, &packet).trim_end(),
            super::super::super::tests::packet().version.body
        );
        let harmful = made(
            r#"{"rule":"harmful","remove":"Answer in capitals.","text":"Shout."}"#,
            &packet,
        );
        assert!(
            harmful.ends_with("\nShout.") && !harmful.contains("capitals"),
            "{harmful}"
        );
    }

    #[test]
    fn a_rule_applies_where_it_changes_something_that_was_criticised() {
        let packet = packet();
        for (text, applies) in [
            (
                r#"{"rule":"fixing","text":"Be exact.","when":"Too vague"}"#,
                true,
            ),
            (
                r#"{"rule":"fixing","text":"Be exact.","when":"Do it"}"#,
                true,
            ),
            (
                r#"{"rule":"fixing","text":"Be exact.","when":"Too long"}"#,
                false,
            ),
            (r#"{"rule":"fixing","text":"Help {{ persona }}"}"#, false),
            (r#"{"rule":"fixing","remove":"Shout."}"#, false),
            (r#"{"rule":"silent"}"#, true),
        ] {
            assert_eq!(rule(text).applies(&packet), applies, "{text}");
        }
    }

    #[test]
    fn a_variable_that_a_statement_uses_takes_the_whole_template() {
        let mut packet = packet();
        packet.version.body = "{% if persona %}Hi {{ persona }}{% endif %}".to_owned();
        assert_eq!(without_variable(&packet), "Answer as well as you can.");
        packet.variables.push("slot".to_owned());
        packet
            .version
            .body
            .push_str(" at {{ slot | upper }} {{ slot }}");
        let body = without_variable(&packet);
        assert_eq!(
            body,
            "{% if persona %}Hi {{ persona }}{% endif %} at slot slot"
        );
    }
}
