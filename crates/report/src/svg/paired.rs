//! The differences of challengers to the incumbent, scenario by scenario: one strip for each
//! challenger, a point for each scenario, and a bar at the mean.

use assize_domain::leaderboard::answers::ByScenario;
use assize_domain::leaderboard::{Leaderboard, Row};

use super::{Anchor, aside, drawing, finish, guide, label};
use crate::axis::Axis;
use crate::figure;
use crate::markup::Markup;
use crate::text::shorten;

const LEFT_PX: f64 = 12.0;
const PLOT_PX: f64 = 250.0;
const FIGURE_PX: f64 = 78.0;
const ROW_PX: f64 = 44.0;
const TICKS: f64 = 4.0;
const NAME_COLUMNS: usize = 48;
/// The most challengers of the chart.
const MOST: usize = 8;
/// The most points of a strip.
const MOST_POINTS: usize = 200;

/// The strips of the challengers, in the order of the board.
pub(crate) fn draw(board: &Leaderboard, by: &ByScenario) -> Option<Markup> {
    let incumbent = board.incumbent.as_ref()?;
    let challengers = board.rows.iter().filter(|row| row.vs_incumbent.is_some());
    let challengers: Vec<&Row> = challengers.take(MOST).collect();
    let strips: Vec<Vec<(&str, f64)>> = challengers.iter().map(|row| points(by, row)).collect();
    let ends = strips.iter().flatten().map(|(_, diff)| *diff);
    let axis = Axis::covering(ends.chain([0.0]), TICKS).filter(|_| !strips.is_empty())?;
    let x = |value: f64| LEFT_PX + axis.fraction(value) * PLOT_PX;
    let bottom = strips.len() as f64 * ROW_PX + 4.0;
    let title = format!("Differences to {incumbent}, the incumbent, in every scenario");
    let mut svg = drawing(&title, LEFT_PX + PLOT_PX + FIGURE_PX, bottom + 38.0);
    for tick in axis.ticks() {
        let at = x(tick).into();
        guide(&mut svg, (at, 0.0.into()), (at, bottom.into()), false);
        let name = figure::tick(tick);
        aside(&mut svg, x(tick), bottom + 15.0, Anchor::Middle, &name);
    }
    let zero = x(0.0).into();
    guide(&mut svg, (zero, 0.0.into()), (zero, bottom.into()), true);
    let name = "points more than the incumbent; worse on the left";
    aside(&mut svg, LEFT_PX, bottom + 32.0, Anchor::Start, name);
    for (position, (row, points)) in challengers.iter().zip(&strips).enumerate() {
        strip(&mut svg, position as f64 * ROW_PX, row, points, &x);
    }
    Some(finish(svg))
}

/// A challenger's difference in every scenario, the smallest first. Of many, points at even
/// distances in that order are drawn, with the first and the last.
fn points<'a>(by: &'a ByScenario, row: &Row) -> Vec<(&'a str, f64)> {
    let pair = row.pair();
    let mut points: Vec<(&str, f64)> = by
        .scenarios
        .iter()
        .filter_map(|it| {
            let found = it.pairs.iter().find(|it| it.pair == pair)?;
            Some((it.scenario.as_str(), found.diff?))
        })
        .collect();
    points.sort_by(|a, b| a.1.total_cmp(&b.1));
    let last = points.len().saturating_sub(1);
    if last < MOST_POINTS {
        return points;
    }
    let kept = (0..MOST_POINTS).map(|place| points[place * last / (MOST_POINTS - 1)]);
    kept.collect()
}

fn strip(svg: &mut Markup, y: f64, row: &Row, points: &[(&str, f64)], x: &dyn Fn(f64) -> f64) {
    let name = shorten(&row.pair().to_string(), NAME_COLUMNS);
    svg.raw("<g>");
    label(svg, 0.0, y + 13.0, Anchor::Start, &name);
    let middle = y + 29.0;
    for (scenario, diff) in points {
        svg.raw("<g>");
        let described = format!("{scenario}: {}", figure::signed(*diff));
        svg.leaf("title", &[], &described);
        let attributes = [
            ("class", "accent".into()),
            ("cx", x(*diff).into()),
            ("cy", middle.into()),
            ("r", 4.0.into()),
            ("fill-opacity", 0.45.into()),
        ];
        svg.empty("circle", &attributes).raw("</g>");
    }
    if let Some(mean) = row.vs_incumbent.as_ref().map(|it| it.diff) {
        let attributes = [
            ("x", (x(mean) - 1.0).into()),
            ("y", (middle - 8.0).into()),
            ("width", 2.0.into()),
            ("height", 16.0.into()),
        ];
        svg.empty("rect", &attributes);
        let end = LEFT_PX + PLOT_PX + 10.0;
        label(svg, end, middle + 4.0, Anchor::Start, &figure::signed(mean));
    }
    svg.raw("</g>\n");
}
