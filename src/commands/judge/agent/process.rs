//! Runs a command through the shell: text in, text out, within its time.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use assize_domain::judge::clean_version;
use assize_pipeline::judge::agent::CommandOutput;

use crate::output::{complain, safe};

/// The most output that is read; no judge file is that large.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// How much of stderr a reason quotes.
const MOST_QUOTED: usize = 300;
/// How long an agent's program may take to say its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

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
    let mut child = match shell(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Ok(child) => child,
        Err(error) => {
            return CommandOutput::Failed(format!("the command cannot be started: {error}"));
        }
    };
    let writer = write_to(&mut child, input);
    let output = read_from(&mut child);
    let errors = listen_to(&mut child, show);
    let deadline = Instant::now() + timeout;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if stopped() => {
                end(&mut child);
                return CommandOutput::Interrupted;
            }
            Ok(None) if Instant::now() >= deadline => {
                end(&mut child);
                let seconds = timeout.as_secs();
                return CommandOutput::Failed(format!(
                    "the command took longer than {seconds} s (--timeout)"
                ));
            }
            Ok(None) => std::thread::sleep(LOOK),
            Err(error) => {
                return CommandOutput::Failed(format!(
                    "the command's status cannot be read: {error}"
                ));
            }
        }
    };
    let _ = writer.map(JoinHandle::join);
    let output = output.and_then(|it| it.join().ok()).unwrap_or_default();
    let last_words = errors.and_then(|it| it.join().ok()).unwrap_or_default();
    if status.success() {
        return CommandOutput::Printed(output);
    }
    let quoted = if last_words.trim().is_empty() {
        &output
    } else {
        &last_words
    };
    let start = quoted
        .trim()
        .chars()
        .rev()
        .take(MOST_QUOTED)
        .collect::<Vec<_>>();
    let quoted: String = start.into_iter().rev().collect();
    let words = if quoted.is_empty() {
        " and printed nothing on stderr".to_owned()
    } else {
        format!(": {quoted}")
    };
    CommandOutput::Failed(format!("the command ended with {status}{words}"))
}

#[cfg(unix)]
fn shell(command: &str) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut shell = Command::new("sh");
    // A group of its own, so that all of it can be ended.
    shell.arg("-c").arg(command).process_group(0);
    shell
}

#[cfg(not(unix))]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd");
    shell.arg("/C").arg(command);
    shell
}

/// Ends the command and whatever it has started.
fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// A command that reads nothing closes its end; which is not an error.
fn write_to(child: &mut Child, input: &str) -> Option<JoinHandle<()>> {
    let mut stdin = child.stdin.take()?;
    let input = input.to_owned();
    Some(std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    }))
}

fn read_from(child: &mut Child) -> Option<JoinHandle<String>> {
    let stdout = child.stdout.take()?;
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.take(MOST_BYTES).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }))
}

/// Shows stderr line by line, and keeps the end of it.
fn listen_to(child: &mut Child, show: bool) -> Option<JoinHandle<String>> {
    let stderr = child.stderr.take()?;
    Some(std::thread::spawn(move || {
        let mut kept = String::new();
        let lines = BufReader::new(stderr.take(MOST_BYTES)).split(b'\n');
        for line in lines.map_while(Result::ok) {
            let line = safe(&String::from_utf8_lossy(&line));
            if show {
                complain(&format!("  agent: {line}"));
            }
            if kept.len() > 8 * MOST_QUOTED {
                kept.clear();
            }
            kept.push_str(&line);
            kept.push('\n');
        }
        kept
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, input: &str) -> CommandOutput {
        ask(command, input, Duration::from_secs(30), false, &|| false)
    }

    #[test]
    fn the_program_is_found_behind_variables_and_folders() {
        assert_eq!(first_word("claude -p 'x'"), "claude");
        assert_eq!(first_word("A=1 B=2 /usr/bin/codex exec -"), "codex");
        assert_eq!(first_word("  "), "");
    }

    #[cfg(unix)]
    #[test]
    fn text_goes_in_and_out_even_where_it_is_large() {
        let large = "x".repeat(1 << 20);
        assert_eq!(run("cat", &large), CommandOutput::Printed(large.clone()));
        assert_eq!(
            run("echo done", &large),
            CommandOutput::Printed("done\n".to_owned())
        );
    }

    #[cfg(unix)]
    #[test]
    fn failures_say_why() {
        let CommandOutput::Failed(reason) = run("echo no model >&2; exit 3", "") else {
            unreachable!("it ends with 3")
        };
        assert!(
            reason.contains('3') && reason.ends_with("no model"),
            "{reason}"
        );
        let CommandOutput::Failed(reason) = run("exit 1", "") else {
            unreachable!("it ends with 1")
        };
        assert!(
            reason.ends_with("1 and printed nothing on stderr"),
            "{reason}"
        );
        let second = Duration::from_secs(1);
        let slow = ask("sleep 600 & sleep 600", "", second, false, &|| false);
        assert_eq!(
            slow,
            CommandOutput::Failed("the command took longer than 1 s (--timeout)".to_owned())
        );
        assert_eq!(
            ask("sleep 600", "", second, false, &|| true),
            CommandOutput::Interrupted
        );
    }
}
