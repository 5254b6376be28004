//! One model's context: decodes the candidates of a request as one batch.
//!
//! Three phases for each group of candidates that fits into the context's sequences:
//!
//! 1. **Base.** The tokens that all their prompts share are decoded once, into sequence 0.
//!    What sequence 0 still holds from the previous request (the same prompt version with
//!    another scenario, the same rubric with another case) is kept and not decoded again.
//! 2. **Fork.** The cache is copied to one sequence for each candidate, and what is left of
//!    each prompt is decoded there.
//! 3. **Steps.** One token of every unfinished candidate makes a batch, until all are done.
//!    llama.cpp computes a batch at once only while its sequences are numbered without gaps,
//!    so the last sequence moves into the place of one that finished.
//!
//! In exact mode each sequence has its own cache and flash attention is off. Every sum is then
//! taken in the same order whatever else is in the batch, and a seed gives the same text alone,
//! in a batch, and with or without a cached prefix. This holds for weight formats whose products
//! are rounded in the same way for one token and for many ([`crate::sys::Reproducibility`]); the
//! provenance records whether it does. docs/design/exact-sampling.md gives the reasons.

use std::num::NonZeroU32;
use std::time::Instant;

use assize_providers::{Completion, Request, Sampling};
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::{LlamaChatTemplate, LlamaModel};
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;

use crate::memory::{BATCH_TOKENS, Shape};
use crate::prompt;
use crate::sampler::{self, Sampler};

mod candidate;
mod decode;

use candidate::Live;

/// How an engine computes; constant while a model is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub threads: i32,
    pub fast: bool,
    pub keep_prefix: bool,
}

/// A context of a loaded model.
#[derive(Debug)]
pub(crate) struct Engine<'model> {
    model: &'model LlamaModel,
    template: &'model LlamaChatTemplate,
    context: LlamaContext<'model>,
    batch: LlamaBatch<'static>,
    shape: Shape,
    keep_prefix: bool,
    /// The prompt tokens whose cache is known to be in sequence 0.
    held: Vec<LlamaToken>,
}

/// One candidate of a group.
struct Member<'a> {
    seed: u32,
    prompt: &'a [LlamaToken],
}

impl<'model> Engine<'model> {
    pub(crate) fn new(
        model: &'model LlamaModel,
        template: &'model LlamaChatTemplate,
        shape: Shape,
        settings: Settings,
    ) -> Result<Self, String> {
        let backend = crate::sys::backend()
            .ok_or("llama.cpp was already initialised by other code in this process")?;
        let total = u32::try_from(shape.total_tokens())
            .map_err(|_| "the context is too large: lower --num-ctx".to_owned())?;
        let batch_tokens = BATCH_TOKENS.max(shape.sequences);
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(total))
            .with_n_seq_max(shape.sequences)
            .with_n_batch(batch_tokens)
            .with_n_ubatch(batch_tokens)
            .with_n_threads(settings.threads)
            .with_n_threads_batch(settings.threads)
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
            model,
            template,
            context,
            batch: LlamaBatch::new(batch_tokens as usize, 1),
            shape,
            keep_prefix: settings.keep_prefix,
            held: Vec::new(),
        })
    }

    /// Generates every candidate, or the error message of each that failed.
    pub(crate) fn generate(&mut self, request: &Request) -> Vec<Result<Completion, String>> {
        let grammar = request.sampling.json_schema.as_ref();
        let grammar = match grammar.map(|schema| sampler::grammar(self.model, schema)) {
            None => None,
            Some(Ok(grammar)) => Some(grammar),
            Some(Err(reason)) => return vec![Err(reason); request.candidates.len()],
        };
        let mut results: Vec<_> = (0..request.candidates.len())
            .map(|_| Ok(Completion::default()))
            .collect();
        let mut accepted = Vec::new();
        for (index, prompt) in self.prompts(request).into_iter().enumerate() {
            match prompt {
                Ok(tokens) => accepted.push((index, tokens)),
                Err(reason) => results[index] = Err(reason),
            }
        }
        for group in accepted.chunks(self.shape.sequences as usize) {
            let members: Vec<_> = group
                .iter()
                .map(|(index, prompt)| Member {
                    seed: request.candidates[*index].seed,
                    prompt,
                })
                .collect();
            let outcomes = self.group(&members, &request.sampling, grammar.as_ref());
            for ((index, _), outcome) in group.iter().zip(outcomes) {
                results[*index] = outcome;
            }
        }
        results
    }

    /// The prompt of every candidate, or why it cannot be used.
    fn prompts(&self, request: &Request) -> Vec<Result<Vec<LlamaToken>, String>> {
        let mut prompts: Vec<Result<Vec<LlamaToken>, String>> = Vec::new();
        for (index, candidate) in request.candidates.iter().enumerate() {
            let same = (index > 0)
                .then(|| index - 1)
                .filter(|previous| request.candidates[*previous].messages == candidate.messages);
            prompts.push(match same {
                Some(previous) => prompts[previous].clone(),
                None => prompt::tokens(self.model, self.template, &candidate.messages)
                    .and_then(|tokens| self.check_length(tokens, &request.sampling)),
            });
        }
        prompts
    }

    fn check_length(
        &self,
        tokens: Vec<LlamaToken>,
        sampling: &Sampling,
    ) -> Result<Vec<LlamaToken>, String> {
        let num_ctx = sampling.num_ctx.min(self.shape.tokens_per_sequence);
        let room = (num_ctx as usize).saturating_sub(sampling.max_tokens as usize);
        if tokens.len() > room {
            return Err(format!(
                "the prompt has {} tokens, but --num-ctx {num_ctx} minus --max-tokens {} leaves {room}: \
                 raise --num-ctx or shorten the prompt",
                tokens.len(),
                sampling.max_tokens
            ));
        }
        Ok(tokens)
    }

    /// Generates a group of candidates that fits into the sequences.
    fn group(
        &mut self,
        members: &[Member<'_>],
        sampling: &Sampling,
        grammar: Option<&LlamaSampler>,
    ) -> Vec<Result<Completion, String>> {
        let started = Instant::now();
        let live = members
            .iter()
            .enumerate()
            .map(|(index, member)| {
                let sampler = Sampler::new(sampling.temperature, member.seed, grammar.cloned());
                Live::new(index, member.prompt.len(), sampling.max_tokens, sampler)
            })
            .collect();
        let prompts: Vec<_> = members.iter().map(|member| member.prompt).collect();
        match self.decode_group(&prompts, live) {
            Ok(mut finished) => {
                let elapsed_ms = started.elapsed().as_secs_f64() * 1000.0;
                finished.sort_by_key(Live::index);
                finished
                    .into_iter()
                    .map(|candidate| candidate.completion(elapsed_ms / members.len() as f64))
                    .collect()
            }
            Err(reason) => {
                self.held.clear();
                vec![Err(reason); members.len()]
            }
        }
    }
}
