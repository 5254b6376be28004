//! The embedded engine: llama.cpp in this process, behind the provider interface.
//!
//! It is what makes Assize work on a machine where nothing else runs. [`EmbeddedProvider`]
//! loads one GGUF file at a time and decodes all candidates of a cell as one batch over the
//! prompt that they share; [`pull`] brings weights into the models directory.
//!
//! It is a crate of its own because llama.cpp takes minutes to build; nothing else depends on
//! it but the binary, behind the feature `embedded`.
//!
//! What it deliberately does not do: decide whether a model may be loaded (the size gate is
//! above), run on a GPU by default, or read the environment.

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
