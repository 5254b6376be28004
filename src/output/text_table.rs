//! Small aligned tables for lists.

use unicode_width::UnicodeWidthStr as _;

use super::safe;

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Lays out rows under headings within `width` columns; the widest left-aligned column gives
/// way where they do not fit.
pub fn render(headings: &[(&str, Align)], rows: &[Vec<String>], width: usize) -> String {
    let cleaned: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|cell| safe(cell).replace('\n', " "))
                .collect()
        })
        .collect();
    let mut widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(column, (heading, _))| {
            let cells = cleaned
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.width());
            cells.chain([heading.width()]).max().unwrap_or(0)
        })
        .collect();
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + 2 * widths.len();
    while total(&widths) > width {
        let left = |column: &usize| headings[*column].1 == Align::Left && widths[*column] > 8;
        let Some(widest) = (0..widths.len())
            .filter(left)
            .max_by_key(|column| widths[*column])
        else {
            break;
        };
        widths[widest] -= 1;
    }
    let heading_row: Vec<String> = headings
        .iter()
        .map(|(heading, _)| (*heading).to_owned())
        .collect();
    let mut text = String::new();
    for row in std::iter::once(&heading_row).chain(&cleaned) {
        let mut line = String::new();
        for (column, (_, align)) in headings.iter().enumerate() {
            let cell = shorten(row.get(column).map_or("", String::as_str), widths[column]);
            let gap = " ".repeat(widths[column] - cell.width());
            line.push_str("  ");
            match align {
                Align::Left => line.extend([cell.as_str(), &gap]),
                Align::Right => line.extend([gap.as_str(), &cell]),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Cuts the middle out of what is too wide, because names differ at both ends.
pub fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let keep = width.saturating_sub(1);
    let (front, back) = (keep.div_ceil(2), keep / 2);
    let head = take_width(text.chars(), front);
    let tail: String = take_width(text.chars().rev(), back).chars().rev().collect();
    format!("{head}…{tail}")
}

/// As many characters as fit into so many columns.
pub fn take_width(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut taken = String::new();
    for c in chars {
        taken.push(c);
        if taken.width() > width {
            taken.pop();
            break;
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_fit() {
        let headings = [("name", Align::Left), ("n", Align::Right)];
        let rows = vec![
            vec!["short".to_owned(), "1".to_owned()],
            vec!["a-very-long-name-indeed".to_owned(), "123".to_owned()],
        ];
        let table = render(&headings, &rows, 24);
        assert_eq!(
            table,
            "  name                 n\n  short                1\n  a-very-l…e-indeed  123\n"
        );
        assert!(table.lines().all(|line| line.width() <= 24), "{table}");
    }

    #[test]
    fn hostile_cells_stay_in_their_cell() {
        let rows = vec![vec!["a\x1b[31m\nb\u{202e}c".to_owned()]];
        let table = render(&[("x", Align::Left)], &rows, 80);
        assert_eq!(table.lines().count(), 2);
        assert!(!table.contains('\x1b') && !table.contains('\u{202e}'));
    }
}
