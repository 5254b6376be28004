//! Two runs side by side, with the words that differ marked.

use askama::Template;
use assize_domain::run::{metric, param};
use assize_report::figure;
use axum::extract::State;

use super::experiment::runs::{composite, value};
use super::fields::Query;
use super::page::{Frame, PageError, PageResult, Visit, blocking, show};
use super::run::{RunDetails, context, read};
use crate::App;

/// Longer texts are shown without marks.
const MAX_WORDS: usize = 1_500;

#[derive(Template)]
#[template(path = "run_diff.html")]
struct RunDiffPage {
    frame: Frame,
    experiment: String,
    heads: [Head; 2],
    same_prompt: bool,
    prompts: [Vec<Word>; 2],
    contexts: [Vec<(String, String)>; 2],
    same_context: bool,
    candidates: Vec<[Vec<Word>; 2]>,
}

struct Head {
    run_id: String,
    name: String,
    composite: String,
    latency: String,
}

/// A word with the whitespace after it.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    text: String,
    differs: bool,
}

pub(crate) async fn page(State(app): State<App>, Query(fields): Query, visit: Visit) -> PageResult {
    let mut picked: Vec<String> = fields.all("run").into_iter().map(str::to_owned).collect();
    picked.extend(["a", "b"].iter().filter_map(|it| fields.owned(it)));
    let [one, other] = picked.as_slice() else {
        return Err(PageError::invalid(format!(
            "{} runs were selected: select exactly two in the list.",
            picked.len()
        )));
    };
    let (one, other) = (one.clone(), other.clone());
    let pair = blocking(&app, move |app| {
        Ok([read(app, &one, None)?, read(app, &other, None)?])
    })
    .await?;
    let heads = [head(&pair[0]), head(&pair[1])];
    let prompt = |it: &RunDetails| it.prompt.clone().unwrap_or_default();
    let texts = |it: &RunDetails, place: usize| {
        let text = it.candidates.get(place).and_then(|it| it.text.clone());
        text.unwrap_or_default()
    };
    let most = pair[0].candidates.len().max(pair[1].candidates.len());
    show(&RunDiffPage {
        frame: Frame::new("experiments", &visit),
        experiment: pair[0].run.experiment.clone(),
        heads,
        same_prompt: prompt(&pair[0]) == prompt(&pair[1]),
        prompts: marked(&prompt(&pair[0]), &prompt(&pair[1])),
        same_context: pair[0].context == pair[1].context,
        contexts: [&pair[0], &pair[1]].map(|it| context(it.context.as_deref().unwrap_or("{}"))),
        candidates: (0..most)
            .map(|place| marked(&texts(&pair[0], place), &texts(&pair[1], place)))
            .collect(),
    })
}

fn head(whole: &RunDetails) -> Head {
    let run = &whole.run;
    let name = [param::MODEL, param::PROMPT, param::SCENARIO].map(|key| value(&run.params, key));
    let number = |key: &str| {
        let found = run.metrics.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| *value)
    };
    Head {
        run_id: run.run_id.clone(),
        name: name.join(" × "),
        composite: composite(run, whole.is_sealed),
        latency: figure::optional(number(metric::LATENCY_MS), figure::latency),
    }
}

/// Splits both texts into words and marks those outside the longest common subsequence.
fn marked(one: &str, other: &str) -> [Vec<Word>; 2] {
    let (left, right) = (words(one), words(other));
    let mut shared = [vec![false; left.len()], vec![false; right.len()]];
    if left.len() <= MAX_WORDS && right.len() <= MAX_WORDS {
        for (a, b) in common(&left, &right) {
            shared[0][a] = true;
            shared[1][b] = true;
        }
    } else {
        shared = shared.map(|it| vec![true; it.len()]);
    }
    let build = |words: &[&str], shared: &[bool]| {
        let word = |(text, shared): (&&str, &bool)| Word {
            text: (*text).to_owned(),
            differs: !shared,
        };
        words.iter().zip(shared).map(word).collect()
    };
    [build(&left, &shared[0]), build(&right, &shared[1])]
}

/// Splits a text into words, each with the whitespace after it.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut in_space = false;
    for (place, c) in text.char_indices() {
        if in_space && !c.is_whitespace() {
            words.push(&text[start..place]);
            start = place;
        }
        in_space = c.is_whitespace();
    }
    if start < text.len() {
        words.push(&text[start..]);
    }
    words
}

/// The index pairs of the longest common subsequence of words, ignoring whitespace.
fn common(left: &[&str], right: &[&str]) -> Vec<(usize, usize)> {
    let same = |a: usize, b: usize| left[a].trim() == right[b].trim();
    let width = right.len() + 1;
    let mut lengths = vec![0_u16; (left.len() + 1) * width];
    for a in (0..left.len()).rev() {
        for b in (0..right.len()).rev() {
            lengths[a * width + b] = if same(a, b) {
                lengths[(a + 1) * width + b + 1] + 1
            } else {
                lengths[(a + 1) * width + b].max(lengths[a * width + b + 1])
            };
        }
    }
    let (mut a, mut b, mut places) = (0, 0, Vec::new());
    while a < left.len() && b < right.len() {
        if same(a, b) {
            places.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if lengths[(a + 1) * width + b] >= lengths[a * width + b + 1] {
            a += 1;
        } else {
            b += 1;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_are_marked_and_nothing_is_lost() {
        let [left, right] = marked("Take a short walk\nnow.", "Take a long walk now!");
        let differing = |words: &[Word]| -> Vec<String> {
            let differing = words.iter().filter(|it| it.differs);
            differing.map(|it| it.text.trim().to_owned()).collect()
        };
        assert_eq!(differing(&left), ["short", "now."]);
        assert_eq!(differing(&right), ["long", "now!"]);
        let whole: String = left.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(whole, "Take a short walk\nnow.");
        assert_eq!(marked("", "x")[0], []);
    }
}
