//! Anchors: calibration cases whose scores are known.
//!
//! A task can carry a dozen or two of them in `anchors.toml`. They are handed out among the
//! real cases, blind like those, and show whether a judge still uses the scale as intended. Their scores belong to the sitting, never to a board.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::case::read_score;
use crate::check::Checks;
use crate::problem::{Problem, line_at};
use crate::rubric::Rubric;
use crate::rule::Subject;
use crate::scenario::Scenario;

/// The file that holds them.
pub const ANCHORS_FILE: &str = "anchors.toml";
/// How much an anchor's score varies while nothing drifts, where the task does not say.
const DEFAULT_SD: f64 = 0.5;
/// More than this many would be mostly calibration.
const MOST: usize = 50;

/// One calibration case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anchor {
    pub id: String,
    pub context: Value,
    pub candidate: String,
    /// What the task's mechanical checks say about the candidate.
    pub flags: BTreeMap<String, bool>,
    /// The known scores: integers for criteria, booleans for flags.
    pub scores: BTreeMap<String, Value>,
}

/// A task's calibration cases. They are valid only under the rubric that they were scored by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anchors {
    pub rubric_sha256: String,
    /// How much the mean of an anchor's criteria varies when it is scored again.
    pub sd: f64,
    pub cases: Vec<Anchor>,
}

impl Default for Anchors {
    fn default() -> Self {
        Self {
            rubric_sha256: String::new(),
            sd: DEFAULT_SD,
            cases: Vec::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    sd: Option<f64>,
    #[serde(default)]
    anchor: Vec<toml::Spanned<AnchorSource>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnchorSource {
    id: String,
    scenario: Option<String>,
    context: Option<Map<String, Value>>,
    candidate: String,
    scores: Map<String, Value>,
    #[serde(default)]
    why: String,
}

/// What anchors are read against.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    pub rubric: &'a Rubric,
    pub scenarios: &'a [Scenario],
    pub checks: &'a Checks,
}

impl Anchors {
    /// Parses the file and reports every problem in it.
    pub fn parse(file: &str, text: &str, around: Around<'_>) -> Result<Self, Vec<Problem>> {
        let source: Source = toml::from_str(text)
            .map_err(|error| vec![Problem::from_toml(file, text, 1, &error)])?;
        let mut problems = Vec::new();
        let sd = source.sd.unwrap_or(DEFAULT_SD);
        if !(sd > 0.0 && sd.is_finite()) {
            let line = crate::problem::line_of(text, "sd");
            problems.push(Problem::new(file, line, "sd must be a number above 0"));
        }
        if source.anchor.is_empty() || source.anchor.len() > MOST {
            let message = format!(
                "there are {} anchors: 12 to 20 tell drift from chance, and {MOST} are the most",
                source.anchor.len()
            );
            problems.push(Problem::new(file, None, message));
        }
        let mut ids = BTreeSet::new();
        let mut cases = Vec::new();
        for anchor in source.anchor {
            let line = line_at(text, anchor.span().start);
            let anchor = anchor.into_inner();
            let mut messages = Vec::new();
            if !ids.insert(anchor.id.clone()) {
                messages
                    .push("its id is already used by an earlier anchor: choose another".to_owned());
            }
            let id = anchor.id.clone();
            cases.extend(build(anchor, around, &mut messages));
            let problem =
                |message| Problem::new(file, Some(line), format!("anchor '{id}': {message}"));
            problems.extend(messages.into_iter().map(problem));
        }
        if problems.is_empty() {
            Ok(Self {
                rubric_sha256: around.rubric.sha256.clone(),
                sd,
                cases,
            })
        } else {
            Err(problems)
        }
    }

    /// Themselves where the rubric is theirs, else none.
    #[must_use]
    pub fn only_under(&self, rubric_sha256: &str) -> Self {
        if self.rubric_sha256 == rubric_sha256 {
            self.clone()
        } else {
            Self::default()
        }
    }
}

fn build(source: AnchorSource, around: Around<'_>, messages: &mut Vec<String>) -> Option<Anchor> {
    let before = messages.len();
    let context = context_of(&source, around, messages);
    if source.candidate.trim().is_empty() {
        messages.push("the candidate is empty".to_owned());
    }
    if source.why.trim().is_empty() {
        messages.push("why is missing: say in a sentence why it has these scores".to_owned());
    }
    let checks = around.checks.fill(context.as_ref().unwrap_or(&Value::Null));
    let flags = checks.apply(&Subject::new(&source.candidate)).flags;
    let mut scores = BTreeMap::new();
    for name in around.rubric.asked_names() {
        let given = source.scores.get(name).unwrap_or(&Value::Null);
        match read_score(around.rubric, name, given) {
            Ok(Some(score)) => {
                scores.insert(name.to_owned(), score);
            }
            Ok(None) => messages.push(format!("scores.{name} is missing")),
            Err(message) => messages.push(format!("scores.{name} {message}")),
        }
    }
    for name in source.scores.keys() {
        if !around.rubric.asked_names().any(|known| known == name) {
            messages.push(format!(
                "scores.{name} is not a score of {}",
                around.rubric.id
            ));
        }
    }
    for (name, computed) in &flags {
        if scores.get(name).and_then(Value::as_bool) == Some(!computed) {
            messages.push(format!(
                "scores.{name} is {}, but the task's checks say {computed} of this candidate",
                !computed
            ));
        }
    }
    (messages.len() == before).then(|| Anchor {
        id: source.id,
        context: context.unwrap_or_default(),
        candidate: source.candidate,
        flags,
        scores,
    })
}

fn context_of(
    source: &AnchorSource,
    around: Around<'_>,
    messages: &mut Vec<String>,
) -> Option<Value> {
    match (&source.scenario, &source.context) {
        (None, Some(context)) => Some(Value::Object(context.clone())),
        (Some(id), None) => {
            let scenario = around.scenarios.iter().find(|it| it.id == *id);
            if scenario.is_none() {
                messages.push(format!("there is no scenario '{id}' in this task"));
            }
            scenario.map(Scenario::judge_context)
        }
        _ => {
            let message = "needs a scenario = \"…\" or a context table, and not both";
            messages.push(message.to_owned());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::builtin;
    use crate::task::Task;

    fn tip_with(anchors: &str) -> Result<Task, Vec<String>> {
        let mut files = builtin::files("tip").expect("built in");
        files.insert(super::ANCHORS_FILE.to_owned(), anchors.to_owned());
        Task::parse(&files).map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_built_in_anchors_span_every_scale() {
        let files = builtin::files("tip").expect("built in");
        let task = Task::parse(&files).expect("sound");
        let cases = task.anchors.only_under(&task.rubric.sha256).cases;
        assert!((14..=16).contains(&cases.len()));
        for criterion in &task.rubric.criteria {
            for level in criterion.min..=criterion.max {
                let has = |it: &super::Anchor| it.scores[&criterion.name] == level;
                assert!(cases.iter().any(has), "{} {level}", criterion.name);
            }
        }
        for flag in &task.rubric.flags {
            for value in [true, false] {
                let has = |it: &super::Anchor| it.scores[&flag.name] == value;
                assert!(cases.iter().any(has), "{} {value}", flag.name);
            }
        }
        assert!(task.anchors.only_under("another").cases.is_empty());
    }

    #[test]
    fn mistakes_carry_their_lines() {
        let text = "[[anchor]]\nid = \"a\"\nscenario = \"nowhere\"\ncandidate = \"Tip: walk.\"\n\
                    scores = { relevance = 9, tone = 3, charm = 1, format_ok = true, overlong = false }\n\
                    why = \"w\"\n\n[[anchor]]\nid = \"a\"\ncandidate = \" \"\nscores = {}\n";
        let all = tip_with(text).expect_err("unsound").join("\n");
        for expected in [
            "anchors.toml:1: anchor 'a': there is no scenario 'nowhere'",
            "anchors.toml:1: anchor 'a': scores.relevance is 9, but relevance runs from 1 to 5",
            "scores.actionability is missing",
            "scores.charm is not a score of tip-v1",
            "scores.format_ok is true, but the task's checks say false",
            "anchors.toml:8: anchor 'a': its id is already used",
            "anchors.toml:8: anchor 'a': needs a scenario",
            "anchors.toml:8: anchor 'a': the candidate is empty",
            "anchors.toml:8: anchor 'a': why is missing",
        ] {
            assert!(all.contains(expected), "{expected}\n{all}");
        }
        let all = tip_with("sd = 0\nanchro = 1\n")
            .expect_err("unsound")
            .join("\n");
        assert!(all.contains("anchors.toml:2:"), "{all}");
    }
}
