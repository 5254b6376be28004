//! Reading a job's events from its output file while the job runs.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assize_pipeline::collect::{CellStatus, Summary};
use assize_pipeline::events::{JobEvent, LoopStarted, LoopStepped};
use assize_pipeline::judge::auto::AutoSummary;

use super::EVENTS;

/// An update for the subscribers of a job.
#[derive(Debug, Clone)]
pub(crate) enum JobUpdate {
    /// A line that the process printed; `end` is its end offset in the file.
    Line { end: u64, text: Arc<str> },
    /// The job has ended.
    Ended,
}

/// The progress of a job, computed from its events.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Progress {
    pub done: u32,
    pub failed: u32,
    /// Cells that had been collected before. They are done, but do not count towards the speed.
    pub skipped: u32,
    pub total: u32,
    /// Whether the process has printed its summary.
    pub has_summary: bool,
    /// The problems that the summary reports.
    pub remark: Option<String>,
}

impl Progress {
    /// Adds one line. Lines that are not events are ignored.
    fn add_line(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<JobEvent>(line) else {
            return;
        };
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        match event {
            JobEvent::Cell(cell) => {
                self.done += 1;
                self.failed += u32::from(cell.status == CellStatus::Failed);
                self.skipped += u32::from(cell.status == CellStatus::Skipped);
            }
            JobEvent::Progress(progress) => {
                self.done = count(progress.done);
                self.total = count(progress.total);
            }
            JobEvent::Delegated(_)
            | JobEvent::Host(_)
            | JobEvent::Round(_)
            | JobEvent::Judging(_)
            | JobEvent::Logged(_) => {}
            JobEvent::Summary(summary) => {
                self.has_summary = true;
                self.remark = collection_problems(&summary);
                // A collection on another engine reports no single cells.
                self.failed = self.failed.max(count(summary.failed));
                // The summary of an interrupted collection counts only the cells that it reached.
                if !summary.interrupted {
                    self.total = count(summary.cells);
                }
            }
            JobEvent::Judged(summary) => {
                self.has_summary = true;
                self.remark = judging_problems(&summary);
            }
            JobEvent::Simulated(_) => {
                self.has_summary = true;
                self.done = self.total;
            }
            JobEvent::Started(start) => {
                self.has_summary = !start.started;
                self.remark = start_problems(&start);
            }
            JobEvent::Stepped(stepped) => {
                self.has_summary = true;
                self.remark = gate_problems(&stepped);
            }
        }
    }
}

fn collection_problems(summary: &Summary) -> Option<String> {
    let mut remarks = Vec::new();
    if summary.failed > 0 {
        remarks.push(format!(
            "{} of {} cells failed",
            summary.failed, summary.cells
        ));
    }
    if summary.undelivered > 0 {
        let undelivered = summary.undelivered;
        remarks.push(format!(
            "{undelivered} cells are not yet delivered to the tracking server"
        ));
    }
    let rejections = summary.rejections.iter();
    remarks.extend(rejections.map(|it| format!("{} was not admitted: {}", it.model, it.reason)));
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

fn judging_problems(summary: &AutoSummary) -> Option<String> {
    if summary.cap_reached {
        return Some("the spending cap was reached; the remaining cases stay pending".to_owned());
    }
    if summary.is_quarantined() {
        let remark = "quarantined: the judge has drifted, and these verdicts do not count";
        return Some(remark.to_owned());
    }
    let reason = summary.reasons.first().map_or("unknown", String::as_str);
    (summary.left_pending > 0).then(|| {
        format!(
            "{} runs are still pending; first reason: {reason}",
            summary.left_pending
        )
    })
}

fn start_problems(start: &LoopStarted) -> Option<String> {
    (!start.started).then(|| {
        format!(
            "the loop was not started: {}. Nothing was spent; `\"force\": true` starts it anyway",
            start.objections.join("; ")
        )
    })
}

fn gate_problems(stepped: &LoopStepped) -> Option<String> {
    let reason = stepped.status.reason.as_deref().unwrap_or("unknown");
    stepped
        .refused
        .then(|| format!("the gate refused the nominee: {reason}"))
}

/// Reads the new lines of a job's events, like `tail -f`.
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

    /// Visits new complete lines, each with its end offset.
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
            // The line is incomplete: the process may still be writing it.
            if line.last() != Some(&b'\n') {
                return Ok(());
            }
            self.position += length as u64;
            visit(self.position, String::from_utf8_lossy(&line).trim_end());
        }
    }

    /// Reads new lines and adds them to `progress`.
    pub fn read_into(
        &mut self,
        progress: &mut Progress,
        mut visit: impl FnMut(u64, &str),
    ) -> std::io::Result<()> {
        self.read(|end, line| {
            progress.add_line(line);
            visit(end, line);
        })
    }

    /// The progress from all lines.
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
    use assize_pipeline::size_gate::Rejected;

    use super::*;

    fn progress_after(event: &JobEvent) -> Progress {
        let mut progress = Progress::default();
        progress.add_line(&serde_json::to_string(event).unwrap());
        progress
    }

    #[test]
    fn the_summary_s_problems_are_reported() {
        let remark = |event: JobEvent| {
            let progress = progress_after(&event);
            assert!(progress.has_summary);
            progress.remark.unwrap_or_default()
        };
        let collected = |summary: Summary| JobEvent::Summary(Box::new(summary));
        let judged = |summary: AutoSummary| JobEvent::Judged(Box::new(summary));
        let all = Summary {
            cells: 8,
            ..Summary::default()
        };
        assert_eq!(remark(collected(all.clone())), "");
        let some = Summary {
            failed: 2,
            rejections: vec![Rejected {
                model: "m".to_owned(),
                parameter_count: 1,
                reason: "larger than 4.0B".to_owned(),
            }],
            ..all
        };
        assert_eq!(
            remark(collected(some)),
            "2 of 8 cells failed; m was not admitted: larger than 4.0B"
        );
        assert_eq!(remark(judged(AutoSummary::default())), "");
        let left = AutoSummary {
            left_pending: 9,
            reasons: vec!["the answer is not JSON".to_owned()],
            ..AutoSummary::default()
        };
        let expected = "9 runs are still pending; first reason: the answer is not JSON";
        assert_eq!(remark(judged(left)), expected);
        let refused = JobEvent::Started(LoopStarted {
            experiment: "e".to_owned(),
            started: false,
            objections: vec!["the seed is at the top".to_owned()],
        });
        assert_eq!(
            remark(refused),
            "the loop was not started: the seed is at the top. Nothing was spent; `\"force\": true` starts it \
             anyway"
        );
    }

    #[test]
    fn an_incomplete_line_is_read_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(EVENTS);
        let cell = "{\"event\":\"cell\",\"model\":\"m\",\"prompt\":\"p\",\"scenario\":\"s\",\
                    \"status\":\"failed\",\"run_id\":null}\n";
        std::fs::write(&path, format!("{cell}{{\"event\":\"ce")).unwrap();
        let mut tail = Tail::new(dir.path());
        let mut progress = Progress::default();
        tail.read_into(&mut progress, |_, _| {}).unwrap();
        assert_eq!((progress.done, progress.failed), (1, 1));
        let summary = JobEvent::Summary(Box::new(Summary {
            cells: 2,
            ..Summary::default()
        }));
        let summary = serde_json::to_string(&summary).unwrap() + "\n";
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
