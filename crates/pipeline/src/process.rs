//! Runs a command of the user: text in, text out, within its time and a limit on its output.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How much of stderr a reason quotes.
const MOST_QUOTED: usize = 300;
const LOOK: Duration = Duration::from_millis(20);

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutput {
    Printed(String),
    /// It failed, took too long, printed too much or could not be started.
    Failed(String),
    Interrupted,
}

/// What a command may use, and who listens.
#[expect(missing_debug_implementations, reason = "it holds a closure")]
pub struct Limits<'a> {
    pub timeout: Duration,
    /// The flag or setting that the user may raise, for messages.
    pub timeout_name: &'a str,
    pub most_bytes: u64,
    /// Called with every line of stderr, which is untrusted.
    pub on_stderr: Option<fn(&str)>,
    pub stopped: &'a dyn Fn() -> bool,
}

/// Gives `input` to the command and takes what it prints.
pub fn ask(mut command: Command, input: &str, limits: &Limits<'_>) -> CommandOutput {
    own_group(&mut command);
    let mut child = match command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Ok(child) => child,
        Err(error) => {
            let program = command.get_program().to_string_lossy().into_owned();
            return CommandOutput::Failed(format!("{program} cannot be started: {error}"));
        }
    };
    let writer = write_to(&mut child, input);
    let output = read_from(&mut child, limits.most_bytes);
    let errors = listen_to(&mut child, limits);
    let deadline = Instant::now() + limits.timeout;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if (limits.stopped)() => {
                end(&mut child);
                return CommandOutput::Interrupted;
            }
            Ok(None) if Instant::now() >= deadline => {
                end(&mut child);
                return CommandOutput::Failed(format!(
                    "the command took longer than {} s ({})",
                    limits.timeout.as_secs(),
                    limits.timeout_name
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
    let Some(output) = output else {
        let most = limits.most_bytes;
        return CommandOutput::Failed(format!("the command printed more than {most} bytes"));
    };
    if status.success() {
        return CommandOutput::Printed(output);
    }
    CommandOutput::Failed(format!(
        "the command ended with {status}{}",
        quoted(&last_words, &output)
    ))
}

/// The end of what a failed command said.
fn quoted(last_words: &str, output: &str) -> String {
    let text = if last_words.trim().is_empty() {
        output.trim()
    } else {
        last_words.trim()
    };
    let skipped = text.chars().count().saturating_sub(MOST_QUOTED);
    let end: String = text.chars().skip(skipped).collect();
    if end.is_empty() {
        " and printed nothing on stderr".to_owned()
    } else {
        format!(": {end}")
    }
}

/// A command line for the shell.
#[cfg(unix)]
pub fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command);
    shell
}

/// A command line for the shell.
#[cfg(not(unix))]
pub fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd");
    shell.arg("/C").arg(command);
    shell
}

/// A group of its own, so that all of it can be ended.
#[cfg(unix)]
fn own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

#[cfg(not(unix))]
fn own_group(_: &mut Command) {}

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

/// Everything that is printed; `None` where it is more than `most_bytes`.
fn read_from(child: &mut Child, most_bytes: u64) -> Option<JoinHandle<Option<String>>> {
    let stdout = child.stdout.take()?;
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.take(most_bytes + 1).read_to_end(&mut bytes);
        let fits = bytes.len() as u64 <= most_bytes;
        fits.then(|| String::from_utf8_lossy(&bytes).into_owned())
    }))
}

/// Passes stderr on line by line, and keeps the end of it.
fn listen_to(child: &mut Child, limits: &Limits<'_>) -> Option<JoinHandle<String>> {
    let stderr = child.stderr.take()?;
    let (on_stderr, most_bytes) = (limits.on_stderr, limits.most_bytes);
    Some(std::thread::spawn(move || {
        let mut kept = String::new();
        let lines = BufReader::new(stderr.take(most_bytes)).split(b'\n');
        for line in lines.map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if let Some(on_stderr) = on_stderr {
                on_stderr(&line);
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn limits(stopped: &dyn Fn() -> bool) -> Limits<'_> {
        Limits {
            timeout: Duration::from_secs(30),
            timeout_name: "--timeout",
            most_bytes: 2 << 20,
            on_stderr: None,
            stopped,
        }
    }

    fn run(command: &str, input: &str) -> CommandOutput {
        ask(shell(command), input, &limits(&|| false))
    }

    #[test]
    fn text_goes_in_and_out_even_where_it_is_large() {
        let large = "x".repeat(1 << 20);
        assert_eq!(run("cat", &large), CommandOutput::Printed(large.clone()));
        assert_eq!(
            run("echo done", &large),
            CommandOutput::Printed("done\n".to_owned())
        );
    }

    #[test]
    fn failures_say_why() {
        let failed = |command: &str| match run(command, "") {
            CommandOutput::Failed(reason) => reason,
            other => unreachable!("{other:?}"),
        };
        let reason = failed("echo no model >&2; exit 3");
        assert!(
            reason.contains('3') && reason.ends_with("no model"),
            "{reason}"
        );
        let reason = failed("exit 1");
        assert!(
            reason.ends_with("1 and printed nothing on stderr"),
            "{reason}"
        );
        let missing = ask(Command::new("no-such-program"), "", &limits(&|| false));
        let CommandOutput::Failed(reason) = missing else {
            unreachable!("there is no such program")
        };
        assert!(
            reason.starts_with("no-such-program cannot be started"),
            "{reason}"
        );
    }

    #[test]
    fn time_and_output_are_limited_and_a_stop_ends_it() {
        let second = Limits {
            timeout: Duration::from_secs(1),
            ..limits(&|| false)
        };
        assert_eq!(
            ask(shell("sleep 600 & sleep 600"), "", &second),
            CommandOutput::Failed("the command took longer than 1 s (--timeout)".to_owned())
        );
        assert_eq!(
            ask(shell("sleep 600"), "", &limits(&|| true)),
            CommandOutput::Interrupted
        );
        let small = Limits {
            most_bytes: 10,
            ..limits(&|| false)
        };
        assert_eq!(
            ask(shell("cat"), "0123456789", &small),
            CommandOutput::Printed("0123456789".to_owned())
        );
        assert_eq!(
            ask(shell("cat"), "0123456789a", &small),
            CommandOutput::Failed("the command printed more than 10 bytes".to_owned())
        );
    }
}
