//! Handles one request for cases: finds pending runs without a live lease, and leases them.
//!
//! Reading all runs of a large experiment takes seconds, so the list of pending runs is cached for
//! a short time. The runs that are about to be leased are always read again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use assize_domain::run::{RunStatus, metric, param, tag};
use assize_domain::sitting::{Sitting, SittingState};
use assize_store::queue::{LeaseRequest, Leased, TrackedPair};
use assize_store::rules::{self, PendingPlace, open_cases, pair_number};
use assize_store::{PendingRun, Result, RunQuery, Runs as _, StoreError};

use super::{Lease, RELEASED, holds, leases, param_of};
use crate::queue::{is_finished, split_of, tracked_pair, waits, whole};
use crate::sittings::{lives_until, state_of};
use crate::verdicts::{Marks, counting, set_aside};
use crate::wire::Tracked;
use crate::{MlflowStore, lock, parallel};

/// How long the list of pending runs is cached.
const CACHE_TTL: Duration = Duration::from_secs(15);

/// The cached list of an experiment's pending runs.
#[derive(Debug)]
pub(crate) struct PendingCache {
    at: Instant,
    runs: Vec<Waiting>,
    /// All pairs of the experiment, judged ones too.
    pairs: Vec<TrackedPair>,
}

/// A run that may be pending.
#[derive(Debug, Clone)]
struct Waiting {
    run_id: String,
    scenario: String,
    candidates: u64,
    holders: Vec<String>,
    split: String,
    judge_kind: String,
    rubric_sha256: String,
    pair: u64,
}

/// A run that may be pending, with its pair if it is for the sitting.
struct Candidate {
    run: Waiting,
    pair: Option<u64>,
}

impl PendingPlace for Candidate {
    fn scenario(&self) -> &str {
        &self.run.scenario
    }

    fn split(&self) -> &str {
        &self.run.split
    }

    fn pair(&self) -> Option<u64> {
        self.pair
    }
}

/// One request for cases.
pub(super) struct LeaseHandler<'a> {
    store: &'a MlflowStore,
    sitting: &'a Sitting,
    request: &'a LeaseRequest,
    /// Other open sittings whose leases have not expired.
    live: HashSet<String>,
    /// Sittings that have ended or expired, and this one.
    ended: HashSet<String>,
    marks: Marks<'a>,
}

impl<'a> LeaseHandler<'a> {
    pub fn new(
        store: &'a MlflowStore,
        sitting: &'a Sitting,
        request: &'a LeaseRequest,
        (live, ended): (HashSet<String>, HashSet<String>),
    ) -> Self {
        Self {
            store,
            sitting,
            request,
            live,
            ended,
            marks: Marks::new(store),
        }
    }

    pub fn handle(&self) -> Result<Leased> {
        let (runs, is_fresh) = self.waiting()?;
        let leased = self.lease(runs)?;
        if is_fresh || self.request.cases == 0 || !leased.runs.is_empty() {
            return Ok(leased);
        }
        // The cached list may have been out of date.
        self.invalidate();
        let (runs, _) = self.waiting()?;
        self.lease(runs)
    }

    /// Runs that this tier may have to judge, oldest first, and whether the list was read just now.
    /// If several judges are to score a case, a run that one has judged may be pending for another.
    fn waiting(&self) -> Result<(Vec<Waiting>, bool)> {
        let key = self.cache_key();
        if let Some(seen) = lock(&self.store.waiting).get(&key)
            && seen.at.elapsed() < CACHE_TTL
        {
            return Ok((seen.runs.clone(), false));
        }
        let tier = self.sitting.tier;
        let single = self.sitting.copies <= 1;
        let may_wait = |run: &Tracked| {
            if single {
                waits(run, tier)
            } else {
                run.status == RunStatus::Finished && run.tag(tag::JUDGE_PENDING).is_some()
            }
        };
        let (mut runs, mut pairs) = (Vec::new(), BTreeSet::new());
        self.cells_each(&mut |page| {
            let finished = page.iter().filter(|run| is_finished(run));
            pairs.extend(finished.map(tracked_pair));
            runs.extend(page.iter().filter(|run| may_wait(run)).map(|run| Waiting {
                run_id: run.run_id.clone(),
                scenario: run.param(param::SCENARIO).unwrap_or_default().to_owned(),
                candidates: whole(run.metric(metric::N_CANDIDATES).or(Some(1.0))),
                holders: leases(run, tier).into_iter().map(|it| it.sitting).collect(),
                split: split_of(run),
                judge_kind: run.tag(tag::JUDGE_KIND).unwrap_or_default().to_owned(),
                rubric_sha256: run.tag(tag::RUBRIC_SHA256).unwrap_or_default().to_owned(),
                pair: pair_number(tracked_pair(run)),
            }));
            Ok(true)
        })?;
        let seen = PendingCache {
            at: Instant::now(),
            runs: runs.clone(),
            pairs: pairs.into_iter().collect(),
        };
        lock(&self.store.waiting).insert(key, seen);
        Ok((runs, true))
    }

    /// Visits the cells of the experiment, in the copy on this machine if there is one. What the
    /// copy says may be some seconds old, but runs are read again before they are leased.
    fn cells_each(&self, visit: &mut dyn FnMut(Vec<Tracked>) -> Result<bool>) -> Result<()> {
        let experiment = &self.sitting.experiment;
        let copy = lock(&self.store.copy).clone();
        let Some(copy) = copy else {
            let id = self.store.experiment_need(experiment)?;
            return self.store.cells_each(&id, visit);
        };
        let tier = self.sitting.tier;
        let holders = copy.mirror_lease_holders(experiment, tier)?;
        let finished = RunQuery {
            status: Some(RunStatus::Finished),
            ..RunQuery::default()
        };
        let runs = copy.run_list(experiment, &finished)?.runs.into_iter();
        let runs = runs.map(|run| {
            let mut run = Tracked::from(run);
            let holders = holders.get(&run.run_id).into_iter().flatten();
            for (slot, sitting) in (1..).zip(holders) {
                run.params.insert(param_of(tier, slot, 1), sitting.clone());
            }
            run
        });
        visit(runs.collect())?;
        Ok(())
    }

    fn cache_key(&self) -> String {
        let many = self.sitting.copies > 1;
        format!("{} {many} {}", self.sitting.tier, self.sitting.experiment)
    }

    fn invalidate(&self) {
        lock(&self.store.waiting).remove(&self.cache_key());
    }

    fn lease(&self, waiting: Vec<Waiting>) -> Result<Leased> {
        let mut leased = Leased::default();
        let mut cases = 0;
        for runs in self.by_scenario(waiting)? {
            if self.is_taken(&runs) {
                continue;
            }
            // Reading the runs is slow. Once enough cases are found, the rest is counted from the
            // list.
            if cases >= self.request.cases && self.sitting.copies <= 1 {
                let free = runs
                    .iter()
                    .filter(|run| !run.holders.contains(&self.sitting.id));
                leased.left += free.map(|run| run.candidates).sum::<u64>();
                continue;
            }
            let found = self.load(&runs)?;
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

    /// The runs by scenario, in the order in which scenarios are handed out.
    fn by_scenario(&self, waiting: Vec<Waiting>) -> Result<Vec<Vec<Waiting>>> {
        let kind = self.request.judge_kind.as_ref();
        let candidates = waiting.into_iter().map(|run| {
            let is_under = run.rubric_sha256 == self.sitting.rubric.sha256;
            let is_for_kind = kind.is_none_or(|it| *it == run.judge_kind);
            Candidate {
                pair: Some(run.pair).filter(|_| is_under && is_for_kind),
                run,
            }
        });
        let count_pairs = || {
            let cache = lock(&self.store.waiting);
            let seen = cache.get(&self.cache_key());
            let pairs = seen.map_or(&[][..], |it| &it.pairs);
            Ok(rules::pair_counts(pairs, &self.sitting.rubric.sha256))
        };
        let groups = rules::by_scenario(candidates.collect(), count_pairs)?;
        let runs = |group: Vec<Candidate>| group.into_iter().map(|it| it.run).collect();
        Ok(groups.into_iter().map(runs).collect())
    }

    /// Whether the scenario is already leased to as many other live sittings as are to score it.
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

    /// Whether another sitting that holds a lease is live. A sitting that was opened after the list
    /// of sittings was read is read now, because its lease must not be taken over.
    fn is_live(&self, id: &str) -> Result<bool> {
        if self.live.contains(id) {
            return Ok(true);
        }
        if id == RELEASED || self.ended.contains(id) || id == self.sitting.id {
            return Ok(false);
        }
        let Some(run) = self.store.sitting_run(id)? else {
            return Ok(false);
        };
        let is_open = state_of(id, &run)? == SittingState::Open;
        Ok(is_open && lives_until(&run) > self.request.now_ms)
    }

    /// Other live sittings that hold a lease on a run.
    fn others(&self, run: &Tracked) -> Result<Vec<String>> {
        let mut others = Vec::new();
        for lease in leases(run, self.sitting.tier) {
            if self.is_live(&lease.sitting)? {
                others.push(lease.sitting);
            }
        }
        Ok(others)
    }

    /// The runs that have new cases for this judge, read again from the server.
    fn load(&self, runs: &[Waiting]) -> Result<Vec<(Tracked, PendingRun)>> {
        let found = parallel::each(runs, |waiting| {
            let run = match self.store.run_load(&waiting.run_id) {
                Ok(run) => run,
                // A run that cannot be read must not keep the others from being judged.
                Err(StoreError::NoRun { .. } | StoreError::Corrupt { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            if holds(&run, self.sitting.tier, &self.sitting.id) {
                return Ok(None);
            }
            let files = self.store.verdicts_read(&run, &self.marks)?;
            let files = counting(files, &set_aside(&run));
            let pending = self.store.pending_read(&run, self.sitting.tier, &files)?;
            let others = self.others(&run)?;
            let pending =
                pending.and_then(|it| rules::pending_for(it, self.sitting, &files, &others));
            let wanted = pending.filter(|pending| {
                let kind = &self.request.judge_kind;
                let matches_kind = kind.as_ref().is_none_or(|kind| *kind == pending.judge_kind);
                matches_kind && open_cases(pending) > 0
            });
            Ok(wanted.map(|pending| (run, pending)))
        })?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Leases all of these runs, or none if another judge got one of them first.
    fn claim(&self, found: &[(Tracked, PendingRun)]) -> Result<bool> {
        let won = parallel::each(found, |(run, _)| self.claim_run(run))?;
        if won.iter().all(Option::is_some) {
            self.cache_update(found);
            return Ok(true);
        }
        for ((run, _), lease) in found.iter().zip(&won) {
            if let Some(lease) = lease {
                self.store
                    .lease_release(&run.run_id, self.sitting.tier, lease)?;
            }
        }
        self.invalidate();
        Ok(false)
    }

    /// Takes the first slot that no other live sitting holds.
    fn claim_run(&self, run: &Tracked) -> Result<Option<Lease>> {
        let tier = self.sitting.tier;
        let known: HashMap<u32, Lease> = leases(run, tier)
            .into_iter()
            .map(|lease| (lease.slot, lease))
            .collect();
        for slot in 1..=self.copies() {
            let holder = known.get(&slot);
            if let Some(lease) = holder
                && self.is_live(&lease.sitting)?
            {
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

    /// Adds this sitting to the cached holders of these runs.
    fn cache_update(&self, found: &[(Tracked, PendingRun)]) {
        let taken: HashSet<&str> = found.iter().map(|(run, _)| run.run_id.as_str()).collect();
        if let Some(seen) = lock(&self.store.waiting).get_mut(&self.cache_key()) {
            let runs = seen.runs.iter_mut();
            for run in runs.filter(|run| taken.contains(run.run_id.as_str())) {
                run.holders.push(self.sitting.id.clone());
            }
        }
    }
}
