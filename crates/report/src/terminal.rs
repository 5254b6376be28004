//! The leaderboard on a terminal.
//!
//! No line is longer than the given width. A wider terminal gets more columns and full names;
//! columns that do not fit go into a second table below the first. Colour only repeats what the
//! text says.
//!
//! The axis of the bars covers the intervals and not the rubric's whole range, on which they would
//! all look alike. Its ends are printed below the rows, and the header names the rubric's maximum.

mod bar;
pub mod by_scenario;
mod columns;
pub mod examples;
mod paint;
mod pareto;

use assize_domain::leaderboard::Leaderboard;

pub(crate) use self::paint::{Paint, painted};
use crate::figure;
use crate::sentences::{self, Next};
use crate::text::{clean, shorten, width, wrap};

/// Narrower terminals are treated as this wide.
pub(crate) const MIN_WIDTH: usize = 40;
/// Sentences are wrapped at this width, because longer lines are hard to read.
const MAX_TEXT_WIDTH: usize = 100;

/// The most scenarios and segments that are listed under the table.
const MOST_LOSSES: usize = 5;

/// The terminal's capabilities and the requested parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// In columns; fewer than 40 are taken as 40.
    pub width: usize,
    pub color: bool,
    /// Whether to show quality against latency.
    pub pareto: bool,
}

/// The table with the decision, where the differences come from, warnings, coverage and the
/// next step. Ends with a line break.
pub fn table(board: &Leaderboard, style: Style) -> String {
    table_with(board, style, sentences::next(board))
}

/// [`table`], with another next step.
pub fn table_with(board: &Leaderboard, style: Style, next: Next) -> String {
    let style = Style {
        width: style.width.max(MIN_WIDTH),
        ..style
    };
    let mut page = Page {
        style,
        lines: Vec::new(),
    };
    if let Some(note) = sentences::tier_note(board) {
        page.sentence(note, Paint::Warning);
        page.gap();
    }
    if let Some(nothing) = sentences::nothing_to_rank(board) {
        page.sentence(&nothing, Paint::Strong);
    } else {
        page.lines.extend(columns::lines(board, style));
        page.gap();
        if let Some(decision) = sentences::decision(board) {
            page.sentence(&decision, Paint::Strong);
        }
        if style.pareto {
            pareto::add(&mut page, board);
        }
    }
    if let Some(combination) = sentences::combination(board) {
        page.sentence(&combination, Paint::Plain);
    }
    page.losses(board);
    page.sources(board);
    for warning in &board.warnings {
        page.sentence(&format!("Note: {}", clean(warning)), Paint::Warning);
    }
    if let Some(used) = sentences::confirmation_use(board) {
        page.sentence(&used, Paint::Plain);
    }
    page.closing(board, next);
    page.lines.join("\n") + "\n"
}

struct Page {
    style: Style,
    lines: Vec<String>,
}

impl Page {
    fn gap(&mut self) {
        self.lines.push(String::new());
    }

    fn text_width(&self) -> usize {
        (self.style.width - 1).min(MAX_TEXT_WIDTH)
    }

    fn sentence(&mut self, text: &str, paint: Paint) {
        for line in wrap(text, self.text_width()) {
            let line = painted(&line, paint, self.style.color);
            self.lines.push(format!(" {line}"));
        }
    }

    /// The scenarios and segments in which the leader loses, as small bars.
    fn losses(&mut self, board: &Leaderboard) {
        let losses = sentences::losses(board, MOST_LOSSES);
        let (Some(line), Some(worst)) = (sentences::losses_line(board), losses.first()) else {
            return;
        };
        self.sentence(&line, Paint::Plain);
        let names = losses.iter().map(|it| width(&it.name)).max().unwrap_or(0);
        let names = names.min(self.style.width.saturating_sub(34));
        for loss in &losses {
            let name = shorten(&loss.name, names);
            let gap = " ".repeat(names - width(&name));
            let bar = "━".repeat(bar::columns(loss.estimate / worst.estimate, 10));
            let figures = format!(
                "{:>6} (seen {})",
                figure::signed(loss.estimate),
                figure::signed(loss.diff)
            );
            self.lines.push(
                format!("   {name}{gap} {figures} {bar}")
                    .trim_end()
                    .to_owned(),
            );
        }
    }

    /// The variance as small bars, in two columns if they fit.
    fn sources(&mut self, board: &Leaderboard) {
        let sources = sentences::sources(board);
        if sources.is_empty() {
            return;
        }
        let largest = sources.first().map_or(1.0, |it| it.share.max(1e-9));
        let cell = |source: &sentences::Source| {
            let length = bar::columns(source.share / largest, 14);
            let bar = "━".repeat(length);
            format!(
                "{:<14} {:>5} {bar:<14}",
                source.name,
                figure::percent(source.share)
            )
        };
        let cells: Vec<String> = sources.iter().map(cell).collect();
        if let Some(line) = sentences::sources_line(board) {
            self.sentence(&line, Paint::Plain);
        }
        let half = cells.len().div_ceil(2);
        if self.style.width < 80 {
            self.lines
                .extend(cells.iter().map(|cell| format!("   {}", cell.trim_end())));
            return;
        }
        for (position, left) in cells.iter().take(half).enumerate() {
            let right = cells.get(half + position).map_or("", String::as_str);
            self.lines
                .push(format!("   {left}  {right}").trim_end().to_owned());
        }
    }

    /// Coverage and the next step, on one line where both fit.
    fn closing(&mut self, board: &Leaderboard, next: Next) {
        let coverage = sentences::coverage(board).map_or_else(String::new, |it| it + " ");
        match next {
            Next::Advice(advice) => {
                self.sentence(&format!("{coverage}Next: {advice}"), Paint::Plain);
            }
            Next::Command(parts) => {
                let command = parts.join(" ");
                if width(&format!(" {coverage}Next: {command}")) <= self.style.width {
                    let command = painted(&command, Paint::Command, self.style.color);
                    self.lines.push(format!(" {coverage}Next: {command}"));
                } else {
                    self.sentence(&coverage, Paint::Plain);
                    self.command(&parts);
                }
            }
        }
    }

    /// A command on lines of its own, continued with backslashes.
    fn command(&mut self, parts: &[String]) {
        let whole = parts.join(" ");
        let lines = if width(&whole) + 7 < self.style.width {
            vec![whole]
        } else {
            parts.to_vec()
        };
        let last = lines.len().saturating_sub(1);
        for (position, line) in lines.iter().enumerate() {
            let lead = if position == 0 {
                " Next: "
            } else {
                "         "
            };
            let tail = if position == last { "" } else { " \\" };
            // A command that is cut could not be run.
            let line = painted(line, Paint::Command, self.style.color);
            self.lines.push(format!("{lead}{line}{tail}"));
        }
    }
}
