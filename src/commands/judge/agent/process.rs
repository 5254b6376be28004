//! The command line of an agent: which program it starts, and how it is run.

use std::time::Duration;

use assize_domain::judge::clean_version;
use assize_pipeline::process::{self, CommandOutput, Limits};

use crate::output::{complain, safe};

/// The most output that is read; no judge file is that large.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// How long an agent's program may take to say its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The program that a command starts, without its folder, after variables that are set for it.
pub fn first_word(command: &str) -> String {
    let name = program(command).rsplit('/').next().unwrap_or_default();
    name.trim_matches(['\'', '"']).to_owned()
}

/// The program as it is typed.
fn program(command: &str) -> &str {
    let mut words = command.split_whitespace();
    words.find(|word| !word.contains('=')).unwrap_or_default()
}

/// What `PROGRAM --version` prints, for programs that are known to answer that.
pub fn version(command: &str, stopped: &dyn Fn() -> bool) -> Option<String> {
    let question = format!("{} --version", program(command));
    match ask(&question, "", VERSION_TIMEOUT, false, stopped) {
        CommandOutput::Printed(text) => clean_version(text.lines().next()?),
        CommandOutput::Failed(_) | CommandOutput::Interrupted => None,
    }
}

/// Gives `input` to the command and takes what it prints. Its stderr is shown where `show`.
pub fn ask(
    command: &str,
    input: &str,
    timeout: Duration,
    show: bool,
    stopped: &dyn Fn() -> bool,
) -> CommandOutput {
    let limits = Limits {
        timeout,
        timeout_name: "--timeout",
        most_bytes: MOST_BYTES,
        on_stderr: show.then_some(show_line),
        stopped,
    };
    process::ask(process::shell(command), input, &limits)
}

fn show_line(line: &str) {
    complain(&format!("  agent: {}", safe(line)));
}

#[cfg(test)]
mod tests {
    use super::first_word;

    #[test]
    fn the_program_is_found_behind_variables_and_folders() {
        assert_eq!(first_word("claude -p 'x'"), "claude");
        assert_eq!(first_word("A=1 B=2 /usr/bin/codex exec -"), "codex");
        assert_eq!(first_word("  "), "");
    }
}
