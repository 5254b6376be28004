//! Charts of how a rater uses the scale: shift, slope and spread.
//!
//! A mean shift is not the only way to drift. A rater who gives everything a 3, avoids the ends of
//! the scale or hits a ceiling may have no shift at all. In one sitting let y_i = given − expected for
//! anchor i, x_i its known score and w_i its weight. Three independent statistics:
//!
//! * shift: a = Σwy/Σw, with variance σ²/Σw;
//! * slope: b = Σw(x − x̄)y/Σw(x − x̄)², with variance σ²/Σw(x − x̄)². The slope of the given on the known
//!   scores is 1 + b if the known scores are expected; below 1 the scale is compressed, and 0 is
//!   "everything is a 3";
//! * spread: χ² = Σw(y − a − b(x − x̄))²/σ² with n − 2 degrees of freedom: more noise than usual.
//!
//! **What is expected** ([`Baseline`]): the known scores (w = 1), or the mean of the rater's own m earlier
//! scores of the anchor, for a rater who need not be on the known scale and must only stay where it is. Then
//! Var y = σ²(1 + 1/m), so w = m/(m + 1); comparing each sitting with the ones before it gives independent
//! residuals (Brown, Durbin and Evans 1975), where comparing all with the first would not.
//!
//! **What is noise** ([`AnchorNoise`]): σ is known, or estimated elsewhere with ν degrees of freedom, or pooled
//! over the residuals of the rater's own earlier sittings. An estimated σ makes t and F of normal and χ²; t is
//! turned into the normal score z = Φ⁻¹(T_ν(t)), so that the charts' limits stay the same (Quesenberry 1991,
//! Q charts). Before there is an earlier sitting to pool, σ comes from the sitting's own residuals, and its
//! spread is not charted.
//!
//! **Limits.** Shift and slope go into EWMA charts, as in [`super::drift`]; an EWMA over its exact standard
//! deviation is standard normal at every sitting. The family of three charts over T sittings has a chance of a
//! false alarm of at most A if each statistic has A/(3T) at each sitting: L = Φ⁻¹(1 − A/(6T)) for the two-sided
//! EWMAs and the upper A/(3T) quantile of χ² (or of F) for the spread. With several families side by side, such
//! as one for each criterion, A is divided by their number. A sitting that alarms joins neither the baseline nor
//! the pooled noise.
//!
//! References: Brown, Durbin and Evans (1975), JRSS B 37; Quesenberry (1991), J. Quality Technology 23; Lucas
//! and Saccucci (1990), Technometrics 32.

use crate::StatsError;
use crate::describe::finite;
use crate::dist::{chi2_upper, f_upper, normal_quantile, t_upper};

/// What a sitting's scores are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// The anchors' known scores.
    Known,
    /// The mean of the rater's own earlier scores of the anchor.
    Earlier,
}

/// The standard deviation of one re-scored anchor while nothing drifts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AnchorNoise {
    Known(f64),
    Estimated {
        sd: f64,
        df: f64,
    },
    /// From the rater's own earlier sittings; `least_sd` guards against a rater who repeats itself.
    Earlier {
        least_sd: f64,
    },
}

/// The charts' settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleUseSettings {
    pub baseline: Baseline,
    pub noise: AnchorNoise,
    pub ewma_lambda: f64,
    /// The chance of any false alarm over `sittings` sittings and `families` families of charts.
    pub false_alarms: f64,
    pub sittings: usize,
    pub families: usize,
}

impl ScaleUseSettings {
    /// The usual charts: at most 9 % false alarms over 20 sittings, one family.
    pub fn usual(baseline: Baseline, noise: AnchorNoise) -> Self {
        Self {
            baseline,
            noise,
            ewma_lambda: 0.3,
            false_alarms: 0.09,
            sittings: 20,
            families: 1,
        }
    }
}

/// One sitting on the charts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleUsePoint {
    /// Anchors that were scored and have something to be compared with.
    pub anchors: usize,
    pub noise_sd: f64,
    /// `None` where the noise is known.
    pub noise_df: Option<f64>,
    /// Mean of given − expected.
    pub shift: EwmaPoint,
    /// The slope of the given on the known scores; `None` where the known scores do not vary.
    pub slope: Option<EwmaPoint>,
    /// `None` without degrees of freedom, or without any earlier noise to compare with.
    pub spread: Option<SpreadPoint>,
}

/// A statistic on an EWMA chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EwmaPoint {
    pub value: f64,
    pub se: f64,
    /// The normal score of its distance from what is expected.
    pub z: f64,
    pub ewma: f64,
    /// |ewma| above this is an alarm.
    pub limit: f64,
    pub is_alarm: bool,
}

/// The spread of one sitting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpreadPoint {
    /// Σ residual²/σ².
    pub chi2: f64,
    pub df: usize,
    /// Above this is an alarm.
    pub limit: f64,
    pub is_alarm: bool,
}

impl ScaleUsePoint {
    pub fn is_alarm(&self) -> bool {
        self.shift.is_alarm
            || self.slope.is_some_and(|it| it.is_alarm)
            || self.spread.is_some_and(|it| it.is_alarm)
    }
}

/// Charts `sittings[sitting][anchor]` in order of time. A sitting without any anchor that can be
/// compared is `None`: with [`Baseline::Earlier`] the first sitting always is.
pub fn scale_use(
    known: &[f64],
    sittings: &[Vec<Option<f64>>],
    config: ScaleUseSettings,
) -> Result<Vec<Option<ScaleUsePoint>>, StatsError> {
    check(&config)?;
    if known.iter().any(|score| !score.is_finite()) {
        return Err(StatsError::NotFinite);
    }
    if let Some(other) = sittings.iter().find(|scores| scores.len() != known.len()) {
        return Err(StatsError::LengthMismatch {
            left: known.len(),
            right: other.len(),
        });
    }
    let mut charts = Charts {
        settings: config,
        totals: vec![(0.0, 0); known.len()],
        residual: 0.0,
        residual_df: 0.0,
        shift: Ewma::default(),
        slope: Ewma::default(),
    };
    Ok(sittings.iter().map(|it| charts.chart(known, it)).collect())
}

/// What is remembered from sitting to sitting.
struct Charts {
    settings: ScaleUseSettings,
    /// The rater's earlier scores of each anchor: their sum and number.
    totals: Vec<(f64, usize)>,
    residual: f64,
    residual_df: f64,
    shift: Ewma,
    slope: Ewma,
}

impl Charts {
    fn chart(&mut self, known: &[f64], given: &[Option<f64>]) -> Option<ScaleUsePoint> {
        let fit = self.fit(known, given);
        let point = fit.as_ref().and_then(|fit| self.point(fit));
        if point.is_none_or(|point| !point.is_alarm()) {
            for (total, score) in self.totals.iter_mut().zip(given) {
                if let Some(score) = finite(*score) {
                    *total = (total.0 + score, total.1 + 1);
                }
            }
            if let Some(fit) = fit {
                self.residual += fit.residual;
                self.residual_df += fit.df as f64;
            }
        }
        point
    }

    fn fit(&self, known: &[f64], given: &[Option<f64>]) -> Option<Fit> {
        let anchors = known.iter().zip(given).zip(&self.totals);
        let anchors = anchors.filter_map(|((known, given), (total, count))| {
            let given = finite(*given)?;
            let count = *count as f64;
            Some(match self.settings.baseline {
                Baseline::Known => (*known, given, given - known, 1.0),
                Baseline::Earlier if count > 0.0 => {
                    (*known, given, given - total / count, count / (count + 1.0))
                }
                Baseline::Earlier => return None,
            })
        });
        Fit::new(&anchors.collect::<Vec<_>>())
    }

    fn point(&mut self, fit: &Fit) -> Option<ScaleUsePoint> {
        let own = fit.df as f64;
        // The noise, its degrees of freedom, and whether it comes from elsewhere than this sitting.
        let (sd, df, is_earlier) = match self.settings.noise {
            AnchorNoise::Known(sd) => (sd, None, true),
            AnchorNoise::Estimated { sd, df } => (sd, Some(df), true),
            AnchorNoise::Earlier { least_sd } if self.residual_df > 0.0 => {
                let sd = (self.residual / self.residual_df).sqrt();
                (sd.max(least_sd), Some(self.residual_df), true)
            }
            AnchorNoise::Earlier { least_sd } if fit.df > 0 => {
                ((fit.residual / own).sqrt().max(least_sd), Some(own), false)
            }
            AnchorNoise::Earlier { .. } => return None,
        };
        let each = self.settings.false_alarms
            / (3 * self.settings.sittings * self.settings.families) as f64;
        let (lambda, limit) = (self.settings.ewma_lambda, -normal_quantile(each / 2.0)?);
        let shift_se = sd / fit.weight.sqrt();
        let z = normal_score(fit.shift / shift_se, df)?;
        let shift = self.shift.add(z, lambda, limit, fit.shift, shift_se);
        let slope = match fit.change {
            Some(change) => {
                let se = sd / fit.spread_of_known.sqrt();
                let z = normal_score(change / se, df)?;
                Some(self.slope.add(z, lambda, limit, fit.slope, se))
            }
            None => None,
        };
        let spread = (is_earlier && fit.df > 0).then(|| {
            let chi2 = fit.residual / (sd * sd);
            let limit = spread_limit(own, df, each);
            SpreadPoint {
                chi2,
                df: fit.df,
                limit,
                is_alarm: chi2 > limit,
            }
        });
        Some(ScaleUsePoint {
            anchors: fit.anchors,
            noise_sd: sd,
            noise_df: df,
            shift,
            slope,
            spread,
        })
    }
}

/// Shift, slope and residuals of one sitting.
struct Fit {
    anchors: usize,
    weight: f64,
    shift: f64,
    /// Σw(x − x̄)².
    spread_of_known: f64,
    /// b; `None` where the known scores do not vary.
    change: Option<f64>,
    slope: f64,
    residual: f64,
    df: usize,
}

impl Fit {
    /// From (known, given, given − expected, weight) of each anchor.
    fn new(anchors: &[(f64, f64, f64, f64)]) -> Option<Self> {
        if anchors.is_empty() {
            return None;
        }
        let total = |term: &dyn Fn(f64, f64, f64) -> f64| -> f64 {
            anchors
                .iter()
                .map(|(x, given, y, w)| w * term(*x, *given, *y))
                .sum()
        };
        let weight = total(&|_, _, _| 1.0);
        let centre = total(&|x, _, _| x) / weight;
        let shift = total(&|_, _, y| y) / weight;
        let spread_of_known = total(&|x, _, _| (x - centre).powi(2));
        let varies = spread_of_known > 1e-9 * weight;
        let rise = |sum: f64| if varies { sum / spread_of_known } else { 0.0 };
        let change = rise(total(&|x, _, y| (x - centre) * y));
        let residual = total(&|x, _, y| (y - shift - change * (x - centre)).powi(2));
        Some(Self {
            anchors: anchors.len(),
            weight,
            shift,
            spread_of_known,
            change: varies.then_some(change),
            slope: rise(total(&|x, given, _| (x - centre) * given)),
            residual,
            df: anchors.len().saturating_sub(1 + usize::from(varies)),
        })
    }
}

#[derive(Default)]
struct Ewma {
    value: f64,
    /// (1 − λ)^(2t), as its difference from one.
    remembered: f64,
}

impl Ewma {
    fn add(&mut self, z: f64, lambda: f64, limit: f64, value: f64, se: f64) -> EwmaPoint {
        let keep = 1.0 - lambda;
        self.value = lambda * z + keep * self.value;
        self.remembered = 1.0 - keep * keep * (1.0 - self.remembered);
        let limit = limit * (lambda / (2.0 - lambda) * self.remembered).sqrt();
        EwmaPoint {
            value,
            se,
            z,
            ewma: self.value,
            limit,
            is_alarm: self.value.abs() > limit,
        }
    }
}

/// Φ⁻¹(T_ν(t)); t itself where the noise is known.
fn normal_score(t: f64, df: Option<f64>) -> Option<f64> {
    let Some(df) = df else { return Some(t) };
    let tail = t_upper(t.abs(), df)?.clamp(1e-300, 0.5);
    Some(-normal_quantile(tail)? * t.signum())
}

/// The upper quantile of χ², or of df·F where the noise is estimated, by bisection.
fn spread_limit(own: f64, noise: Option<f64>, probability: f64) -> f64 {
    let tail = |x: f64| match noise {
        None => chi2_upper(x, own),
        Some(df) => f_upper(x / own, own, df),
    };
    let exceeds = |x: f64| tail(x).is_some_and(|tail| tail > probability);
    let (mut low, mut high) = (0.0, own.max(1.0));
    while exceeds(high) && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if exceeds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

fn check(settings: &ScaleUseSettings) -> Result<(), StatsError> {
    let refuse = |what, value, range| Err(StatsError::ParameterOutOfRange { what, value, range });
    let positive = |value: f64| value > 0.0 && value.is_finite();
    let (sd, df) = match settings.noise {
        AnchorNoise::Known(sd) | AnchorNoise::Earlier { least_sd: sd } => (sd, 1.0),
        AnchorNoise::Estimated { sd, df } => (sd, df),
    };
    if !positive(sd) {
        return refuse("the anchors' spread", sd, "(0, ∞)");
    }
    if !positive(df) {
        return refuse(
            "the degrees of freedom of the anchors' spread",
            df,
            "(0, ∞)",
        );
    }
    if !(settings.ewma_lambda > 0.0 && settings.ewma_lambda <= 1.0) {
        return refuse("the EWMA's lambda", settings.ewma_lambda, "(0, 1]");
    }
    if !(settings.false_alarms > 0.0 && settings.false_alarms < 1.0) {
        return refuse(
            "the chance of a false alarm",
            settings.false_alarms,
            "(0, 1)",
        );
    }
    if settings.sittings * settings.families == 0 {
        return refuse("the number of sittings or families", 0.0, "[1, ∞)");
    }
    Ok(())
}
