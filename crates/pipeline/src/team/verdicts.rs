//! Verdicts while the server is unreachable.
//!
//! A judge who holds leased cases goes on scoring: the verdicts are committed to this machine's
//! state and delivered in their order when the server answers again. Until then, everything else
//! that a sitting does waits for them, so that no later request overtakes them. Delivering is
//! repeated until the server has acknowledged or refused, and a repeated delivery changes nothing.

use std::collections::BTreeSet;

use assize_domain::sitting::ANCHORS;
use assize_store::queue::VerdictSubmission;
use assize_store::{Committed, Result, StoreError};

use super::{Team, lock};

impl Team {
    /// Submits verdicts to the server, or keeps them for later.
    pub(super) fn submit(&self, submission: &VerdictSubmission) -> Result<Committed> {
        let sent = self
            .check_reachable()
            .and_then(|()| self.deliver())
            .and_then(|()| self.ask(|server| server.sitting_submit(submission)));
        match sent {
            Ok(committed) => {
                self.reread_judged(submission);
                Ok(committed)
            }
            Err(StoreError::Unreachable { .. }) => {
                self.state.verdicts_put(&self.place, submission)?;
                self.count_undelivered()?;
                Ok(Committed {
                    runs_written: submission.files.len() as u64,
                    runs_unchanged: 0,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Delivers the verdicts that wait, in their order. An unreachable server is an error only if
    /// verdicts wait for it.
    pub(super) fn deliver(&self) -> Result<()> {
        let _one_at_a_time = lock(&self.delivering);
        let mut is_changed = false;
        while let Some(next) = self.state.verdicts_next(&self.place)? {
            is_changed = true;
            match self.noted(self.server.sitting_submit(&next.submission)) {
                Ok(_) => {
                    self.state.verdicts_remove(next.id)?;
                    self.reread_judged(&next.submission);
                }
                // The server has decided: another judge has the cases, or the sitting has ended.
                Err(
                    error @ (StoreError::LeaseLost { .. }
                    | StoreError::Conflict(_)
                    | StoreError::NoRun { .. }
                    | StoreError::NoSitting { .. }
                    | StoreError::Corrupt { .. }
                    | StoreError::Invalid(_)),
                ) => self.state.verdicts_refuse(next.id, &error.to_string())?,
                // Anything else, such as missing rights, may be mended: they go on waiting.
                Err(error) => {
                    self.count_undelivered()?;
                    return Err(error);
                }
            }
        }
        if is_changed {
            self.count_undelivered()?;
        }
        Ok(())
    }

    fn count_undelivered(&self) -> Result<()> {
        let undelivered = self.state.verdicts_count(&self.place)?;
        let refused = self.state.verdicts_refused(&self.place)?;
        let mut status = lock(&self.status);
        status.undelivered = undelivered;
        status.refused = refused;
        Ok(())
    }

    fn reread_judged(&self, submission: &VerdictSubmission) {
        let runs = submission.files.iter().map(|(run_id, _)| run_id);
        let runs: BTreeSet<&String> = runs.filter(|it| *it != ANCHORS).collect();
        self.reread(&runs.into_iter().cloned().collect::<Vec<_>>());
        self.reread_sitting(&submission.sitting);
    }
}
