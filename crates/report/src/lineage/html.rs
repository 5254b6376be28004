//! A loop as one HTML file: no script, no external resource, light and dark, in print.

use assize_optimise::diff::{Change, DiffLine, lines};
use assize_optimise::lineage::{Lineage, LineageVersion};

use super::{READING, branches, budget, conclusion, fate, heading, lead, score};
use crate::html::HEAD;
use crate::markup::Markup;
use crate::svg;

const CSS: &str = "\
th.text, td.id { text-align: left; }
td.text { min-width: 12rem; text-align: left; white-space: normal; overflow-wrap: anywhere; }
details { margin: .5rem 0; }
summary { padding: .35rem 0; cursor: pointer; overflow-wrap: anywhere; }
pre { margin: .25rem 0 1rem; padding: .6rem .8rem; border: 1px solid var(--rule); white-space: pre-wrap; \
overflow-wrap: anywhere; font: .87rem/1.45 ui-monospace, monospace; }
pre ins, pre del { display: block; text-decoration: none; }
pre span { display: block; }
pre ins { color: light-dark(#0a6b2f, #7fd69b); }
pre del { color: light-dark(#a11d1d, #ff9d9d); }
";

/// The whole page. `generated_at` is shown as it is given.
pub fn render(lineage: &Lineage, generated_at: &str) -> String {
    let mut page = Markup::default();
    page.raw(HEAD)
        .leaf("title", &[], &format!("{} · lineage", lineage.experiment))
        .raw("\n<style>\n")
        .raw(include_str!("../html/report.css"))
        .raw(svg::CSS)
        .raw("\n")
        .raw(CSS)
        .raw("</style>\n</head>\n<body>\n<main>\n<header>\n<p class=\"kicker\"><bdi>")
        .text(&lineage.experiment)
        .raw("</bdi> · ")
        .text(&heading(lineage))
        .raw("</p>\n")
        .leaf("h1", &[], &conclusion(lineage))
        .raw("\n</header>\n");
    if let Some(chart) = svg::lineage::draw(lineage) {
        page.raw("<section>\n<div class=\"scroll\" tabindex=\"0\">");
        page.append(&chart).raw("</div>\n</section>\n");
    }
    versions(&mut page, lineage);
    page.raw("<section>\n<h2>Budget</h2>\n<dl>\n");
    for (name, value) in budget(lineage) {
        page.leaf("dt", &[], name).leaf("dd", &[], &value).raw("\n");
    }
    page.raw("</dl>\n</section>\n");
    texts(&mut page, lineage);
    page.leaf("p", &[("class", "reading".into())], READING);
    page.raw("\n<footer>Assize lineage, made ")
        .text(generated_at)
        .raw(".</footer>\n</main>\n</body>\n</html>\n");
    page.into_string()
}

fn versions(page: &mut Markup, lineage: &Lineage) {
    page.raw(
        "<section>\n<h2>Versions</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>",
    );
    page.raw(
        "<th scope=\"col\" class=\"text\">version</th><th scope=\"col\" class=\"text\">parent</th>",
    );
    page.raw(
        "<th scope=\"col\" class=\"text\">hypothesis</th><th scope=\"col\">feedback [95 %]</th>",
    );
    page.raw("<th scope=\"col\">lead</th><th scope=\"col\" class=\"text\">fate</th></tr></thead>\n<tbody>\n");
    for branch in branches(lineage) {
        let it = branch.version;
        page.raw("<tr>")
            .leaf(
                "th",
                &[("scope", "row".into()), ("class", "text".into())],
                &it.id,
            )
            .leaf(
                "td",
                &[("class", "id".into())],
                it.parent.as_deref().unwrap_or_default(),
            );
        page.leaf("td", &[("class", "text".into())], &it.hypothesis);
        page.leaf("td", &[], &score(it)).leaf("td", &[], &lead(it));
        page.raw("<td class=\"text\">").text(&fate(it));
        if let Some(reason) = &it.reason {
            page.raw("<br>").leaf("small", &[], reason);
        }
        page.raw("</td></tr>\n");
    }
    page.raw("</tbody></table></div>\n</section>\n");
}

/// The whole text of the seed, and how every child differs from its parent.
fn texts(page: &mut Markup, lineage: &Lineage) {
    page.raw("<section>\n<h2>Texts</h2>\n");
    for it in &lineage.versions {
        let parent = it.parent.as_deref();
        let find = |id: &str| lineage.versions.iter().find(|it| it.id == id);
        let parent = parent.and_then(find);
        page.raw("<details><summary>").text(&it.id);
        match parent {
            Some(parent) => page.raw(", compared with ").text(&parent.id),
            None => page.raw(", whole"),
        };
        page.raw("</summary>\n<pre>");
        for line in difference(parent, it) {
            diff_line(page, &line);
        }
        page.raw("</pre></details>\n");
    }
    page.raw("</section>\n");
}

fn difference(parent: Option<&LineageVersion>, it: &LineageVersion) -> Vec<DiffLine> {
    let text = it.version.as_text();
    let before = parent.map_or_else(|| text.clone(), |it| it.version.as_text());
    lines(&before, &text)
}

fn diff_line(page: &mut Markup, line: &DiffLine) {
    let name = match line.change {
        Change::Same => "span",
        Change::Removed => "del",
        Change::Added => "ins",
    };
    page.leaf(name, &[], &line.as_text());
}
