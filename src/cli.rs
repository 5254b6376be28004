//! The command line: commands, arguments and help texts.

#![expect(
    clippy::doc_markdown,
    reason = "doc comments here are help texts, not Markdown"
)]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod judge;
mod judging;
mod optimise;
mod options;
mod plan;
pub mod policy;
mod serve;
mod simulate;
mod sync;

pub use judge::{AutoFlags, Judge};
pub use judging::{Agent, AgentInstall, Desk, Headless, Mcp};
pub use optimise::{LineageFormat, Optimise, Start as OptimiseStart, Step as OptimiseStep};
pub use options::{CollectFlags, GivenOptions, JudgeFlags, LoopFlags};
pub use plan::Plan;
pub use serve::{AirflowRun, Only, Serve, TokenAction};
pub use simulate::Simulate;
pub use sync::Sync;
pub mod verdicts;

/// Which (model, prompt) pair to ship, and the proof.
///
/// Assize evaluates every model × prompt × scenario cell on the same fixed scenarios, lets the
/// outputs wait as pending runs, has them scored blind against one pinned rubric, and ranks the
/// pairs with honest statistics.
#[derive(Debug, Parser)]
#[command(name = "assize", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "Examples:
  assize demo                                          the whole job with the embedded model
  assize plan --models qwen2.5:0.5b,gemma3:1b          power, hours and cost, before collecting
  assize collect --models qwen2.5:0.5b,gemma3:1b --experiment tip-bench
  assize judge export --experiment tip-bench --out judge.json
  assize judge apply judge.json --judge-kind human
  assize judge desk --experiment tip-bench             the same at a desk in the terminal
  assize agent install                                 agent sessions as judges (/judge)
  assize compare --experiment tip-bench -o board.html
  assize promote --experiment tip-bench --dry-run
  assize optimise start --experiment tip-loop --judge llama3.2:3b --dry-run

Exit codes: 0 done · 1 a service, file or network failed · 2 bad usage or invalid input ·
3 it ran, and a gate or threshold said no · 4 finished, but some cells failed · 130 interrupted";

/// Stands over the flags that every command takes.
const GLOBAL: &str = "Global options";

#[derive(Debug, Args)]
pub struct Global {
    /// The task: a built-in name or a folder [default: the experiment's own, for a new one tip]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NAME|DIR")]
    pub task: Option<String>,
    /// Where runs are tracked: sqlite:PATH or an MLflow server's http(s)://HOST:PORT [default: $MLFLOW_TRACKING_URI, else sqlite:.assize/assize.db]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URI", visible_alias = "mlflow-url")]
    pub tracking_uri: Option<String>,
    /// Settings [default: assize.toml where present]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Machine-readable output on stdout
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// No progress and no messages
    #[arg(long, short, global = true, help_heading = GLOBAL)]
    pub quiet: bool,
    /// No colours (also: NO_COLOR)
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub no_color: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the main job on embedded defaults: collect, judge, compare
    Demo(Demo),
    /// Write an editable copy of a built-in task
    Init {
        /// A new or empty folder
        dir: PathBuf,
    },
    /// Check a task and say everything that is wrong with it
    Validate {
        /// The task's folder [default: the one that --task names]
        dir: Option<String>,
    },
    /// What can be evaluated here, with sizes and whether the size gate admits it
    #[command(subcommand)]
    Models(Models),
    /// What a grid would find, take and cost, before it is collected
    Plan(Box<Plan>),
    /// Generate what is missing of a grid, and track it
    Collect(Box<Collect>),
    /// Score what was collected
    #[command(subcommand)]
    Judge(Judge),
    /// Set up agent sessions as judges
    #[command(subcommand)]
    Agent(Agent),
    /// The judging queue as an MCP server on stdio, for agent sessions
    Mcp(Mcp),
    /// Rank the (model, prompt) pairs
    Compare(Compare),
    /// Run the gate on the winner and move the alias champion
    Promote(Promote),
    /// The prompt loop: new versions are written, raced, and promoted only through the gate
    #[command(subcommand, visible_alias = "optimize")]
    Optimise(Optimise),
    /// Let policies choose for personas with known tastes, and compare them
    Simulate(Simulate),
    /// The online policies: status, gate, rollout, evaluation, exports
    #[command(subcommand)]
    Policy(policy::PolicyAction),
    /// Serve everything over HTTP: the web panel, the API, MLflow's REST API, jobs
    Serve(Serve),
    /// Copy runs between stores, and deliver what waits for a tracking server
    Sync(Sync),
    /// Access tokens of serve
    #[command(subcommand)]
    Token(TokenAction),
    /// Look at what is tracked
    #[command(subcommand)]
    Experiments(Experiments),
    /// Look at single runs
    #[command(subcommand)]
    Runs(Runs),
    /// Print the settings, their defaults and what they mean
    Config,
    /// Start a run in Airflow and follow it; assize serve does so where engine = "airflow"
    #[command(hide = true)]
    AirflowRun(AirflowRun),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Candidates per cell
    #[arg(long, default_value_t = 2)]
    pub n_tips: u32,
    /// The experiment to use
    #[arg(long, value_name = "NAME", default_value = "demo")]
    pub experiment: String,
    /// Leave the automatic judge out: it is the slower half
    #[arg(long)]
    pub no_judge: bool,
}

#[derive(Debug, Subcommand)]
pub enum Models {
    /// What can be evaluated here
    List,
    /// Get the weights of an embedded model
    Pull {
        /// A known name (smollm2-135m), a .gguf file or the address of one
        name: String,
    },
    /// What a model says of itself
    Show {
        /// A model as in collect --models
        model: String,
    },
}

#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:
  assize collect --models qwen2.5:0.5b,qwen2.5:1.5b --prompts v1,v3-few-shot --experiment tip-bench
  assize collect --models embedded:smollm2-135m --n-tips 3 --n-scenarios 4 --dry-run
  assize collect --models scripted:good,scripted:bad --script answers.json
  assize collect --models qwen2.5:0.5b,gemma3:1b --adaptive --judge llama3.2:3b

The same command again generates only what is missing. --adaptive collects about half of the cells:
it nominates a winner, which is then confirmed on the confirmation split."
)]
pub struct Collect {
    #[command(flatten)]
    pub options: CollectFlags,
    /// Do the I-th of N parts of the grid, from 1
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    pub shard: Option<(u32, u32)>,
    /// Drop the worse half of the pairs after every few scenarios; needs --judge
    #[arg(long, requires = "judge", conflicts_with = "shard")]
    pub adaptive: bool,
    /// The model that judges between the rounds of --adaptive; ids as in --models
    #[arg(long, value_name = "MODEL", requires = "adaptive")]
    pub judge: Option<String>,
    /// The pair that --adaptive never drops [default: the champion, else the first model and prompt]
    #[arg(long, value_name = "MODEL/PROMPT", requires = "adaptive")]
    pub incumbent: Option<String>,
    /// Show the grid, models, loads and an estimate; generate nothing
    #[arg(long)]
    pub dry_run: bool,
    /// With --json: first print how many cells there will be
    #[arg(long, conflicts_with = "adaptive")]
    pub events: bool,
}

#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:
  assize compare --experiment tip-bench -o board.html
  assize compare --experiment tip-bench --pareto=cost
  assize compare --experiment tip-bench --fail-under 11.5 -o board.xml
  assize compare --experiment tip-bench --candidate qwen2.5:1.5b/v4 --fail-unless-winner

For a build: --fail-under looks at the pair that the board says to ship, which is its winner, or
the incumbent where there is none. --candidate names others instead, which must also not be worse
than the incumbent (their whole 95 % interval below it). Exit code 3 where the answer is no."
)]
pub struct Compare {
    /// Which experiment
    #[arg(long, value_name = "NAME")]
    pub experiment: String,
    /// The tier whose verdicts count [default: expert where it has judged anything, else auto]
    #[arg(long, value_name = "expert|auto|combined")]
    pub tier: Option<assize_domain::leaderboard::BoardTier>,
    /// What the others are compared with [default: the champion, else the first model and prompt]
    #[arg(long, value_name = "MODEL/PROMPT")]
    pub incumbent: Option<String>,
    /// Which scenarios
    #[arg(long, value_name = "SPLIT", default_value = "selection")]
    pub split: assize_domain::scenario::Split,
    /// Show the confirmation split before a candidate is nominated; the ledger records the look
    #[arg(long)]
    pub unseal: bool,
    /// How to print [default: table, or json with --json]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Write to a file, format by its ending (.json .csv .md .html .txt, .xml for JUnit); repeatable
    #[arg(long, short, value_name = "FILE")]
    pub output: Vec<PathBuf>,
    /// Show quality against latency or cost: the Pareto frontier, and which pairs are dominated
    /// [latency where it was measured]
    #[arg(long, value_name = "latency|cost", num_args = 0..=1, require_equals = true, default_missing_value = "measured", hide_possible_values = true)]
    pub pareto: Option<ParetoBy>,
    /// Exit 3 where the mean composite of what the board says to ship is lower
    #[arg(long, value_name = "X", value_parser = finite)]
    pub fail_under: Option<f64>,
    /// Exit 3 where there is no winner (or another than the named candidate)
    #[arg(long)]
    pub fail_unless_winner: bool,
    /// The pair that a build asks about: exit 3 where it is worse than the incumbent; repeatable
    #[arg(long, value_name = "MODEL/PROMPT")]
    pub candidate: Vec<String>,
}

/// What quality is weighed against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ParetoBy {
    /// Latency, or cost where latency was not measured.
    Measured,
    Latency,
    Cost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Csv,
    Md,
    Html,
    Junit,
}

#[derive(Debug, Args)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "Examples:
  assize promote --experiment tip-bench --dry-run
  assize promote --experiment tip-bench --note 'shorter and kinder'
  assize promote history
  assize promote ledger --experiment tip-bench
  assize promote rollback --note 'users complained'

A dry run that gets as far as the confirmation split is an attempt, too: the ledger records it.
Exit codes: 0 promoted, or with --dry-run would be · 3 the gate says no ·
1 somebody else promoted meanwhile; run it again. The thresholds are [gate] in assize.toml."
)]
pub struct Promote {
    #[command(subcommand)]
    pub action: Option<PromoteAction>,
    /// Which experiment
    #[arg(long, required = true, value_name = "NAME")]
    pub experiment: Option<String>,
    /// The pair to promote [default: the winner of the selection split]
    #[arg(long, value_name = "MODEL/PROMPT")]
    pub candidate: Option<String>,
    /// The pair that it must beat [default: the champion, else the first model and prompt]
    #[arg(long, value_name = "MODEL/PROMPT")]
    pub incumbent: Option<String>,
    /// Run the gate and promote nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Why, for the history
    #[arg(long, value_name = "WHY")]
    pub note: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum PromoteAction {
    /// All promotions: champion, date, author and note
    History,
    /// Every look at the confirmation split of an experiment, and every attempt to promote
    Ledger {
        /// Which experiment
        #[arg(long, value_name = "NAME")]
        experiment: String,
    },
    /// Bring the previous champion back
    Rollback {
        /// Why, for the history
        #[arg(long, value_name = "WHY")]
        note: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum Experiments {
    /// Experiments that hold runs
    List,
}

#[derive(Debug, Args)]
pub struct RunFilter {
    /// Which experiment
    #[arg(long, value_name = "NAME")]
    pub experiment: String,
    /// Only runs of this model
    #[arg(long)]
    pub model: Option<String>,
    /// Only runs of this prompt
    #[arg(long)]
    pub prompt: Option<String>,
    /// Only runs of this scenario
    #[arg(long)]
    pub scenario: Option<String>,
    /// Only runs of this split [default: all]
    #[arg(long, value_name = "SPLIT")]
    pub split: Option<assize_domain::scenario::Split>,
    /// Only runs that wait for an expert
    #[arg(long)]
    pub pending: bool,
    /// Show scores of the sealed confirmation split; the ledger records the look
    #[arg(long)]
    pub unseal: bool,
}

#[derive(Debug, Subcommand)]
pub enum Runs {
    /// Runs of an experiment
    List {
        #[command(flatten)]
        filter: RunFilter,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// One run: its prompt, candidates and verdicts
    Show {
        /// The run's id, or the start of it
        run: String,
        /// Show its scores although the confirmation split is sealed; the ledger records the look
        #[arg(long)]
        unseal: bool,
    },
    /// Take runs out of every list; their cells can be collected again
    Delete {
        /// The runs' ids, or the starts of them
        #[arg(required = true)]
        runs: Vec<String>,
    },
    /// All runs of an experiment, one candidate a record
    Export {
        #[command(flatten)]
        filter: RunFilter,
        /// Where to write, format by its ending (.jsonl .csv) [default: JSONL to stdout]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "write a number, for example 11.5".to_owned())
}

fn parse_shard(text: &str) -> Result<(u32, u32), String> {
    let parsed = text
        .split_once('/')
        .and_then(|(this, of)| Some((this.parse().ok()?, of.parse().ok()?)));
    match parsed {
        Some((this, of)) if this >= 1 && this <= of => Ok((this, of)),
        _ => Err("write I/N with I from 1 to N, for example 2/4".to_owned()),
    }
}
