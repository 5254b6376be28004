//! The scripted judge, asked as an automatic judge asks.

use assize_domain::fence;
use assize_providers::scripted::ScriptedProvider;
use assize_providers::{Candidate, Message, Provider as _, Request, Role, Sampling};
use serde_json::{Value, json};

use super::{complaint, script};

fn judging(text: &str, seed: u32) -> Request {
    let asked = fence::enclose(fence::CANDIDATE, "n0nce", text);
    let message = |role, content: String| Message { role, content };
    let schema = json!({"type": "object", "properties": {
        "reason": {"type": "string"},
        "tone": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
        "use": {"type": "integer", "enum": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]},
        "kind": {"type": "boolean"},
    }});
    Request {
        prompt: "judge".to_owned(),
        scenario: "judge".to_owned(),
        candidates: vec![Candidate {
            messages: vec![
                message(Role::System, "Judge walking strictly.".to_owned()),
                message(
                    Role::User,
                    format!("Context:\n{{}}\n\n{asked}\n\nScore it."),
                ),
            ],
            seed,
        }],
        sampling: Sampling {
            temperature: 0.0,
            max_tokens: 200,
            num_ctx: 4096,
            json_schema: Some(schema),
            ..Sampling::default()
        },
        ..Request::default()
    }
}

fn verdict(provider: &ScriptedProvider, text: &str, seed: u32) -> Value {
    let answer = provider.generate("m", &judging(text, seed)).remove(0);
    serde_json::from_str(&answer.unwrap().text).unwrap()
}

#[test]
fn phrases_of_the_candidate_decide() {
    let provider = script(
        r#"{"models":{"m":{"judge":{"noise":0,"bias":{"use":1}},
            "scores":{
                "walk":{"tone":4,"use":7,"kind":true,"reason":"It names a walk."},
                "walk fast":{"tone":1,"use":1},
                "*":2},
            "adjustments":[
                {"candidate_contains":"please","points":{"tone":3},"reason":"It is polite."},
                {"candidate_lacks":["please","now"],"points":-1}]}}}"#,
    );
    for (text, expected) in [
        (
            "Take a walk now.",
            json!({"reason": "It names a walk.", "tone": 4, "use": 8, "kind": true}),
        ),
        (
            "Please walk.",
            json!({"reason": "It names a walk.", "tone": 3, "use": 7, "kind": true}),
        ),
        (
            "walk, please",
            json!({"reason": "It names a walk. It is polite.", "tone": 5, "use": 8, "kind": true}),
        ),
        (
            "walk fast",
            json!({"reason": "No reason is scripted for this verdict.", "tone": 1, "use": 1, "kind": false}),
        ),
        (
            "Rest now.",
            json!({"reason": "No reason is scripted for this verdict.", "tone": 2, "use": 3, "kind": false}),
        ),
    ] {
        assert_eq!(verdict(&provider, text, 1), expected, "{text}");
    }
}

#[test]
fn noise_has_its_size_and_belongs_to_the_case() {
    let of = |noise: f64, seed: u64| {
        script(&format!(
            r#"{{"models":{{"m":{{"judge":{{"noise":{noise},"seed":{seed}}},"scores":{{"*":{{"tone":3,"use":5}}}}}}}}}}"#
        ))
    };
    let scores = |provider: &ScriptedProvider| -> Vec<f64> {
        let cases = 0..2000;
        let all = cases.map(|case| verdict(provider, "Walk.", case)["use"].as_f64());
        all.map(Option::unwrap).collect()
    };
    let noisy = scores(&of(1.0, 1));
    let mean = noisy.iter().sum::<f64>() / 2000.0;
    let variance = noisy.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 2000.0;
    // Rounding to whole points adds a twelfth.
    assert!((mean - 5.0).abs() < 0.1, "{mean}");
    assert!((variance - 13.0 / 12.0).abs() < 0.15, "{variance}");
    assert_eq!(noisy, scores(&of(1.0, 1)), "the same again");
    assert_ne!(noisy, scores(&of(1.0, 2)), "another seed");
    assert!(scores(&of(0.0, 1)).iter().all(|it| (it - 5.0).abs() < 1e-9));
    // A case's noise does not follow its text.
    let provider = of(1.0, 1);
    assert_eq!(
        verdict(&provider, "Walk.", 9)["use"],
        verdict(&provider, "Rest.", 9)["use"]
    );
}

#[test]
fn a_judge_answers_other_requests_by_its_responses_and_costs_what_the_script_says() {
    let provider = script(
        r#"{"models":{"m":{"judge":{"cost_usd":0.5},"scores":{"*":3},"responses":[{"texts":["hi"]}]}}}"#,
    );
    let plain = super::request("v1", "s", 1);
    assert_eq!(super::texts(&provider, &plain), ["hi"]);
    let answer = provider.generate("m", &judging("x", 1)).remove(0).unwrap();
    assert_eq!(answer.cost_usd, Some(0.5));
    assert!(answer.prompt_tokens > 5 && answer.completion_tokens > 0);
}

#[test]
fn what_a_judge_lacks_is_named() {
    let said = |model: &str| {
        let provider = script(&format!(r#"{{"models":{{"m":{model}}}}}"#));
        let answer = provider.generate("m", &judging("Rest.", 1)).remove(0);
        answer.unwrap_err().to_string()
    };
    for (model, part) in [
        (r#"{"judge":{},"scores":{"walk":3}}"#, "begins 'Rest.'"),
        (
            r#"{"judge":{},"scores":{"*":{"tone":3}}}"#,
            "criterion 'use'",
        ),
        (
            r#"{"judge":{"bias":{"tune":1}},"scores":{"*":3}}"#,
            "'tune'",
        ),
    ] {
        let said = said(model);
        assert!(
            said.contains(part) && said.contains("'m'"),
            "{model}: {said}"
        );
    }
    for (model, part) in [
        (r#"{"judge":{}}"#, "needs scores"),
        (r#"{"scores":{"*":1},"responses":[]}"#, "add \"judge\""),
        (r#"{"judge":{"noise":-1},"scores":{"*":1}}"#, "noise is -1"),
        (r#"{"judge":{},"scores":{"*":{"tone":"high"}}}"#, "'tone'"),
        (r#"{"judge":{},"scores":{"*":[1]}}"#, "scores.*"),
        (
            r#"{"judge":{},"scores":{"*":1},"adjustments":[{"points":1}]}"#,
            "candidate_contains",
        ),
        ("{}", "`responses` (or `judge`)"),
    ] {
        let said = complaint(&format!(r#"{{"models":{{"m":{model}}}}}"#));
        assert!(
            said.contains("models.m") && said.contains(part),
            "{model}: {said}"
        );
    }
}
