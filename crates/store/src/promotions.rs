//! The history of champions.

use std::fmt::Debug;

use assize_domain::promotion::Promotion;

use crate::Result;

/// Who is champion of a task, and who was.
pub trait Promotions: Send + Sync + Debug {
    /// The latest entry of a task's promotion history: whoever is champion now.
    fn champion_get(&self, task: &str) -> Result<Option<Promotion>>;

    /// A task's promotion history, oldest first. Nothing in it ever changes.
    fn promotion_list(&self, task: &str) -> Result<Vec<Promotion>>;

    /// Adds an entry to the history, registers the champion's prompt as a version of the task's
    /// registered prompt (once for each content), tags it with the record, and moves the alias
    /// `champion` to it. Answers the version. The entry's number must follow the latest one's:
    /// otherwise somebody was faster, nothing is written, and the error is
    /// [`StoreError::Superseded`](crate::StoreError::Superseded).
    fn promotion_record(&self, promotion: &Promotion) -> Result<u32>;
}
