//! What an agent printed: the judge file in it, and the verdicts in that.

use assize_domain::case::Case;
use assize_domain::submission::Submission;
use serde_json::{Map, Value};

/// Fields in which agents wrap what they were asked for, as an object or as text.
const WRAPPERS: [&str; 4] = ["structured_output", "result", "response", "output"];

/// The judge file in a text: the JSON object with most cases, whatever prose, fence or
/// envelope is around it.
pub(in crate::judge) fn find_judge_file(text: &str) -> Option<Map<String, Value>> {
    find(text, 2)
}

fn find(text: &str, depth: u32) -> Option<Map<String, Value>> {
    let mut best: Option<Map<String, Value>> = None;
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        rest = &rest[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Map<String, Value>>();
        if let Some(Ok(object)) = values.next() {
            rest = &rest[values.byte_offset()..];
            let found = unwrap(object, depth);
            if found.as_ref().map_or(0, count) >= best.as_ref().map_or(1, count) {
                best = found;
            }
        } else {
            rest = &rest[1..];
        }
    }
    best
}

fn unwrap(mut object: Map<String, Value>, depth: u32) -> Option<Map<String, Value>> {
    if object.get("cases").is_some_and(Value::is_array) {
        return Some(object);
    }
    WRAPPERS.iter().find_map(|name| match object.remove(*name) {
        Some(Value::Object(inner)) if depth > 0 => unwrap(inner, depth - 1),
        Some(Value::String(text)) if depth > 0 => find(&text, depth - 1),
        _ => None,
    })
}

fn count(file: &Map<String, Value>) -> usize {
    file.get("cases")
        .and_then(Value::as_array)
        .map_or(0, Vec::len)
}

/// A case of the answer, by its id.
pub(in crate::judge) fn case_of<'a>(
    answer: &'a Map<String, Value>,
    id: &str,
) -> Option<&'a Map<String, Value>> {
    let cases = answer.get("cases")?.as_array()?;
    let objects = cases.iter().filter_map(Value::as_object);
    objects
        .rev()
        .find(|it| it.get("case").and_then(Value::as_str) == Some(id))
}

/// What the answer says about a case that was handed out.
pub(in crate::judge) fn submission(
    handed: &Case,
    found: &Map<String, Value>,
) -> Result<Submission, String> {
    let text = found.get("candidate").and_then(Value::as_str);
    if text.is_some_and(|text| text != handed.candidate) {
        return Err("candidate was edited: score the text as it was handed out".to_owned());
    }
    let scores = found.get("scores").and_then(Value::as_object);
    let scores = scores.ok_or("scores is missing: it must be an object")?;
    let rationale = match found.get("rationale") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => return Err("rationale must be a text or null".to_owned()),
    };
    Ok(Submission {
        case: handed.case.clone(),
        scores: scores.clone(),
        rationale,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cases(text: &str) -> Option<Value> {
        find_judge_file(text).map(|file| file["cases"].clone())
    }

    #[test]
    fn the_file_is_found_in_prose_fences_and_envelopes() {
        let wanted = Some(json!([{"case": "a"}]));
        let file = r#"{"assize":"judge/1","cases":[{"case":"a"}]}"#;
        assert_eq!(cases(file), wanted);
        assert_eq!(
            cases(&format!(
                "I think {{so}}:\n```json\n{file}\n```\nDone {{x}}."
            )),
            wanted
        );
        let text = format!("Here:\n```json\n{file}\n```");
        assert_eq!(
            cases(&json!({"type": "result", "result": text}).to_string()),
            wanted
        );
        let structured = json!({"result": "", "structured_output": {"cases": [{"case": "a"}]}});
        assert_eq!(cases(&structured.to_string()), wanted);
        let example =
            r#"Such as {"cases":[{"case":"x"}]} but: {"cases":[{"case":"a"},{"case":"b"}]}"#;
        assert_eq!(cases(example), Some(json!([{"case": "a"}, {"case": "b"}])));
        for nothing in [
            "",
            "no",
            "{",
            r#"{"cases": 3}"#,
            "{{{{{{",
            r#"{"result": "{"}"#,
        ] {
            assert_eq!(cases(nothing), None, "{nothing}");
        }
    }
}
