//! Arguments of `assize judge amend`, `reopen` and `release`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  assize judge amend 3fa2c1 --candidate 2 --set relevance=4 --reason 'overlooked the deadline'

The corrected verdict counts from now on; the earlier one stays in the run's history.")]
pub struct Amend {
    /// The run's id, or the start of it
    pub run: String,
    /// Which of its candidates, from 0
    #[arg(long, visible_alias = "case", value_name = "N")]
    pub candidate: Option<u32>,
    /// A score and its new value; repeatable
    #[arg(long, required = true, value_name = "NAME=VALUE", value_parser = parse_score)]
    pub set: Vec<(String, String)>,
    /// Why, in a sentence; becomes the verdict's rationale
    #[arg(long)]
    pub reason: String,
    /// The tier of the wrong verdict [default: expert where it has judged, else auto]
    #[arg(long, value_name = "expert|auto")]
    pub tier: Option<assize_domain::judge::Tier>,
    /// Who corrects it [default: you]
    #[arg(long, value_name = "NAME")]
    pub judged_by: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  assize judge reopen --experiment tip-bench --runs 3fa2c1,9be0d4
  assize judge reopen --experiment tip-bench --task my-task --rubric
  assize judge reopen --experiment tip-bench --tier auto
  assize judge reopen --experiment tip-bench --pairs qwen2.5:0.5b/v1,qwen2.5:0.5b/v2-mentor

With --pairs the next sitting judges these pairs beside each other, blind: that repairs a comparison of
pairs that were judged by different judges or in different sittings.
Verdicts and candidates are kept. Verdicts under another rubric never mix with new ones.")]
pub struct Reopen {
    /// Which experiment
    #[arg(long, value_name = "NAME")]
    pub experiment: String,
    /// Put the runs under the task's present rubric; runs that are under it are left alone
    #[arg(long)]
    pub rubric: bool,
    /// Only these runs, by id or the start of it [default: all of the experiment]
    #[arg(long, value_name = "RUN,…", value_delimiter = ',')]
    pub runs: Vec<String>,
    /// Only the runs of these pairs, as the board names them
    #[arg(
        long,
        value_name = "MODEL/PROMPT,…",
        value_delimiter = ',',
        conflicts_with = "runs"
    )]
    pub pairs: Vec<String>,
    /// Only the runs of this split [default: all]
    #[arg(long, value_name = "SPLIT")]
    pub split: Option<assize_domain::scenario::Split>,
    /// Say how many runs there are and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Without --rubric: the tier whose verdicts no longer count
    #[arg(long, value_name = "expert|auto", default_value = "expert")]
    pub tier: assize_domain::judge::Tier,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  assize judge recompute --experiment tickets
  assize judge recompute --experiment tickets --task my-task --dry-run

Nothing is generated. A changed rule is another rubric: the runs are put under it, and earlier verdicts stay
in the history. Where every criterion is computed the runs are judged at once; where a judge is asked they
are pending again if the rubric changed. The same command again changes nothing. It ends with 4 where
something could not be computed.")]
pub struct Recompute {
    /// Which experiment
    #[arg(long, value_name = "NAME")]
    pub experiment: String,
    /// Say what would change and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

fn parse_score(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=');
    let pair = pair.filter(|(name, value)| !name.is_empty() && !value.is_empty());
    pair.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .ok_or_else(|| "write NAME=VALUE, for example relevance=4 or overlong=true".to_owned())
}
