//! Cells of a CSV file that a spreadsheet must not run.

use std::borrow::Cow;

/// What spreadsheets take for the start of a formula, in any width.
const STARTS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Puts an apostrophe, which spreadsheets read as a mark for text, before a cell that would be run
/// as a formula: it starts with `=`, `+`, `-` or `@`, also after white space, or with a tab or a
/// line break, which some spreadsheets drop first.
pub fn neutral(text: &str) -> Cow<'_, str> {
    if text.trim_start().starts_with(STARTS) || text.starts_with(['\t', '\r', '\n']) {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::neutral;

    #[test]
    fn formulas_become_text_and_the_rest_stays() {
        for hostile in [
            "=1+1", "+1", "-1+1", "@A1", "\tx", "\rx", "\nx", " =1", "\t=1", "＝1",
        ] {
            assert_eq!(neutral(hostile), format!("'{hostile}"));
        }
        for harmless in ["", "a=b", "1-1", "'=1", "mail@example", "x\t=1"] {
            assert_eq!(neutral(harmless), harmless);
        }
    }
}
