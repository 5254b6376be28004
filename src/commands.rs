//! The commands, a module each: arguments in, one call into the pipeline, words out.

use std::io;
use std::process::ExitCode;

use assize_domain::error_kind::ErrorKind;
use assize_domain::model::BadModelId;
use assize_mcp::McpError;
use assize_pipeline::PipelineError;
use assize_providers::ProviderError;
use assize_server::ServerError;
use assize_store::StoreError;

use crate::output::{complain, safe};
use crate::settings::BadSettings;

pub mod agent;
pub mod airflow_run;
pub mod collect;
pub mod compare;
pub mod completions;
pub mod config;
pub mod demo;
pub mod experiments;
pub mod import;
pub mod judge;
pub mod mcp;
pub mod models;
pub mod optimise;
pub mod plan;
pub mod policy;
pub mod promote;
pub mod runs;
pub mod serve;
pub mod simulate;
pub mod sync;
pub mod task;
pub mod token;

/// How many problems are listed before the rest is only counted.
const MOST_PROBLEMS: usize = 200;

/// Prints an error so that it names the thing, the place and the remedy.
pub fn explain(error: &anyhow::Error) -> ExitCode {
    // The reader of our output closed the pipe, for example `head`.
    let is_closed_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error
        .chain()
        .filter_map(|cause| cause.downcast_ref())
        .any(is_closed_pipe)
    {
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = error.chain().map(ToString::to_string).collect();
    let mut text = String::new();
    for part in words {
        // Errors of our crates include their cause already.
        if !text.contains(&part) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&part);
        }
    }
    complain(&format!("error: {}", safe(&text)));
    let pipeline = error.downcast_ref::<PipelineError>();
    match pipeline {
        Some(PipelineError::Task { problems, .. }) => {
            list(problems.iter().map(|it| safe(&it.to_string())));
        }
        Some(PipelineError::JudgeFile { problems, .. }) => {
            let width = problems
                .iter()
                .map(|it| it.pointer.chars().count())
                .max()
                .unwrap_or(0)
                .min(32);
            list(
                problems
                    .iter()
                    .map(|it| safe(&format!("{:<width$} {}", it.pointer, it.message))),
            );
        }
        _ => {}
    }
    ExitCode::from(kind_of(error).report().exit_code)
}

/// The kind of whatever error a command ended with; what has no kind of its own is a file or a
/// connection that failed.
fn kind_of(error: &anyhow::Error) -> ErrorKind {
    if error.is::<BadSettings>() || error.is::<BadModelId>() {
        return ErrorKind::InvalidInput;
    }
    let pipeline = error.downcast_ref().map(PipelineError::kind);
    let store = || error.downcast_ref().map(StoreError::kind);
    let server = || error.downcast_ref().map(ServerError::kind);
    let provider = || error.downcast_ref().map(ProviderError::kind);
    let mcp = || error.downcast_ref().map(McpError::kind);
    pipeline
        .or_else(store)
        .or_else(server)
        .or_else(provider)
        .or_else(mcp)
        .unwrap_or(ErrorKind::Io)
}

fn list(lines: impl ExactSizeIterator<Item = String>) {
    let count = lines.len();
    for line in lines.take(MOST_PROBLEMS) {
        complain(&format!("  {line}"));
    }
    if count > MOST_PROBLEMS {
        complain(&format!("  … and {} more", count - MOST_PROBLEMS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_ends_the_command_with_the_exit_code_of_its_kind() {
        let code = |error: anyhow::Error| kind_of(&error).report().exit_code;
        assert_eq!(code(PipelineError::Invalid("x".to_owned()).into()), 2);
        assert_eq!(code(PipelineError::Interrupted.into()), 130);
        assert_eq!(code(PipelineError::worker_panicked().into()), 1);
        assert_eq!(code(StoreError::worker_panicked().into()), 1);
        assert_eq!(code(StoreError::Conflict("x".to_owned()).into()), 2);
        assert_eq!(code(ServerError::NameTaken("x".to_owned()).into()), 2);
        assert_eq!(code(ServerError::AlreadyServing.into()), 1);
        assert_eq!(code(BadModelId("x".to_owned()).into()), 2);
        assert_eq!(code(BadSettings(Vec::new()).into()), 2);
        assert_eq!(code(io::Error::other("x").into()), 1);
        let wrapped = anyhow::Error::from(PipelineError::Interrupted).context("while judging");
        assert_eq!(code(wrapped), 130);
    }
}
