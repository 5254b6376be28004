//! The terminal desk in a real pseudo-terminal, killed and resumed.

use std::process::Command;

use assize_test_support::{Scratch, drive};

fn collected() -> Scratch {
    Scratch::pending("scripted:a", "p1", 4)
}

#[test]
fn a_killed_desk_loses_at_most_the_case_on_its_screen() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: the desk was not tried in a pseudo-terminal: there is no python3");
        return;
    }
    let scratch = collected();
    let folder = scratch.path().display().to_string();
    let words = [assize_test_support::binary(), &folder];
    drive("python3", "tests/judge/terminal_desk.py", &words);
}

#[test]
fn keys_that_arrive_together_are_handled_at_once() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: the desk was not tried in a pseudo-terminal: there is no python3");
        return;
    }
    let scratch = Scratch::pending("scripted:a", "p1", 20);
    let folder = scratch.path().display().to_string();
    let words = [assize_test_support::binary(), &folder, "together"];
    drive("python3", "tests/judge/terminal_desk.py", &words);
}

#[test]
fn without_a_terminal_or_anything_pending_it_says_so() {
    let scratch = collected();
    let outcome = scratch.fails(2, "judge desk --experiment e");
    assert!(
        outcome.stderr.contains("the desk needs a terminal"),
        "{outcome}"
    );
}
