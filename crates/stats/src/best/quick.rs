//! Orders the treatments of one resample by integer arithmetic, where that is certainly exact.
//!
//! Only differences between treatments count, so every block's mean over treatments is taken off
//! first. What is left is scaled to whole numbers so small that S of them cannot leave 32 bits.
//! Rounding moves each by at most one half, a sum by at most S/2, and a difference of two sums by
//! at most S: sums further apart than that are in their true order, and are no ties. A narrower gap
//! is a doubt, and the caller counts with all digits instead. The answer is therefore always the
//! exact one.

/// Treatments that are summed together: six registers of four.
const PANEL: usize = 24;
/// Room for the treatment in a key, beside its sum.
const TREATMENT_BITS: u32 = 20;

/// The means as whole numbers, `panels[panel][block]`.
pub struct Quick {
    treatments: usize,
    panels: Vec<Vec<[i32; PANEL]>>,
    /// Sums that are no further apart may be in any order.
    doubt: i64,
}

impl Quick {
    /// From `complete[block][treatment]`; empty where whole numbers cannot serve.
    pub fn new(complete: &[Vec<f64>], treatments: usize) -> Self {
        let centred: Vec<Vec<f64>> = complete.iter().map(|row| centred(row)).collect();
        let values = centred.iter().flatten();
        let largest = values.fold(0.0_f64, |most, value| most.max(value.abs()));
        let unit = largest * complete.len() as f64 / f64::from(1_i32 << 30);
        let is_usable = unit > 0.0 && unit.is_finite() && (1.0 / unit).is_finite();
        let panels = if is_usable && treatments < 1 << TREATMENT_BITS {
            treatments.div_ceil(PANEL)
        } else {
            0
        };
        let panel = |panel: usize| {
            let rows = centred.iter();
            rows.map(|row| whole(&row[panel * PANEL..], unit)).collect()
        };
        Self {
            treatments,
            panels: (0..panels).map(panel).collect(),
            doubt: i64::try_from(complete.len() + 2).unwrap_or(i64::MAX),
        }
    }

    /// Puts the treatments of a resample into their order, best first, as keys; `false` in doubt.
    pub fn order(&self, resample: &[usize], keys: &mut Vec<i64>) -> bool {
        if self.panels.is_empty() {
            return false;
        }
        keys.clear();
        for panel in &self.panels {
            let sums = sums(resample, panel);
            let treatments = keys.len()..self.treatments.min(keys.len() + PANEL);
            let treatments = i64::try_from(treatments.start).unwrap_or(0)
                ..i64::try_from(treatments.end).unwrap_or(0);
            keys.extend(
                treatments
                    .zip(sums)
                    .map(|(treatment, sum)| key(sum, treatment)),
            );
        }
        keys.sort_unstable();
        keys.windows(2)
            .all(|pair| (pair[1] >> TREATMENT_BITS) - (pair[0] >> TREATMENT_BITS) > self.doubt)
    }
}

/// Smaller for a larger sum, so that the best comes first.
fn key(sum: i32, treatment: i64) -> i64 {
    -i64::from(sum) << TREATMENT_BITS | treatment
}

/// The treatment that a key stands for.
#[expect(
    clippy::cast_sign_loss,
    reason = "the masked bits are a small, positive number"
)]
pub fn treatment_of(key: i64) -> usize {
    (key & ((1 << TREATMENT_BITS) - 1)) as usize
}

fn sums(resample: &[usize], panel: &[[i32; PANEL]]) -> [i32; PANEL] {
    let mut sums = [0_i32; PANEL];
    for &block in resample {
        // The scale leaves no room for an overflow, and a check would cost the vectors.
        for (sum, value) in sums.iter_mut().zip(&panel[block]) {
            *sum = sum.wrapping_add(*value);
        }
    }
    sums
}

fn centred(row: &[f64]) -> Vec<f64> {
    let mean = row.iter().sum::<f64>() / row.len().max(1) as f64;
    row.iter().map(|value| value - mean).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a share of 2^30, and the cast saturates"
)]
fn whole(row: &[f64], unit: f64) -> [i32; PANEL] {
    let mut lanes = [0; PANEL];
    for (lane, value) in lanes.iter_mut().zip(row) {
        *lane = (value / unit).round() as i32;
    }
    lanes
}
