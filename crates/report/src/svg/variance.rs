//! A bar chart of the shares of variance, largest first.

use assize_domain::leaderboard::Leaderboard;

use super::{Anchor, drawing, finish, label};
use crate::markup::Markup;
use crate::{figure, sentences};

const NAME_PX: f64 = 118.0;
const BAR_PX: f64 = 150.0;
const FIGURE_PX: f64 = 46.0;
const ROW_PX: f64 = 26.0;

/// One bar per source of variance.
pub fn draw(board: &Leaderboard) -> Option<Markup> {
    let sources = sentences::sources(board);
    let largest = sources.first()?.share.max(1e-9);
    let title = format!(
        "Where the differences in {} come from, as shares",
        board.experiment
    );
    let width = NAME_PX + BAR_PX + FIGURE_PX;
    let mut svg = drawing(&title, width, sources.len() as f64 * ROW_PX);
    for (position, source) in sources.iter().enumerate() {
        let y = position as f64 * ROW_PX;
        let length = (source.share / largest).clamp(0.0, 1.0) * BAR_PX;
        svg.raw("<g>").leaf("title", &[], source.meaning);
        label(&mut svg, 0.0, y + 17.0, Anchor::Start, source.name);
        let attributes = [
            ("class", "accent".into()),
            ("x", NAME_PX.into()),
            ("y", (y + 6.0).into()),
            ("width", length.max(1.0).into()),
            ("height", 14.0.into()),
            ("fill-opacity", 0.7.into()),
        ];
        svg.empty("rect", &attributes);
        let end = NAME_PX + length.max(1.0) + 6.0;
        label(
            &mut svg,
            end,
            y + 17.0,
            Anchor::Start,
            &figure::percent(source.share),
        );
        svg.raw("</g>\n");
    }
    Some(finish(svg))
}
