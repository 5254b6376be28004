//! A paired difference as a bar from zero to a point, filling a table's cell.

use super::forest::{frame, percent};
use super::{finish, guide};
use crate::axis::Axis;
use crate::figure;
use crate::markup::{Markup, Value};

pub(crate) fn cell(axis: &Axis, diff: f64) -> Markup {
    let mut svg = frame(&figure::signed(diff));
    let (zero, end) = (percent(axis, 0.0), percent(axis, diff));
    guide(
        &mut svg,
        (zero, 0.0.into()),
        (zero, Value::Percent(100.0)),
        true,
    );
    let middle = Value::Percent(50.0);
    let line = [
        ("class", "accent-line".into()),
        ("x1", zero),
        ("y1", middle),
        ("x2", end),
        ("y2", middle),
        ("stroke", "currentColor".into()),
        ("stroke-width", 2.0.into()),
    ];
    svg.empty("line", &line);
    let point = [
        ("class", "accent".into()),
        ("cx", end),
        ("cy", middle),
        ("r", 4.5.into()),
    ];
    svg.empty("circle", &point);
    finish(svg)
}
