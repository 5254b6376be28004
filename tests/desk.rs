//! The terminal desk in a real pseudo-terminal, killed and taken up again.

#![cfg(unix)]

mod support;

use std::path::Path;
use std::process::Command;

use support::Scratch;

fn collected() -> Scratch {
    Scratch::pending("scripted:a", "p1", 4)
}

#[test]
fn a_desk_that_is_killed_loses_the_case_on_its_screen_at_most() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: the desk was not tried in a pseudo-terminal: there is no python3");
        return;
    }
    let scratch = collected();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doors/desk_pty.py");
    let output = Command::new("python3")
        .arg(program)
        .arg(env!("CARGO_BIN_EXE_assize"))
        .arg(scratch.path())
        .output()
        .expect("python runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.trim_end().ends_with("OK"),
        "{said}\n{errors}"
    );
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
