//! A scatter plot of quality against latency or cost: up is better, left is faster or cheaper.
//!
//! A filled point is on the Pareto frontier (no other pair is both better and faster), and a thin
//! line joins these points; other points are hollow. Pairs that were not measured are left out, and so
//! is the chart if nothing was measured.

use assize_domain::leaderboard::{Leaderboard, Resource, Row};

use super::labels::{Area, Point, place};
use super::{Anchor, aside, drawing, finish, guide};
use crate::axis::{Axis, interval};
use crate::markup::Markup;
use crate::text::pairs;
use crate::{figure, sentences};

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 360.0;
const PLOT: Area = Area {
    left: 44.0,
    top: 22.0,
    right: WIDTH - 24.0,
    bottom: HEIGHT - 44.0,
};
const LABEL_COLUMNS: usize = 34;

/// One labelled point per pair.
pub fn draw(board: &Leaderboard) -> Option<Markup> {
    let pareto = board.pareto.as_ref()?;
    let against = pareto.against;
    let rows: Vec<(&Row, f64)> = board
        .rows
        .iter()
        .filter(|row| row.composite.mean.is_finite())
        .filter_map(|row| Some((row, against.of(row)?)))
        .collect();
    let across = Axis::covering(rows.iter().map(|(_, used)| *used), 6.0)?;
    let up = Axis::of_composites(board, 6.0)?;
    let at = |row: &Row, used: f64| {
        let x = PLOT.left + across.fraction(used) * (PLOT.right - PLOT.left);
        (x, height_of(&up, row.composite.mean))
    };
    let title = format!(
        "Composite against {} of the pairs in {}",
        against.name(),
        board.experiment
    );
    let mut svg = drawing(&title, WIDTH, HEIGHT);
    axes(&mut svg, board, against, (&across, &up));
    let (mut ordered, dominated): (Vec<_>, Vec<_>) =
        rows.iter().copied().partition(|(row, _)| pareto.holds(row));
    let best = ordered.len();
    frontier(&mut svg, ordered.iter().map(|(row, used)| at(row, *used)));
    ordered.extend(dominated);
    for (position, (row, used)) in ordered.iter().enumerate() {
        point(
            &mut svg,
            row,
            (against, *used),
            at(row, *used),
            &up,
            position < best,
        );
    }
    let names = ordered
        .iter()
        .map(|(row, _)| (row.model.as_str(), row.prompt.as_str()));
    let points: Vec<Point> = ordered
        .iter()
        .zip(pairs(names, LABEL_COLUMNS))
        .map(|((row, used), whole)| {
            let (x, y) = at(row, *used);
            Point {
                x,
                y,
                whole,
                short: row.rank.to_string(),
            }
        })
        .collect();
    for placed in place(&points, PLOT).into_iter().flatten() {
        let attributes = [
            ("class", "halo".into()),
            ("x", placed.x.into()),
            ("y", placed.y.into()),
            ("text-anchor", placed.anchor.as_str().into()),
        ];
        svg.leaf("text", &attributes, &placed.text).raw(
            "
",
        );
    }
    Some(finish(svg))
}

fn height_of(up: &Axis, value: f64) -> f64 {
    PLOT.bottom - up.fraction(value) * (PLOT.bottom - PLOT.top)
}

/// A line through the Pareto frontier, from the fastest pair to the best.
fn frontier(svg: &mut Markup, points: impl Iterator<Item = (f64, f64)>) {
    let mut points: Vec<(f64, f64)> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    for pair in points.windows(2) {
        let attributes = [
            ("class", "accent-line".into()),
            ("x1", pair[0].0.into()),
            ("y1", pair[0].1.into()),
            ("x2", pair[1].0.into()),
            ("y2", pair[1].1.into()),
            ("stroke", "currentColor".into()),
            ("stroke-opacity", 0.5.into()),
            ("stroke-dasharray", "2 4".into()),
        ];
        svg.empty("line", &attributes).raw("\n");
    }
}

fn axes(svg: &mut Markup, board: &Leaderboard, against: Resource, (across, up): (&Axis, &Axis)) {
    for tick in up.ticks() {
        let y = height_of(up, tick);
        guide(
            svg,
            (PLOT.left.into(), y.into()),
            (PLOT.right.into(), y.into()),
            false,
        );
        aside(
            svg,
            PLOT.left - 6.0,
            y + 4.0,
            Anchor::End,
            &figure::tick(tick),
        );
    }
    for tick in across.ticks() {
        let x = PLOT.left + across.fraction(tick) * (PLOT.right - PLOT.left);
        aside(
            svg,
            x,
            PLOT.bottom + 16.0,
            Anchor::Middle,
            &figure::tick(tick),
        );
    }
    let name = format!("↑ composite{}", sentences::of_maximum(board));
    aside(svg, 0.0, 11.0, Anchor::Start, &name);
    aside(
        svg,
        PLOT.right,
        HEIGHT - 8.0,
        Anchor::End,
        match against {
            Resource::Latency => "latency in ms, faster on the left",
            Resource::Cost => "US dollars per 1,000 candidates, cheaper on the left",
        },
    );
}

fn point(
    svg: &mut Markup,
    row: &Row,
    (against, used): (Resource, f64),
    (x, y): (f64, f64),
    up: &Axis,
    filled: bool,
) {
    let described = format!(
        "{}: {}, {}",
        row.pair(),
        figure::plain(row.composite.mean),
        match against {
            Resource::Latency => figure::latency(used),
            Resource::Cost => figure::dollars(used),
        }
    );
    svg.raw("<g>").leaf("title", &[], &described);
    if let Some([low, high]) = interval(row) {
        let attributes = [
            ("class", "accent-line".into()),
            ("x1", x.into()),
            ("y1", height_of(up, low).into()),
            ("x2", x.into()),
            ("y2", height_of(up, high).into()),
            ("stroke", "currentColor".into()),
            ("stroke-opacity", 0.35.into()),
        ];
        svg.empty("line", &attributes);
    }
    let mut attributes = vec![("cx", x.into()), ("cy", y.into()), ("r", 4.5.into())];
    if filled {
        attributes.push(("class", "accent".into()));
    } else {
        attributes.push(("class", "hollow".into()));
        attributes.push(("fill", "none".into()));
        attributes.push(("stroke", "currentColor".into()));
        attributes.push(("stroke-width", 1.5.into()));
    }
    svg.empty("circle", &attributes).raw("</g>\n");
}
