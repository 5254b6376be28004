use std::collections::BTreeSet;

use super::*;

#[test]
fn keys_are_unique_and_defaults_are_in_their_ranges() {
    let keys: BTreeSet<_> = OPTIONS.iter().map(|it| it.key).collect();
    assert_eq!(keys.len(), OPTIONS.len());
    assert_eq!(Options::default().range_problems(), []);
    for own in REQUEST_FIELDS {
        let twin = OptionSpec::find(own.key);
        let both = |kind: &JobKind| twin.is_some_and(|it| kind.is_in(it.fields));
        assert!(!own.requests.iter().any(both), "{} is there twice", own.key);
    }
}

#[test]
fn the_options_in_every_key_stay_as_they_are() {
    // A change here would make every user collect everything again. A new option that changes
    // the output is `Identity::WhereChanged`.
    let (always, changed) = Options::default().identity();
    let always: Vec<_> = always
        .iter()
        .map(|(key, text)| format!("{key} {text}"))
        .collect();
    assert_eq!(
        always.join(", "),
        "n_tips 5, temperature 0.7, max_tokens 128, num_ctx 2048, seed 42, diversity false"
    );
    assert_eq!(changed, []);
}

#[test]
fn numbers_out_of_range_are_named() {
    let options = Options {
        n_tips: 0,
        temperature: -1.0,
        retries: 101,
        max_model_b: 0.0,
        ..Options::default()
    };
    let problems = options.range_problems();
    let problems: Vec<_> = problems
        .iter()
        .map(|(key, it)| format!("{key} {it}"))
        .collect();
    assert_eq!(
        problems,
        [
            "n_tips is 0: use 1 to 1000",
            "temperature is -1: use 0 to 10",
            "max_model_b is 0: use billions of parameters above 0",
            "retries is 101: use at most 100",
        ]
    );
    let cost = Options {
        max_cost: f64::NAN,
        ..Options::default()
    };
    assert_eq!(cost.range_problems().len(), 1);
}

#[test]
fn the_documented_defaults_are_the_defaults() {
    let text = documented_defaults().expect("TOML");
    let read: Options = toml::from_str(&text).expect("options");
    assert_eq!(read, Options::default());
    assert!(
        text.contains("# Candidates per cell.\nn_tips = 5\n"),
        "{text}"
    );
}

#[test]
fn help_shows_defaults_as_people_write_them() {
    let shown = |key: &str| shown_default(OptionSpec::find(key).expect("an option"));
    assert_eq!(shown("max_model_b"), "4.0");
    assert_eq!(shown("n_tips"), "5");
    assert_eq!(shown("ollama_url"), "http://localhost:11434");
    assert_eq!(shown("threads"), "as many as there are free cores");
    assert_eq!(shown("diversity"), "");
    assert_eq!(shown("script"), "");
}
