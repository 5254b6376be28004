//! The root finder that the reference's detectable effects came from: Brent (1973) as in `SciPy`,
//! stopped at 1e-5, on the bracket that statsmodels expands to.

const X_TOLERANCE: f64 = 1e-5;

/// A root of an increasing function that is negative at `start`.
pub fn expanding_root(f: impl Fn(f64) -> f64, start: f64) -> f64 {
    let (mut left, mut right) = (start, 1.0);
    while f(right) < 0.0 {
        left = right;
        right *= 10.0;
    }
    brent(f, left, right)
}

fn brent(f: impl Fn(f64) -> f64, left: f64, right: f64) -> f64 {
    let (mut previous, mut current, mut opposite) = (left, right, 0.0);
    let (mut f_previous, mut f_current, mut f_opposite) = (f(previous), f(current), 0.0_f64);
    let (mut step_before, mut step) = (0.0_f64, 0.0_f64);
    for _ in 0..100 {
        if f_previous * f_current < 0.0 {
            (opposite, f_opposite) = (previous, f_previous);
            step = current - previous;
            step_before = step;
        }
        if f_opposite.abs() < f_current.abs() {
            (previous, current, opposite) = (current, opposite, current);
            (f_previous, f_current, f_opposite) = (f_current, f_opposite, f_current);
        }
        let delta = f64::midpoint(X_TOLERANCE, 4.0 * f64::EPSILON * current.abs());
        let half = (opposite - current) / 2.0;
        if f_current == 0.0 || half.abs() < delta {
            return current;
        }
        let mut bisect = true;
        if step_before.abs() > delta && f_current.abs() < f_previous.abs() {
            let attempt = if previous == opposite {
                -f_current * (current - previous) / (f_current - f_previous)
            } else {
                let slope = (f_previous - f_current) / (previous - current);
                let slope_opposite = (f_opposite - f_current) / (opposite - current);
                -f_current * (f_opposite * slope_opposite - f_previous * slope)
                    / (slope_opposite * slope * (f_opposite - f_previous))
            };
            if 2.0 * attempt.abs() < step_before.abs().min(3.0 * half.abs() - delta) {
                (step_before, step) = (step, attempt);
                bisect = false;
            }
        }
        if bisect {
            (step_before, step) = (half, half);
        }
        (previous, f_previous) = (current, f_current);
        current += if step.abs() > delta {
            step
        } else {
            delta.copysign(half)
        };
        f_current = f(current);
    }
    current
}
