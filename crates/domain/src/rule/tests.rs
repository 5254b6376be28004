use serde_json::json;

use super::*;

fn rule(toml: &str) -> Result<Rule, String> {
    let source: RuleSource = toml::from_str(toml).expect(toml);
    match source.compile("the rule")? {
        Compiled::Rule(rule) => Ok(rule),
        Compiled::Command(_) => Err("a command".to_owned()),
    }
}

fn measure(toml: &str, text: &str) -> Outcome {
    let context = json!({"label": "Billing", "tags": ["a", "b"], "total": 12.5, "urgent": true,
                         "answer": {"x": [1, 2]}, "pattern": "^b.+d$", "reference": "The cat sat."});
    let rule = rule(toml).expect(toml);
    rule.fill(&context)
        .expect(toml)
        .measure(&Subject::new(text))
}

/// A rule, a text that satisfies it, and one that does not.
const RULES: &[(&str, &str, &str)] = &[
    ("equals = '{{ label }}'", "Billing", "billing"),
    (
        "equals = '{{ label }}'\nignore = ['case', 'punctuation']",
        "billing.",
        "refund",
    ),
    (
        "equals = '{{ reference }}'\nignore = ['whitespace']",
        "The  cat\nsat.",
        "The cat.",
    ),
    (
        "equals = '{{ answer }}'",
        "{\"x\": [1,2]}",
        "{\"x\": [2,1]}",
    ),
    ("one_of = ['yes', 'no']", "no", "No"),
    ("one_of = '{{ tags }}'\nignore = ['case']", "B", "c"),
    ("contains = ['Walk', 'rest']", "WALK then rest", "walk"),
    (
        "contains = '{{ label }}'\nignore = []",
        "a Billing case",
        "a billing case",
    ),
    ("contains_any = ['x', '{{ label }}']", "x", "none"),
    ("not_contains = 'sure'", "walk", "Sure, walk"),
    ("matches = '^[A-Z]'", "Walk", "walk"),
    ("regex = '{{ pattern }}'", "bread", "break"),
    ("not_matches = '\\n'", "one line", "two\nlines"),
    ("number = '{{ total }}'", "It is 12.50", "12.6"),
    ("number = 1200\ntolerance = 1", "about 1,201 euros", "1,202"),
    ("number = 200\ntolerance = '5 %'", "190", "189"),
    ("number = 0.3\ntolerance = 0.1", "0.4", "0.41"),
    ("number = -3", "−3", "3"),
    (
        "json_field = 'order.total'\nnumber = '{{ total }}'",
        "{\"order\":{\"total\":12.5}}",
        "{\"order\":{}}",
    ),
    (
        "json_field = '/label'\nequals = '{{ label }}'",
        "{\"label\":\"Billing\"}",
        "Billing",
    ),
    (
        "json_field = 'urgent'\nequals = '{{ urgent }}'",
        "{\"urgent\":true}",
        "{\"urgent\":false}",
    ),
    (
        "json_schema = { type = 'object', required = ['tip'] }",
        "{\"tip\":1}",
        "[]",
    ),
    ("set_f1 = '{{ tags }}'", "b, a", "a"),
    (
        "json_field = 't'\nset_f1 = '{{ tags }}'",
        "{\"t\":[\"b\",\"a\"]}",
        "{\"t\":[\"a\"]}",
    ),
    (
        "similarity = '{{ reference }}'\nat_least = 0.8",
        "The cat sat",
        "A dog ran",
    ),
    ("rouge = '{{ reference }}'", "the cat sat", "the cat"),
    ("bleu = '{{ reference }}'", "The cat sat!", "The cat."),
    ("max_words = 2", "a b", "a b c"),
    ("min_words = 2", "a b", "a"),
    ("max_chars = 3", "äöü", "äöüß"),
    (
        "language = 'en'",
        "Take a short walk before the meeting and bring the report.",
        "Mach vor der Besprechung einen kurzen Spaziergang und nimm den Bericht mit.",
    ),
];

#[test]
fn each_rule_holds_or_fails() {
    for (rule, holds, fails) in RULES {
        let outcome = measure(rule, holds);
        assert!(
            outcome.holds() && outcome.why.is_none(),
            "{rule} should hold for {holds}: {outcome:?}"
        );
        let outcome = measure(rule, fails);
        assert!(
            !outcome.holds() && outcome.why.is_some(),
            "{rule} should fail for {fails}: {outcome:?}"
        );
    }
}

#[test]
fn graded_rules_give_shares() {
    let share = |toml: &str, text: &str| format!("{:.3}", measure(toml, text).share);
    assert_eq!(share("set_f1 = '{{ tags }}'", "- a\n- c"), "0.500");
    assert_eq!(share("similarity = 'kitten'", "sitting"), "0.571");
    let rouge = "rouge = 'police killed the gunman'";
    assert_eq!(share(rouge, "police kill the gunman"), "0.750");
}

#[test]
fn reasons_say_what_was_expected_or_what_the_task_says() {
    let why = |toml: &str, text: &str| measure(toml, text).why.expect("it fails");
    assert_eq!(
        why("equals = '{{ label }}'", "Refund"),
        "expected 'Billing', found 'Refund'"
    );
    assert_eq!(
        why("equals = 'a'\nreason = 'Wrong label.'", "b"),
        "Wrong label."
    );
    assert_eq!(
        why("json_field = 'a.b'\nequals = 1", "{}"),
        "it has no member /a/b"
    );
    assert!(why("json_schema = { required = ['a'] }", "{}").contains("does not fit the schema"));
    assert_eq!(why("number = 4\ntolerance = 1", "7"), "expected 4, found 7");
}

#[test]
fn mistakes_are_named() {
    let wrong = |toml: &str, expected: &str| {
        let found = rule(toml).expect_err(toml);
        assert!(found.contains(expected), "{toml}: {found}");
    };
    wrong("reason = 'x'", "has 0 rules");
    wrong("equals = 'a'\nnumber = 1", "has 2 rules");
    wrong("matches = '('", "not a regular expression");
    wrong(
        "equals = 'a'\ntolerance = 1",
        "tolerance goes with number only",
    );
    wrong("number = 1\ntolerance = 'much'", "percentage");
    wrong("equals = 'a'\nat_least = 0.5", "at_least goes with");
    wrong("rouge = 'a'\nat_least = 2", "at_least must be");
    wrong("max_words = 3\nignore = ['case']", "ignore goes with");
    wrong("json_field = ''\nequals = 'a'", "json_field is empty");
    wrong("json_schema = { type = 'nonsense' }", "not a JSON schema");
    wrong("language = 'xx'", "not a language");
    wrong("equals = '{{ broken'", "does not parse");
    wrong("command = []", "command is empty");
    wrong("contains = ''", "looks for is empty");
    wrong("contains_any = ['a', '']", "looks for is empty");
    wrong("not_contains = ''", "looks for is empty");
    wrong(
        "contains = '...'\nignore = ['punctuation']",
        "looks for is empty",
    );
    wrong("one_of = []", "compares with is empty");
    wrong("matches = ''", "expression is empty");
    for (toml, expected) in [
        ("contains = '{{ blank }}'", "looks for is empty"),
        ("contains_any = ['x', '{{ blank }}']", "looks for is empty"),
        ("not_contains = '{{ blank }}'", "looks for is empty"),
        ("contains = '{{ none }}'", "compares with is empty"),
        ("one_of = '{{ none }}'", "compares with is empty"),
        ("regex = '{{ blank }}'", "expression is empty"),
        ("not_matches = '{{ blank }}'", "expression is empty"),
        ("rouge = '{{ blank }}'", "has no words"),
        ("bleu = '{{ blank }}'", "has no words"),
    ] {
        let rule = rule(toml).expect("sound");
        let found = rule
            .fill(&json!({"blank": "", "none": []}))
            .expect_err(toml);
        assert!(found.contains(expected), "{toml}: {found}");
    }
    // Nothing forbidden, and an empty answer that is expected, say something.
    for toml in [
        "not_contains = '{{ none }}'",
        "equals = '{{ blank }}'",
        "one_of = ['{{ blank }}']",
    ] {
        let rule = rule(toml).expect("sound");
        rule.fill(&json!({"blank": "", "none": []})).expect(toml);
    }
    let rule = rule("equals = '{{ nothing }}'").expect("sound");
    assert!(
        rule.fill(&json!({}))
            .expect_err("no field")
            .contains("no field 'nothing'")
    );
}
