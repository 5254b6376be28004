//! Checking a filled judge file, a case at a time.
//!
//! What a sitting handed out is held as a few dozen bytes a case: its run, its number, and hashes
//! that tell an edited text from the exported one. Nothing here reads or writes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use assize_domain::case::{FileProblem, cut, read_score, short};
use assize_domain::hash::{canonical_json, hex, sha256};
use assize_domain::judge::{clean_version, is_kind, is_name};
use assize_domain::rubric::Rubric;
use assize_domain::verdict::Verdict;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Contexts whose hash is cached: the cases of a scenario are adjacent and share theirs.
const CONTEXTS_REMEMBERED: usize = 4;

/// Everything that a file says before and after its cases.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct FilledHead {
    pub assize: Value,
    pub experiment: Value,
    pub sitting: Value,
    pub rubric: Value,
    pub judge: Value,
}

/// A case as the file has it; what it does not say is null.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct FilledCase {
    pub case: Value,
    pub context: Value,
    pub candidate: Value,
    pub scores: Value,
    pub rationale: Value,
}

/// A case id as it is held: the ten bytes that its hex digits stand for.
type Key = [u8; 10];

#[derive(Debug, Clone, Copy)]
struct KnownCase {
    run: u32,
    candidate: u32,
    text: u64,
    context: u64,
    /// The run was deleted after the export.
    gone: bool,
    seen: bool,
}

/// Detects an edited context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextHash(u64);

impl From<&Value> for ContextHash {
    fn from(context: &Value) -> Self {
        Self(hash(&canonical_json(context)))
    }
}

/// The cases that a sitting handed out.
#[derive(Debug, Default)]
pub struct KnownCases {
    cases: HashMap<Key, KnownCase>,
    /// What was computed about the cases; empty where the rubric computes nothing.
    computed: HashMap<Key, BTreeMap<String, f64>>,
    contexts: Contexts,
}

impl KnownCases {
    /// A case of the sitting's run number `run`, with what was exported.
    pub fn add(&mut self, id: &str, run: u32, candidate: u32, text: &str, context: ContextHash) {
        let known = KnownCase {
            run,
            candidate,
            text: hash(text),
            context: context.0,
            gone: false,
            seen: false,
        };
        self.cases.extend(key(id).map(|key| (key, known)));
    }

    /// What was computed about a case, which is added to the judge's scores.
    pub fn add_computed(&mut self, id: &str, computed: BTreeMap<String, f64>) {
        if !computed.is_empty() {
            self.computed.extend(key(id).map(|key| (key, computed)));
        }
    }

    /// The judge's scores of a case, with those that were computed.
    fn verdict(
        &self,
        rubric: &Rubric,
        case: &FilledCase,
        known: KnownCase,
        scores: BTreeMap<String, Value>,
        rationale: Option<String>,
    ) -> Result<Verdict, String> {
        let nothing = BTreeMap::new();
        let computed = case.case.as_str().and_then(key);
        let computed = computed.and_then(|key| self.computed.get(&key));
        let computed = computed.unwrap_or(&nothing);
        Verdict::new(rubric, known.candidate, scores, computed, rationale)
    }

    /// Makes room for so many cases.
    pub fn reserve(&mut self, cases: usize) {
        self.cases.reserve(cases);
    }

    /// Adds the cases of another reader.
    pub fn merge(&mut self, more: Self) {
        self.cases.extend(more.cases);
        self.computed.extend(more.computed);
    }

    /// A case whose run was deleted: it is skipped.
    pub fn add_gone(&mut self, id: &str) {
        let known = KnownCase {
            run: 0,
            candidate: 0,
            text: 0,
            context: 0,
            gone: true,
            seen: false,
        };
        self.cases.extend(key(id).map(|key| (key, known)));
    }
}

fn key(id: &str) -> Option<Key> {
    let mut key = [0; 10];
    let digits = id.as_bytes();
    if digits.len() != 2 * key.len() {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(key)
}

fn hash(text: &str) -> u64 {
    let digest = sha256(text.as_bytes());
    u64::from_le_bytes(digest[..8].try_into().unwrap_or_default())
}

/// Hashes of contexts that mean the same, however they are ordered.
#[derive(Debug, Default)]
struct Contexts(VecDeque<(Value, u64)>);

impl Contexts {
    fn hash(&mut self, context: &Value) -> u64 {
        if let Some((_, known)) = self.0.iter().find(|(known, _)| known == context) {
            return *known;
        }
        let hash = ContextHash::from(context).0;
        self.0.truncate(CONTEXTS_REMEMBERED - 1);
        self.0.push_front((context.clone(), hash));
        hash
    }
}

/// A case that carries complete scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The number of the run in its sitting.
    pub run: u32,
    pub verdict: Verdict,
}

/// The JSON pointer of a case, which is formatted only where something is wrong.
#[derive(Debug, Clone, Copy)]
struct CasePointer(usize);

impl fmt::Display for CasePointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/cases/{}", self.0)
    }
}

/// Checks a file case by case, and collects its problems.
#[derive(Debug)]
pub struct Checker<'a> {
    rubric: &'a Rubric,
    partial: bool,
    known: KnownCases,
    /// Whether texts and contexts are still to be compared with what was handed out.
    compares: bool,
    pub problems: Vec<FileProblem>,
    /// From the head, lower case.
    pub judge_kind: Option<String>,
    pub judge_name: Option<String>,
    pub judge_version: Option<String>,
    /// Cases that carry no (complete) scores.
    pub unscored: usize,
    /// Where a score is missing although others of the case are given.
    pub half_scored: Vec<String>,
    /// Cases whose run is gone.
    pub dropped: usize,
}

impl<'a> Checker<'a> {
    /// `partial` leaves the cases that carry no scores pending.
    pub fn new(rubric: &'a Rubric, known: KnownCases, partial: bool) -> Self {
        Self {
            rubric,
            partial,
            known,
            compares: true,
            problems: Vec::new(),
            judge_kind: None,
            judge_name: None,
            judge_version: None,
            unscored: 0,
            half_scored: Vec::new(),
            dropped: 0,
        }
    }

    pub const fn rubric(&self) -> &'a Rubric {
        self.rubric
    }

    /// Prepares for a second pass over the file. Texts and contexts have been checked and are not
    /// compared again.
    pub fn start_again(&mut self) {
        self.compares = false;
        for known in self.known.cases.values_mut() {
            known.seen = false;
        }
        (self.unscored, self.dropped) = (0, 0);
        self.half_scored.clear();
    }

    fn say(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.problems.push(FileProblem {
            pointer: pointer.into(),
            message: message.into(),
        });
    }

    /// Which rubric, and who judged.
    pub fn head(&mut self, head: &FilledHead) {
        if head.rubric.get("sha256").and_then(Value::as_str) != Some(self.rubric.sha256.as_str()) {
            let message = format!(
                "is not {} as these runs have it: export again",
                self.rubric.id
            );
            self.say("/rubric/sha256", message);
        }
        let wrong = |value: &Value, wanted: &str| format!("is {}, not {wanted}", short(value));
        if !head.judge.is_null() && !head.judge.is_object() {
            let message = wrong(&head.judge, "an object with kind and name, or null");
            self.say("/judge", message);
        }
        match head.judge.get("kind") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if is_kind(text) => {
                self.judge_kind = Some(text.to_lowercase());
            }
            Some(other) => {
                let message = wrong(other, "a kind such as human or claude-code or null");
                self.say("/judge/kind", message);
            }
        }
        match head.judge.get("name") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if is_name(text) => {
                self.judge_name = Some(text.clone());
            }
            Some(other) => self.say("/judge/name", wrong(other, "a name or null")),
        }
        match head.judge.get("version") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => self.judge_version = clean_version(text),
            Some(other) => self.say("/judge/version", wrong(other, "a text or null")),
        }
    }

    /// The case at this position; its verdict where it carries one and nothing is wrong with it.
    pub fn case(&mut self, position: usize, case: &FilledCase) -> Option<Scored> {
        let here = CasePointer(position);
        let Some(id) = case.case.as_str() else {
            self.say(
                format!("{here}/case"),
                "is missing: every case keeps the id it was exported with",
            );
            return None;
        };
        let Some(known) = key(id).and_then(|key| self.known.cases.get_mut(&key)) else {
            self.say(
                format!("{here}/case"),
                format!("'{}' is not a case of this sitting", cut(id)),
            );
            return None;
        };
        let again = std::mem::replace(&mut known.seen, true);
        let known = *known;
        if known.gone {
            self.dropped += 1;
            return None;
        }
        if again {
            self.say(
                format!("{here}/case"),
                format!("'{id}' appears twice: keep one of them"),
            );
            return None;
        }
        if self.compares {
            self.compare(here, case, known);
        }
        self.scores(here, case, known)
    }

    /// Whether the case still holds what was handed out.
    fn compare(&mut self, here: CasePointer, case: &FilledCase, known: KnownCase) {
        if case.candidate.as_str().map(hash) != Some(known.text) {
            self.say(
                format!("{here}/candidate"),
                "was edited: score the text as it was exported",
            );
        }
        // A judge who leaves the context out has not changed it.
        let context = Some(&case.context).filter(|context| !context.is_null());
        if context.is_some_and(|it| self.known.contexts.hash(it) != known.context) {
            self.say(
                format!("{here}/context"),
                "was edited: score the case as it was exported",
            );
        }
    }

    fn scores(&mut self, here: CasePointer, case: &FilledCase, known: KnownCase) -> Option<Scored> {
        let empty = Map::new();
        let scores = case.scores.as_object().unwrap_or(&empty);
        let before = self.problems.len();
        let mut missing = Vec::new();
        let mut read = BTreeMap::new();
        let rubric = self.rubric;
        for name in rubric.asked_names() {
            let value = scores.get(name).unwrap_or(&Value::Null);
            match read_score(rubric, name, value) {
                Ok(Some(score)) => {
                    read.insert(name.to_owned(), score);
                }
                Ok(None) => missing.push(name),
                Err(message) => self.say(format!("{here}/scores/{name}"), message),
            }
        }
        for name in scores
            .keys()
            .filter(|name| !rubric.asked_names().any(|known| known == *name))
        {
            self.say(
                format!("{here}/scores/{}", cut(name)),
                format!("is not a score of {}", rubric.id),
            );
        }
        let rationale = match &case.rationale {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => {
                let message = format!("is {}, but a rationale is a text or null", short(other));
                self.say(format!("{here}/rationale"), message);
                None
            }
        };
        if !missing.is_empty() && self.partial {
            self.unscored += 1;
            // Flags come prefilled: only a criterion shows that somebody has begun this case.
            let begun = rubric
                .criteria
                .iter()
                .any(|criterion| read.contains_key(&criterion.name));
            if begun {
                let pointers = missing.iter().map(|name| format!("{here}/scores/{name}"));
                self.half_scored.extend(pointers);
            }
            return None;
        }
        for name in missing {
            self.say(
                format!("{here}/scores/{name}"),
                "is missing (use --partial to leave cases unscored)",
            );
        }
        if self.problems.len() > before {
            return None;
        }
        let verdict = self.known.verdict(rubric, case, known, read, rationale);
        let verdict = verdict.map_err(|message| self.say(format!("{here}/scores"), message));
        Some(Scored {
            run: known.run,
            verdict: verdict.ok()?,
        })
    }

    /// What the whole file lacks.
    pub fn finish(&mut self) {
        let unseen = self
            .known
            .cases
            .iter()
            .filter(|(_, it)| !it.seen && !it.gone);
        if self.partial {
            self.unscored += unseen.count();
            return;
        }
        let mut lacking: Vec<String> = unseen.map(|(key, _)| hex(key)).collect();
        lacking.sort_unstable();
        for id in lacking {
            self.say(
                "/cases",
                format!("lacks case '{id}' (use --partial to leave cases unscored)"),
            );
        }
    }
}

#[cfg(test)]
mod tests;
