//! The command line: commands, arguments and help texts.

#![expect(
    clippy::doc_markdown,
    reason = "doc comments here are help texts, not Markdown"
)]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod import;
mod judge;
mod judging;
mod optimise;
mod options;
mod plan;
pub mod policy;
mod serve;
mod simulate;
mod sync;

pub use import::Import;
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
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
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
    /// Refuse tasks whose computed criteria run commands; for the jobs of assize serve
    #[arg(long, global = true, hide = true)]
    pub no_commands: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the main job on embedded defaults: collect, judge, compare
    Demo(Demo),
    /// Write an editable copy of a built-in task, or a small task to start from
    Init {
        /// A new or empty folder
        dir: PathBuf,
        /// Start from a small task of this kind instead
        #[arg(long, value_name = "classify|extract|summarise|chat|empty", value_parser = assize_domain::templates::names().collect::<Vec<_>>(), hide_possible_values = true, conflicts_with = "task")]
        template: Option<String>,
    },
    /// Write a task folder from what you already have
    #[command(subcommand)]
    Import(Import),
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
    /// Print the settings in force, each with its origin
    Config(Config),
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
#[command(
    allow_negative_numbers = true,
    after_help = "A setting is a flag, an environment variable (ASSIZE_N_TIPS=3), a line of assize.toml, a default of the
task or a built-in default: the first of these that names it wins. Flags of collect show what they would
change. Passwords and tokens are not settings and are not printed."
)]
pub struct Config {
    /// Print all settings with their built-in defaults and what they mean, as a file to edit
    #[arg(long)]
    pub defaults: bool,
    #[command(flatten)]
    pub options: CollectFlags,
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
    /// Then serve the result to the browsers of this machine, and open its page
    #[arg(long)]
    pub panel: bool,
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
  assize collect --models qwen2.5:0.5b --prompts v1 --sweep temperature=0.2,0.7
  assize collect --task my-task --models qwen2.5:0.5b --prompts v1 --watch

The same command again generates only what is missing. --adaptive collects about half of the cells:
it nominates a winner, which is then confirmed on the confirmation split."
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Collect {
    #[command(flatten)]
    pub options: CollectFlags,
    /// Do the I-th of N parts of the grid, from 1
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    pub shard: Option<(u32, u32)>,
    /// Drop the worse half of the pairs after every few scenarios; needs --judge, unless every
    /// criterion is computed
    #[arg(long, conflicts_with = "shard")]
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
    /// Take answers to the same requests from the cache in .assize/cache; runs that do say so in a tag
    #[arg(long)]
    pub cache: bool,
    /// Generate two scenarios again whenever a prompt's file changes, and show what changed; nothing is tracked
    #[arg(long, conflicts_with_all = ["adaptive", "shard", "dry_run", "events"])]
    pub watch: bool,
    /// With --json: first print how many cells there will be
    #[arg(long, conflicts_with = "adaptive")]
    pub events: bool,
}

#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:
  assize compare --experiment tip-bench -o board.html
  assize compare --experiment tip-bench --by scenario
  assize compare --experiment tip-bench --examples=2
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
    /// Show who wins in which scenario, with the difference to the incumbent as a small plot
    #[arg(long, value_name = "scenario")]
    pub by: Option<By>,
    /// Show the best, the worst and the most disputed outputs of every pair, N of each [1]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(u8).range(1..=50))]
    pub examples: Option<u8>,
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

/// What a board is shown by besides its pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    Scenario,
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

/// The order of a list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RunOrder {
    Oldest,
    Newest,
    /// The highest first; runs without a composite last.
    Composite,
}

#[derive(Debug, Subcommand)]
pub enum Runs {
    /// Runs of an experiment
    List {
        #[command(flatten)]
        filter: RunFilter,
        /// Only runs with an output that contains this text, in any case
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
        /// The order: the oldest first, the newest first, or the highest composite first
        #[arg(long, value_enum, default_value_t = RunOrder::Oldest)]
        sort: RunOrder,
        /// At most so many; 0 for all
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
        /// Where to write, format by its ending (.jsonl .csv), - for stdout [default: JSONL to stdout]
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
