//! Arguments of `assize sync`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  assize sync --from sqlite:.assize/assize.db --to http://mlflow:5000 --experiment tip-bench
  assize sync --from http://mlflow:5000 --to sqlite:copy.db --experiment tip-bench --dry-run
  assize sync                                deliver what waits for a tracking server

Copies runs with everything that belongs to them, verdicts and sittings included. It adds what is
missing and takes nothing back: the same command again changes nothing, and one that was cut off
goes on. Where both sides have verdicts on a cell, the target gets those it lacks.")]
pub struct Sync {
    /// Where the runs are: sqlite:PATH or http(s)://…
    #[arg(long, value_name = "URI", requires_all = ["to", "experiment"])]
    pub from: Option<String>,
    /// Where they shall be too
    #[arg(long, value_name = "URI", requires_all = ["from", "experiment"])]
    pub to: Option<String>,
    /// The experiment to copy
    #[arg(long, value_name = "NAME", requires_all = ["from", "to"])]
    pub experiment: Option<String>,
    /// Say what would be copied, and copy nothing
    #[arg(long, requires = "from")]
    pub dry_run: bool,
}
