//! What concerns the command line as a whole: help, tasks, lists, and the webhook that commands call.

mod commands;
mod import;
mod next_commands;
mod option_table;
mod plan;
mod promptfoo;
mod settings;
mod simulate;
mod stores;
mod tutorial;
mod webhook;
