//! The embedded engine: llama.cpp in this process, behind the provider interface.
//!
//! With it Assize needs no other service. [`EmbeddedProvider`] loads one GGUF file at a time and
//! decodes the candidates of many cells and cases as one batch; [`pull`] downloads
//! weights into the models directory.
//!
//! It is a separate crate because llama.cpp takes minutes to build; only the binary depends on
//! it, behind the feature `embedded`.
//!
//! It deliberately does not decide whether a model may be loaded (the size gate in
//! `assize-pipeline` does), does not use a GPU by default, and does not read the environment.

mod counters;
mod digest;
mod engine;
mod gguf;
mod memory;
mod prompt;
mod provider;
mod pull;
mod sampler;
mod sys;
mod threads;
mod width;
mod worker;

pub use provider::{EmbeddedConfig, EmbeddedProvider, default_models_dir};
pub use pull::{Progress, PullError, Pulled, known_models, pull};
#[doc(hidden)]
pub use sys::backend;
