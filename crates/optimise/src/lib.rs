//! The prompt loop: new versions of a prompt are written from judges' reasons, screened, raced on
//! the feedback split, and the best one is put before the promotion gate.
//!
//! A loop is an append-only log of [`Event`]s. Its state, its versions, its budget and what comes
//! next all follow from the log: [`Tree::fold`] reads it, [`Tree::next`] decides. A program that
//! is killed folds the log again and goes on from there.
//!
//! | module | answers |
//! |---|---|
//! | [`event`], [`settings`] | what is recorded, and what was agreed before the start? |
//! | [`tree`] | which versions are there, in which state, with which scores? |
//! | [`next`] | what is to be done now, and when does the search end? |
//! | [`race`], [`correct`], [`parent`] | which child leads, and from which version are the next ones written? |
//! | [`packet`], [`reply`] | what does a reflector get, and what may it answer? |
//! | [`screens`] | which children are not worth a verdict? |
//! | [`preflight`] | is the loop worth starting? |
//! | [`status`], [`lineage`], [`diff`] | how is it shown? |
//!
//! Everything is a pure function of its arguments: no I/O, no clock, no randomness of its own.
//! Times are not part of the log's events, so the same seed and the same answers make the same
//! lineage, byte for byte.

#![expect(
    clippy::doc_markdown,
    reason = "the formulas in the docs are mathematics, not code"
)]

pub mod correct;
mod decide;
pub mod diff;
mod error;
pub mod event;
pub mod lineage;
pub mod next;
pub mod packet;
pub mod parent;
pub mod preflight;
pub mod race;
pub mod reply;
pub mod score;
pub mod screens;
pub mod settings;
pub mod status;
pub mod tree;
pub mod version;

pub use error::OptimiseError;
pub use event::{Event, Rejection, SearchEnd};
pub use lineage::Lineage;
pub use next::Next;
pub use packet::{FeedbackCell, FeedbackOutput, Packet};
pub use race::Stage;
pub use reply::{Kind, Proposal, Reply};
pub use score::{CellScore, FeedbackEstimate};
pub use screens::Screens;
pub use settings::{LoopSettings, judge_words};
pub use status::Status;
pub use tree::{Node, State, Tree, WaitingFor};
pub use version::Version;

/// The id of the version that a loop starts from.
pub const SEED: &str = "seed";
