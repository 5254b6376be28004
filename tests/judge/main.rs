//! Judging: the judge file, the queue, and every kind of judge that uses them.

mod agent_command;
mod agent_install;
mod auto;
mod drift;
mod edge_cases;
mod judge_file;
mod litellm;
mod mcp;
mod messages;
mod queue;
#[path = "../support/sittings.rs"]
mod sittings;
mod terminal_desk;
