//! The mean of a noisy score on a bounded scale.

use crate::dist::normal_cdf;

/// The mean of a whole-number score between `min` and `max` that is given for a known score with
/// normal noise: E = min + Σ P(known + ε ≥ k + ½) over k = min, …, max − 1. Near the ends noise can
/// only go inwards, so a rater with noise and without drift has a slope below 1 on the known scores.
pub fn bounded_mean(known: f64, sd: f64, min: i64, max: i64) -> f64 {
    let at_least = |level: i64| normal_cdf((known - (level as f64 + 0.5)) / sd);
    min as f64 + (min..max).map(at_least).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::bounded_mean;

    #[test]
    fn noise_goes_inwards_at_the_ends_and_nowhere_in_the_middle() {
        assert!((bounded_mean(3.0, 0.8, 1, 5) - 3.0).abs() < 1e-12);
        let (low, high) = (bounded_mean(1.0, 0.8, 1, 5), bounded_mean(5.0, 0.8, 1, 5));
        assert!(low > 1.2 && (low + high - 6.0).abs() < 1e-12);
        assert!((bounded_mean(5.0, 1e-9, 1, 5) - 5.0).abs() < 1e-12);
    }
}
