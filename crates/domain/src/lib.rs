//! The nouns and rules of Assize.
//!
//! Tasks, scenarios, prompts, rubrics, cells, candidates, runs, verdicts and boards: what they
//! are, how they are read, when they are valid, and how they are identified. Nothing here
//! touches a file, a socket, a clock or a random number: texts, times and seeds are passed in.

pub mod anchor;
pub mod builtin;
pub mod candidate;
pub mod case;
pub mod cell;
pub mod chat;
pub mod check;
pub mod composite;
pub mod computed;
pub mod error_kind;
pub mod fence;
pub mod front_matter;
pub mod hash;
pub mod image;
pub mod job;
pub mod judge;
pub mod leaderboard;
pub mod ledger;
pub mod model;
pub mod options;
pub mod output;
pub mod own_model;
pub mod plan;
pub mod problem;
pub mod promotion;
pub mod prompt;
pub mod role;
pub mod rubric;
pub mod rule;
pub mod run;
pub mod scenario;
pub mod sitting;
pub mod submission;
pub mod sweep;
pub mod task;
pub mod template;
pub mod templates;
pub mod tool;
pub mod verdict;
