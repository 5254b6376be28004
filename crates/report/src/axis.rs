//! The axis of a chart: its range, with round ends and ticks.

use assize_domain::leaderboard::{Leaderboard, Row};

use crate::figure;

/// An axis from `low` to `high`, with a tick every `step`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    pub low: f64,
    pub high: f64,
    step: f64,
}

impl Axis {
    /// Covers the finite values with about `ticks` round steps; `None` if there are no values.
    pub fn covering(values: impl IntoIterator<Item = f64>, ticks: f64) -> Option<Self> {
        let (low, high) = values
            .into_iter()
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            return None;
        }
        let step = round_step((high - low) / ticks, high.abs().max(low.abs()));
        let (low, mut high) = ((low / step).floor() * step, (high / step).ceil() * step);
        if high - low < step {
            high = low + step;
        }
        Some(Self { low, high, step })
    }

    /// Covers every row's interval, within the rubric's range. Without any interval it covers the
    /// whole range, so that small differences do not look large.
    pub fn of_composites(board: &Leaderboard, ticks: f64) -> Option<Self> {
        let values = board.rows.iter().flat_map(|row| {
            let [low, high] = interval(row).unwrap_or([row.composite.mean; 2]);
            [low, row.composite.mean, high]
        });
        let Some([least, most]) = board.composite_range.filter(|[least, most]| least < most) else {
            return Self::covering(values, ticks);
        };
        let whole = if is_measured(board) {
            None
        } else {
            board.composite_range
        };
        let values = values.map(|value| value.clamp(least, most));
        let axis = Self::covering(values.chain(whole.into_iter().flatten()), ticks)?;
        let any = board.rows.iter().any(|row| row.composite.mean.is_finite());
        let (low, high) = (axis.low.max(least), axis.high.min(most));
        any.then_some(Self { low, high, ..axis })
    }

    /// The position of a value from 0 (low end) to 1 (high end); values outside are clamped.
    pub fn fraction(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Round numbers from the low end to the high end.
    pub fn ticks(&self) -> Vec<f64> {
        let first = (self.low / self.step - 1e-9).ceil();
        let ticks = (0_u8..50).map(|count| (first + f64::from(count)) * self.step);
        ticks
            .take_while(|tick| *tick <= self.high + self.step / 1e3)
            .collect()
    }
}

/// Whether any row has an interval.
pub fn is_measured(board: &Leaderboard) -> bool {
    board.rows.iter().any(|row| interval(row).is_some())
}

/// The 95 % interval of a row's composite, where it has a finite one.
pub fn interval(row: &Row) -> Option<[f64; 2]> {
    row.composite.ci95.filter(figure::is_finite)
}

/// The next of 1, 2, 5, 10, … above a size; where all values are the same, a tenth of their scale.
fn round_step(size: f64, scale: f64) -> f64 {
    let least = (scale * 1e-9).max(f64::MIN_POSITIVE);
    let size = if size > least {
        size
    } else {
        (scale / 10.0).max(1e-3)
    };
    let power = 10_f64.powf(size.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| *step >= size * 0.999)
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_round_and_cover_the_values() {
        let axis = Axis::covering([9.3, 12.1, 13.9], 5.0).unwrap();
        assert_eq!((axis.low, axis.high), (9.0, 14.0));
        assert_eq!(axis.ticks(), [9.0, 10.0, 11.0, 12.0, 13.0, 14.0]);
        assert!((axis.fraction(11.5) - 0.5).abs() < 1e-12);
        assert!((axis.fraction(99.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn equal_values_and_none_are_no_trouble() {
        for value in [0.0, 5.0, -3.0, 1e12, 1e-12] {
            let axis = Axis::covering([value, value], 5.0).unwrap();
            assert!(axis.high > axis.low && axis.low <= value && value <= axis.high);
            assert!(axis.ticks().len() >= 2);
        }
        assert_eq!(Axis::covering([f64::NAN, f64::INFINITY], 5.0), None);
    }
}
