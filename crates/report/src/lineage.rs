//! A prompt loop for readers: terminal, Markdown, SVG and HTML.
//!
//! The versions are shown as a tree, each with its hypothesis, its mean on the feedback split with
//! the 95 % interval, its fate and the reason. All figures are the lineage's. Hypotheses, reasons
//! and texts were written by models, so every format cleans and escapes them.

use assize_optimise::lineage::{Lineage, LineageVersion};
use assize_optimise::tree::State;

use crate::figure;
use crate::markup::Markup;
use crate::svg;
use crate::terminal::MIN_WIDTH;
use crate::text::{clean, shorten, width, wrap};

pub mod html;
pub mod markdown;

/// Columns of a terminal's tree at most; deeper branches lose their left part.
const TREE_COLUMNS: usize = 24;
const SCORE_COLUMNS: usize = 20;

/// What the figures mean, under every table of them.
pub const READING: &str = "Scores are the automatic judge's on the feedback split, with 95 % intervals over \
     scenarios. They chose the versions, so the leading ones are too high on average: what ships is \
     decided by the gate, on the other splits.";

/// One version in the tree.
#[derive(Debug, Clone)]
pub struct Branch<'a> {
    /// 0 for the seed.
    pub depth: usize,
    /// For every level above, whether its line goes on below this version.
    pub open: Vec<bool>,
    pub version: &'a LineageVersion,
}

impl Branch<'_> {
    /// The lines of the tree to the left of the version's name, and of the text under it.
    fn rails(&self) -> (String, String) {
        let rail = |open: &bool| if *open { "│  " } else { "   " };
        let Some((own, above)) = self.open.split_last() else {
            return (String::new(), String::new());
        };
        let above: String = above.iter().map(rail).collect();
        let knot = if *own { "├─ " } else { "└─ " };
        (format!("{above}{knot}"), format!("{above}{}", rail(own)))
    }
}

/// The versions, depth first.
pub fn branches(lineage: &Lineage) -> Vec<Branch<'_>> {
    let walked = lineage.depth_first();
    let goes_on = |place: usize, depth: usize| {
        let below = walked[place + 1..].iter();
        let next = below
            .map(|it| it.0)
            .find(|it| *it <= depth)
            .unwrap_or_default();
        next == depth
    };
    let mut open: Vec<bool> = Vec::new();
    let mut found = Vec::with_capacity(walked.len());
    for (place, &(depth, version)) in walked.iter().enumerate() {
        if depth > 0 {
            open.truncate(depth - 1);
            open.push(goes_on(place, depth));
        }
        found.push(Branch {
            depth,
            open: open.clone(),
            version,
        });
    }
    found
}

/// `pending judgement`
pub fn state_words(state: State) -> String {
    state.as_str().replace('_', " ")
}

/// `Prompt loop, started from v1 against qwen2.5:1.5b × v1`
pub fn heading(lineage: &Lineage) -> String {
    let seed = lineage.versions.first().map(|it| it.version.name.as_str());
    format!(
        "Prompt loop from {} against {}",
        clean(seed.unwrap_or_default()),
        clean(&lineage.incumbent)
    )
}

/// How it ended, or how far it has come.
pub fn conclusion(lineage: &Lineage) -> String {
    let reason = lineage.reason.as_deref().map(sentence).unwrap_or_default();
    let nominee = lineage.nominee.as_ref().map(|it| clean(&it.child));
    match (lineage.state, nominee) {
        (State::Promoted, Some(nominee)) => {
            let gain = lineage.gain.map_or_else(String::new, |gain| {
                format!(", {} over the incumbent", figure::signed(gain))
            });
            format!("{nominee} was promoted{gain}.")
        }
        (State::Rejected, Some(nominee)) => format!("{nominee} was not promoted. {reason}"),
        (State::Rejected, None) => format!("Nothing was nominated. {reason}"),
        (state, Some(nominee)) => format!("{nominee} is nominated: {}.", state_words(state)),
        (state, None) => format!(
            "Round {} of {}: {}.",
            lineage.used.rounds,
            lineage.settings.rounds,
            state_words(state)
        ),
    }
    .trim_end()
    .to_owned()
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    let text = clean(text);
    let text = text.trim().trim_end_matches('.');
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}

/// What is used, and the limits: name and text.
pub fn budget(lineage: &Lineage) -> Vec<(&'static str, String)> {
    let (used, settings) = (&lineage.used, &lineage.settings);
    let of = |used: u32, limit: u32| format!("{used} of {limit}");
    let mut cost = format!("${:.2}", used.cost_usd);
    if let Some(limit) = settings.max_cost_usd {
        cost.push_str(&format!(" of ${limit:.2}"));
    }
    let mut rows = vec![
        ("rounds", of(used.rounds, settings.rounds)),
        ("children", of(used.children, settings.children_in_all())),
        (
            "automatic verdicts",
            of(used.auto_verdicts, settings.max_auto),
        ),
        ("expert verdicts", used.expert_verdicts.to_string()),
        ("cost", cost),
    ];
    rows.extend(
        settings
            .max_hours
            .map(|it| ("hours of search", format!("at most {it}"))),
    );
    if let Some(end) = &lineage.search_end {
        rows.push(("search ended", clean(&end.reason).into_owned()));
    }
    rows
}

/// `11.40 [10.10, 12.70]`; a dash where it has no score.
pub fn score(version: &LineageVersion) -> String {
    let Some(it) = &version.feedback else {
        return figure::NONE.to_owned();
    };
    match it.ci95 {
        Some(ends) => format!("{} {}", figure::plain(it.mean), figure::interval(ends)),
        None => figure::plain(it.mean),
    }
}

/// The paired difference to its parent; empty where there is none.
pub fn lead(version: &LineageVersion) -> String {
    version.lead.map_or_else(String::new, figure::signed)
}

/// What became of it, in words; the seed's is its name.
pub fn fate(version: &LineageVersion) -> String {
    if version.parent.is_none() {
        return format!("the start: {}", clean(&version.version.name));
    }
    state_words(version.state)
}

/// The tree for a terminal of so many columns. Ends with a line break.
pub fn terminal(lineage: &Lineage, columns: usize) -> String {
    let columns = columns.clamp(MIN_WIDTH, 100);
    let mut lines = vec![
        shorten(&format!("Loop {}", clean(&lineage.experiment)), columns),
        shorten(&heading(lineage), columns),
    ];
    lines.extend(wrap(&conclusion(lineage), columns));
    lines.push(String::new());
    let head = format!(
        "{:<TREE_COLUMNS$}  {:>SCORE_COLUMNS$}  {:>6}  fate",
        "version", "feedback [95 %]", "lead"
    );
    lines.push(shorten(&head, columns));
    for branch in branches(lineage) {
        lines.extend(branch_lines(&branch, columns));
    }
    lines.push(String::new());
    lines.extend(wrap(READING, columns));
    lines.join("\n") + "\n"
}

fn branch_lines(branch: &Branch<'_>, columns: usize) -> Vec<String> {
    let it = branch.version;
    let (knot, rail) = branch.rails();
    let name = format!("{knot}{}", clean(&it.id));
    // Where branches are very deep, their end is what tells versions apart.
    let name = last_columns(&name, TREE_COLUMNS);
    let rail = last_columns(&rail, TREE_COLUMNS);
    let pad = " ".repeat(TREE_COLUMNS.saturating_sub(width(&name)));
    let figures = format!("{:>SCORE_COLUMNS$}  {:>6}", score(it), lead(it));
    let line = format!("{name}{pad}  {figures}  {}", fate(it));
    let mut lines = vec![shorten(&line, columns)];
    let room = columns.saturating_sub(width(&rail) + 2).max(20);
    let mut add = |first: &str, text: &str| {
        let text = clean(text);
        let wrapped = wrap(text.trim(), room.saturating_sub(width(first)));
        for (place, words) in wrapped.iter().enumerate() {
            let lead = if place == 0 {
                first.to_owned()
            } else {
                " ".repeat(width(first))
            };
            lines.push(format!("{rail}  {lead}{words}"));
        }
    };
    if !it.hypothesis.is_empty() {
        add("", &it.hypothesis);
    }
    if let Some(reason) = &it.reason {
        add("→ ", reason);
    }
    lines
}

/// The last columns of a text in characters of one column each, with … where something was left out.
fn last_columns(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(count - (most - 1)).collect();
    format!("…{kept}")
}

/// The tree with every version's score and interval, as SVG.
pub fn chart(lineage: &Lineage) -> Option<String> {
    svg::lineage::draw(lineage).map(Markup::into_string)
}
