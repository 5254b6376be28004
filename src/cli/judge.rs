//! Arguments of `assize judge`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Desk, Headless, JudgeFlags, verdicts};

const EXPORT_EXAMPLES: &str = "Examples:
  assize judge export --experiment tip-bench --out judge.json
  assize judge export --experiment tip-bench --out part.json --limit 40 --judge-kind human
  assize judge export --experiment tip-bench --out spot.json --spot-check

Fill in the scores (and a rationale, if you like), then hand the file in with assize judge apply.";

const APPLY_EXAMPLES: &str = "Examples:
  assize judge apply judge.json --judge-kind human --judged-by Ana
  assize judge apply judge.json --partial
  my-judge < judge.json | assize judge apply - --judge-kind claude-code

The whole file is checked first. Applying the same file twice changes nothing. It ends with 3 where
the calibration cases say that the judge has drifted.";

const STATUS_EXAMPLES: &str = "Examples:
  assize judge status --experiment tip-bench
  assize judge status --experiment tip-bench --delta 2
  assize judge status --experiment tip-bench --json";

const RELEASE_EXAMPLE: &str = "Example:
  assize judge release 20260427T101500-4f9a1c2e

Where the alarm was right, do nothing and judge the cases again.";

const AUTO_EXAMPLES: &str = "Examples:
  assize judge auto --experiment tip-bench --judge openai:haiku --base-url http://localhost:4000/v1 -j 16 --max-cost 2
  assize judge auto --experiment tip-bench --judge ollama:qwen2.5:3b
  assize judge auto --experiment tip-bench --judge embedded:smollm2-135m

The same command again judges only what is missing. It ends with 3 where --max-cost stopped it,
and with 4 where answers could not be used and cases stay pending.";

/// How an automatic judge works.
#[derive(Debug, Default, Args)]
pub struct AutoFlags {
    #[command(flatten)]
    pub options: JudgeFlags,
    /// Judge at most so many cases now, rounded up to whole scenarios; 0 for all
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub limit: u32,
    /// With --json: also print how far it has come, one object a line, as it goes
    #[arg(long)]
    pub events: bool,
}

#[derive(Debug, Subcommand)]
pub enum Judge {
    /// Write pending cases as a blind judge file
    #[command(after_help = EXPORT_EXAMPLES)]
    Export {
        /// Which experiment
        #[arg(long, value_name = "NAME")]
        experiment: String,
        /// Where to write; - for stdout
        #[arg(long, short)]
        out: PathBuf,
        /// At most so many cases, rounded up to whole scenarios
        #[arg(long, default_value_t = 0, value_name = "N")]
        limit: usize,
        /// Only runs that wait on this kind's desk [default: every kind]
        #[arg(long, value_name = "KIND")]
        judge_kind: Option<String>,
        /// Determines the order of cases [default: random]
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// Leave the task's calibration cases out
        #[arg(long)]
        no_anchors: bool,
        /// Draw from what only automatic judges have scored, with known probabilities (about
        /// --limit cases, else 30)
        #[arg(long)]
        spot_check: bool,
    },
    /// Write the scores of a judge file: all of it or nothing
    #[command(after_help = APPLY_EXAMPLES)]
    Apply {
        /// The filled file; - for stdin
        file: PathBuf,
        /// Who judged: human, claude-code, … (people and agents are experts, others automatic)
        #[arg(long, value_name = "KIND")]
        judge_kind: Option<String>,
        /// The judge's name
        #[arg(long, value_name = "NAME")]
        judged_by: Option<String>,
        /// Take the scored cases and leave the rest pending
        #[arg(long)]
        partial: bool,
    },
    /// Let a model score what the automatic tier has not seen
    #[command(after_help = AUTO_EXAMPLES)]
    Auto {
        /// Which experiment
        #[arg(long, value_name = "NAME")]
        experiment: String,
        /// The judging model; ids as in collect
        #[arg(long, value_name = "MODEL")]
        judge: String,
        /// Leave the task's calibration cases out
        #[arg(long)]
        no_anchors: bool,
        #[command(flatten)]
        flags: AutoFlags,
    },
    /// Judge at a desk in the terminal
    Desk(Desk),
    /// Judge with an agent's command line, without interaction
    Agent(Headless),
    /// How far judging has come, and how far the judges agree
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        /// Which experiment
        #[arg(long, value_name = "NAME")]
        experiment: String,
        /// List where an automatic judge and the experts differ by more than this many points [default: a fifth of the composite's range]
        #[arg(long, value_name = "POINTS", value_parser = points)]
        delta: Option<f64>,
        /// Include the sealed confirmation split; the ledger records the look
        #[arg(long)]
        unseal: bool,
    },
    /// Correct a verdict; the old one stays in the history
    Amend(verdicts::Amend),
    /// Make runs pending again, for example under a new rubric
    Reopen(verdicts::Reopen),
    /// Score stored outputs again by the task's present rules and checks, without generating
    Recompute(verdicts::Recompute),
    /// Lift the quarantine of a sitting whose judge had drifted: its verdicts count again
    #[command(after_help = RELEASE_EXAMPLE)]
    Release {
        /// The sitting's id, as judge status shows it
        sitting: String,
    },
}

fn points(text: &str) -> Result<f64, String> {
    let points = text.parse().ok();
    let points = points.filter(|it: &f64| *it >= 0.0 && it.is_finite());
    points.ok_or_else(|| "use points of the composite from 0, for example 3".to_owned())
}
