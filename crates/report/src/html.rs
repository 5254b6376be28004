//! The leaderboard as one HTML file: no script, no external resource, light and dark, in print.
//!
//! The first thing on the page is the decision; then the table, whose rows carry the forest
//! plot; then the charts. A content security policy in the file itself forbids everything but
//! its own style, so that even a mistake in escaping could not run anything.
//!
//! The page is written with [`Markup`] and not with a template engine, for the reason given in
//! `markup`.

use assize_domain::leaderboard::answers::Answers;
use assize_domain::leaderboard::{Leaderboard, Row};

use crate::axis::{interval, is_measured};
use crate::columns::{self, Column};
use crate::markup::Markup;
use crate::sentences::Next;
use crate::svg::{self, forest};
use crate::{figure, sentences};

mod answers;

pub(crate) const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">
<meta name=\"color-scheme\" content=\"light dark\">
";

/// The whole page without the answers behind it. `generated_at` is shown as it is given.
pub fn render(board: &Leaderboard, generated_at: &str) -> String {
    render_with(board, &Answers::default(), generated_at)
}

/// The whole page, with sections for the answers that are given.
pub fn render_with(board: &Leaderboard, answers: &Answers, generated_at: &str) -> String {
    let mut page = Markup::default();
    page.raw(HEAD)
        .leaf("title", &[], &format!("{} · leaderboard", board.experiment))
        .raw("\n<style>\n")
        .raw(include_str!("html/report.css"))
        .raw(svg::CSS)
        .raw("\n</style>\n</head>\n<body>\n<main>\n");
    header(&mut page, board);
    answers::contents(&mut page, answers);
    if !board.rows.is_empty() {
        let deciding = columns::deciding(board);
        table(&mut page, board, "Leaderboard", &deciding, true);
        figures(&mut page, board);
        page.raw("<section>\n<h2>Criteria, flags and speed</h2>\n");
        table(
            &mut page,
            board,
            "Criteria, flags and speed",
            &columns::explaining(board),
            false,
        );
        page.raw("</section>\n");
        if let Some(by) = &answers.by_scenario {
            answers::by_scenario(&mut page, board, by);
        }
        if let Some(examples) = &answers.examples {
            answers::examples(&mut page, examples);
        }
        reading(&mut page, board);
    }
    if let Some(outputs) = &answers.outputs {
        answers::outputs(&mut page, outputs);
    }
    page.raw("<footer>Assize leaderboard, made ")
        .text(generated_at);
    if let Some(rubric) = &board.rubric {
        let short: String = rubric.sha256.chars().take(12).collect();
        page.raw(". Rubric ")
            .text(&rubric.id)
            .raw(" <code>")
            .text(&short)
            .raw("</code>");
    }
    page.raw(".</footer>\n</main>\n</body>\n</html>\n");
    page.into_string()
}

fn header(page: &mut Markup, board: &Leaderboard) {
    page.raw("<header>\n<p class=\"kicker\"><bdi>")
        .text(&board.experiment)
        .raw("</bdi> · ");
    page.text(&board.split)
        .raw(" split · ")
        .text(board.scored_by())
        .raw(if board.computed {
            " scores</p>\n"
        } else {
            " tier</p>\n"
        });
    let verdict = sentences::nothing_to_rank(board).or_else(|| sentences::decision(board));
    page.leaf(
        "h1",
        &[],
        &verdict.unwrap_or_else(|| "Leaderboard".to_owned()),
    )
    .raw("\n");
    if let Some(note) = sentences::tier_note(board) {
        page.leaf("p", &[("class", "note".into())], note).raw("\n");
    }
    if let Some(coverage) = sentences::coverage(board) {
        page.leaf("p", &[], &coverage).raw("\n");
    }
    if let Some(used) = sentences::confirmation_use(board) {
        page.leaf("p", &[], &used).raw("\n");
    }
    if let Some(line) = sentences::combination(board) {
        page.leaf("p", &[], &line).raw("\n");
    }
    if board.rows.is_empty() {
        next_step(page, board);
    }
    if !board.warnings.is_empty() {
        page.raw("<ul class=\"notes\">\n");
        for warning in &board.warnings {
            page.leaf("li", &[], warning).raw("\n");
        }
        page.raw("</ul>\n");
    }
    page.raw("</header>\n");
}

/// The next step, for a board without rows.
fn next_step(page: &mut Markup, board: &Leaderboard) {
    page.raw("<p>Next: ");
    match sentences::next(board) {
        Next::Command(parts) => page.leaf("code", &[], &parts.join(" ")),
        Next::Advice(advice) => page.text(advice),
    };
    page.raw("</p>\n");
}

/// One table in a scrollable box; `plot` adds composite and forest plot.
fn table(
    page: &mut Markup,
    board: &Leaderboard,
    name: &'static str,
    columns: &[Column<'_>],
    plot: bool,
) {
    scroll_box(page, name);
    page.raw("<table>\n<thead>\n<tr>");
    page.raw("<th scope=\"col\">#</th><th scope=\"col\" class=\"name\">model × prompt</th>");
    if plot {
        let head = format!("composite{}", sentences::of_maximum(board));
        page.leaf("th", &[("scope", "col".into())], &head);
        let head = if is_measured(board) {
            "95 % interval"
        } else {
            "mean"
        };
        page.leaf(
            "th",
            &[("scope", "col".into()), ("class", "plot-head".into())],
            head,
        );
    }
    for column in columns {
        page.leaf("th", &[("scope", "col".into())], &column.head);
    }
    page.raw("</tr>\n</thead>\n<tbody>\n");
    for row in &board.rows {
        let class = if plot && sentences::is_winner(board, row) {
            "winner"
        } else {
            "row"
        };
        page.open("tr", &[("class", class.into())]);
        page.leaf("td", &[], &row.rank.to_string());
        page.raw("<th scope=\"row\" class=\"name\"><bdi>")
            .text(&row.model)
            .raw("</bdi> ×\u{a0}<bdi>");
        page.text(&row.prompt).raw("</bdi></th>");
        if plot {
            estimate(page, board, row);
        }
        for column in columns {
            page.leaf("td", &[], &column.cell(row));
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody>\n");
    if plot {
        page.raw("<tfoot><tr><td></td><td class=\"name\"></td><td></td><td class=\"plot\">");
        page.append(&forest::axis(board)).raw("</td>");
        for _ in columns {
            page.raw("<td></td>");
        }
        page.raw("</tr></tfoot>\n");
    }
    page.raw("</table>\n</div>\n");
}

fn estimate(page: &mut Markup, board: &Leaderboard, row: &Row) {
    page.raw("<td>").text(&figure::plain(row.composite.mean));
    if let Some(ends) = interval(row) {
        page.raw(" ").leaf("small", &[], &figure::half(ends));
    }
    page.raw("</td><td class=\"plot\">")
        .append(&forest::cell(board, row))
        .raw("</td>");
}

fn scroll_box(page: &mut Markup, name: &str) {
    page.open(
        "div",
        &[
            ("class", "scroll".into()),
            ("tabindex", "0".into()),
            ("role", "region".into()),
            ("aria-label", name.into()),
        ],
    );
    page.raw("\n");
}

fn figures(page: &mut Markup, board: &Leaderboard) {
    let against = board.pareto.as_ref().map(|it| it.against);
    let against = against.unwrap_or_default();
    let intervals = if is_measured(board) {
        "Vertical lines are 95 % intervals; a number is a rank in the table."
    } else {
        "A number is a rank in the table."
    };
    let caption = format!(
        "Filled points, joined by the dashed line: no other pair is both better and {}. Hollow points: some pair is. \
         {intervals}",
        sentences::uses_less(against)
    );
    page.raw("<div class=\"figures\">\n");
    figure_of(
        page,
        "Models and prompts",
        "Mean composite of every model with every prompt.",
        svg::heat_map::draw(board),
    );
    figure_of(
        page,
        "Where the differences come from",
        "Shares of the total variance of single scores. Only the parts of model, prompt and their combination can be \
         shipped; the rest is due to scenarios and chance.",
        svg::variance::draw(board),
    );
    figure_of(
        page,
        "Where the leader loses",
        "Scenarios and segments in which the leading challenger is worse than the incumbent. Filled points: without the \
         noise of few candidates. Hollow points: as observed.",
        svg::losses::draw(board),
    );
    figure_of(
        page,
        &format!("Quality and {}", against.name()),
        &caption,
        svg::scatter::draw(board),
    );
    page.raw("</div>\n");
}

fn figure_of(page: &mut Markup, heading: &str, caption: &str, drawing: Option<Markup>) {
    let Some(drawing) = drawing else {
        return;
    };
    page.raw("<figure>\n").leaf("h2", &[], heading).raw("\n");
    scroll_box(page, heading);
    page.append(&drawing)
        .raw("\n</div>\n<figcaption>")
        .text(caption)
        .raw("</figcaption>\n</figure>\n");
}

fn reading(page: &mut Markup, board: &Leaderboard) {
    page.raw(
        "<section class=\"reading\">\n<h2>How to read this</h2>\n<dl>\n\
         <dt>composite</dt><dd>The mean over scenarios of the rubric's total; ± is half of the 95 % interval.</dd>\n\
         <dt>vs incumbent</dt><dd>The mean difference on the scenarios that both have; the dashed line in the plot is the incumbent.</dd>\n\
         <dt>p adj</dt><dd>The probability of so large a lead if no challenger were better, corrected for the number of \
         challengers. "
    );
    page.text(&sentences::significant_below(board)).raw(
        " It is one-sided and covers all challengers together, while ± beside a \
         difference is two-sided and covers one: the two can disagree, and p adj decides.</dd>\n\
         <dt>p best</dt><dd>How often the pair comes first when the scenarios are resampled.</dd>\n\
         </dl>\n</section>\n",
    );
}
