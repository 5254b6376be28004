use std::collections::BTreeMap;

use assize_domain::scenario::parse_all;
use serde_json::json;

use super::*;

const SEED: &str = "Write one tip for {{ persona }} about:\n{% for task in tasks %}\n- {{ task }}\n{% endfor %}\nUse only the facts given below.\n{% if angle %}Think of {{ angle }}.{% endif %}";

fn scenarios() -> Vec<Scenario> {
    let lines = [
        json!({"id": "a", "split": "feedback", "persona": "Ana, a night nurse at the county hospital",
               "tasks": ["print the reader cards before noon today"]}),
        json!({"id": "b", "split": "selection", "persona": "Ben", "tasks": ["x"],
               "reference": "Call the landlord before the office closes."}),
        json!({"id": "c", "split": "confirmation", "persona": "Cy", "tasks": ["y", "z"],
               "mood": "calm as a lake in the early morning"}),
    ];
    let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
    parse_all("s.jsonl", &text.join("\n")).expect("scenarios")
}

fn prompt(body: &str) -> Prompt {
    Prompt::from_parts("v1", "", None, body, None).expect("sound")
}

fn check_with(num_ctx: u32, child: &str) -> Result<Prompt, Rejection> {
    let (seed, scenarios) = (prompt(SEED), scenarios());
    let anchors = [Anchor {
        id: "one".to_owned(),
        context: json!({"notes": "the bakery on the corner opens at six"}),
        candidate: "Buy two loaves of bread and go home.".to_owned(),
        flags: BTreeMap::new(),
        scores: BTreeMap::new(),
    }];
    let angles = ["rest".to_owned(), "the next few minutes".to_owned()];
    let screens = Screens::new(Material {
        seed: &seed,
        champion: &seed,
        scenarios: &scenarios,
        anchors: &anchors,
        output_contract: "one or two sentences of plain text",
        rubric: "A good tip: buy two loaves of bread at once.",
        angles: &angles,
        num_ctx,
        max_tokens: 128,
    });
    let earlier = Version::from(&seed);
    screens.check(&Version::new("v1.r1c1", None, child), &[&earlier])
}

fn rejected(child: &str) -> (String, String) {
    let it = check_with(2048, child).expect_err(child);
    (it.screen, it.reason)
}

#[test]
fn a_sound_child_passes() {
    let child = SEED.replace("Write one tip", "Write one short and friendly tip");
    let prompt = check_with(2048, &child).expect("sound");
    assert_eq!(prompt.name, "v1.r1c1");
}

#[test]
fn invalid_templates_and_unknown_variables_are_rejected() {
    let (screen, reason) = rejected("{% if %}");
    assert_eq!(screen, "parse");
    assert!(reason.contains("does not parse"), "{reason}");
    let (screen, reason) = rejected(&format!("{SEED} {{{{ budget }}}}"));
    assert_eq!(screen, "parse");
    assert!(reason.contains("'budget'"), "{reason}");
}

#[test]
fn lost_variables_are_rejected_even_if_they_are_named() {
    let lost = |child: &str, names: &str| {
        let expected = format!("its text does not show {names}");
        assert_eq!(rejected(child), ("variables".to_owned(), expected));
    };
    lost(&SEED.replace("{{ persona }}", "the person"), "persona");
    lost(
        &SEED.replace("{{ persona }}", "{% if false %}{{ persona }}{% endif %}you"),
        "persona",
    );
    lost(
        &SEED.replace("{{ persona }}", "{% set p = persona %}you"),
        "persona",
    );
    lost("Write one tip.", "angle, persona, tasks");
    // Only one scenario has a mood.
    let (screen, reason) = rejected(&format!("{SEED} {{{{ mood }}}}"));
    assert_eq!(screen, "variables");
    assert!(reason.contains("every scenario"), "{reason}");
}

#[test]
fn duplicates_are_rejected_apart_from_white_space() {
    for child in [SEED.to_owned(), SEED.replace(' ', "  ")] {
        let expected = ("duplicate".to_owned(), "its text is that of v1".to_owned());
        assert_eq!(rejected(&child), expected);
    }
}

#[test]
fn long_children_and_full_contexts_are_rejected() {
    let (screen, reason) = rejected(&format!("{SEED}\n{}", "Be kind. ".repeat(40)));
    assert_eq!(screen, "length");
    assert!(reason.contains("× the champion; at most 1.5 ×"), "{reason}");
    let child = SEED.replace("Write one tip", "Write one short and friendly tip");
    let full = check_with(160, &child).expect_err("a small context");
    assert_eq!(full.screen, "length");
    assert!(full.reason.contains("leaves 32 of 160"), "{}", full.reason);
}

#[test]
fn copied_text_of_any_split_is_rejected_and_known_text_is_not() {
    for copied in [
        "Print the reader cards, before noon!",
        "call the landlord before the doors shut",
        "calm as a lake in winter",
        "the bakery on the corner",
    ] {
        let (screen, reason) = rejected(&format!("{SEED}\n{copied}"));
        assert_eq!(screen, "leak", "{copied}: {reason}");
    }
    let (_, reason) = rejected(&format!(
        "{SEED}\nPrint the reader cards, before noon today!"
    ));
    assert_eq!(
        reason,
        "it shares 3 runs of five words with scenarios, references or anchors, first \"print the reader cards \
         before\"; write general instructions"
    );
    // The rubric holds these words of an anchor; four words of a scenario are not a run.
    for known in ["buy two loaves of bread", "print the reader cards"] {
        let child = format!("{SEED}\n{known}");
        assert!(check_with(2048, &child).is_ok(), "{known}");
    }
}
