//! The seal of the confirmation split, and the ledger of looks and attempts.

use assize_domain::ledger::Entry;
use assize_store::Ledger as _;
use assize_store::embedded::{EmbeddedStore, random_run_id};
use assize_test_support::promotion_task::{ahead, collect, fill, judge, scratch};
use assize_test_support::{Outcome, Scratch};
use serde_json::{Value, json};

const PROMOTE: &str = "promote --task task --experiment e";
const CONFIRMATION: &str = "compare --experiment e --split confirmation";

/// Collected and judged on both splits, and nothing tried yet.
fn judged() -> Scratch {
    let scratch = scratch(ahead);
    fill(&scratch);
    scratch
}

fn ledger(scratch: &Scratch) -> Vec<Value> {
    let shown = scratch.ok("promote ledger --experiment e --json").json();
    assert_eq!(shown["experiment"], "e");
    shown["entries"].as_array().expect("entries").clone()
}

fn with(scratch: &Scratch, line: &str, variable: (&str, &str)) -> Outcome {
    let mut command = scratch.command(line);
    command.env(variable.0, variable.1);
    Outcome::of(&command.output().expect("the binary runs"))
}

#[track_caller]
fn is_sealed(scratch: &Scratch) {
    let refused = scratch.fails(3, CONFIRMATION);
    for words in ["sealed", "assize promote", "--unseal", "ledger"] {
        assert!(refused.stderr.contains(words), "{words}: {refused}");
    }
    assert_eq!(refused.stdout, "");
}

#[test]
fn the_board_is_sealed_and_every_look_is_recorded() {
    let scratch = judged();
    is_sealed(&scratch);
    scratch.fails(3, format!("{CONFIRMATION} -o board.html").as_str());
    assert!(!scratch.file("board.html").exists());
    assert!(ledger(&scratch).is_empty());
    let empty = scratch.ok("promote ledger --experiment e");
    assert!(empty.stderr.contains("ledger is empty"), "{empty}");
    assert_eq!(scratch.board("e")["confirmation"], Value::Null);

    for looks in 1..=2 {
        let seen = scratch.ok(format!("{CONFIRMATION} --unseal --json").as_str());
        let board = seen.json();
        assert_eq!(board["rows"].as_array().map(Vec::len), Some(2), "{board}");
        assert_eq!(board["confirmation"]["looks"], looks);
    }
    let entries = ledger(&scratch);
    assert_eq!(entries.len(), 2);
    for (number, entry) in (1..).zip(&entries) {
        assert_eq!(entry["number"], number);
        assert_eq!(
            (&entry["kind"], &entry["via"], &entry["by"], &entry["split"]),
            (
                &json!("look"),
                &json!("command"),
                &json!("tester"),
                &json!("confirmation")
            )
        );
    }
    // A look opens nothing for the next one.
    is_sealed(&scratch);
    let board = scratch.ok("compare --experiment e");
    let words = "Confirmation: looked at 2 times.";
    assert!(board.stdout.contains(words), "{board}");
    let page = scratch.ok("compare --experiment e -o board.html -o board.md");
    for file in ["board.html", "board.md"] {
        assert!(scratch.read(file).contains(words), "{file}: {page}");
    }
    let unknown = scratch.fails(2, "compare --experiment f --split confirmation --unseal");
    assert!(unknown.stderr.contains("no experiment 'f'"), "{unknown}");
}

#[test]
fn an_attempt_that_sees_the_confirmation_opens_it_and_is_recorded() {
    let scratch = judged();
    // A dry run shows the confirmation's figures, so it is an attempt.
    let dry = scratch.ok(format!("{PROMOTE} --dry-run").as_str());
    assert!(dry.stderr.contains("Confirmation: 1 attempt."), "{dry}");
    let entries = ledger(&scratch);
    assert_eq!(entries.len(), 1);
    let entry = &entries[0];
    assert_eq!(
        (&entry["kind"], &entry["outcome"], &entry["split"]),
        (&json!("attempt"), &json!("passed"), &json!("confirmation"))
    );
    assert_eq!(entry["candidate"]["prompt"], "p2");
    assert_eq!(entry["incumbent"]["prompt"], "p1");
    for figure in ["confirmation", "confirmation.scale", "p_adjusted", "margin"] {
        assert!(entry["figures"][figure].is_number(), "{figure}: {entry}");
    }
    // Now everybody may look, which is not recorded any more.
    scratch.ok(CONFIRMATION);
    scratch.ok(format!("{CONFIRMATION} --unseal").as_str());
    assert_eq!(ledger(&scratch).len(), 1);

    let done = scratch.ok(format!("{PROMOTE} --json").as_str()).json();
    assert_eq!(
        done["confirmation"],
        json!({"looks": 0, "attempts": 2, "candidates": 1})
    );
    let table = scratch.ok("promote ledger --experiment e");
    assert!(table.stdout.contains("attempt"), "{table}");
    assert!(
        table.stdout.lines().all(|it| it.chars().count() <= 80),
        "{table}"
    );
}

#[test]
fn later_attempts_use_the_scale_of_the_first() {
    let scratch = judged();
    scratch.ok(format!("{PROMOTE} --dry-run").as_str());
    let own = ledger(&scratch)[0].clone();
    // An earlier attempt by the same pairs, which had another spread on the selection split.
    let mut earlier: Entry = serde_json::from_value(own.clone()).expect("an entry");
    earlier.id = "earlier".to_owned();
    earlier.at = "2020-01-01T00:00:00.000Z".to_owned();
    earlier
        .figures
        .insert("confirmation.scale".to_owned(), 50.0);
    let store = scratch.file(".assize/assize.db");
    let store = EmbeddedStore::open(&store, || 0, random_run_id).expect("a store");
    store.ledger_append("e", &earlier).expect("an entry");
    scratch.fails(3, format!("{PROMOTE} --dry-run").as_str());
    let latest = ledger(&scratch).pop().expect("an entry");
    let figure = |entry: &Value, name: &str| entry["figures"][name].as_f64().expect("a figure");
    assert!((figure(&latest, "confirmation.scale") - 50.0).abs() < 1e-9);
    assert!(figure(&latest, "confirmation") > figure(&own, "confirmation"));
}

#[test]
fn an_attempt_that_fails_before_the_confirmation_leaves_it_sealed() {
    let scratch = judged();
    let margin = ("ASSIZE_GATE_MARGIN", "9");
    assert_eq!(
        with(&scratch, &format!("{PROMOTE} --dry-run"), margin).code,
        3
    );
    assert!(ledger(&scratch).is_empty(), "nothing was seen");
    assert_eq!(with(&scratch, PROMOTE, margin).code, 3);
    let entries = ledger(&scratch);
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["outcome"], "not_reached");
    assert_eq!(entries[0]["split"], Value::Null);
    assert_eq!(entries[0]["figures"]["confirmation"], Value::Null);
    is_sealed(&scratch);
    assert_eq!(scratch.board("e")["confirmation"], Value::Null);
}

#[test]
fn a_confirmation_that_is_not_collected_is_not_seen() {
    let scratch = scratch(ahead);
    collect(&scratch, "");
    judge(&scratch);
    scratch.fails(3, PROMOTE);
    assert_eq!(ledger(&scratch)[0]["outcome"], "incomplete");
    collect(&scratch, "--split confirmation --prompts p1,p2");
    judge(&scratch);
    is_sealed(&scratch);
    scratch.ok(PROMOTE);
    assert_eq!(ledger(&scratch).len(), 2);
    scratch.ok(CONFIRMATION);
}

fn runs(scratch: &Scratch, more: &str) -> Vec<Value> {
    let line = format!("runs list --experiment e --limit 0 --json {more}");
    let shown = scratch.ok(line.as_str()).json();
    shown["runs"].as_array().expect("runs").clone()
}

#[test]
fn lists_of_runs_leave_sealed_scores_out() {
    let scratch = judged();
    let all = runs(&scratch, "");
    assert_eq!(all.len(), 36, "three pairs on 8 scenarios, two on 6");
    for run in &all {
        let sealed = run["params"]["split"] == "confirmation";
        assert_eq!(run["sealed"], sealed, "{run}");
        for score in ["composite", "worth", "expert.composite", "auto.tone", "ok"] {
            assert_eq!(run["metrics"][score].is_null(), sealed, "{score}: {run}");
        }
        assert!(run["metrics"]["n_candidates"].is_number(), "{run}");
    }
    assert_eq!(runs(&scratch, "--split selection").len(), 24);
    let sealed = runs(&scratch, "--split confirmation");
    assert_eq!(sealed.len(), 12);
    let table = scratch.ok("runs list --experiment e --split confirmation");
    assert_eq!(table.stdout.matches(" sealed\n").count(), 12, "{table}");
    assert!(table.stderr.contains("--unseal"), "{table}");

    let id = sealed[0]["run_id"].as_str().expect("an id");
    let show = |more: &str| scratch.ok(format!("runs show {id} {more}").as_str());
    let shown = show("--json").json();
    assert_eq!(shown["verdicts"], Value::Null, "{shown}");
    assert!(shown["candidates"].is_array(), "outputs are not sealed");
    let text = show("");
    assert!(!text.stdout.contains("composite"), "{text}");

    scratch.ok("runs export --experiment e -o runs.csv");
    let sealed_lines = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|it| it.contains(",confirmation,"));
        lines.map(str::to_owned).collect()
    };
    let lines = sealed_lines(&scratch.read("runs.csv"));
    assert_eq!(lines.len(), 24, "{lines:?}");
    // Neither the composite, which follows, nor a score, a flag or a judge.
    assert!(
        lines
            .iter()
            .all(|it| it.contains(",confirmation,true,,,,,,shop-v1,,,,,,")),
        "{lines:?}"
    );
    let exported = scratch.ok("runs export --experiment e --split confirmation");
    for line in exported.json_lines() {
        assert_eq!(line["verdicts"], Value::Null, "{line}");
        assert_eq!(line["metrics"]["composite"], Value::Null, "{line}");
    }
    assert!(ledger(&scratch).is_empty());

    // Each of these is one look, whatever it shows.
    assert!(
        runs(&scratch, "--unseal")
            .iter()
            .all(|it| it["metrics"]["composite"].is_number())
    );
    assert!(show("--json --unseal").json()["verdicts"].is_array());
    scratch.ok("runs export --experiment e -o runs.csv --unseal");
    let lines = sealed_lines(&scratch.read("runs.csv"));
    assert!(
        lines
            .iter()
            .all(|it| it.contains(",confirmation,false,") && !it.contains(",confirmation,false,,"))
    );
    assert_eq!(ledger(&scratch).len(), 3);
    // Nothing sealed was shown here.
    runs(&scratch, "--split selection --unseal");
    assert_eq!(ledger(&scratch).len(), 3);
}

#[test]
fn agreement_and_means_of_judges_leave_sealed_scores_out() {
    let scratch = judged();
    let status = |more: &str| {
        let line = format!("judge status --experiment e --json {more}");
        scratch.ok(line.as_str()).json()
    };
    let verdicts = |status: &Value| -> Vec<u64> {
        let judges = status["judges"].as_array().expect("judges").iter();
        judges.filter_map(|it| it["verdicts"].as_u64()).collect()
    };
    let sealed = status("");
    assert_eq!(sealed["sealed"], 24, "{sealed}");
    assert_eq!(verdicts(&sealed), [48, 48], "{sealed}");
    assert_eq!(sealed["agreement"][0]["items"], 48, "{sealed}");
    assert_eq!(sealed["expert"]["judged"], 36, "progress is not sealed");
    let text = scratch.ok("judge status --experiment e");
    assert!(
        text.stdout
            .contains("leave out 24 candidates of the sealed"),
        "{text}"
    );
    assert!(ledger(&scratch).is_empty());
    let open = status("--unseal");
    assert_eq!(verdicts(&open), [72, 72], "{open}");
    assert_eq!(ledger(&scratch).len(), 1);
    scratch.ok(PROMOTE);
    assert_eq!(verdicts(&status("")), [72, 72]);
}

#[test]
fn other_commands_do_not_show_sealed_scores() {
    let scratch = judged();
    let adaptive = scratch.fails(
        2,
        "collect --task task --models scripted:m --script script.json --experiment e --adaptive \
         --judge scripted:m --split confirmation",
    );
    assert!(adaptive.stderr.contains("sealed"), "{adaptive}");
    let run = &runs(&scratch, "--split confirmation")[0];
    let id = run["run_id"].as_str().expect("an id");
    let line =
        format!("judge amend {id} --candidate 0 --set tone=5 --set worth=5 --reason typo --json");
    let amended = scratch.ok(line.as_str());
    assert_eq!(amended.json()["before"], Value::Null, "{amended}");
    assert!(!amended.stderr.contains("composite"), "{amended}");
    assert!(ledger(&scratch).is_empty());
}

#[test]
fn a_copy_has_the_ledgers_of_both_sides() {
    let scratch = judged();
    let there = "sqlite:there.db";
    let here = "sqlite:.assize/assize.db";
    let sync = |from: &str, to: &str| {
        let line = format!("sync --from {from} --to {to} --experiment e --json");
        scratch.ok(line.as_str()).json()
    };
    scratch.ok(format!("{CONFIRMATION} --unseal").as_str());
    let first = sync(here, there);
    assert_eq!(
        (&first["ledger"], &first["experiment_tags"]),
        (&json!(1), &json!(0))
    );
    scratch.ok(format!("{CONFIRMATION} --unseal --tracking-uri {there}").as_str());
    scratch.ok(format!("{CONFIRMATION} --unseal").as_str());
    assert_eq!(sync(here, there)["ledger"], 1);
    assert_eq!(sync(there, here)["ledger"], 1);
    for (from, to) in [(here, there), (there, here)] {
        assert_eq!(sync(from, to)["ledger"], 0);
    }
    let at = format!("promote ledger --experiment e --json --tracking-uri {there}");
    let copy = scratch.ok(at.as_str()).json();
    let entries = ledger(&scratch);
    assert_eq!(entries.len(), 3);
    assert_eq!(copy["entries"], json!(entries));
    // What opens one side opens the other.
    scratch.ok(format!("{PROMOTE} --dry-run --tracking-uri {there}").as_str());
    is_sealed(&scratch);
    sync(there, here);
    scratch.ok(CONFIRMATION);
}
