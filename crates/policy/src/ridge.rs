//! One linear model of the reward: ridge regression that is updated one observation at a time.
//!
//! A = λI + Σ xxᵀ, b = Σ r·x, θ = A⁻¹b. The predicted reward is x·θ, and its width
//! √(xᵀA⁻¹x) is the standard deviation of x·θ for rewards of variance 1.
//!
//! * **Update.** A ← A + xxᵀ, b ← b + r·x. With w = A⁻¹x and s = 1 + x·w the inverse follows by
//!   Sherman–Morrison, A⁻¹ ← A⁻¹ − wwᵀ/s, and θ ← θ + w·(r − x·θ)/s: O(D²) instead of O(D³).
//! * **Rebuild.** A and b are the state that is stored; A⁻¹ and θ are derived from them. They are
//!   computed again by Cholesky factorisation when a state is loaded and after every 1,000
//!   updates, so that rounding errors of the updates cannot add up.
//! * **Forgetting.** A ← γA + (1−γ)λI, b ← γb. The second term keeps A ⪰ λI: decay alone would
//!   lose the regularisation, and θ would become unstable.
//! * **Pooled prior.** A = λI + κ·A_pool/n_pool, b = κ·b_pool/n_pool: a new user starts as if κ
//!   average observations of all users had been made.
//!
//! The intercept is regularised like any other feature. Everything is f64: f32 drifts to 2e-2
//! within a million updates.
//!
//! References: Hoerl and Kennard (1970), "Ridge regression: biased estimation for nonorthogonal
//! problems", Technometrics 12; Sherman and Morrison (1950), "Adjustment of an inverse matrix
//! corresponding to a change in one element of a given matrix", Annals of Mathematical Statistics
//! 21; Hager (1989), "Updating the inverse of a matrix", SIAM Review 31 (stability); Golub and Van
//! Loan (2013), "Matrix computations", section 4.2 (Cholesky).

use crate::PolicyError;

/// Features larger than this are refused: the sums of their squares would swamp λ.
pub const LARGEST_FEATURE: f64 = 1e3;
/// Updates between two rebuilds of the inverse.
pub const REBUILD_EVERY: u64 = 1000;

pub type Matrix<const D: usize> = [[f64; D]; D];

/// A model with `D` features.
#[derive(Debug, Clone, PartialEq)]
pub struct Ridge<const D: usize> {
    n: u64,
    a: Matrix<D>,
    b: [f64; D],
    inverse: Matrix<D>,
    theta: [f64; D],
}

impl<const D: usize> Ridge<D> {
    /// A model that has seen nothing. `lambda` is positive.
    pub fn new(lambda: f64) -> Self {
        Self {
            n: 0,
            a: diagonal(lambda),
            b: [0.0; D],
            inverse: diagonal(1.0 / lambda),
            theta: [0.0; D],
        }
    }

    /// A model with given sums; an error unless `a` is positive definite.
    pub fn from_sums(n: u64, a: Matrix<D>, b: [f64; D]) -> Result<Self, PolicyError> {
        let inverse = inverse(&a).ok_or(PolicyError::NotPositiveDefinite)?;
        let theta = product(&inverse, &b);
        Ok(Self {
            n,
            a,
            b,
            inverse,
            theta,
        })
    }

    /// The number of updates.
    pub const fn n(&self) -> u64 {
        self.n
    }

    pub const fn a(&self) -> &Matrix<D> {
        &self.a
    }

    pub const fn b(&self) -> &[f64; D] {
        &self.b
    }

    pub const fn theta(&self) -> &[f64; D] {
        &self.theta
    }

    /// x·θ.
    #[inline]
    pub fn mean(&self, x: &[f64; D]) -> f64 {
        dot(x, &self.theta)
    }

    /// √(max(0, xᵀA⁻¹x)).
    #[inline]
    pub fn width(&self, x: &[f64; D]) -> f64 {
        dot(x, &product(&self.inverse, x)).max(0.0).sqrt()
    }

    /// Adds one observation. After an error the model is unchanged.
    ///
    /// `x` and `reward` are finite and |x| is at most [`LARGEST_FEATURE`]; callers check that with
    /// [`crate::features::check_features`].
    #[inline]
    pub fn update(&mut self, x: &[f64; D], reward: f64) -> Result<(), PolicyError> {
        if (self.n + 1).is_multiple_of(REBUILD_EVERY) {
            let mut next = self.clone();
            next.add(x, reward);
            *self = Self::from_sums(next.n, next.a, next.b)?;
            return Ok(());
        }
        let w = product(&self.inverse, x);
        let scale = 1.0 + dot(x, &w);
        if scale.is_nan() || scale < 1.0 {
            return Err(PolicyError::NotPositiveDefinite);
        }
        // √s on both sides keeps the inverse exactly symmetric.
        let root = 1.0 / scale.sqrt();
        let half = w.map(|value| value * root);
        let error = (reward - self.mean(x)) / scale;
        for (row, left) in self.inverse.iter_mut().zip(&half) {
            for (entry, right) in row.iter_mut().zip(&half) {
                *entry -= left * right;
            }
        }
        for (theta, w) in self.theta.iter_mut().zip(&w) {
            *theta += w * error;
        }
        self.add(x, reward);
        Ok(())
    }

    /// A ← γA + (1−γ)λI, b ← γb. After an error the model is unchanged.
    pub fn forget(&mut self, gamma: f64, lambda: f64) -> Result<(), PolicyError> {
        let (a, b) = self.decayed(gamma, lambda);
        *self = Self::from_sums(self.n, a, b)?;
        Ok(())
    }

    /// Forgets, then adds one observation, with one rebuild for both.
    pub fn forget_and_update(
        &mut self,
        gamma: f64,
        lambda: f64,
        x: &[f64; D],
        reward: f64,
    ) -> Result<(), PolicyError> {
        let mut next = self.clone();
        (next.a, next.b) = self.decayed(gamma, lambda);
        next.add(x, reward);
        *self = Self::from_sums(next.n, next.a, next.b)?;
        Ok(())
    }

    fn decayed(&self, gamma: f64, lambda: f64) -> (Matrix<D>, [f64; D]) {
        let mut a = self.a.map(|row| row.map(|entry| gamma * entry));
        for (index, row) in a.iter_mut().enumerate() {
            row[index] += (1.0 - gamma) * lambda;
        }
        (a, self.b.map(|entry| gamma * entry))
    }

    fn add(&mut self, x: &[f64; D], reward: f64) {
        self.n += 1;
        for (row, left) in self.a.iter_mut().zip(x) {
            for (entry, right) in row.iter_mut().zip(x) {
                *entry += left * right;
            }
        }
        for (entry, value) in self.b.iter_mut().zip(x) {
            *entry += reward * value;
        }
    }
}

fn diagonal<const D: usize>(value: f64) -> Matrix<D> {
    let mut matrix = [[0.0; D]; D];
    for (index, row) in matrix.iter_mut().enumerate() {
        row[index] = value;
    }
    matrix
}

/// Four partial sums, because one sum would wait for every addition before the next.
#[inline]
pub(crate) fn dot<const D: usize>(left: &[f64; D], right: &[f64; D]) -> f64 {
    let mut sums = [0.0; 4];
    let (left, left_rest) = left.as_chunks::<4>();
    let (right, right_rest) = right.as_chunks::<4>();
    for (left, right) in left.iter().zip(right) {
        for lane in 0..4 {
            sums[lane] += left[lane] * right[lane];
        }
    }
    for (sum, (left, right)) in sums.iter_mut().zip(left_rest.iter().zip(right_rest)) {
        *sum += left * right;
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// The product of a symmetric matrix and a vector, by rows.
#[inline]
fn product<const D: usize>(symmetric: &Matrix<D>, x: &[f64; D]) -> [f64; D] {
    let mut out = [0.0; D];
    for (row, value) in symmetric.iter().zip(x) {
        for (sum, entry) in out.iter_mut().zip(row) {
            *sum += entry * value;
        }
    }
    out
}

/// A⁻¹ = L⁻ᵀL⁻¹ with A = LLᵀ; `None` unless A is finite and positive definite.
fn inverse<const D: usize>(a: &Matrix<D>) -> Option<Matrix<D>> {
    let lower = cholesky(a)?;
    let mut lower_inverse = [[0.0; D]; D];
    for column in 0..D {
        lower_inverse[column][column] = 1.0 / lower[column][column];
        for row in column + 1..D {
            let sum: f64 = (column..row)
                .map(|k| lower[row][k] * lower_inverse[k][column])
                .sum();
            lower_inverse[row][column] = -sum / lower[row][row];
        }
    }
    let mut result = [[0.0; D]; D];
    for row in 0..D {
        for column in 0..=row {
            let entry = (row..D)
                .map(|k| lower_inverse[k][row] * lower_inverse[k][column])
                .sum();
            result[row][column] = entry;
            result[column][row] = entry;
        }
    }
    Some(result)
}

fn cholesky<const D: usize>(a: &Matrix<D>) -> Option<Matrix<D>> {
    let mut lower = [[0.0; D]; D];
    for row in 0..D {
        for column in 0..=row {
            let dot: f64 = (0..column).map(|k| lower[row][k] * lower[column][k]).sum();
            let rest = a[row][column] - dot;
            if !rest.is_finite() {
                return None;
            }
            if row > column {
                lower[row][column] = rest / lower[column][column];
            } else if rest > 0.0 {
                lower[row][row] = rest.sqrt();
            } else {
                return None;
            }
        }
    }
    Some(lower)
}

#[cfg(test)]
mod tests;
