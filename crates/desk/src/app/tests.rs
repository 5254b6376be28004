use super::*;
use serde_json::{Value, json};

const RUBRIC: &str = "+++\nid = \"r-1\"\ncomposite = \"use + tone + ok\"\n[[criteria]]\nname = \"use\"\nmin = 1\nmax = 5\n\
    [criteria.anchors]\n1 = \"none\"\n2 = \"b\"\n3 = \"c\"\n4 = \"d\"\n5 = \"much\"\n[[criteria]]\nname = \"tone\"\nmin = 1\nmax = 3\n\
    [criteria.anchors]\n1 = \"rude\"\n2 = \"so\"\n3 = \"kind\"\n[[flags]]\nname = \"ok\"\n[[flags]]\nname = \"overlong\"\n+++\nProse.\n";

fn case(id: &str) -> Case {
    let scores = json!({"use": null, "tone": null, "ok": true, "overlong": false});
    Case {
        case: id.to_owned(),
        context: json!({}),
        candidate: format!("text {id}"),
        scores: scores.as_object().cloned().unwrap_or_default(),
        rationale: None,
    }
}

fn desk(cases: &[&str]) -> App {
    let rubric = Rubric::parse("rubric.md", RUBRIC).expect("sound");
    let mut app = App::new("e", rubric);
    app.take(cases.iter().map(|id| case(id)).collect());
    app
}

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// Types letters; the last one's effect. `\n` is Enter, `<` goes back, `!` is Escape.
fn type_in(app: &mut App, keys: &str) -> Effect {
    let mut effect = Effect::None;
    for letter in keys.chars() {
        effect = app.key(key(match letter {
            '\n' => KeyCode::Enter,
            '<' => KeyCode::Left,
            '!' => KeyCode::Esc,
            letter => KeyCode::Char(letter),
        }));
    }
    effect
}

fn submitted(effect: Effect) -> (String, Value, Option<String>) {
    let Effect::Submit(verdict) = effect else {
        unreachable!("a verdict, not {effect:?}")
    };
    (
        verdict.case,
        Value::Object(verdict.scores),
        verdict.rationale,
    )
}

#[test]
fn digits_score_criterion_after_criterion_and_enter_hands_in() {
    let mut app = desk(&["a", "b"]);
    let effect = type_in(&mut app, "43l\n");
    let scores = json!({"use": 4, "tone": 3, "ok": true, "overlong": true});
    assert_eq!(submitted(effect), ("a".to_owned(), scores, None));
    assert_eq!(app.kept(), Effect::None);
    assert_eq!(app.sheet().map(|it| it.case.case.as_str()), Some("b"));
}

#[test]
fn what_is_open_or_out_of_range_is_said_and_nothing_is_handed_in() {
    let mut app = desk(&["a"]);
    assert_eq!(type_in(&mut app, "5\n"), Effect::None);
    assert_eq!(app.message, "Still open: tone.");
    assert_eq!(type_in(&mut app, "4"), Effect::None);
    assert_eq!(app.message, "tone runs from 1 to 3");
    assert_eq!(type_in(&mut app, "z"), Effect::None);
    assert_eq!(app.message, "'z' is not a key here; ? shows the keys");
}

#[test]
fn the_reason_is_edited_kept_and_left() {
    let mut app = desk(&["a"]);
    type_in(&mut app, "53rq2 is text!");
    assert_eq!(app.sheet().map(|it| it.rationale.as_str()), Some(""));
    type_in(&mut app, "rClear\u{7} and");
    app.paste("\nshort\x1b[0m");
    app.key(key(KeyCode::Backspace));
    let effect = type_in(&mut app, "\n\n");
    assert_eq!(submitted(effect).2.as_deref(), Some("Clear  and short [0"));
}

#[test]
fn undo_takes_changes_back_one_by_one_then_cases() {
    let mut app = desk(&["a", "b"]);
    let effect = type_in(&mut app, "22\n");
    submitted(effect);
    app.kept();
    type_in(&mut app, "3f");
    assert_eq!(app.sheet().and_then(|it| it.score("use")), Some(3));
    type_in(&mut app, "u");
    assert_eq!(app.sheet().and_then(|it| it.score("use")), None);
    type_in(&mut app, "u");
    let sheet = app.sheet().expect("the case before");
    assert_eq!(
        (sheet.case.case.as_str(), sheet.score("use")),
        ("a", Some(2))
    );
    // It was submitted: continuing without a change submits nothing, a change is a revision.
    assert_eq!(type_in(&mut app, "\n"), Effect::None);
    assert_eq!(app.position, 1);
    let effect = type_in(&mut app, "<5\n");
    assert_eq!(submitted(effect).1["use"], 5);
}

#[test]
fn skipped_cases_come_again_and_the_end_asks_for_more() {
    let mut app = desk(&["a", "b"]);
    type_in(&mut app, "s");
    assert_eq!(app.sheet().map(|it| it.case.case.as_str()), Some("b"));
    submitted(type_in(&mut app, "11\n"));
    app.kept();
    assert_eq!(app.sheet().map(|it| it.case.case.as_str()), Some("a"));
    submitted(type_in(&mut app, "11\n"));
    assert_eq!(app.kept(), Effect::Fetch);
    app.take(Vec::new());
    assert_eq!(app.mode, Mode::Done);
    app.take(vec![case("a"), case("c")]);
    assert_eq!(
        (app.position, app.sheets.len()),
        (2, 3),
        "known cases stay, new ones follow"
    );
    assert_eq!(app.mode, Mode::Score);
}

#[test]
fn quitting_hands_a_complete_case_in_and_leaves_another() {
    let mut app = desk(&["a"]);
    assert_eq!(type_in(&mut app, "4q"), Effect::Quit);
    let effect = type_in(&mut app, "2q");
    submitted(effect);
    assert_eq!(app.kept(), Effect::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let mut app = desk(&["a"]);
    type_in(&mut app, "r");
    assert_eq!(
        app.key(interrupt),
        Effect::Quit,
        "also while a reason is written"
    );
}

#[test]
fn a_case_that_went_to_somebody_else_leaves_the_desk() {
    let mut app = desk(&["a", "b"]);
    submitted(type_in(&mut app, "11\n"));
    let gone = Refused {
        message: "the lease ran out".to_owned(),
        gone: true,
    };
    assert_eq!(app.refused(gone), Effect::None);
    assert_eq!(app.sheet().map(|it| it.case.case.as_str()), Some("b"));
    assert_eq!(app.message, "the lease ran out");
}

#[test]
fn every_flag_has_a_key_of_its_own() {
    let app = desk(&[]);
    let keys: Vec<(&str, char)> = app
        .flag_keys
        .iter()
        .map(|(n, k)| (n.as_str(), *k))
        .collect();
    assert_eq!(keys, [("ok", 'o'), ("overlong", 'l')]);
}

#[test]
fn skipped_cases_come_after_those_that_are_fetched_later() {
    let shown = |app: &App| {
        app.sheet()
            .map(|it| it.case.case.clone())
            .unwrap_or_default()
    };
    let mut app = desk(&["a", "b"]);
    assert_eq!(type_in(&mut app, "s"), Effect::None);
    assert_eq!((shown(&app).as_str(), app.skipped()), ("b", 1));
    submitted(type_in(&mut app, "11\n"));
    // Only the skipped case is held now: others are asked for first.
    assert_eq!(app.kept(), Effect::Fetch);
    app.take(vec![case("a"), case("c"), case("d")]);
    assert_eq!(shown(&app), "c");
    assert_eq!(type_in(&mut app, "s"), Effect::None);
    assert_eq!(shown(&app), "d");
    submitted(type_in(&mut app, "11\n"));
    assert_eq!(app.kept(), Effect::Fetch);
    app.take(vec![case("a"), case("c")]);
    assert_eq!(shown(&app), "a", "in the order in which they were skipped");
    submitted(type_in(&mut app, "11\n"));
    app.kept();
    assert_eq!(type_in(&mut app, "s"), Effect::Fetch);
    app.take(vec![case("c")]);
    assert_eq!(shown(&app), "c");
    assert!(app.message.starts_with("There is no other case"));
    app.take(vec![case("c"), case("e")]);
    assert_eq!(shown(&app), "e");
    assert!(app.message.starts_with("Skipped"), "{}", app.message);
}

#[test]
fn finishing_the_sitting_is_confirmed() {
    let mut app = desk(&["a"]);
    app.progress.left = 1;
    assert_eq!(type_in(&mut app, "Q"), Effect::None);
    assert_eq!(app.mode, Mode::Finishing);
    assert_eq!(
        app.message,
        "Finish the sitting? 1 unscored case stays pending."
    );
    assert_eq!(
        type_in(&mut app, "q"),
        Effect::None,
        "any other key goes back"
    );
    assert_eq!(app.mode, Mode::Score);
    assert_eq!(type_in(&mut app, "Qy"), Effect::Finish);
}
