//! A rule as it is written in a task's files, and its compilation.

use serde::Deserialize;
use serde_json::Value;

use super::{CommandRule, Expect, Ignore, Kind, Operand, Rule, Tolerance, language, pointer};

/// A rule in `task.toml` (`[[checks]]`, with a flag) or in a rubric (`[criteria.computed]`): exactly
/// one kind of rule, and what goes with it.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct RuleSource {
    /// Checks only.
    pub flag: Option<String>,
    /// Checks only.
    pub when: Option<crate::check::When>,
    pub reason: Option<String>,
    equals: Option<Value>,
    one_of: Option<Value>,
    contains: Option<Value>,
    contains_any: Option<Value>,
    not_contains: Option<Value>,
    #[serde(alias = "regex")]
    matches: Option<String>,
    not_matches: Option<String>,
    number: Option<Value>,
    tolerance: Option<Value>,
    json_field: Option<String>,
    json_schema: Option<Value>,
    set_f1: Option<Value>,
    similarity: Option<Value>,
    edits: Option<Value>,
    at_most: Option<f64>,
    expect: Option<Expect>,
    bleu: Option<Value>,
    rouge: Option<Value>,
    max_words: Option<usize>,
    min_words: Option<usize>,
    max_chars: Option<usize>,
    language: Option<String>,
    command: Option<Vec<String>>,
    timeout_s: Option<u64>,
    ignore: Option<Vec<Ignore>>,
    at_least: Option<f64>,
}

/// The kinds of rule, as messages list them.
const KINDS: &str = "equals, one_of, contains, contains_any, not_contains, matches, not_matches, number, \
                     json_schema, set_f1, similarity, edits, bleu, rouge, max_words, min_words, max_chars, language";

/// The time that a command has, unless the rule says otherwise.
const COMMAND_TIMEOUT_S: u64 = 10;

/// What a source compiles to.
#[derive(Debug)]
pub enum Compiled {
    Rule(Rule),
    Command(CommandRule),
}

impl RuleSource {
    /// Compiles the rule; `what` names its owner in messages.
    pub fn compile(self, what: &str) -> Result<Compiled, String> {
        let count = self.count();
        if count != 1 {
            return Err(format!(
                "{what} has {count} rules: give it exactly one of {KINDS}, or (computed criteria only) command"
            ));
        }
        self.check_extras(what)?;
        if let Some(command) = &self.command {
            return self.command_rule(what, command).map(Compiled::Command);
        }
        let ignore = self.ignore.clone();
        let contains =
            self.contains.is_some() || self.contains_any.is_some() || self.not_contains.is_some();
        let rule = Rule {
            field: self.json_field.as_deref().map(pointer).transpose()?,
            // Words are looked for in any case unless the rule says otherwise.
            ignore: ignore.unwrap_or_else(|| {
                if contains {
                    vec![Ignore::Case]
                } else {
                    Vec::new()
                }
            }),
            at_least: self.at_least,
            reason: self.reason.clone(),
            kind: self.kind()?,
        };
        if rule.is_fixed() {
            rule.expected(&Value::Null)
                .map_err(|error| format!("{what}: {error}"))?;
        }
        Ok(Compiled::Rule(rule))
    }

    fn count(&self) -> usize {
        let values = [
            &self.equals,
            &self.one_of,
            &self.contains,
            &self.contains_any,
            &self.not_contains,
            &self.number,
            &self.json_schema,
            &self.set_f1,
            &self.similarity,
            &self.edits,
            &self.bleu,
            &self.rouge,
        ];
        let others = [
            self.matches.is_some(),
            self.not_matches.is_some(),
            self.max_words.is_some(),
            self.min_words.is_some(),
            self.max_chars.is_some(),
            self.language.is_some(),
            self.command.is_some(),
            self.expect.is_some(),
        ];
        let values = values.iter().filter(|it| it.is_some()).count();
        values + others.iter().filter(|is_given| **is_given).count()
    }

    /// Keys that mean nothing beside this kind of rule are mistakes.
    fn check_extras(&self, what: &str) -> Result<(), String> {
        let is_graded = self.set_f1.is_some()
            || self.similarity.is_some()
            || self.bleu.is_some()
            || self.rouge.is_some();
        let compares_texts = is_graded
            || self.edits.is_some()
            || [
                &self.equals,
                &self.one_of,
                &self.contains,
                &self.contains_any,
                &self.not_contains,
            ]
            .iter()
            .any(|it| it.is_some());
        let wrong = |key: &str, with: &str| Err(format!("{what}: {key} goes with {with} only"));
        if self.tolerance.is_some() && self.number.is_none() {
            return wrong("tolerance", "number");
        }
        if self.at_most.is_some() != self.edits.is_some() {
            return Err(format!("{what}: edits and at_most belong together"));
        }
        if self.at_most.is_some_and(|it| !(0.0..=1e6).contains(&it)) {
            return Err(format!("{what}: at_most must be a whole number from 0"));
        }
        if self.expect.is_some() && self.json_field.is_some() {
            return Err(format!(
                "{what}: json_field goes with the scenario's own rules, not with expect"
            ));
        }
        if self.timeout_s.is_some() && self.command.is_none() {
            return wrong("timeout_s", "command");
        }
        if self.at_least.is_some() && !is_graded {
            return wrong("at_least", "set_f1, similarity, bleu and rouge");
        }
        if self.at_least.is_some_and(|it| !(it > 0.0 && it <= 1.0)) {
            return Err(format!("{what}: at_least must be above 0 and at most 1"));
        }
        if self.ignore.is_some() && !compares_texts {
            return wrong("ignore", "rules that compare texts");
        }
        if self.json_field.is_some() && self.command.is_some() {
            return Err(format!(
                "{what}: json_field does not go with command, which gets the whole candidate"
            ));
        }
        Ok(())
    }

    fn command_rule(&self, what: &str, command: &[String]) -> Result<CommandRule, String> {
        if command
            .first()
            .is_none_or(|program| program.trim().is_empty())
        {
            return Err(format!(
                "{what}: command is empty: write [\"PROGRAM\", \"ARGUMENT\", …]"
            ));
        }
        let timeout_s = self.timeout_s.unwrap_or(COMMAND_TIMEOUT_S);
        if !(1..=3600).contains(&timeout_s) {
            return Err(format!("{what}: timeout_s must be 1 to 3600"));
        }
        Ok(CommandRule {
            command: command.to_vec(),
            timeout_s,
        })
    }

    fn kind(self) -> Result<Kind, String> {
        let operand = |value: Option<Value>| value.map(Operand::parse).transpose();
        let pattern = |text: Option<String>| text.map(|it| pattern(&it)).transpose();
        if let Some(it) = operand(self.equals)? {
            return Ok(Kind::Equals(it));
        }
        if let Some(it) = operand(self.one_of)? {
            return Ok(Kind::OneOf(it));
        }
        if let Some(it) = operand(self.contains)? {
            return Ok(Kind::Contains(it));
        }
        if let Some(it) = operand(self.contains_any)? {
            return Ok(Kind::ContainsAny(it));
        }
        if let Some(it) = operand(self.not_contains)? {
            return Ok(Kind::NotContains(it));
        }
        if let Some(it) = pattern(self.matches)? {
            return Ok(Kind::Matches(it));
        }
        if let Some(it) = pattern(self.not_matches)? {
            return Ok(Kind::NotMatches(it));
        }
        if let Some(it) = operand(self.number)? {
            return Ok(Kind::Number(it, tolerance(self.tolerance)?));
        }
        if let Some(schema) = self.json_schema {
            let validator = jsonschema::validator_for(&schema)
                .map_err(|error| format!("not a JSON schema: {error}"))?;
            return Ok(Kind::JsonSchema(Box::new(validator)));
        }
        if let Some(it) = operand(self.set_f1)? {
            return Ok(Kind::SetF1(it));
        }
        if let Some(expect) = self.expect {
            return Ok(Kind::Own(expect));
        }
        if let Some(it) = operand(self.edits)? {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it was checked to be from 0 to a million"
            )]
            let most = self.at_most.unwrap_or_default() as usize;
            return Ok(Kind::Edits(it, most));
        }
        if let Some(it) = operand(self.similarity)? {
            return Ok(Kind::Similarity(it));
        }
        if let Some(it) = operand(self.bleu)? {
            return Ok(Kind::Bleu(it));
        }
        if let Some(it) = operand(self.rouge)? {
            return Ok(Kind::Rouge(it));
        }
        if let Some(code) = self.language {
            return Ok(Kind::Language(language::detectable(&code)?));
        }
        let counted = self.max_words.map(Kind::MaxWords);
        let counted = counted.or(self.min_words.map(Kind::MinWords));
        counted
            .or(self.max_chars.map(Kind::MaxChars))
            .ok_or_else(|| "it has no rule".to_owned())
    }
}

fn pattern(text: &str) -> Result<super::Pattern, String> {
    if text.is_empty() {
        return Err("the regular expression is empty, and every answer matches it".to_owned());
    }
    let operand = Operand::parse(Value::from(text))?;
    if operand.is_fixed() {
        super::regex(text).map(super::Pattern::Fixed)
    } else {
        Ok(super::Pattern::Filled(operand))
    }
}

fn tolerance(value: Option<Value>) -> Result<Tolerance, String> {
    let wrong = || "tolerance must be a number from 0, or a percentage such as \"5 %\"".to_owned();
    let Some(value) = value else {
        return Ok(Tolerance::Absolute(0.0));
    };
    let found = match &value {
        Value::String(text) => {
            let percent = text.trim().strip_suffix('%').ok_or_else(wrong)?;
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            Tolerance::Relative(percent / 100.0)
        }
        other => Tolerance::Absolute(other.as_f64().ok_or_else(wrong)?),
    };
    let (Tolerance::Absolute(size) | Tolerance::Relative(size)) = found;
    (size >= 0.0 && size.is_finite())
        .then_some(found)
        .ok_or_else(wrong)
}
