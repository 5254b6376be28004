//! The means by scenario as CSV: one record for each pair in each scenario.

use assize_domain::leaderboard::Leaderboard;
use assize_domain::leaderboard::answers::ByScenario;

use super::{number, text};

const HEADER: &str = "experiment,split,tier,scenario,model,prompt,composite,vs_incumbent,best\r\n";

/// A header and the records; missing figures are empty.
pub fn render(board: &Leaderboard, by: &ByScenario) -> String {
    let mut lines = HEADER.to_owned();
    for row in &by.scenarios {
        for it in &row.pairs {
            let cells = [
                text(&board.experiment),
                text(&board.split),
                text(board.tier.as_str()),
                text(&row.scenario),
                text(&it.pair.model),
                text(&it.pair.prompt),
                number(Some(it.mean)),
                number(it.diff),
                row.best.contains(&it.pair).to_string(),
            ];
            lines.push_str(&cells.join(","));
            lines.push_str("\r\n");
        }
    }
    lines
}
