//! The arguments of `assize policy`.

use std::path::PathBuf;

use assize_policy::PolicyKind;
use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  assize policy status
  assize policy promote egreedy-v2 --dry-run
  assize policy promote egreedy-v2 --reason \"wins in simulation and as a shadow\"
  assize policy rollback --reason \"complaints\"
  assize policy evaluate linucb
  assize policy export --format vw -o decisions.vw
  assize policy sample my-task --most 20 --redact name,email

The commands work on .assize/policies.db, also while assize serve answers requests from it. See
docs/policies.md and docs/design/policy-rollout.md.")]
pub enum PolicyAction {
    /// What is active, what it has earned, and what the shadows have scored
    Status,
    /// Run the gate on a policy and make it active
    Promote(PolicyPromote),
    /// Make the policy active again that was active before
    Rollback(Reason),
    /// Every change, oldest first; entries are never changed
    History,
    /// The reward that a policy would have had, from the log of decisions
    Evaluate {
        /// The policy
        policy: PolicyKind,
    },
    /// The log of decisions for other programs
    Export(PolicyExport),
    /// Add the contexts of logged decisions to a task's feedback split
    Sample(PolicySample),
    /// Turn a shadow on or off, whatever the settings say
    Shadow {
        /// The shadow's name in the settings
        name: String,
        /// on or off
        switch: Switch,
        #[command(flatten)]
        reason: Reason,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

#[derive(Debug, Args)]
pub struct Reason {
    /// Why, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

#[derive(Debug, Args)]
pub struct PolicyPromote {
    /// The policy that is to become active
    pub policy: PolicyKind,
    /// Only run the gate
    #[arg(long)]
    pub dry_run: bool,
    /// Personas in TOML [default: the built-in ones]
    #[arg(long, value_name = "FILE")]
    pub personas: Option<PathBuf>,
    #[command(flatten)]
    pub reason: Reason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Jsonl,
    Csv,
    /// As Vowpal Wabbit reads it: vw --cb_explore_adf
    Vw,
}

#[derive(Debug, Args)]
pub struct PolicyExport {
    #[arg(long, value_enum, default_value_t = LogFormat::Jsonl)]
    pub format: LogFormat,
    /// Only the decisions of this policy
    #[arg(long, value_name = "NAME")]
    pub policy: Option<PolicyKind>,
    /// The file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PolicySample {
    /// The task's folder
    pub folder: PathBuf,
    /// New scenarios at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub most: u32,
    /// Fields of the context that are left out, such as names
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',')]
    pub redact: Vec<String>,
    /// Only decisions of the last so many days
    #[arg(long, value_name = "N")]
    pub days: Option<u32>,
    /// Determines which decisions are drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Only say what would be added
    #[arg(long)]
    pub dry_run: bool,
}
