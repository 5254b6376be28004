//! What people and programs see: data on stdout, everything else on stderr.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use assize_domain::fence::is_invisible;
use assize_report::text::width;
use indicatif::MultiProgress;
use serde::Serialize;

use crate::cli::Global;
use crate::environment::Environment;

pub mod progress;
pub mod text_table;

/// How to print.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact about where output goes"
)]
pub struct Output {
    pub json: bool,
    pub quiet: bool,
    /// Colours on stdout.
    pub color: bool,
    /// Columns of stdout's terminal; 80 where there is none.
    pub width: usize,
    /// Whether stderr is a terminal that progress can be drawn on.
    pub is_interactive: bool,
    /// The bars that are drawn now; messages go above them.
    bars: Arc<Mutex<Option<MultiProgress>>>,
}

#[expect(
    clippy::unused_self,
    reason = "printing requires an `Output`, so that every print can be found"
)]
impl Output {
    pub fn new(global: &Global, environment: &Environment) -> Self {
        let dumb = environment.get("TERM") == Some("dumb");
        let plain = global.no_color || environment.get("NO_COLOR").is_some() || dumb;
        let columns = environment
            .get("COLUMNS")
            .and_then(|text| text.parse().ok());
        let terminal =
            terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        Self {
            json: global.json,
            quiet: global.quiet,
            color: !plain && io::stdout().is_terminal(),
            width: columns.or(terminal).unwrap_or(80).clamp(40, 400),
            is_interactive: io::stderr().is_terminal() && !dumb && environment.get("CI").is_none(),
            bars: Arc::default(),
        }
    }

    /// Prints data.
    pub fn data(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            stdout.write_all(b"\n")?;
        }
        stdout.flush()
    }

    /// Where data goes, for what is too large to hold.
    pub fn writer(&self) -> io::StdoutLock<'static> {
        io::stdout().lock()
    }

    /// Prints data as one line of JSON.
    pub fn json_line(&self, value: &impl Serialize) -> io::Result<()> {
        self.data(&serde_json::to_string(value)?)
    }

    /// Prints data as readable JSON.
    pub fn json_pretty(&self, value: &impl Serialize) -> io::Result<()> {
        self.data(&serde_json::to_string_pretty(value)?)
    }

    /// Prints a message to stderr, unless `--quiet` is set. Sentences are wrapped at the terminal's width.
    pub fn say(&self, text: &str) {
        if self.quiet {
            return;
        }
        let text = folded(text, self.width);
        let bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        match bars.as_ref() {
            Some(bars) => bars.suspend(|| complain(&text)),
            None => complain(&text),
        }
    }

    /// From now on messages go above these bars.
    fn set_bars(&self, bars: Option<MultiProgress>) {
        *self.bars.lock().unwrap_or_else(PoisonError::into_inner) = bars;
    }
}

/// Breaks long lines, but none of a command, which could not be pasted into a shell then.
fn folded(text: &str, most: usize) -> String {
    let mut lines = Vec::new();
    let mut is_continued = false;
    for line in text.lines() {
        let is_command = is_continued || line.trim_start().starts_with("assize ");
        is_continued = line.ends_with('\\');
        lines.push(if is_command {
            line.to_owned()
        } else {
            fold(line, most)
        });
    }
    lines.join("\n")
}

/// Breaks a line at its spaces, so that no part is longer than `most` columns; a longer word,
/// which may be a path, stays whole. What goes on below an indented line is indented further.
fn fold(line: &str, most: usize) -> String {
    if width(line) <= most || line.ends_with('\\') {
        return line.to_owned();
    }
    let text = line.trim_start();
    let indent = &line[..line.len() - text.len()];
    let deeper = if indent.is_empty() { "" } else { "  " };
    let mut folded = String::new();
    let mut part = indent.to_owned();
    let mut is_fresh = true;
    for word in text.split(' ') {
        if !is_fresh && width(&part) + 1 + width(word) > most {
            folded.push_str(&part);
            folded.push('\n');
            part = format!("{indent}{deeper}");
            is_fresh = true;
        }
        if !is_fresh {
            part.push(' ');
        }
        part.push_str(word);
        is_fresh = false;
    }
    folded + &part
}

/// Writes to stderr; a failure cannot be reported anywhere, so it is ignored.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Makes untrusted text safe for a terminal: control characters (escape sequences among
/// them), direction overrides and invisible characters become visible instead of acting.
pub fn safe(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' => c,
            '\t' => ' ',
            c if is_invisible(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{fold, folded, safe};

    #[test]
    fn commands_are_not_broken() {
        let command = "Next:\n  assize collect \\\n     --models one,two,three\n";
        assert_eq!(folded(command, 16), command.trim_end());
        assert_eq!(
            folded("  assize compare --experiment e", 16),
            "  assize compare --experiment e"
        );
        assert_eq!(folded("one two three", 8), "one two\nthree");
    }

    #[test]
    fn what_nobody_sees_becomes_visible() {
        assert_eq!(
            safe("a\u{1b}[2J\u{e0041}\u{202e}\tb\n"),
            "a\u{fffd}[2J\u{fffd}\u{fffd} b\n"
        );
    }

    #[test]
    fn long_lines_are_broken_at_spaces_and_words_stay_whole() {
        assert_eq!(fold("short", 10), "short");
        assert_eq!(fold("one two three", 8), "one two\nthree");
        assert_eq!(fold("  one two three", 9), "  one two\n    three");
        assert_eq!(
            fold("a /path/that/is/long b", 8),
            "a\n/path/that/is/long\nb"
        );
        assert_eq!(fold("", 8), "");
        assert_eq!(fold("assize judge apply \\", 8), "assize judge apply \\");
    }
}
