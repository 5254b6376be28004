//! The nouns and rules of Assize.

pub mod model;
