//! An automatic judge: a model scores what the automatic tier has not seen.
//!
//! It goes run by run, so that it can be stopped anywhere and started again: every judged run
//! is committed, what could not be judged stays pending with its reason. A judge that holds
//! weights enters the same guard as a generating model.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use assize_domain::anchor::Anchors;
use assize_domain::candidate::Candidate;
use assize_domain::cell::candidate_seed;
use assize_domain::hash::hex;
use assize_domain::judge::{Judge, Tier};
use assize_domain::rubric::Rubric;
use assize_domain::sitting::{Sitting, case_id};
use assize_domain::verdict::{Verdict, VerdictFile};
use assize_providers::{Message, Provider, Request, Role, Sampling};
use assize_store::{PendingQuery, PendingRun, Tracking};
use serde_json::Value;

use super::export::{open_candidates, sitting_id};
use super::{Entropy, draw, prompt, rubric_of};
use crate::gate::Sized;
use crate::guard::{Guard, Place};
use crate::{PipelineError, Result};

/// What an automatic judge works with.
#[derive(Debug)]
pub struct AutoJudge<'a> {
    pub store: &'a dyn Tracking,
    pub experiment: &'a str,
    /// The judging model; admitted by the size gate where it holds weights here.
    pub model: &'a Sized,
    pub guard: &'a Guard,
    /// Requests in flight.
    pub jobs: u32,
    pub num_ctx: u32,
    pub max_tokens: u32,
    pub seed: u64,
    /// The current time as RFC 3339.
    pub now: fn() -> String,
    pub entropy: Entropy,
    pub stop: &'a AtomicBool,
}

/// How judging went.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct AutoSummary {
    /// Runs judged wholly now.
    pub judged: u64,
    /// Runs that stay pending, because of a candidate that could not be judged.
    pub left_pending: u64,
    /// Candidates scored now.
    pub verdicts: u64,
    /// The first few reasons why candidates could not be judged.
    pub reasons: Vec<String>,
    pub cost_usd: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// Called after each run: judged so far, runs in all.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

impl AutoJudge<'_> {
    /// Judges everything that the automatic tier has not seen.
    pub fn run(&self, progress: Progress<'_>) -> Result<AutoSummary> {
        let mut runs = Vec::new();
        let query = PendingQuery {
            tier: Tier::Auto,
            judge_kind: None,
        };
        self.store
            .pending_each(self.experiment, &query, &mut |run| {
                runs.push(run);
                Ok(())
            })?;
        // All arms of a scenario one after the other, so that a judge's drift hits all alike.
        runs.sort_by(|a, b| a.scenario.cmp(&b.scenario));
        let Some(first) = runs.first() else {
            return Ok(AutoSummary::default());
        };
        let rubric = rubric_of(self.store, &first.run_id, &first.rubric)?;
        // Runs under another rubric wait for a judge of theirs.
        let rubric_ref = first.rubric.clone();
        runs.retain(|run| run.rubric == rubric_ref);
        let now = (self.now)();
        let sitting = Sitting {
            id: sitting_id(&now, self.entropy)?,
            experiment: self.experiment.to_owned(),
            tier: Tier::Auto,
            rubric: rubric_ref,
            opened_at: now,
            seed: self.seed,
            salt: hex(&draw(self.entropy)?),
            runs: runs
                .iter()
                .map(|run| (run.run_id.clone(), open_candidates(run).collect()))
                .collect(),
            judge: None,
            copies: 1,
            anchors: Anchors::default(),
            inclusion: Vec::new(),
        };
        self.store.sitting_open(&sitting)?;
        let batch = runs
            .iter()
            .map(|run| run.candidates.len())
            .max()
            .unwrap_or(1);
        let place = Place {
            num_ctx: self.num_ctx,
            candidates: u32::try_from(batch).unwrap_or(u32::MAX),
            stopped: &|| self.stop.load(Ordering::Relaxed),
        };
        let (name, digest) = (&self.model.id.name, &self.model.info.digest);
        let provider = self.model.providers.first();
        let provider = provider
            .ok_or_else(|| PipelineError::Invalid(format!("nothing here can run {name}")))?;
        let tenancy = self.guard.enter(provider, name, digest, &place, || {})?;
        let bench = Bench {
            judge: self,
            provider: provider.as_ref(),
            rubric: &rubric,
            sitting: &sitting,
        };
        let result = bench.clear(runs, progress);
        tenancy.leave()?;
        result
    }
}

/// One sitting of an automatic judge.
struct Bench<'a> {
    judge: &'a AutoJudge<'a>,
    provider: &'a dyn Provider,
    rubric: &'a Rubric,
    sitting: &'a Sitting,
}

/// What became of one run.
struct Judged {
    run_id: String,
    verdicts: Vec<Verdict>,
    complete: bool,
    reason: Option<String>,
    cost_usd: f64,
}

impl Bench<'_> {
    fn clear(&self, runs: Vec<PendingRun>, progress: Progress<'_>) -> Result<AutoSummary> {
        let total = runs.len() as u64;
        let jobs = self.judge.jobs.max(1) as usize;
        let queue = Mutex::new(runs.into_iter());
        let (sender, receiver) = sync_channel::<Judged>(jobs * 2);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                let sender = sender.clone();
                let queue = &queue;
                scope.spawn(move || self.work(queue, &sender));
            }
            drop(sender);
            let result = self.commit(&receiver, total, progress);
            // Workers that still send are released by the closed channel.
            drop(receiver);
            result
        })
    }

    fn work(&self, queue: &Mutex<std::vec::IntoIter<PendingRun>>, sender: &SyncSender<Judged>) {
        while !self.judge.stop.load(Ordering::Relaxed) {
            let next = queue.lock().map(|mut queue| queue.next());
            let Ok(Some(run)) = next else {
                return;
            };
            if sender.send(self.judge_run(&run)).is_err() {
                return;
            }
        }
    }

    fn commit(
        &self,
        receiver: &Receiver<Judged>,
        total: u64,
        progress: Progress<'_>,
    ) -> Result<AutoSummary> {
        let mut summary = AutoSummary::default();
        while let Ok(judged) = receiver.recv() {
            summary.cost_usd += judged.cost_usd;
            summary.verdicts += judged.verdicts.len() as u64;
            if judged.complete {
                summary.judged += 1;
            } else {
                summary.left_pending += 1;
            }
            if let Some(reason) = judged.reason.filter(|_| summary.reasons.len() < 5) {
                summary.reasons.push(reason);
            }
            if !judged.verdicts.is_empty() {
                let kind = self.judge.model.id.to_string();
                let file = VerdictFile {
                    sitting: self.sitting.id.clone(),
                    tier: Tier::Auto,
                    judge: Judge {
                        name: kind.clone(),
                        kind,
                    },
                    rubric: self.sitting.rubric.clone(),
                    judged_at: (self.judge.now)(),
                    verdicts: judged.verdicts,
                };
                self.judge
                    .store
                    .sitting_commit(&[(judged.run_id, file)], self.rubric)?;
            }
            progress(summary.judged + summary.left_pending, total);
        }
        summary.interrupted = self.judge.stop.load(Ordering::Relaxed);
        Ok(summary)
    }

    fn judge_run(&self, run: &PendingRun) -> Judged {
        let context: Value = serde_json::from_str(&run.context).unwrap_or(Value::Null);
        let open: Vec<u32> = open_candidates(run).collect();
        let candidates: Vec<&Candidate> = run
            .candidates
            .iter()
            .filter(|it| open.contains(&it.index))
            .collect();
        let mut judged = Judged {
            run_id: run.run_id.clone(),
            verdicts: Vec::new(),
            complete: false,
            reason: None,
            cost_usd: 0.0,
        };
        let first = self.ask(
            &candidates,
            &context,
            &run.run_id,
            &BTreeMap::new(),
            &mut judged,
        );
        // One more try, with what was wrong.
        if !first.is_empty() {
            let again: Vec<&Candidate> = candidates
                .iter()
                .copied()
                .filter(|it| first.contains_key(&it.index))
                .collect();
            let left = self.ask(&again, &context, &run.run_id, &first, &mut judged);
            judged.reason = left.into_values().next();
        }
        judged.verdicts.sort_by_key(|verdict| verdict.candidate);
        judged.complete = judged.verdicts.len() == candidates.len();
        judged
    }

    /// Asks for verdicts on these candidates; answers what was wrong, by candidate.
    fn ask(
        &self,
        candidates: &[&Candidate],
        context: &Value,
        run_id: &str,
        earlier: &BTreeMap<u32, String>,
        judged: &mut Judged,
    ) -> BTreeMap<u32, String> {
        let checked: Vec<&String> = candidates
            .first()
            .map(|it| it.flags.keys().collect())
            .unwrap_or_default();
        let names = self.rubric.flags.iter().map(|flag| flag.name.as_str());
        let asked: Vec<&str> = names
            .filter(|name| !checked.iter().any(|known| known == name))
            .collect();
        let request = Request {
            prompt: "judge".to_owned(),
            scenario: "judge".to_owned(),
            candidates: candidates
                .iter()
                .map(|candidate| {
                    // Whoever wrote the candidate cannot know the sitting's salt.
                    let nonce = case_id(&self.sitting.salt, run_id, candidate.index);
                    let text = candidate.text.as_deref().unwrap_or_default();
                    let mut messages = prompt::messages(self.rubric, &asked, context, text, &nonce);
                    if let Some(error) = earlier.get(&candidate.index) {
                        messages.push(Message {
                            role: Role::User,
                            content: format!(
                                "Your last answer could not be used: {error}. Answer again."
                            ),
                        });
                    }
                    assize_providers::Candidate {
                        messages,
                        seed: candidate_seed(self.judge.seed, run_id, candidate.index),
                    }
                })
                .collect(),
            sampling: Sampling {
                temperature: 0.0,
                max_tokens: self.judge.max_tokens,
                num_ctx: self.judge.num_ctx,
                json_schema: Some(prompt::schema(self.rubric, &asked)),
            },
        };
        let answers = self.provider.generate(&self.judge.model.id.name, &request);
        let mut wrong = BTreeMap::new();
        for (candidate, answer) in candidates.iter().zip(answers) {
            let read = answer
                .map_err(|error| error.to_string())
                .and_then(|completion| {
                    judged.cost_usd += completion.cost_usd.unwrap_or(0.0);
                    prompt::read(
                        self.rubric,
                        &completion.text,
                        candidate.index,
                        &candidate.flags,
                    )
                });
            match read {
                Ok(verdict) => judged.verdicts.push(verdict),
                Err(error) => {
                    wrong.insert(candidate.index, error);
                }
            }
        }
        wrong
    }
}
