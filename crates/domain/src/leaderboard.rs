//! The leaderboard, in the JSON shape of the command and the API.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::judge::{COMPUTED, Tier};
use crate::ledger::ConfirmationUse;
use crate::sweep::label_json::{self, LabelFields};
use crate::verdict::RubricRef;

pub mod answers;
pub mod check;
pub mod pareto;

pub use pareto::{Pareto, Resource};

/// Means by the name of a criterion or flag, in the rubric's order.
pub type Scores = IndexMap<String, f64>;

/// (model, prompt) pairs ranked, with uncertainty. What is not computed is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Leaderboard {
    pub experiment: String,
    pub rubric: Option<RubricRef>,
    pub tier: BoardTier,
    /// Whether every criterion is computed, so that the scores are no judge's.
    #[serde(default)]
    pub computed: bool,
    pub split: String,
    pub incumbent: Option<Pair>,
    pub rows: Vec<Row>,
    pub decision: Option<Decision>,
    pub variance: Option<Variance>,
    /// Quality against latency, or against cost where latency was not measured; `null` where
    /// neither was.
    #[serde(default)]
    pub pareto: Option<Pareto>,
    pub coverage: Coverage,
    /// Weak pairs were dropped while the runs were collected, so what is left was chosen on
    /// these very figures: they nominate, and other scenarios must confirm.
    #[serde(default)]
    pub adaptive: bool,
    /// The smallest and the largest composite that the rubric allows.
    pub composite_range: Option<[f64; 2]>,
    /// How often the confirmation split was used; `null` if nobody has seen its scores.
    #[serde(default)]
    pub confirmation: Option<ConfirmationUse>,
    /// What a reader should know before believing the rows.
    pub warnings: Vec<String>,
    /// What the decision was held against.
    #[serde(default)]
    pub rule: Option<BoardRule>,
    /// For the combined tier.
    #[serde(default)]
    pub combination: Option<Combination>,
    /// How `p_adjusted` is adjusted: `maxT`, or `minP` where pairs have different numbers of
    /// scenarios.
    #[serde(default)]
    pub method: Option<String>,
    /// Pairs that were collected here and have too few verdicts of this tier to be tested.
    #[serde(default)]
    pub unjudged_pairs: Vec<Pair>,
    /// Pairs that have no row because every cell of theirs failed.
    #[serde(default)]
    pub failed_pairs: Vec<FailedPair>,
    /// Where the leading challenger loses.
    #[serde(default)]
    pub harm: Option<Harm>,
    /// Verdicts on earlier versions of scenarios, which are kept and do not count.
    #[serde(default)]
    pub older_versions: Vec<OlderVersion>,
}

impl Leaderboard {
    /// Whose scores it shows, in a word: the tier, or that rules computed them.
    pub const fn scored_by(&self) -> &'static str {
        if self.computed {
            COMPUTED
        } else {
            self.tier.as_str()
        }
    }
}

/// `level` and `margin` of `[gate]`, the margin in points of the composite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BoardRule {
    pub level: f64,
    pub margin: f64,
}

/// Whose scores a board shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BoardTier {
    Expert,
    Auto,
    /// The automatic scores of all candidates, corrected by the experts' scores of some.
    Combined,
}

impl BoardTier {
    pub const ALL: [Self; 3] = [Self::Expert, Self::Auto, Self::Combined];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expert => "expert",
            Self::Auto => "auto",
            Self::Combined => "combined",
        }
    }
}

impl From<Tier> for BoardTier {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Expert => Self::Expert,
            Tier::Auto => Self::Auto,
        }
    }
}

impl std::fmt::Display for BoardTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for BoardTier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|tier| tier.as_str() == text);
        known.ok_or_else(|| format!("'{text}' is not a tier: use expert, auto or combined"))
    }
}

/// How much the combined board trusts the automatic scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Combination {
    /// From 0 (the experts' scores alone) to 1.
    pub lambda: f64,
    /// By challenger: candidates with expert scores, and how many of them would be as precise
    /// without the automatic scores.
    pub samples: Vec<CombinedSample>,
}

/// The experts' sample behind one difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CombinedSample {
    pub pair: Pair,
    pub expert_scores: u64,
    pub effective_scores: f64,
}

/// What is ranked, shipped and promoted.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Pair {
    pub model: String,
    /// The label: the prompt's name, its content's hash where needed, and swept settings
    /// ([`crate::sweep`]). JSON has the settings in a field of their own.
    #[serde(flatten, with = "label_json")]
    #[schemars(with = "LabelFields")]
    pub prompt: String,
}

impl Pair {
    /// `MODEL/PROMPT`, as flags name a pair. A model's name may hold slashes itself.
    pub fn id(&self) -> String {
        format!("{}/{}", self.model, self.prompt)
    }
}

impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} × {}", self.model, self.prompt)
    }
}

/// One pair's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Row {
    pub rank: u32,
    pub model: String,
    /// The label, as in [`Pair`].
    #[serde(flatten, with = "label_json")]
    #[schemars(with = "LabelFields")]
    pub prompt: String,
    pub scenarios: u32,
    pub candidates: u32,
    pub composite: Estimate,
    pub criteria: Scores,
    pub flags: Scores,
    pub vs_incumbent: Option<Versus>,
    pub p_best: Option<f64>,
    /// Candidates that were requested and never came.
    #[serde(default)]
    pub n_failed: u32,
    pub latency_ms: Option<f64>,
    pub tokens_per_s: Option<f64>,
    /// The median of its runs' latencies.
    #[serde(default)]
    pub latency_p50_ms: Option<f64>,
    /// 95 % of its runs were at most so slow.
    #[serde(default)]
    pub latency_p95_ms: Option<f64>,
    /// What a thousand candidates cost, where the provider reports costs.
    #[serde(default)]
    pub cost_usd_per_1000: Option<f64>,
    /// Tokens of thoughts that a candidate takes, on average; `null` where the model has none.
    #[serde(default)]
    pub thinking_tokens: Option<f64>,
}

impl Row {
    pub fn pair(&self) -> Pair {
        Pair {
            model: self.model.clone(),
            prompt: self.prompt.clone(),
        }
    }
}

/// A pair whose cells all failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FailedPair {
    #[serde(flatten)]
    pub pair: Pair,
    /// Cells that were collected; each failed.
    pub cells: u32,
    /// Candidates that were requested and never came.
    pub n_failed: u32,
}

/// A mean over scenarios with its uncertainty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Estimate {
    pub mean: f64,
    /// Standard error over scenarios; `null` with one scenario.
    pub se: Option<f64>,
    pub ci95: Option<[f64; 2]>,
}

/// The paired difference to the incumbent, on the scenarios that both have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Versus {
    pub diff: f64,
    /// Two-sided, for this comparison alone.
    pub ci95: Option<[f64; 2]>,
    /// One-sided lower bound of the same confidence, which belongs to `p`.
    #[serde(default)]
    pub lower95: Option<f64>,
    /// Scenarios that both have.
    #[serde(default)]
    pub scenarios: u32,
    /// One-sided: how often so large a lead comes by chance.
    pub p: Option<f64>,
    /// The same, over all challengers at once.
    pub p_adjusted: Option<f64>,
    /// The share of verdicts on the two pairs that come from different raters.
    #[serde(default)]
    pub judged_apart: Option<f64>,
}

impl Versus {
    /// The interval, where it shows that the pair is worse than the incumbent.
    pub fn worse(&self) -> Option<[f64; 2]> {
        let tested = self.ci95.filter(|_| self.p.is_some());
        tested.filter(|[_, high]| *high < 0.0)
    }
}

/// Which pair the data support, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Decision {
    pub winner: Option<Pair>,
    pub reason: String,
    pub scenarios_needed: Option<u32>,
    /// Whether the incumbent is the champion and no challenger is ahead of it.
    #[serde(default)]
    pub champion_holds: bool,
    /// The winner's difference to the incumbent, corrected for having been selected.
    #[serde(default)]
    pub corrected_diff: Option<f64>,
}

/// Shares of the total sum of squares; they add up to 1. With one candidate per cell noise
/// cannot be told from `by_scenario`, which then holds both, and `noise` is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Variance {
    pub model: f64,
    pub prompt: f64,
    pub interaction: f64,
    pub scenario: f64,
    pub by_scenario: f64,
    pub noise: Option<f64>,
}

/// Where a pair is better or worse than the incumbent, the worst first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Harm {
    pub pair: Pair,
    pub scenarios: Vec<ScenarioEffect>,
    pub segments: Vec<SegmentEffect>,
    /// The estimates of scenarios are upper bounds, because with one candidate per cell noise
    /// cannot be told from effects.
    pub upper_bounds: bool,
}

/// A pair's difference to the incumbent in one scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ScenarioEffect {
    pub scenario: String,
    /// As observed.
    pub diff: f64,
    /// Without the noise of few candidates: shrunk towards the mean over scenarios.
    pub estimate: f64,
}

/// A pair's difference to the incumbent in the scenarios with one value of a field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SegmentEffect {
    pub field: String,
    pub value: String,
    pub scenarios: u32,
    /// As observed.
    pub diff: f64,
    /// Shrunk towards the mean over the field's values.
    pub estimate: Option<f64>,
}

/// An earlier version of a scenario, which is kept and does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OlderVersion {
    pub scenario: String,
    pub sha256: String,
    pub runs: u64,
    /// Candidates that are judged, by the tier that judged more of them.
    pub judged: u64,
}

/// How much of the grid is judged.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default, schemars::JsonSchema,
)]
pub struct Coverage {
    pub cells: u32,
    pub judged: u32,
    pub pending: u32,
    pub failed: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row with a mean and nothing else.
    pub fn row(model: &str, mean: f64) -> Row {
        Row {
            rank: 1,
            model: model.to_owned(),
            prompt: "p".to_owned(),
            scenarios: 8,
            candidates: 40,
            composite: Estimate {
                mean,
                se: None,
                ci95: None,
            },
            criteria: Scores::new(),
            flags: Scores::new(),
            vs_incumbent: None,
            p_best: None,
            n_failed: 0,
            latency_ms: None,
            tokens_per_s: None,
            latency_p50_ms: None,
            latency_p95_ms: None,
            cost_usd_per_1000: None,
            thinking_tokens: None,
        }
    }

    pub fn board(rows: Vec<Row>) -> Leaderboard {
        Leaderboard {
            experiment: "e".to_owned(),
            rubric: None,
            tier: BoardTier::Expert,
            computed: false,
            split: "selection".to_owned(),
            incumbent: None,
            rows,
            decision: None,
            variance: None,
            pareto: None,
            coverage: Coverage::default(),
            adaptive: false,
            composite_range: None,
            confirmation: None,
            warnings: Vec::new(),
            rule: None,
            combination: None,
            method: None,
            unjudged_pairs: Vec::new(),
            failed_pairs: Vec::new(),
            harm: None,
            older_versions: Vec::new(),
        }
    }

    #[test]
    fn criteria_keep_the_order_of_the_rubric() {
        let mut it = row("m", 1.0);
        for name in ["relevance", "actionability", "tone"] {
            it.criteria.insert(name.to_owned(), 1.0);
        }
        let text = serde_json::to_string(&it).unwrap();
        assert!(
            text.contains(r#"{"relevance":1.0,"actionability":1.0,"tone":1.0}"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), it);
    }
}
