//! Corrections for multiple testing that need only the p values.
//!
//! Holm (1979) and Bonferroni hold the family-wise error rate under any dependence; Benjamini and
//! Hochberg (1995) hold the false discovery rate under positive dependence. Prefer
//! [`crate::max_t`] if the differences are available: it uses their correlation.
//!
//! p values that are missing or not numbers stay missing and do not count in the family.

/// Holm: (m − i)·p_(i) for the i-th smallest from 0, made non-decreasing, at most 1.
pub fn holm(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let order = ascending(p);
    let m = order.len();
    let mut adjusted = vec![None; p.len()];
    let mut largest = 0.0_f64;
    for (place, (index, value)) in order.into_iter().enumerate() {
        largest = largest.max((m - place) as f64 * value).min(1.0);
        adjusted[index] = Some(largest);
    }
    adjusted
}

/// Bonferroni: m·p, at most 1.
pub fn bonferroni(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let m = ascending(p).len() as f64;
    p.iter()
        .map(|p| valid(*p).map(|p| (m * p).min(1.0)))
        .collect()
}

/// Benjamini–Hochberg: m·p_(i)/i from the largest down, made non-increasing downwards.
pub fn benjamini_hochberg(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let order = ascending(p);
    let m = order.len() as f64;
    let mut adjusted = vec![None; p.len()];
    let mut smallest = 1.0_f64;
    for (place, (index, value)) in order.into_iter().enumerate().rev() {
        // A factor of at least one cannot round the result below the raw p.
        smallest = smallest.min(value * (m / (place + 1) as f64));
        adjusted[index] = Some(smallest);
    }
    adjusted
}

fn valid(p: Option<f64>) -> Option<f64> {
    p.filter(|p| (0.0..=1.0).contains(p))
}

fn ascending(p: &[Option<f64>]) -> Vec<(usize, f64)> {
    let mut order: Vec<(usize, f64)> = p
        .iter()
        .enumerate()
        .filter_map(|(index, p)| Some((index, valid(*p)?)))
        .collect();
    order.sort_by(|left, right| left.1.total_cmp(&right.1));
    order
}

#[cfg(test)]
mod tests {
    use super::{benjamini_hochberg, bonferroni, holm};

    #[test]
    fn missing_p_values_do_not_count() {
        let p = [Some(0.01), None, Some(f64::NAN), Some(0.04)];
        assert_eq!(holm(&p), [Some(0.02), None, None, Some(0.04)]);
        assert_eq!(bonferroni(&p), [Some(0.02), None, None, Some(0.08)]);
        assert_eq!(benjamini_hochberg(&p), [Some(0.02), None, None, Some(0.04)]);
        assert!(holm(&[]).is_empty());
    }
}
