//! One loaded model: decodes the candidates of many requests in one batch.
//!
//! Candidates wait in a queue, in the order in which they were asked for, and a step decodes one
//! token of every candidate that has a sequence of the cache (continuous batching):
//!
//! 1. **Admit.** A free sequence gets the next candidate. What any sequence holds of its prompt
//!    (the same cell, the same prompt version with another scenario, the same rubric with another
//!    case) is copied, and only the rest is decoded. Candidates with the same prompt choose their
//!    first token together, so a prompt is decoded once for all of them.
//! 2. **Step.** One token of every candidate in the cache makes a batch.
//! 3. **Retire.** Whoever is done leaves, and its sequence gets the next candidate at once.
//!    llama.cpp computes a batch at once only while its sequences are numbered without gaps, so
//!    where nobody waits the last sequence moves into the gap.
//!
//! In exact mode each sequence has its own cache and flash attention is off. Every sum is then
//! taken in the same order whatever else is in the batch, and a seed gives the same text alone,
//! in any company, and with or without a cached prefix. This holds for weight formats whose products
//! are rounded in the same way for one token and for many ([`crate::sys::Reproducibility`]); the
//! provenance records whether it does. docs/design/exact-sampling.md and docs/design/batches.md give
//! the reasons.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use assize_providers::{Completion, Request, Sampling};
use llama_cpp_2::model::{LlamaChatTemplate, LlamaModel};
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;

use crate::counters::Counters;
use crate::memory::{self, Footprint};
use crate::prompt;
use crate::sampler::{self, Sampler};
use crate::threads::Threads;
use crate::width::Width;

mod cache;
mod candidate;

use cache::{Cache, Entry};
use candidate::{Live, Origin};

/// How an engine computes; constant while a model is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// `None` follows what is free.
    pub threads: Option<usize>,
    /// `None` follows memory and speed.
    pub sequences: Option<u32>,
    pub fast: bool,
    pub keep_prefix: bool,
}

/// What came of a request's candidates, in their order.
pub(crate) type Completions = Vec<Result<Completion, String>>;

/// A loaded model with its cache and everything that waits for it.
pub(crate) struct Engine<'model> {
    model: &'model LlamaModel,
    template: &'model LlamaChatTemplate,
    footprint: Footprint,
    settings: Settings,
    counters: Arc<Counters>,
    threads: Threads,
    requests: HashMap<u64, Open>,
    next_request: u64,
    waiting: VecDeque<Live>,
    /// By sequence: who uses it.
    live: Vec<Option<Live>>,
    width: Width,
    /// Made for the first request, when it is known how long prompts are.
    cache: Option<Cache<'model>>,
    /// The last JSON schema with its grammar: judges send the same one every time.
    grammar: Option<(serde_json::Value, LlamaSampler)>,
}

/// A request some of whose candidates are not complete.
struct Open {
    results: Vec<Option<Result<Completion, String>>>,
    reply: Box<dyn FnOnce(Completions)>,
}

impl<'model> Engine<'model> {
    pub(crate) fn new(
        model: &'model LlamaModel,
        template: &'model LlamaChatTemplate,
        footprint: Footprint,
        settings: Settings,
        counters: Arc<Counters>,
        threads: Threads,
    ) -> Self {
        Self {
            model,
            template,
            footprint,
            settings,
            counters,
            threads,
            requests: HashMap::new(),
            next_request: 0,
            waiting: VecDeque::new(),
            live: Vec::new(),
            width: Width::new(0),
            cache: None,
            grammar: None,
        }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.live.iter().all(Option::is_none)
    }

    /// Takes a request; `reply` is called when its last candidate is complete.
    pub(crate) fn take(&mut self, request: &Request, reply: Box<dyn FnOnce(Completions)>) {
        let id = self.next_request;
        self.next_request += 1;
        let results = request.candidates.iter().map(|_| None).collect();
        self.requests.insert(id, Open { results, reply });
        if request.candidates.is_empty() {
            return self.answer(id);
        }
        let sampling = &request.sampling;
        let grammar = match sampling.json_schema.as_ref().map(|it| self.grammar(it)) {
            None => Ok(None),
            Some(Ok(grammar)) => Ok(Some(grammar)),
            Some(Err(reason)) => Err(reason),
        };
        let prompts = self.prompts(request);
        for (index, (candidate, prompt)) in request.candidates.iter().zip(prompts).enumerate() {
            let origin = Origin { request: id, index };
            let made = prompt.and_then(|prompt| Ok((prompt, grammar.clone()?)));
            match made {
                Ok((prompt, grammar)) => {
                    let sampler = Sampler::new(sampling.temperature, candidate.seed, grammar);
                    let live = Live::new(origin, prompt, sampling.max_tokens, sampler);
                    self.waiting.push_back(live);
                }
                Err(reason) => self.settle(origin, Err(reason)),
            }
        }
    }

    fn grammar(&mut self, schema: &serde_json::Value) -> Result<LlamaSampler, String> {
        if let Some((known, grammar)) = &self.grammar
            && known == schema
        {
            return Ok(grammar.clone());
        }
        let grammar = sampler::grammar(self.model, schema)?;
        self.grammar = Some((schema.clone(), grammar.clone()));
        Ok(grammar)
    }

    /// The prompt of every candidate, or why it cannot be used.
    fn prompts(&self, request: &Request) -> Vec<Result<Rc<[LlamaToken]>, String>> {
        let mut prompts: Vec<Result<Rc<[LlamaToken]>, String>> = Vec::new();
        for (index, candidate) in request.candidates.iter().enumerate() {
            let same = (index > 0)
                .then(|| index - 1)
                .filter(|previous| request.candidates[*previous].messages == candidate.messages);
            prompts.push(match same {
                Some(previous) => prompts[previous].clone(),
                None => prompt::tokens(self.model, self.template, &candidate.messages)
                    .and_then(|tokens| check_length(tokens, &request.sampling))
                    .map(Rc::from),
            });
        }
        prompts
    }

    /// Admits, decodes one step, and retires.
    pub(crate) fn turn(&mut self) {
        if let Err(reason) = self.try_turn() {
            self.fail_all(&reason);
        }
        self.counters.set_live(self.count_live());
    }

    fn try_turn(&mut self) -> Result<(), String> {
        self.admit()?;
        self.close_gaps()?;
        self.step()
    }

    fn count_live(&self) -> usize {
        self.live.iter().flatten().count()
    }

    /// Gives free sequences to candidates that wait.
    fn admit(&mut self) -> Result<(), String> {
        while let Some(next) = self.waiting.front() {
            let (needed, prompt) = (next.most_tokens(), Rc::clone(next.prompt()));
            if !self.fits(needed) {
                // A larger cache is made when nobody uses the present one any more.
                if self.count_live() > 0 {
                    return Ok(());
                }
                if let Err(reason) = self.make_cache() {
                    self.fail_longest(&reason);
                    continue;
                }
            }
            let Some(cache) = &self.cache else {
                return Ok(());
            };
            let open = self.live.iter().take(self.width.now()).enumerate();
            let free = open.filter(|it| it.1.is_none()).map(|it| it.0);
            let Some(sequence) = cache.nearest(free, &prompt) else {
                return Ok(());
            };
            if let Some(next) = self.waiting.pop_front() {
                self.enter(sequence, next)?;
            }
        }
        Ok(())
    }

    fn fits(&self, tokens: usize) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|it| it.shape().tokens_per_sequence as usize >= tokens)
    }

    /// Makes a cache for the longest candidate that waits, with as many sequences as memory allows.
    fn make_cache(&mut self) -> Result<(), String> {
        self.cache = None;
        let longest = self.waiting.iter().map(Live::most_tokens).max();
        let longest = u32::try_from(longest.unwrap_or(1)).unwrap_or(u32::MAX);
        let most = self
            .settings
            .sequences
            .unwrap_or(memory::DEFAULT_MOST_SEQUENCES);
        let shape = self
            .footprint
            .shape(longest, most, memory::free_bytes())
            .map_err(|needed| {
                format!(
                    "there is no memory for a context of {longest} tokens ({} MB): lower --num-ctx \
                     or close other programs",
                    needed / (1024 * 1024)
                )
            })?;
        self.cache = Some(Cache::new(
            self.model,
            shape,
            &self.settings,
            self.threads.now(),
            Arc::clone(&self.counters),
        )?);
        self.live = (0..shape.sequences).map(|_| None).collect();
        self.width = match self.settings.sequences {
            Some(_) => Width::fixed(shape.sequences as usize),
            None => Width::new(shape.sequences as usize),
        };
        self.counters.set_sequences(shape.sequences);
        Ok(())
    }

    /// Fails the candidates that the largest cache would be for; shorter ones may still fit.
    fn fail_longest(&mut self, reason: &str) {
        let longest = self.waiting.iter().map(Live::most_tokens).max();
        let is_long = |it: &Live| Some(it.most_tokens()) == longest;
        let (long, rest) = self.waiting.drain(..).partition::<VecDeque<_>, _>(is_long);
        self.waiting = rest;
        for candidate in long {
            self.settle(candidate.origin(), Err(reason.to_owned()));
        }
    }

    /// Brings a candidate's prompt into the cache, and chooses the first token of everybody who has
    /// the same prompt.
    fn enter(&mut self, sequence: usize, mut next: Live) -> Result<(), String> {
        let began = Instant::now();
        let prompt = Rc::clone(next.prompt());
        let needs_logits = !next.has_begun();
        next.begin(began);
        let slot = self.live.get_mut(sequence);
        let (Some(cache), Some(slot)) = (&mut self.cache, slot) else {
            return Err("internal error: a candidate has no sequence".to_owned());
        };
        *slot = Some(next);
        let row = cache.hold(sequence, &prompt, needs_logits, &mut self.threads)?;
        let Some(row) = row else {
            return Ok(());
        };
        let logits = cache.logits(row);
        let own = self.live[sequence].iter_mut();
        let others = self.waiting.iter_mut();
        let others = others.filter(|it| !it.has_begun() && it.has_prompt(&prompt));
        let mut chosen = 0;
        for candidate in own.chain(others) {
            candidate.begin(began);
            chosen += candidate.choose(self.model, logits);
        }
        self.counters.add_completion(chosen);
        self.retire();
        Ok(())
    }

    /// Moves the last sequences into the places of those that are done.
    fn close_gaps(&mut self) -> Result<(), String> {
        let Some(cache) = &mut self.cache else {
            return Ok(());
        };
        while let Some(gap) = self.live.iter().position(Option::is_none)
            && let Some(last) = self.live.iter().rposition(Option::is_some)
            && gap < last
        {
            cache.relocate(last, gap)?;
            self.live.swap(last, gap);
        }
        Ok(())
    }

    /// Decodes one token of every candidate in the cache.
    fn step(&mut self) -> Result<(), String> {
        let next = self.live.iter().flatten().enumerate();
        let entries = next.filter_map(|(sequence, candidate)| {
            let (token, position) = candidate.next()?;
            Some(Entry {
                token,
                position,
                sequence,
                logits: true,
            })
        });
        let entries: Vec<Entry> = entries.collect();
        let Some(cache) = self.cache.as_mut().filter(|_| !entries.is_empty()) else {
            return Ok(());
        };
        let began = Instant::now();
        cache.decode(&entries, &mut self.threads)?;
        let mut chosen = 0;
        for (row, candidate) in self.live.iter_mut().flatten().enumerate() {
            candidate.shared(entries.len());
            chosen += candidate.choose(self.model, cache.logits(row));
        }
        self.width
            .observe(entries.len(), began.elapsed().as_secs_f64());
        self.counters.add_completion(chosen);
        self.counters.add_step(began.elapsed());
        self.retire();
        Ok(())
    }

    /// Answers for everybody who is done.
    fn retire(&mut self) {
        let now = Instant::now();
        let mut done: Vec<Live> = Vec::new();
        for slot in &mut self.live {
            done.extend(slot.take_if(|it| it.is_done()));
        }
        // A first token can be the last one.
        let is_done = |it: &Live| it.is_done();
        if self.waiting.iter().any(is_done) {
            let (ended, open) = self.waiting.drain(..).partition::<VecDeque<_>, _>(is_done);
            self.waiting = open;
            done.extend(ended);
        }
        for candidate in done {
            self.settle(candidate.origin(), candidate.completion(now));
        }
    }

    /// Fails everything after an error of llama.cpp, and forgets what the cache holds.
    fn fail_all(&mut self, reason: &str) {
        self.cache = None;
        let live = std::mem::take(&mut self.live).into_iter().flatten();
        let all: Vec<Origin> = live
            .chain(self.waiting.drain(..))
            .map(|it| it.origin())
            .collect();
        for origin in all {
            self.settle(origin, Err(reason.to_owned()));
        }
    }

    fn settle(&mut self, origin: Origin, result: Result<Completion, String>) {
        let Some(open) = self.requests.get_mut(&origin.request) else {
            return;
        };
        open.results[origin.index] = Some(result);
        if open.results.iter().all(Option::is_some) {
            self.answer(origin.request);
        }
    }

    fn answer(&mut self, request: u64) {
        if let Some(open) = self.requests.remove(&request) {
            (open.reply)(open.results.into_iter().flatten().collect());
        }
    }
}

fn check_length(tokens: Vec<LlamaToken>, sampling: &Sampling) -> Result<Vec<LlamaToken>, String> {
    let num_ctx = sampling.num_ctx;
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
