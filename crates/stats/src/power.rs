//! Power: the smallest detectable difference of a design, and the number of blocks for a given one.
//!
//! The test is the paired t test over S blocks. With d_z = Δ/sd(d) and δ = d_z·√S its power is
//! P(T'(S − 1, δ) > t(1 − α)) one-sided; two-sided, both tails of the noncentral t beyond
//! t(1 − α/2).
//! The smallest detectable effect inverts that by bisection; the number of blocks is the smallest
//! S that reaches the wanted power. The normal approximation (z(1 − α/2) + z(power))·sd/√S is
//! also given because it is widely used; it is too optimistic with few blocks.
//!
//! From variance components the standard error of a difference of two treatments is
//! √(2(σ²(treatment × block) + σ²(replicate)/K)/S): more replicates K shrink only the second part.
//!
//! Reference: Cohen (1988), "Statistical Power Analysis"; Johnson and Welch (1940).

use crate::Alternative;
use crate::dist::{noncentral_t_cdf, normal_quantile, t_quantile};

/// The level and power that a design should have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    pub alpha: f64,
    pub power: f64,
    pub alternative: Alternative,
}

impl Goal {
    /// α = 0.05 and power 0.8.
    pub const fn usual(alternative: Alternative) -> Self {
        Self {
            alpha: 0.05,
            power: 0.8,
            alternative,
        }
    }

    fn is_valid(&self) -> bool {
        self.alpha > 0.0 && self.alpha < 1.0 && self.power > self.alpha && self.power < 1.0
    }
}

/// Power of the paired t test for a standardised effect `dz`; `None` below two blocks.
pub fn power(dz: f64, blocks: usize, alpha: f64, alternative: Alternative) -> Option<f64> {
    if blocks < 2 {
        return None;
    }
    let df = (blocks - 1) as f64;
    let delta = dz * (blocks as f64).sqrt();
    let critical = t_quantile(1.0 - tail(alpha, alternative), df)?;
    let above = 1.0 - noncentral_t_cdf(critical, df, delta)?;
    Some(match alternative {
        Alternative::Greater => above,
        Alternative::TwoSided => above + noncentral_t_cdf(-critical, df, delta)?,
    })
}

fn tail(alpha: f64, alternative: Alternative) -> f64 {
    match alternative {
        Alternative::TwoSided => alpha / 2.0,
        Alternative::Greater => alpha,
    }
}

/// The smallest standardised effect that S blocks find with the wanted power.
pub fn detectable_dz(blocks: usize, goal: Goal) -> Option<f64> {
    if blocks < 2 || !goal.is_valid() {
        return None;
    }
    let reaches = |dz: f64| Some(power(dz, blocks, goal.alpha, goal.alternative)? >= goal.power);
    let mut high = 1.0;
    while !reaches(high)? {
        high *= 2.0;
        if high > 1e6 {
            return None;
        }
    }
    let mut low = 0.0;
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if reaches(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// The smallest difference that S blocks find, for differences with this spread over blocks.
pub fn detectable_effect(sd_of_differences: f64, blocks: usize, goal: Goal) -> Option<f64> {
    (sd_of_differences.is_finite() && sd_of_differences >= 0.0)
        .then(|| detectable_dz(blocks, goal))?
        .map(|dz| dz * sd_of_differences)
}

/// The same by the normal approximation, which is too optimistic with few blocks.
pub fn detectable_effect_normal(sd_of_differences: f64, blocks: usize, goal: Goal) -> Option<f64> {
    if blocks == 0 || !goal.is_valid() {
        return None;
    }
    let quantiles =
        normal_quantile(1.0 - tail(goal.alpha, goal.alternative))? + normal_quantile(goal.power)?;
    Some(quantiles * sd_of_differences / (blocks as f64).sqrt())
}

/// The fewest blocks, from two on, that find `effect` with the wanted power; `None` if it is not
/// above zero, or more than `most` would be needed.
pub fn blocks_needed(
    effect: f64,
    sd_of_differences: f64,
    goal: Goal,
    most: usize,
) -> Option<usize> {
    let dz = effect / sd_of_differences;
    if !(goal.is_valid() && effect > 0.0 && sd_of_differences > 0.0 && dz.is_finite()) {
        return None;
    }
    let reaches = |blocks| Some(power(dz, blocks, goal.alpha, goal.alternative)? >= goal.power);
    let (mut low, mut high) = (1, 2);
    while !reaches(high)? {
        if high >= most {
            return None;
        }
        low = high;
        high = (high * 2).min(most);
    }
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if reaches(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    (high <= most).then_some(high)
}

/// Standard error of a difference of two treatments predicted from variance components, of which
/// negative estimates count as zero.
pub fn predicted_se_of_difference(
    treatment_by_block: f64,
    replicate: f64,
    blocks: usize,
    replicates: usize,
) -> Option<f64> {
    if blocks == 0 || replicates == 0 {
        return None;
    }
    let within = replicate.max(0.0) / replicates as f64;
    let variance = 2.0 * (treatment_by_block.max(0.0) + within) / blocks as f64;
    variance.is_finite().then(|| variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::{Goal, blocks_needed, detectable_dz, power};
    use crate::Alternative::{Greater, TwoSided};

    #[test]
    fn power_without_an_effect_is_the_level() {
        for alternative in [Greater, TwoSided] {
            let level = power(0.0, 8, 0.05, alternative).unwrap();
            assert!((level - 0.05).abs() < 1e-12);
        }
    }

    #[test]
    fn detectable_effect_has_the_wanted_power() {
        let goal = Goal::usual(Greater);
        let dz = detectable_dz(8, goal).unwrap();
        assert!((power(dz, 8, 0.05, Greater).unwrap() - 0.8).abs() < 1e-12);
    }

    #[test]
    fn blocks_needed_is_the_first_number_that_reaches_the_goal() {
        let goal = Goal::usual(TwoSided);
        let blocks = blocks_needed(0.5, 1.0, goal, 10_000).unwrap();
        assert!(power(0.5, blocks, 0.05, TwoSided).unwrap() >= 0.8);
        assert!(power(0.5, blocks - 1, 0.05, TwoSided).unwrap() < 0.8);
        assert_eq!(blocks_needed(0.5, 1.0, goal, blocks), Some(blocks));
        assert_eq!(blocks_needed(0.5, 1.0, goal, blocks - 1), None);
    }

    #[test]
    fn what_cannot_be_asked_is_none() {
        let goal = Goal::usual(TwoSided);
        assert_eq!(detectable_dz(1, goal), None);
        assert_eq!(blocks_needed(0.0, 1.0, goal, 100), None);
        assert_eq!(blocks_needed(-1.0, 1.0, goal, 100), None);
        assert_eq!(blocks_needed(1.0, 0.0, goal, 100), None);
        assert_eq!(blocks_needed(1.0, f64::NAN, goal, 100), None);
        assert_eq!(blocks_needed(1e-9, 1.0, goal, 1_000_000), None);
    }
}
