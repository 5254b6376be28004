//! Off-policy evaluation: what reward a policy would have had, from the log of another.
//!
//! Decision i was made with propensity p_i and had the reward r_i; the target policy would have
//! chosen the same candidate with probability π_i. Weights w_i = min(π_i/p_i, 20): clipping costs a
//! small bias towards 0, and bounds what one unlikely decision can do.
//!
//! * IPS = Σ wᵢrᵢ / n
//! * SNIPS = Σ wᵢrᵢ / Σ wᵢ
//! * DR = Σ [q̂ᵢ(π) + wᵢ(rᵢ − q̂ᵢ)] / n, where q̂ᵢ is a predicted reward of the logged candidate and
//!   q̂ᵢ(π) its mean under the target's probabilities
//! * ESS = (Σ wᵢ)² / Σ wᵢ²: of so many decisions of the target itself the weighted log is worth.
//!   Below 200 nothing is estimated, because the variance estimate itself is then unreliable.
//!
//! **The target learns.** Its probabilities at decision i come from models that have learnt from
//! the user's earlier decisions only ([`progressive_rows`]). π_i is therefore independent of r_i,
//! and the estimates have no optimism from evaluating on what was learnt.
//!
//! **Cross-fitting.** q̂ is a ridge for each arm over all users, fitted on the users of the other
//! folds, so that it is independent of the rewards that it corrects.
//!
//! **Intervals.** Decisions of one user are dependent, so the user is the cluster: with u_g the sum
//! of a user's contributions minus the estimate, Var = G/(G−1)·Σ u_g²/n² over G users, and Student's
//! t with G − 1 degrees of freedom. SNIPS uses the delta method: u from wᵢ(rᵢ − SNIPS)/w̄.
//!
//! Decisions that were never rewarded are not in the log. If rewards go missing more often after
//! some choices than after others, all of these estimates are biased.
//!
//! References: Horvitz and Thompson (1952), JASA 47 (IPS); Swaminathan and Joachims (2015), "The
//! self-normalized estimator for counterfactual learning", NIPS; Dudík, Langford, Li (2011),
//! "Doubly robust policy evaluation and learning", ICML; Chernozhukov et al. (2018), "Double/debiased
//! machine learning", Econometrics Journal 21 (cross-fitting); Kong (1992), "A note on importance
//! sampling using standardized weights" (ESS); Liang and Zeger (1986), Biometrika 73 (clusters).

use crate::policy::check_reward;
use crate::replay::{LoggedDecision, Replayed, learn};
use crate::{Policy, PolicyError, Pool, UserModels};
use assize_stats::dist::t_quantile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const FOLDS: usize = 5;

/// Limits of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The largest weight of a decision.
    pub clip: f64,
    /// The least effective sample size.
    pub least_ess: f64,
    /// Of the two-sided intervals.
    pub confidence: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clip: 20.0,
            least_ess: 200.0,
            confidence: 0.95,
        }
    }
}

/// One logged decision in the eyes of the target policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Number of the user.
    pub user: usize,
    pub reward: f64,
    /// The logged probability of the candidate that was shown.
    pub propensity: f64,
    /// The target's probability of the same candidate.
    pub target: f64,
    /// Predicted reward of the candidate that was shown.
    pub predicted: f64,
    /// Predicted reward under the target's probabilities.
    pub predicted_target: f64,
}

/// A value with its standard error and interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    pub se: f64,
    pub low: f64,
    pub high: f64,
}

/// The target's mean reward by each method.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    pub ips: Estimate,
    pub snips: Estimate,
    pub dr: Estimate,
    /// DR minus the mean logged reward: positive where the target is better than the log.
    pub dr_gain: Estimate,
}

/// The result of an evaluation. Without estimates `refusal` says why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    pub decisions: usize,
    pub users: usize,
    /// Decisions with features of a length that the target policy does not have.
    pub skipped: usize,
    /// Mean reward in the log.
    pub logged: f64,
    pub ess: f64,
    pub mean_weight: f64,
    /// The largest weight before clipping.
    pub max_weight: f64,
    /// Decisions whose weight was clipped.
    pub clipped: usize,
    pub estimates: Option<Estimates>,
    pub refusal: Option<String>,
}

/// Evaluates `policy` on a log in its order.
pub fn evaluate(
    policy: &Policy,
    decisions: &[LoggedDecision],
    limits: &Limits,
) -> Result<Evaluation, PolicyError> {
    let (rows, skipped) = progressive_rows(policy, decisions)?;
    let mut evaluation = estimate(&rows, limits);
    evaluation.skipped = skipped;
    Ok(evaluation)
}

/// The rows of a log, and how many decisions had to be skipped. Each user starts as `policy` starts
/// them, and learns from each decision after it has been evaluated.
pub fn progressive_rows(
    policy: &Policy,
    decisions: &[LoggedDecision],
) -> Result<(Vec<Row>, usize), PolicyError> {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut users: Vec<UserModels> = Vec::new();
    let mut kept: Vec<Kept> = Vec::new();
    let mut folds: Vec<Pool> = vec![Pool::default(); FOLDS];
    let mut skipped = 0;
    for decision in decisions {
        check_reward(decision.reward)?;
        let user = *numbers.entry(&decision.user_id).or_insert_with(|| {
            users.push(UserModels::default());
            users.len() - 1
        });
        let Some(probabilities) = target_probabilities(policy, &users[user], decision)? else {
            skipped += 1;
            continue;
        };
        if learn(policy, &mut users[user], decision)? == Replayed::Skipped {
            skipped += 1;
            continue;
        }
        crate::replay::learn_pooled(policy, &mut folds[user % FOLDS], decision)?;
        kept.push(Kept {
            user,
            decision,
            probabilities,
        });
    }
    let predictors = predictors(&folds, policy.settings().lambda)?;
    let row = |it: Kept| it.row(policy, &predictors[it.user % FOLDS]);
    let rows = kept.into_iter().map(row).collect::<Result<_, _>>()?;
    Ok((rows, skipped))
}

/// The target's probability of each candidate; `None` where a candidate cannot be scored because
/// of the length of its features.
fn target_probabilities(
    policy: &Policy,
    models: &UserModels,
    decision: &LoggedDecision,
) -> Result<Option<Vec<f64>>, PolicyError> {
    let mut scores = Vec::with_capacity(decision.candidates.len());
    for candidate in &decision.candidates {
        let Some(x) = decision.features(policy, candidate)? else {
            return Ok(None);
        };
        match policy.score(models, candidate.arm(), &x) {
            Ok(score) => scores.push(score),
            Err(PolicyError::Dimension { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let choice = policy.choose(&scores, 0)?;
    let probabilities = (0..scores.len()).map(|it| choice.propensity_of(it));
    Ok(Some(probabilities.collect()))
}

/// A reward model for each fold, fitted on the others.
fn predictors(folds: &[Pool], lambda: f64) -> Result<Vec<UserModels>, PolicyError> {
    let of_fold = |left_out: usize| {
        let mut pool = Pool::default();
        for (fold, other) in folds.iter().enumerate() {
            if fold != left_out {
                pool.merge(other);
            }
        }
        pool.fit(lambda)
    };
    (0..folds.len()).map(of_fold).collect()
}

struct Kept<'a> {
    user: usize,
    decision: &'a LoggedDecision,
    probabilities: Vec<f64>,
}

impl Kept<'_> {
    fn row(&self, policy: &Policy, predictor: &UserModels) -> Result<Row, PolicyError> {
        let decision = self.decision;
        let predict = |candidate| {
            let x = decision.features(policy, candidate)?;
            let model = predictor.get(candidate.arm());
            let prediction = x.zip(model).map(|(x, model)| model.mean(&x));
            // An arm or a length that the other folds lack: DR falls back on the weights alone.
            Ok(prediction.and_then(Result::ok).unwrap_or(0.0))
        };
        let predicted: Vec<f64> = decision
            .candidates
            .iter()
            .map(predict)
            .collect::<Result<_, PolicyError>>()?;
        let products = predicted.iter().zip(&self.probabilities);
        Ok(Row {
            user: self.user,
            reward: decision.reward,
            propensity: decision.propensity,
            target: self.probabilities[decision.chosen],
            predicted: predicted[decision.chosen],
            predicted_target: products.map(|(q, p)| q * p).sum(),
        })
    }
}

/// Estimates the target's mean reward from rows.
pub fn estimate(rows: &[Row], limits: &Limits) -> Evaluation {
    let n = rows.len() as f64;
    let raw: Vec<f64> = rows.iter().map(|it| it.target / it.propensity).collect();
    let weights: Vec<f64> = raw.iter().map(|it| it.min(limits.clip)).collect();
    let sum: f64 = weights.iter().sum();
    let sum_squares: f64 = weights.iter().map(|it| it * it).sum();
    let mut users: Vec<usize> = rows.iter().map(|it| it.user).collect();
    users.sort_unstable();
    users.dedup();
    let mut evaluation = Evaluation {
        decisions: rows.len(),
        users: users.len(),
        skipped: 0,
        logged: rows.iter().map(|it| it.reward).sum::<f64>() / n.max(1.0),
        ess: if sum > 0.0 {
            sum * sum / sum_squares
        } else {
            0.0
        },
        mean_weight: sum / n.max(1.0),
        max_weight: raw.iter().copied().fold(0.0, f64::max),
        clipped: raw.iter().filter(|it| **it > limits.clip).count(),
        estimates: None,
        refusal: None,
    };
    evaluation.refusal = refusal(&evaluation, rows, limits);
    if evaluation.refusal.is_none() {
        evaluation.estimates = Some(estimates(rows, &weights, evaluation.users, limits));
    }
    evaluation
}

fn refusal(found: &Evaluation, rows: &[Row], limits: &Limits) -> Option<String> {
    let is_valid = |row: &&Row| row.propensity > 0.0 && row.propensity <= 1.0;
    let invalid = rows.len() - rows.iter().filter(is_valid).count();
    if rows.is_empty() {
        let why = "there are no rewarded decisions that this policy can evaluate";
        return Some(format!("{why}; log decisions and their rewards first"));
    }
    if invalid > 0 {
        let why = format!("{invalid} decisions have a propensity that is not in (0, 1]");
        return Some(format!("{why}; log the probability of each choice"));
    }
    if found.users < 2 {
        let why = "all decisions are of one user, so the spread between users is unknown";
        return Some(format!("{why}; log decisions of more users"));
    }
    if found.ess.is_nan() || found.ess < limits.least_ess {
        return Some(format!(
            "the effective sample size is {:.0} of {} decisions, below {:.0}: the log holds too few \
             choices that this policy would make; log more decisions, or raise epsilon of the \
             active policy",
            found.ess, found.decisions, limits.least_ess
        ));
    }
    None
}

fn estimates(rows: &[Row], weights: &[f64], users: usize, limits: &Limits) -> Estimates {
    let pairs = || rows.iter().zip(weights);
    let ips: Vec<f64> = pairs().map(|(row, w)| w * row.reward).collect();
    let doubly_robust =
        |(row, w): (&Row, &f64)| row.predicted_target + w * (row.reward - row.predicted);
    let dr: Vec<f64> = pairs().map(doubly_robust).collect();
    let gain: Vec<f64> = rows
        .iter()
        .zip(&dr)
        .map(|(row, dr)| dr - row.reward)
        .collect();
    let sum: f64 = weights.iter().sum();
    let snips = ips.iter().sum::<f64>() / sum;
    let scale = rows.len() as f64 / sum;
    let linear: Vec<f64> = pairs()
        .map(|(row, w)| snips + scale * w * (row.reward - snips))
        .collect();
    let df = users as f64 - 1.0;
    let quantile = t_quantile(limits.confidence.midpoint(1.0), df).unwrap_or(f64::INFINITY);
    let clustered = |values: &[f64], value: f64| {
        let se = clustered_se(rows, values, value, users);
        Estimate {
            value,
            se,
            low: value - quantile * se,
            high: value + quantile * se,
        }
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / rows.len() as f64;
    Estimates {
        ips: clustered(&ips, mean(&ips)),
        snips: clustered(&linear, snips),
        dr: clustered(&dr, mean(&dr)),
        dr_gain: clustered(&gain, mean(&gain)),
    }
}

fn clustered_se(rows: &[Row], values: &[f64], mean: f64, users: usize) -> f64 {
    let mut sums: BTreeMap<usize, f64> = BTreeMap::new();
    for (row, value) in rows.iter().zip(values) {
        *sums.entry(row.user).or_default() += value - mean;
    }
    let groups = users as f64;
    let squares: f64 = sums.values().map(|it| it * it).sum();
    (groups / (groups - 1.0) * squares).sqrt() / rows.len() as f64
}

#[cfg(test)]
mod tests;
