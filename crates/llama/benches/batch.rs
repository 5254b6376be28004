//! Five candidates as one batch, against five separate requests and against a batch loop
//! written by hand on the wrapper: `cargo bench -p assize-llama [-- ROUNDS [THREADS]]`.
//!
//! All variants decode the whole prompt in every round (the prefix cache is off) and draw with
//! the same samplers and seeds. They run in turn, and ratios are taken within a round before
//! their median, so that other work on the machine hurts all of them alike. On a busy machine
//! the ratios by processor time are the ones to look at.
//!
//! The loop by hand gets the context that the engine gives itself (padded to an odd multiple of
//! 256 tokens, which decodes about a tenth faster than a power of two). Much of the gain over
//! separate requests is the shared prompt, so a short prompt is measured beside one of the
//! built-in task's length. All cores are used, as in llama.cpp's own batched bench; on a single
//! thread the arithmetic and not the reading of weights is the limit, and a batch gains less.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Instant;

use assize_llama::{EmbeddedConfig, EmbeddedProvider, backend, default_models_dir};
use assize_providers::{Candidate, Message, Provider, Request, Role, Sampling};
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::model::{LlamaChatMessage, LlamaModel};
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;

const MODEL: &str = "smollm2-135m";
const CANDIDATES: u32 = 5;
const MAX_TOKENS: u32 = 64;
const NUM_CTX: u32 = 2048;
/// What the engine makes of these prompts for each sequence.
const PADDED_CTX: u32 = 768;
const TEMPERATURE: f64 = 0.7;

struct Prompt {
    name: &'static str,
    system: &'static str,
    user: &'static str,
}

const SHORT: Prompt = Prompt {
    name: "short",
    system: "You are a mentor who gives one useful tip at a time.",
    user: "Maya, a nurse, has just come home from a night shift and has a bill to pay today. Write \
        a long and detailed tip for her with at least ten sentences.",
};

/// About as long as the built-in task's prompts, scenario included.
const TASK: Prompt = Prompt {
    name: "task-sized",
    system: "You are an experienced mentor who shows one useful tip at a time. You have \
    seen many people try to do everything at once, and you know that one step, taken now, is \
    worth more than a plan. A tip fits the persona, the time of day and the open tasks. It is \
    concrete: it names what to do first, how long it takes and why it helps now. It is kind, \
    never preachy, and it does not repeat the list of tasks. Good tips use what the person has \
    at hand. Bad tips are vague, such as 'stay organised', or try to do everything at once. Use \
    only the facts that you are given, speak to the person as 'you', and write plain text.",
    user: "Persona: Maya, a nurse who has just come home from a night shift and lives \
    with two small children. Time of day: early morning. Open tasks: pack lunch for the school \
    trip, pay the electricity bill that is due today, call her mother back, prepare the slides \
    for the ward meeting on Thursday, buy a birthday present for her sister. Write a long and \
    detailed tip for her with at least ten sentences. Begin with what she should do first, and \
    then explain step by step how the rest of her morning can go, with times.",
};

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let rounds = arguments.next().map_or(3, |text| text.parse().unwrap());
    let threads = arguments
        .next()
        .map_or_else(all_cores, |text| text.parse().unwrap());
    let Some(directory) = models_dir() else {
        println!("SKIPPED: no {MODEL}.gguf: run `assize models pull {MODEL}`");
        return;
    };
    let loaded = |fast| {
        let mut config = EmbeddedConfig::new(&directory);
        (config.threads, config.fast, config.keep_prefix) = (Some(threads), fast, false);
        config.sequences = Some(CANDIDATES);
        let provider = EmbeddedProvider::new(config);
        provider.load(MODEL, NUM_CTX, CANDIDATES).unwrap();
        provider
    };
    let (exact, fast) = (loaded(false), loaded(true));
    let path = directory.join(format!("{MODEL}.gguf"));
    let params = LlamaModelParams::default();
    let model = LlamaModel::load_from_file(backend().unwrap(), path, &params).unwrap();
    let mut by_hand = ByHand::new(&model, threads);

    for prompt in [TASK, SHORT] {
        println!(
            "{CANDIDATES} candidates of {MAX_TOKENS} tokens after a {} prompt of {} tokens, {threads} threads",
            prompt.name,
            by_hand.tokens(&prompt).len()
        );
        let one = |seed| generate(&exact, &prompt, &[seed]);
        let rounds: Vec<Round> = (0..rounds)
            .map(|_| Round {
                batch: speed(|| generate(&exact, &prompt, &[1, 2, 3, 4, 5])),
                separate: speed(|| (1..=CANDIDATES).map(one).sum()),
                by_hand: speed(|| by_hand.generate(&prompt)),
                fast: speed(|| generate(&fast, &prompt, &[1, 2, 3, 4, 5])),
            })
            .collect();
        report("by the clock", &rounds, |speed| speed.per_s);
        if cpu_seconds().is_some() {
            report("by processor time", &rounds, |speed| speed.per_cpu_s);
        }
    }
}

struct Round {
    batch: Speed,
    separate: Speed,
    by_hand: Speed,
    fast: Speed,
}

/// Generated tokens for each second.
struct Speed {
    per_s: f64,
    per_cpu_s: f64,
}

fn report(title: &str, rounds: &[Round], measure: fn(&Speed) -> f64) {
    let speed = |of: fn(&Round) -> &Speed| median(rounds.iter().map(|r| measure(of(r))).collect());
    let ratio = |to: fn(&Round) -> &Speed| {
        let ratios = rounds.iter().map(|r| measure(&r.batch) / measure(to(r)));
        median(ratios.collect())
    };
    println!("{title}, {} rounds:", rounds.len());
    println!(
        "  one batch of {CANDIDATES}         {:6.1} tokens/s",
        speed(|r| &r.batch)
    );
    println!(
        "  {CANDIDATES} separate requests    {:6.1} tokens/s; the batch is {:.2} x as fast (target 2.2)",
        speed(|r| &r.separate),
        ratio(|r| &r.separate)
    );
    println!(
        "  batch loop by hand     {:6.1} tokens/s; the batch has {:.0} % of it (target 90)",
        speed(|r| &r.by_hand),
        100.0 * ratio(|r| &r.by_hand)
    );
    println!(
        "  one batch with --fast  {:6.1} tokens/s",
        speed(|r| &r.fast)
    );
}

fn models_dir() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let directory = variable("ASSIZE_MODELS_DIR").or_else(|| {
        default_models_dir(
            variable("XDG_CACHE_HOME").as_deref(),
            variable("HOME").as_deref(),
        )
    })?;
    directory
        .join(format!("{MODEL}.gguf"))
        .is_file()
        .then_some(directory)
}

fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn speed(generate: impl FnOnce() -> u64) -> Speed {
    let (started, cpu_before) = (Instant::now(), cpu_seconds().unwrap_or(0.0));
    let tokens = generate() as f64;
    Speed {
        per_s: tokens / started.elapsed().as_secs_f64(),
        per_cpu_s: tokens / (cpu_seconds().unwrap_or(1.0) - cpu_before),
    }
}

/// Processor time that this process has used, where the platform says.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Through the provider; returns the number of generated tokens.
fn generate(provider: &EmbeddedProvider, prompt: &Prompt, seeds: &[u32]) -> u64 {
    let message = |role, content: &str| Message {
        role,
        content: content.to_owned(),
    };
    let messages = vec![
        message(Role::System, prompt.system),
        message(Role::User, prompt.user),
    ];
    let request = Request {
        prompt: "bench".to_owned(),
        scenario: "bench".to_owned(),
        candidates: seeds
            .iter()
            .map(|seed| Candidate {
                messages: messages.clone(),
                seed: *seed,
            })
            .collect(),
        sampling: Sampling {
            temperature: TEMPERATURE,
            max_tokens: MAX_TOKENS,
            num_ctx: NUM_CTX,
            json_schema: None,
            ..Sampling::default()
        },
        ..Request::default()
    };
    let outcomes = provider.generate(MODEL, &request);
    outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap().completion_tokens)
        .sum()
}

/// The shortest sensible loop: decode the prompt, copy it, decode five tokens at a time.
struct ByHand<'model> {
    model: &'model LlamaModel,
    context: LlamaContext<'model>,
}

impl<'model> ByHand<'model> {
    fn new(model: &'model LlamaModel, threads: usize) -> Self {
        let threads = i32::try_from(threads).unwrap();
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(PADDED_CTX * CANDIDATES))
            .with_n_seq_max(CANDIDATES)
            .with_n_batch(512)
            .with_n_threads(threads)
            .with_n_threads_batch(threads)
            .with_kv_unified(false)
            .with_flash_attention_policy(llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_DISABLED);
        let context = model.new_context(backend().unwrap(), params).unwrap();
        Self { model, context }
    }

    fn tokens(&self, prompt: &Prompt) -> Vec<LlamaToken> {
        let template = self.model.chat_template(None).unwrap();
        let chat = [("system", prompt.system), ("user", prompt.user)].map(|(role, content)| {
            LlamaChatMessage::new(role.to_owned(), content.to_owned()).unwrap()
        });
        let text = self
            .model
            .apply_chat_template(&template, &chat, true)
            .unwrap();
        self.model.vocab().tokenize(text.as_bytes(), true, true)
    }

    fn generate(&mut self, prompt: &Prompt) -> u64 {
        let prompt = self.tokens(prompt);
        let context = &mut self.context;
        let sequences = i32::try_from(CANDIDATES).unwrap();
        for sequence in 0..CANDIDATES {
            context
                .clear_kv_cache_seq(Some(sequence), None, None)
                .unwrap();
        }
        let mut batch = LlamaBatch::new(512, 1);
        batch.add_sequence(&prompt, 0, false).unwrap();
        context.decode(&mut batch).unwrap();
        for sequence in 1..sequences {
            context.copy_kv_cache_seq(0, sequence, None, None).unwrap();
        }
        let mut samplers: Vec<_> = (1..=CANDIDATES)
            .map(|seed| {
                LlamaSampler::chain_simple([
                    LlamaSampler::top_k(40),
                    LlamaSampler::top_p(0.9, 1),
                    #[expect(clippy::cast_possible_truncation, reason = "a small constant")]
                    LlamaSampler::temp(TEMPERATURE as f32),
                    LlamaSampler::dist(seed),
                ])
            })
            .collect();
        let last = batch.n_tokens() - 1;
        let mut tokens: Vec<_> = samplers
            .iter_mut()
            .map(|s| s.sample(context, last))
            .collect();
        let mut generated = u64::from(CANDIDATES);
        for position in (i32::try_from(prompt.len()).unwrap()..).take(MAX_TOKENS as usize - 1) {
            batch.clear();
            for (sequence, token) in (0..).zip(&tokens) {
                batch.add(*token, position, &[sequence], true).unwrap();
            }
            context.decode(&mut batch).unwrap();
            for (row, sampler) in (0..).zip(&mut samplers) {
                tokens[usize::try_from(row).unwrap()] = sampler.sample(context, row);
            }
            generated += u64::from(CANDIDATES);
        }
        generated
    }
}
