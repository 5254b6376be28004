//! Scenarios and outputs as Markdown.

use assize_domain::leaderboard::answers::{ByScenario, Example, PairExamples};

use super::escape;
use crate::figure;
use crate::sentences::answers as sentences;

/// Who wins where.
pub fn by_scenario(by: &ByScenario) -> String {
    let mut lines = vec![
        "#### By scenario".to_owned(),
        String::new(),
        escape(&sentences::wins(by)),
        String::new(),
        "| scenario | highest mean | mean | difference |".to_owned(),
        "| :--- | :--- | ---: | ---: |".to_owned(),
    ];
    for row in &by.scenarios {
        let best = row.best.iter().map(|it| escape(&it.to_string()));
        let best: Vec<String> = best.collect();
        let mean = row.pairs.iter().map(|it| it.mean).fold(f64::NAN, f64::max);
        lines.push(format!(
            "| {} | {} | {} | {} |",
            escape(&row.scenario),
            best.join(", "),
            figure::plain(mean),
            figure::optional(row.diff, figure::signed)
        ));
    }
    lines.join("\n") + "\n"
}

/// The best, the worst and the most disputed outputs of every pair.
pub fn examples(examples: &[PairExamples]) -> String {
    let mut blocks = vec!["#### Best, worst and most disputed outputs".to_owned()];
    for pair in examples {
        blocks.push(format!("**{}**", escape(&pair.pair.to_string())));
        for (kind, examples) in sentences::example_kinds(pair) {
            blocks.extend(examples.iter().map(|it| example(kind, it)));
        }
    }
    blocks.join("\n\n") + "\n"
}

fn example(kind: &str, example: &Example) -> String {
    let mut lines = vec![
        escape(&sentences::example_head(kind, example)),
        String::new(),
    ];
    let text = example.text.as_deref().unwrap_or_default();
    // Two spaces at the end of a line keep its break.
    lines.extend(
        text.lines()
            .map(|line| format!("> {}  ", escape(line.trim_start()))),
    );
    lines.push(String::new());
    let reasons = example.reasons.iter();
    lines.extend(reasons.map(|it| format!("- ✗ {}", one_line(it))));
    let opinions = example.opinions.iter();
    lines.extend(opinions.map(|it| format!("- {}", one_line(&sentences::opinion(it)))));
    lines.join("\n").trim_end().to_owned()
}

fn one_line(text: &str) -> String {
    escape(&text.lines().collect::<Vec<_>>().join(" "))
}
