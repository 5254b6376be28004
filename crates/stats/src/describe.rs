//! Sums, means, spreads, quantiles and correlations.
//!
//! Sums are pairwise with eight running partial sums per block of 128 (Higham 1993, "The accuracy
//! of floating point summation"): the error grows with log n instead of n, and the order of
//! additions is the one that `NumPy` uses on contiguous data, so that seeded resampling can be
//! checked against it bit for bit. Variances divide by n − 1. Quantiles interpolate linearly
//! (type 7 of Hyndman and Fan 1996).

/// Pairwise sum; `0` for nothing.
pub fn sum(values: &[f64]) -> f64 {
    let n = values.len();
    if n < 8 {
        return values.iter().fold(0.0, |total, value| total + value);
    }
    if n > 128 {
        let half = n / 2 - (n / 2) % 8;
        let (left, right) = values.split_at(half);
        return sum(left) + sum(right);
    }
    let mut lanes = [0.0; 8];
    let groups = values.chunks_exact(8);
    let rest = groups.remainder();
    for group in groups {
        for (lane, value) in lanes.iter_mut().zip(group) {
            *lane += value;
        }
    }
    let halves = [0, 4].map(|at| (lanes[at] + lanes[at + 1]) + (lanes[at + 2] + lanes[at + 3]));
    let total = halves[0] + halves[1];
    rest.iter().fold(total, |total, value| total + value)
}

/// Arithmetic mean; `None` for nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| sum(values) / values.len() as f64)
}

/// Variance with n − 1 in the denominator; `None` below two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    covariance(values, values)
}

/// Standard deviation; `None` below two values.
pub fn sd(values: &[f64]) -> Option<f64> {
    variance(values).map(f64::sqrt)
}

/// Covariance with n − 1 in the denominator; `None` below two values or for unequal lengths.
pub fn covariance(left: &[f64], right: &[f64]) -> Option<f64> {
    if left.len() != right.len() || left.len() < 2 {
        return None;
    }
    let (mean_left, mean_right) = (mean(left)?, mean(right)?);
    let products: Vec<f64> = left
        .iter()
        .zip(right)
        .map(|(l, r)| (l - mean_left) * (r - mean_right))
        .collect();
    Some(sum(&products) / (left.len() - 1) as f64)
}

/// Pearson's correlation; `None` where a side has no spread.
pub fn correlation(left: &[f64], right: &[f64]) -> Option<f64> {
    let spread = variance(left)?.sqrt() * variance(right)?.sqrt();
    (spread > 0.0).then_some(covariance(left, right)? / spread)
}

/// Quantile by linear interpolation (type 7) of values that are already sorted.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the position lies between 0 and the last index"
)]
pub fn quantile_sorted(sorted: &[f64], probability: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    if !(0.0..=1.0).contains(&probability) {
        return None;
    }
    let position = probability * last as f64;
    let below = (position.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let fraction = position - below as f64;
    let gap = sorted[above] - sorted[below];
    // Interpolating from the nearer end keeps the result within the two neighbours.
    Some(if fraction >= 0.5 {
        sorted[above] - gap * (1.0 - fraction)
    } else {
        sorted[below] + gap * fraction
    })
}

/// Mid-ranks from 1 (ties share their average rank).
#[expect(clippy::float_cmp, reason = "a tie is exact equality")]
pub fn mid_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        for &index in &order[start..end] {
            ranks[index] = (start + 1 + end) as f64 / 2.0;
        }
        start = end;
    }
    ranks
}

/// The largest absolute value, as the scale for tie tolerances.
pub(crate) fn scale(values: &[f64]) -> f64 {
    values
        .iter()
        .fold(0.0, |largest, value| value.abs().max(largest))
}

/// Keeps a value only if it is a finite number.
pub(crate) fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::{correlation, mean, mid_ranks, quantile_sorted, sum, variance};

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!(mean(&[]), None);
        assert_eq!(variance(&[1.0]), None);
        assert_eq!(correlation(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(quantile_sorted(&[], 0.5), None);
    }

    #[test]
    fn pairwise_sum_is_exact_where_a_running_sum_is_not() {
        let values = vec![0.1; 1 << 20];
        let exact = 0.1 * f64::from(1 << 20);
        let running: f64 = values.iter().fold(0.0, |total, value| total + value);
        assert!((sum(&values) - exact).abs() < 1e-9);
        assert!((running - exact).abs() > 1e-7);
    }

    #[test]
    fn quantiles_interpolate() {
        let sorted = [1.0, 2.0, 4.0];
        assert_eq!(quantile_sorted(&sorted, 0.25), Some(1.5));
        assert_eq!(quantile_sorted(&sorted, 0.75), Some(3.0));
        assert_eq!(quantile_sorted(&sorted, 1.0), Some(4.0));
        assert_eq!(quantile_sorted(&sorted, 1.5), None);
    }

    #[test]
    fn ties_share_their_rank() {
        assert_eq!(mid_ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
    }
}
