//! Distribution functions: Student's t (central and noncentral), F, χ² and normal.
//!
//! The central ones are the regularised incomplete beta and gamma functions of `statrs`; tails
//! are computed as tails, so small p values keep their digits. The quantile of t starts from
//! `statrs` and is polished by Newton's method on our own distribution function, because the
//! inverse incomplete beta stops earlier than the 1e-9 that callers rely on.
//!
//! The noncentral t is not in `statrs`. It follows Lenth (1989), "Algorithm AS 243: cumulative
//! distribution function of the non-central t distribution", Applied Statistics 38, 185–189: with
//! x = t²/(t² + ν), a Poisson-weighted series of incomplete betas that is summed by recurrence.
//! Above |δ| = 37 the Poisson weights underflow and the normal approximation of Abramowitz and
//! Stegun 26.7.10 stands in, as it does in R.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::beta::{checked_beta_reg, ln_beta};
use statrs::function::erf::{erfc, erfc_inv};
use statrs::function::gamma::{checked_gamma_ur, ln_gamma};
use std::f64::consts::{PI, SQRT_2};

const LARGEST_SERIES_DELTA: f64 = 37.0;
const SERIES_TERMS: usize = 5_000;

/// P(Z ≤ z) for a standard normal Z.
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z / SQRT_2)
}

/// The z with P(Z ≤ z) = `probability`; `None` outside (0, 1).
pub fn normal_quantile(probability: f64) -> Option<f64> {
    (probability > 0.0 && probability < 1.0).then(|| -SQRT_2 * erfc_inv(2.0 * probability))
}

/// P(T > t) for Student's t; `None` unless `df > 0` and t is a number.
pub fn t_upper(t: f64, df: f64) -> Option<f64> {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return None;
    }
    if t.is_infinite() {
        return Some(if t > 0.0 { 0.0 } else { 1.0 });
    }
    let tail = 0.5 * checked_beta_reg(df / 2.0, 0.5, df / (df + t * t)).ok()?;
    Some(if t > 0.0 { tail } else { 1.0 - tail })
}

/// P(|T| > |t|) for Student's t.
pub fn t_two_sided(t: f64, df: f64) -> Option<f64> {
    t_upper(t.abs(), df).map(|tail| 2.0 * tail)
}

/// The t with P(T ≤ t) = `probability`; `None` outside (0, 1) or unless `df > 0`.
pub fn t_quantile(probability: f64, df: f64) -> Option<f64> {
    if !(probability > 0.0 && probability < 1.0 && df > 0.0 && df.is_finite()) {
        return None;
    }
    if probability < 0.5 {
        return t_quantile(1.0 - probability, df).map(|t| -t);
    }
    let tail = 1.0 - probability;
    let mut t = StudentsT::new(0.0, 1.0, df).ok()?.inverse_cdf(probability);
    let ln_norm = ln_gamma(df.midpoint(1.0)) - ln_gamma(df / 2.0) - 0.5 * (df * PI).ln();
    for _ in 0..20 {
        let density = (ln_norm - df.midpoint(1.0) * (t * t / df).ln_1p()).exp();
        let step = (t_upper(t, df)? - tail) / density;
        if !step.is_finite() {
            break;
        }
        t += step;
        if step.abs() <= 1e-14 * t.abs().max(1e-3) {
            break;
        }
    }
    t.is_finite().then_some(t)
}

/// P(F > f) for Fisher's F.
pub fn f_upper(f: f64, df1: f64, df2: f64) -> Option<f64> {
    if !(f >= 0.0 && df1 > 0.0 && df2 > 0.0) {
        return None;
    }
    checked_beta_reg(df2 / 2.0, df1 / 2.0, df2 / (df2 + df1 * f)).ok()
}

/// P(X > x) for χ².
pub fn chi2_upper(x: f64, df: f64) -> Option<f64> {
    if x == 0.0 && df > 0.0 {
        return Some(1.0);
    }
    checked_gamma_ur(df / 2.0, x / 2.0).ok()
}

/// P(T ≤ t) for the noncentral t with noncentrality `delta`; `None` for arguments that are not
/// finite or `df ≤ 0`.
pub fn noncentral_t_cdf(t: f64, df: f64, delta: f64) -> Option<f64> {
    if !(t.is_finite() && df.is_finite() && delta.is_finite() && df > 0.0) {
        return None;
    }
    if t < 0.0 {
        return noncentral_t_cdf(-t, df, -delta).map(|p| 1.0 - p);
    }
    if delta.abs() > LARGEST_SERIES_DELTA {
        let centre = t * (1.0 - 1.0 / (4.0 * df)) - delta;
        return Some(normal_cdf(centre / (1.0 + t * t / (2.0 * df)).sqrt()));
    }
    let series = if t == 0.0 {
        0.0
    } else {
        lenth_series(t, df, delta)?
    };
    Some((series + normal_cdf(-delta)).clamp(0.0, 1.0))
}

/// P(0 < T ≤ t) = Σ_j [p_j I_x(j + ½, ν/2) + q_j I_x(j + 1, ν/2)], where p and q are the Poisson
/// weights at whole and half steps.
fn lenth_series(t: f64, df: f64, delta: f64) -> Option<f64> {
    let x = t * t / (t * t + df);
    let half_df = df / 2.0;
    let lambda = delta * delta;
    let ln_complement = half_df * (df / (t * t + df)).ln();
    let mut order = 0.5;
    let mut whole = 0.5 * (-0.5 * lambda).exp();
    let mut half = (2.0 / PI).sqrt() * whole * delta;
    let mut remaining_mass = 0.5 - whole;
    let mut whole_beta = checked_beta_reg(order, half_df, x).ok()?;
    let mut whole_step = 2.0 * (0.5 * x.ln() + ln_complement - ln_beta(0.5, half_df)).exp();
    let mut half_beta = -ln_complement.exp_m1();
    let mut half_step = half_df * x * ln_complement.exp();
    let mut total = whole * whole_beta + half * half_beta;
    for term in 1..=SERIES_TERMS {
        order += 1.0;
        whole_beta -= whole_step;
        half_beta -= half_step;
        whole_step *= x * (order + half_df - 1.0) / order;
        half_step *= x * (order + half_df - 0.5) / (order + 0.5);
        whole *= lambda / (2.0 * term as f64);
        half *= lambda / (2.0 * term as f64 + 1.0);
        remaining_mass -= whole;
        total += whole * whole_beta + half * half_beta;
        // Lenth's bound on what the terms still to come can add.
        let bound = 2.0 * remaining_mass * (whole_beta - whole_step);
        if bound.abs() < 1e-15 && term as f64 > lambda / 2.0 {
            break;
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::{f_upper, noncentral_t_cdf, normal_quantile, t_quantile, t_upper};

    fn close(found: Option<f64>, expected: f64, tolerance: f64) {
        let found = found.unwrap_or(f64::NAN);
        assert!((found - expected).abs() < tolerance, "{found} {expected}");
    }

    #[test]
    fn t_with_one_degree_of_freedom_is_cauchy() {
        for t in [-30.0, -1.0, 0.0, 0.3, 12.0] {
            let cauchy = 0.5 - f64::atan(t) / std::f64::consts::PI;
            close(t_upper(t, 1.0), cauchy, 1e-14);
        }
        close(
            t_quantile(0.975, 1.0),
            (0.475 * std::f64::consts::PI).tan(),
            1e-11,
        );
    }

    #[test]
    fn t_squared_is_f() {
        for (t, df) in [(0.5, 3.0), (2.0, 7.0), (4.4, 35.0)] {
            let two_sided = 2.0 * t_upper(t, df).unwrap_or(f64::NAN);
            close(f_upper(t * t, 1.0, df), two_sided, 1e-14);
        }
    }

    #[test]
    fn quantile_inverts_the_tail() {
        for df in [1.0, 2.0, 7.0, 191.0, 1e6] {
            for p in [1e-6, 0.025, 0.3, 0.5, 0.8, 0.95, 0.999] {
                let t = t_quantile(p, df).unwrap_or(f64::NAN);
                close(t_upper(t, df), 1.0 - p, 1e-10);
            }
        }
        assert_eq!(t_quantile(1.0, 5.0), None);
        assert_eq!(t_quantile(0.9, 0.0), None);
        assert_eq!(normal_quantile(0.0), None);
    }

    /// Trapezoid over u of Φ(t·e^u − δ) times the density of u = ln √(χ²/ν): the definition of
    /// the noncentral t, with nothing in common with the series.
    fn by_integration(t: f64, df: f64, delta: f64) -> f64 {
        let ln_norm = std::f64::consts::LN_2 + (df / 2.0) * (df / 2.0).ln()
            - statrs::function::gamma::ln_gamma(df / 2.0);
        let step = 1e-3;
        (-40_000..3_000)
            .map(|i| f64::from(i) * step)
            .map(|u: f64| {
                let density = (ln_norm + df * u - df * (2.0 * u).exp() / 2.0).exp();
                step * density * super::normal_cdf(t * u.exp() - delta)
            })
            .sum()
    }

    #[test]
    fn noncentral_t_equals_its_integral() {
        for df in [1.0, 4.0, 7.0, 99.0] {
            for delta in [-3.0, 0.0, 0.7, 3.8, 12.0, 30.0] {
                for t in [-2.0, 0.0, 0.5, 2.4, 10.0, 25.0] {
                    let found = noncentral_t_cdf(t, df, delta);
                    close(found, by_integration(t, df, delta), 1e-10);
                }
            }
        }
    }

    #[test]
    fn noncentral_t_survives_extremes() {
        close(noncentral_t_cdf(2.0, 7.0, 200.0), 0.0, 1e-12);
        close(noncentral_t_cdf(2.0, 7.0, -200.0), 1.0, 1e-12);
        assert_eq!(noncentral_t_cdf(f64::NAN, 7.0, 1.0), None);
        assert_eq!(noncentral_t_cdf(1.0, 0.0, 1.0), None);
    }
}
