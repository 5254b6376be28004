//! Terminal colours. Colour only repeats what the text says.

/// The role of a piece of text, from which its style follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Strong,
    Faint,
    Winner,
    Warning,
    Command,
    /// An interval bar, whose empty part is faint.
    Bar,
}

/// The text with its escape sequences, or as it is without colour.
pub fn painted(text: &str, paint: Paint, color: bool) -> String {
    if !color || text.is_empty() {
        return text.to_owned();
    }
    let code = match paint {
        Paint::Plain => return text.to_owned(),
        Paint::Bar => return bar(text),
        Paint::Strong => "1",
        Paint::Faint => "2",
        Paint::Winner => "1;32",
        Paint::Warning => "33",
        Paint::Command => "36",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

fn bar(text: &str) -> String {
    let is_empty = |c: char| matches!(c, '·' | '┊' | ' ');
    let first = text.find(|c| !is_empty(c)).unwrap_or(text.len());
    let end = text.trim_end_matches(is_empty).len().max(first);
    let faint = |part: &str| painted(part, Paint::Faint, true);
    format!(
        "{}{}{}",
        faint(&text[..first]),
        &text[first..end],
        faint(&text[end..])
    )
}
