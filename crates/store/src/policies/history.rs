//! The history of the policies: which one is active, who changed that and why. It only grows.

use rusqlite::{Connection, OptionalExtension as _, Row};
use serde::{Deserialize, Serialize};

use super::PolicyFile;
use crate::sqlite::Attempt;
use crate::{Result, StoreError};

/// What an entry of the history did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyAction {
    Promote,
    Rollback,
    /// The reward of the active policy fell below its bound.
    AutomaticRollback,
    EnableShadow,
    DisableShadow,
}

impl PolicyAction {
    const ALL: [Self; 5] = [
        Self::Promote,
        Self::Rollback,
        Self::AutomaticRollback,
        Self::EnableShadow,
        Self::DisableShadow,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::Rollback => "rollback",
            Self::AutomaticRollback => "automatic-rollback",
            Self::EnableShadow => "enable-shadow",
            Self::DisableShadow => "disable-shadow",
        }
    }
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HistoryEntry {
    /// Entries are numbered from 1 without gaps.
    pub number: u32,
    pub at_ms: i64,
    pub action: PolicyAction,
    pub from: Option<String>,
    pub to: Option<String>,
    pub author: String,
    pub reason: String,
    pub evidence: serde_json::Value,
}

const COLUMNS: &str =
    "SELECT number, at_ms, action, from_policy, to_policy, author, reason, evidence
     FROM policy_history";

impl PolicyFile {
    /// Appends an entry; fails with a conflict unless its number follows the latest one.
    pub fn history_append(&self, entry: &HistoryEntry) -> Result<()> {
        self.change(|conn| {
            let latest = latest(conn)?;
            if latest.as_ref().map_or(0, |it| it.number) + 1 != entry.number {
                return Err(superseded(latest.as_ref()).into());
            }
            conn.execute(
                "INSERT INTO policy_history
                     (number, at_ms, action, from_policy, to_policy, author, reason, evidence)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                (
                    entry.number,
                    entry.at_ms,
                    entry.action.as_str(),
                    &entry.from,
                    &entry.to,
                    &entry.author,
                    &entry.reason,
                    entry.evidence.to_string(),
                ),
            )?;
            Ok(())
        })
    }

    /// All entries, oldest first.
    pub fn history_list(&self) -> Result<Vec<HistoryEntry>> {
        self.readers.read_one(|conn| {
            let mut list = conn.prepare_cached(&format!("{COLUMNS} ORDER BY number"))?;
            let mut rows = list.query([])?;
            let mut entries = Vec::new();
            while let Some(row) = rows.next()? {
                entries.push(entry(row)?);
            }
            Ok(entries)
        })
    }

    /// The latest entry. Reading it takes microseconds, so that a server can notice changes by
    /// other processes.
    pub fn history_latest(&self) -> Result<Option<HistoryEntry>> {
        self.readers.read_one(latest)
    }
}

fn latest(conn: &Connection) -> Attempt<Option<HistoryEntry>> {
    let mut find = conn.prepare_cached(&format!("{COLUMNS} ORDER BY number DESC LIMIT 1"))?;
    let found = find.query_row([], |row| Ok(entry(row))).optional()?;
    found.transpose()
}

fn entry(row: &Row<'_>) -> Attempt<HistoryEntry> {
    let number = row.get(0)?;
    let unreadable = |reason: String| StoreError::Unreadable {
        what: format!("entry {number} of the policy history"),
        reason,
    };
    let name: String = row.get(2)?;
    let action = PolicyAction::ALL.into_iter().find(|it| it.as_str() == name);
    let evidence: String = row.get(7)?;
    Ok(HistoryEntry {
        number,
        at_ms: row.get(1)?,
        action: action.ok_or_else(|| unreadable(format!("the action '{name}' is unknown")))?,
        from: row.get(3)?,
        to: row.get(4)?,
        author: row.get(5)?,
        reason: row.get(6)?,
        evidence: serde_json::from_str(&evidence).map_err(|it| unreadable(it.to_string()))?,
    })
}

fn superseded(latest: Option<&HistoryEntry>) -> StoreError {
    let seen = match latest {
        Some(entry) => format!(
            "entry {} is '{}' by {}",
            entry.number,
            entry.action.as_str(),
            entry.author
        ),
        None => "it has no entry".to_owned(),
    };
    StoreError::HistoryChanged { seen }
}
