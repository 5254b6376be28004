//! Engines that run the binary on more than one host: the packages below `integrations/`, each
//! with the real engine from `PyPI`.

#![allow(
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and print what they skip"
)]

use std::process::Command;

use assize_test_support::limits::heavyweight;
use assize_test_support::{Outcome, Scratch, binary, root, set_up};

mod airflow_stack;
mod packages;

/// A Python with these packages; `None`, with a message, where they cannot be had.
fn python(name: &str, packages: &[&str]) -> Option<String> {
    let words: Vec<&str> = [name].iter().chain(packages).copied().collect();
    match set_up("scripts/python-env.sh", &words) {
        Ok(python) => Some(python),
        Err(reason) => {
            eprintln!("SKIPPED: {name} cannot be had here: {reason}");
            None
        }
    }
}

/// Runs the tests of a package below `integrations/`.
fn pytest(package: &str, python: &str) {
    let _slot = heavyweight();
    let scratch = Scratch::new();
    let folder = root().join("integrations").join(package);
    let output = Command::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp"])
        .arg(scratch.file("tests"))
        .current_dir(&folder)
        .env("ASSIZE_BIN", binary())
        .env("PYTHONPATH", folder.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("AIRFLOW_HOME", scratch.file("airflow"))
        .output()
        .expect("python runs");
    let outcome = Outcome::of(&output);
    eprintln!("{}", outcome.stdout);
    assert_eq!(outcome.code, 0, "{package}\n{outcome}");
}
