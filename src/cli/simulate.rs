//! The arguments of `assize simulate`.

use std::path::PathBuf;

use assize_policy::PolicyKind;
use clap::Args;

#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  assize simulate
  assize simulate --policies egreedy-v1,egreedy-v2 --steps 5000 --seeds 40 -o study.html
  assize simulate --show-personas > personas.toml
  assize simulate --personas personas.toml --json
  assize simulate --via http://127.0.0.1:4658 --steps 200 --seeds 1 --no-sensitivity

All policies meet the same situations with the same draws. The first one named is the baseline. The
results are an experiment of the tracking store, with a run for each policy and assumption;
docs/policies.md explains personas and figures.")]
pub struct Simulate {
    /// The policies, the baseline first
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "egreedy-v1,egreedy-v2,linucb"
    )]
    pub policies: Vec<PolicyKind>,
    /// Personas in TOML [default: the built-in ones]
    #[arg(long, value_name = "FILE")]
    pub personas: Option<PathBuf>,
    /// Decisions for each persona, seed and policy
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub steps: u32,
    /// Repetitions with other draws
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub seeds: u32,
    /// Determines all draws: the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Decisions of the baseline from which every policy learns before it is measured
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub warm_up: u32,
    /// Leave out drift, delayed reward, cold start and misspecified reward
    #[arg(long)]
    pub no_sensitivity: bool,
    /// Threads; the result does not depend on them [default: the machine's cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub jobs: Option<u16>,
    /// Ask the policies of a running server, with the token in $ASSIZE_TOKEN where it needs one
    #[arg(long, value_name = "URL", conflicts_with = "warm_up")]
    pub via: Option<String>,
    /// The experiment that holds the results [default: simulation-DATE-TIME]
    #[arg(long, value_name = "NAME")]
    pub experiment: Option<String>,
    /// Do not record the results in the tracking store
    #[arg(long, conflicts_with = "experiment")]
    pub no_track: bool,
    /// Write the results, in the format of the extension: .json, .csv, .html, .svg or .txt; repeatable
    #[arg(short, long, value_name = "FILE")]
    pub output: Vec<PathBuf>,
    /// With --json: events instead of the study, one object a line
    #[arg(long, hide = true, requires = "experiment")]
    pub events: bool,
    /// Print the built-in personas, to start from
    #[arg(long)]
    pub show_personas: bool,
}
