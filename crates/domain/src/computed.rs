//! Computed criteria: scores that need no judge.
//!
//! A criterion of the rubric with a table `computed` is scored by a rule ([`crate::rule`]) or by a
//! command of the user, never by a judge. A rule gives a share from 0 to 1, which becomes a score
//! from the criterion's `min` to its `max`. A command answers in the criterion's own scale.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::candidate::Candidate;
use crate::check::{Checked, Checks, FilledChecks};
use crate::judge::{self, Judge, Tier};
use crate::prompt::short_hash;
use crate::rubric::Rubric;
use crate::rule::{CommandRule, FilledRule, Rule, Subject};
use crate::verdict::{RubricRef, Verdict, VerdictFile};

/// A criterion that is computed.
#[derive(Debug)]
pub struct ComputedCriterion {
    pub name: String,
    pub question: String,
    pub min: i64,
    pub max: i64,
    pub by: By,
}

/// What computes it.
#[derive(Debug)]
pub enum By {
    Rule(Rule),
    Command(CommandRule),
}

impl ComputedCriterion {
    /// The score of a share from 0 to 1.
    pub fn score(&self, share: f64) -> f64 {
        let (min, max) = (self.min as f64, self.max as f64);
        min + share * (max - min)
    }

    pub fn command(&self) -> Option<&CommandRule> {
        match &self.by {
            By::Command(command) => Some(command),
            By::Rule(_) => None,
        }
    }
}

/// What was computed about one candidate.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Computed {
    /// Without the criteria that could not be computed.
    pub scores: BTreeMap<String, f64>,
    /// Those criteria.
    pub not_computed: Vec<String>,
    pub flags: BTreeMap<String, bool>,
    /// Why rules do not hold, and what could not be computed.
    pub reasons: Vec<String>,
}

/// Runs a command on `{"candidate": "…", "context": {…}}`; answers what it printed, as JSON, or the
/// reason why there is nothing.
pub type RunCommand<'a> = &'a dyn Fn(&CommandRule, &Value) -> Result<Value, String>;

/// What a command printed: a number, `{"score": N, "reason": "…"}`, or
/// `{"scores": {"NAME": N}, "reasons": {"NAME": "…"}}` for several criteria.
fn read_answer(
    criterion: &ComputedCriterion,
    answer: &Value,
) -> Result<(f64, Option<String>), String> {
    let name = &criterion.name;
    let named = |list: &str| answer.get(list).and_then(|it| it.get(name));
    let score = answer.as_f64();
    let score = score.or_else(|| answer.get("score").and_then(Value::as_f64));
    let score = score.or_else(|| named("scores").and_then(Value::as_f64));
    let score = score.ok_or_else(|| {
        format!(
            "the command printed no score: print a number, {{\"score\": N}} or \
             {{\"scores\": {{\"{name}\": N}}}}"
        )
    })?;
    if !(criterion.min as f64..=criterion.max as f64).contains(&score) {
        return Err(format!(
            "the command's score is {score}, but {name} runs from {} to {}",
            criterion.min, criterion.max
        ));
    }
    let reason = named("reasons").or_else(|| answer.get("reason"));
    let reason = reason.and_then(Value::as_str).map(one_line);
    Ok((score, reason.filter(|it| !it.is_empty())))
}

/// The output of a program, fit for one line.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let kept = words.join(" ");
    kept.chars().filter(|c| !c.is_control()).take(300).collect()
}

/// The computed criteria and the checks with what they compare with, for the candidates of one
/// scenario.
#[derive(Debug)]
pub struct Scorer<'a> {
    criteria: Vec<(&'a ComputedCriterion, Result<Filled<'a>, String>)>,
    checks: FilledChecks<'a>,
    context: &'a Value,
}

#[derive(Debug)]
enum Filled<'a> {
    Rule(FilledRule<'a>),
    Command(&'a CommandRule),
}

impl<'a> Scorer<'a> {
    /// Fills in a scenario; `context` holds its fields and its reference.
    pub fn new(rubric: &'a Rubric, checks: &'a Checks, context: &'a Value) -> Self {
        let criteria = rubric.computed.iter().map(|criterion| {
            let filled = match &criterion.by {
                By::Rule(rule) => rule.fill(context).map(Filled::Rule),
                By::Command(command) => Ok(Filled::Command(command)),
            };
            (criterion, filled)
        });
        Self {
            criteria: criteria.collect(),
            checks: checks.fill(context),
            context,
        }
    }

    /// Everything that rules and commands say about a candidate.
    pub fn score(&self, text: &str, run: RunCommand<'_>) -> Computed {
        let subject = Subject::new(text);
        let Checked { flags, reasons } = self.checks.apply(&subject);
        let mut computed = Computed {
            flags,
            reasons,
            ..Computed::default()
        };
        let mut answers = Answers {
            candidate: text,
            context: self.context,
            run,
            known: Vec::new(),
        };
        for (criterion, filled) in &self.criteria {
            let found = match filled {
                Ok(Filled::Rule(rule)) => {
                    let outcome = rule.measure(&subject);
                    Ok((criterion.score(outcome.share), outcome.why))
                }
                Ok(Filled::Command(command)) => {
                    let answer = answers.of(command);
                    answer.and_then(|answer| read_answer(criterion, &answer))
                }
                Err(error) => Err(error.clone()),
            };
            computed.add(&criterion.name, found);
        }
        computed
    }

    /// What the rules compare with and the scenario does not have, by criterion or flag.
    pub fn faults(&self) -> impl Iterator<Item = (&str, &str)> {
        let criteria = self.criteria.iter().filter_map(|(criterion, filled)| {
            Some((criterion.name.as_str(), filled.as_ref().err()?.as_str()))
        });
        criteria.chain(self.checks.faults())
    }
}

/// The answers of commands about one candidate. Criteria with the same command share one run of it.
struct Answers<'a> {
    candidate: &'a str,
    context: &'a Value,
    run: RunCommand<'a>,
    known: Vec<(&'a CommandRule, Result<Value, String>)>,
}

impl<'a> Answers<'a> {
    fn of(&mut self, command: &'a CommandRule) -> Result<Value, String> {
        if let Some((_, answer)) = self.known.iter().find(|(known, _)| *known == command) {
            return answer.clone();
        }
        let input = json!({"candidate": self.candidate, "context": self.context});
        let answer = (self.run)(command, &input);
        self.known.push((command, answer.clone()));
        answer
    }
}

impl Computed {
    fn add(&mut self, name: &str, found: Result<(f64, Option<String>), String>) {
        let why = match found {
            Ok((score, why)) => {
                self.scores.insert(name.to_owned(), score);
                why
            }
            Err(error) => {
                self.not_computed.push(name.to_owned());
                Some(format!("not computed: {error}"))
            }
        };
        self.reasons.extend(why.map(|why| format!("{name}: {why}")));
    }
}

/// A score as it is stored: whole numbers without a fraction.
pub fn score_json(score: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "scores are small")]
    let whole = score as i64;
    if (whole as f64).to_bits() == score.to_bits() {
        json!(whole)
    } else {
        json!(score)
    }
}

/// The id under which computed verdicts are stored: they belong to no sitting, and there is one set
/// of them for a rubric.
pub fn sitting_id(rubric: &Rubric) -> String {
    format!("{}-{}", judge::COMPUTED, short_hash(&rubric.sha256))
}

/// The verdicts on a run whose rubric asks nothing of a judge. `None` where a judge is asked, or
/// where something could not be computed: the run then stays pending.
pub fn verdict_file(
    rubric: &Rubric,
    candidates: &[Candidate],
    judged_at: &str,
) -> Option<VerdictFile> {
    if rubric.needs_judge() {
        return None;
    }
    let with_text = candidates.iter().filter(|it| it.text.is_some());
    let verdicts: Vec<Verdict> = with_text
        .map(|it| verdict(rubric, it))
        .collect::<Option<_>>()?;
    (!verdicts.is_empty()).then(|| VerdictFile {
        sitting: sitting_id(rubric),
        tier: Tier::of_kind(judge::COMPUTED),
        judge: Judge {
            kind: judge::COMPUTED.to_owned(),
            name: "rules".to_owned(),
            version: None,
        },
        rubric: RubricRef {
            id: rubric.id.clone(),
            sha256: rubric.sha256.clone(),
        },
        judged_at: judged_at.to_owned(),
        verdicts,
        usage: None,
        amends: None,
    })
}

fn verdict(rubric: &Rubric, candidate: &Candidate) -> Option<Verdict> {
    let mut scores = BTreeMap::new();
    for flag in &rubric.flags {
        let value = candidate.flags.get(&flag.name)?;
        scores.insert(flag.name.clone(), json!(value));
    }
    let reasons = candidate.reasons.join("; ");
    Verdict::new(
        rubric,
        candidate.index,
        scores,
        &candidate.scores,
        Some(reasons),
    )
    .ok()
}
