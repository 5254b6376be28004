//! The hosts of a collection, as its events tell of them.

use assize_pipeline::collect::{HostState, HostSummary};
use assize_pipeline::events::{HostNow, JobEvent};

/// One host on a job's page.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct HostRow {
    pub host: String,
    pub state: &'static str,
    /// The model that it loads or holds.
    pub model: String,
    pub cells: u64,
    pub loads: u64,
    pub failures: u64,
    /// What went wrong last.
    pub problem: String,
}

/// Every host of a collection, in the order of appearance.
#[derive(Debug, Default)]
pub(super) struct HostRows(pub Vec<HostRow>);

impl HostRows {
    pub fn add(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Host(now) => self.change(now),
            JobEvent::Cell(cell) => {
                if let Some(host) = &cell.host {
                    self.row(host).cells += 1;
                }
            }
            JobEvent::Summary(summary) => {
                for host in &summary.hosts {
                    self.end(host);
                }
            }
            _ => {}
        }
    }

    fn row(&mut self, host: &str) -> &mut HostRow {
        let place = self.0.iter().position(|it| it.host == host);
        let place = place.unwrap_or_else(|| {
            self.0.push(HostRow {
                host: host.to_owned(),
                state: HostState::Waiting.as_str(),
                ..HostRow::default()
            });
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    fn change(&mut self, now: &HostNow) {
        let row = self.row(&now.host);
        row.state = now.state.as_str();
        row.model = now.model.clone().unwrap_or_default();
        row.problem = now.error.clone().unwrap_or_default();
        row.loads += u64::from(now.state == HostState::Working);
        row.failures += u64::from(now.state == HostState::Failed);
    }

    fn end(&mut self, summary: &HostSummary) {
        let row = self.row(&summary.host);
        row.state = if summary.error.is_some() {
            "left out"
        } else {
            "done"
        };
        row.model.clear();
        row.cells = summary.cells;
        row.loads = summary.loads;
        row.failures = summary.failures;
        row.problem = summary.error.clone().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lines: &[&str]) -> Vec<HostRow> {
        let mut rows = HostRows::default();
        for line in lines {
            rows.add(&serde_json::from_str(line).unwrap());
        }
        rows.0
    }

    #[test]
    fn the_last_event_says_what_a_host_does() {
        let cell = r#"{"event":"cell","model":"m","prompt":"p","scenario":"s","status":"collected","run_id":"r","host":"a"}"#;
        let mut lines = vec![
            r#"{"event":"host","host":"a","state":"loading","model":"m"}"#,
            r#"{"event":"host","host":"a","state":"working","model":"m"}"#,
            r#"{"event":"host","host":"b","state":"failed","model":null,"error":"gone"}"#,
            cell,
            cell,
        ];
        let now = rows(&lines);
        assert_eq!(
            (now[0].state, now[0].cells, now[0].loads),
            ("working", 2, 1)
        );
        assert_eq!(now[0].model, "m");
        assert_eq!((now[1].state, now[1].problem.as_str()), ("failed", "gone"));
        let summary = r#"{"event":"summary","cells":2,"collected":2,"skipped":0,"failed":0,"failed_candidates":0,
            "rejected_models":[],"rejections":[],"undelivered":0,"model_loads":{"m":1},"seconds":1.0,
            "hosts":[{"host":"a","cells":2,"loads":1,"seconds":0.5,"failures":0},
                     {"host":"b","cells":0,"loads":0,"seconds":0.0,"failures":3,"error":"gone"}]}"#;
        lines.push(summary);
        let over = rows(&lines);
        assert_eq!((over[0].state, over[0].model.as_str()), ("done", ""));
        assert_eq!((over[1].state, over[1].failures), ("left out", 3));
    }
}
