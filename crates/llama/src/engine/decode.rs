//! The three phases of a group: base, fork, steps (see the parent module).
//!
//! How a prompt is split into batches matters for exactness: llama.cpp multiplies a single token
//! with another kernel, and other rounding, than two or more. So a part of a prompt is never one
//! token long ([`MIN_PART`]), and each prompt is decoded by itself, because llama.cpp would split
//! prompts of unequal lengths in one batch at other positions. Generated tokens are always single
//! in their sequence and therefore always use the same kernel.

use llama_cpp_2::token::LlamaToken;

use super::{Engine, Live};
use crate::prompt;

/// Where the shared base is decoded, and where it stays for the next request.
const BASE: usize = 0;
/// The fewest tokens of a prompt that are decoded at once.
const MIN_PART: usize = 2;

/// One token of a batch.
struct Entry {
    token: LlamaToken,
    position: usize,
    sequence: usize,
    /// Whether something is chosen from the logits after this token.
    logits: bool,
}

impl Engine<'_> {
    /// Decodes candidates whose prompts are `prompts` until all are done.
    pub(super) fn decode_group(
        &mut self,
        prompts: &[&[LlamaToken]],
        mut live: Vec<Live>,
    ) -> Result<Vec<Live>, String> {
        self.prefill(prompts, &mut live)?;
        let mut finished = Vec::new();
        self.retire(&mut live, &mut finished)?;
        while !live.is_empty() {
            let next = live.iter().enumerate().filter_map(|(sequence, candidate)| {
                let (token, position) = candidate.next()?;
                Some(Entry {
                    token,
                    position,
                    sequence,
                    logits: true,
                })
            });
            self.decode(next)?;
            for (row, candidate) in live.iter_mut().enumerate() {
                candidate.choose(self.model, &self.context, number(row)?);
            }
            self.retire(&mut live, &mut finished)?;
        }
        Ok(finished)
    }

    /// Base and fork: decodes all prompts and chooses every candidate's first token.
    fn prefill(&mut self, prompts: &[&[LlamaToken]], live: &mut [Live]) -> Result<(), String> {
        let mut shared = prompt::shared_prefix(prompts);
        let identical = prompts.iter().all(|prompt| prompt.len() == shared);
        if !identical {
            // Every prompt keeps a part of its own, to have logits of its own.
            shared = prompts
                .iter()
                .map(|prompt| prompt.len().saturating_sub(MIN_PART))
                .fold(shared, usize::min);
        }
        let base = &prompts[0][..shared];
        let kept = self.rewind(base, identical)?;
        let row = self.decode_part(&base[kept..], kept, BASE, identical)?;
        if identical {
            for candidate in live.iter_mut() {
                candidate.choose(self.model, &self.context, row);
            }
        }
        self.held = base.to_vec();
        for sequence in 1..prompts.len() {
            self.copy(BASE, sequence)?;
        }
        if !identical {
            for (sequence, prompt) in prompts.iter().enumerate() {
                let row = self.decode_part(&prompt[shared..], shared, sequence, true)?;
                live[sequence].choose(self.model, &self.context, row);
            }
        }
        Ok(())
    }

    /// Removes everything from the cache that is not a prefix of `base`; returns how many of its
    /// tokens remain.
    fn rewind(&mut self, base: &[LlamaToken], needs_logits: bool) -> Result<usize, String> {
        for sequence in 1..self.shape.sequences as usize {
            self.clear(sequence, 0)?;
        }
        let mut kept = 0;
        if self.keep_prefix {
            kept = prompt::common_length(&self.held, base);
        }
        if kept < base.len() || needs_logits {
            kept = kept.min(base.len().saturating_sub(MIN_PART));
        }
        // Recurrent models cannot go back to the middle of a sequence.
        if kept > 0 && !self.clear(BASE, kept)? {
            kept = 0;
        }
        if kept == 0 {
            self.clear(BASE, 0)?;
        }
        Ok(kept)
    }

    /// Moves finished candidates out of `live` and closes the gaps that they leave.
    fn retire(&mut self, live: &mut Vec<Live>, finished: &mut Vec<Live>) -> Result<(), String> {
        for sequence in (0..live.len()).rev() {
            if live[sequence].next().is_some() {
                continue;
            }
            finished.push(live.swap_remove(sequence));
            let last = live.len();
            if sequence < last {
                self.clear(sequence, 0)?;
                self.copy(last, sequence)?;
            }
            if last != BASE {
                self.clear(last, 0)?;
            }
        }
        Ok(())
    }

    /// Decodes a part of a prompt in as many batches as it takes; returns the row of its last
    /// token in the last of them.
    fn decode_part(
        &mut self,
        mut tokens: &[LlamaToken],
        mut position: usize,
        sequence: usize,
        logits: bool,
    ) -> Result<i32, String> {
        let capacity = self.context.n_batch() as usize;
        let mut row = 0;
        while !tokens.is_empty() {
            let (now, later) = tokens.split_at(batch_length(tokens.len(), capacity));
            self.decode(now.iter().enumerate().map(|(index, token)| Entry {
                token: *token,
                position: position + index,
                sequence,
                logits: logits && later.is_empty() && index + 1 == now.len(),
            }))?;
            row = now.len() - 1;
            position += now.len();
            tokens = later;
        }
        number(row)
    }

    /// Decodes one batch.
    fn decode(&mut self, entries: impl Iterator<Item = Entry>) -> Result<(), String> {
        self.batch.clear();
        for entry in entries {
            let (position, sequence) = (number(entry.position)?, number(entry.sequence)?);
            self.batch
                .add(entry.token, position, &[sequence], entry.logits)
                .map_err(|error| error.to_string())?;
        }
        self.context
            .decode(&mut self.batch)
            .map_err(|error| format!("llama.cpp could not decode a batch: {error}"))
    }

    /// Copies a whole sequence over an empty one.
    fn copy(&mut self, from: usize, to: usize) -> Result<(), String> {
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
