//! The `assize` binary: it reads what was typed, wires the crates together, and prints.

use std::process::ExitCode;

use clap::Parser as _;

mod cli;
mod commands;
mod delivery;
mod environment;
mod output;
mod session;
mod settings;
mod tracking;
mod webhook;

use cli::{Cli, Command};
use session::Session;

/// How a command ended, as the process reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// It ran, and a gate or threshold said no.
    Refused,
    /// Finished, but some cells failed.
    CellsFailed,
    /// Finished, but a tracking server has not taken everything yet.
    Undelivered,
    /// The user stopped it; the work so far is kept.
    Interrupted,
    /// Bad usage or invalid input, already explained.
    Invalid,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::Undelivered => Self::from(1),
            Exit::Invalid => Self::from(2),
            Exit::Refused => Self::from(3),
            Exit::CellsFailed => Self::from(4),
            Exit::Interrupted => Self::from(130),
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(exit) => exit.into(),
        Err(error) => commands::explain(&error),
    }
}

fn run(cli: &Cli) -> anyhow::Result<Exit> {
    let session = Session::open(&cli.global)?;
    match &cli.command {
        Command::Demo(args) => commands::demo::run(&session, args),
        Command::Init { dir } => commands::task::init(&session, dir),
        Command::Validate { dir } => commands::task::validate(&session, dir.as_deref()),
        Command::Models(args) => commands::models::run(&session, args),
        Command::Collect(args) => commands::collect::run(&session, args),
        Command::Judge(args) => commands::judge::run(&session, args),
        Command::Agent(cli::Agent::Install(args)) => commands::agent::install(&session, args),
        Command::Mcp(args) => commands::doors::mcp::run(&session, args),
        Command::Compare(args) => commands::compare::run(&session, args),
        Command::Promote(args) => commands::promote::run(&session, args),
        Command::Serve(args) => commands::serve::run(&session, args),
        Command::Sync(args) => commands::sync::run(&session, args),
        Command::Token(action) => commands::token::run(&session, action),
        Command::Experiments(cli::Experiments::List) => commands::experiments::list(&session),
        Command::Runs(args) => commands::runs::run(&session, args),
        Command::Config => session
            .output
            .data(settings::DEFAULTS)
            .map(|()| Exit::Done)
            .map_err(Into::into),
        Command::Completions { shell } => commands::completions(&session, *shell),
    }
}
