//! Responses that match by the content of the rendered prompt.

use super::{complaint, request, script, texts};

/// A request whose user message is `prompt`; its prompt version is `v1`, its scenario `s`.
fn asking(prompt: &str) -> assize_providers::Request {
    let mut request = request("v1", "s", 1);
    prompt.clone_into(&mut request.candidates[0].messages[1].content);
    request
}

#[test]
fn the_first_match_wins_among_conditions_too() {
    let provider = script(
        r#"{"models":{"m":{"responses":[
            {"prompt":"v2","texts":["v2"]},
            {"prompt_contains":["brief","kind"],"texts":["both"]},
            {"prompt":"v1","scenario":"s","prompt_contains":"brief","texts":["brief"]},
            {"prompt_contains":"kind","prompt_lacks":"never","texts":["kind"]},
            {"scenario":"s","texts":["rest"]},
            {"prompt_contains":"late","texts":["hidden"]}
        ]}}}"#,
    );
    for (prompt, expected) in [
        ("Be brief and kind.", "both"),
        ("Be brief.", "brief"),
        ("Be kind.", "kind"),
        ("Be kind, never rude.", "rest"),
        ("Be Brief.", "rest"),
        ("Be late.", "rest"),
    ] {
        assert_eq!(texts(&provider, &asking(prompt)), [expected], "{prompt}");
    }
    let mut other = asking("Be brief and kind.");
    other.prompt = "v2".to_owned();
    assert_eq!(texts(&provider, &other), ["v2"]);
    other.scenario = "t".to_owned();
    other.prompt = "v3".to_owned();
    assert_eq!(texts(&provider, &other), ["both"]);
}

#[test]
fn the_system_message_counts_and_every_candidate_matches_by_itself() {
    let provider = script(
        r#"{"models":{"m":{"responses":[
            {"prompt_contains":["one tip","morning"],"texts":["a","b"]},
            {"texts":["c","d"]}
        ]}}}"#,
    );
    let mut request = request("v1", "s", 3);
    for position in [1, 2] {
        "It is morning.".clone_into(&mut request.candidates[position].messages[1].content);
    }
    assert_eq!(texts(&provider, &request), ["c", "b", "a"]);
}

#[test]
fn defects_are_appended_where_the_prompt_does_not_prevent_them() {
    let provider = script(
        r#"{"models":{"m":{"responses":[{"texts":["Walk."],"append":[
            {"prompt_lacks":"one sentence","text":" And rest."},
            {"prompt_contains":"shout","text":"!"},
            {"scenario":"s","prompt_lacks":"formal","text":" Dude."},
            {"scenario":"t","text":" Never here."}
        ]}]}}}"#,
    );
    for (prompt, expected) in [
        ("Give a tip.", "Walk. And rest. Dude."),
        ("Give one sentence.", "Walk. Dude."),
        ("Be formal, in one sentence.", "Walk."),
        ("Be formal, shout it.", "Walk. And rest.!"),
    ] {
        assert_eq!(texts(&provider, &asking(prompt)), [expected], "{prompt}");
    }
}

#[test]
fn conditions_that_cannot_be_meant_are_refused() {
    for (response, place, what) in [
        (
            r#"{"prompt_contains":7}"#,
            "models.m.responses[0].prompt_contains",
            "a list of texts",
        ),
        (
            r#"{"prompt_contains":""}"#,
            "models.m.responses[0]",
            "an empty text",
        ),
        (
            r#"{"prompt_lacks":["a",""]}"#,
            "models.m.responses[0]",
            "an empty text",
        ),
        (
            r#"{"append":[{"prompt_lacks":"a"}]}"#,
            "models.m.responses[0].append[0]",
            "text",
        ),
        (r#"{"cost_usd":-1}"#, "models.m.responses[0]", "from 0"),
    ] {
        let message = complaint(&format!(
            r#"{{"models":{{"m":{{"responses":[{response}]}}}}}}"#
        ));
        assert!(
            message.contains(place) && message.contains(what),
            "{response}: {message}"
        );
    }
}
