//! The models of one user in one policy, and how each is stored.
//!
//! A [`Model`] is a [`Ridge`] with one of the two lengths that the features have; its length is
//! fixed when it is made, and features of another length are an error, never a silent mix.
//!
//! **Bytes.** Little-endian: version (u8, 1), dimension D (u8), n (u64), the upper triangle of A by
//! rows (D(D+1)/2 × f64), b (D × f64): 290 bytes for D = 7 and 730 for D = 12. The inverse is not
//! stored; decoding computes it, and refuses what is not a positive definite A. The sums of a pool
//! ([`crate::Pool`]) have the same layout with version 0x81, so that neither is read as the other.

use crate::ridge::{Matrix, Ridge};
use crate::{PolicyError, features};
use std::collections::BTreeMap;

const MODEL_VERSION: u8 = 1;
const HEADER: usize = 10;

/// What one arm has learnt.
#[derive(Debug, Clone, PartialEq)]
pub enum Model {
    Seven(Box<Ridge<7>>),
    Twelve(Box<Ridge<12>>),
}

/// Runs `$body` with the ridge and the features as an array of its length.
macro_rules! with_ridge {
    ($model:expr, $x:expr, |$ridge:ident, $array:ident| $body:expr) => {
        match $model {
            Model::Seven($ridge) => {
                let $array: &[f64; 7] = sized($x)?;
                $body
            }
            Model::Twelve($ridge) => {
                let $array: &[f64; 12] = sized($x)?;
                $body
            }
        }
    };
}
pub(crate) use with_ridge;

impl Model {
    /// A model that has seen nothing; an error unless `dimension` is 7 or 12.
    pub fn new(dimension: usize, lambda: f64) -> Result<Self, PolicyError> {
        match dimension {
            7 => Ok(Self::Seven(Box::new(Ridge::new(lambda)))),
            12 => Ok(Self::Twelve(Box::new(Ridge::new(lambda)))),
            found => Err(PolicyError::Dimension {
                expected: features::FeatureVersion::V1.dimension(),
                found,
            }),
        }
    }

    pub const fn dimension(&self) -> usize {
        match self {
            Self::Seven(_) => 7,
            Self::Twelve(_) => 12,
        }
    }

    /// The number of updates.
    pub const fn n(&self) -> u64 {
        match self {
            Self::Seven(ridge) => ridge.n(),
            Self::Twelve(ridge) => ridge.n(),
        }
    }

    /// θ, one weight for each feature.
    pub const fn theta(&self) -> &[f64] {
        match self {
            Self::Seven(ridge) => ridge.theta(),
            Self::Twelve(ridge) => ridge.theta(),
        }
    }

    /// The predicted reward x·θ.
    pub fn mean(&self, x: &[f64]) -> Result<f64, PolicyError> {
        Ok(with_ridge!(self, x, |ridge, x| ridge.mean(x)))
    }

    /// The width √(xᵀA⁻¹x) of the prediction.
    pub fn width(&self, x: &[f64]) -> Result<f64, PolicyError> {
        Ok(with_ridge!(self, x, |ridge, x| ridge.width(x)))
    }

    /// The bytes to store.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Seven(ridge) => ridge_bytes(ridge),
            Self::Twelve(ridge) => ridge_bytes(ridge),
        }
    }

    /// The model that [`Self::to_bytes`] stored; an error for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PolicyError> {
        let sums = Sums::from_bytes(MODEL_VERSION, bytes)?;
        let model = sums.model();
        model.map_err(|_| PolicyError::State {
            reason: "its matrix is not positive definite",
        })
    }

    /// Bytes that the model takes in memory.
    pub const fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Seven(_) => size_of::<Ridge<7>>(),
                Self::Twelve(_) => size_of::<Ridge<12>>(),
            }
    }
}

/// The models of one user in one policy, by arm.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UserModels {
    arms: BTreeMap<String, Model>,
}

impl UserModels {
    pub fn get(&self, arm: &str) -> Option<&Model> {
        self.arms.get(arm)
    }

    /// Adds or replaces the model of an arm, for example one that was loaded.
    pub fn insert(&mut self, arm: impl Into<String>, model: Model) {
        self.arms.insert(arm.into(), model);
    }

    /// The models in the order of their arms.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Model)> {
        self.arms.iter().map(|(arm, model)| (arm.as_str(), model))
    }

    pub fn len(&self) -> usize {
        self.arms.len()
    }

    pub fn is_empty(&self) -> bool {
        self.arms.is_empty()
    }

    /// Bytes that the models take in memory, to bound a cache.
    pub fn memory_bytes(&self) -> usize {
        let of_arm = |(arm, model): (&String, &Model)| {
            arm.len() + size_of::<String>() + model.memory_bytes()
        };
        size_of::<Self>() + self.arms.iter().map(of_arm).sum::<usize>()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Model)> {
        let arms = self.arms.iter_mut();
        arms.map(|(arm, model)| (arm.as_str(), model))
    }

    pub(crate) fn get_mut(&mut self, arm: &str) -> Option<&mut Model> {
        self.arms.get_mut(arm)
    }
}

/// Features as an array of the model's length.
pub(crate) fn sized<const D: usize>(x: &[f64]) -> Result<&[f64; D], PolicyError> {
    x.try_into().map_err(|_| PolicyError::Dimension {
        expected: D,
        found: x.len(),
    })
}

/// n, A and b without a length at compile time: what is stored and pooled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sums {
    pub dimension: usize,
    pub n: u64,
    /// The upper triangle of A, by rows.
    pub a: Vec<f64>,
    pub b: Vec<f64>,
}

impl Sums {
    pub fn zero(dimension: usize) -> Self {
        Self {
            dimension,
            n: 0,
            a: vec![0.0; dimension * (dimension + 1) / 2],
            b: vec![0.0; dimension],
        }
    }

    pub fn to_bytes(&self, version: u8) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + 8 * (self.a.len() + self.b.len()));
        bytes.push(version);
        bytes.push(u8::try_from(self.dimension).unwrap_or(u8::MAX));
        bytes.extend(self.n.to_le_bytes());
        bytes.extend(self.a.iter().chain(&self.b).flat_map(|it| it.to_le_bytes()));
        bytes
    }

    pub fn from_bytes(version: u8, bytes: &[u8]) -> Result<Self, PolicyError> {
        let state = |reason| PolicyError::State { reason };
        let (header, numbers) = bytes
            .split_first_chunk::<HEADER>()
            .ok_or(state("it is too short"))?;
        let [found, dimension, n @ ..] = *header;
        if found != version {
            return Err(state("its version is unknown"));
        }
        if dimension != 7 && dimension != 12 {
            return Err(state("its dimension is neither 7 nor 12"));
        }
        let mut sums = Self::zero(usize::from(dimension));
        sums.n = u64::from_le_bytes(n);
        if numbers.len() != 8 * (sums.a.len() + sums.b.len()) {
            return Err(state("its length does not fit its dimension"));
        }
        let (numbers, _) = numbers.as_chunks::<8>();
        for (entry, number) in sums.a.iter_mut().chain(&mut sums.b).zip(numbers) {
            *entry = f64::from_le_bytes(*number);
            if !entry.is_finite() {
                return Err(state("it has a number that is not finite"));
            }
        }
        Ok(sums)
    }

    pub fn model(&self) -> Result<Model, PolicyError> {
        match self.dimension {
            7 => Ok(Model::Seven(Box::new(self.ridge()?))),
            _ => Ok(Model::Twelve(Box::new(self.ridge()?))),
        }
    }

    fn ridge<const D: usize>(&self) -> Result<Ridge<D>, PolicyError> {
        let mut a: Matrix<D> = [[0.0; D]; D];
        let pairs = (0..D).flat_map(|row| (row..D).map(move |column| (row, column)));
        for ((row, column), value) in pairs.zip(&self.a) {
            a[row][column] = *value;
            a[column][row] = *value;
        }
        Ridge::from_sums(self.n, a, *sized(&self.b)?)
    }
}

fn ridge_bytes<const D: usize>(ridge: &Ridge<D>) -> Vec<u8> {
    let sums = Sums {
        dimension: D,
        n: ridge.n(),
        a: ridge
            .a()
            .iter()
            .enumerate()
            .flat_map(|(index, row)| row[index..].iter().copied())
            .collect(),
        b: ridge.b().to_vec(),
    };
    sums.to_bytes(MODEL_VERSION)
}

#[cfg(test)]
mod tests;
