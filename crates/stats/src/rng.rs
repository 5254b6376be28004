//! `SplitMix64`: a small generator with a written definition, so that a seeded result can be
//! reproduced in any language, bit for bit.
//!
//! The state advances by a constant, and the output is a hash of the state. Any position of the
//! stream can therefore be reached at once ([`SplitMix64::at`]), which is what makes draws
//! independent of the number of threads: draw `b` always starts at the same position.
//!
//! Reference: Steele, Lea, Flood (2014), "Fast splittable pseudorandom number generators",
//! OOPSLA. Not for secrets.

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The generator; `Copy`, because its whole state is one word.
#[derive(Debug, Clone, Copy)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The generator for `seed` after `position` outputs.
    pub const fn at(seed: u64, position: u64) -> Self {
        Self {
            state: seed.wrapping_add(position.wrapping_mul(GAMMA)),
        }
    }

    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// An index in `0..n` by multiply and shift; `0` for `n = 0`. The bias is below n/2^64.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the high word of a product with n is below n"
    )]
    pub const fn below(&mut self, n: usize) -> usize {
        ((self.next_u64() as u128 * n as u128) >> 64) as usize
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub const fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// A standard normal number by Box and Muller (1958); uses two outputs of the stream.
    pub fn next_normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.next_f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.next_f64()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn first_output_of_seed_42_is_the_published_one() {
        assert_eq!(SplitMix64::new(42).next_u64(), 13_679_457_532_755_275_413);
    }

    #[test]
    fn jumping_equals_stepping() {
        let mut stepped = SplitMix64::new(7);
        for _ in 0..1000 {
            stepped.next_u64();
        }
        assert_eq!(SplitMix64::at(7, 1000).next_u64(), stepped.next_u64());
    }

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let mut rng = SplitMix64::new(1);
        let sample: Vec<f64> = (0..100_000).map(|_| rng.next_normal()).collect();
        let mean = crate::describe::mean(&sample).unwrap_or(f64::NAN);
        let variance = crate::describe::variance(&sample).unwrap_or(f64::NAN);
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
    }
}
