//! Verdicts as a judge hands them in, one case at a time or a few.
//!
//! Agent sessions, the terminal and the web page all send the same small object. Checking reports
//! every problem at once, each with a JSON pointer into the list, in the same words as for a judge
//! file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::case::{FileProblem, read_score};
use crate::rubric::Rubric;
use crate::verdict::Verdict;

/// One judge's scores for one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The case's opaque id.
    pub case: String,
    /// Every criterion as a whole number; flags only where they differ from what was prefilled.
    pub scores: Map<String, Value>,
    #[serde(default)]
    pub rationale: Option<String>,
}

/// A case that the judge holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldCase<'a> {
    pub run_id: &'a str,
    pub candidate: u32,
    /// What the mechanical checks prefilled.
    pub flags: &'a BTreeMap<String, bool>,
    /// What was computed, which judges are not asked.
    pub computed: &'a BTreeMap<String, f64>,
}

/// Checks all of them, and returns the verdicts with the runs that they belong to.
pub fn check<'a>(
    submissions: &[Submission],
    rubric: &Rubric,
    held: impl Fn(&str) -> Option<HeldCase<'a>>,
) -> Result<Vec<(&'a str, Verdict)>, Vec<FileProblem>> {
    let mut problems = Vec::new();
    let mut verdicts = Vec::new();
    let mut seen = BTreeSet::new();
    for (position, submission) in submissions.iter().enumerate() {
        let id = &submission.case;
        let mut say = |place: &str, message: String| {
            problems.push(FileProblem {
                pointer: format!("/{position}/{place}"),
                message,
            });
        };
        let Some(case) = held(id) else {
            let message =
                "is not a case that this sitting holds: take the next cases and keep their ids";
            say("case", format!("'{id}' {message}"));
            continue;
        };
        if !seen.insert(id) {
            say("case", format!("'{id}' appears twice: keep one of them"));
            continue;
        }
        verdicts.extend(read(submission, rubric, case, &mut say).map(|it| (case.run_id, it)));
    }
    if problems.is_empty() {
        Ok(verdicts)
    } else {
        Err(problems)
    }
}

fn read(
    submission: &Submission,
    rubric: &Rubric,
    case: HeldCase<'_>,
    say: &mut impl FnMut(&str, String),
) -> Option<Verdict> {
    let mut scores = BTreeMap::new();
    let mut is_valid = true;
    for name in rubric.asked_names() {
        let given = submission.scores.get(name).unwrap_or(&Value::Null);
        let score = read_score(rubric, name, given);
        let prefilled = || case.flags.get(name).map(|set| json!(set));
        let problem = match score.map(|score| score.or_else(prefilled)) {
            Ok(Some(score)) => {
                scores.insert(name.to_owned(), score);
                continue;
            }
            Ok(None) => "is missing".to_owned(),
            Err(message) => message,
        };
        say(&format!("scores/{name}"), problem);
        is_valid = false;
    }
    let known: Vec<&str> = rubric.asked_names().collect();
    for name in submission.scores.keys() {
        if !known.contains(&name.as_str()) {
            let message = format!("is not a score of {}: use {}", rubric.id, known.join(", "));
            say(&format!("scores/{name}"), message);
            is_valid = false;
        }
    }
    if !is_valid {
        return None;
    }
    let rationale = submission.rationale.clone();
    let verdict = Verdict::new(rubric, case.candidate, scores, case.computed, rationale);
    verdict.map_err(|message| say("scores", message)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rubric() -> Rubric {
        let text = "+++\nid = \"r-1\"\ncomposite = \"tone + 2*ok\"\n[[criteria]]\nname = \"tone\"\nmin = 1\nmax = 2\n[criteria.anchors]\n1 = \"rude\"\n2 = \"kind\"\n[[flags]]\nname = \"ok\"\n+++\nProse.\n";
        Rubric::parse("rubric.md", text).expect("sound")
    }

    fn check_json(list: &Value) -> Result<Vec<(&'static str, Verdict)>, Vec<String>> {
        static FLAGS: std::sync::LazyLock<BTreeMap<String, bool>> =
            std::sync::LazyLock::new(|| [("ok".to_owned(), true)].into());
        let list: Vec<Submission> = serde_json::from_value(list.clone()).expect("submissions");
        let held = |id: &str| {
            (id == "a").then_some(HeldCase {
                run_id: "run",
                candidate: 3,
                flags: &FLAGS,
                computed: const { &BTreeMap::new() },
            })
        };
        check(&list, &rubric(), held)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn prefilled_flags_need_not_be_sent_and_may_be_changed() {
        let sent = |scores: Value| {
            let found = check_json(&json!([{"case": "a", "scores": scores}])).expect("sound");
            (found[0].0, found[0].1.candidate, found[0].1.composite)
        };
        assert_eq!(sent(json!({"tone": 2})), ("run", 3, 4.0));
        assert_eq!(sent(json!({"tone": 2, "ok": false})), ("run", 3, 2.0));
    }

    #[test]
    fn every_problem_is_said_at_once() {
        let list = json!([
            {"case": "a", "scores": {"tone": 7, "ok": 1, "charm": 2}},
            {"case": "a", "scores": {"tone": 1}},
            {"case": "b", "scores": {"tone": 1}},
        ]);
        assert_eq!(
            check_json(&list).expect_err("unsound"),
            [
                "/0/scores/tone is 7, but tone runs from 1 to 2",
                "/0/scores/ok is 1, but a flag is true or false",
                "/0/scores/charm is not a score of r-1: use tone, ok",
                "/1/case 'a' appears twice: keep one of them",
                "/2/case 'b' is not a case that this sitting holds: take the next cases and keep their ids",
            ]
        );
        let missing = json!([{"case": "a", "scores": {}}]);
        assert_eq!(
            check_json(&missing).expect_err("unsound"),
            ["/0/scores/tone is missing"]
        );
    }
}
