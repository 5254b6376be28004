//! What the engine has done since its model was loaded; read while it works.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use assize_providers::Activity;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    prompt_tokens: AtomicU64,
    completion_tokens: AtomicU64,
    step_us: AtomicU64,
    live: AtomicU32,
    sequences: AtomicU32,
}

impl Counters {
    pub(crate) fn add_prompt(&self, tokens: usize) {
        self.prompt_tokens.fetch_add(tokens as u64, Relaxed);
    }

    pub(crate) fn add_completion(&self, tokens: u64) {
        self.completion_tokens.fetch_add(tokens, Relaxed);
    }

    pub(crate) fn add_step(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.step_us.fetch_add(us, Relaxed);
    }

    pub(crate) fn set_live(&self, candidates: usize) {
        self.live
            .store(u32::try_from(candidates).unwrap_or(u32::MAX), Relaxed);
    }

    pub(crate) fn set_sequences(&self, sequences: u32) {
        self.sequences.store(sequences, Relaxed);
    }

    pub(crate) fn activity(&self) -> Activity {
        Activity {
            prompt_tokens: self.prompt_tokens.load(Relaxed),
            completion_tokens: self.completion_tokens.load(Relaxed),
            step_s: self.step_us.load(Relaxed) as f64 / 1e6,
            in_batch: self.live.load(Relaxed),
            sequences: self.sequences.load(Relaxed),
        }
    }
}
