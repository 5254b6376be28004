//! Jobs of `assize serve`: requests and their results.
//!
//! Whether a job is alive is not stored here: a file lock shows it (`assize_server::jobs`).

use assize_domain::job::JobKind;
use rusqlite::{OptionalExtension as _, Row, types::Type};

use super::State;
use crate::Result;

pub(super) const TABLES: &str = "
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    experiment TEXT NOT NULL,
    by TEXT NOT NULL,
    request TEXT NOT NULL,
    words TEXT NOT NULL,
    hosts TEXT NOT NULL,
    total INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL,
    pid INTEGER,
    created_ms INTEGER NOT NULL,
    started_ms INTEGER,
    finished_ms INTEGER,
    error TEXT
);
CREATE INDEX jobs_unfinished ON jobs (status) WHERE finished_ms IS NULL;
";

/// The status of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    Queued,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl JobStatus {
    pub const ALL: [Self; 5] = [
        Self::Queued,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// A stored job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    pub id: String,
    pub kind: JobKind,
    pub experiment: String,
    /// The user who requested it.
    pub by: String,
    /// The request, as JSON.
    pub request: String,
    /// The command line after the program's name.
    pub words: Vec<String>,
    /// The hosts that it loads models into.
    pub hosts: Vec<String>,
    /// The total number of cells; 0 if it is not known.
    pub total: u32,
    pub done: u32,
    pub failed: u32,
    pub status: JobStatus,
    pub pid: Option<u32>,
    pub created_ms: i64,
    pub started_ms: Option<i64>,
    pub finished_ms: Option<i64>,
    pub error: Option<String>,
}

const COLUMNS: &str = "id, kind, experiment, by, request, words, hosts, total, done, failed, \
                       status, pid, created_ms, started_ms, finished_ms, error";

impl State {
    pub fn job_create(&self, job: &JobRecord) -> Result<()> {
        self.with(|conn| {
            let sql = "INSERT INTO jobs (id, kind, experiment, by, request, words, hosts, total,
                                         status, created_ms)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
            conn.prepare_cached(sql)?.execute((
                &job.id,
                job.kind.as_str(),
                &job.experiment,
                &job.by,
                &job.request,
                list_text(&job.words),
                list_text(&job.hosts),
                job.total,
                job.status.as_str(),
                job.created_ms,
            ))?;
            Ok(())
        })
    }

    pub fn job_get(&self, id: &str) -> Result<Option<JobRecord>> {
        self.with(|conn| {
            conn.prepare_cached(&format!("SELECT {COLUMNS} FROM jobs WHERE id = ?1"))?
                .query_row([id], record)
                .optional()
        })
    }

    /// The newest jobs, newest first.
    pub fn job_list(&self, limit: u32) -> Result<Vec<JobRecord>> {
        self.with(|conn| {
            let sql = format!("SELECT {COLUMNS} FROM jobs ORDER BY number DESC LIMIT ?1");
            let mut list = conn.prepare_cached(&sql)?;
            let jobs = list.query_map([limit], record)?;
            jobs.collect()
        })
    }

    /// Jobs that are queued or running, oldest first.
    pub fn job_unfinished(&self) -> Result<Vec<JobRecord>> {
        self.with(|conn| {
            let sql =
                format!("SELECT {COLUMNS} FROM jobs WHERE finished_ms IS NULL ORDER BY number");
            let mut list = conn.prepare_cached(&sql)?;
            let jobs = list.query_map([], record)?;
            jobs.collect()
        })
    }

    /// Marks a queued job as started; returns `false` if it is no longer queued.
    pub fn job_start(&self, id: &str, pid: u32, now_ms: i64) -> Result<bool> {
        self.with(|conn| {
            let sql = "UPDATE jobs SET status = 'running', pid = ?2, started_ms = ?3
                       WHERE id = ?1 AND status = 'queued'";
            Ok(conn.prepare_cached(sql)?.execute((id, pid, now_ms))? == 1)
        })
    }

    pub fn job_progress(&self, id: &str, (done, failed, total): (u32, u32, u32)) -> Result<()> {
        self.with(|conn| {
            let sql = "UPDATE jobs SET done = ?2, failed = ?3, total = ?4
                       WHERE id = ?1 AND finished_ms IS NULL";
            conn.prepare_cached(sql)?
                .execute((id, done, failed, total))?;
            Ok(())
        })
    }

    /// Marks a job as finished; returns `false` if it had finished already.
    pub fn job_finish(
        &self,
        id: &str,
        status: JobStatus,
        error: Option<&str>,
        now_ms: i64,
    ) -> Result<bool> {
        self.with(|conn| {
            let sql = "UPDATE jobs SET status = ?2, error = ?3, finished_ms = ?4
                       WHERE id = ?1 AND finished_ms IS NULL";
            let changed =
                conn.prepare_cached(sql)?
                    .execute((id, status.as_str(), error, now_ms))?;
            Ok(changed == 1)
        })
    }
}

fn list_text(list: &[String]) -> String {
    serde_json::Value::from(list).to_string()
}

fn list(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
    })
}

fn kind(row: &Row<'_>, column: usize) -> rusqlite::Result<JobKind> {
    let text: String = row.get(column)?;
    text.parse().map_err(|error: String| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
    })
}

fn record(row: &Row<'_>) -> rusqlite::Result<JobRecord> {
    let status: String = row.get(10)?;
    let status = JobStatus::ALL
        .into_iter()
        .find(|it| it.as_str() == status)
        .unwrap_or(JobStatus::Failed);
    Ok(JobRecord {
        id: row.get(0)?,
        kind: kind(row, 1)?,
        experiment: row.get(2)?,
        by: row.get(3)?,
        request: row.get(4)?,
        words: list(row, 5)?,
        hosts: list(row, 6)?,
        total: row.get(7)?,
        done: row.get(8)?,
        failed: row.get(9)?,
        status,
        pid: row.get(11)?,
        created_ms: row.get(12)?,
        started_ms: row.get(13)?,
        finished_ms: row.get(14)?,
        error: row.get(15)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_ends_once() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        let job = JobRecord {
            id: "j1".to_owned(),
            kind: JobKind::Collect,
            experiment: "e".to_owned(),
            by: "Ada".to_owned(),
            request: "{}".to_owned(),
            words: vec!["collect".to_owned(), "--models=a,b".to_owned()],
            hosts: vec!["this machine".to_owned()],
            total: 8,
            done: 0,
            failed: 0,
            status: JobStatus::Queued,
            pid: None,
            created_ms: 1,
            started_ms: None,
            finished_ms: None,
            error: None,
        };
        state.job_create(&job).unwrap();
        assert_eq!(state.job_get("j1").unwrap(), Some(job.clone()));
        assert!(state.job_start("j1", 77, 2).unwrap());
        assert!(!state.job_start("j1", 78, 3).unwrap());
        state.job_progress("j1", (3, 1, 8)).unwrap();
        assert_eq!(state.job_unfinished().unwrap().len(), 1);
        assert!(state.job_finish("j1", JobStatus::Done, None, 9).unwrap());
        assert!(!state.job_finish("j1", JobStatus::Failed, None, 10).unwrap());
        let kept = state.job_list(5).unwrap().remove(0);
        assert_eq!(
            (kept.status, kept.done, kept.failed),
            (JobStatus::Done, 3, 1)
        );
        assert!(state.job_unfinished().unwrap().is_empty());
    }
}
