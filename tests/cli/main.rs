//! What concerns the command line as a whole: help, tasks, lists, and the webhook that commands call.

mod commands;
mod option_table;
mod plan;
mod simulate;
mod webhook;
