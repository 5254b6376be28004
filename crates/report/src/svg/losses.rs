//! Where the leading challenger loses: one line for each scenario or segment, with the difference
//! as observed (hollow) and without the noise of few candidates (filled).

use assize_domain::leaderboard::Leaderboard;

use super::{Anchor, drawing, finish, guide, label, text_px};
use crate::axis::Axis;
use crate::markup::Markup;
use crate::text::shorten;
use crate::{figure, sentences};

const PLOT_PX: f64 = 200.0;
const FIGURE_PX: f64 = 56.0;
const ROW_PX: f64 = 24.0;
/// The most lines of the chart.
const MOST: usize = 8;
/// Longer names are shortened.
const NAME_COLUMNS: usize = 32;

/// The worst scenarios and segments.
pub(crate) fn draw(board: &Leaderboard) -> Option<Markup> {
    let losses = sentences::losses(board, MOST);
    let title = sentences::losses_line(board).filter(|_| !losses.is_empty())?;
    let ends = losses.iter().flat_map(|it| [it.diff, it.estimate]);
    let axis = Axis::covering(ends.chain([0.0]), 4.0)?;
    let names: Vec<String> = losses
        .iter()
        .map(|it| shorten(&it.name, NAME_COLUMNS))
        .collect();
    let left = names.iter().map(|it| text_px(it)).fold(0.0, f64::max) + 12.0;
    let x = |value: f64| left + axis.fraction(value) * PLOT_PX;
    let height = losses.len() as f64 * ROW_PX + 6.0;
    let mut svg = drawing(&title, left + PLOT_PX + FIGURE_PX, height);
    guide(
        &mut svg,
        (x(0.0).into(), 0.0.into()),
        (x(0.0).into(), height.into()),
        false,
    );
    for (position, (loss, name)) in losses.iter().zip(&names).enumerate() {
        let y = position as f64 * ROW_PX + 15.0;
        label(&mut svg, 0.0, y + 4.0, Anchor::Start, name);
        for (class, value) in [("hollow", loss.diff), ("accent", loss.estimate)] {
            let attributes = [
                ("class", class.into()),
                ("cx", x(value).into()),
                ("cy", y.into()),
                ("r", 4.0.into()),
            ];
            svg.empty("circle", &attributes);
        }
        let end = left + PLOT_PX + 8.0;
        let estimate = figure::signed(loss.estimate);
        label(&mut svg, end, y + 4.0, Anchor::Start, &estimate);
    }
    Some(finish(svg))
}
