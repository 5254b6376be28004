//! The role for promotions: a task's champion and its history.

use std::fmt::Debug;

use assize_domain::promotion::{Nominee, Promotion};

use crate::Result;

/// The current champion of a task, and the promotion history.
pub trait Promotions: Send + Sync + Debug {
    /// The latest entry of a task's promotion history: the current champion.
    fn champion_get(&self, task: &str) -> Result<Option<Promotion>>;

    /// A task's promotion history, oldest first. Entries are immutable.
    fn promotion_list(&self, task: &str) -> Result<Vec<Promotion>>;

    /// Adds an entry to the history, registers the champion's prompt as a version of the task's
    /// registered prompt (once for each content), tags it with the record, and moves the alias
    /// `champion` to it. Returns the version. The entry's number must follow the latest one's.
    /// Otherwise another promotion came first, nothing is written, and the error is
    /// [`StoreError::Superseded`](crate::StoreError::Superseded).
    fn promotion_record(&self, promotion: &Promotion) -> Result<u32>;

    /// Registers a nominated prompt as a version of the task's registered prompt (once for each
    /// content), with its hypothesis as the commit message, and moves the alias `challenger` to it.
    /// Returns the version. Nothing is promoted by this.
    fn nominee_record(&self, nominee: &Nominee) -> Result<u32>;

    /// Removes the alias `challenger` of a task's registered prompt if it is at this version, which was
    /// rejected. The version stays.
    fn nominee_withdraw(&self, task: &str, version: u32) -> Result<()>;
}
