//! Intraclass correlations of two raters who scored the same n items (Shrout and Fleiss 1979).
//!
//! From the two-way mean squares of items (R), raters (C) and residual (E), with k = 2 raters:
//! ICC(2,1) = (R − E)/(R + (k − 1)E + k(C − E)/n) and ICC(3,1) = (R − E)/(R + (k − 1)E).

use crate::describe::mean;

#[derive(Debug, Clone, Copy)]
pub(super) struct Intraclass {
    pub(super) agreement: Option<f64>,
    pub(super) consistency: Option<f64>,
}

/// `None` below two items.
pub(super) fn intraclass(left: &[f64], right: &[f64]) -> Option<Intraclass> {
    let items = left.len();
    if items < 2 || right.len() != items {
        return None;
    }
    let n = items as f64;
    let (mean_left, mean_right) = (mean(left)?, mean(right)?);
    let grand = f64::midpoint(mean_left, mean_right);
    let raters = n * ((mean_left - grand).powi(2) + (mean_right - grand).powi(2));
    let (mut between, mut residual) = (0.0, 0.0);
    for (l, r) in left.iter().zip(right) {
        let item = f64::midpoint(*l, *r);
        between += 2.0 * (item - grand).powi(2);
        residual += (l - item - mean_left + grand).powi(2);
        residual += (r - item - mean_right + grand).powi(2);
    }
    let between = between / (n - 1.0);
    let residual = residual / (n - 1.0);
    let ratio = |total: f64| (total > 0.0).then(|| (between - residual) / total);
    Some(Intraclass {
        agreement: ratio(between + residual + 2.0 * (raters - residual) / n),
        consistency: ratio(between + residual),
    })
}
