//! llama.cpp's context: what each sequence of the cache holds, and how prompts get there.
//!
//! How a prompt is split into batches matters for exactness: llama.cpp multiplies a single token
//! with another kernel, and other rounding, than two or more. So a part of a prompt is never one
//! token long ([`MIN_PART`]), and each prompt is decoded by itself, because llama.cpp would split
//! prompts of unequal lengths in one batch at other positions. Generated tokens are always single
//! in their sequence and therefore always use the same kernel.

use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;

use super::Settings;
use crate::counters::Counters;
use crate::memory::{BATCH_TOKENS, Shape};
use crate::prompt::common_length;
use crate::sys;
use crate::threads::Threads;

/// The fewest tokens of a prompt that are decoded at once.
const MIN_PART: usize = 2;
/// In exact mode a copy moves a whole sequence, which must save decoding so many tokens to be worth
/// its time.
const COPY_GAIN: usize = 8;

/// One token of a batch.
pub(super) struct Entry {
    pub(super) token: LlamaToken,
    pub(super) position: usize,
    pub(super) sequence: usize,
    /// Whether something is chosen from the logits after this token.
    pub(super) logits: bool,
}

/// A context, and the prompt that each sequence begins with.
#[derive(Debug)]
pub(super) struct Cache<'model> {
    context: LlamaContext<'model>,
    batch: LlamaBatch<'static>,
    shape: Shape,
    keep_prefix: bool,
    threads: i32,
    counters: Arc<Counters>,
    /// By sequence: prompt tokens whose cache is known to be there. What was generated after them
    /// may follow.
    held: Vec<Rc<[LlamaToken]>>,
}

impl<'model> Cache<'model> {
    pub(super) fn new(
        model: &'model LlamaModel,
        shape: Shape,
        settings: &Settings,
        threads: i32,
        counters: Arc<Counters>,
    ) -> Result<Self, String> {
        let backend = sys::backend()
            .ok_or("llama.cpp was already initialised by other code in this process")?;
        let total = u32::try_from(shape.total_tokens())
            .map_err(|_| "the context is too large: lower --num-ctx".to_owned())?;
        let batch_tokens = BATCH_TOKENS.max(shape.sequences);
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(total))
            .with_n_seq_max(shape.sequences)
            .with_n_batch(batch_tokens)
            .with_n_ubatch(batch_tokens)
            .with_n_threads(threads)
            .with_n_threads_batch(threads)
            .with_swa_full(true)
            .with_offload_kqv(settings.fast)
            .with_op_offload(settings.fast)
            .with_kv_unified(settings.fast)
            .with_flash_attention_policy(if settings.fast {
                llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_AUTO
            } else {
                llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_DISABLED
            });
        let context = model
            .new_context(backend, params)
            .map_err(|_| "llama.cpp could not create a context: lower --num-ctx".to_owned())?;
        Ok(Self {
            context,
            batch: LlamaBatch::new(batch_tokens as usize, 1),
            shape,
            keep_prefix: settings.keep_prefix,
            threads,
            counters,
            held: (0..shape.sequences).map(|_| Rc::from([])).collect(),
        })
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Of these sequences the one that holds most of `prompt`.
    pub(super) fn nearest(
        &self,
        sequences: impl Iterator<Item = usize>,
        prompt: &[LlamaToken],
    ) -> Option<usize> {
        // The first of several that hold as much: `max_by_key` would take the last.
        sequences.min_by_key(|it| usize::MAX - common_length(&self.held[*it], prompt))
    }

    /// Brings `prompt` into a sequence, where nobody else is; returns the row of the logits after it,
    /// where they are asked for.
    pub(super) fn hold(
        &mut self,
        sequence: usize,
        prompt: &Rc<[LlamaToken]>,
        needs_logits: bool,
        threads: &mut Threads,
    ) -> Result<Option<usize>, String> {
        let kept = self.reuse(sequence, prompt, needs_logits)?;
        // Until it is decoded, nothing is known of what follows.
        self.held[sequence] = Rc::from([]);
        let row = self.decode_part(&prompt[kept..], kept, sequence, needs_logits, threads)?;
        self.held[sequence] = Rc::clone(prompt);
        Ok(needs_logits.then_some(row))
    }

    /// Leaves nothing in the sequence but a prefix of `prompt`, from the sequence that holds most of
    /// it; returns how long the prefix is.
    fn reuse(
        &mut self,
        sequence: usize,
        prompt: &[LlamaToken],
        needs_logits: bool,
    ) -> Result<usize, String> {
        let usable = |held: &[LlamaToken]| {
            let common = common_length(held, prompt);
            if common < prompt.len() || needs_logits {
                common.min(prompt.len().saturating_sub(MIN_PART))
            } else {
                common
            }
        };
        let mut kept = 0;
        if self.keep_prefix {
            kept = usable(&self.held[sequence]);
            let others = (0..self.held.len()).filter(|it| *it != sequence);
            let best = others.max_by_key(|it| usable(&self.held[*it]));
            if let Some(best) = best
                && usable(&self.held[best]) >= kept + COPY_GAIN
            {
                kept = usable(&self.held[best]);
                self.copy(best, sequence)?;
            }
        }
        // Recurrent models cannot go back to the middle of a sequence.
        if kept == 0 || !self.clear(sequence, kept)? {
            self.clear(sequence, 0)?;
            kept = 0;
        }
        Ok(kept)
    }

    /// Moves what a sequence holds to another one, where nobody is.
    pub(super) fn relocate(&mut self, from: usize, to: usize) -> Result<(), String> {
        self.copy(from, to)?;
        self.held[to] = Rc::clone(&self.held[from]);
        Ok(())
    }

    /// The logits of a row of the last batch.
    pub(super) fn logits(&self, row: usize) -> &[f32] {
        let row = i32::try_from(row).unwrap_or(i32::MAX);
        self.context.get_logits_ith(row)
    }

    /// Decodes a part of a prompt in as many batches as it takes; returns the row of its last
    /// token in the last of them.
    fn decode_part(
        &mut self,
        mut tokens: &[LlamaToken],
        mut position: usize,
        sequence: usize,
        logits: bool,
        threads: &mut Threads,
    ) -> Result<usize, String> {
        let capacity = self.context.n_batch() as usize;
        let mut row = 0;
        while !tokens.is_empty() {
            let (now, later) = tokens.split_at(batch_length(tokens.len(), capacity));
            let entries = now.iter().enumerate().map(|(index, token)| Entry {
                token: *token,
                position: position + index,
                sequence,
                logits: logits && later.is_empty() && index + 1 == now.len(),
            });
            let entries: Vec<Entry> = entries.collect();
            self.decode(&entries, threads)?;
            self.counters.add_prompt(now.len());
            row = now.len() - 1;
            position += now.len();
            tokens = later;
        }
        Ok(row)
    }

    /// Decodes one batch, with as many threads as are free.
    pub(super) fn decode(
        &mut self,
        entries: &[Entry],
        threads: &mut Threads,
    ) -> Result<(), String> {
        self.batch.clear();
        for entry in entries {
            let (position, sequence) = (number(entry.position)?, number(entry.sequence)?);
            self.batch
                .add(entry.token, position, &[sequence], entry.logits)
                .map_err(|error| error.to_string())?;
        }
        threads.look();
        if self.threads != threads.now() {
            self.threads = threads.now();
            sys::set_threads(&mut self.context, self.threads);
        }
        let began = Instant::now();
        self.context
            .decode(&mut self.batch)
            .map_err(|error| format!("llama.cpp could not decode a batch: {error}"))?;
        threads.observe(entries.len(), began.elapsed());
        Ok(())
    }

    /// Copies a whole sequence over another one.
    fn copy(&mut self, from: usize, to: usize) -> Result<(), String> {
        self.clear(to, 0)?;
        self.context
            .copy_kv_cache_seq(number(from)?, number(to)?, None, None)
            .map_err(|error| error.to_string())
    }

    /// Clears a sequence from `position` on; returns whether the model supports that.
    fn clear(&mut self, sequence: usize, position: usize) -> Result<bool, String> {
        let sequence = u32::try_from(sequence).map_err(|error| error.to_string())?;
        let position = u32::try_from(position).map_err(|error| error.to_string())?;
        self.context
            .clear_kv_cache_seq(Some(sequence), Some(position), None)
            .map_err(|error| error.to_string())
    }
}

/// How many of `tokens` go into the next batch, so that the last one is not too short.
fn batch_length(tokens: usize, capacity: usize) -> usize {
    if tokens <= capacity {
        tokens
    } else if tokens - capacity < MIN_PART {
        capacity - MIN_PART
    } else {
        capacity
    }
}

fn number(value: usize) -> Result<i32, String> {
    i32::try_from(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::batch_length;

    #[test]
    fn no_batch_of_a_prompt_is_a_single_token() {
        assert_eq!(batch_length(300, 512), 300);
        assert_eq!(batch_length(512, 512), 512);
        assert_eq!(batch_length(513, 512), 510);
        assert_eq!(batch_length(514, 512), 512);
        assert_eq!(batch_length(2000, 512), 512);
    }
}
