//! Arguments of `assize serve` and `assize token`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  assize serve                                         the first start shows an admin token, once
  assize serve --open-loopback                         programs on this machine need no token
  assize serve --only policies                         choose and learn online, nothing else
  assize serve --tracking-uri http://mlflow:5000       over the team's MLflow server
  assize serve --mlflow-ui                             with MLflow's own pages, at /mlflow/
  assize token create --role judge --name Ada          a token for somebody else

Then sign in with a browser, or for MLflow's own client:
  export MLFLOW_TRACKING_URI=http://127.0.0.1:4658 MLFLOW_TRACKING_TOKEN=assize_…

Jobs that run when the server stops go on; the next start finds them again.")]
pub struct Serve {
    /// Serve only a part: the online policies, without panel, jobs and tracking store
    #[arg(long, value_name = "PART")]
    pub only: Option<Only>,
    /// The address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub host: std::net::IpAddr,
    /// The port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 4658)]
    pub port: u16,
    /// Let programs on this machine in without a token
    #[arg(long)]
    pub open_loopback: bool,
    /// Listen on an address that other machines can reach
    #[arg(long)]
    pub allow_remote: bool,
    /// A name by which the server may be addressed, besides localhost and IP addresses; repeatable
    #[arg(long, value_name = "NAME")]
    pub allowed_host: Vec<String>,
    /// A URL, task folder or script that requests may name, besides what is configured; repeatable
    #[arg(long, value_name = "URL|PATH")]
    pub allow: Vec<String>,
    /// Serve MLflow's own pages at /mlflow/, from an installed mlflow package: DIR, or the one that
    /// python3 finds
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "auto")]
    pub mlflow_ui: Option<std::path::PathBuf>,
    /// Leave the tasks' calibration cases out, at the desk and for automatic judges
    #[arg(long)]
    pub no_anchors: bool,
}

/// A part of the server that can be served alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Only {
    Policies,
}

#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Make a token; it is shown once
    #[command(after_help = "Examples:
  assize token create --role judge --name Ada
  assize token create --role viewer --json")]
    Create {
        /// admin: everything · judge: the desk · viewer: reading · service: the policies
        #[arg(long)]
        role: assize_domain::role::Role,
        /// The holder's name, recorded with verdicts and promotions [default: the role and the id]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// All tokens, without their secrets
    List,
    /// Make a token useless, and end the sessions that were opened with it
    Revoke {
        /// The token's id, as `assize token list` shows it
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct AirflowRun {
    /// bench_collect or sim_run
    #[arg(long, value_name = "DAG")]
    pub dag: String,
    /// The run's conf
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub conf: String,
    /// How many cells there will be, where that is known
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub total: u64,
}
