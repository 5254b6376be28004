//! The scripted provider as a caller sees it.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use assize_providers::scripted::ScriptedProvider;
use assize_providers::{
    Candidate, Message, Provider, ProviderError, Request, Result, Role, Sampling,
};

#[path = "scripted/content.rs"]
mod content;
#[path = "scripted/judge.rs"]
mod judge;

fn request(prompt: &str, scenario: &str, candidates: usize) -> Request {
    let candidate = Candidate {
        messages: vec![
            Message {
                role: Role::System,
                content: "You give one tip.".to_owned(),
            },
            Message {
                role: Role::User,
                content: "It is   evening.\nTip?".to_owned(),
            },
        ],
        seed: 1,
    };
    Request {
        prompt: prompt.to_owned(),
        scenario: scenario.to_owned(),
        candidates: vec![candidate; candidates],
        sampling: Sampling {
            temperature: 0.7,
            max_tokens: 1,
            num_ctx: 2048,
            json_schema: None,
            ..Sampling::default()
        },
        ..Request::default()
    }
}

fn script(text: &str) -> ScriptedProvider {
    text.parse().unwrap()
}

fn texts(provider: &ScriptedProvider, request: &Request) -> Vec<String> {
    let all: Result<Vec<_>> = provider.generate("m", request).into_iter().collect();
    all.unwrap().into_iter().map(|c| c.text).collect()
}

fn complaint(text: &str) -> String {
    text.parse::<ScriptedProvider>().unwrap_err().to_string()
}

#[test]
fn the_first_match_wins_whatever_is_more_specific() {
    let provider = script(
        r#"{"models":{"m":{"responses":[
            {"prompt":"v1","scenario":"a","texts":["v1 a"]},
            {"prompt":"*","scenario":"b","texts":["any b"]},
            {"prompt":"v1","scenario":"b","texts":["hidden"]},
            {"prompt":"v2","scenario":"*","texts":["v2 any"]},
            {"prompt":"v2","scenario":"a","texts":["hidden too"]},
            {"prompt":"*","scenario":"*","texts":["rest"]},
            {"prompt":"v3","scenario":"c","texts":["hidden as well"]}
        ]}}}"#,
    );
    for (prompt, scenario, expected) in [
        ("v1", "a", "v1 a"),
        ("v1", "b", "any b"),
        ("v2", "b", "any b"),
        ("v2", "a", "v2 any"),
        ("v3", "c", "rest"),
        ("v1", "c", "rest"),
    ] {
        let got = texts(&provider, &request(prompt, scenario, 1));
        assert_eq!(got, [expected], "{prompt} {scenario}");
    }
}

#[test]
fn texts_go_in_candidate_order_and_repeat() {
    let provider = script(r#"{"models":{"m":{"responses":[{"texts":["a","b c"]}]}}}"#);
    assert_eq!(
        texts(&provider, &request("v1", "s", 5)),
        ["a", "b c", "a", "b c", "a"]
    );
}

#[test]
fn words_stand_in_for_tokens_and_latency_is_the_scripts() {
    let provider =
        script(r#"{"models":{"m":{"responses":[{"texts":["Go  for\na walk"],"latency_ms":2}]}}}"#);
    let completion = provider.generate("m", &request("v1", "s", 1)).remove(0);
    let completion = completion.unwrap();
    assert_eq!(completion.prompt_tokens, 8);
    assert_eq!(completion.completion_tokens, 4);
    assert!((completion.latency_ms - 2.0).abs() < f64::EPSILON);
    assert!(!completion.truncated);
}

#[test]
fn each_scripted_error_becomes_its_provider_error() {
    let provider = script(
        r#"{"models":{"m":{"responses":[
            {"scenario":"slow","error":"timeout"},
            {"scenario":"broken","error":"http_500"},
            {"scenario":"odd","texts":["unused"],"error":"malformed"},
            {"scenario":"fine","texts":["ok"],"error":null}
        ]}}}"#,
    );
    let errors = |scenario| -> Vec<ProviderError> {
        let results = provider.generate("m", &request("v1", scenario, 2));
        results.into_iter().filter_map(Result::err).collect()
    };
    let slow = errors("slow");
    assert!(matches!(
        slow[..],
        [ProviderError::Timeout { .. }, ProviderError::Timeout { .. }]
    ));
    let broken = errors("broken");
    assert!(matches!(
        broken[0],
        ProviderError::Refused { status: 500, .. }
    ));
    assert!(matches!(errors("odd")[0], ProviderError::Malformed { .. }));
    assert!(errors("fine").is_empty());
}

#[test]
fn what_the_script_does_not_answer_is_named() {
    let provider =
        script(r#"{"models":{"m":{"responses":[{"prompt":"v1","scenario":"empty","texts":[]}]}}}"#);
    for (prompt, scenario) in [("v1", "empty"), ("v2-mentor", "unknown")] {
        let results = provider.generate("m", &request(prompt, scenario, 3));
        assert_eq!(results.len(), 3);
        for result in results {
            let error = result.unwrap_err();
            assert!(matches!(error, ProviderError::Script { .. }), "{error:?}");
            let message = error.to_string();
            for part in ["'m'", prompt, scenario] {
                assert!(message.contains(part), "{message}");
            }
        }
    }
    let unknown = provider.generate("other", &request("v1", "s", 1)).remove(0);
    assert!(matches!(unknown, Err(ProviderError::Script { .. })));
    assert!(matches!(
        provider.describe("other"),
        Err(ProviderError::Script { .. })
    ));
}

#[test]
fn mistakes_in_the_file_are_reported_with_their_place() {
    for (text, place, what) in [
        (
            r#"{"models":{"m":{"responses":[{"text":[]}]}}}"#,
            "models.m.responses[0]",
            "`text`",
        ),
        (
            r#"{"models":{"m":{"responses":[{"error":"http_404"}]}}}"#,
            "models.m.responses[0].error",
            "http_404",
        ),
        (
            "{\"models\":{\"m\":{\"responses\":[\n{\"texts\":\"one\"}]}}}",
            "models.m.responses[0].texts",
            "line 2",
        ),
        (
            r#"{"models":{"m":{"parameter_count":-1,"responses":[]}}}"#,
            "models.m.parameter_count",
            "-1",
        ),
        (
            r#"{"models":{"m":{"responses":[{"latency_ms":-5}]}}}"#,
            "models.m.responses[0].latency_ms",
            "-5",
        ),
        (r#"{"models":{"m":{}}}"#, "models.m", "responses"),
        (r#"{"models":{},"model":1}"#, "model", "unknown field"),
        (r#"{"models":{}"#, "line 1", "EOF"),
        (r#"{"models":{}} x"#, "line 1", "trailing"),
    ] {
        let message = complaint(text);
        assert!(
            message.contains(place) && message.contains(what),
            "{text}: {message}"
        );
    }
}

#[test]
fn files_are_read_and_missing_ones_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.json");
    let missing = ScriptedProvider::from_file(&path).unwrap_err().to_string();
    assert!(missing.contains("script.json"), "{missing}");
    std::fs::write(
        &path,
        r#"{"models":{"m":{"responses":[{"texts":["hi"]}]}}}"#,
    )
    .unwrap();
    let provider = ScriptedProvider::from_file(&path).unwrap();
    assert_eq!(texts(&provider, &request("v1", "s", 1)), ["hi"]);
}

#[test]
fn the_digest_follows_name_and_size_and_not_the_responses() {
    let digest = |text: &str, name: &str| script(text).describe(name).unwrap().digest;
    let base = digest(
        r#"{"models":{"m":{"parameter_count":5,"responses":[]}}}"#,
        "m",
    );
    let mended = digest(
        r#"{"models":{"m":{"parameter_count":5,"responses":[{"texts":["new"]}]}}}"#,
        "m",
    );
    let bigger = digest(
        r#"{"models":{"m":{"parameter_count":6,"responses":[]}}}"#,
        "m",
    );
    let renamed = digest(
        r#"{"models":{"n":{"parameter_count":5,"responses":[]}}}"#,
        "n",
    );
    assert_eq!(base, mended);
    assert_ne!(base, bigger);
    assert_ne!(base, renamed);
}

#[test]
fn a_script_reports_sizes_and_holds_no_weights() {
    let provider = script(
        r#"{"models":{"b":{"parameter_count":500000000,"responses":[]},"a":{"responses":[]}}}"#,
    );
    assert_eq!(provider.list().unwrap(), ["a", "b"]);
    assert_eq!(
        provider.describe("b").unwrap().parameter_count,
        Some(500_000_000)
    );
    assert_eq!(provider.describe("a").unwrap().parameter_count, None);
    assert_eq!(provider.host(), None);
    assert_eq!(provider.resident().unwrap(), []);
    assert!(provider.load("a", 2048, 5).unwrap().abs() < f64::EPSILON);
    provider.unload("a").unwrap();
}
