//! The best, the worst and the most disputed outputs of every pair.

use assize_domain::leaderboard::answers::{Example, Opinion, PairExamples};

use super::{MIN_WIDTH, Paint, Style, painted};
use crate::sentences::answers as sentences;
use crate::text::{clean, shorten, width, wrap};

/// Longer outputs are cut; `runs show` has the rest.
const MOST_LINES: usize = 10;
/// Longer reasons are cut.
const MOST_REASON_LINES: usize = 4;

/// Every pair with its examples. Ends with a line break.
pub fn render(examples: &[PairExamples], style: Style) -> String {
    let mut page = Page {
        columns: style.width.max(MIN_WIDTH),
        color: style.color,
        lines: Vec::new(),
    };
    for pair in examples {
        let name = pair.pair.to_string();
        let name = shorten(&clean(&name), page.columns - 1);
        page.put(&name, Paint::Strong);
        for (kind, examples) in sentences::example_kinds(pair) {
            for example in examples {
                page.example(kind, example);
            }
        }
        if pair.disputed.is_empty() {
            page.put(
                "disputed: no output has two verdicts that differ",
                Paint::Faint,
            );
        }
        page.lines.push(String::new());
    }
    page.lines.join("\n")
}

struct Page {
    columns: usize,
    color: bool,
    lines: Vec<String>,
}

impl Page {
    fn put(&mut self, text: &str, paint: Paint) {
        let text = painted(text, paint, self.color);
        self.lines.push(format!(" {text}"));
    }

    fn example(&mut self, kind: &str, example: &Example) {
        let head = sentences::example_head(kind, example);
        self.put(&shorten(&clean(&head), self.columns - 1), Paint::Plain);
        let text = example.text.as_deref().unwrap_or_default();
        let run: String = example.run_id.chars().take(8).collect();
        self.block(
            "   │ ",
            text,
            MOST_LINES,
            &format!("assize runs show {run}"),
        );
        for reason in &example.reasons {
            let reason = reason.lines().collect::<Vec<_>>().join(" ");
            self.block("   ", &format!("✗ {reason}"), MOST_REASON_LINES, "");
        }
        for opinion in &example.opinions {
            self.opinion(opinion);
        }
    }

    fn opinion(&mut self, opinion: &Opinion) {
        let text = sentences::opinion(opinion);
        self.block("   ", &text, MOST_REASON_LINES, "");
    }

    /// Untrusted text, line by line after an indent, cut after so many lines.
    fn block(&mut self, indent: &str, text: &str, most: usize, whole: &str) {
        let room = self.columns.saturating_sub(width(indent)).max(8);
        let text = text.replace('\t', " ");
        let lines = text.lines().flat_map(|line| {
            let wrapped = wrap(&clean(line), room);
            if wrapped.is_empty() {
                vec![String::new()]
            } else {
                wrapped
            }
        });
        let lines: Vec<String> = lines.collect();
        for line in lines.iter().take(most) {
            self.lines
                .push(format!("{indent}{line}").trim_end().to_owned());
        }
        if lines.len() > most {
            let more = lines.len() - most;
            let whole = if whole.is_empty() {
                String::new()
            } else {
                format!(": {whole}")
            };
            let line = format!("{indent}… {more} more lines{whole}");
            self.lines.push(painted(&line, Paint::Faint, self.color));
        }
    }
}
