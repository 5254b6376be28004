//! An automatic judge: a model scores what the automatic tier has not seen.
//!
//! It takes whole scenarios from the queue like every other judge, keeps as many requests in
//! flight as configured, and submits every run's verdicts as soon as they are complete, so it
//! can be stopped anywhere and started again. What could not be judged stays pending with its
//! reason. A judge that holds weights enters the same guard as a generating model; one that
//! costs money never knowingly passes its cap ([`budget`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use assize_domain::anchor::Anchors;
use assize_domain::hash::hex;
use assize_domain::judge::{Judge, Tier, clean_version};
use assize_domain::model::ProviderKind;
use assize_domain::sitting::{Sitting, SittingState};
use assize_domain::verdict::Usage;
use assize_providers::{Activity, Provider};
use assize_store::Tracking;
use assize_store::queue::{Closing, LeaseRequest, Leased};

use super::drift::{self, Drift};
use super::export::sitting_id;
use super::{Entropy, check_asked, draw, rubric_of};
use crate::guard::{Guard, Place, Tenancy};
use crate::lock;
use crate::size_gate::SizedModel;
use crate::{Now, PipelineError, Result};
use budget::Budget;
pub use budget::Prices;
use scorer::Scorer;
use workers::Workers;

mod budget;
mod scorer;
mod workers;

/// How long a judge that sends nothing keeps its leases.
const LEASE_MS: i64 = 10 * 60 * 1000;

/// What an automatic judge works with.
#[derive(Debug)]
pub struct AutoJudge<'a> {
    pub store: &'a dyn Tracking,
    pub experiment: &'a str,
    /// The task's calibration cases, which are left out where the rubric is not theirs.
    pub anchors: Anchors,
    /// The judging model; admitted by the size gate where it holds weights here.
    pub model: &'a SizedModel,
    pub guard: &'a Guard,
    /// Requests in flight.
    pub jobs: u32,
    pub num_ctx: u32,
    pub max_tokens: u32,
    pub seed: u64,
    /// Cases to judge at most, rounded up to whole scenarios.
    pub limit: Option<usize>,
    /// The most that this sitting may cost, in US dollars.
    pub max_cost_usd: Option<f64>,
    /// What tokens cost, where the provider does not say.
    pub prices: Option<Prices>,
    pub now: fn() -> Now,
    pub entropy: Entropy,
    pub stop: &'a AtomicBool,
}

/// The result of a sitting.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct AutoSummary {
    /// The sitting's id; none where nothing waited.
    pub sitting: Option<String>,
    /// Runs judged wholly now.
    pub judged: u64,
    /// Runs that stay pending, because of a candidate that could not be judged.
    pub left_pending: u64,
    /// Candidates scored now.
    pub verdicts: u64,
    /// Requests that had to be sent a second time, because the answer could not be used.
    pub asked_again: u64,
    /// The first few reasons why candidates could not be judged.
    pub reasons: Vec<String>,
    #[serde(flatten)]
    pub usage: Usage,
    pub seconds: f64,
    /// The cap on spending ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cap_reached: bool,
    /// The judge failed so often in a row that going on made no sense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// What the calibration cases say about this sitting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
}

impl AutoSummary {
    /// Whether the judge has drifted, so that this sitting's verdicts do not count.
    pub fn is_quarantined(&self) -> bool {
        self.drift.is_some_and(|drift| drift.alarm)
    }
}

/// Progress of a sitting.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AutoProgress {
    /// Candidates.
    pub done: u64,
    pub total: u64,
    /// Of the candidates that are done.
    pub completion_tokens: u64,
    pub cost_usd: Option<f64>,
    /// What the judging engine has done, where it says.
    pub activity: Option<Activity>,
}

/// Called as verdicts arrive.
pub type Progress<'a> = &'a (dyn Fn(AutoProgress) + Sync);

impl AutoJudge<'_> {
    /// Judges everything that the automatic tier has not seen.
    pub fn run(&self, progress: Progress<'_>) -> Result<AutoSummary> {
        let uses = self.store.rubric_list(self.experiment)?;
        // One rubric a sitting: the newest that anything waits under.
        let Some(newest) = uses.into_iter().rev().find(|it| it.auto_pending > 0) else {
            return Ok(AutoSummary::default());
        };
        let rubric = rubric_of(self.store, &newest.run_id, &newest.rubric)?;
        check_asked(&rubric)?;
        let _turn = self.clear_stale()?;
        let now = (self.now)();
        let sitting = Sitting {
            id: sitting_id(&now.rfc3339, self.entropy)?,
            experiment: self.experiment.to_owned(),
            tier: Tier::Auto,
            anchors: self.anchors.clone().only_under(&newest.rubric.sha256),
            rubric: newest.rubric,
            opened_at: now.rfc3339,
            seed: self.seed,
            salt: hex(&draw(self.entropy)?),
            runs: Vec::new(),
            judge: Some(self.judge()),
            copies: 1,
            inclusion: Vec::new(),
        };
        self.store.sitting_open(&sitting)?;
        let summary = self.sit(&sitting, &rubric, progress);
        let (judge, at) = (self.judge(), (self.now)().rfc3339);
        let ended = drift::close(self.store, &sitting, &judge, &rubric, &at, true);
        let mut summary = summary?;
        summary.drift = ended?.drift;
        summary.sitting = Some(sitting.id);
        Ok(summary)
    }

    fn sit(
        &self,
        sitting: &Sitting,
        rubric: &assize_domain::rubric::Rubric,
        progress: Progress<'_>,
    ) -> Result<AutoSummary> {
        let first = self.lease(sitting, self.portion(0))?;
        if first.runs.is_empty() {
            return Ok(AutoSummary::default());
        }
        let provider = self.model.providers.first().ok_or_else(|| {
            PipelineError::Invalid(format!("no provider can run {}", self.model.id))
        })?;
        let tenancy = self.enter(provider)?;
        let is_free = matches!(
            self.model.id.provider,
            ProviderKind::Ollama | ProviderKind::Embedded
        );
        let charges = !is_free || self.prices.is_some();
        let scorer = Scorer {
            judge: self,
            provider: provider.as_ref(),
            rubric,
            sitting,
            budget: Budget::new(self.max_cost_usd.filter(|_| charges), self.prices),
        };
        let workers = Workers::new(self, &scorer);
        let result = workers.run(first, progress);
        tenancy.leave()?;
        result
    }

    fn enter(&self, provider: &Arc<dyn Provider>) -> Result<Tenancy> {
        let (name, digest) = (&self.model.id.name, &self.model.info.digest);
        let place = Place {
            num_ctx: self.num_ctx,
            candidates: 1,
            stopped: &|| self.stop.load(Ordering::Relaxed),
        };
        self.guard.enter(provider, name, digest, &place, |_| {})
    }

    fn judge(&self) -> Judge {
        let kind = self.model.id.to_string();
        Judge {
            name: kind.clone(),
            kind,
            version: clean_version(&self.model.info.digest),
        }
    }

    /// Requests in flight, of one case each: as many as the user said, and at least as many as keep
    /// an engine busy that decodes them as one batch.
    fn in_flight(&self) -> usize {
        let provider = self.model.providers.first();
        let wanted = provider.map_or(1, |it| it.requests_wanted(1));
        self.jobs.max(wanted).max(1) as usize
    }

    fn cases_at_once(&self) -> usize {
        (self.in_flight() * 4).max(64)
    }

    /// Cases up to the limit, where so many were taken.
    fn remaining(&self, taken: usize) -> usize {
        self.limit.map_or(usize::MAX, |it| it.saturating_sub(taken))
    }

    /// How many cases to take next.
    fn portion(&self, taken: usize) -> usize {
        self.cases_at_once().min(self.remaining(taken))
    }

    fn lease(&self, sitting: &Sitting, cases: usize) -> Result<Leased> {
        let now = (self.now)();
        Ok(self.store.lease_take(&LeaseRequest {
            sitting: sitting.id.clone(),
            judge_kind: None,
            cases,
            now_ms: now.ms,
            until_ms: now.ms.saturating_add(LEASE_MS),
        })?)
    }

    /// Closes the sittings of automatic judges that were killed on this machine, so that what
    /// they held waits again. Only one process can hold the lock; where another
    /// one does, its leases are respected and nothing is closed.
    fn clear_stale(&self) -> Result<Option<lock::Lock>> {
        let what = format!(
            "automatic judging in {} of {}",
            self.store.uri(),
            self.experiment
        );
        let held = match lock::acquire(&self.guard.locks, &what, &|| true, |_| {}) {
            Ok(held) => held,
            Err(PipelineError::Interrupted) => return Ok(None),
            Err(error) => return Err(error),
        };
        for record in self.store.sitting_list(self.experiment)? {
            let is_auto = record.sitting.tier == Tier::Auto && record.sitting.runs.is_empty();
            if is_auto && record.state == SittingState::Open {
                let closing = Closing {
                    state: SittingState::Closed,
                    at: (self.now)().rfc3339,
                    judge: None,
                    drift: None,
                };
                self.store.sitting_close(&record.sitting.id, &closing)?;
            }
        }
        Ok(Some(held))
    }
}
