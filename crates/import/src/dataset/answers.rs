//! The known answers of a data set.

use serde_json::{Map, Value};

use super::columns::Columns;
use super::read::Records;
use super::text_of;
use crate::{Result, invalid, names};

/// More distinct answers than this are no labels.
const MOST_LABELS: usize = 30;
const MOST_LABEL_CHARS: usize = 40;
/// A field for every key; more keys are no record to extract.
const MOST_KEYS: usize = 20;

/// What the answers are, by record.
#[derive(Debug, Clone, PartialEq)]
pub enum Answers {
    None,
    /// One of a few labels, which are listed.
    Labels(Vec<String>, Vec<String>),
    Numbers(Vec<String>),
    /// The letter of the right choice, and the choices.
    Choices(Vec<String>, Vec<Vec<String>>),
    /// Any of these is right.
    Accepted(Vec<Vec<String>>),
    /// The values of an object, and its keys with the names of their fields.
    Objects(Vec<Map<String, Value>>, Vec<(String, String)>),
    Texts(Vec<String>),
}

impl Answers {
    pub fn read(records: &Records, columns: &Columns, notes: &mut Vec<String>) -> Result<Self> {
        let Some(column) = &columns.answer else {
            if let Some(choices) = &columns.choices {
                notes.push(format!(
                    "the column '{choices}' was left out, because no column says which choice is right"
                ));
            }
            return Ok(Self::None);
        };
        let values = records.rows.iter().map(|row| row.get(column).cloned());
        let values: Vec<Value> = values.map(Option::unwrap_or_default).collect();
        if let Some(choices) = &columns.choices {
            return choices_of(records, choices, &values);
        }
        if let Some(objects) = objects(&values) {
            return Ok(objects);
        }
        let lists: Vec<Vec<String>> = values.iter().map(accepted).collect();
        if lists.iter().any(|it| it.len() > 1) {
            return Ok(Self::Accepted(lists));
        }
        let texts: Vec<String> = lists.into_iter().map(|it| it.concat()).collect();
        let empty = texts.iter().filter(|it| it.trim().is_empty()).count();
        if empty > 0 {
            notes.push(format!(
                "{empty} records have no answer in '{column}': add a reference, or remove them"
            ));
        }
        Ok(plain(texts))
    }

    /// Writes the answer into its scenario.
    pub fn add_to(&self, position: usize, scenario: &mut Map<String, Value>) {
        let mut put = |name: &str, value: Value| {
            scenario.insert(name.to_owned(), value);
        };
        match self {
            Self::None => {}
            Self::Labels(texts, _) | Self::Numbers(texts) | Self::Texts(texts) => {
                put("reference", texts[position].as_str().into());
            }
            Self::Choices(letters, choices) => {
                put("choices", choices[position].clone().into());
                put("reference", letters[position].as_str().into());
            }
            Self::Accepted(lists) => {
                put("accepted", lists[position].clone().into());
                let first = lists[position].first().cloned().unwrap_or_default();
                put("reference", first.into());
            }
            Self::Objects(objects, keys) => {
                for (key, field) in keys {
                    put(
                        field,
                        objects[position].get(key).cloned().unwrap_or_default(),
                    );
                }
                let whole = Value::Object(objects[position].clone());
                put("reference", whole.to_string().into());
            }
        }
    }
}

/// Labels, numbers or free text.
fn plain(texts: Vec<String>) -> Answers {
    if texts
        .iter()
        .all(|it| it.trim().parse::<f64>().is_ok_and(f64::is_finite))
    {
        // A few whole numbers that repeat are the codes of labels.
        let is_code = |it: &String| it.trim().parse::<u8>().is_ok();
        if !(texts.iter().all(is_code) && is_few(&distinct(&texts), texts.len())) {
            return Answers::Numbers(texts);
        }
    }
    let labels = distinct(&texts);
    let is_short = labels
        .iter()
        .all(|it| it.chars().count() <= MOST_LABEL_CHARS && !it.is_empty());
    if is_short && is_few(&labels, texts.len()) {
        return Answers::Labels(texts, labels);
    }
    Answers::Texts(texts)
}

/// Labels repeat.
fn is_few(labels: &[String], records: usize) -> bool {
    labels.len() > 1 && labels.len() <= MOST_LABELS && labels.len() * 2 <= records
}

/// In the order of the file.
fn distinct(texts: &[String]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for text in texts {
        if !labels.contains(text) {
            labels.push(text.clone());
        }
    }
    labels
}

/// All right answers; `{"text": […]}` is how question answering data sets give them.
fn accepted(value: &Value) -> Vec<String> {
    let value = match value {
        Value::Object(object) => object
            .get("text")
            .or_else(|| object.get("aliases"))
            .unwrap_or(value),
        other => other,
    };
    let mut texts = match value {
        Value::Array(items) => items.iter().map(text_of).collect(),
        other => vec![text_of(other)],
    };
    texts.dedup();
    texts
}

/// Where every answer is a flat object with keys to extract.
fn objects(values: &[Value]) -> Option<Answers> {
    let parsed = values.iter().map(|value| match value {
        Value::Object(object) => Some(object.clone()),
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    });
    let parsed: Vec<Map<String, Value>> = parsed.collect::<Option<_>>()?;
    let mut keys: Vec<(String, String)> = Vec::new();
    for key in parsed.iter().flat_map(Map::keys) {
        if !keys.iter().any(|(known, _)| known == key) {
            keys.push((key.clone(), format!("expected_{}", names::field(key))));
        }
    }
    let is_flat = parsed
        .iter()
        .flat_map(Map::values)
        .all(|it| !it.is_object() && !it.is_array());
    (is_flat && !keys.is_empty() && keys.len() <= MOST_KEYS)
        .then_some(Answers::Objects(parsed, keys))
}

fn choices_of(records: &Records, column: &str, answers: &[Value]) -> Result<Answers> {
    let mut letters = Vec::new();
    let mut all = Vec::new();
    for (position, (row, answer)) in records.rows.iter().zip(answers).enumerate() {
        let (choices, labels) = row.get(column).map(choices).unwrap_or_default();
        let letter = letter_of(answer, &choices, &labels);
        let Some(letter) = letter.filter(|_| choices.len() <= 26) else {
            return invalid(format!(
                "record {}: the answer {answer} is none of its {} choices: give a letter, a number from 0, or the \
                 choice itself",
                position + 1,
                choices.len()
            ));
        };
        letters.push(letter);
        all.push(choices);
    }
    Ok(Answers::Choices(letters, all))
}

/// A list, or `{"text": […], "label": […]}`.
fn choices(value: &Value) -> (Vec<String>, Vec<String>) {
    let list = |value: Option<&Value>| match value {
        Some(Value::Array(items)) => items.iter().map(text_of).collect(),
        _ => Vec::new(),
    };
    match value {
        Value::Object(object) => (list(object.get("text")), list(object.get("label"))),
        other => (list(Some(other)), Vec::new()),
    }
}

/// The answer as a letter: it is one, or a position from 0, or a label, or the text of a choice.
fn letter_of(answer: &Value, choices: &[String], labels: &[String]) -> Option<String> {
    let text = text_of(answer);
    let text = text.trim();
    let at = |place: usize| {
        let letter = u8::try_from(place).ok().map(|it| char::from(b'A' + it));
        letter.filter(|_| place < choices.len()).map(String::from)
    };
    if let Some(place) = labels.iter().position(|it| it == text) {
        return at(place);
    }
    if let Some(place) = choices.iter().position(|it| it.trim() == text) {
        return at(place);
    }
    if let [letter @ b'A'..=b'Z'] = text.to_uppercase().as_bytes() {
        return at(usize::from(letter - b'A'));
    }
    text.parse().ok().and_then(at)
}
