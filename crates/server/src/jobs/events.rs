//! What a job's process prints, read while it grows.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::EVENTS;

/// What watchers are told.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// A line that the process printed; `end` is where it ends in the file.
    Line { end: u64, text: Arc<str> },
    /// The job is over.
    Over,
}

/// What the lines so far come to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Progress {
    pub done: u32,
    pub failed: u32,
    pub total: u32,
    /// The process said how it all came out.
    pub has_summary: bool,
    /// What is not as it should be, by the summary.
    pub remark: Option<String>,
}

impl Progress {
    fn take(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return;
        };
        let count = |key: &str| {
            let count = event[key].as_u64();
            count.and_then(|it| u32::try_from(it).ok())
        };
        match event["event"].as_str() {
            Some("cell") => {
                self.done += 1;
                if event["status"] == "failed" {
                    self.failed += 1;
                }
            }
            Some("progress") => {
                self.done = count("done").unwrap_or(self.done);
                self.total = count("total").unwrap_or(self.total);
            }
            Some("summary") => {
                self.has_summary = true;
                self.remark = of_collection(&event);
                // One that was interrupted counts what it came to.
                if event["interrupted"] != true {
                    self.total = count("cells").unwrap_or(self.total);
                }
            }
            // An automatic judge prints one object when it is done.
            None if event.is_object() => {
                self.has_summary = true;
                self.remark = of_judge(&event);
            }
            _ => {}
        }
    }
}

fn of_collection(summary: &Value) -> Option<String> {
    let mut remarks = Vec::new();
    let (failed, cells) = (&summary["failed"], &summary["cells"]);
    if failed.as_u64() > Some(0) {
        remarks.push(format!("{failed} of {cells} cells failed"));
    }
    let waiting = &summary["undelivered"];
    if waiting.as_u64() > Some(0) {
        remarks.push(format!("{waiting} cells wait for the tracking server"));
    }
    let rejected = summary["rejections"].as_array().into_iter().flatten();
    remarks.extend(rejected.filter_map(|it| {
        let (model, reason) = (it["model"].as_str()?, it["reason"].as_str()?);
        Some(format!("{model} was not admitted: {reason}"))
    }));
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

fn of_judge(summary: &Value) -> Option<String> {
    if summary["cap_reached"] == true {
        return Some("the cap on spending was reached: the rest stays pending".to_owned());
    }
    if summary["drift"]["alarm"] == true {
        let remark = "quarantined: the judge has drifted, and these verdicts do not count";
        return Some(remark.to_owned());
    }
    let left = summary["left_pending"].as_u64().filter(|it| *it > 0)?;
    let reason = summary["reasons"][0].as_str().unwrap_or("not known");
    Some(format!(
        "{left} runs are left pending; the first reason: {reason}"
    ))
}

/// Reads a job's events from where it stopped before.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    position: u64,
}

impl Tail {
    pub fn new(folder: &Path) -> Self {
        Self::from(folder, 0)
    }

    pub fn from(folder: &Path, position: u64) -> Self {
        Self {
            path: folder.join(EVENTS),
            position,
        }
    }

    /// Whole lines that are new, each with the place where it ends.
    pub fn read(&mut self, mut visit: impl FnMut(u64, &str)) -> std::io::Result<()> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        file.seek(SeekFrom::Start(self.position))?;
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = lines.read_until(b'\n', &mut line)?;
            // The rest of a line may still come.
            if line.last() != Some(&b'\n') {
                return Ok(());
            }
            self.position += length as u64;
            visit(self.position, String::from_utf8_lossy(&line).trim_end());
        }
    }

    /// What is new, added up.
    pub fn read_into(
        &mut self,
        progress: &mut Progress,
        mut visit: impl FnMut(u64, &str),
    ) -> std::io::Result<()> {
        self.read(|end, line| {
            progress.take(line);
            visit(end, line);
        })
    }

    /// What all lines come to.
    pub fn read_all(mut self, total: u32) -> Progress {
        let mut progress = Progress {
            total,
            ..Progress::default()
        };
        let _ = self.read_into(&mut progress, |_, _| {});
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_says_what_is_not_as_it_should_be() {
        let remark = |line: &str| {
            let mut progress = Progress::default();
            progress.take(line);
            assert!(progress.has_summary);
            progress.remark.unwrap_or_default()
        };
        let collected = r#"{"event":"summary","cells":8,"failed":0,"rejections":[]}"#;
        assert_eq!(remark(collected), "");
        let some = r#"{"event":"summary","cells":8,"failed":2,"undelivered":0,
            "rejections":[{"model":"m","reason":"larger than 4.0B"}]}"#;
        assert_eq!(
            remark(some),
            "2 of 8 cells failed; m was not admitted: larger than 4.0B"
        );
        let judged = r#"{"judged":3,"left_pending":0,"reasons":[]}"#;
        assert_eq!(remark(judged), "");
        let left = r#"{"judged":0,"left_pending":9,"reasons":["the answer is no JSON"]}"#;
        let expected = "9 runs are left pending; the first reason: the answer is no JSON";
        assert_eq!(remark(left), expected);
    }

    #[test]
    fn half_a_line_waits_for_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(EVENTS);
        let cell = "{\"event\":\"cell\",\"status\":\"failed\"}\n";
        std::fs::write(&path, format!("{cell}{{\"event\":\"ce")).unwrap();
        let mut tail = Tail::new(dir.path());
        let mut progress = Progress::default();
        tail.read_into(&mut progress, |_, _| {}).unwrap();
        assert_eq!((progress.done, progress.failed), (1, 1));
        let summary = "{\"event\":\"summary\",\"cells\":2}\n";
        std::fs::write(&path, format!("{cell}{cell}{summary}")).unwrap();
        let mut ends = Vec::new();
        tail.read_into(&mut progress, |end, _| ends.push(end))
            .unwrap();
        assert_eq!(
            (progress.done, progress.total, progress.has_summary),
            (2, 2, true)
        );
        assert_eq!(
            ends.last().copied(),
            Some((2 * cell.len() + summary.len()) as u64)
        );
    }
}
