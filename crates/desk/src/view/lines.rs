//! Cleans untrusted text and wraps it by terminal columns.

use assize_report::text::clean;
pub use assize_report::text::width;

/// Lines of at most `most` columns. Keeps line ends and leading spaces; breaks at spaces, and
/// inside a word that is too long.
pub fn broken(text: &str, most: usize) -> Vec<String> {
    let most = most.max(2);
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.replace('\t', "    ");
        let line = clean(line.trim_end());
        let mut current = String::new();
        for word in line.split_inclusive(' ') {
            if width(&current) + width(word.trim_end()) > most && !current.trim().is_empty() {
                lines.push(current.trim_end().to_owned());
                current = String::new();
            }
            for letter in word.chars() {
                current.push(letter);
                if width(current.trim_end()) > most {
                    current.pop();
                    lines.push(std::mem::take(&mut current));
                    current.push(letter);
                }
            }
        }
        lines.push(current.trim_end().to_owned());
    }
    lines
}

/// One line of at most `most` columns, with … if something was cut.
pub fn within(text: &str, most: usize) -> String {
    let text = clean(text);
    if width(&text) <= most {
        return text.into_owned();
    }
    let mut short = String::new();
    for letter in text.chars() {
        short.push(letter);
        if width(&short) + 1 > most {
            short.pop();
            break;
        }
    }
    if most > 0 {
        short.push('…');
    }
    short
}

/// The end of a text, in at most `most` columns.
pub fn tail(text: &str, most: usize) -> String {
    let clean = clean(text);
    let mut starts = clean.char_indices().map(|(start, _)| start);
    let start = starts.find(|start| width(&clean[*start..]) <= most);
    clean[start.unwrap_or(clean.len())..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_by_columns_and_keep_the_text_s_own_line_ends() {
        assert_eq!(broken("one two three", 7), ["one two", "three"]);
        assert_eq!(broken("a\n\n  b c", 10), ["a", "", "  b c"]);
        assert_eq!(broken("日本語日本語", 5), ["日本", "語日", "本語"]);
        assert_eq!(broken("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(broken("x\x1b[2Jy", 20), ["x\u{FFFD}[2Jy"]);
        for most in 2..20 {
            let lines = broken("e\u{301} 👩‍🔬 a日本語 bb ccc ☎\u{FE0F} dddd", most);
            assert!(
                lines.iter().all(|line| width(line) <= most),
                "{most}: {lines:?}"
            );
        }
    }

    #[test]
    fn the_end_of_a_text_stays_in_its_room() {
        assert_eq!(tail("abcdef", 3), "def");
        assert_eq!(tail("日本語", 3), "語");
        assert_eq!(within("abcdef", 4), "abc…");
        assert_eq!(within("日本語", 4), "日…");
    }
}
