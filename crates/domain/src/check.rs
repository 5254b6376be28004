//! Mechanical checks: flags that are computed, not judged.
//!
//! A check is one rule about a candidate's text ([`crate::rule`]) that feeds one flag. A flag is set
//! when all its rules hold; with `when = "fails"` it is set when any of its rules fails.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::problem::{Problem, line_of};
use crate::rule::{Compiled, FilledRule, Rule, RuleSource, Subject};

/// The checks of a task, compiled.
#[derive(Debug, Default)]
pub struct Checks(Vec<Check>);

#[derive(Debug)]
struct Check {
    flag: String,
    when: When,
    rule: Rule,
}

/// Which outcome of the rule sets the flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum When {
    #[default]
    Holds,
    Fails,
}

/// The checks with what they compare with, for the candidates of one scenario.
#[derive(Debug)]
pub struct FilledChecks<'a>(Vec<(&'a Check, Result<FilledRule<'a>, String>)>);

/// What the checks say about a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// The value of every flag that has a check.
    pub flags: BTreeMap<String, bool>,
    /// Why rules do not hold, for people.
    pub reasons: Vec<String>,
}

impl Checks {
    /// Compiles the checks of `task.toml` (whose text is `text`); `flags` are the rubric's.
    pub fn compile(
        file: &str,
        text: &str,
        sources: Vec<RuleSource>,
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
            let Some(flag) = source.flag.clone() else {
                say("the check has no flag: name the flag of the rubric that it sets".to_owned());
                continue;
            };
            if !flags.contains(&flag.as_str()) {
                say(format!(
                    "the rubric has no flag '{flag}': use one of {}",
                    flags.join(", ")
                ));
            }
            let when = source.when.unwrap_or_default();
            if checks.iter().any(|it| it.flag == flag && it.when != when) {
                say(format!(
                    "the checks of '{flag}' differ in `when`: a flag's checks must agree"
                ));
            }
            match source.compile(&format!("the check of '{flag}'")) {
                Ok(Compiled::Rule(rule)) => checks.push(Check { flag, when, rule }),
                Ok(Compiled::Command(_)) => say(format!(
                    "the check of '{flag}' is a command: only computed criteria of the rubric can run one"
                )),
                Err(message) => say(message),
            }
        }
        if problems.is_empty() {
            Ok(Self(checks))
        } else {
            Err(problems)
        }
    }

    /// Fills in a scenario: its fields and its reference, as judges see them.
    pub fn fill(&self, context: &Value) -> FilledChecks<'_> {
        let filled = self.0.iter().map(|check| (check, check.rule.fill(context)));
        FilledChecks(filled.collect())
    }

    /// Whether a check sets this flag.
    pub fn sets(&self, flag: &str) -> bool {
        self.0.iter().any(|check| check.flag == flag)
    }
}

impl FilledChecks<'_> {
    /// Applies every check to a candidate.
    pub fn apply(&self, subject: &Subject<'_>) -> Checked {
        let mut checked = Checked::default();
        for (check, rule) in &self.0 {
            let (holds, why) = match rule {
                Ok(rule) => {
                    let outcome = rule.measure(subject);
                    let name_flag = |why| {
                        if rule.has_own_reason() {
                            why
                        } else {
                            format!("{}: {why}", check.flag)
                        }
                    };
                    (outcome.holds(), outcome.why.map(name_flag))
                }
                Err(error) => (false, Some(format!("{}: {error}", check.flag))),
            };
            checked.reasons.extend(why);
            let flag = checked
                .flags
                .entry(check.flag.clone())
                .or_insert(check.when == When::Holds);
            match check.when {
                When::Holds => *flag &= holds,
                When::Fails => *flag |= !holds,
            }
        }
        checked
    }

    /// The scenario's faults: what rules compare with and it does not have.
    pub fn faults(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter();
        all.filter_map(|(check, rule)| Some((check.flag.as_str(), rule.as_ref().err()?.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(toml: &str) -> Result<Checks, Vec<Problem>> {
        #[derive(Deserialize)]
        struct File {
            checks: Vec<RuleSource>,
        }
        let file: File = toml::from_str(toml).expect("TOML");
        Checks::compile("task.toml", toml, file.checks, &["ok", "long"])
    }

    fn apply(checks: &Checks, text: &str) -> Checked {
        checks.fill(&Value::Null).apply(&Subject::new(text))
    }

    fn flag(rule: &str, text: &str) -> bool {
        let checks = checks(&format!("[[checks]]\nflag = \"ok\"\n{rule}\n")).expect("sound");
        apply(&checks, text).flags["ok"]
    }

    #[test]
    fn all_rules_of_a_flag_must_hold() {
        let rules = "max_words = 2\n[[checks]]\nflag = \"ok\"\nmin_words = 2";
        assert!(flag(rules, "a b"));
        assert!(!flag(rules, "a") && !flag(rules, "a b c"));
    }

    #[test]
    fn a_flag_can_be_set_by_failure() {
        let checks = checks(
            "[[checks]]\nflag = \"long\"\nwhen = \"fails\"\nmax_words = 1\nreason = \"too long\"\n",
        )
        .expect("sound");
        assert!(!apply(&checks, "a").flags["long"]);
        assert!(apply(&checks, "a b").flags["long"]);
        assert_eq!(apply(&checks, "a b").reasons, ["too long"]);
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
            "[[checks]]\nmax_words = 1\n",
            "task.toml:1: the check has no flag",
        );
        check(
            "[[checks]]\nflag = \"ok\"\ncommand = [\"true\"]\n",
            "only computed criteria",
        );
    }
}
