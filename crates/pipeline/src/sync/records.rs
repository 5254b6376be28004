//! Sittings and promotion histories, which follow the runs.

use assize_domain::promotion::Promotion;
use assize_domain::sitting::Sitting;
use assize_store::import::plan::SittingPlan;
use assize_store::queue::SittingRecord;

use super::Copying;
use crate::{PipelineError, Result};

impl Copying<'_> {
    pub(super) fn sittings(&mut self, stopped: &dyn Fn() -> bool) -> Result<()> {
        let experiment = self.sync.experiment;
        let there = match self.sync.to {
            Some(to) if self.sync.dry_run => to.sitting_list(experiment)?,
            _ => Vec::new(),
        };
        for record in self.sync.from.sitting_list(experiment)? {
            if stopped() {
                return Err(PipelineError::Interrupted);
            }
            let changed = match self.sync.to {
                Some(to) if !self.sync.dry_run => to.sitting_import(&self.translated(record))?,
                _ => {
                    let mut there = there.iter();
                    let existing = there.find(|it| it.sitting.id == record.sitting.id);
                    !SittingPlan::new(existing, &record).is_empty()
                }
            };
            self.synced.sittings += u64::from(changed);
        }
        Ok(())
    }

    /// The record with the target's run ids. A sitting that took its cases from the queue names
    /// the runs that it judged, because its leases stay behind.
    fn translated(&self, record: SittingRecord) -> SittingRecord {
        let sitting = record.sitting;
        let mut runs: Vec<(String, Vec<u32>)> = sitting
            .runs
            .iter()
            .filter_map(|(run, cases)| Some((self.ids.get(run)?.clone(), cases.clone())))
            .collect();
        let judged = self
            .judged
            .iter()
            .filter(|(name, _)| is_of(name, &sitting.id));
        for run in judged.flat_map(|(_, runs)| runs) {
            if !runs.iter().any(|(known, _)| known == run) {
                runs.push((run.clone(), Vec::new()));
            }
        }
        let inclusion = sitting
            .inclusion
            .iter()
            .filter_map(|it| {
                let mut it = it.clone();
                it.run_id.clone_from(self.ids.get(&it.run_id)?);
                Some(it)
            })
            .collect();
        SittingRecord {
            sitting: Sitting {
                runs,
                inclusion,
                ..sitting
            },
            ..record
        }
    }

    pub(super) fn promotions(&mut self) -> Result<()> {
        let tasks = std::mem::take(&mut self.tasks);
        for task in tasks {
            let ours = self.sync.from.promotion_list(&task)?;
            let there = self.sync.to.map(|to| to.promotion_list(&task));
            let there = there.transpose()?.unwrap_or_default();
            if ours.iter().zip(&there).any(|(a, b)| !is_same(a, b)) {
                self.synced.different_histories.push(task);
                continue;
            }
            for promotion in ours.iter().skip(there.len()) {
                if let (false, Some(to)) = (self.sync.dry_run, self.sync.to) {
                    to.promotion_record(promotion)?;
                }
                self.synced.promotions += 1;
            }
        }
        Ok(())
    }
}

/// Whether a verdict file of this name is a sitting's: `SITTING.json` or `SITTING.2.json`.
fn is_of(name: &str, sitting: &str) -> bool {
    let rest = name.strip_prefix(sitting);
    let part = rest.and_then(|rest| rest.strip_suffix(".json"));
    part.is_some_and(|part| {
        part.is_empty()
            || part
                .strip_prefix('.')
                .is_some_and(|number| number.parse::<u32>().is_ok())
    })
}

/// Versions are the registry's own numbers.
fn is_same(a: &Promotion, b: &Promotion) -> bool {
    let version = a.version;
    let b = Promotion {
        version,
        ..b.clone()
    };
    *a == b
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn a_sitting_s_files_are_its_own() {
        assert!(is_of("s-1.json", "s-1"));
        assert!(is_of("s-1.2.json", "s-1"));
        assert!(!is_of("s-12.json", "s-1"));
        assert!(!is_of("s-1.x.json", "s-1"));
        assert!(!is_of("s-1", "s-1"));
    }
}
