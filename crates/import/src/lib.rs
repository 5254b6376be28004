//! Makes the files of a task from what users already have: a data set or a promptfoo
//! configuration.
//!
//! Everything here is a function from texts to texts. What cannot be carried over is listed in
//! words, never dropped in silence. Reading and writing folders is done by the caller.

use assize_domain::task::TaskFiles;

pub mod dataset;
mod names;
pub mod promptfoo;
mod write;

/// The list of what could not be carried over, in the task's folder.
pub const NOTES_FILE: &str = "import-notes.md";

/// A task as files, and what it lacks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Import {
    pub files: TaskFiles,
    pub scenarios: usize,
    pub prompts: usize,
    /// What could not be carried over, a sentence each.
    pub notes: Vec<String>,
    /// Models of the source, as `collect --models` names them.
    pub models: Vec<String>,
}

/// Why nothing could be imported: a message with the place and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(pub String);

pub type Result<T> = std::result::Result<T, ImportError>;

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(ImportError(message.into()))
}
