//! The rules that a scenario brings itself, under `expect`.
//!
//! Rules of a rubric are the same for every scenario and only compare with other values. Where the
//! scenarios are checked in different ways, each has a list of rules of its own, and a criterion
//! scores how many of them hold.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Compiled, Expected, Measure, Outcome, Rule, RuleSource, Subject};

/// The scenario's key for its rules.
pub const EXPECT: &str = "expect";
/// Shares that differ by less are equal: sums of weights in another order.
const SAME: f64 = 1e-9;
/// The most rules of a scenario.
const MOST_RULES: usize = 1_000;

/// What a criterion makes of the scenario's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// 1 where all of them hold, or where the share reaches `at_least`; otherwise 0.
    All,
    /// The share that holds, by weight.
    Share,
}

/// The rules of one scenario.
#[derive(Debug)]
pub struct OwnRules {
    rules: Vec<OwnRule>,
    at_least: Option<f64>,
}

#[derive(Debug)]
struct OwnRule {
    rule: Rule,
    /// What it compares with, filled in.
    expected: Expected,
    is_not: bool,
    weight: f64,
}

impl OwnRules {
    /// Compiles the rules in a scenario's context: a list of rules, or `{rules, at_least}`.
    pub fn read(context: &Value) -> Result<Self, String> {
        let Some(value) = context.get(EXPECT) else {
            return Err("the scenario has no rules of its own: add expect = [{ … }]".to_owned());
        };
        let (list, at_least) = match value {
            Value::Object(object) => (object.get("rules"), object.get("at_least")),
            other => (Some(other), None),
        };
        let Some(Value::Array(list)) = list else {
            return Err("expect is not a list of rules".to_owned());
        };
        if list.len() > MOST_RULES {
            return Err(format!(
                "expect has {} rules: at most {MOST_RULES}",
                list.len()
            ));
        }
        let at_least = at_least.map(|it| it.as_f64().ok_or("at_least of expect is not a number"));
        let rules = list.iter().zip(1..).map(|(it, number)| {
            // What a scenario cannot fill in is its fault, not the candidate's.
            let read = OwnRule::read(it, number, context);
            read.map_err(|error| format!("rule {number} of expect: {error}"))
        });
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
            at_least: at_least.transpose()?,
        })
    }

    /// Measures a candidate with all of them.
    pub fn measure(&self, subject: &Subject<'_>, expect: Expect) -> Outcome {
        let (mut held, mut all) = (0.0, 0.0);
        let mut faults = Vec::new();
        for it in &self.rules {
            let outcome = it.measure(subject);
            all += it.weight;
            held += it.weight * outcome.share;
            faults.extend(outcome.why);
        }
        let share = if all > 0.0 { held / all } else { 1.0 };
        let holds = match self.at_least {
            Some(least) => share >= least - SAME,
            None => faults.is_empty(),
        };
        Outcome {
            share: match expect {
                Expect::All => f64::from(u8::from(holds)),
                Expect::Share => share,
            },
            why: (!faults.is_empty()).then(|| faults.join("; ")),
        }
    }
}

impl OwnRule {
    fn read(value: &Value, number: usize, context: &Value) -> Result<Self, String> {
        let Value::Object(source) = value else {
            return Err("it is not a table".to_owned());
        };
        let mut source: Map<String, Value> = source.clone();
        let is_not = match source.shift_remove("not") {
            None => false,
            Some(Value::Bool(is_not)) => is_not,
            Some(other) => return Err(format!("not is {other}: use true or false")),
        };
        let weight = match source.shift_remove("weight") {
            None => Some(1.0),
            Some(weight) => weight.as_f64().filter(|it| it.is_finite() && *it >= 0.0),
        };
        let weight = weight.ok_or("weight must be a number from 0")?;
        let source: RuleSource =
            serde_json::from_value(Value::Object(source)).map_err(|error| error.to_string())?;
        match source.compile(&format!("rule {number}"))? {
            Compiled::Rule(rule) if rule.is_own() => Err("expect cannot contain expect".to_owned()),
            Compiled::Rule(rule) => Ok(Self {
                expected: rule.expected(context)?,
                rule,
                is_not,
                weight,
            }),
            Compiled::Command(_) => {
                Err("a command belongs to a criterion of the rubric".to_owned())
            }
        }
    }

    fn measure(&self, subject: &Subject<'_>) -> Outcome {
        let outcome = Measure::new(&self.rule, &self.expected).of(subject);
        if !self.is_not {
            return outcome;
        }
        Outcome::holds_if(!outcome.holds(), || "a rule holds that must not".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured(expect: &Value, text: &str) -> (f64, f64) {
        let rules = OwnRules::read(&json!({"expect": expect, "city": "Graz"})).unwrap();
        let subject = Subject::new(text);
        let of = |expect| rules.measure(&subject, expect).share;
        (of(Expect::All), of(Expect::Share))
    }

    #[test]
    fn all_and_share_follow_weights_and_thresholds() {
        let rules =
            json!([{"contains": "{{ city }}", "weight": 3}, {"matches": "[0-9]", "not": true}]);
        assert_eq!(measured(&rules, "in Graz"), (1.0, 1.0));
        assert_eq!(measured(&rules, "in Graz 8010"), (0.0, 0.75));
        assert_eq!(measured(&rules, "in Linz 4020"), (0.0, 0.0));
        let enough = json!({"rules": rules, "at_least": 0.75});
        assert_eq!(measured(&enough, "in Graz 8010"), (1.0, 0.75));
        assert_eq!(measured(&json!([]), "anything"), (1.0, 1.0));
        let edits = json!([{"edits": "kitten", "at_most": 2}]);
        assert_eq!(measured(&edits, "mittens"), (1.0, 1.0));
        assert_eq!(measured(&edits, "sitting"), (0.0, 0.0));
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |context| OwnRules::read(&context).unwrap_err();
        assert!(wrong(json!({})).contains("no rules of its own"));
        assert!(wrong(json!({"expect": "x"})).contains("not a list"));
        let message = wrong(json!({"expect": [{"contains": "a"}, {"contains": "a", "wieght": 1}]}));
        assert!(
            message.contains("rule 2 of expect") && message.contains("wieght"),
            "{message}"
        );
        assert!(wrong(json!({"expect": [{"command": ["x"]}]})).contains("belongs to a criterion"));
        assert!(wrong(json!({"expect": [{"expect": "all"}]})).contains("cannot contain"));
    }
}
