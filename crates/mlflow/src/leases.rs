//! Leases: whose turn it is on which run.
//!
//! A lease is a write-once param `lease.TIER.SLOT.EPOCH = SITTING` on the run, and the highest
//! epoch of a slot tells who has it. Taking over means writing the next epoch, which only one
//! of two competing judges can. There is a second slot where two judges are to score every
//! case. A scenario is leased whole: where one of its runs is lost to somebody else, what was
//! won is released again.
//!
//! Looking through all runs of a large experiment takes seconds, so what was seen is believed
//! for a while. The runs that are about to be leased are always looked at again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use assize_domain::judge::Tier;
use assize_domain::run::{RunStatus, metric, param, tag};
use assize_domain::sitting::{ANCHORS, Sitting, SittingState};
use assize_domain::verdict::VerdictFile;
use assize_store::queue::{Handed, HeldRun, LeaseRequest, Leased};
use assize_store::rules::{self, Changed, open_cases};
use assize_store::{Committed, PendingRun, Result, StoreError};

use crate::pending::{waits, whole};
use crate::sittings::{key, lives_until, state_of};
use crate::verdicts::{Marks, counting, set_aside};
use crate::wire::Tracked;
use crate::{MlflowStore, lock, parallel};

/// How long what was seen is believed.
const FRESH: Duration = Duration::from_secs(15);
/// Stands in the place of a sitting where a lease was given back.
const NOBODY: &str = "-";

/// The latest holder of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lease {
    slot: u32,
    epoch: u32,
    sitting: String,
}

fn param_of(tier: Tier, slot: u32, epoch: u32) -> String {
    format!("lease.{tier}.{slot}.{epoch}")
}

/// The slots of a run, each with its latest holder.
fn leases(run: &Tracked, tier: Tier) -> Vec<Lease> {
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

/// What was seen of an experiment's runs.
#[derive(Debug)]
pub(crate) struct Seen {
    at: Instant,
    runs: Vec<Waiting>,
}

/// A run that may be waiting.
#[derive(Debug, Clone)]
struct Waiting {
    run_id: String,
    scenario: String,
    candidates: u64,
    holders: Vec<String>,
}

/// One request for cases.
struct Asking<'a> {
    store: &'a MlflowStore,
    sitting: &'a Sitting,
    request: &'a LeaseRequest,
    /// Other sittings that are open and were heard of.
    live: HashSet<String>,
    marks: Marks<'a>,
}

impl MlflowStore {
    /// Hands whole scenarios to a sitting.
    pub(crate) fn lease_scenarios(&self, request: &LeaseRequest) -> Result<Leased> {
        let run = self.open_sitting(&request.sitting)?;
        let sitting = self.sitting_read(&request.sitting, &run)?;
        self.heard_of(&run, request.until_ms)?;
        let mut live = HashSet::new();
        for other in self.sitting_runs(&sitting.experiment)? {
            let id = other.tag(key::SITTING).unwrap_or_default().to_owned();
            let is_open = state_of(&id, &other)? == SittingState::Open;
            if is_open && lives_until(&other) > request.now_ms && id != sitting.id {
                live.insert(id);
            }
        }
        let asking = Asking {
            store: self,
            sitting: &sitting,
            request,
            live,
            marks: Marks::new(self),
        };
        let (runs, is_fresh) = asking.waiting()?;
        let leased = asking.lease(runs)?;
        if is_fresh || request.cases == 0 || !leased.runs.is_empty() {
            return Ok(leased);
        }
        // What was seen may have been too old to find anything in it.
        asking.forget();
        let (runs, _) = asking.waiting()?;
        asking.lease(runs)
    }

    /// What a sitting holds, with what it has found.
    pub(crate) fn leases_of(&self, sitting: &str) -> Result<Vec<HeldRun>> {
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
            // Later parts speak louder.
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

    /// Writes verdicts of a sitting that still holds their runs.
    pub(crate) fn submit(&self, handed: &Handed) -> Result<Committed> {
        let sitting_run = self.open_sitting(&handed.sitting)?;
        let sitting = self.sitting_read(&handed.sitting, &sitting_run)?;
        let of_runs: Vec<&(String, VerdictFile)> = handed
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
        self.heard_of(&sitting_run, handed.until_ms)?;
        let marks = Marks::new(self);
        for (_, file) in handed.files.iter().filter(|(run_id, _)| run_id == ANCHORS) {
            self.anchors_write(file, Changed::Revise, None, &marks)?;
        }
        let files: Vec<(Tracked, &VerdictFile)> = runs
            .into_iter()
            .zip(of_runs.iter().map(|(_, file)| file))
            .collect();
        self.commit_parts(&files, &handed.rubric)
    }

    /// Nobody holds this run any more.
    pub(crate) fn leases_end(&self, run: &Tracked) -> Result<()> {
        for tier in Tier::ALL {
            for lease in leases(run, tier).iter().filter(|it| it.sitting != NOBODY) {
                self.lease_release(&run.run_id, tier, lease)?;
            }
        }
        Ok(())
    }

    fn lease_release(&self, run_id: &str, tier: Tier, lease: &Lease) -> Result<()> {
        let name = param_of(tier, lease.slot, lease.epoch + 1);
        // Where somebody has taken it over, there is nothing to give back.
        self.param_claim(run_id, &name, NOBODY).map(|_| ())
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

impl Asking<'_> {
    /// Runs that this tier may have to judge, oldest first, and whether they were looked at just
    /// now. Where several judges are to score a case, runs that one has judged may wait for
    /// another.
    fn waiting(&self) -> Result<(Vec<Waiting>, bool)> {
        let key = self.seen_key();
        if let Some(seen) = lock(&self.store.waiting).get(&key)
            && seen.at.elapsed() < FRESH
        {
            return Ok((seen.runs.clone(), false));
        }
        let experiment_id = self.store.experiment_need(&self.sitting.experiment)?;
        let tier = self.sitting.tier;
        let single = self.sitting.copies <= 1;
        let may_wait = |run: &Tracked| {
            if single {
                waits(run, tier)
            } else {
                run.status == RunStatus::Finished && run.tag(tag::JUDGE_PENDING).is_some()
            }
        };
        let mut runs = Vec::new();
        self.store.cells_each(&experiment_id, &mut |page| {
            runs.extend(page.iter().filter(|run| may_wait(run)).map(|run| Waiting {
                run_id: run.run_id.clone(),
                scenario: run.param(param::SCENARIO).unwrap_or_default().to_owned(),
                candidates: whole(run.metric(metric::N_CANDIDATES).or(Some(1.0))),
                holders: leases(run, tier).into_iter().map(|it| it.sitting).collect(),
            }));
            Ok(true)
        })?;
        let seen = Seen {
            at: Instant::now(),
            runs: runs.clone(),
        };
        lock(&self.store.waiting).insert(key, seen);
        Ok((runs, true))
    }

    fn seen_key(&self) -> String {
        let many = self.sitting.copies > 1;
        format!("{} {many} {}", self.sitting.tier, self.sitting.experiment)
    }

    fn forget(&self) {
        lock(&self.store.waiting).remove(&self.seen_key());
    }

    fn lease(&self, waiting: Vec<Waiting>) -> Result<Leased> {
        let mut leased = Leased::default();
        let mut cases = 0;
        for runs in by_scenario(waiting) {
            if self.is_taken(&runs) {
                continue;
            }
            // Looking closely is slow; once enough is found, counting by the books must do.
            if cases >= self.request.cases && self.sitting.copies <= 1 {
                let free = runs
                    .iter()
                    .filter(|run| !run.holders.contains(&self.sitting.id));
                leased.left += free.map(|run| run.candidates).sum::<u64>();
                continue;
            }
            let found = self.look(&runs)?;
            if cases >= self.request.cases {
                leased.left += found.iter().map(|it| open_cases(&it.1) as u64).sum::<u64>();
                continue;
            }
            if self.claim(&found)? {
                leased
                    .runs
                    .extend(found.into_iter().map(|(_, pending)| pending));
            }
            cases = leased.runs.iter().map(open_cases).sum();
        }
        Ok(leased)
    }

    /// Whether as many other live sittings hold runs of a scenario as are to score it.
    fn is_taken(&self, runs: &[Waiting]) -> bool {
        let holders: BTreeSet<&String> = runs
            .iter()
            .flat_map(|run| &run.holders)
            .filter(|id| self.live.contains(*id))
            .collect();
        holders.len() >= self.copies() as usize
    }

    fn copies(&self) -> u32 {
        self.sitting.copies.max(1)
    }

    /// Other live sittings that hold a run.
    fn others(&self, run: &Tracked) -> Vec<String> {
        let holders = leases(run, self.sitting.tier).into_iter();
        let holders = holders.map(|it| it.sitting);
        holders.filter(|id| self.live.contains(id)).collect()
    }

    /// The runs that hold something new for this judge, as they are now.
    fn look(&self, runs: &[Waiting]) -> Result<Vec<(Tracked, PendingRun)>> {
        let found = parallel::each(runs, |waiting| {
            let run = match self.store.run_load(&waiting.run_id) {
                Ok(run) => run,
                Err(StoreError::NoRun { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            if holds(&run, self.sitting.tier, &self.sitting.id) {
                return Ok(None);
            }
            let files = self.store.verdicts_read(&run, &self.marks)?;
            let files = counting(files, &set_aside(&run));
            let pending = self.store.pending_read(&run, self.sitting.tier, &files)?;
            let others = self.others(&run);
            let pending =
                pending.and_then(|it| rules::pending_for(it, self.sitting, &files, &others));
            let wanted = pending.filter(|pending| {
                let kind = &self.request.judge_kind;
                let on_desk = kind.as_ref().is_none_or(|kind| *kind == pending.judge_kind);
                on_desk && open_cases(pending) > 0
            });
            Ok(wanted.map(|pending| (run, pending)))
        })?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Takes all of these runs, or none where somebody was faster.
    fn claim(&self, found: &[(Tracked, PendingRun)]) -> Result<bool> {
        let won = parallel::each(found, |(run, _)| self.claim_run(run))?;
        if won.iter().all(Option::is_some) {
            self.note(found);
            return Ok(true);
        }
        for ((run, _), lease) in found.iter().zip(&won) {
            if let Some(lease) = lease {
                self.store
                    .lease_release(&run.run_id, self.sitting.tier, lease)?;
            }
        }
        self.forget();
        Ok(false)
    }

    /// Takes the first slot that no other live sitting has.
    fn claim_run(&self, run: &Tracked) -> Result<Option<Lease>> {
        let tier = self.sitting.tier;
        let known: HashMap<u32, Lease> = leases(run, tier)
            .into_iter()
            .map(|lease| (lease.slot, lease))
            .collect();
        for slot in 1..=self.copies() {
            let holder = known.get(&slot);
            if holder.is_some_and(|it| self.live.contains(&it.sitting)) {
                continue;
            }
            let lease = Lease {
                slot,
                epoch: holder.map_or(0, |it| it.epoch) + 1,
                sitting: self.sitting.id.clone(),
            };
            let name = param_of(tier, slot, lease.epoch);
            let won = self
                .store
                .param_claim(&run.run_id, &name, &self.sitting.id)?;
            return Ok(won.then_some(lease));
        }
        Ok(None)
    }

    /// Remembers who has these runs now.
    fn note(&self, found: &[(Tracked, PendingRun)]) {
        let taken: HashSet<&str> = found.iter().map(|(run, _)| run.run_id.as_str()).collect();
        if let Some(seen) = lock(&self.store.waiting).get_mut(&self.seen_key()) {
            let runs = seen.runs.iter_mut();
            for run in runs.filter(|run| taken.contains(run.run_id.as_str())) {
                run.holders.push(self.sitting.id.clone());
            }
        }
    }
}

/// The runs of each scenario, in the order of the scenarios' first runs.
fn by_scenario(waiting: Vec<Waiting>) -> Vec<Vec<Waiting>> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Vec<Waiting>> = Vec::new();
    for run in waiting {
        let place = *places.entry(run.scenario.clone()).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(run);
    }
    groups
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
                                {"key": "lease.expert.2.1", "value": NOBODY},
                                {"key": "lease.auto.1.1", "value": "other"},
                                {"key": "lease.expert.x", "value": "odd"}]},
        }))
        .unwrap();
        let found = leases(&run, Tier::Expert);
        let shown: Vec<_> = found
            .iter()
            .map(|it| (it.slot, it.epoch, it.sitting.as_str()))
            .collect();
        assert_eq!(shown, [(1, 10, "new"), (2, 1, NOBODY)]);
        assert!(holds(&run, Tier::Expert, "new") && !holds(&run, Tier::Expert, "old"));
    }
}
