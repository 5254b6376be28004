//! Leases: which sitting may score which run.
//!
//! A lease is a write-once param `lease.TIER.SLOT.EPOCH = SITTING` on the run, and the highest
//! epoch of a slot names its owner. Taking a lease over means writing the next epoch, and only one
//! of two competing judges succeeds. There is a second slot if two judges are to score every case.
//! A scenario is leased as a whole: if another judge gets one of its runs, the leases on the others
//! are released.

use std::collections::{BTreeMap, HashSet};

use assize_domain::judge::Tier;
use assize_domain::sitting::{ANCHORS, SittingState};
use assize_domain::verdict::VerdictFile;
use assize_store::queue::{HeldRun, LeaseRequest, Leased, VerdictSubmission};
use assize_store::rules::{self, Changed};
use assize_store::{Committed, Leases, Result, StoreError};
use handler::LeaseHandler;

use crate::sittings::{key, lives_until, state_of};
use crate::verdicts::{Marks, counting, set_aside};
use crate::wire::Tracked;
use crate::{MlflowStore, parallel};
pub(crate) use handler::PendingCache;

mod handler;

/// The value in place of a sitting id when a lease has been released.
const RELEASED: &str = "-";

/// The latest owner of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub slot: u32,
    pub epoch: u32,
    pub sitting: String,
}

fn param_of(tier: Tier, slot: u32, epoch: u32) -> String {
    format!("lease.{tier}.{slot}.{epoch}")
}

/// The slots of a run, each with its latest owner.
pub(crate) fn leases(run: &Tracked, tier: Tier) -> Vec<Lease> {
    let start = format!("lease.{tier}.");
    let mut latest: BTreeMap<u32, Lease> = BTreeMap::new();
    for (name, sitting) in &run.params {
        let numbers = name
            .strip_prefix(&start)
            .and_then(|rest| rest.split_once('.'))
            .and_then(|(slot, epoch)| Some((slot.parse().ok()?, epoch.parse().ok()?)));
        let Some((slot, epoch)) = numbers else {
            continue;
        };
        if latest.get(&slot).is_none_or(|it| it.epoch < epoch) {
            let sitting = sitting.clone();
            latest.insert(
                slot,
                Lease {
                    slot,
                    epoch,
                    sitting,
                },
            );
        }
    }
    latest.into_values().collect()
}

fn holds(run: &Tracked, tier: Tier, sitting: &str) -> bool {
    leases(run, tier).iter().any(|it| it.sitting == sitting)
}

impl Leases for MlflowStore {
    fn lease_take(&self, request: &LeaseRequest) -> Result<Leased> {
        let run = self.open_sitting(&request.sitting)?;
        let sitting = self.sitting_read(&request.sitting, &run)?;
        self.leases_renew(&run, request.until_ms)?;
        let (mut live, mut ended) = (HashSet::new(), HashSet::new());
        for other in self.sitting_runs(&sitting.experiment)? {
            let id = other.tag(key::SITTING).unwrap_or_default().to_owned();
            let is_open = state_of(&id, &other)? == SittingState::Open;
            if is_open && lives_until(&other) > request.now_ms && id != sitting.id {
                live.insert(id);
            } else {
                ended.insert(id);
            }
        }
        LeaseHandler::new(self, &sitting, request, (live, ended)).handle()
    }

    fn lease_list(&self, sitting: &str) -> Result<Vec<HeldRun>> {
        let sitting_run = self.sitting_run_need(sitting)?;
        let sitting = self.sitting_read(sitting, &sitting_run)?;
        let id = self.experiment_need(&sitting.experiment)?;
        let mut runs = Vec::new();
        self.cells_each(&id, &mut |page| {
            let held = page.into_iter();
            runs.extend(held.filter(|run| holds(run, sitting.tier, &sitting.id)));
            Ok(true)
        })?;
        let marks = Marks::new(self);
        let held = parallel::each(&runs, |run| {
            let files = counting(self.verdicts_read(run, &marks)?, &set_aside(run));
            let pending = self.pending_read(run, sitting.tier, &files)?;
            let pending = pending.and_then(|it| rules::pending_for(it, &sitting, &files, &[]));
            let own = files.into_iter().filter(|file| file.sitting == sitting.id);
            // Later parts replace earlier ones.
            let own: BTreeMap<u32, _> = own
                .flat_map(|file| file.verdicts)
                .map(|verdict| (verdict.candidate, verdict))
                .collect();
            Ok(pending.map(|run| HeldRun {
                run,
                own: own.into_values().collect(),
            }))
        })?;
        Ok(held.into_iter().flatten().collect())
    }

    fn sitting_submit(&self, submission: &VerdictSubmission) -> Result<Committed> {
        let sitting_run = self.open_sitting(&submission.sitting)?;
        let sitting = self.sitting_read(&submission.sitting, &sitting_run)?;
        let of_runs: Vec<&(String, VerdictFile)> = submission
            .files
            .iter()
            .filter(|(run_id, _)| run_id != ANCHORS)
            .collect();
        let runs = parallel::each(&of_runs, |(run_id, _)| self.run_load(run_id))?;
        let lost: Vec<String> = runs
            .iter()
            .filter(|run| !holds(run, sitting.tier, &sitting.id))
            .map(|run| run.run_id.clone())
            .collect();
        if !lost.is_empty() {
            return Err(StoreError::LeaseLost {
                sitting: sitting.id.clone(),
                run_ids: lost,
            });
        }
        self.leases_renew(&sitting_run, submission.until_ms)?;
        let marks = Marks::new(self);
        for (_, file) in submission
            .files
            .iter()
            .filter(|(run_id, _)| run_id == ANCHORS)
        {
            self.anchors_write(file, Changed::Revise, None, &marks)?;
        }
        let files: Vec<(Tracked, &VerdictFile)> = runs
            .into_iter()
            .zip(of_runs.iter().map(|(_, file)| file))
            .collect();
        self.commit_parts(&files, &submission.rubric)
    }
}

impl MlflowStore {
    /// Releases all leases on this run.
    pub(crate) fn leases_end(&self, run: &Tracked) -> Result<()> {
        for tier in Tier::ALL {
            for lease in leases(run, tier).iter().filter(|it| it.sitting != RELEASED) {
                self.lease_release(&run.run_id, tier, lease)?;
            }
        }
        Ok(())
    }

    fn lease_release(&self, run_id: &str, tier: Tier, lease: &Lease) -> Result<()> {
        let name = param_of(tier, lease.slot, lease.epoch + 1);
        // If another sitting has taken the lease over, there is nothing to release.
        self.param_claim(run_id, &name, RELEASED).map(|_| ())
    }

    fn open_sitting(&self, id: &str) -> Result<Tracked> {
        let run = self.sitting_run_need(id)?;
        let state = state_of(id, &run)?;
        if state != SittingState::Open {
            let message = format!("sitting {id} is {state}: open a new one");
            return Err(StoreError::Conflict(message));
        }
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_highest_epoch_of_a_slot_tells_who_holds_it() {
        let run: Tracked = serde_json::from_value(json!({
            "info": {"run_id": "r"},
            "data": {"params": [{"key": "lease.expert.1.9", "value": "old"},
                                {"key": "lease.expert.1.10", "value": "new"},
                                {"key": "lease.expert.2.1", "value": RELEASED},
                                {"key": "lease.auto.1.1", "value": "other"},
                                {"key": "lease.expert.x", "value": "odd"}]},
        }))
        .unwrap();
        let found = leases(&run, Tier::Expert);
        let shown: Vec<_> = found
            .iter()
            .map(|it| (it.slot, it.epoch, it.sitting.as_str()))
            .collect();
        assert_eq!(shown, [(1, 10, "new"), (2, 1, RELEASED)]);
        assert!(holds(&run, Tier::Expert, "new") && !holds(&run, Tier::Expert, "old"));
    }
}
