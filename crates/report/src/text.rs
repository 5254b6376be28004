//! Makes untrusted text safe to print, and shortens and wraps it.
//!
//! Widths are terminal columns, not bytes or characters.

use std::borrow::Cow;
use std::collections::BTreeMap;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Replaces a character that must not be printed.
const REPLACEMENT: char = '\u{FFFD}';
const ELLIPSIS: &str = "…";
/// Between a model and a prompt.
const TIMES: &str = " × ";

/// Replaces what could move the cursor, break a line or reorder the text around it: control
/// characters, line separators, bidirectional controls and invisible formatting.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_hidden) {
        let shown = |c| if is_hidden(c) { REPLACEMENT } else { c };
        Cow::Owned(text.chars().map(shown).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// The joiners U+200C and U+200D stay: Persian, Indic scripts and emoji need them.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{00AD}'
                | '\u{061C}'
                | '\u{200B}'
                | '\u{200E}'..='\u{200F}'
                | '\u{2028}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{FEFF}'
                | '\u{FFF9}'..='\u{FFFB}'
                | '\u{E0000}'..='\u{E007F}'
        )
}

pub fn width(text: &str) -> usize {
    text.width()
}

/// At most `most` columns, with … in the middle where something was left out.
pub fn shorten(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let Some(room) = most.checked_sub(width(ELLIPSIS)) else {
        return String::new();
    };
    let head = head_within(text, room.div_ceil(2));
    let tail = tail_within(&text[head.len()..], room - width(head));
    format!("{head}{ELLIPSIS}{tail}")
}

/// The longest beginning of at most `most` columns.
fn head_within(text: &str, most: usize) -> &str {
    let ends = text.char_indices().map(|(start, c)| start + c.len_utf8());
    let end = ends.take_while(|end| width(&text[..*end]) <= most).last();
    &text[..end.unwrap_or(0)]
}

/// The longest end of at most `most` columns that does not start with a combining mark.
fn tail_within(text: &str, most: usize) -> &str {
    let starts = text.char_indices().rev();
    let fitting = starts.take_while(|(start, _)| width(&text[*start..]) <= most);
    let visible = fitting.filter(|(_, c)| c.width().unwrap_or(0) > 0);
    let start = visible.last().map_or(text.len(), |(start, _)| start);
    &text[start..]
}

/// Shortens every name to its width. Where two shortened names would look the same, their common
/// prefix is cut instead, so that the part that differs stays visible.
pub fn shorten_apart(names: &[(&str, usize)]) -> Vec<String> {
    let mut short: Vec<String> = names
        .iter()
        .map(|(name, room)| shorten(name, *room))
        .collect();
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (position, text) in short.iter().enumerate() {
        alike.entry(text.clone()).or_default().push(position);
    }
    for group in alike.values() {
        let common = common_beginning(group.iter().map(|position| names[*position].0));
        for &position in group {
            let (name, room) = names[position];
            if common < name.len() && width(name) > room {
                short[position] = from_within(&name[common..], room);
            }
        }
    }
    short
}

/// The length in bytes of the prefix that all names share, up to the last separator; the whole
/// name if there is only one.
fn common_beginning<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    let shared = names.reduce(|shared, name| {
        let same = shared
            .char_indices()
            .zip(name.chars())
            .take_while(|((_, a), b)| a == b);
        let end = same
            .last()
            .map_or(0, |((start, c), _)| start + c.len_utf8());
        if shared == name {
            shared
        } else {
            let end = shared[..end].rfind(|c: char| !c.is_alphanumeric());
            let end = end.map_or(0, |start| {
                start + shared[start..].chars().next().map_or(0, char::len_utf8)
            });
            &shared[..end]
        }
    });
    shared.map_or(0, str::len)
}

/// `…rest of the na…`
fn from_within(rest: &str, room: usize) -> String {
    let marks = width(ELLIPSIS);
    if width(rest) + marks <= room {
        format!("{ELLIPSIS}{rest}")
    } else {
        let head = head_within(rest, room.saturating_sub(2 * marks));
        format!("{ELLIPSIS}{head}{ELLIPSIS}")
    }
}

/// `model × prompt` for each, shortened only as far as needed, so that both stay recognisable.
pub fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>, most: usize) -> Vec<String> {
    let clean: Vec<_> = pairs
        .into_iter()
        .map(|(model, prompt)| (clean(model), clean(prompt)))
        .collect();
    let rooms: Vec<[usize; 2]> = clean
        .iter()
        .map(|(model, prompt)| rooms(model, prompt, most))
        .collect();
    let models: Vec<_> = clean
        .iter()
        .zip(&rooms)
        .map(|(it, rooms)| (&*it.0, rooms[0]))
        .collect();
    let prompts: Vec<_> = clean
        .iter()
        .zip(&rooms)
        .map(|(it, rooms)| (&*it.1, rooms[1]))
        .collect();
    let both = shorten_apart(&models)
        .into_iter()
        .zip(shorten_apart(&prompts));
    both.map(|(model, prompt)| format!("{model}{TIMES}{prompt}"))
        .collect()
}

/// Divides the columns of a pair between its model and its prompt.
fn rooms(model: &str, prompt: &str, most: usize) -> [usize; 2] {
    let (model, prompt) = (width(model), width(prompt));
    let room = most.saturating_sub(width(TIMES));
    let half = room / 2;
    let prompt_room = if model + prompt <= room || prompt <= half {
        prompt
    } else {
        half.max(room.saturating_sub(model))
    };
    [room - prompt_room, prompt_room]
}

/// The columns that a pair takes if nothing is shortened.
pub fn pair_width(model: &str, prompt: &str) -> usize {
    width(&clean(model)) + width(TIMES) + width(&clean(prompt))
}

/// Lines of at most `most` columns, broken at spaces, and inside a word that is longer than that.
pub fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in words(text) {
        let mut rest = word.as_str();
        if !line.is_empty() && width(&line) + 1 + width(rest) > most {
            lines.push(std::mem::take(&mut line));
        }
        while width(rest) > most {
            let head = head_within(rest, most);
            if head.is_empty() {
                break;
            }
            lines.push(head.to_owned());
            rest = &rest[head.len()..];
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(rest);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// The words of a sentence; `p = .008`, `80 %` and `[0.92, 3.03]` stay together.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let follows = |last: &String| {
            let start = last.rsplit(' ').next().unwrap_or_default();
            matches!(word, "=" | "%")
                || start == "="
                || (start.starts_with('[') && start.ends_with(','))
        };
        match words.last_mut().filter(|last| follows(last)) {
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_replaced_and_others_kept() {
        assert_eq!(
            clean("a\x1b[31m\nb\u{202E}c\u{9b}"),
            "a\u{FFFD}[31m\u{FFFD}b\u{FFFD}c\u{FFFD}"
        );
        assert!(matches!(clean("日本 é 👩‍🔬 ×"), Cow::Borrowed(_)));
    }

    #[test]
    fn shortening_keeps_both_ends_and_the_width() {
        assert_eq!(shorten("abcdefghij", 10), "abcdefghij");
        assert_eq!(shorten("abcdefghij", 7), "abc…hij");
        assert_eq!(shorten("日本語日本語", 7), "日…本語");
        assert_eq!(shorten("abc", 1), "…");
        assert_eq!(shorten("abc", 0), "");
        for most in 0..12 {
            assert!(width(&shorten("e\u{301}👩‍🔬x日本語☎\u{FE0F}yz", most)) <= most);
        }
    }

    fn pair(model: &str, prompt: &str, most: usize) -> String {
        pairs([(model, prompt)], most).remove(0)
    }

    #[test]
    fn a_pair_shares_its_room() {
        assert_eq!(pair("qwen2.5:1.5b", "v1", 40), "qwen2.5:1.5b × v1");
        assert_eq!(pair("a-very-long-model-name", "v1", 15), "a-ver…name × v1");
        assert_eq!(pair("m1", "a-very-long-prompt-name", 15), "m1 × a-ver…name");
        assert_eq!(width(&pair(&"m".repeat(90), &"p".repeat(90), 27)), 27);
    }

    #[test]
    fn names_that_would_look_the_same_show_their_difference() {
        let long =
            |size: u8| format!("hf.co/an-organisation/Llama-3.2-{size}B-Instruct-GGUF:Q4_K_M");
        let (one, three) = (long(1), long(3));
        let names = [
            (one.as_str(), 12),
            (three.as_str(), 12),
            (one.as_str(), 12),
            ("another-long-name", 12),
        ];
        assert_eq!(
            shorten_apart(&names),
            [
                "…1B-Instruc…",
                "…3B-Instruc…",
                "…1B-Instruc…",
                "anothe…-name"
            ]
        );
        let ends = [("prompt-for-tests-v1", 10), ("prompt-for-tests-v1b", 10)];
        assert_eq!(shorten_apart(&ends), ["promp…s-v1", "promp…-v1b"]);
        let alone = [("one-long-name-only", 10), ("one-long-name-only", 10)];
        assert_eq!(shorten_apart(&alone), ["one-l…only"; 2]);
    }

    #[test]
    fn lines_break_at_spaces_and_inside_endless_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a bbbbbbbbb c", 4), ["a", "bbbb", "bbbb", "b c"]);
        assert_eq!(
            wrap("日本", 1),
            ["日本"],
            "a character wider than the line still comes out"
        );
        assert!(wrap("  ", 10).is_empty());
        assert_eq!(
            wrap("is [0.1, 2.0], p = .1", 9),
            ["is", "[0.1, 2.0", "], p = .1"]
        );
        assert_eq!(wrap("it is [0.1, 2.0]", 12), ["it is", "[0.1, 2.0]"]);
    }
}
