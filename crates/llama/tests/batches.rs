//! Candidates of many requests in one batch, with real weights: the same texts, faster.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::path::PathBuf;

use assize_llama::{EmbeddedConfig, EmbeddedProvider, default_models_dir};
use assize_providers::{
    Candidate, Completion, Message, Provider, ProviderError, Request, Role, Sampling,
};

const MODEL: &str = "smollm2-135m";
const NUM_CTX: u32 = 1024;

/// A provider with a loaded model; `None` (and a SKIPPED line) without weights.
fn loaded(sequences: Option<u32>, change: impl Fn(&mut EmbeddedConfig)) -> Option<Engine> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let directory = variable("ASSIZE_MODELS_DIR").or_else(|| {
        default_models_dir(
            variable("XDG_CACHE_HOME").as_deref(),
            variable("HOME").as_deref(),
        )
    })?;
    if !directory.join(format!("{MODEL}.gguf")).is_file() {
        eprintln!("SKIPPED: no {MODEL}.gguf: run `assize models pull {MODEL}`");
        return None;
    }
    let mut config = EmbeddedConfig::new(directory);
    config.sequences = sequences;
    change(&mut config);
    let provider = EmbeddedProvider::new(config);
    provider.load(MODEL, NUM_CTX, 1).unwrap();
    Some(Engine(provider))
}

struct Engine(EmbeddedProvider);

impl Engine {
    fn try_generate(&self, request: &Request) -> Vec<Result<Completion, ProviderError>> {
        self.0.generate(MODEL, request)
    }

    fn texts(&self, request: &Request) -> Vec<String> {
        let answers = self.try_generate(request).into_iter();
        answers.map(|outcome| outcome.unwrap().text).collect()
    }
}

/// Candidates with these seeds after one prompt.
fn request(user: &str, seeds: impl Iterator<Item = u32>, max_tokens: u32) -> Request {
    let message = |role, content: &str| Message {
        role,
        content: content.to_owned(),
    };
    let system = "You are a personal assistant. You give one short, useful tip that fits the person, \
                  the time of day and the open tasks. You are kind and concrete.";
    let messages = vec![message(Role::System, system), message(Role::User, user)];
    let candidates = seeds.map(|seed| Candidate {
        messages: messages.clone(),
        seed,
    });
    Request {
        candidates: candidates.collect(),
        sampling: Sampling {
            temperature: 0.8,
            max_tokens,
            num_ctx: NUM_CTX,
            ..Sampling::default()
        },
        ..Request::default()
    }
}

/// Eight cells of five candidates: two openings, four persons each.
fn grid() -> Vec<Request> {
    let people = ["a nurse", "a student", "a busy parent", "a gardener"];
    let openings = [
        "Write a tip in two sentences.",
        "Answer with one short tip.",
    ];
    let mut cells = Vec::new();
    for (place, opening) in openings.iter().enumerate() {
        for (number, person) in people.iter().enumerate() {
            let user =
                format!("{opening} Persona: {person}. Open tasks: pay a bill, call a friend.");
            let first = u32::try_from(place * 100 + number * 10).unwrap();
            cells.push(request(&user, first..first + 5, 16));
        }
    }
    cells
}

/// Generates these cells from as many threads, so that they meet in the engine.
fn together(engine: &Engine, cells: &[Request], order: &[usize]) -> Vec<Vec<String>> {
    let mut texts = vec![Vec::new(); cells.len()];
    std::thread::scope(|scope| {
        let asked: Vec<_> = order
            .iter()
            .map(|cell| (*cell, scope.spawn(move || engine.texts(&cells[*cell]))))
            .collect();
        for (cell, answer) in asked {
            texts[cell] = answer.join().unwrap();
        }
    });
    texts
}

#[test]
fn texts_are_the_same_whatever_shares_the_batch() {
    let cells = grid();
    let in_order: Vec<usize> = (0..cells.len()).collect();
    let Some(alone) = loaded(Some(1), |config| {
        (config.keep_prefix, config.threads) = (false, Some(1));
    }) else {
        return;
    };
    let expected: Vec<Vec<String>> = cells.iter().map(|cell| alone.texts(cell)).collect();
    drop(alone);
    for sequences in [5, 20, 40] {
        for keep_prefix in [true, false] {
            let engine = loaded(Some(sequences), |config| config.keep_prefix = keep_prefix);
            let engine = engine.unwrap();
            let name = format!("{sequences} sequences, prefixes kept: {keep_prefix}");
            assert_eq!(together(&engine, &cells, &in_order), expected, "{name}");
            let shuffled = [5, 2, 7, 0, 3, 6, 1, 4];
            assert_eq!(together(&engine, &cells, &shuffled), expected, "{name}");
        }
    }
    // The number of sequences that it chooses itself, and the other cells left out.
    let engine = loaded(None, |_| {}).unwrap();
    assert_eq!(together(&engine, &cells, &in_order), expected, "automatic");
    assert_eq!(engine.texts(&cells[6]), expected[6], "one cell, resumed");
}

#[test]
fn candidates_of_several_requests_share_a_batch() {
    let Some(engine) = loaded(Some(20), |_| {}) else {
        return;
    };
    let cells = grid();
    let batches: Vec<f64> = std::thread::scope(|scope| {
        let engine = &engine;
        let asked: Vec<_> = cells[..4]
            .iter()
            .map(|cell| scope.spawn(move || engine.try_generate(cell)))
            .collect();
        let answers = asked.into_iter().flat_map(|it| it.join().unwrap());
        answers.map(|it| it.unwrap().batch).collect()
    });
    assert!(batches.iter().all(|it| *it <= 20.0), "{batches:?}");
    assert!(
        batches.iter().any(|it| *it > 10.0),
        "more than two cells at a time: {batches:?}"
    );
    let activity = engine.0.activity().unwrap();
    assert_eq!(activity.sequences, 20);
    assert!(activity.completion_tokens > 20 && activity.step_s > 0.0);
    let prompts: u64 = activity.prompt_tokens;
    let whole = 4 * 60;
    assert!(
        prompts < whole,
        "{prompts} tokens of prompts: what they share is decoded once"
    );
}

#[test]
fn a_longer_prompt_gets_a_larger_context() {
    let Some(engine) = loaded(Some(5), |_| {}) else {
        return;
    };
    let short = request("Write a tip for a nurse.", 1..2, 16);
    let first = engine.texts(&short);
    let long = "Be kind and concrete. ".repeat(150);
    let long = request(&long, 1..2, 16);
    assert!(!engine.texts(&long)[0].is_empty());
    assert_eq!(engine.texts(&short), first);
}
