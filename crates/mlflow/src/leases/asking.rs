//! One request for cases: what waits, what is free, and taking it.
//!
//! Looking through all runs of a large experiment takes seconds, so what was seen is believed
//! for a while. The runs that are about to be leased are always looked at again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use assize_domain::run::{RunStatus, metric, param, tag};
use assize_domain::sitting::Sitting;
use assize_store::queue::{LeaseRequest, Leased};
use assize_store::rules::{self, open_cases};
use assize_store::{PendingRun, Result, StoreError};

use super::{Lease, holds, leases, param_of};
use crate::queue::{waits, whole};
use crate::verdicts::{Marks, counting, set_aside};
use crate::wire::Tracked;
use crate::{MlflowStore, lock, parallel};

/// How long what was seen is believed.
const FRESH: Duration = Duration::from_secs(15);

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
pub(super) struct Asking<'a> {
    store: &'a MlflowStore,
    sitting: &'a Sitting,
    request: &'a LeaseRequest,
    /// Other sittings that are open and were heard of.
    live: HashSet<String>,
    marks: Marks<'a>,
}

impl<'a> Asking<'a> {
    pub fn new(
        store: &'a MlflowStore,
        sitting: &'a Sitting,
        request: &'a LeaseRequest,
        live: HashSet<String>,
    ) -> Self {
        Self {
            store,
            sitting,
            request,
            live,
            marks: Marks::new(store),
        }
    }

    pub fn answer(&self) -> Result<Leased> {
        let (runs, is_fresh) = self.waiting()?;
        let leased = self.lease(runs)?;
        if is_fresh || self.request.cases == 0 || !leased.runs.is_empty() {
            return Ok(leased);
        }
        // What was seen may have been too old to find anything in it.
        self.forget();
        let (runs, _) = self.waiting()?;
        self.lease(runs)
    }

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
