//! The difference between two versions, line by line.
//!
//! The longest common subsequence of lines by dynamic programming; prompts have tens of lines, so its quadratic cost
//! does not matter. Where removed and added lines meet, the removed ones come first.

use serde::Serialize;

/// The longest texts, in lines, that are compared line by line; longer ones are replaced as a whole.
const MOST_LINES: usize = 5_000;

/// What happened to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    Same,
    Removed,
    Added,
}

/// One line of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    pub change: Change,
    pub text: String,
}

impl DiffLine {
    /// With ` `, `-` or `+` in front.
    pub fn as_text(&self) -> String {
        let sign = match self.change {
            Change::Same => ' ',
            Change::Removed => '-',
            Change::Added => '+',
        };
        format!("{sign}{}", self.text)
    }
}

/// The lines of both texts, in order.
pub fn lines(before: &str, after: &str) -> Vec<DiffLine> {
    let before: Vec<&str> = before.lines().collect();
    let after: Vec<&str> = after.lines().collect();
    let line = |change, text: &str| DiffLine {
        change,
        text: text.to_owned(),
    };
    let mut found = Vec::with_capacity(before.len() + after.len());
    if before.len().max(after.len()) > MOST_LINES {
        found.extend(before.iter().map(|it| line(Change::Removed, it)));
        found.extend(after.iter().map(|it| line(Change::Added, it)));
        return found;
    }
    let common = common_lengths(&before, &after);
    let (mut i, mut j) = (0, 0);
    while i < before.len() || j < after.len() {
        if i < before.len() && j < after.len() && before[i] == after[j] {
            found.push(line(Change::Same, before[i]));
            i += 1;
            j += 1;
        } else if i < before.len() && (j == after.len() || common[i + 1][j] >= common[i][j + 1]) {
            found.push(line(Change::Removed, before[i]));
            i += 1;
        } else {
            found.push(line(Change::Added, after[j]));
            j += 1;
        }
    }
    found
}

/// By places in both texts: the length of the longest common subsequence of what follows.
fn common_lengths(before: &[&str], after: &[&str]) -> Vec<Vec<u16>> {
    let mut common = vec![vec![0; after.len() + 1]; before.len() + 1];
    for i in (0..before.len()).rev() {
        for j in (0..after.len()).rev() {
            common[i][j] = if before[i] == after[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changed_lines_stand_between_the_same_ones() {
        let shown: Vec<String> = lines("a\nb\nc\nd\n", "a\nx\nc\nd\ne\n")
            .iter()
            .map(DiffLine::as_text)
            .collect();
        assert_eq!(shown, [" a", "-b", "+x", " c", " d", "+e"]);
        assert_eq!(lines("", ""), []);
    }

    proptest! {
        #[test]
        fn both_texts_can_be_read_back(
            before in proptest::collection::vec("[abc]", 0..12),
            after in proptest::collection::vec("[abc]", 0..12),
        ) {
            let found = lines(&before.join("\n"), &after.join("\n"));
            let without = |change| -> Vec<String> {
                let kept = found.iter().filter(|it| it.change != change);
                kept.map(|it| it.text.clone()).collect()
            };
            prop_assert_eq!(without(Change::Added), before);
            prop_assert_eq!(without(Change::Removed), after);
        }
    }
}
