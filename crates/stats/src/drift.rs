//! Detects drift of a rater: control charts over sessions that score fixed reference items again.
//!
//! Each session (`sitting`) scores n reference items (`anchors`) whose scores are known.
//! z = mean(shift)/(σ₀/√n), where σ₀ is the standard deviation of one re-scored item without
//! drift. Two charts monitor z:
//!
//! * EWMA e_t = λz_t + (1 − λ)e_{t−1}, alarm when |e_t| > L·√(λ/(2 − λ)·(1 − (1 − λ)^{2t})): the
//!   exact limit for the t-th sitting, so that the first sittings can alarm too.
//! * CUSUM C⁺_t = max(0, C⁺_{t−1} + z_t − k) and C⁻ likewise with −z, alarm above h.
//!
//! An alarm says that the sitting's scores are not on the scale of the others. It does not say by
//! how much each score is off: re-score, do not correct.
//!
//! A mean shift is not all: [`scale_use`] charts shift, slope and spread, and also for raters who are
//! compared with their own earlier sittings.
//!
//! References: Roberts (1959), Technometrics 1; Lucas and Saccucci (1990), Technometrics 32;
//! Page (1954), Biometrika 41.

mod bounded;
mod scale_use;

pub use bounded::bounded_mean;
pub use scale_use::{
    AnchorNoise, Baseline, EwmaPoint, ScaleUsePoint, ScaleUseSettings, SpreadPoint, scale_use,
};

use crate::StatsError;
use crate::describe::{finite, mean};

/// The charts' settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriftSettings {
    /// Spread of a re-scored anchor while nothing drifts.
    pub anchor_sd: f64,
    pub ewma_lambda: f64,
    pub ewma_limit: f64,
    pub cusum_slack: f64,
    pub cusum_limit: f64,
}

impl Default for DriftSettings {
    fn default() -> Self {
        Self {
            anchor_sd: 0.3,
            ewma_lambda: 0.3,
            ewma_limit: 2.7,
            cusum_slack: 0.5,
            cusum_limit: 4.0,
        }
    }
}

/// One sitting on the charts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriftPoint {
    pub anchors: usize,
    pub mean_shift: f64,
    pub z: f64,
    pub ewma: f64,
    pub ewma_limit: f64,
    pub cusum_up: f64,
    pub cusum_down: f64,
    pub is_ewma_alarm: bool,
    pub is_cusum_alarm: bool,
}

/// Charts `sittings[sitting][anchor]` against the anchors' known scores, in order of time. A
/// sitting without any anchor is `None` and leaves the charts where they are.
pub fn drift(
    known: &[f64],
    sittings: &[Vec<Option<f64>>],
    config: DriftSettings,
) -> Result<Vec<Option<DriftPoint>>, StatsError> {
    check(&config)?;
    if let Some(other) = sittings.iter().find(|scores| scores.len() != known.len()) {
        return Err(StatsError::LengthMismatch {
            left: known.len(),
            right: other.len(),
        });
    }
    let keep = 1.0 - config.ewma_lambda;
    let (mut ewma, mut up, mut down) = (0.0_f64, 0.0_f64, 0.0_f64);
    let mut forgotten = 1.0;
    let chart = |scores: &Vec<Option<f64>>| {
        let shifts: Vec<f64> = scores
            .iter()
            .zip(known)
            .filter_map(|(score, known)| finite(score.map(|score| score - known)))
            .collect();
        let mean_shift = mean(&shifts)?;
        let z = mean_shift / (config.anchor_sd / (shifts.len() as f64).sqrt());
        ewma = config.ewma_lambda * z + keep * ewma;
        forgotten *= keep * keep;
        let steady = config.ewma_lambda / (2.0 - config.ewma_lambda);
        let ewma_limit = config.ewma_limit * (steady * (1.0 - forgotten)).sqrt();
        up = (up + z - config.cusum_slack).max(0.0);
        down = (down - z - config.cusum_slack).max(0.0);
        Some(DriftPoint {
            anchors: shifts.len(),
            mean_shift,
            z,
            ewma,
            ewma_limit,
            cusum_up: up,
            cusum_down: down,
            is_ewma_alarm: ewma.abs() > ewma_limit,
            is_cusum_alarm: up.max(down) > config.cusum_limit,
        })
    };
    Ok(sittings.iter().map(chart).collect())
}

fn check(settings: &DriftSettings) -> Result<(), StatsError> {
    let refuse = |what, value, range| Err(StatsError::ParameterOutOfRange { what, value, range });
    if !(settings.anchor_sd > 0.0 && settings.anchor_sd.is_finite()) {
        return refuse("the anchors' spread", settings.anchor_sd, "(0, ∞)");
    }
    if !(settings.ewma_lambda > 0.0 && settings.ewma_lambda <= 1.0) {
        return refuse("the EWMA's lambda", settings.ewma_lambda, "(0, 1]");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{DriftSettings, drift};

    #[test]
    fn drift_downwards_alarms_too() {
        let known = [3.0, 4.0, 2.0, 5.0];
        let low: Vec<Option<f64>> = known.iter().map(|score| Some(score - 1.0)).collect();
        let points = drift(&known, &[low.clone(), low], DriftSettings::default()).unwrap();
        assert!(points[0].unwrap().is_ewma_alarm);
        assert!(points[1].unwrap().is_cusum_alarm);
        assert!(points[1].unwrap().ewma < 0.0);
    }

    #[test]
    fn a_sitting_without_anchors_changes_nothing() {
        let known = [3.0, 4.0];
        let scores = vec![Some(3.0), Some(5.0)];
        let gap = vec![None, Some(f64::NAN)];
        let settings = DriftSettings::default();
        let with = drift(&known, &[scores.clone(), gap, scores.clone()], settings).unwrap();
        let without = drift(&known, &[scores.clone(), scores], settings).unwrap();
        assert_eq!(with[1], None);
        assert_eq!(with[2], without[1]);
    }

    #[test]
    fn bad_settings_are_refused() {
        let bad = DriftSettings {
            anchor_sd: 0.0,
            ..DriftSettings::default()
        };
        assert!(drift(&[], &[], bad).is_err());
        assert!(drift(&[1.0], &[vec![]], DriftSettings::default()).is_err());
    }
}
