//! The embedded engine: llama.cpp in this process, behind the provider interface.
//!
//! With it Assize needs no other service. [`EmbeddedProvider`] loads one GGUF file at a time and
//! decodes all candidates of a cell as one batch over their common prompt; [`pull`] downloads
//! weights into the models directory.
//!
//! It is a separate crate because llama.cpp takes minutes to build; only the binary depends on
//! it, behind the feature `embedded`.
//!
//! It deliberately does not decide whether a model may be loaded (the size gate in
//! `assize-pipeline` does), does not use a GPU by default, and does not read the environment.

mod digest;
mod engine;
mod gguf;
mod memory;
mod prompt;
mod provider;
mod pull;
mod sampler;
mod sys;
mod worker;

pub use provider::{EmbeddedConfig, EmbeddedProvider, default_models_dir};
pub use pull::{Progress, PullError, Pulled, known_models, pull};
#[doc(hidden)]
pub use sys::backend;
