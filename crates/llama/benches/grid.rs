//! A grid of 2 prompts × 8 scenarios × 5 candidates: `cargo bench -p assize-llama --bench grid [-- THREADS]`.
//!
//! | figure | target | baseline in the same run |
//! |---|---|---|
//! | tokens/s of a whole `assize collect` | ≥ 150 | the same cells one after the other |
//! | tokens/s of the engine's steps, with sampling | ≥ 90 % | the best of batches of 5, 8, 16 and 32 that are decoded and not sampled, as llama.cpp's batched-bench does |
//! | cases/s of `assize judge auto` | ≥ 2 | – |
//!
//! llama.cpp's own batched-bench is not in the sources of the crate that we build, so the loop that
//! it consists of is written here on the same wrapper: a prompt for each sequence, then batches of one
//! token for each, with the flags of exact mode (no flash attention, no unified cache). The whole collect and the judge are the release binary beside this benchmark,
//! with the built-in task; they are left out if it is not there.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use assize_llama::{EmbeddedConfig, EmbeddedProvider, backend, default_models_dir};
use assize_providers::{Activity, Candidate, Message, Provider, Request, Role, Sampling};
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;

const MODEL: &str = "smollm2-135m";
const CANDIDATES: u32 = 5;
const MAX_TOKENS: u32 = 128;
const NUM_CTX: u32 = 2048;
/// About as long as the built-in task's prompts, and as its candidates become.
const PROMPT_TOKENS: i32 = 240;
const STEPS: i32 = 48;

const SYSTEMS: [&str; 2] = [
    "You show one useful tip at a time. A tip fits the persona, the time of day and the open tasks. It \
     is concrete: it names what to do first, how long it takes and why it helps now. It is kind, never \
     preachy, and it does not repeat the list of tasks. Write plain text, at most two sentences.",
    "You are an experienced mentor. You have seen many people try to do everything at once, and you know \
     that one step, taken now, is worth more than a plan. Good tips use what the person has at hand. Bad \
     tips are vague, such as 'stay organised'. Speak to the person as 'you', in at most two sentences.",
];
const SCENARIOS: [&str; 8] = [
    "Maya, a nurse after a night shift. Early morning. Open tasks: pay the electricity bill, call her mother.",
    "Jonas, a student before an exam. Late evening. Open tasks: revise chapter four, sleep.",
    "Ines, a teacher with two children. Noon. Open tasks: mark essays, book a dentist, buy milk.",
    "Omar, who looks for work. Morning. Open tasks: answer a recruiter, update the portfolio.",
    "Lena, a gardener. Afternoon. Open tasks: repair the pump, order seeds, write an invoice.",
    "Piet, retired. Morning. Open tasks: doctor's appointment, sort photographs, water the plants.",
    "Sofia, who leads a small team. Monday, nine o'clock. Open tasks: plan the sprint, review two drafts.",
    "Tomas, a baker. Four in the morning. Open tasks: prepare dough, call the mill, check the oven.",
];

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|it| it != "--bench");
    let threads = arguments
        .next()
        .map_or_else(all_cores, |text| text.parse().unwrap());
    let Some(directory) = models_dir() else {
        println!("SKIPPED: no {MODEL}.gguf: run `assize models pull {MODEL}`");
        return;
    };
    println!("2 prompts × 8 scenarios × {CANDIDATES} candidates, {threads} threads, {MODEL}");
    let one_by_one = engine(&directory, threads, Some(CANDIDATES), 1);
    report("cell by cell", &one_by_one);
    let together = engine(&directory, threads, None, 9);
    report("cells together", &together);
    println!(
        "  {:.2} x as fast as cell by cell",
        together.per_s() / one_by_one.per_s()
    );
    let mut best: f64 = 0.0;
    for sequences in [5, 8, 16, 32] {
        let plain = decoded_only(&directory, threads, sequences);
        println!("decoding alone, {sequences} sequences: {plain:.1} tokens/s");
        best = best.max(plain);
    }
    println!(
        "  the engine's steps have {:.0} % of the best of them (target 90)",
        100.0 * together.steps_per_s() / best
    );
    binary(&directory, threads);
}

struct Measured {
    seconds: f64,
    activity: Activity,
    batch: f64,
}

impl Measured {
    fn per_s(&self) -> f64 {
        self.activity.completion_tokens as f64 / self.seconds
    }

    fn steps_per_s(&self) -> f64 {
        self.activity.completion_tokens as f64 / self.activity.step_s
    }
}

fn report(name: &str, it: &Measured) {
    println!(
        "{name}: {:.1} tokens/s over {:.1} s; steps {:.1} tokens/s; {} prompt tokens and the rest in {:.1} s; \
         {} sequences, {:.1} candidates in a batch on average, {} MB resident",
        it.per_s(),
        it.seconds,
        it.steps_per_s(),
        it.activity.prompt_tokens,
        it.seconds - it.activity.step_s,
        it.activity.sequences,
        it.batch,
        resident_mb("self")
    );
}

/// The grid through the provider, with so many requests in flight; loading is not counted.
fn engine(directory: &Path, threads: usize, sequences: Option<u32>, in_flight: usize) -> Measured {
    let mut config = EmbeddedConfig::new(directory);
    (config.threads, config.sequences) = (Some(threads), sequences);
    let provider = EmbeddedProvider::new(config);
    provider.load(MODEL, NUM_CTX, CANDIDATES).unwrap();
    let requests = Mutex::new(grid().into_iter());
    let started = Instant::now();
    let batches: Vec<f64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..in_flight)
            .map(|_| {
                scope.spawn(|| {
                    let mut batches = Vec::new();
                    loop {
                        let Some(request) = requests.lock().unwrap().next() else {
                            return batches;
                        };
                        let answers = provider.generate(MODEL, &request);
                        batches.extend(answers.into_iter().map(|it| it.unwrap().batch));
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    });
    let measured = Measured {
        seconds: started.elapsed().as_secs_f64(),
        activity: provider.activity().unwrap(),
        batch: batches.iter().sum::<f64>() / batches.len() as f64,
    };
    provider.unload(MODEL).unwrap();
    measured
}

fn grid() -> Vec<Request> {
    let message = |role, content: &str| Message {
        role,
        content: content.to_owned(),
    };
    let mut requests = Vec::new();
    for (place, system) in SYSTEMS.iter().enumerate() {
        for (number, scenario) in SCENARIOS.iter().enumerate() {
            let first = u32::try_from(place * 1000 + number * 10).unwrap();
            let candidates = (first..first + CANDIDATES).map(|seed| Candidate {
                messages: vec![message(Role::System, system), message(Role::User, scenario)],
                seed,
            });
            requests.push(Request {
                candidates: candidates.collect(),
                sampling: Sampling {
                    temperature: 0.7,
                    max_tokens: MAX_TOKENS,
                    num_ctx: NUM_CTX,
                    ..Sampling::default()
                },
                ..Request::default()
            });
        }
    }
    requests
}

/// Tokens that are decoded in a second as batches of one token for each sequence, after a prompt.
fn decoded_only(directory: &Path, threads: usize, sequences: u32) -> f64 {
    let path = directory.join(format!("{MODEL}.gguf"));
    let params = LlamaModelParams::default().with_n_gpu_layers(0);
    let model = LlamaModel::load_from_file(backend().unwrap(), path, &params).unwrap();
    let threads = i32::try_from(threads).unwrap();
    let params = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(768 * sequences))
        .with_n_seq_max(sequences)
        .with_n_batch(512)
        .with_n_threads(threads)
        .with_n_threads_batch(threads)
        .with_kv_unified(false)
        .with_flash_attention_policy(llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_DISABLED);
    let mut context = model.new_context(backend().unwrap(), params).unwrap();
    let sequences = i32::try_from(sequences).unwrap();
    let mut batch = LlamaBatch::new(512, 1);
    let token = |position: i32| LlamaToken::new(1000 + position * 7 % 5000);
    let prompt: Vec<LlamaToken> = (0..PROMPT_TOKENS).map(token).collect();
    let began = Instant::now();
    for sequence in 0..sequences {
        batch.clear();
        batch.add_sequence(&prompt, sequence, false).unwrap();
        context.decode(&mut batch).unwrap();
    }
    let tokens = PROMPT_TOKENS * sequences;
    println!(
        "prompts alone, {sequences} sequences: {:.0} tokens/s",
        f64::from(tokens) / began.elapsed().as_secs_f64()
    );
    let began = Instant::now();
    for step in 0..STEPS {
        batch.clear();
        for sequence in 0..sequences {
            let position = PROMPT_TOKENS + step;
            batch
                .add(token(position + sequence), position, &[sequence], true)
                .unwrap();
        }
        context.decode(&mut batch).unwrap();
    }
    f64::from(STEPS * sequences) / began.elapsed().as_secs_f64()
}

/// A whole collect and a whole sitting of the release binary.
fn binary(directory: &Path, threads: usize) {
    let here = std::env::current_exe().unwrap();
    let program = here.parent().and_then(Path::parent).unwrap().join("assize");
    if !program.is_file() {
        println!("SKIPPED: the whole collect: no {}", program.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &str| {
        let mut command = Command::new(&program);
        command
            .args(words.split_whitespace())
            .current_dir(folder.path())
            .env("ASSIZE_MODELS_DIR", directory);
        measured(&mut command)
    };
    let model = format!("embedded:{MODEL}");
    let (seconds, peak_mb, _) = run(&format!(
        "collect --models {model} --prompts v1,v2-mentor --n-tips {CANDIDATES} --threads {threads} --experiment e"
    ));
    let (_, _, exported) = run("runs export --experiment e");
    let lines = exported.lines();
    let lines = lines.filter_map(|it| serde_json::from_str::<serde_json::Value>(it).ok());
    let tokens = lines.filter_map(|it| it["candidate"]["completion_tokens"].as_f64());
    let tokens: f64 = tokens.sum();
    println!(
        "whole collect: {:.1} tokens/s ({tokens} in {seconds:.1} s, with start and loading; target 150), \
         {peak_mb:.0} MB at most",
        tokens / seconds
    );
    let (seconds, peak_mb, judged) = run(&format!(
        "judge auto --experiment e --judge {model} --threads {threads} --no-anchors --json"
    ));
    let judged: serde_json::Value = serde_json::from_str(judged.trim()).unwrap();
    println!(
        "judge auto: {:.2} cases/s ({} in {seconds:.1} s, with start and loading; target 2), {peak_mb:.0} MB at most",
        judged["verdicts"].as_f64().unwrap() / seconds,
        judged["verdicts"]
    );
}

/// Seconds, peak memory in MB, and what a command printed.
fn measured(command: &mut Command) -> (f64, f64, String) {
    let started = Instant::now();
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut child = command
        .stdout(output.reopen().unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak_mb = 0;
    while child.try_wait().unwrap().is_none() {
        peak_mb = peak_mb.max(resident_mb(&child.id().to_string()));
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = std::fs::read_to_string(output.path()).unwrap();
    (started.elapsed().as_secs_f64(), peak_mb as f64, text)
}

/// Memory of a process, where the platform says.
fn resident_mb(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|it| it.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1024
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
