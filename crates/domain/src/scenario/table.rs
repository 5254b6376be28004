//! Scenarios as CSV: a heading for each field, a row for each scenario.
//!
//! Columns are separated by commas, semicolons or tabs, whichever the first line has. A cell that is a
//! JSON list or object as a whole is read as one; any other cell is text. An empty cell is an empty
//! text, so that prompts that use the field can be rendered; for `split` and `reference` it means that
//! there is none.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Record;
use crate::problem::Problem;

const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];

/// Reads all rows; every problem is reported.
pub fn read_csv(file: &str, text: &str) -> Result<Vec<Record>, Vec<Problem>> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::Headers)
        .flexible(true)
        .delimiter(separator(text))
        .from_reader(text.as_bytes());
    let problem = |error: &csv::Error| {
        let line = error
            .position()
            .and_then(|it| usize::try_from(it.line()).ok());
        Problem::new(file, line, format!("not CSV: {error}"))
    };
    let headers = reader.headers().map_err(|error| vec![problem(&error)])?;
    let headers: Vec<String> = headers.iter().map(str::to_owned).collect();
    let mut problems: Vec<Problem> = heading_problems(&headers)
        .into_iter()
        .map(|message| Problem::new(file, Some(1), message))
        .collect();
    let mut records = Vec::new();
    for row in reader.records() {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                problems.push(problem(&error));
                continue;
            }
        };
        let line = row
            .position()
            .and_then(|it| usize::try_from(it.line()).ok())
            .unwrap_or(1);
        if row.len() != headers.len() {
            let message = format!(
                "this row has {} cells, and there are {} headings: put quotes around a cell that contains the \
                 separator",
                row.len(),
                headers.len()
            );
            problems.push(Problem::new(file, Some(line), message));
            continue;
        }
        records.push(record(line, &headers, &row));
    }
    if problems.is_empty() {
        Ok(records)
    } else {
        Err(problems)
    }
}

/// The separator that occurs most often in the first line, outside of quotes.
fn separator(text: &str) -> u8 {
    let mut counts = [0_usize; SEPARATORS.len()];
    let mut is_quoted = false;
    for byte in text.bytes() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\n' if !is_quoted => break,
            byte if !is_quoted => {
                if let Some(place) = SEPARATORS.iter().position(|it| *it == byte) {
                    counts[place] += 1;
                }
            }
            _ => {}
        }
    }
    let best = counts.iter().max().copied().unwrap_or_default();
    let place = counts.iter().position(|count| *count == best);
    SEPARATORS[place.unwrap_or_default()]
}

fn heading_problems(headers: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for (place, name) in headers.iter().enumerate() {
        if name.is_empty() {
            problems.push(format!(
                "column {} has no heading: name it or remove it",
                place + 1
            ));
        } else if !seen.insert(name) {
            problems.push(format!(
                "the heading '{name}' is there more than once: rename or remove a column"
            ));
        }
    }
    problems
}

fn record(line: usize, headers: &[String], row: &csv::StringRecord) -> Record {
    let mut record = Record::new(line, Map::new());
    for (key, cell) in headers.iter().zip(row.iter()) {
        let is_ours = ["id", "split", "reference"].contains(&key.as_str());
        match (is_ours, cell) {
            (true, "") => {}
            (false, "") => record.blank.push(key.clone()),
            (true, cell) => {
                record.fields.insert(key.clone(), Value::from(cell));
            }
            (false, cell) => {
                let value = json(cell).unwrap_or_else(|| Value::from(cell));
                record.fields.insert(key.clone(), value);
            }
        }
    }
    record
}

/// A list or an object, if the whole cell is one.
fn json(cell: &str) -> Option<Value> {
    let is_structured = cell.trim_start().starts_with(['[', '{']);
    is_structured
        .then(|| serde_json::from_str(cell).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::parse_all;
    use super::*;

    fn fields(text: &str) -> Vec<Value> {
        let scenarios = parse_all("s.csv", text).expect("sound").into_iter();
        scenarios.map(|it| Value::Object(it.fields)).collect()
    }

    fn problems(text: &str) -> Vec<String> {
        let problems = parse_all("s.csv", text).expect_err("problems");
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_a_cell_that_is_json_as_a_whole_is_read_as_json() {
        let text = "id,subject\na,[URGENT] no light\nb,\"[\"\"x\"\"]\"\nc,{name} is missing\nd,[1\ne,[1] and [2]\n";
        let subjects: Vec<Value> = fields(text)
            .iter()
            .map(|it| it["subject"].clone())
            .collect();
        let expected = [
            json!("[URGENT] no light"),
            json!(["x"]),
            json!("{name} is missing"),
            json!("[1"),
            json!("[1] and [2]"),
        ];
        assert_eq!(subjects, expected);
    }

    #[test]
    fn semicolons_and_tabs_separate_too() {
        let expected = [json!({"text": "one, two"})];
        assert_eq!(fields("id;text\na;one, two\n"), expected);
        assert_eq!(fields("id\ttext\na\tone, two\n"), expected);
        assert_eq!(fields("id,text\na,\"one, two\"\n"), expected);
        assert_eq!(
            fields("id,\"text; more; still more\"\na,x\n"),
            [json!({"text; more; still more": "x"})]
        );
    }

    #[test]
    fn an_empty_cell_is_an_empty_text() {
        let text = "id,split,reference,note,topic\na,,,,x\n";
        assert_eq!(fields(text), [json!({"topic": "x", "note": ""})]);
        let hash = |text| parse_all("s.csv", text).expect("sound")[0].sha256.clone();
        assert_eq!(
            hash(text),
            hash("id,topic\na,x\n"),
            "cell keys stay as they are"
        );
    }

    #[test]
    fn all_problems_are_reported_with_their_lines() {
        assert_eq!(
            problems("id,text,text,\na,b\nc,d,e,f,g\n"),
            [
                "s.csv:1: the heading 'text' is there more than once: rename or remove a column",
                "s.csv:1: column 4 has no heading: name it or remove it",
                "s.csv:2: this row has 2 cells, and there are 4 headings: put quotes around a cell that contains the separator",
                "s.csv:3: this row has 5 cells, and there are 4 headings: put quotes around a cell that contains the separator",
            ]
        );
    }
}
