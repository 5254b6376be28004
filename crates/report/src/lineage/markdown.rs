//! A loop as Markdown: the conclusion, a table of the versions, the budget.

use assize_optimise::lineage::Lineage;

use super::{READING, branches, budget, conclusion, fate, heading, lead, score};
use crate::markdown::escape;

/// The whole document.
pub fn render(lineage: &Lineage) -> String {
    let mut text = format!(
        "# {}\n\n{}\n\n**{}**\n\n",
        escape(&lineage.experiment),
        escape(&heading(lineage)),
        escape(&conclusion(lineage))
    );
    text.push_str("| version | parent | hypothesis | feedback [95 %] | lead | fate |\n");
    text.push_str("|---|---|---|---:|---:|---|\n");
    for branch in branches(lineage) {
        let it = branch.version;
        let reason = it.reason.as_deref().unwrap_or_default();
        let fate = match reason {
            "" => fate(it),
            reason => format!("{}: {reason}", fate(it)),
        };
        let cells = [
            it.id.as_str(),
            it.parent.as_deref().unwrap_or_default(),
            &it.hypothesis,
            &score(it),
            &lead(it),
            &fate,
        ];
        let cells: Vec<String> = cells.iter().map(|it| escape(it)).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text.push('\n');
    for (name, value) in budget(lineage) {
        text.push_str(&format!("- {name}: {}\n", escape(&value)));
    }
    text.push_str(&format!("\n{READING}\n"));
    text
}
