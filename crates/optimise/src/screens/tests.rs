use std::collections::BTreeMap;

use assize_domain::scenario::parse_all;
use serde_json::json;

use super::*;

const SEED: &str = "Write one tip for {{ persona }} about:\n{% for task in tasks %}\n- {{ task }}\n{% endfor %}\nUse only the facts given below.\n{% if angle %}Think of {{ angle }}.{% endif %}";

fn scenarios() -> Vec<Scenario> {
    let lines = [
        json!({"id": "a", "split": "feedback", "persona": "Ana, a night nurse at the county hospital",
               "shift": "night", "tasks": ["print the reader cards before noon today"]}),
        json!({"id": "b", "split": "selection", "persona": "Ben", "tasks": ["x"],
               "reference": "Call the landlord before the office closes."}),
        json!({"id": "c", "split": "confirmation", "persona": "Cy", "tasks": ["y", "z"],
               "mood": "calm as a lake in the early morning",
               "note": "今天晚上之前必须完成的第三号事项的计划安排和准备工作"}),
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
    // Only one scenario of the feedback split has a shift.
    let (screen, reason) = rejected(&format!("{SEED} {{{{ shift }}}}"));
    assert_eq!(screen, "variables");
    assert!(reason.contains("every scenario"), "{reason}");
}

#[test]
fn names_of_fields_that_only_hidden_scenarios_have_are_not_told() {
    let (screen, reason) = rejected(&format!("{SEED} {{{{ budget }}}}"));
    assert_eq!(screen, "parse");
    assert!(reason.contains("persona, shift, tasks"), "{reason}");
    assert!(!reason.contains("mood"), "{reason}");
    let (screen, reason) = rejected(&format!("{SEED} {{{{ mood }}}}"));
    assert_eq!(screen, "parse");
    assert!(!reason.contains("every scenario"), "{reason}");
}

#[test]
fn templates_without_an_end_are_rejected() {
    let loops = "{% for a in [0,1,2,3,4,5,6,7] %}".repeat(8);
    let ends = "{% endfor %}".repeat(8);
    for (child, screen) in [
        (format!("{SEED}{loops}{ends}"), "variables"),
        (format!("{SEED}{loops}text{ends}"), "variables"),
        (
            format!("{SEED}{{{{ persona|indent(9000000000) }}}}"),
            "variables",
        ),
        (format!("{SEED}{{{{ persona * 9000000000 }}}}"), "parse"),
    ] {
        assert_eq!(rejected(&child).0, screen, "{child}");
    }
}

#[test]
fn control_and_invisible_characters_are_rejected() {
    for (text, found) in [
        ("\u{1b}[2J", "U+001B"),
        ("\u{e0041}\u{e0042}", "U+E0041"),
        ("ze\u{200b}ro", "U+200B"),
        ("\u{202e}", "U+202E"),
    ] {
        let (screen, reason) = rejected(&format!("{SEED}\nBe kind.{text}"));
        assert_eq!(screen, "characters");
        assert!(reason.contains(found), "{reason}");
        assert!(reason.starts_with("line 7 "), "{reason}");
    }
    let child = SEED.replace("Write one tip", "Write one tip 👩\u{200d}💻");
    assert!(check_with(2048, &child).is_ok());
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
    // Neither comments nor tags nor characters that nobody sees hide a run.
    for hidden in [
        "Print the reader {# z #} cards {# q #} before noon",
        "Print the {{ 'reader ca' ~ 'rds' }} before noon",
        "Print the {% if true %}reader{% endif %} cards before noon",
        "Print the rea\u{200d}der cards before noon",
    ] {
        let (screen, reason) = rejected(&format!("{SEED}\n{hidden}"));
        assert_eq!(screen, "leak", "{hidden}: {reason}");
    }
    let (screen, reason) = rejected(&format!("{SEED}\n必须完成的，第三号事项的计划"));
    assert_eq!(screen, "leak");
    assert!(reason.contains("of ten characters"), "{reason}");
    assert!(check_with(2048, &format!("{SEED}\n计划安排和准备")).is_ok());
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
