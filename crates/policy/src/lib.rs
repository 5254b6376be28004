//! Policies: online bandits that choose which candidate to show, and learn from its reward.
//!
//! A *policy* scores candidates with linear models, one for each (user, policy, arm). An *arm* is
//! a stable key under which a policy learns; generated texts never come twice, so a candidate is
//! described by features and belongs to an arm ([`SHARED_ARM`] where the caller names none).
//!
//! | module | answers |
//! |---|---|
//! | [`features`] | which numbers describe a candidate in a context? |
//! | [`ridge`], [`model`] | what has one arm learnt, and how is it stored? |
//! | [`policy`] | which candidate is shown, with what probability, and what follows from a reward? |
//! | [`pool`], [`replay`] | with what does a new user, or a new policy, start? |
//! | [`off_policy`] | what reward would a policy have had, from the log of another? |
//! | [`persona`], [`simulate`] | how does it do with users whose tastes are known? |
//! | [`gate`] | has a policy earned the place of the active one? |
//!
//! Everything is a pure function of its arguments: no I/O, no clock, no randomness of its own.
//! Nothing panics: what cannot be computed is a [`PolicyError`] that names the value and the remedy.
//!
//! # Use
//!
//! ```
//! use assize_policy::{Context, Policy, PolicyKind, PolicySettings, SHARED_ARM, UserModels};
//!
//! # fn main() -> Result<(), assize_policy::PolicyError> {
//! let kind = PolicyKind::EgreedyV1;
//! let policy = Policy::new(kind, PolicySettings::defaults(kind))?;
//! let mut models = UserModels::default(); // loaded from the user's stored states
//!
//! // Score two candidates and choose one; the caller draws the 64 random bits.
//! let context = Context { hour: Some(9.5), weekend: Some(false), ..Context::default() };
//! let base = policy.feature_version().prepare(&context, None)?;
//! let candidates = [base.with_task_match(Some(0.9))?, base.with_task_match(Some(0.1))?];
//! let scores: Vec<f64> = candidates
//!     .iter()
//!     .map(|x| policy.score(&models, SHARED_ARM, x))
//!     .collect::<Result<_, _>>()?;
//! let choice = policy.choose(&scores, 42)?;
//! assert!(choice.propensity() >= 0.05);
//!
//! // Later the reward arrives: the logged features update the arm's model.
//! let changed = policy.update(&mut models, SHARED_ARM, &candidates[choice.index], 1.0)?;
//! assert_eq!(changed, assize_policy::Changed::OneArm);
//! let stored = models.get(SHARED_ARM).map(assize_policy::Model::to_bytes);
//! assert!(stored.is_some());
//! # Ok(())
//! # }
//! ```

#![expect(
    clippy::doc_markdown,
    reason = "the formulas in the docs are mathematics, not code"
)]

mod error;
pub mod features;
pub mod gate;
pub mod model;
pub mod off_policy;
pub mod persona;
pub mod policy;
pub mod pool;
pub mod replay;
pub mod ridge;
pub mod simulate;
pub mod study;

pub use error::PolicyError;
pub use features::{Context, FeatureVector, FeatureVersion, Profile};
pub use model::{Model, UserModels};
pub use persona::{Persona, PersonaError, PersonaSet};
pub use policy::{Changed, Choice, Policy, PolicyKind, PolicySettings, check_reward, choose};
pub use pool::Pool;
pub use replay::{LoggedCandidate, LoggedDecision};

/// The arm of candidates that name none: all of them share one model for each user and policy.
pub const SHARED_ARM: &str = "*";
