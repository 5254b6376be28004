//! Reads records from the usual formats of data sets.

use serde_json::{Map, Value};

use crate::{Result, invalid};

/// The most mistakes that are listed.
const MOST_MISTAKES: usize = 20;

/// The records of a data set, all with the same columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Records {
    /// In the order of the file.
    pub columns: Vec<String>,
    pub rows: Vec<Map<String, Value>>,
}

/// The formats of data sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Commas, semicolons, tabs and bars are told apart by the first line.
    Table,
    Tabs,
    JsonLines,
    Json,
}

/// The format that a file's ending names.
pub fn format_of(file: &str) -> Result<Format> {
    let ending = file
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_lowercase());
    match ending.as_deref() {
        Some("csv" | "txt") => Ok(Format::Table),
        Some("tsv" | "tab") => Ok(Format::Tabs),
        Some("jsonl" | "ndjson") => Ok(Format::JsonLines),
        Some("json") => Ok(Format::Json),
        Some("parquet") => invalid(format!(
            "{file}: Parquet is not read: convert it first, for example with \
             python -c \"import pandas; pandas.read_parquet('{file}').to_json('data.jsonl', orient='records', lines=True)\""
        )),
        _ => invalid(format!(
            "{file}: the extension is not a known format: use .csv, .tsv, .jsonl or .json"
        )),
    }
}

/// Reads a file. Lists and objects in cells of a table are read as such where the whole cell is JSON.
pub fn read(file: &str, text: &str) -> Result<Records> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rows = match format_of(file)? {
        Format::Table => read_table(file, text, separator(text), cell)?,
        Format::Tabs => read_table(file, text, b'\t', cell)?,
        Format::JsonLines => read_lines(file, text)?,
        Format::Json => read_json(file, text)?,
    };
    if rows.is_empty() {
        return invalid(format!("{file} holds no records"));
    }
    Ok(Records::of(rows))
}

/// Reads a table in which every cell is text.
pub fn read_texts(file: &str, text: &str) -> Result<Records> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rows = read_table(file, text, separator(text), |cell| Value::from(cell))?;
    Ok(Records::of(rows))
}

impl Records {
    fn of(rows: Vec<Map<String, Value>>) -> Self {
        let mut columns: Vec<String> = Vec::new();
        for key in rows.iter().flat_map(Map::keys) {
            if !columns.contains(key) {
                columns.push(key.clone());
            }
        }
        Self { columns, rows }
    }
}

/// The separator that the first line has most often outside quotes.
fn separator(text: &str) -> u8 {
    let mut counts = [(b',', 0_usize), (b';', 0), (b'\t', 0), (b'|', 0)];
    let mut is_quoted = false;
    for byte in text.bytes() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\n' if !is_quoted => break,
            byte if !is_quoted => {
                let count = counts.iter_mut().find(|(it, _)| *it == byte);
                if let Some((_, count)) = count {
                    *count += 1;
                }
            }
            _ => {}
        }
    }
    // The first of those that are equally frequent.
    let most = counts.iter().rev().max_by_key(|(_, count)| *count);
    most.map_or(b',', |(byte, _)| *byte)
}

fn read_table(
    file: &str,
    text: &str,
    separator: u8,
    cell: fn(&str) -> Value,
) -> Result<Vec<Map<String, Value>>> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .trim(csv::Trim::Headers)
        .flexible(true)
        .from_reader(text.as_bytes());
    let headers = match reader.headers() {
        Ok(headers) => headers.clone(),
        Err(error) => return invalid(format!("{file} is not CSV: {error}")),
    };
    let mut mistakes = Vec::new();
    for (position, name) in headers.iter().enumerate() {
        if name.is_empty() {
            mistakes.push(format!("{file}:1: column {} has no name", position + 1));
        } else if headers.iter().take(position).any(|it| it == name) {
            mistakes.push(format!("{file}:1: two columns are named '{name}'"));
        }
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => return invalid(format!("{file} is not CSV: {error}")),
        };
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() == headers.len() {
            let cells = headers.iter().zip(record.iter());
            rows.push(
                cells
                    .map(|(name, it)| (name.to_owned(), cell(it)))
                    .collect(),
            );
        } else {
            let (has, wanted) = (record.len(), headers.len());
            mistakes.push(format!(
                "{file}:{line}: {has} cells, but the header has {wanted}: quote cells that hold the separator"
            ));
        }
    }
    refuse(file, &mistakes)?;
    Ok(rows)
}

/// Lists and objects are read as such where the whole cell is JSON; everything else is text.
fn cell(text: &str) -> Value {
    let is_json = text.starts_with(['[', '{']);
    let parsed = is_json.then(|| serde_json::from_str(text).ok()).flatten();
    parsed.unwrap_or_else(|| Value::from(text))
}

fn read_lines(file: &str, text: &str) -> Result<Vec<Map<String, Value>>> {
    let mut rows = Vec::new();
    let mut mistakes = Vec::new();
    let lines = text.lines().enumerate();
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(row) => rows.push(row),
            Err(error) => {
                let number = number + 1;
                mistakes.push(format!("{file}:{number}: not a JSON object: {error}"));
            }
        }
    }
    refuse(file, &mistakes)?;
    Ok(rows)
}

/// A list of objects, at the top or as the only list of the top object.
fn read_json(file: &str, text: &str) -> Result<Vec<Map<String, Value>>> {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return invalid(format!("{file} is not JSON: {error}")),
    };
    let list = match value {
        Value::Array(list) => list,
        Value::Object(object) => {
            let mut lists = object.into_iter().filter_map(|(_, value)| match value {
                Value::Array(list) => Some(list),
                _ => None,
            });
            match (lists.next(), lists.next()) {
                (Some(list), None) => list,
                _ => return invalid(format!("{file} is not a list of objects")),
            }
        }
        _ => return invalid(format!("{file} is not a list of objects")),
    };
    let mut rows = Vec::new();
    let mut mistakes = Vec::new();
    for (position, value) in list.into_iter().enumerate() {
        match value {
            // The form in which Hugging Face's server gives rows.
            Value::Object(mut row) if row.contains_key("row_idx") && row["row"].is_object() => {
                rows.extend(row.remove("row").and_then(|it| match it {
                    Value::Object(row) => Some(row),
                    _ => None,
                }));
            }
            Value::Object(row) => rows.push(row),
            _ => mistakes.push(format!("{file}: record {} is not an object", position + 1)),
        }
    }
    refuse(file, &mistakes)?;
    Ok(rows)
}

fn refuse(file: &str, mistakes: &[String]) -> Result<()> {
    if mistakes.is_empty() {
        return Ok(());
    }
    let shown = mistakes.iter().take(MOST_MISTAKES);
    let shown: Vec<String> = shown.map(|it| format!("\n  {it}")).collect();
    let more = match mistakes.len().saturating_sub(MOST_MISTAKES) {
        0 => String::new(),
        more => format!("\n  … and {more} more"),
    };
    let count = mistakes.len();
    let problems = if count == 1 { "problem" } else { "problems" };
    invalid(format!(
        "{count} {problems} in {file}; nothing was written{}{more}",
        shown.concat()
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_format_says_the_same() {
        let want = read("a.jsonl", "{\"q\":\"x; y, z\",\"a\":\"1\"}\n").unwrap();
        let same = [
            ("a.csv", "q,a\n\"x; y, z\",1\n"),
            ("a.csv", "\u{feff}q;a\r\n\"x; y, z\";1\r\n"),
            ("a.tsv", "q\ta\nx; y, z\t1\n"),
            ("a.json", "[{\"q\":\"x; y, z\",\"a\":\"1\"}]"),
            ("a.json", "{\"data\":[{\"q\":\"x; y, z\",\"a\":\"1\"}]}"),
            (
                "a.json",
                "{\"rows\":[{\"row_idx\":0,\"row\":{\"q\":\"x; y, z\",\"a\":\"1\"}}]}",
            ),
        ];
        for (file, text) in same {
            assert_eq!(read(file, text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn only_a_cell_that_is_json_as_a_whole_is_read_as_json() {
        let read = read("a.csv", "a,b\n[URGENT] help,\"[1,2]\"\n").unwrap();
        assert_eq!(read.rows[0]["a"], json!("[URGENT] help"));
        assert_eq!(read.rows[0]["b"], json!([1, 2]));
    }

    #[test]
    fn all_mistakes_are_listed() {
        let message = read("a.csv", "a,a\n1,2\n1\n1,2,3\n")
            .unwrap_err()
            .to_string();
        for part in [
            "3 problems",
            "a.csv:1: two columns",
            "a.csv:3: 1 cells",
            "a.csv:4: 3 cells",
        ] {
            assert!(message.contains(part), "{message}");
        }
        let message = read("a.jsonl", "{}\nx\n[1]\n").unwrap_err().to_string();
        assert!(
            message.contains("2 problems") && message.contains("a.jsonl:3"),
            "{message}"
        );
        for (file, part) in [
            ("a.parquet", "read_parquet"),
            ("a.xml", "extension"),
            ("a.csv", "no records"),
        ] {
            let message = read(file, "a,b\n").unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
