//! The web panel in a real browser: headless Chromium, driven by a script for Node.

use std::path::Path;
use std::process::Command;

use super::limits::heavyweight;
use super::server::Served;
use super::{Outcome, root, set_up};

/// Where Chromium is usually found.
const BROWSERS: [&str; 4] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/usr/bin/google-chrome-stable",
];

/// A browser and the folder of its driver; `None`, with a message, where they cannot be had.
fn browser() -> Option<(&'static str, String)> {
    let Some(chromium) = BROWSERS.into_iter().find(|it| Path::new(it).exists()) else {
        eprintln!("SKIPPED: there is no Chromium here (apt-get install chromium)");
        return None;
    };
    match set_up(
        "scripts/node-env.sh",
        &["panel", "playwright-core", "axe-core"],
    ) {
        Ok(folder) => Some((chromium, folder)),
        Err(reason) => {
            eprintln!("SKIPPED: playwright-core and axe-core cannot be had here: {reason}");
            None
        }
    }
}

/// Runs a script of this repository against a server. `more` are variables of its environment.
pub fn drive(program: &str, served: &Served, more: &[(&str, &str)]) {
    let _slot = heavyweight();
    drive_in_slot(program, served, more);
}

/// [`drive`] for a test that holds a slot for a heavyweight program already.
pub fn drive_in_slot(program: &str, served: &Served, more: &[(&str, &str)]) {
    let Some((chromium, folder)) = browser() else {
        return;
    };
    let output = Command::new("node")
        .arg(root().join(program))
        .env("NODE_FOLDER", folder)
        .env("CHROMIUM", chromium)
        .env("PANEL_URL", &served.url)
        .env("PANEL_TOKEN", &served.token)
        .envs(more.iter().copied())
        .output()
        .expect("node runs");
    let outcome = Outcome::of(&output);
    assert!(
        outcome.code == 0 && outcome.stdout.trim_end().ends_with("OK"),
        "{outcome}"
    );
}
