//! Arguments of the commands that judge at the queue: `mcp`, `judge desk`, `judge agent`, and of `agent install`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Agent {
    /// Write what agent sessions need to judge in this project: the MCP server and a command
    #[command(after_help = "Writes, where they are missing:
  .mcp.json, .claude/commands/judge.md                   Claude Code: /judge EXPERIMENT
  .codex/config.toml, .agents/skills/judge/SKILL.md      Codex: $judge EXPERIMENT
  .gemini/settings.json, .gemini/commands/judge.toml     Gemini CLI: /judge EXPERIMENT

A file that is there already is changed only where you agree; other entries in it stay.")]
    Install(AgentInstall),
}

#[derive(Debug, Args)]
pub struct AgentInstall {
    /// The project's folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Merge into files that are there already, without asking
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Agents start this themselves, once assize agent install has told them.

Examples:
  assize agent install
  claude mcp add assize -- assize mcp --judged-by nightly
  assize mcp --tracking-uri sqlite:bench.db"
)]
pub struct Mcp {
    /// The judge's kind [default: by the client that connects, such as claude-code or codex]
    #[arg(long, value_name = "KIND")]
    pub judge_kind: Option<String>,
    /// The judge's name [default: the user's]
    #[arg(long, value_name = "NAME")]
    pub judged_by: Option<String>,
    /// Seconds that a silent session keeps its cases
    #[arg(long, value_name = "S", default_value_t = 1800, value_parser = clap::value_parser!(u32).range(1..))]
    pub lease: u32,
    /// Leave the task's calibration cases out
    #[arg(long)]
    pub no_anchors: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  assize judge desk --experiment tip-bench
  assize judge desk --experiment tip-bench --judged-by Ana

Every case is saved when you submit it (Enter). You can quit at any time: the same command continues.
Inside, ? shows the keys.")]
pub struct Desk {
    /// Which experiment
    #[arg(long, value_name = "NAME")]
    pub experiment: String,
    /// Your name [default: the user's]
    #[arg(long, value_name = "NAME")]
    pub judged_by: Option<String>,
    /// The judge's kind
    #[arg(long, value_name = "KIND", default_value = "human")]
    pub judge_kind: String,
    /// Only runs that wait on this kind's desk [default: every kind]
    #[arg(long = "desk", value_name = "KIND")]
    pub waits_on: Option<String>,
    /// Determines the order of cases [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Leave the task's calibration cases out
    #[arg(long)]
    pub no_anchors: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command gets a judge file on stdin, with the rubric and blind cases, and prints it with
every score filled in; prose and a ```json fence around it do no harm. A file with mistakes is sent
once more, with the mistakes in its field \"problems\".

Examples:
  assize judge agent --experiment tip-bench \\
    --cmd 'claude -p \"Fill in every score and rationale of this judge file. Print only the file.\"'
  assize judge agent --experiment tip-bench --cmd 'codex exec -' --batch 5
  assize judge agent --experiment tip-bench --cmd './my-judge.py' --judge-kind agent --limit 50"
)]
pub struct Headless {
    /// Which experiment
    #[arg(long, value_name = "NAME")]
    pub experiment: String,
    /// A command for the shell that reads a judge file and prints one
    #[arg(long, value_name = "COMMAND")]
    pub cmd: String,
    /// Cases per call of the command
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub batch: u32,
    /// At most so many cases, rounded up to whole scenarios; 0 = all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub limit: u32,
    /// Seconds that one call may take
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout: u32,
    /// The judge's kind [default: by the command's first word; agent where that is unknown]
    #[arg(long, value_name = "KIND")]
    pub judge_kind: Option<String>,
    /// The judge's name [default: its kind]
    #[arg(long, value_name = "NAME")]
    pub judged_by: Option<String>,
    /// Leave the task's calibration cases out
    #[arg(long)]
    pub no_anchors: bool,
}
