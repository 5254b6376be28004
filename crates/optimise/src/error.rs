//! The error type: which part of a loop cannot be used, and the remedy.

use thiserror::Error;

/// Why a loop cannot be read or started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptimiseError {
    #[error(
        "event {number} of the loop's log ({event}) does not fit what came before it: {why}; the log was changed \
         outside assize: restore a backup, or start a loop in another experiment"
    )]
    IllegalEvent {
        number: usize,
        event: &'static str,
        why: String,
    },
    #[error(
        "event {number} of the loop's log cannot be read: {why}; it was changed outside assize or written by a \
         later version: update assize or restore a backup"
    )]
    UnreadableEvent { number: usize, why: String },
    #[error("{} {problem}", flag(setting))]
    Setting {
        setting: &'static str,
        problem: String,
    },
    #[error(
        "scenario {scenario} belongs to the split {split}: only scenarios of the feedback split may be shown to a \
         reflector"
    )]
    NotFeedback { scenario: String, split: String },
    #[error("{0} is not a version of this loop: `assize optimise show` lists them")]
    UnknownVersion(String),
}

/// A setting as users give it: `max_auto` is `--max-auto`.
fn flag(setting: &str) -> String {
    match setting {
        "max_cost_usd" => "--max-cost".to_owned(),
        // Not a setting, or one that no flag sets.
        "the task" | "candidates" => setting.to_owned(),
        name => format!("--{}", name.replace('_', "-")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_named_as_flags() {
        for (setting, words) in [
            ("max_auto", "--max-auto is 0"),
            ("max_cost_usd", "--max-cost is 0"),
            ("stale_rounds", "--stale-rounds is 0"),
            ("the task", "the task is 0"),
        ] {
            let problem = "is 0".to_owned();
            let error = OptimiseError::Setting { setting, problem };
            assert_eq!(error.to_string(), words);
        }
    }
}
