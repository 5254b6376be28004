//! What the columns of a data set mean, by their usual names.

use super::read::Records;
use crate::names::{self, Unique};

/// Inspect's names come first in each list, then those of Hugging Face's data sets.
const IDS: [&str; 4] = ["id", "sample_id", "_id", "uid"];
const ANSWERS: [&str; 18] = [
    "target",
    "answer",
    "label",
    "expected",
    "reference",
    "output",
    "answers",
    "answerkey",
    "labels",
    "category",
    "class",
    "completion",
    "response",
    "summary",
    "highlights",
    "gold",
    "ground_truth",
    "solution",
];
const CHOICES: [&str; 2] = ["choices", "options"];
const SPLITS: [&str; 1] = ["split"];
/// What judges may see, and no prompt shows.
const UNSHOWN: [&str; 4] = ["metadata", "sandbox", "files", "setup"];
/// Features of Inspect that have no counterpart here.
const DROPPED: [&str; 3] = ["sandbox", "files", "setup"];

/// The columns by what they mean.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Columns {
    pub id: Option<String>,
    pub split: Option<String>,
    pub answer: Option<String>,
    pub choices: Option<String>,
    /// The other columns and the names of their fields.
    pub fields: Vec<(String, String)>,
}

impl Columns {
    pub fn find(records: &Records, notes: &mut Vec<String>) -> Self {
        let find = |names: &[&str]| {
            let mut names = names.iter();
            names.find_map(|name| {
                let mut columns = records.columns.iter();
                columns.find(|it| it.to_lowercase() == **name).cloned()
            })
        };
        let mut columns = Self {
            id: find(&IDS),
            split: find(&SPLITS),
            answer: find(&ANSWERS),
            choices: find(&CHOICES),
            fields: Vec::new(),
        };
        let taken = [
            &columns.id,
            &columns.split,
            &columns.answer,
            &columns.choices,
        ];
        let taken: Vec<String> = taken.into_iter().flatten().cloned().collect();
        let mut given = Unique::default();
        for name in ["id", "split", "reference", "choices", "accepted"] {
            given.give(name.to_owned(), '_');
        }
        for column in records.columns.iter().filter(|it| !taken.contains(it)) {
            let lower = column.to_lowercase();
            if DROPPED.contains(&lower.as_str()) {
                notes.push(format!(
                    "the column '{column}' has no counterpart in a task and was left out"
                ));
                continue;
            }
            let field = given.give(names::field(column), '_');
            if field != *column {
                notes.push(format!("the column '{column}' is the field '{field}', because templates need a plain name"));
            }
            columns.fields.push((column.clone(), field));
        }
        columns
    }

    /// The fields that a prompt shows.
    pub fn shown(&self) -> impl Iterator<Item = &str> {
        let fields = self.fields.iter();
        let shown = fields.filter(|(column, _)| !UNSHOWN.contains(&column.to_lowercase().as_str()));
        shown.map(|(_, field)| field.as_str())
    }
}
