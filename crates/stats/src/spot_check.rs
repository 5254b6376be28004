//! Inclusion probabilities for drawing items that get a second, trusted score.
//!
//! Looking only where something seems wrong would make every mean wrong too. So each item gets
//! a probability π > 0 that is known beforehand, a random floor for all plus a boost where
//! there is more to learn, and is drawn independently (Poisson sampling). With the π at hand
//! [`crate::two_tier::inclusion_weighted`] stays unbiased whatever the boosts are.

use crate::StatsError;
use crate::rng::SplitMix64;

/// π_i = floor·n/M + (1 − floor)·n·w_i/Σw, at most 1: about `expected` items in all, the share
/// `floor` of them spread evenly. Weights are at least 0; all 0 means evenly.
pub fn inclusion_probabilities(
    weights: &[f64],
    expected: f64,
    floor: f64,
) -> Result<Vec<f64>, StatsError> {
    let refuse = |what, value, range| Err(StatsError::ParameterOutOfRange { what, value, range });
    if !(floor > 0.0 && floor <= 1.0) {
        return refuse("the floor's share", floor, "(0, 1]");
    }
    if !(expected > 0.0 && expected.is_finite()) {
        return refuse("the number of spot checks", expected, "(0, ∞)");
    }
    if let Some(bad) = weights.iter().find(|it| !(it.is_finite() && **it >= 0.0)) {
        return refuse("a weight", *bad, "[0, ∞)");
    }
    let items = weights.len() as f64;
    let total = crate::describe::sum(weights);
    let boost = |weight: f64| {
        if total > 0.0 {
            weight / total
        } else {
            1.0 / items
        }
    };
    let probability = |weight: &f64| expected * (floor / items + (1.0 - floor) * boost(*weight));
    Ok(weights.iter().map(|it| probability(it).min(1.0)).collect())
}

/// Draws each item independently with its probability; answers the places of those drawn.
pub fn draw(probabilities: &[f64], seed: u64) -> Vec<usize> {
    let mut random = SplitMix64::new(seed);
    let mut drawn = Vec::new();
    for (place, probability) in probabilities.iter().enumerate() {
        if random.next_f64() < *probability {
            drawn.push(place);
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::{draw, inclusion_probabilities};
    use crate::two_tier::{Drawn, inclusion_weighted};

    #[test]
    fn probabilities_add_up_to_what_was_asked_and_have_a_floor() {
        let weights: Vec<f64> = (0..200).map(|it| f64::from(it % 7)).collect();
        let found = inclusion_probabilities(&weights, 30.0, 0.5).unwrap();
        assert!((found.iter().sum::<f64>() - 30.0).abs() < 1e-9);
        let least = found.iter().copied().fold(1.0, f64::min);
        assert!((least - 15.0 / 200.0).abs() < 1e-12);
        assert!(found[6] > found[0]);
        let even = inclusion_probabilities(&[0.0; 4], 2.0, 0.5).unwrap();
        assert_eq!(even, [0.5; 4]);
        assert_eq!(inclusion_probabilities(&[1.0], 9.0, 0.5).unwrap(), [1.0]);
        assert!(inclusion_probabilities(&[1.0], 1.0, 0.0).is_err());
        assert!(inclusion_probabilities(&[-1.0], 1.0, 0.5).is_err());
    }

    #[test]
    fn the_estimate_is_unbiased_although_the_wrong_ones_are_looked_at_more() {
        // The cheap scorer is 3 too generous on every fifth item, and those are boosted.
        let wrong = |item: usize| item.is_multiple_of(5);
        let truth: Vec<f64> = (0..120).map(|item| 8.0 + f64::from(item % 9)).collect();
        let cheap: Vec<f64> = truth
            .iter()
            .enumerate()
            .map(|(item, score)| score + if wrong(item) { 3.0 } else { 0.0 })
            .collect();
        let weights: Vec<f64> = (0..120)
            .map(|item| if wrong(item) { 5.0 } else { 1.0 })
            .collect();
        let chances = inclusion_probabilities(&weights, 30.0, 0.4).unwrap();
        let (mut weighted, mut naive, rounds) = (0.0, 0.0, 4000);
        for seed in 0..rounds {
            let drawn: Vec<Drawn> = draw(&chances, seed)
                .into_iter()
                .map(|index| Drawn {
                    index,
                    trusted: truth[index],
                    inclusion: chances[index],
                })
                .collect();
            let found = inclusion_weighted(&cheap, &drawn, 1.0).unwrap();
            weighted += found.mean / rounds as f64;
            naive += found.unweighted.unwrap_or(0.0) / rounds as f64;
        }
        let expected = truth.iter().sum::<f64>() / 120.0;
        assert!((weighted - expected).abs() < 0.02, "{weighted} {expected}");
        assert!((naive - expected).abs() > 0.3, "{naive} {expected}");
    }
}
