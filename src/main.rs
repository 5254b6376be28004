//! The `assize` binary: it parses the command line, wires the crates together, and prints.

use std::process::ExitCode;

use assize_domain::error_kind::exit;
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
    fn from(outcome: Exit) -> Self {
        Self::from(match outcome {
            Exit::Done => exit::DONE,
            Exit::Undelivered => exit::FAILED,
            Exit::Invalid => exit::INVALID,
            Exit::Refused => exit::REFUSED,
            Exit::CellsFailed => exit::CELLS_FAILED,
            Exit::Interrupted => exit::INTERRUPTED,
        })
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
        Command::Init { dir, template } => commands::task::init(&session, dir, template.as_deref()),
        Command::Import(args) => commands::import::run(&session, args),
        Command::Validate { dir } => commands::task::validate(&session, dir.as_deref()),
        Command::Models(args) => commands::models::run(&session, args),
        Command::Plan(args) => commands::plan::run(&session, args),
        Command::Policy(action) => commands::policy::run(&session, action),
        Command::Simulate(args) => commands::simulate::run(&session, args),
        Command::Collect(args) => commands::collect::run(&session, args),
        Command::Judge(args) => commands::judge::run(&session, args),
        Command::Agent(cli::Agent::Install(args)) => commands::agent::install(&session, args),
        Command::Mcp(args) => commands::mcp::run(&session, args),
        Command::Compare(args) => commands::compare::run(&session, args),
        Command::Promote(args) => commands::promote::run(&session, args),
        Command::Optimise(action) => commands::optimise::run(&session, action),
        Command::Serve(args) => commands::serve::run(&session, args),
        Command::Sync(args) => commands::sync::run(&session, args),
        Command::Token(action) => commands::token::run(&session, action),
        Command::Experiments(cli::Experiments::List) => commands::experiments::list(&session),
        Command::Runs(args) => commands::runs::run(&session, args),
        Command::Config(args) => commands::config::run(&session, args),
        Command::AirflowRun(args) => commands::airflow_run::run(&session, args),
        Command::Completions { shell } => commands::completions::run(&session, *shell),
    }
}
