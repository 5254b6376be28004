//! The charts as SVG, for files, the HTML report and the web panel.
//!
//! Marks are drawn in `currentColor`, so a chart is readable on any background; a page that
//! includes [`CSS`] and sets `--accent` gets the accent colour. There are no `style` attributes or
//! scripts, so that charts work under a strict content security policy. Every chart has a
//! `<title>`, direct labels instead of a legend, and text for everything that colour shows.
//!
//! A function returns `None` where the board holds nothing to draw.

pub mod curves;
pub(crate) mod difference;
pub mod drift;
pub(crate) mod forest;
pub(crate) mod heat_map;
mod labels;
pub(crate) mod lineage;
pub(crate) mod losses;
pub(crate) mod paired;
pub mod power;
pub(crate) mod scatter;
pub(crate) mod variance;

use assize_domain::leaderboard::answers::ByScenario;
use assize_domain::leaderboard::{Leaderboard, Row};

use crate::axis::Axis;
use crate::markup::{Markup, Value};
use crate::text::width;

/// How charts look on a page that has an accent colour.
pub const CSS: &str = "\
.chart{display:block;font-variant-numeric:tabular-nums}\
.chart .accent{fill:var(--accent,currentColor)}\
.chart .accent-line{stroke:var(--accent,currentColor)}\
.chart .hollow{fill:var(--page,transparent);stroke:var(--accent,currentColor)}\
.chart .halo{paint-order:stroke;stroke:var(--page,transparent);stroke-width:3px;stroke-linejoin:round}";

/// Every pair's mean and interval, with names and figures.
pub fn forest(board: &Leaderboard) -> Option<String> {
    forest::draw(board).map(Markup::into_string)
}

/// One row of the forest plot, to fill a table's cell of any size; empty without an axis.
pub fn forest_cell(board: &Leaderboard, row: &Row) -> String {
    forest::cell(board, row).into_string()
}

/// The axis that belongs to the cells of [`forest_cell`].
pub fn forest_axis(board: &Leaderboard) -> String {
    forest::axis(board).into_string()
}

/// The composite of every model with every prompt.
pub fn heat_map(board: &Leaderboard) -> Option<String> {
    heat_map::draw(board).map(Markup::into_string)
}

/// Where the differences come from.
pub fn variance(board: &Leaderboard) -> Option<String> {
    variance::draw(board).map(Markup::into_string)
}

/// Where the leading challenger loses.
pub fn losses(board: &Leaderboard) -> Option<String> {
    losses::draw(board).map(Markup::into_string)
}

/// The differences of challengers to the incumbent in every scenario.
pub fn paired(board: &Leaderboard, by: &ByScenario) -> Option<String> {
    paired::draw(board, by).map(Markup::into_string)
}

/// One difference as a bar that fills a table's cell, on an axis that covers all of them.
pub fn difference_cell(axis: &Axis, diff: f64) -> String {
    difference::cell(axis, diff).into_string()
}

/// The control chart of judges' sittings, in the order of time.
pub fn drift(points: &[drift::Point]) -> Option<String> {
    drift::draw(points).map(Markup::into_string)
}

/// Curves with bands.
pub fn curves(curves: &[curves::BandCurve], labels: curves::CurveLabels<'_>) -> Option<String> {
    curves::draw(curves, labels).map(Markup::into_string)
}

/// Power curves: how often the gate promotes.
pub fn power(curves: &[power::Curve], labels: power::Labels<'_>) -> Option<String> {
    power::draw(curves, labels).map(Markup::into_string)
}

/// Quality against latency.
pub fn scatter(board: &Leaderboard) -> Option<String> {
    scatter::draw(board).map(Markup::into_string)
}

/// The estimated width of a column of 12 px text, an upper bound for common fonts.
const COLUMN_PX: f64 = 6.8;

fn text_px(text: &str) -> f64 {
    width(text) as f64 * COLUMN_PX
}

/// A chart of a fixed size: its frame and its accessible name.
fn drawing(title: &str, width: f64, height: f64) -> Markup {
    let mut svg = Markup::default();
    let view = format!("0 0 {width:.0} {height:.0}");
    svg.open(
        "svg",
        &[
            ("xmlns", "http://www.w3.org/2000/svg".into()),
            ("class", "chart".into()),
            ("role", "img".into()),
            ("width", width.round().into()),
            ("height", height.round().into()),
            ("viewBox", view.as_str().into()),
            ("font-family", "system-ui, sans-serif".into()),
            ("font-size", 12.0.into()),
            ("fill", "currentColor".into()),
        ],
    );
    svg.leaf("title", &[], title).raw("\n");
    svg
}

fn finish(mut svg: Markup) -> Markup {
    svg.raw("</svg>");
    svg
}

/// How a text is aligned at its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

fn label(svg: &mut Markup, x: f64, y: f64, anchor: Anchor, text: &str) {
    let attributes = [
        ("x", x.into()),
        ("y", y.into()),
        ("text-anchor", anchor.as_str().into()),
    ];
    svg.leaf("text", &attributes, text).raw("\n");
}

/// A secondary label: units, axis names, ticks.
fn aside(svg: &mut Markup, x: f64, y: f64, anchor: Anchor, text: &str) {
    let attributes = [
        ("x", x.into()),
        ("y", y.into()),
        ("text-anchor", anchor.as_str().into()),
        ("font-size", 11.0.into()),
        ("fill-opacity", 0.75.into()),
    ];
    svg.leaf("text", &attributes, text).raw("\n");
}

/// A thin guide line.
fn guide(svg: &mut Markup, from: (Value<'_>, Value<'_>), to: (Value<'_>, Value<'_>), dashed: bool) {
    let mut attributes = vec![
        ("x1", from.0),
        ("y1", from.1),
        ("x2", to.0),
        ("y2", to.1),
        ("stroke", "currentColor".into()),
        ("stroke-opacity", if dashed { 0.6 } else { 0.15 }.into()),
    ];
    if dashed {
        attributes.push(("stroke-dasharray", "3 3".into()));
    }
    svg.empty("line", &attributes).raw("\n");
}
