//! A million updates against a second implementation, which keeps the sums and solves them by
//! Cholesky factorisation from scratch. It shares no code with the product.

use assize_policy::ridge::{REBUILD_EVERY, Ridge};
use assize_stats::rng::SplitMix64;

const D: usize = 12;
const TOLERANCE: f64 = 1e-8;

/// Sums as plain vectors; every answer is solved anew.
struct Textbook {
    a: Vec<Vec<f64>>,
    b: Vec<f64>,
}

impl Textbook {
    fn new() -> Self {
        let row = |at| (0..D).map(|it| f64::from(u8::from(it == at))).collect();
        Self {
            a: (0..D).map(row).collect(),
            b: vec![0.0; D],
        }
    }

    fn update(&mut self, x: &[f64], reward: f64) {
        for i in 0..D {
            for j in 0..D {
                self.a[i][j] += x[i] * x[j];
            }
            self.b[i] += reward * x[i];
        }
    }

    /// Solves A·y = right: A = L times its transpose, by columns; forward and back substitution.
    fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut l = self.a.clone();
        for k in 0..D {
            l[k][k] = l[k][k].sqrt();
            for i in k + 1..D {
                l[i][k] /= l[k][k];
            }
            for j in k + 1..D {
                for i in j..D {
                    l[i][j] -= l[i][k] * l[j][k];
                }
            }
        }
        let mut y = right.to_vec();
        for i in 0..D {
            for k in 0..i {
                y[i] -= l[i][k] * y[k];
            }
            y[i] /= l[i][i];
        }
        for i in (0..D).rev() {
            for k in i + 1..D {
                y[i] -= l[k][i] * y[k];
            }
            y[i] /= l[i][i];
        }
        y
    }
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(l, r)| l * r).sum()
}

fn agree(ridge: &Ridge<D>, textbook: &Textbook, rng: &mut SplitMix64) {
    let theta = textbook.solve(&textbook.b);
    for (found, expected) in ridge.theta().iter().zip(&theta) {
        assert!((found - expected).abs() < TOLERANCE, "{found} {expected}");
    }
    for _ in 0..10 {
        let x = features(rng);
        let width = dot(&x, &textbook.solve(&x)).sqrt();
        assert!((ridge.mean(&x) - dot(&x, &theta)).abs() < TOLERANCE);
        assert!((ridge.width(&x) - width).abs() < TOLERANCE);
    }
}

fn features(rng: &mut SplitMix64) -> [f64; D] {
    let mut x = [0.0; D];
    x.fill_with(|| rng.next_f64());
    x[0] = 1.0;
    x
}

#[test]
fn a_million_updates_agree_with_cholesky_from_scratch() {
    let mut rng = SplitMix64::new(2024);
    let mut ridge = Ridge::<D>::new(1.0);
    let mut textbook = Textbook::new();
    let updates = 1_000_000 + REBUILD_EVERY - 1;
    for n in 1..=updates {
        let x = features(&mut rng);
        let reward = 0.3 + 0.4 * x[3] - 0.2 * x[7] + 0.3 * rng.next_f64();
        ridge.update(&x, reward).unwrap();
        textbook.update(&x, reward);
        // Just before, at and after a rebuild, and as far from one as possible.
        if [999, 1000, 1001, 1_000_000, updates].contains(&n) {
            agree(&ridge, &textbook, &mut rng);
        }
    }
    assert_eq!(ridge.n(), updates);
}
