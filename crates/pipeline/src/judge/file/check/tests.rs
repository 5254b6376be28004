use serde_json::json;

use super::*;
use crate::judge::file::head;

const RUBRIC: &str = "+++\nid = \"r-1\"\ncomposite = \"tone + 2*ok\"\n[[criteria]]\nname = \"tone\"\nmin = 1\nmax = 2\n[criteria.anchors]\n1 = \"rude\"\n2 = \"kind\"\n[[criteria]]\nname = \"use\"\nmin = 1\nmax = 2\n[criteria.anchors]\n1 = \"none\"\n2 = \"some\"\n[[flags]]\nname = \"ok\"\n+++\nProse.\n";
const A: &str = "aaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbb";

fn rubric() -> Rubric {
    Rubric::parse("rubric.md", RUBRIC).expect("sound")
}

fn known() -> KnownCases {
    let mut known = KnownCases::default();
    let context = ContextHash::from(&json!({"x": 1, "y": [2]}));
    known.add(A, 7, 0, "text a", context);
    known.add(B, 7, 1, "text b", context);
    known
}

fn file(a: &Value, b: &Value) -> Value {
    let mut file = Value::Object(head("e", "s", &rubric()));
    file["cases"] = json!([
        {"case": A, "context": {"y": [2], "x": 1}, "candidate": "text a", "scores": a, "rationale": "because"},
        {"case": B, "candidate": "text b", "scores": b, "rationale": null},
    ]);
    file
}

fn run(checker: &mut Checker<'_>, file: &Value) -> Vec<Scored> {
    let head: FilledHead = serde_json::from_value(file.clone()).expect("a head");
    checker.head(&head);
    let cases = file["cases"].as_array().expect("cases").iter().enumerate();
    let scored = cases
        .filter_map(|(position, case)| {
            let case: FilledCase = serde_json::from_value(case.clone()).unwrap_or_default();
            checker.case(position, &case)
        })
        .collect();
    checker.finish();
    scored
}

fn problems(file: &Value, partial: bool) -> Vec<String> {
    let rubric = rubric();
    let mut checker = Checker::new(&rubric, known(), partial);
    run(&mut checker, file);
    checker.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_complete_file_gives_verdicts_each_time_it_is_read() {
    let rubric = rubric();
    let file = file(
        &json!({"tone": 2, "use": 1, "ok": true}),
        &json!({"tone": 1, "use": 1, "ok": false}),
    );
    let mut checker = Checker::new(&rubric, known(), false);
    for _ in 0..2 {
        checker.start_again();
        let scored = run(&mut checker, &file);
        assert_eq!(checker.problems, []);
        let found: Vec<_> = scored
            .iter()
            .map(|it| (it.run, it.verdict.candidate, it.verdict.composite))
            .collect();
        assert_eq!(found, [(7, 0, 4.0), (7, 1, 1.0)]);
        assert_eq!(scored[0].verdict.rationale.as_deref(), Some("because"));
    }
}

#[test]
fn every_problem_is_reported_with_its_pointer() {
    let mut bad = file(
        &json!({"tone": 7, "use": 1, "ok": 1, "charm": 2}),
        &json!({"tone": 1.5, "use": 1, "ok": null}),
    );
    bad["rubric"]["sha256"] = json!("other");
    bad["judge"] = json!({"kind": 3, "name": ""});
    bad["cases"][0]["context"]["x"] = json!(2);
    bad["cases"][1]["candidate"] = json!("edited");
    let cases = bad["cases"].as_array_mut().expect("list");
    cases.extend([json!({"case": "zz"}), json!("case"), json!({})]);
    let found = problems(&bad, false);
    assert_eq!(
        found[..11],
        [
            "/rubric/sha256 is not r-1 as these runs have it: export again",
            "/judge/kind is 3, not a kind such as human or claude-code or null",
            "/judge/name is \"\", not a name or null",
            "/cases/0/context was edited: score the case as it was exported",
            "/cases/0/scores/tone is 7, but tone runs from 1 to 2",
            "/cases/0/scores/ok is 1, but a flag is true or false",
            "/cases/0/scores/charm is not a score of r-1",
            "/cases/1/candidate was edited: score the text as it was exported",
            "/cases/1/scores/tone is 1.5, but scores are whole numbers",
            "/cases/1/scores/ok is missing (use --partial to leave cases unscored)",
            "/cases/2/case 'zz' is not a case of this sitting",
        ]
    );
    for (problem, place) in found[11..13].iter().zip(["/cases/3/case", "/cases/4/case"]) {
        assert_eq!(
            *problem,
            format!("{place} is missing: every case keeps the id it was exported with")
        );
    }
    assert_eq!(found.len(), 13);
}

#[test]
fn partial_leaves_the_rest_and_names_what_was_begun() {
    let half = file(
        &json!({"tone": 2, "use": 1, "ok": true}),
        &json!({"tone": null, "use": 2, "ok": true}),
    );
    assert_eq!(
        problems(&half, false),
        ["/cases/1/scores/tone is missing (use --partial to leave cases unscored)"]
    );
    let rubric = rubric();
    let mut checker = Checker::new(&rubric, known(), true);
    assert_eq!(run(&mut checker, &half).len(), 1);
    assert_eq!(checker.unscored, 1);
    assert_eq!(checker.half_scored, ["/cases/1/scores/tone"]);
}

#[test]
fn lost_and_doubled_cases_are_named() {
    let scores = json!({"tone": 2, "use": 1, "ok": true});
    let mut lost = file(&scores, &scores);
    lost["cases"][1] = lost["cases"][0].clone();
    assert_eq!(
        problems(&lost, false),
        [
            format!("/cases/1/case '{A}' appears twice: keep one of them"),
            format!("/cases lacks case '{B}' (use --partial to leave cases unscored)"),
        ]
    );
}

#[test]
fn cases_of_deleted_runs_are_passed_over() {
    let rubric = rubric();
    let mut known = KnownCases::default();
    known.add(A, 0, 0, "text a", ContextHash::from(&json!({})));
    known.add_gone(B);
    let mut checker = Checker::new(&rubric, known, false);
    let mut file = file(&json!({"tone": 2, "use": 1, "ok": true}), &json!({}));
    file["cases"][0]["context"] = json!({});
    assert_eq!(run(&mut checker, &file).len(), 1);
    assert_eq!((checker.problems.len(), checker.dropped), (0, 1));
}
