//! A test of paired differences that stays valid however often one looks: an e-process.
//!
//! The null hypothesis is that of the sign-flip test: each difference is symmetric around a centre
//! ≤ 0. For any λ > 0 fixed in advance, exp(λd)/cosh(λd) has expectation 1 if d is symmetric
//! around 0 (its two values at ±d add up to 2), and less if the centre is below. The product
//! E_n(λ) = Π exp(λd_i)/cosh(λd_i) over the differences so far is therefore a nonnegative
//! supermartingale, whatever the distributions are, and P(E_n ≥ 1/α for any n) ≤ α (Ville 1939): one
//! may look after every block, add blocks and look again. No fixed λ suits every effect, so
//! E = mean of E(λ) over λ = c/σ₀ with c ∈ {¼, ½, 1, 2, 4}; a mean of supermartingales is one.
//! σ₀ is a scale of the differences that was fixed before the data; a poor choice costs power and
//! never validity.
//!
//! p = min(1, 1/E). The lower confidence bound of the centre is the m with E(d − m) = 1/α: E falls
//! as m grows. E is at most 2^n, so that with α = .05 fewer than 5 blocks can never reject, as in
//! the sign-flip test. Everything is computed in logarithms.
//!
//! References: Ramdas, Ruf, Larsson and Koolen (2020), "Admissible anytime-valid sequential
//! inference must rely on nonnegative martingales", section 5 (symmetry); de la Peña (1999), Annals of
//! Probability 27; Ville (1939); Howard, Ramdas, McAuliffe and Sekhon (2021), Annals of Statistics 49.

use crate::describe::scale;
use crate::rng::SplitMix64;
use crate::{Draws, StatsError};
use std::f64::consts::LN_2;

/// λ in units of 1/σ₀.
const MULTIPLES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// What is fixed before the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EProcessSettings {
    /// σ₀: the expected standard deviation of a difference.
    pub scale: f64,
    /// The error rate over all looks.
    pub alpha: f64,
}

/// The evidence after the differences so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EProcess {
    pub blocks: usize,
    /// ln E.
    pub log_e: f64,
    /// min(1, 1/E): valid at any time.
    pub p: f64,
    /// Whether E ≥ 1/α.
    pub is_significant: bool,
    /// Of the centre, valid at any time; `None` where the blocks are too few for any bound.
    pub lower_bound: Option<f64>,
}

/// How many more blocks it takes until E ≥ 1/α, by simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FurtherBlocks {
    /// In half of the simulated continuations so many are enough; `None` above the limit.
    pub median: Option<usize>,
    /// In 80 % of them.
    pub p80: Option<usize>,
}

/// The e-process of `differences` for the alternative that their centre is above zero.
pub fn e_process(differences: &[f64], settings: EProcessSettings) -> Result<EProcess, StatsError> {
    check(differences, settings)?;
    let blocks = differences.len();
    let log_e = log_mixture(&log_products(differences, 0.0, settings.scale));
    let threshold = -settings.alpha.ln();
    Ok(EProcess {
        blocks,
        log_e,
        p: (-log_e).exp().min(1.0),
        is_significant: log_e >= threshold,
        lower_bound: lower_bound(differences, settings.scale, threshold),
    })
}

/// ln E after each difference, in the order in which they came.
pub fn e_path(differences: &[f64], settings: EProcessSettings) -> Result<Vec<f64>, StatsError> {
    check(differences, settings)?;
    let mut logs = [0.0; MULTIPLES.len()];
    let path = differences.iter().map(|d| {
        add(&mut logs, *d, settings.scale);
        log_mixture(&logs)
    });
    Ok(path.collect())
}

/// Simulates `draws.count` continuations after `differences` with normal differences of mean
/// `effect` and standard deviation `sd`, each up to `most` blocks.
pub fn further_blocks(
    differences: &[f64],
    effect: f64,
    sd: f64,
    most: usize,
    settings: EProcessSettings,
    draws: Draws,
) -> Result<FurtherBlocks, StatsError> {
    check(differences, settings)?;
    if !(effect.is_finite() && sd.is_finite()) {
        return Err(StatsError::NotFinite);
    }
    let threshold = -settings.alpha.ln();
    let start = log_products(differences, 0.0, settings.scale);
    let mut needed: Vec<usize> = (0..draws.count as u64)
        .map(|draw| {
            let mut rng = SplitMix64::new(crate::simulate::seed_of(draws.seed, draw));
            let mut logs = start;
            let mut count = 0;
            while log_mixture(&logs) < threshold && count <= most {
                add(&mut logs, effect + sd * rng.next_normal(), settings.scale);
                count += 1;
            }
            count
        })
        .collect();
    needed.sort_unstable();
    let share = |numerator: usize, denominator: usize| {
        let place = (needed.len() * numerator)
            .div_ceil(denominator)
            .checked_sub(1)?;
        needed.get(place).copied().filter(|count| *count <= most)
    };
    Ok(FurtherBlocks {
        median: share(1, 2),
        p80: share(4, 5),
    })
}

/// Bisects for the centre at which the evidence is exactly at the threshold.
fn lower_bound(differences: &[f64], sigma: f64, threshold: f64) -> Option<f64> {
    let evidence = |centre: f64| log_mixture(&log_products(differences, centre, sigma));
    if differences.len() as f64 * LN_2 <= threshold {
        return None;
    }
    // Beyond this every factor is 2 or 0 to the last bit.
    let reach = scale(differences) + 1000.0 * sigma;
    let (mut low, mut high) = (-reach, reach);
    if evidence(low) < threshold {
        return None;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if evidence(middle) >= threshold {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}

/// ln E(λ) of the differences to `centre`, for each λ.
fn log_products(differences: &[f64], centre: f64, sigma: f64) -> [f64; MULTIPLES.len()] {
    let mut logs = [0.0; MULTIPLES.len()];
    for difference in differences {
        add(&mut logs, difference - centre, sigma);
    }
    logs
}

/// Adds x − ln cosh x for x = λd, which is x − |x| − ln(1 + e^(−2|x|)) + ln 2.
fn add(logs: &mut [f64; MULTIPLES.len()], difference: f64, sigma: f64) {
    for (log, multiple) in logs.iter_mut().zip(MULTIPLES) {
        let x = multiple * difference / sigma;
        *log += x - x.abs() - (-2.0 * x.abs()).exp().ln_1p() + LN_2;
    }
}

/// ln of the mean of exponentials.
fn log_mixture(logs: &[f64; MULTIPLES.len()]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !largest.is_finite() {
        return largest;
    }
    let total: f64 = logs.iter().map(|log| (log - largest).exp()).sum();
    largest + (total / logs.len() as f64).ln()
}

fn check(differences: &[f64], settings: EProcessSettings) -> Result<(), StatsError> {
    let refuse = |what, value, range| Err(StatsError::ParameterOutOfRange { what, value, range });
    if differences.iter().any(|d| !d.is_finite()) {
        return Err(StatsError::NotFinite);
    }
    if !(settings.scale > 0.0 && settings.scale.is_finite()) {
        return refuse("the scale of the differences", settings.scale, "(0, ∞)");
    }
    if !(settings.alpha > 0.0 && settings.alpha < 1.0) {
        return refuse("alpha", settings.alpha, "(0, 1)");
    }
    Ok(())
}
