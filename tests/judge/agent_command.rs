//! `assize judge agent`: any command that reads a judge file and prints one.

use assize_test_support::{Outcome, Scratch};

use crate::pending;

fn collected() -> Scratch {
    Scratch::pending("scripted:a", "p1", 4)
}

fn agent(scratch: &Scratch, command: &str, words: &str) -> Outcome {
    let mut all = vec![
        "judge",
        "agent",
        "--experiment",
        "e",
        "--json",
        "--cmd",
        command,
    ];
    all.extend(words.split_whitespace());
    scratch.run(&all)
}

/// A judge without a mind: it fills every score in with a 3.
const FILL: &str = r#"sed 's/"worth": null/"worth": 3/'"#;

#[test]
fn a_command_clears_the_queue_in_batches_with_prose_around_the_file() {
    let scratch = collected();
    let command =
        format!("echo 'Here it is:'; echo '```json'; {FILL}; echo '```'; echo thinking >&2");
    let outcome = agent(&scratch, &command, "--batch 3 --limit 3 --judge-kind codex");
    assert_eq!(outcome.code, 0, "{outcome}");
    let summary = outcome.json();
    assert_eq!(
        (&summary["judged"], &summary["calls"]),
        (&4.into(), &2.into()),
        "the second scenario is completed\n{outcome}"
    );
    assert!(outcome.stderr.contains("agent: thinking"), "{outcome}");
    let outcome = agent(&scratch, &command, "--batch 3 --judge-kind codex");
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(pending(&scratch, "expert"), 0);
    let again = agent(&scratch, &command, "");
    assert_eq!(again.code, 0, "{again}");
    assert!(again.stderr.contains("Nothing is pending"), "{again}");
    for run in scratch.ok("runs export --experiment e").json_lines() {
        let files = run["verdicts"].as_array().expect("verdict files");
        assert!(
            !files.is_empty() && files.iter().all(|it| it["judge"]["kind"] == "codex"),
            "{run}"
        );
        let version = files[0]["judge"]["version"].as_str().expect("a version");
        assert!(version.starts_with("command "), "{version}");
    }
}

#[test]
fn mistakes_are_sent_back_once_and_then_left_pending() {
    let scratch = collected();
    // The first answer is wrong; with the mistakes before its eyes the judge mends them.
    let mends = format!(
        "cat > in.json; if grep -q '\"problems\"' in.json; then {FILL} in.json; else {FILL} in.json | sed 's/\"worth\": 3/\"worth\": 9/'; fi"
    );
    let outcome = agent(&scratch, &mends, "--limit 2 --batch 2");
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(outcome.json()["calls"], 2, "{outcome}");
    let file = scratch.read("in.json");
    assert!(
        file.contains("scores/worth is 9, but worth runs from 1 to 3"),
        "{file}"
    );

    let stubborn = format!("{FILL} | sed 's/\"worth\": 3/\"worth\": 9/'");
    let outcome = agent(&scratch, &stubborn, "--batch 2");
    assert_eq!(outcome.code, 4, "{outcome}");
    assert!(outcome.stderr.contains("left pending: case"), "{outcome}");
    assert!(outcome.stderr.contains("worth is 9"), "{outcome}");
    assert!(pending(&scratch, "expert") > 0);
}

#[test]
fn a_command_that_fails_is_named_and_loses_nothing() {
    let scratch = collected();
    for (command, reason) in [
        ("no-such-agent-here -p", "no-such-agent-here"),
        ("echo no model is here >&2; exit 7", "no model is here"),
        ("sleep 60", "longer than 1 s"),
        ("echo I would rather not.", "no JSON object"),
    ] {
        let outcome = agent(&scratch, command, "--batch 50 --timeout 1");
        assert!([1, 4].contains(&outcome.code), "{outcome}");
        assert!(outcome.stderr.contains(reason), "{outcome}");
        assert_eq!(pending(&scratch, "expert"), 4, "{command}");
    }
    let outcome = agent(&scratch, FILL, "--batch 50");
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(pending(&scratch, "expert"), 0);
}
