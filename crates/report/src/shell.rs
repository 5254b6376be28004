//! Assize commands as text that can be pasted into a shell.

use crate::text::{clean, width};

/// An `assize` command with its flags, on one line.
pub fn command_line<F: AsRef<str>>(verb: &str, flags: &[(F, String)]) -> String {
    parts(verb, flags).join(" ")
}

/// The same, continued with backslashes so that lines have at most `columns` where possible.
pub fn command_lines<F: AsRef<str>>(verb: &str, flags: &[(F, String)], columns: usize) -> String {
    let mut lines = vec![String::from("  ")];
    for part in parts(verb, flags) {
        let line = lines.last().map_or(0, |it| width(it));
        if line > 2 && line + 1 + width(&part) + 2 > columns {
            lines.push("     ".to_owned());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if line.trim().is_empty() { "" } else { " " });
            line.push_str(&part);
        }
    }
    lines.join(" \\\n")
}

fn parts<F: AsRef<str>>(verb: &str, flags: &[(F, String)]) -> Vec<String> {
    let flag = |(name, value): &(F, String)| {
        let name = name.as_ref();
        // A value that starts like a flag must not be read as one.
        let glue = if value.starts_with('-') { "=" } else { " " };
        match value.as_str() {
            "" => name.to_owned(),
            value => format!("{name}{glue}{}", shell_word(value)),
        }
    };
    std::iter::once(format!("assize {verb}"))
        .chain(flags.iter().map(flag))
        .collect()
}

/// One argument of a shell command, quoted where the shell would interpret it.
pub fn shell_word(text: &str) -> String {
    let text = clean(text);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_survive_the_shell() {
        assert_eq!(shell_word("tip-bench_2026.04"), "tip-bench_2026.04");
        assert_eq!(shell_word("a b; rm -rf $HOME"), "'a b; rm -rf $HOME'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("--help"), "'--help'");
    }

    #[test]
    fn commands_survive_a_shell() {
        let flags = [
            ("--experiment", "my bench".to_owned()),
            ("--models", "--evict".to_owned()),
            ("--diversity", String::new()),
        ];
        assert_eq!(
            command_line("collect", &flags),
            "assize collect --experiment 'my bench' --models='--evict' --diversity"
        );
        assert_eq!(
            command_lines("collect", &flags, 44),
            "  assize collect --experiment 'my bench' \\\n     --models='--evict' --diversity"
        );
    }
}
