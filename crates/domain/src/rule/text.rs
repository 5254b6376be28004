//! Measures of how close two texts or two sets are: 0 is nothing in common, 1 is the same.
//!
//! | measure | definition |
//! |---|---|
//! | [`similarity`] | one minus the Levenshtein distance in characters, divided by the longer length |
//! | [`set_f1`] | the F1 score of two sets: 2·shared / (sizes added) |
//! | [`bleu`] | BLEU of one sentence against one reference (Papineni et al. 2002): n-grams up to four words, brevity penalty, counts of two words and more smoothed by adding one (Lin and Och 2004) |
//! | [`rouge_l`] | ROUGE-L (Lin 2004): the F1 score of the longest common subsequence of words |
//!
//! Words of BLEU and ROUGE are stretches of letters and digits, in lower case.

use std::collections::{BTreeSet, HashMap};

/// Longer texts are compared by their first characters or words: the work grows with the product of
/// both lengths.
pub const MOST_COMPARED: usize = 5_000;
/// The longest n-grams of BLEU.
const MOST_WORDS: usize = 4;

/// The words that BLEU and ROUGE compare.
pub fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.take(MOST_COMPARED).map(str::to_lowercase).collect()
}

/// Edit similarity.
pub fn similarity(one: &str, other: &str) -> f64 {
    let one: Vec<char> = one.chars().take(MOST_COMPARED).collect();
    let other: Vec<char> = other.chars().take(MOST_COMPARED).collect();
    let longer = one.len().max(other.len());
    if longer == 0 {
        return 1.0;
    }
    1.0 - distance(&one, &other) as f64 / longer as f64
}

/// The Levenshtein distance in characters.
pub fn edits(one: &str, other: &str) -> usize {
    let letters = |text: &str| -> Vec<char> { text.chars().take(MOST_COMPARED).collect() };
    distance(&letters(one), &letters(other))
}

fn distance(one: &[char], other: &[char]) -> usize {
    let start = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[start..], &other[start..]);
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = place + 1;
        for (column, theirs) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != theirs);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// F1 of two sets; two empty sets are the same.
pub fn set_f1(expected: &BTreeSet<String>, found: &BTreeSet<String>) -> f64 {
    let sizes = expected.len() + found.len();
    if sizes == 0 {
        return 1.0;
    }
    2.0 * expected.intersection(found).count() as f64 / sizes as f64
}

/// BLEU of `found` against `expected`.
pub fn bleu(expected: &[String], found: &[String]) -> f64 {
    if found.is_empty() || expected.is_empty() {
        return f64::from(u8::from(found.is_empty() && expected.is_empty()));
    }
    let longest = MOST_WORDS.min(found.len());
    let mut logs = 0.0;
    for n in 1..=longest {
        let wanted = grams(expected, n);
        let given = grams(found, n);
        let total: usize = given.values().sum();
        let clipped = given
            .iter()
            .map(|(gram, count)| (*count).min(wanted.get(gram).copied().unwrap_or(0)));
        let hits: usize = clipped.sum();
        let smoothing = usize::from(n > 1);
        if hits + smoothing == 0 {
            return 0.0;
        }
        logs += ((hits + smoothing) as f64 / (total + smoothing) as f64).ln();
    }
    let brevity = (1.0 - expected.len() as f64 / found.len() as f64).min(0.0);
    (brevity + logs / longest as f64).exp()
}

fn grams(words: &[String], n: usize) -> HashMap<&[String], usize> {
    let mut counts = HashMap::new();
    for gram in words.windows(n) {
        *counts.entry(gram).or_insert(0) += 1;
    }
    counts
}

/// ROUGE-L of `found` against `expected`.
pub fn rouge_l(expected: &[String], found: &[String]) -> f64 {
    let sizes = expected.len() + found.len();
    if sizes == 0 {
        return 1.0;
    }
    let mut row = vec![0_usize; found.len() + 1];
    for word in expected {
        let mut diagonal = 0;
        for (column, theirs) in found.iter().enumerate() {
            let above = row[column + 1];
            row[column + 1] = if word == theirs {
                diagonal + 1
            } else {
                above.max(row[column])
            };
            diagonal = above;
        }
    }
    2.0 * row[found.len()] as f64 / sizes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn edit_similarity_is_levenshtein_over_the_longer() {
        near(similarity("kitten", "sitting"), 1.0 - 3.0 / 7.0);
        near(similarity("", ""), 1.0);
        near(similarity("abc", ""), 0.0);
        near(similarity("äöü", "äöü"), 1.0);
        near(similarity("flaw", "lawn"), 0.5);
    }

    #[test]
    fn f1_of_sets() {
        let set = |text: &str| text.chars().map(String::from).collect();
        near(set_f1(&set("abc"), &set("bcd")), 2.0 / 3.0);
        near(set_f1(&set(""), &set("")), 1.0);
        near(set_f1(&set("a"), &set("")), 0.0);
    }

    #[test]
    fn rouge_l_is_the_f1_of_the_longest_common_subsequence() {
        let rouge = |one, other| rouge_l(&words(one), &words(other));
        // The example of the paper: "police kill the gunman" shares "police … the gunman".
        near(
            rouge("police killed the gunman", "police kill the gunman"),
            0.75,
        );
        near(
            rouge("police killed the gunman", "the gunman kill police"),
            0.5,
        );
        near(rouge("a", "b"), 0.0);
    }

    #[test]
    fn bleu_counts_clipped_smoothed_n_grams() {
        let score = |one, other| bleu(&words(one), &words(other));
        near(score("the cat is on the mat", "the cat is on the mat"), 1.0);
        near(score("the cat", "dog"), 0.0);
        // Precisions 5/6, (3+1)/(5+1), (1+1)/(4+1), (0+1)/(3+1); lengths are equal.
        let expected: f64 = (5.0 / 6.0_f64) * (4.0 / 6.0) * (2.0 / 5.0) * (1.0 / 4.0);
        near(
            score("the cat is on the mat", "the cat sat on the mat"),
            expected.powf(0.25),
        );
        // Two of six words: the brevity penalty is e^(1 - 6/2).
        near(score("the cat is on the mat", "the cat"), (-2.0_f64).exp());
    }
}
