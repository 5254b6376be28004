//! The three phases of a group: base, fork, steps (see the parent module).

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;

use super::{Engine, Live};
use crate::prompt;

/// Where the shared base is decoded, and where it stays for the next request.
const BASE: usize = 0;

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
            let entries: Vec<_> = live
                .iter()
                .enumerate()
                .filter_map(|(sequence, candidate)| {
                    let (token, position) = candidate.next()?;
                    Some(Entry {
                        token,
                        position,
                        sequence,
                        logits: true,
                    })
                })
                .collect();
            self.decode(&entries, |model, context, entry, row| {
                live[entry].choose(model, context, row);
            })?;
            self.retire(&mut live, &mut finished)?;
        }
        Ok(finished)
    }

    /// Base and fork: decodes all prompts and chooses every candidate's first token.
    fn prefill(&mut self, prompts: &[&[LlamaToken]], live: &mut [Live]) -> Result<(), String> {
        let mut shared = prompt::shared_prefix(prompts);
        let identical = prompts.iter().all(|prompt| prompt.len() == shared);
        if !identical {
            // Every prompt keeps at least one token of its own, to have logits of its own.
            shared = prompts.iter().fold(shared, |s, p| s.min(p.len() - 1));
        }
        let base = &prompts[0][..shared];
        let kept = self.rewind(base, identical)?;
        let entries = entries(&base[kept..], kept, BASE, identical);
        self.decode(&entries, |model, context, _, row| {
            for candidate in live.iter_mut() {
                candidate.choose(model, context, row);
            }
        })?;
        self.held = base.to_vec();
        for sequence in 1..prompts.len() {
            self.copy(BASE, sequence)?;
        }
        if identical {
            return Ok(());
        }
        let rests: Vec<_> = prompts
            .iter()
            .enumerate()
            .flat_map(|(sequence, prompt)| self::entries(&prompt[shared..], shared, sequence, true))
            .collect();
        self.decode(&rests, |model, context, entry, row| {
            live[rests[entry].sequence].choose(model, context, row);
        })
    }

    /// Takes everything out of the cache that is not a prefix of `base`; returns how many of
    /// its tokens are left.
    fn rewind(&mut self, base: &[LlamaToken], needs_logits: bool) -> Result<usize, String> {
        for sequence in 1..self.shape.sequences as usize {
            self.clear(sequence, 0)?;
        }
        let mut kept = 0;
        if self.keep_prefix {
            kept = prompt::common_length(&self.held, base);
        }
        if needs_logits {
            kept = kept.min(base.len().saturating_sub(1));
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

    /// Decodes `entries` in batches; calls `chosen` with the entry's index and its row for
    /// every entry that wants logits.
    fn decode(
        &mut self,
        entries: &[Entry],
        mut chosen: impl FnMut(&LlamaModel, &LlamaContext<'_>, usize, i32),
    ) -> Result<(), String> {
        let capacity = self.context.n_batch() as usize;
        for (chunk_index, chunk) in entries.chunks(capacity).enumerate() {
            self.batch.clear();
            for entry in chunk {
                let (position, sequence) = (number(entry.position)?, number(entry.sequence)?);
                self.batch
                    .add(entry.token, position, &[sequence], entry.logits)
                    .map_err(|error| error.to_string())?;
            }
            self.context
                .decode(&mut self.batch)
                .map_err(|error| format!("llama.cpp could not decode a batch: {error}"))?;
            for (index, _) in chunk.iter().enumerate().filter(|(_, entry)| entry.logits) {
                let entry = chunk_index * capacity + index;
                chosen(self.model, &self.context, entry, number(index)?);
            }
        }
        Ok(())
    }

    /// Copies a whole sequence over an empty one.
    fn copy(&mut self, from: usize, to: usize) -> Result<(), String> {
        self.context
            .copy_kv_cache_seq(number(from)?, number(to)?, None, None)
            .map_err(|error| error.to_string())
    }

    /// Empties a sequence from `position` on; says whether the model can do that.
    fn clear(&mut self, sequence: usize, position: usize) -> Result<bool, String> {
        let sequence = u32::try_from(sequence).map_err(|error| error.to_string())?;
        let position = u32::try_from(position).map_err(|error| error.to_string())?;
        self.context
            .clear_kv_cache_seq(Some(sequence), Some(position), None)
            .map_err(|error| error.to_string())
    }
}

/// `tokens` at `position` and after in one sequence, with logits after the last if wanted.
fn entries(tokens: &[LlamaToken], position: usize, sequence: usize, logits: bool) -> Vec<Entry> {
    tokens
        .iter()
        .enumerate()
        .map(|(index, token)| Entry {
            token: *token,
            position: position + index,
            sequence,
            logits: logits && index + 1 == tokens.len(),
        })
        .collect()
}

fn number(value: usize) -> Result<i32, String> {
    i32::try_from(value).map_err(|error| error.to_string())
}
