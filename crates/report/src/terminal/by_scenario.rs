//! Who wins in which scenario, with the paired difference as a small plot.

use assize_domain::leaderboard::answers::{ByScenario, ScenarioRow};
use assize_domain::leaderboard::{Leaderboard, Pair};

use super::bar::{columns, scale};
use super::{MIN_WIDTH, Paint, Style, painted};
use crate::axis::Axis;
use crate::figure;
use crate::sentences::answers as sentences;
use crate::text::{clean, pairs, shorten, width, wrap};

/// The columns of the plot.
const PLOT: usize = 17;
/// The most columns of a scenario's id.
const MOST_ID: usize = 24;
const FIGURE: usize = 7;

/// A table with one line for each scenario. Ends with a line break.
pub fn render(board: &Leaderboard, by: &ByScenario, style: Style) -> String {
    let all = style.width.max(MIN_WIDTH);
    let mut lines = Vec::new();
    let ids = by.scenarios.iter().map(|row| width(&clean(&row.scenario)));
    let id = ids.max().unwrap_or(0).clamp(8, MOST_ID);
    let axis = Axis::covering(
        by.scenarios.iter().filter_map(|row| row.diff).chain([0.0]),
        4.0,
    );
    let axis = axis.filter(|_| by.scenarios.iter().any(|row| row.diff.is_some()));
    let after = FIGURE + 1 + axis.map_or(0, |_| FIGURE + PLOT + 3);
    let name = all.saturating_sub(id + after + 4).max(12);
    if let (Some(challenger), Some(incumbent)) = (&by.challenger, &board.incumbent) {
        let line = format!("Differences: {challenger} minus {incumbent}, the incumbent.");
        lines.extend(
            wrap(&clean(&line), all - 1)
                .into_iter()
                .map(|it| format!(" {it}")),
        );
    }
    let (scenario, wins) = ("scenario", "highest mean");
    let mut head = format!(" {scenario:<id$}  {wins:<name$} {:>FIGURE$}", "mean");
    if axis.is_some() {
        head.push_str(&format!(" {:>FIGURE$}", "diff"));
    }
    lines.push(painted(head.trim_end(), Paint::Faint, style.color));
    for row in &by.scenarios {
        let best = row.pairs.iter().map(|it| it.mean).fold(f64::NAN, f64::max);
        let winner = fit(&winner(row, name), name);
        let shown = fit(&shorten(&clean(&row.scenario), id), id);
        let mean = figure::plain(best);
        let mut line = format!(" {shown}  {winner} {mean:>FIGURE$}");
        if let Some(axis) = &axis {
            let diff = figure::optional(row.diff, figure::signed);
            let bar = painted(&plot(row.diff, axis), Paint::Bar, style.color);
            line.push_str(&format!(" {diff:>FIGURE$}  {bar}"));
        }
        lines.push(line.trim_end().to_owned());
    }
    if let Some(axis) = &axis {
        let before = id + name + 2 * FIGURE + 7;
        lines.push(format!("{}{}", " ".repeat(before), scale(axis, PLOT)));
    }
    lines.push(String::new());
    for line in wrap(&sentences::wins(by), all - 1) {
        lines.push(format!(" {line}"));
    }
    lines.join("\n") + "\n"
}

/// The text with spaces up to this width.
fn fit(text: &str, most: usize) -> String {
    let gap = most.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(gap))
}

/// The pair with the highest mean, or that several have it.
fn winner(row: &ScenarioRow, most: usize) -> String {
    let name = |pair: &Pair| {
        let names = pairs([(pair.model.as_str(), pair.prompt.as_str())], most);
        names.into_iter().next().unwrap_or_default()
    };
    match row.best.as_slice() {
        [] => figure::NONE.to_owned(),
        [one] => name(one),
        several => shorten(&format!("{} pairs, equal", several.len()), most),
    }
}

/// `········┊━━━●····`
fn plot(diff: Option<f64>, axis: &Axis) -> String {
    let place = |value: f64| columns(axis.fraction(value), PLOT - 1);
    let mut cells = ['·'; PLOT];
    let zero = place(0.0);
    if let Some(diff) = diff.filter(|it| it.is_finite()) {
        let at = place(diff);
        cells[zero.min(at)..=zero.max(at)].fill('━');
        cells[zero] = '┊';
        cells[at] = '●';
    } else {
        cells[zero] = '┊';
    }
    cells.into_iter().collect()
}
