//! Mechanical checks: flags that are computed, not judged.
//!
//! A check is one rule about a candidate's text that feeds one flag. A flag is set when all
//! its rules hold; with `when = "fails"` it is set when any of its rules fails.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::problem::{Problem, line_of};

/// The checks of a task, compiled.
#[derive(Debug, Default)]
pub struct Checks(Vec<Check>);

#[derive(Debug)]
struct Check {
    flag: String,
    when: When,
    rule: Rule,
    reason: Option<String>,
}

/// Which outcome of the rule sets the flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum When {
    #[default]
    Holds,
    Fails,
}

#[derive(Debug)]
enum Rule {
    Matches(regex::Regex),
    NotMatches(regex::Regex),
    Contains(Vec<String>),
    NotContains(Vec<String>),
    JsonSchema(Box<jsonschema::Validator>),
    MaxWords(usize),
    MinWords(usize),
    MaxChars(usize),
    Language(whatlang::Lang),
}

/// A check as it stands in `task.toml`: a flag and exactly one rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckSource {
    pub flag: String,
    #[serde(default)]
    pub when: When,
    pub reason: Option<String>,
    matches: Option<String>,
    not_matches: Option<String>,
    contains: Option<Vec<String>>,
    not_contains: Option<Vec<String>>,
    json_schema: Option<Value>,
    max_words: Option<usize>,
    min_words: Option<usize>,
    max_chars: Option<usize>,
    language: Option<String>,
}

impl Checks {
    /// Compiles the checks of `task.toml` (whose text is `text`); `flags` are the rubric's.
    pub fn compile(
        file: &str,
        text: &str,
        sources: Vec<CheckSource>,
        flags: &[&str],
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut checks: Vec<Check> = Vec::new();
        let headers = text
            .match_indices("[[checks]]")
            .map(|(at, _)| crate::problem::line_at(text, at));
        let mut lines = headers
            .map(Some)
            .chain(std::iter::repeat(line_of(text, "checks")));
        for source in sources {
            let line = lines.next().flatten();
            let mut say = |message: String| problems.push(Problem::new(file, line, message));
            if !flags.contains(&source.flag.as_str()) {
                say(format!(
                    "the rubric has no flag '{}': use one of {}",
                    source.flag,
                    flags.join(", ")
                ));
            }
            if checks
                .iter()
                .any(|it| it.flag == source.flag && it.when != source.when)
            {
                say(format!(
                    "the checks of '{}' differ in `when`: a flag's checks must agree",
                    source.flag
                ));
            }
            match source.compile() {
                Ok(check) => checks.push(check),
                Err(message) => say(message),
            }
        }
        if problems.is_empty() {
            Ok(Self(checks))
        } else {
            Err(problems)
        }
    }

    /// The value of every flag that has a check.
    pub fn flags(&self, text: &str) -> BTreeMap<String, bool> {
        let mut flags = BTreeMap::new();
        for check in &self.0 {
            let holds = check.rule.holds(text);
            let flag = flags
                .entry(check.flag.clone())
                .or_insert(check.when == When::Holds);
            match check.when {
                When::Holds => *flag &= holds,
                When::Fails => *flag |= !holds,
            }
        }
        flags
    }

    /// The reasons of the rules that `text` breaks, for people.
    pub fn reasons<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let broken = self.0.iter().filter(move |check| !check.rule.holds(text));
        broken.filter_map(|check| check.reason.as_deref())
    }
}

impl CheckSource {
    fn compile(self) -> Result<Check, String> {
        let pattern = |text: String| {
            regex::Regex::new(&text).map_err(|error| format!("not a regular expression: {error}"))
        };
        let mut rules = Vec::new();
        if let Some(text) = self.matches {
            rules.push(Rule::Matches(pattern(text)?));
        }
        if let Some(text) = self.not_matches {
            rules.push(Rule::NotMatches(pattern(text)?));
        }
        rules.extend(self.contains.map(|list| Rule::Contains(lower(list))));
        rules.extend(self.not_contains.map(|list| Rule::NotContains(lower(list))));
        if let Some(schema) = self.json_schema {
            let validator = jsonschema::validator_for(&schema)
                .map_err(|error| format!("not a JSON schema: {error}"))?;
            rules.push(Rule::JsonSchema(Box::new(validator)));
        }
        rules.extend(self.max_words.map(Rule::MaxWords));
        rules.extend(self.min_words.map(Rule::MinWords));
        rules.extend(self.max_chars.map(Rule::MaxChars));
        if let Some(code) = self.language {
            rules.push(Rule::Language(language(&code)?));
        }
        let count = rules.len();
        let Some(rule) = rules.pop().filter(|_| count == 1) else {
            return Err(format!(
                "the check of '{}' has {count} rules: give it exactly one of matches, not_matches, contains, \
                 not_contains, json_schema, max_words, min_words, max_chars, language",
                self.flag
            ));
        };
        Ok(Check {
            flag: self.flag,
            when: self.when,
            rule,
            reason: self.reason,
        })
    }
}

impl Rule {
    fn holds(&self, text: &str) -> bool {
        match self {
            Self::Matches(pattern) => pattern.is_match(text),
            Self::NotMatches(pattern) => !pattern.is_match(text),
            Self::Contains(list) => {
                let text = text.to_lowercase();
                list.iter().all(|word| text.contains(word))
            }
            Self::NotContains(list) => {
                let text = text.to_lowercase();
                !list.iter().any(|word| text.contains(word))
            }
            Self::JsonSchema(validator) => {
                serde_json::from_str(text).is_ok_and(|value: Value| validator.is_valid(&value))
            }
            Self::MaxWords(most) => text.split_whitespace().count() <= *most,
            Self::MinWords(least) => text.split_whitespace().count() >= *least,
            Self::MaxChars(most) => text.chars().count() <= *most,
            // Short texts are hard to tell apart, so only a sure detection counts against one.
            Self::Language(wanted) => whatlang::detect(text)
                .is_none_or(|found| found.lang() == *wanted || !found.is_reliable()),
        }
    }
}

fn lower(list: Vec<String>) -> Vec<String> {
    list.into_iter().map(|word| word.to_lowercase()).collect()
}

fn language(code: &str) -> Result<whatlang::Lang, String> {
    const CODES: [(&str, &str); 24] = [
        ("ar", "ara"),
        ("cs", "ces"),
        ("da", "dan"),
        ("de", "deu"),
        ("el", "ell"),
        ("en", "eng"),
        ("es", "spa"),
        ("fi", "fin"),
        ("fr", "fra"),
        ("he", "heb"),
        ("hi", "hin"),
        ("hu", "hun"),
        ("it", "ita"),
        ("ja", "jpn"),
        ("ko", "kor"),
        ("nb", "nob"),
        ("nl", "nld"),
        ("pl", "pol"),
        ("pt", "por"),
        ("ru", "rus"),
        ("sv", "swe"),
        ("tr", "tur"),
        ("uk", "ukr"),
        ("zh", "cmn"),
    ];
    let three = CODES
        .iter()
        .find(|(two, _)| *two == code)
        .map_or(code, |(_, three)| three);
    whatlang::Lang::from_code(three).ok_or_else(|| {
        format!("'{code}' is not a language that can be detected: use an ISO 639 code such as en")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(toml: &str) -> Result<Checks, Vec<Problem>> {
        #[derive(Deserialize)]
        struct File {
            checks: Vec<CheckSource>,
        }
        let file: File = toml::from_str(toml).expect("TOML");
        Checks::compile("task.toml", toml, file.checks, &["ok", "long"])
    }

    fn flag(rule: &str, text: &str) -> bool {
        let checks = checks(&format!("[[checks]]\nflag = \"ok\"\n{rule}\n")).expect("sound");
        checks.flags(text)["ok"]
    }

    #[test]
    fn each_rule_decides() {
        for (rule, holds, fails) in [
            ("matches = '^[A-Z]'", "Walk", "walk"),
            ("not_matches = '\\n'", "one line", "two\nlines"),
            ("contains = ['Walk', 'rest']", "WALK then rest", "walk"),
            ("not_contains = ['sure']", "walk", "Sure, walk"),
            (
                "json_schema = { type = 'object', required = ['tip'] }",
                "{\"tip\":1}",
                "[]",
            ),
            ("max_words = 2", "a b", "a b c"),
            ("min_words = 2", "a b", "a"),
            ("max_chars = 3", "äöü", "äöüß"),
            (
                "language = 'en'",
                "Take a short walk before the meeting and bring the report.",
                "Mach vor der Besprechung einen kurzen Spaziergang und nimm den Bericht mit.",
            ),
        ] {
            assert!(flag(rule, holds), "{rule} should hold for {holds}");
            assert!(!flag(rule, fails), "{rule} should fail for {fails}");
        }
    }

    #[test]
    fn a_flag_can_be_set_by_failure() {
        let checks = checks(
            "[[checks]]\nflag = \"long\"\nwhen = \"fails\"\nmax_words = 1\nreason = \"too long\"\n",
        )
        .expect("sound");
        assert!(!checks.flags("a")["long"]);
        assert!(checks.flags("a b")["long"]);
        assert_eq!(checks.reasons("a b").collect::<Vec<_>>(), ["too long"]);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let check = |toml, expected: &str| {
            let problems = checks(toml).expect_err(toml);
            assert!(
                problems[0].to_string().contains(expected),
                "{}",
                problems[0]
            );
        };
        check(
            "[[checks]]\nflag = \"nope\"\nmax_words = 1\n",
            "task.toml:1: the rubric has no flag 'nope'",
        );
        check("[[checks]]\nflag = \"ok\"\n", "has 0 rules");
        check(
            "[[checks]]\nflag = \"ok\"\nmax_words = 1\nmin_words = 1\n",
            "has 2 rules",
        );
        check(
            "[[checks]]\nflag = \"ok\"\nmatches = '('\n",
            "not a regular expression",
        );
        check(
            "[[checks]]\nflag = \"ok\"\nlanguage = 'xx'\n",
            "not a language",
        );
    }
}
