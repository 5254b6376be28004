//! The arguments of `assize plan`.

use clap::Args;

use super::{CollectFlags, finite};

#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:
  assize plan --models qwen2.5:0.5b,gemma3:1b --prompts v1,v3-few-shot
  assize plan --models qwen2.5:0.5b,gemma3:1b --n-scenarios 24 --n-tips 2 --effect 1
  assize plan --models qwen2.5:0.5b,gemma3:1b --power 0.9 --json

Takes the options of collect and generates nothing. The gate is simulated with the thresholds of
[gate] and with what earlier experiments under the same rubric showed of the spreads, or with
documented defaults; docs/planning.md explains the figures."
)]
pub struct Plan {
    #[command(flatten)]
    pub options: CollectFlags,
    /// The power that is asked for: how often a better pair should be promoted
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, value_parser = power)]
    pub power: f64,
    /// How many points better one challenger is [default: twice the margin of the gate]
    #[arg(long, value_name = "POINTS", value_parser = finite)]
    pub effect: Option<f64>,
    /// How many experiments are simulated for the effect asked
    #[arg(long, value_name = "N", default_value_t = assize_pipeline::plan::SIMULATIONS,
        value_parser = clap::value_parser!(u32).range(50..=100_000))]
    pub simulations: u32,
}

fn power(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let valid = number.filter(|it: &f64| (0.05..=0.99).contains(it));
    valid.ok_or_else(|| "write a share from 0.05 to 0.99, for example 0.8".to_owned())
}
