//! Writing a judge file, laid out so that it can be edited and diffed.

use std::io::{self, Write};

use assize_domain::case::Case;
use assize_domain::rubric::Rubric;
use assize_store::Tracking;
use serde_json::{Map, Value, json};

use super::FORMAT;
use crate::judge::export::Export;
use crate::{PipelineError, Result};

/// How much of a judge file is gathered before it is written.
const PAGE_BYTES: usize = 1 << 16;

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

/// A small judge file as one text, with the problems of an earlier answer where there are any.
pub fn batch(mut head: Map<String, Value>, cases: &[Case], problems: &[String]) -> Result<String> {
    if !problems.is_empty() {
        head.insert("problems".to_owned(), json!(problems));
    }
    head.insert("cases".to_owned(), json!(cases));
    serde_json::to_string_pretty(&head).map_err(|error| PipelineError::Internal(error.to_string()))
}

/// Writes the exported cases as they are read from the store. `path` is for messages.
pub(super) fn write(
    store: &dyn Tracking,
    export: &Export,
    out: &mut dyn Write,
    path: &str,
) -> Result<()> {
    let failed = |source: io::Error| PipelineError::NotWritten {
        path: path.to_owned(),
        source,
    };
    let head = head(
        &export.sitting.experiment,
        &export.sitting.id,
        &export.rubric,
    );
    let head = serde_json::to_string_pretty(&head).map_err(|error| failed(error.into()))?;
    let head = head.trim_end().trim_end_matches('}').trim_end();
    write!(out, "{head},\n  \"cases\": [").map_err(failed)?;
    let (mut page, mut text) = (Vec::new(), Vec::new());
    let mut separator: &[u8] = b"\n";
    export.cases_each(store, |case| {
        text.clear();
        serde_json::to_writer_pretty(&mut text, &case).map_err(|error| failed(error.into()))?;
        // In JSON a line break is never part of a text.
        for line in text.split(|byte| *byte == b'\n') {
            page.extend_from_slice(separator);
            page.extend_from_slice(b"    ");
            page.extend_from_slice(line);
            separator = b"\n";
        }
        separator = b",\n";
        if page.len() >= PAGE_BYTES {
            out.write_all(&page).map_err(failed)?;
            page.clear();
        }
        Ok::<(), PipelineError>(())
    })?;
    out.write_all(&page)
        .and_then(|()| out.write_all(b"\n  ]\n}\n"))
        .and_then(|()| out.flush())
        .map_err(failed)
}
