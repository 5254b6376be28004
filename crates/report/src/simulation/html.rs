//! A study as one HTML file: no script, no external resource, light and dark, in print.

use assize_policy::study::Study;

use super::{READING, by_persona, conclusion, heading, policies, regret_curves, sensitivity};
use crate::html::HEAD;
use crate::markup::Markup;
use crate::svg;

/// The whole page. `generated_at` is shown as it is given.
pub fn render(study: &Study, generated_at: &str) -> String {
    let mut page = Markup::default();
    page.raw(HEAD)
        .raw("<title>Simulation of policies</title>\n<style>\n")
        .raw(include_str!("../html/report.css"))
        .raw(svg::CSS)
        .raw("\n</style>\n</head>\n<body>\n<main>\n<header>\n");
    page.leaf("p", &[("class", "kicker".into())], &heading(study));
    page.leaf("h1", &[], &conclusion(study));
    page.raw("\n</header>\n");
    if let Some(base) = study.base() {
        rows(&mut page, &policies(study, base));
        page.raw("<section>\n<h2>Regret over decisions</h2>\n<div class=\"figures\">\n");
        for simulation in &study.simulations {
            page.raw("<figure>");
            if let Some(chart) = regret_curves(simulation) {
                page.append(&chart);
            }
            page.leaf("figcaption", &[], simulation.variant.name());
            page.raw("</figure>\n");
        }
        page.raw("</div>\n</section>\n<section>\n<h2>By persona</h2>\n");
        rows(&mut page, &by_persona(study, base));
        page.raw("</section>\n");
    }
    let assumptions = sensitivity(study);
    if assumptions.len() > 1 {
        page.raw("<section>\n<h2>With other assumptions</h2>\n");
        rows(&mut page, &assumptions);
        page.raw("</section>\n");
    }
    page.leaf("p", &[("class", "reading".into())], READING);
    page.raw("\n<footer>Assize simulation, made ")
        .text(generated_at)
        .raw(".</footer>\n</main>\n</body>\n</html>\n");
    page.into_string()
}

/// A table whose first row is its head.
fn rows(page: &mut Markup, rows: &[Vec<String>]) {
    page.raw("<div class=\"scroll\" tabindex=\"0\"><table>\n");
    for (place, row) in rows.iter().enumerate() {
        page.raw(if place == 0 { "<thead><tr>" } else { "<tr>" });
        for (column, cell) in row.iter().enumerate() {
            let is_head = place == 0 || column == 0;
            let name = if is_head { "th" } else { "td" };
            let class = if column == 0 || rows[0][column] == "family" {
                "name"
            } else {
                ""
            };
            page.leaf(name, &[("class", class.into())], cell);
        }
        page.raw(if place == 0 {
            "</tr></thead>\n<tbody>\n"
        } else {
            "</tr>\n"
        });
    }
    page.raw("</tbody></table></div>\n");
}
