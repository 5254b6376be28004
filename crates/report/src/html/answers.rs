//! The sections of the HTML report about scenarios and outputs.
//!
//! Outputs come from models: they are only ever added as escaped text. Everything is in the file
//! itself; the outputs of a scenario are folded with `details`, which needs no script.

use assize_domain::leaderboard::answers::{
    Answers, ByScenario, Example, Output, Outputs, PairExamples, ScenarioOutputs, ScenarioRow,
};
use assize_domain::leaderboard::{Leaderboard, Pair};

use super::scroll_box;
use crate::axis::Axis;
use crate::figure;
use crate::markup::Markup;
use crate::sentences::answers as sentences;
use crate::svg::difference;

/// Longer outputs are cut on the page of all outputs.
const MOST_CHARS: usize = 4_000;

/// More pairs that are equal are only counted.
const MOST_NAMED: usize = 3;

/// Links to the sections.
pub fn contents(page: &mut Markup, answers: &Answers) {
    if answers == &Answers::default() {
        return;
    }
    page.raw("<nav aria-label=\"Sections\">");
    if answers.by_scenario.is_some() {
        page.raw("<a href=\"#by-scenario\">By scenario</a>");
    }
    if answers.examples.is_some() {
        page.raw("<a href=\"#examples\">Examples</a>");
    }
    if answers.outputs.is_some() {
        page.raw("<a href=\"#outputs\">All outputs side by side</a>");
    }
    page.raw("</nav>\n");
}

/// Who wins where, with the paired difference as a small plot.
pub fn by_scenario(page: &mut Markup, board: &Leaderboard, by: &ByScenario) {
    page.raw("<section id=\"by-scenario\">\n<h2>By scenario</h2>\n");
    page.leaf("p", &[], &sentences::wins(by)).raw("\n");
    if let (Some(challenger), Some(incumbent)) = (&by.challenger, &board.incumbent) {
        let line = format!("Differences: {challenger} minus {incumbent}, the incumbent.");
        page.leaf("p", &[], &line).raw("\n");
    }
    let diffs = by.scenarios.iter().filter_map(|row| row.diff);
    let axis = Axis::covering(diffs.chain([0.0]), 4.0);
    scroll_box(page, "By scenario");
    page.raw(
        "<table>\n<thead>\n<tr><th scope=\"col\" class=\"name\">scenario</th>\
         <th scope=\"col\" class=\"left\">highest mean</th><th scope=\"col\">mean</th>\
         <th scope=\"col\">difference</th><th scope=\"col\" class=\"plot-head\">worse · better</th>\
         </tr>\n</thead>\n<tbody>\n",
    );
    for row in &by.scenarios {
        scenario(page, row, axis.as_ref());
    }
    page.raw("</tbody>\n</table>\n</div>\n</section>\n");
}

fn scenario(page: &mut Markup, row: &ScenarioRow, axis: Option<&Axis>) {
    let best = row.pairs.iter().map(|it| it.mean).fold(f64::NAN, f64::max);
    page.raw("<tr><th scope=\"row\" class=\"name\"><bdi>")
        .text(&row.scenario)
        .raw("</bdi></th><td class=\"left\">");
    if row.best.len() > MOST_NAMED {
        page.text(&format!("{} pairs, equal", row.best.len()));
    } else {
        for (position, pair) in row.best.iter().enumerate() {
            if position > 0 {
                page.raw("<br/>");
            }
            name(page, pair);
        }
    }
    page.raw("</td>").leaf("td", &[], &figure::plain(best));
    page.leaf("td", &[], &figure::optional(row.diff, figure::signed));
    page.raw("<td class=\"plot\">");
    if let (Some(axis), Some(diff)) = (axis, row.diff) {
        page.append(&difference::cell(axis, diff));
    }
    page.raw("</td></tr>\n");
}

fn name(page: &mut Markup, pair: &Pair) {
    page.raw("<bdi>").text(&pair.model);
    page.raw("</bdi> ×\u{a0}<bdi>").text(&pair.prompt);
    page.raw("</bdi>");
}

/// The best, the worst and the most disputed outputs of every pair.
pub fn examples(page: &mut Markup, examples: &[PairExamples]) {
    page.raw("<section id=\"examples\">\n<h2>Best, worst and most disputed outputs</h2>\n");
    for pair in examples {
        page.raw("<h3>");
        name(page, &pair.pair);
        page.raw("</h3>\n");
        for (kind, examples) in sentences::example_kinds(pair) {
            for it in examples {
                example(page, kind, it);
            }
        }
        if pair.disputed.is_empty() {
            page.raw("<p class=\"kicker\">No output has two verdicts that differ.</p>\n");
        }
    }
    page.raw("</section>\n");
}

fn example(page: &mut Markup, kind: &str, example: &Example) {
    page.raw("<div class=\"example\">\n");
    let head = sentences::example_head(kind, example);
    page.leaf("div", &[("class", "kicker".into())], &head);
    page.raw("\n<pre dir=\"auto\">")
        .lines(example.text.as_deref().unwrap_or_default())
        .raw("</pre>\n<ul class=\"opinions\">\n");
    for reason in &example.reasons {
        page.raw("<li class=\"failed\">✗ ")
            .lines(reason)
            .raw("</li>\n");
    }
    for opinion in &example.opinions {
        page.raw("<li>")
            .lines(&sentences::opinion(opinion))
            .raw("</li>\n");
    }
    page.raw("</ul>\n</div>\n");
}

/// All outputs, a table for each scenario with a column for each pair.
pub fn outputs(page: &mut Markup, outputs: &Outputs) {
    page.raw("<section id=\"outputs\">\n<h2>All outputs side by side</h2>\n");
    if outputs.left_out > 0 {
        let note = format!(
            "{} cells are not on this page because it would be too large: assize runs export has all of them.",
            outputs.left_out
        );
        page.leaf("p", &[("class", "note".into())], &note).raw("\n");
    }
    for scenario in &outputs.scenarios {
        of_scenario(page, &outputs.pairs, scenario);
    }
    page.raw("</section>\n");
}

fn of_scenario(page: &mut Markup, pairs: &[Pair], scenario: &ScenarioOutputs) {
    let count: usize = scenario.cells.iter().map(Vec::len).sum();
    page.raw("<details>\n<summary><bdi>")
        .text(&scenario.scenario);
    page.raw("</bdi> ")
        .leaf("small", &[], &format!("{count} outputs"));
    page.raw("</summary>\n");
    scroll_box(page, &scenario.scenario);
    page.raw("<table class=\"outputs\">\n<thead>\n<tr>");
    for pair in pairs {
        page.raw("<th scope=\"col\">");
        name(page, pair);
        page.raw("</th>");
    }
    page.raw("</tr>\n</thead>\n<tbody>\n");
    let rows = scenario.cells.iter().map(Vec::len).max().unwrap_or(0);
    for row in 0..rows {
        page.raw("<tr>");
        for cell in &scenario.cells {
            page.raw("<td>");
            if let Some(it) = cell.get(row) {
                output(page, it);
            }
            page.raw("</td>");
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody>\n</table>\n</div>\n</details>\n");
}

fn output(page: &mut Markup, output: &Output) {
    let composite = figure::optional(output.composite, figure::plain);
    page.leaf("small", &[], &composite);
    let whole = output.text.chars().count();
    let shown: String = output.text.chars().take(MOST_CHARS).collect();
    let class = if output.is_error { "failed" } else { "text" };
    page.open("pre", &[("dir", "auto".into()), ("class", class.into())])
        .lines(&shown)
        .raw("</pre>");
    if whole > MOST_CHARS {
        let note = format!("… {} more characters", whole - MOST_CHARS);
        page.leaf("small", &[], &note);
    }
    if !output.reasons.is_empty() {
        page.raw("<small class=\"failed\">✗ ")
            .lines(&output.reasons)
            .raw("</small>");
    }
}
