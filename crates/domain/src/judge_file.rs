//! The judge file: blind cases out, scores back.
//!
//! `judge export` writes one, somebody fills in the scores, `judge apply` reads it. Reading
//! checks the whole file before anything is written and reports every problem with its JSON
//! pointer, so that a person or an agent can mend all of them in one go.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::rubric::Rubric;
use crate::verdict::{Verdict, as_number};

/// The format's name and version.
pub const FORMAT: &str = "judge/1";

/// One blind case, as it is handed out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// Opaque; see [`crate::sitting::case_id`].
    pub case: String,
    pub context: Value,
    pub candidate: String,
    /// Criteria are null, flags come prefilled where a mechanical check computed them.
    pub scores: Map<String, Value>,
    pub rationale: Option<String>,
}

/// Everything of a judge file but its cases.
pub fn head(experiment: &str, sitting: &str, rubric: &Rubric) -> Map<String, Value> {
    let criteria: Vec<Value> = rubric
        .criteria
        .iter()
        .map(|it| json!({"name": it.name, "question": it.question, "min": it.min, "max": it.max, "anchors": it.anchors}))
        .collect();
    let flags: Vec<&str> = rubric.flags.iter().map(|flag| flag.name.as_str()).collect();
    let mut head = Map::new();
    head.insert("assize".to_owned(), json!(FORMAT));
    head.insert("experiment".to_owned(), json!(experiment));
    head.insert("sitting".to_owned(), json!(sitting));
    head.insert(
        "rubric".to_owned(),
        json!({
            "id": rubric.id, "sha256": rubric.sha256, "text": rubric.text,
            "criteria": criteria, "flags": flags, "composite": rubric.composite.to_string(),
        }),
    );
    head.insert("judge".to_owned(), json!({"kind": null, "name": null}));
    head
}

/// The scores of a fresh case: criteria null, flags as the mechanical checks have them.
pub fn blank_scores(rubric: &Rubric, flags: &BTreeMap<String, bool>) -> Map<String, Value> {
    let criteria = rubric
        .criteria
        .iter()
        .map(|it| (it.name.clone(), Value::Null));
    let flags = rubric
        .flags
        .iter()
        .map(|it| (it.name.clone(), json!(flags.get(&it.name))));
    criteria.chain(flags).collect()
}

/// A mistake in a judge file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileProblem {
    /// JSON pointer.
    pub pointer: String,
    pub message: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pointer, self.message)
    }
}

/// A case that a sitting handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCase {
    pub run_id: String,
    pub candidate: u32,
    pub text: String,
}

/// What a sound file holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Checked {
    pub judge_kind: Option<String>,
    pub judge_name: Option<String>,
    /// By run, in the order of candidates.
    pub verdicts: BTreeMap<String, Vec<Verdict>>,
    /// Cases that carry no (complete) scores.
    pub unscored: usize,
    /// Cases whose run is gone.
    pub dropped: usize,
}

/// Checks a whole file against the cases of its sitting. Cases in `gone` were handed out, but
/// their runs were deleted since: they are passed over.
pub fn check(
    file: &Value,
    rubric: &Rubric,
    cases: &BTreeMap<String, KnownCase>,
    gone: &BTreeSet<String>,
    partial: bool,
) -> Result<Checked, Vec<FileProblem>> {
    let mut reader = Reader {
        rubric,
        cases,
        gone,
        partial,
        problems: Vec::new(),
        checked: Checked::default(),
    };
    reader.read_head(file);
    reader.read_cases(file);
    if reader.problems.is_empty() {
        for verdicts in reader.checked.verdicts.values_mut() {
            verdicts.sort_by_key(|verdict| verdict.candidate);
        }
        Ok(reader.checked)
    } else {
        Err(reader.problems)
    }
}

struct Reader<'a> {
    rubric: &'a Rubric,
    cases: &'a BTreeMap<String, KnownCase>,
    gone: &'a BTreeSet<String>,
    partial: bool,
    problems: Vec<FileProblem>,
    checked: Checked,
}

impl Reader<'_> {
    fn say(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.problems.push(FileProblem {
            pointer: pointer.into(),
            message: message.into(),
        });
    }

    fn read_head(&mut self, file: &Value) {
        let sha256 = file.pointer("/rubric/sha256").and_then(Value::as_str);
        if sha256 != Some(self.rubric.sha256.as_str()) {
            let message = format!(
                "is not {} as these runs have it: export again",
                self.rubric.id
            );
            self.say("/rubric/sha256", message);
        }
        for (pointer, key) in [("/judge/kind", true), ("/judge/name", false)] {
            let value = match file.pointer(pointer) {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) if key && crate::judge::is_kind(text) => {
                    Some(text.to_lowercase())
                }
                Some(Value::String(text)) if !key && crate::judge::is_name(text) => {
                    Some(text.clone())
                }
                Some(other) => {
                    let wanted = if key {
                        "a kind such as human or claude-code"
                    } else {
                        "a name"
                    };
                    self.say(
                        pointer,
                        format!("is {}, not {wanted} or null", short(other)),
                    );
                    None
                }
            };
            if key {
                self.checked.judge_kind = value;
            } else {
                self.checked.judge_name = value;
            }
        }
    }

    fn read_cases(&mut self, file: &Value) {
        let Some(cases) = file.get("cases").and_then(Value::as_array) else {
            self.say("/cases", "is missing: it must be the list of cases");
            return;
        };
        let mut seen = BTreeSet::new();
        for (position, case) in cases.iter().enumerate() {
            let here = format!("/cases/{position}");
            let Some(id) = case.get("case").and_then(Value::as_str) else {
                self.say(
                    format!("{here}/case"),
                    "is missing: every case keeps the id it was exported with",
                );
                continue;
            };
            if self.gone.contains(id) {
                self.checked.dropped += 1;
                continue;
            }
            let Some(known) = self.cases.get(id) else {
                self.say(
                    format!("{here}/case"),
                    format!("'{id}' is not a case of this sitting"),
                );
                continue;
            };
            if !seen.insert(id) {
                self.say(
                    format!("{here}/case"),
                    format!("'{id}' appears twice: keep one of them"),
                );
                continue;
            }
            if case.get("candidate").and_then(Value::as_str) != Some(known.text.as_str()) {
                self.say(
                    format!("{here}/candidate"),
                    "was edited: score the text as it was exported",
                );
            }
            self.read_scores(&here, case, known);
        }
        let missing: Vec<_> = self
            .cases
            .keys()
            .filter(|id| !seen.contains(id.as_str()))
            .collect();
        if self.partial {
            self.checked.unscored += missing.len();
            return;
        }
        for id in missing {
            self.say(
                "/cases",
                format!("lacks case '{id}' (use --partial to leave cases unscored)"),
            );
        }
    }

    fn read_scores(&mut self, here: &str, case: &Value, known: &KnownCase) {
        let empty = Map::new();
        let scores = case
            .get("scores")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        let before = self.problems.len();
        let mut missing = Vec::new();
        let mut read = BTreeMap::new();
        let rubric = self.rubric;
        for name in rubric.score_names() {
            let pointer = format!("{here}/scores/{name}");
            let value = scores.get(name).unwrap_or(&Value::Null);
            match read_score(rubric, name, value) {
                Ok(Some(score)) => {
                    read.insert(name.to_owned(), score);
                }
                Ok(None) => missing.push(pointer),
                Err(message) => self.say(pointer, message),
            }
        }
        let known_names: Vec<&str> = rubric.score_names().collect();
        for name in scores
            .keys()
            .filter(|name| !known_names.contains(&name.as_str()))
        {
            self.say(
                format!("{here}/scores/{name}"),
                format!("is not a score of {}", rubric.id),
            );
        }
        let rationale = match case.get("rationale") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
            Some(other) => {
                let message = format!("is {}, but a rationale is a text or null", short(other));
                self.say(format!("{here}/rationale"), message);
                None
            }
        };
        if !missing.is_empty() && self.partial {
            self.checked.unscored += 1;
            return;
        }
        for pointer in missing {
            self.say(
                pointer,
                "is missing (use --partial to leave cases unscored)",
            );
        }
        if self.problems.len() == before {
            self.accept(known, read, rationale);
        }
    }

    fn accept(
        &mut self,
        known: &KnownCase,
        scores: BTreeMap<String, Value>,
        rationale: Option<String>,
    ) {
        let numbers = scores
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), as_number(value)?)))
            .collect();
        // Complete scores always have a composite: its names were checked with the rubric.
        let composite = self.rubric.composite.evaluate(&numbers).unwrap_or(f64::NAN);
        let verdict = Verdict {
            candidate: known.candidate,
            scores,
            composite,
            rationale,
        };
        self.checked
            .verdicts
            .entry(known.run_id.clone())
            .or_default()
            .push(verdict);
    }
}

/// One score as the file has it: `None` where it is not given, an error where it is wrong.
pub(crate) fn read_score(
    rubric: &Rubric,
    name: &str,
    value: &Value,
) -> Result<Option<Value>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let Some(criterion) = rubric
        .criteria
        .iter()
        .find(|criterion| criterion.name == name)
    else {
        let message = || format!("is {}, but a flag is true or false", short(value));
        return value
            .as_bool()
            .map(|set| Some(json!(set)))
            .ok_or_else(message);
    };
    let (min, max) = (criterion.min, criterion.max);
    match value.as_i64() {
        Some(score) if (min..=max).contains(&score) => Ok(Some(json!(score))),
        Some(_) => Err(format!("is {value}, but {name} runs from {min} to {max}")),
        None if value.is_f64() => Err(format!("is {value}, but scores are whole numbers")),
        None => Err(format!(
            "is {}, but {name} is a whole number from {min} to {max}",
            short(value)
        )),
    }
}

pub(crate) fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 40 {
        return text;
    }
    format!("{}…", text.chars().take(40).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUBRIC: &str = "+++\nid = \"r-1\"\ncomposite = \"tone + 2*ok\"\n[[criteria]]\nname = \"tone\"\nmin = 1\nmax = 2\n[criteria.anchors]\n1 = \"rude\"\n2 = \"kind\"\n[[flags]]\nname = \"ok\"\n+++\nProse.\n";

    fn rubric() -> Rubric {
        Rubric::parse("rubric.md", RUBRIC).expect("sound")
    }

    fn known() -> BTreeMap<String, KnownCase> {
        ["a", "b"]
            .into_iter()
            .enumerate()
            .map(|(index, id)| {
                let candidate = u32::try_from(index).expect("small");
                (
                    id.to_owned(),
                    KnownCase {
                        run_id: "run".to_owned(),
                        candidate,
                        text: format!("text {id}"),
                    },
                )
            })
            .collect()
    }

    fn file(a: &Value, b: &Value) -> Value {
        let mut file = Value::Object(head("e", "s", &rubric()));
        file["cases"] = json!([
            {"case": "a", "context": {}, "candidate": "text a", "scores": a, "rationale": "because"},
            {"case": "b", "context": {}, "candidate": "text b", "scores": b, "rationale": null},
        ]);
        file
    }

    fn problems(file: &Value, partial: bool) -> Vec<String> {
        let problems =
            check(file, &rubric(), &known(), &BTreeSet::new(), partial).expect_err("unsound");
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_complete_file_gives_verdicts() {
        let file = file(
            &json!({"tone": 2, "ok": true}),
            &json!({"tone": 1, "ok": false}),
        );
        let checked = check(&file, &rubric(), &known(), &BTreeSet::new(), false).expect("sound");
        let verdicts = &checked.verdicts["run"];
        assert_eq!(
            verdicts.iter().map(|it| it.composite).collect::<Vec<_>>(),
            [4.0, 1.0]
        );
        assert_eq!(verdicts[0].rationale.as_deref(), Some("because"));
    }

    #[test]
    fn every_problem_is_reported_with_its_pointer() {
        let mut bad = file(
            &json!({"tone": 7, "ok": 1, "charm": 2}),
            &json!({"tone": 1.5, "ok": null}),
        );
        bad["rubric"]["sha256"] = json!("other");
        bad["cases"][1]["candidate"] = json!("edited");
        bad["cases"]
            .as_array_mut()
            .expect("list")
            .push(json!({"case": "zz"}));
        assert_eq!(
            problems(&bad, false),
            [
                "/rubric/sha256 is not r-1 as these runs have it: export again",
                "/cases/0/scores/tone is 7, but tone runs from 1 to 2",
                "/cases/0/scores/ok is 1, but a flag is true or false",
                "/cases/0/scores/charm is not a score of r-1",
                "/cases/1/candidate was edited: score the text as it was exported",
                "/cases/1/scores/tone is 1.5, but scores are whole numbers",
                "/cases/1/scores/ok is missing (use --partial to leave cases unscored)",
                "/cases/2/case 'zz' is not a case of this sitting",
            ]
        );
    }

    #[test]
    fn partial_leaves_the_rest() {
        let half = file(
            &json!({"tone": 2, "ok": true}),
            &json!({"tone": null, "ok": true}),
        );
        assert_eq!(
            problems(&half, false),
            ["/cases/1/scores/tone is missing (use --partial to leave cases unscored)"]
        );
        let checked = check(&half, &rubric(), &known(), &BTreeSet::new(), true).expect("sound");
        assert_eq!((checked.verdicts["run"].len(), checked.unscored), (1, 1));
    }

    #[test]
    fn lost_and_doubled_cases_are_named() {
        let mut lost = file(
            &json!({"tone": 2, "ok": true}),
            &json!({"tone": 1, "ok": true}),
        );
        lost["cases"][1] = lost["cases"][0].clone();
        assert_eq!(
            problems(&lost, false),
            [
                "/cases/1/case 'a' appears twice: keep one of them",
                "/cases lacks case 'b' (use --partial to leave cases unscored)",
            ]
        );
    }
}
