//! Escaping of text in templates.
//!
//! askama applies it to every expression of an HTML template (askama.toml). Markup is escaped, and
//! control and bidirectional characters are replaced.

use std::fmt::{self, Write};

use askama::filters::Escaper;
use assize_report::text::is_hidden;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Clean;

impl Escaper for Clean {
    fn write_escaped_str<W: Write>(&self, mut dest: W, text: &str) -> fmt::Result {
        let mut plain_from = 0;
        for (place, c) in text.char_indices() {
            let Some(instead) = replacement(c) else {
                continue;
            };
            dest.write_str(&text[plain_from..place])?;
            dest.write_str(instead)?;
            plain_from = place + c.len_utf8();
        }
        dest.write_str(&text[plain_from..])
    }
}

fn replacement(c: char) -> Option<&'static str> {
    match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        // Line breaks and tabs are harmless, and part of a model's output.
        '\n' | '\t' => None,
        c if is_hidden(c) => Some("\u{FFFD}"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_hidden_characters_are_neutralised() {
        let mut text = String::new();
        Clean
            .write_escaped_str(&mut text, "<b a=\"'\">&\n\t\x1b\u{202E}é\r")
            .unwrap();
        assert_eq!(
            text,
            "&lt;b a=&quot;&#39;&quot;&gt;&amp;\n\t\u{FFFD}\u{FFFD}é\u{FFFD}"
        );
    }
}
