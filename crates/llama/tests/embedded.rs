//! The provider with real weights, from `$ASSIZE_MODELS_DIR` or else the cache directory;
//! `assize models pull smollm2-135m` downloads them.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use assize_llama::{EmbeddedConfig, EmbeddedProvider, default_models_dir};
use assize_providers::{
    Candidate, Completion, Message, Provider, ProviderError, Request, Role, Sampling,
};

const MODEL: &str = "smollm2-135m";
const COARSE: &str = "smollm2-135m-q4_0";
const NUM_CTX: u32 = 1024;

fn models_dir() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let directory = variable("ASSIZE_MODELS_DIR").or_else(|| {
        default_models_dir(
            variable("XDG_CACHE_HOME").as_deref(),
            variable("HOME").as_deref(),
        )
    })?;
    if directory.join(format!("{MODEL}.gguf")).is_file() {
        return Some(directory);
    }
    eprintln!(
        "SKIPPED: no {MODEL}.gguf in {}: run `assize models pull {MODEL}`",
        directory.display()
    );
    None
}

/// A provider with a loaded model; `None` (and a SKIPPED line) without weights.
fn loaded(model: &str, sequences: u32, change: impl Fn(&mut EmbeddedConfig)) -> Option<Loaded> {
    let directory = models_dir()?;
    if !directory.join(format!("{model}.gguf")).is_file() {
        eprintln!("SKIPPED: no {model}.gguf: run `assize models pull {model}`");
        return None;
    }
    let mut config = EmbeddedConfig::new(directory);
    config.sequences = Some(sequences);
    change(&mut config);
    let provider = EmbeddedProvider::new(config);
    provider.load(model, NUM_CTX, 1).unwrap();
    Some(Loaded {
        provider,
        model: model.to_owned(),
    })
}

struct Loaded {
    provider: EmbeddedProvider,
    model: String,
}

impl Loaded {
    fn try_generate(&self, request: &Request) -> Vec<Result<Completion, ProviderError>> {
        self.provider.generate(&self.model, request)
    }

    fn texts(&self, request: &Request) -> Vec<String> {
        self.try_generate(request)
            .into_iter()
            .map(|outcome| outcome.unwrap().text)
            .collect()
    }
}

/// Shared by the tests that do not care what else is in its cache.
static SHARED: LazyLock<Option<Loaded>> = LazyLock::new(|| loaded(MODEL, 5, |_| {}));

fn chat(user: &str) -> Vec<Message> {
    let message = |role, content: &str| Message {
        role,
        content: content.to_owned(),
    };
    vec![
        message(
            Role::System,
            "You are a personal assistant. You give one short, useful tip that fits the person, \
             the time of day and the open tasks. You are kind and concrete.",
        ),
        message(Role::User, user),
    ]
}

const PARENT: &str = "Persona: a busy parent. Time: early morning. Open tasks: pack lunch, call \
                      the school, book a dentist. Write a tip in two sentences.";
const STUDENT: &str = "Persona: a student before an exam. Time: late evening. Open tasks: revise \
                       chapter four, sleep. Write a tip in two sentences.";

fn sampling(temperature: f64) -> Sampling {
    Sampling {
        temperature,
        max_tokens: 24,
        num_ctx: NUM_CTX,
        json_schema: None,
        ..Sampling::default()
    }
}

fn request(candidates: Vec<(&str, u32)>, sampling: Sampling) -> Request {
    Request {
        prompt: "v1".to_owned(),
        scenario: "s1".to_owned(),
        candidates: candidates
            .into_iter()
            .map(|(user, seed)| Candidate {
                messages: chat(user),
                seed,
            })
            .collect(),
        sampling,
        ..Request::default()
    }
}

#[test]
fn greedy_output_is_stable_and_ignores_the_seed() {
    let Some(engine) = &*SHARED else { return };
    let greedy = |seed| engine.texts(&request(vec![(PARENT, seed)], sampling(0.0)));
    let first = greedy(1);
    assert!(first[0].split_whitespace().count() > 5, "{first:?}");
    assert_eq!(greedy(1), first);
    assert_eq!(greedy(2), first);
}

/// The texts of some seeds on two prompts must not depend on how they were asked for.
fn output_is_exact(model: &str, seeds: &[u32]) {
    let Some(engine) = loaded(model, 5, |_| {}) else {
        return;
    };
    let fresh = loaded(model, 1, |config| config.keep_prefix = false).unwrap();
    let alone = |user: &'static str| -> Vec<String> {
        seeds
            .iter()
            .flat_map(|seed| fresh.texts(&request(vec![(user, *seed)], sampling(0.8))))
            .collect()
    };
    let (parent, student) = (alone(PARENT), alone(STUDENT));

    let batch = |user| seeds.iter().map(|seed| (user, *seed)).collect::<Vec<_>>();
    let texts = |candidates| engine.texts(&request(candidates, sampling(0.8)));
    assert_eq!(texts(batch(PARENT)), parent, "one batch");
    assert_eq!(texts(batch(PARENT)), parent, "one batch, prompt cached");
    assert_eq!(texts(batch(STUDENT)), student, "prefix cached");
    assert_eq!(
        texts(vec![(STUDENT, seeds[1])]),
        student[1..2],
        "one, cached"
    );

    let mut both = batch(PARENT);
    both.extend(batch(STUDENT));
    both.swap(0, seeds.len());
    let mut expected = [parent, student].concat();
    expected.swap(0, seeds.len());
    assert_eq!(texts(both), expected, "mixed prompts");
}

#[test]
fn a_seed_gives_the_same_text_alone_in_company_and_from_the_cache() {
    output_is_exact(MODEL, &[11, 12, 13, 14, 15]);
}

#[test]
fn another_quantisation_is_exact_too() {
    output_is_exact(COARSE, &[21, 22]);
}

#[test]
fn different_seeds_differ() {
    let Some(engine) = &*SHARED else { return };
    let candidates = vec![(PARENT, 1), (PARENT, 2), (PARENT, u32::MAX)];
    let texts = engine.texts(&request(candidates.clone(), sampling(0.9)));
    assert_ne!(texts[0], texts[1]);
    assert_eq!(engine.texts(&request(candidates, sampling(0.9))), texts);
}

#[test]
fn a_schema_gives_valid_json_every_time() {
    let Some(engine) = &*SHARED else { return };
    let score = serde_json::json!({"type": "integer", "minimum": 1, "maximum": 5});
    let flag = serde_json::json!({"type": "boolean"});
    let names = [
        "relevance",
        "actionability",
        "tone",
        "format_ok",
        "overlong",
    ];
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "relevance": score, "actionability": score, "tone": score,
            "format_ok": flag, "overlong": flag,
        },
        "required": names,
        "additionalProperties": false,
    });
    let mut sampling = sampling(0.9);
    sampling.max_tokens = 120;
    sampling.json_schema = Some(schema);
    let candidates = (0..20).map(|seed| (PARENT, seed)).collect();
    let texts = engine.texts(&request(candidates, sampling));
    assert_eq!(texts.len(), 20);
    for text in &texts {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(value.as_object().unwrap().len(), 5, "{text}");
        for name in &names[..3] {
            let score = value[name].as_u64().unwrap();
            assert!((1..=5).contains(&score), "{text}");
        }
        for name in &names[3..] {
            assert!(value[name].is_boolean(), "{text}");
        }
    }
    assert!(texts.iter().any(|text| *text != texts[0]), "{texts:?}");
}

#[test]
fn an_impossible_schema_is_an_error_for_every_candidate() {
    let Some(engine) = &*SHARED else { return };
    let mut sampling = sampling(0.0);
    sampling.json_schema = Some(serde_json::json!({"type": "no such type"}));
    let outcomes = engine.try_generate(&request(vec![(PARENT, 1), (PARENT, 2)], sampling));
    assert_eq!(outcomes.len(), 2);
    for outcome in outcomes {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("JSON schema"), "{error}");
    }
}

#[test]
fn a_prompt_that_is_too_long_fails_alone() {
    let Some(engine) = &*SHARED else { return };
    let long = "word ".repeat(NUM_CTX as usize);
    let outcomes = engine.try_generate(&request(
        vec![(PARENT, 1), (&long, 2), (STUDENT, 3)],
        sampling(0.5),
    ));
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
    let error = outcomes[1].as_ref().unwrap_err().to_string();
    assert!(error.contains("--num-ctx"), "{error}");
}

#[test]
fn max_tokens_truncates_and_is_counted() {
    let Some(engine) = &*SHARED else { return };
    let mut short = sampling(0.0);
    short.max_tokens = 3;
    let outcomes = engine.try_generate(&request(vec![(PARENT, 1)], short));
    let cut = outcomes[0].as_ref().unwrap();
    assert!(cut.truncated);
    assert_eq!(cut.completion_tokens, 3);
    assert!(cut.prompt_tokens > 50);
    assert!(cut.latency_ms > 0.0);
    assert!(cut.batch >= 1.0);

    let mut long = sampling(0.0);
    long.max_tokens = 300;
    let say = "Answer with the single word yes.";
    let outcomes = engine.try_generate(&request(vec![(say, 1)], long));
    let whole = outcomes[0].as_ref().unwrap();
    assert!(!whole.truncated, "{whole:?}");
    assert!(!whole.text.contains("<|im_end|>"));
}

#[test]
fn a_message_with_a_nul_character_fails_alone() {
    let Some(engine) = &*SHARED else { return };
    let outcomes = engine.try_generate(&request(vec![("a\0b", 1), (PARENT, 2)], sampling(0.5)));
    assert!(
        outcomes[0]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("NUL")
    );
    assert!(outcomes[1].is_ok());
}

#[test]
fn fast_mode_generates_too() {
    let Some(engine) = loaded(MODEL, 3, |config| config.fast = true) else {
        return;
    };
    let candidates: Vec<_> = (0..5).map(|seed| (PARENT, seed)).collect();
    let texts = engine.texts(&request(candidates, sampling(0.7)));
    assert!(texts.iter().all(|text| text.len() > 10), "{texts:?}");
}

#[test]
fn a_model_describes_itself_without_being_loaded() {
    let Some(directory) = models_dir() else {
        return;
    };
    let provider = EmbeddedProvider::new(EmbeddedConfig::new(&directory));
    let info = provider.describe("embedded:smollm2-135m").unwrap();
    assert_eq!(info.parameter_count, Some(134_515_008));
    assert_eq!(info.size_bytes, Some(98_362_432));
    assert_eq!(info.context_length, Some(8192));
    assert!(info.digest.starts_with("b179c9523d0e"), "{}", info.digest);
    assert!(info.provenance.contains("llama-cpp-2 0.1.160"));
    assert!(provider.list().unwrap().contains(&MODEL.to_owned()));
    let path = directory.join(format!("{MODEL}.gguf"));
    assert_eq!(provider.describe(path.to_str().unwrap()).unwrap(), info);
    assert_eq!(provider.resident().unwrap(), []);
}

#[test]
fn loading_obeys_memory_and_one_model_at_a_time() {
    let Some(directory) = models_dir() else {
        return;
    };
    let other = tempfile::tempdir().unwrap();
    let copy = other.path().join("copy.gguf");
    std::fs::copy(directory.join(format!("{MODEL}.gguf")), &copy).unwrap();
    let provider = EmbeddedProvider::new(EmbeddedConfig::new(directory));

    let huge = provider.load(MODEL, 4_000_000, 200).unwrap_err();
    assert!(
        matches!(huge, ProviderError::OutOfMemory { needed_mb, free_mb, .. } if needed_mb > free_mb),
        "{huge}"
    );
    assert_eq!(provider.resident().unwrap(), []);

    assert!(provider.load(MODEL, 256, 1).unwrap() > 0.0);
    assert!(provider.load(MODEL, 256, 1).unwrap().abs() < f64::EPSILON);
    assert!(
        provider.load(MODEL, 512, 2).unwrap().abs() < f64::EPSILON,
        "contexts grow with the prompts"
    );
    let resident = provider.resident().unwrap();
    assert_eq!(resident.len(), 1);
    assert_eq!(resident[0].model, MODEL);

    let second = provider.load(copy.to_str().unwrap(), 256, 1).unwrap_err();
    assert!(second.to_string().contains("unload it first"), "{second}");
    provider.unload(MODEL).unwrap();
    provider.unload(MODEL).unwrap();
    assert_eq!(provider.resident().unwrap(), []);
    let outcomes = provider.generate(MODEL, &request(vec![(PARENT, 1)], sampling(0.5)));
    let error = outcomes[0].as_ref().unwrap_err().to_string();
    assert!(error.contains("not loaded"), "{error}");
}

#[test]
fn a_missing_model_says_how_to_get_it() {
    let directory = tempfile::tempdir().unwrap();
    let provider = EmbeddedProvider::new(EmbeddedConfig::new(directory.path().join("none")));
    assert_eq!(provider.list().unwrap(), Vec::<String>::new());
    let error = provider.load("smollm2-135m", 256, 1).unwrap_err();
    assert!(matches!(error, ProviderError::ModelNotFound { .. }));
    let message = error.to_string();
    assert!(
        message.contains("assize models pull smollm2-135m"),
        "{message}"
    );
}

#[test]
fn a_damaged_file_is_an_error_and_never_a_crash() {
    let Some(directory) = models_dir() else {
        return;
    };
    let good = std::fs::read(directory.join(format!("{MODEL}.gguf"))).unwrap();
    let damaged = tempfile::tempdir().unwrap();
    let provider = EmbeddedProvider::new(EmbeddedConfig::new(damaged.path()));
    let fails = |name: &str, bytes: &[u8]| {
        write(damaged.path(), name, bytes);
        let error = provider.load(name, 256, 1).unwrap_err().to_string();
        assert!(
            error.contains("damaged") || error.contains("usable"),
            "{name}: {error}"
        );
        assert_eq!(provider.resident().unwrap(), []);
    };
    fails("empty", b"");
    fails("page", b"<!doctype html><title>404</title>");
    fails("half-header", &good[..100_000]);
    fails("half", &good[..good.len() / 2]);
    fails("one-byte-short", &good[..good.len() - 1]);

    let mut architecture = good.clone();
    let at = architecture.windows(5).position(|w| w == b"llama").unwrap();
    architecture[at..at + 5].copy_from_slice(b"lhama");
    fails("unknown-architecture", &architecture);
}

fn write(directory: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(directory.join(format!("{name}.gguf")), bytes).unwrap();
}
