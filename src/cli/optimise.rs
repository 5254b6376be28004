//! Arguments of `assize optimise`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::LoopFlags;

const START_EXAMPLES: &str = "Examples:
  assize optimise start --experiment tip-loop --models qwen2.5:1.5b --judge openai:haiku \\
      --base-url http://localhost:4000/v1 --dry-run
  assize optimise start --experiment tip-loop --models qwen2.5:1.5b --judge llama3.2:3b
  assize optimise start --experiment tip-loop --models qwen2.5:1.5b --judge openai:haiku \\
      --reflector cmd:'python3 reflect.py' --rounds 3 --max-cost 2
  assize optimise start --experiment rehearsal --task task --models scripted:m \\
      --judge scripted:j --script answers.json --reflector script:children.json

Everything is checked and shown before anything is spent. Then `assize optimise step` goes on as far
as it can.
Exit codes: 0 started · 3 the preflight advises against it (or too many nominees have seen the
confirmation split).";

const STEP_EXAMPLES: &str = "Examples:
  assize optimise step --experiment tip-loop
  assize optimise step --experiment tip-loop --json

It does everything that can be done now, says whom it waits for, and ends.
It can be killed at any time. From a timer, it runs a loop overnight.
Exit codes: 0 done or waiting · 3 the gate refused the nominee in this step · 4 cells failed that the
loop cannot go on without; the same command tries them again.";

const SHOW_EXAMPLES: &str = "Examples:
  assize optimise show --experiment tip-loop
  assize optimise show --experiment tip-loop --json > lineage.json
  assize optimise show --experiment tip-loop -o lineage.html -o lineage.svg
  assize optimise show --experiment tip-loop --text r2c1 > my-task/prompts/v4.md";

/// What `assize optimise` does.
#[derive(Debug, Subcommand)]
pub enum Optimise {
    /// Check everything, show what it would use, and start a loop
    #[command(after_help = START_EXAMPLES)]
    Start(Box<Start>),
    /// Do everything that can be done now, and say whom it waits for
    #[command(after_help = STEP_EXAMPLES)]
    Step(Box<Step>),
    /// Where a loop stands
    Status(Which),
    /// The versions as a tree: parents, hypotheses, scores, fates
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        #[command(flatten)]
        which: Which,
        /// Print the whole text of one version, as a prompt file
        #[arg(long, value_name = "ID", conflicts_with_all = ["format", "output"])]
        text: Option<String>,
        /// How to print the tree
        #[arg(long, value_enum)]
        format: Option<LineageFormat>,
        /// Write to this file instead, in the format of its extension: .txt, .json, .md, .svg, .html;
        /// may be repeated
        #[arg(long, short, value_name = "FILE")]
        output: Vec<PathBuf>,
    },
    /// The difference between two versions, line by line
    Diff {
        #[command(flatten)]
        which: Which,
        /// The earlier version: seed, r1c1, …
        from: String,
        /// The later version
        to: String,
    },
    /// End a loop; what it has recorded stays
    Stop {
        #[command(flatten)]
        which: Which,
        /// Why, for the log
        #[arg(long, value_name = "WHY", default_value = "by request")]
        reason: String,
    },
}

/// How the tree of versions is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LineageFormat {
    Table,
    Json,
    Md,
    Svg,
    Html,
}

#[derive(Debug, Args)]
pub struct Which {
    /// Which experiment
    #[arg(long, value_name = "NAME")]
    pub experiment: String,
}

#[derive(Debug, Args)]
pub struct Start {
    /// The experiment that the loop belongs to; it has one loop
    #[arg(long, value_name = "NAME")]
    pub experiment: String,
    /// The automatic judge of the race; ids as in --models. Not needed where every criterion is
    /// computed
    #[arg(long, value_name = "MODEL")]
    pub judge: Option<String>,
    /// Who writes new versions: an agent session, a command, a model, or a script for rehearsals
    #[arg(
        long,
        value_name = "agent|cmd:COMMAND|MODEL|script:FILE",
        default_value = "agent"
    )]
    pub reflector: String,
    /// The prompt to start from [default: the champion's, else the task's first]
    #[arg(long, value_name = "NAME")]
    pub prompt: Option<String>,
    /// Rounds at most
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rounds: u32,
    /// Children that are asked for in a round, 1 to 4
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub children: u32,
    /// Automatic verdicts at most, those of the gate included
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub max_auto: u32,
    /// Children of the whole loop at most [default: rounds × children]
    #[arg(long, value_name = "N")]
    pub max_children: Option<u32>,
    /// Stop searching before the loop costs more, in US dollars
    #[arg(long, value_name = "USD")]
    pub max_cost: Option<f64>,
    /// Stop searching so many hours after the start
    #[arg(long, value_name = "H")]
    pub max_hours: Option<f64>,
    /// Stop searching after so many rounds without a leader in a row
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub stale_rounds: u32,
    /// Stop searching when a version reaches this share of the composite's range
    #[arg(long, value_name = "SHARE", default_value_t = 0.97)]
    pub ceiling: f64,
    /// Start although the preflight advises against it; admit a local model as reflector
    #[arg(long)]
    pub force: bool,
    /// Show what the loop would do and use; start nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Take the first step at once, and print events with --json as `step --events` does; where the loop has
    /// been started before, only take a step
    #[arg(long, hide = true, conflicts_with = "dry_run")]
    pub then_step: bool,
    #[command(flatten)]
    pub options: LoopFlags,
}

#[derive(Debug, Args)]
pub struct Step {
    /// Which experiment
    #[arg(long, value_name = "NAME")]
    pub experiment: String,
    /// Stop after one thing is done and recorded
    #[arg(long)]
    pub once: bool,
    /// With --json: print what it does as it goes, one object a line, and the status last
    #[arg(long)]
    pub events: bool,
    #[command(flatten)]
    pub options: LoopFlags,
}
