//! Agreement of raters: two raters on an ordered scale, two raters on a flag, and any number with
//! gaps.
//!
//! No single figure is enough. Exact and ±1 agreement are easy to read but reward a rater who
//! always says the same. κ (Cohen 1960, 1968) corrects for chance; with quadratic weights it stays
//! high for a rater who is consistently one level too generous, which is why the signed bias with
//! its t test stands beside it. On a flag that is almost always true κ collapses although raters
//! nearly always agree; Gwet's AC1 (2008) does not. α (Krippendorff 2011) takes any number of
//! raters and missing scores. Standard errors are jackknifed over items, which is deterministic:
//! SE = √((n − 1)/n·Σ(θ_(i) − mean θ_(·))²) (Efron 1982).
//!
//! Items that one of two raters has not scored are left out of their comparison. What cannot be
//! computed is `None`: κ needs two levels in use, a correlation needs spread on both sides.

mod alpha;
mod kappa;
mod reliability;

pub use alpha::{Alpha, AlphaInterval, Metric, alpha, alpha_interval};
pub use kappa::{Crosstab, Weights};

use crate::StatsError;
use crate::describe::{correlation, mean, mid_ranks, sd};
use crate::dist::t_two_sided;
use reliability::intraclass;

/// All levels of an ordered scale, used or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    pub low: i32,
    pub high: i32,
}

/// How two raters of the same items agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Items that both scored.
    pub items: usize,
    pub exact: f64,
    pub within_one: f64,
    /// Mean of right − left: positive when the right rater is more generous.
    pub bias: f64,
    pub bias_t: Option<f64>,
    pub bias_p: Option<f64>,
    pub mean_absolute_error: f64,
    pub kappa: Option<f64>,
    pub kappa_linear: Option<f64>,
    pub kappa_quadratic: Option<f64>,
    pub kappa_quadratic_se: Option<f64>,
    pub spearman: Option<f64>,
    pub kendall_tau_b: Option<f64>,
    pub pearson: Option<f64>,
    /// ICC(2,1): absolute agreement of random raters.
    pub icc_agreement: Option<f64>,
    /// ICC(3,1): consistency of these raters.
    pub icc_consistency: Option<f64>,
}

/// How two raters of the same flag agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlagAgreement {
    pub items: usize,
    pub exact: f64,
    pub kappa: Option<f64>,
    pub gwet_ac1: Option<f64>,
    /// Prevalence- and bias-adjusted κ: 2·exact − 1.
    pub pabak: f64,
    pub alpha: Option<f64>,
    /// How often each rater raises the flag.
    pub prevalence: [f64; 2],
}

/// Compares two raters on an ordered scale.
pub fn compare(
    left: &[Option<i32>],
    right: &[Option<i32>],
    scale: Scale,
) -> Result<Agreement, StatsError> {
    let pairs = pairs_of(left, right)?;
    let table = Crosstab::new(&pairs, scale)?;
    let items = pairs.len();
    let lefts: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.0)).collect();
    let rights: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.1)).collect();
    let shifts: Vec<f64> = lefts.iter().zip(&rights).map(|(l, r)| r - l).collect();
    let sizes: Vec<f64> = shifts.iter().map(|shift| shift.abs()).collect();
    let none = StatsError::TooFewItems {
        needed: 1,
        found: 0,
    };
    let bias = mean(&shifts).ok_or(none.clone())?;
    let spread = sd(&shifts).filter(|sd| *sd > 0.0);
    let bias_t = spread.map(|sd| bias / (sd / (items as f64).sqrt()));
    let share = |most: f64| sizes.iter().filter(|size| **size <= most).count() as f64;
    let icc = intraclass(&lefts, &rights);
    Ok(Agreement {
        items,
        exact: share(0.0) / items as f64,
        within_one: share(1.0) / items as f64,
        bias,
        bias_t,
        bias_p: bias_t.and_then(|t| t_two_sided(t, (items - 1) as f64)),
        mean_absolute_error: mean(&sizes).ok_or(none)?,
        kappa: table.kappa(Weights::Unweighted),
        kappa_linear: table.kappa(Weights::Linear),
        kappa_quadratic: table.kappa(Weights::Quadratic),
        kappa_quadratic_se: table.kappa_jackknife_se(&pairs, Weights::Quadratic),
        spearman: correlation(&mid_ranks(&lefts), &mid_ranks(&rights)),
        kendall_tau_b: table.kendall_tau_b(),
        pearson: correlation(&lefts, &rights),
        icc_agreement: icc.and_then(|icc| icc.agreement),
        icc_consistency: icc.and_then(|icc| icc.consistency),
    })
}

/// Compares two raters on a flag.
pub fn compare_flags(
    left: &[Option<bool>],
    right: &[Option<bool>],
) -> Result<FlagAgreement, StatsError> {
    let numbers = |flags: &[Option<bool>]| -> Vec<Option<i32>> {
        flags.iter().map(|flag| flag.map(i32::from)).collect()
    };
    let (left, right) = (numbers(left), numbers(right));
    let pairs = pairs_of(&left, &right)?;
    let table = Crosstab::new(&pairs, Scale { low: 0, high: 1 })?;
    let items = pairs.len() as f64;
    let count = |raised: &dyn Fn(&(i32, i32)) -> bool| {
        pairs.iter().filter(|pair| raised(pair)).count() as f64 / items
    };
    let exact = count(&|pair| pair.0 == pair.1);
    let both: [Vec<Option<i32>>; 2] = [
        pairs.iter().map(|pair| Some(pair.0)).collect(),
        pairs.iter().map(|pair| Some(pair.1)).collect(),
    ];
    Ok(FlagAgreement {
        items: pairs.len(),
        exact,
        kappa: table.kappa(Weights::Unweighted),
        gwet_ac1: table.gwet_ac1(),
        pabak: 2.0 * exact - 1.0,
        alpha: alpha(&both, Metric::Nominal)?.map(|found| found.alpha),
        prevalence: [count(&|pair| pair.0 == 1), count(&|pair| pair.1 == 1)],
    })
}

/// √((n − 1)/n·Σ(θ_(i) − mean)²) of the estimates with one item left out each; `None` below two
/// items or where one of the estimates does not exist.
pub(crate) fn jackknife_se(left_out: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let estimates: Vec<f64> = left_out.collect::<Option<_>>()?;
    let n = estimates.len() as f64;
    sd(&estimates).map(|sd| sd * (n - 1.0) / n.sqrt())
}

fn pairs_of(left: &[Option<i32>], right: &[Option<i32>]) -> Result<Vec<(i32, i32)>, StatsError> {
    if left.len() != right.len() {
        return Err(StatsError::LengthMismatch {
            left: left.len(),
            right: right.len(),
        });
    }
    let pairs: Vec<(i32, i32)> = left
        .iter()
        .zip(right)
        .filter_map(|(l, r)| (*l).zip(*r))
        .collect();
    if pairs.is_empty() {
        return Err(StatsError::TooFewItems {
            needed: 1,
            found: 0,
        });
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::{Scale, compare, compare_flags};
    use crate::StatsError;

    const SCALE: Scale = Scale { low: 1, high: 5 };

    #[test]
    fn raters_who_never_vary_have_no_kappa() {
        let same = vec![Some(4); 10];
        let found = compare(&same, &same, SCALE).unwrap();
        assert!((found.exact - 1.0).abs() < 1e-15);
        assert_eq!(
            (found.kappa, found.pearson, found.kendall_tau_b),
            (None, None, None)
        );
        assert_eq!((found.icc_agreement, found.bias_t), (None, None));
    }

    #[test]
    fn a_constant_shift_is_all_bias() {
        let left: Vec<_> = [1, 2, 3, 4, 2, 3].map(Some).to_vec();
        let right: Vec<_> = left.iter().map(|score| score.map(|s| s + 1)).collect();
        let found = compare(&left, &right, SCALE).unwrap();
        assert!((found.bias - 1.0).abs() < 1e-15 && found.exact == 0.0);
        assert!((found.icc_consistency.unwrap() - 1.0).abs() < 1e-12);
        assert!(found.icc_agreement.unwrap() < 0.8);
        assert_eq!(found.bias_p, None);
    }

    #[test]
    fn bad_input_is_refused() {
        let nothing = compare(&[None, Some(1)], &[Some(1), None], SCALE);
        let (needed, found) = (1, 0);
        assert_eq!(nothing, Err(StatsError::TooFewItems { needed, found }));
        assert!(compare(&[Some(6)], &[Some(1)], SCALE).is_err());
        assert!(compare(&[Some(1)], &[], SCALE).is_err());
        assert!(compare_flags(&[None], &[None]).is_err());
        let one = compare(&[Some(1)], &[Some(2)], SCALE).unwrap();
        assert_eq!((one.items, one.kappa_quadratic_se), (1, None));
    }
}
