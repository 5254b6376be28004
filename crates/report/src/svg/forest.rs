//! The forest plot: each pair's mean and 95 % interval, with the incumbent's mean as a line.
//!
//! [`draw`] is a complete chart with names and figures. [`cell`] and [`axis`] are the same plot cut
//! into table cells: they are sized in per cent of the cell, so that the plot stays aligned with
//! rows of any height.

use assize_domain::leaderboard::{Leaderboard, Row};

use super::{Anchor, aside, drawing, finish, guide, label, text_px};
use crate::axis::{Axis, interval, is_measured};
use crate::markup::{Markup, Value};
use crate::text::pairs;
use crate::{figure, sentences};

const TICKS: f64 = 5.0;
const NAME_COLUMNS: usize = 44;
const ROW_PX: f64 = 28.0;
const PLOT_PX: f64 = 300.0;
const FIGURE_PX: f64 = 150.0;
const GAP_PX: f64 = 16.0;
/// Room for a mark at either end of a cell's axis, in per cent of its width.
const CELL_MARGIN: f64 = 5.0;

/// All rows with names, plot and figures.
pub fn draw(board: &Leaderboard) -> Option<Markup> {
    let axis = Axis::of_composites(board, TICKS)?;
    let names = pairs(sentences::pairs(board), NAME_COLUMNS);
    let left = names.iter().map(|name| text_px(name)).fold(0.0, f64::max) + GAP_PX;
    let bottom = board.rows.len() as f64 * ROW_PX + 8.0;
    let x = |value: f64| left + axis.fraction(value) * PLOT_PX;
    let mut svg = drawing(
        &title(board),
        left + PLOT_PX + GAP_PX + FIGURE_PX,
        bottom + 38.0,
    );
    for tick in axis.ticks() {
        guide(
            &mut svg,
            (x(tick).into(), 0.0.into()),
            (x(tick).into(), bottom.into()),
            false,
        );
        aside(
            &mut svg,
            x(tick),
            bottom + 15.0,
            Anchor::Middle,
            &figure::tick(tick),
        );
    }
    aside(
        &mut svg,
        left + PLOT_PX / 2.0,
        bottom + 32.0,
        Anchor::Middle,
        &axis_name(board),
    );
    if let Some(mean) = incumbent_mean(board) {
        guide(
            &mut svg,
            (x(mean).into(), 0.0.into()),
            (x(mean).into(), bottom.into()),
            true,
        );
    }
    for (position, (row, name)) in board.rows.iter().zip(&names).enumerate() {
        let y = position as f64 * ROW_PX + 4.0 + ROW_PX / 2.0;
        svg.raw("<g>")
            .leaf("title", &[], &described(board, row))
            .raw("\n");
        label(&mut svg, left - GAP_PX, y + 4.0, Anchor::End, name);
        let ends = interval(row).map(|ends| ends.map(|end| Value::Number(x(end))));
        mark(
            &mut svg,
            row,
            ends,
            Value::Number(x(row.composite.mean)),
            y.into(),
        );
        label(
            &mut svg,
            left + PLOT_PX + GAP_PX,
            y + 4.0,
            Anchor::Start,
            &estimate(row),
        );
        svg.raw("</g>\n");
    }
    Some(finish(svg))
}

/// One row's part of the plot, filling its cell.
pub fn cell(board: &Leaderboard, row: &Row) -> Markup {
    let Some(axis) = Axis::of_composites(board, TICKS) else {
        return Markup::default();
    };
    let x = |value: f64| percent(&axis, value);
    let mut svg = frame(&described(board, row));
    for tick in axis.ticks() {
        let at = x(tick);
        guide(
            &mut svg,
            (at, 0.0.into()),
            (at, Value::Percent(100.0)),
            false,
        );
    }
    if let Some(mean) = incumbent_mean(board) {
        let at = x(mean);
        guide(
            &mut svg,
            (at, 0.0.into()),
            (at, Value::Percent(100.0)),
            true,
        );
    }
    let ends = interval(row).map(|ends| ends.map(x));
    mark(
        &mut svg,
        row,
        ends,
        x(row.composite.mean),
        Value::Percent(50.0),
    );
    finish(svg)
}

/// The axis that belongs to the cells.
pub fn axis(board: &Leaderboard) -> Markup {
    let Some(axis) = Axis::of_composites(board, TICKS) else {
        return Markup::default();
    };
    let mut svg = frame(&axis_name(board));
    for tick in axis.ticks() {
        let attributes = [
            ("x", percent(&axis, tick)),
            ("y", Value::Percent(70.0)),
            ("text-anchor", "middle".into()),
            ("font-size", 11.0.into()),
        ];
        svg.leaf("text", &attributes, &figure::tick(tick)).raw("\n");
    }
    finish(svg)
}

pub(super) fn percent(axis: &Axis, value: f64) -> Value<'static> {
    Value::Percent(CELL_MARGIN + axis.fraction(value) * (100.0 - 2.0 * CELL_MARGIN))
}

pub(super) fn frame(title: &str) -> Markup {
    let mut svg = Markup::default();
    svg.open(
        "svg",
        &[
            ("xmlns", "http://www.w3.org/2000/svg".into()),
            ("class", "chart cell".into()),
            ("role", "img".into()),
            ("width", Value::Percent(100.0)),
            ("height", Value::Percent(100.0)),
            ("fill", "currentColor".into()),
        ],
    );
    svg.leaf("title", &[], title).raw("\n");
    svg
}

/// The interval as a line and the mean as a point.
fn mark(svg: &mut Markup, row: &Row, ends: Option<[Value<'_>; 2]>, mean: Value<'_>, y: Value<'_>) {
    if let Some([low, high]) = ends {
        let attributes = [
            ("class", "accent-line".into()),
            ("x1", low),
            ("y1", y),
            ("x2", high),
            ("y2", y),
            ("stroke", "currentColor".into()),
            ("stroke-width", 2.0.into()),
        ];
        svg.empty("line", &attributes).raw("\n");
    }
    if row.composite.mean.is_finite() {
        let attributes = [
            ("class", "accent".into()),
            ("cx", mean),
            ("cy", y),
            ("r", 4.5.into()),
        ];
        svg.empty("circle", &attributes).raw("\n");
    }
}

fn incumbent_mean(board: &Leaderboard) -> Option<f64> {
    let row = board
        .rows
        .iter()
        .find(|row| sentences::is_incumbent(board, row))?;
    Some(row.composite.mean).filter(|mean| mean.is_finite())
}

fn title(board: &Leaderboard) -> String {
    format!(
        "Composite of every model × prompt in {} with its 95 % interval",
        board.experiment
    )
}

fn axis_name(board: &Leaderboard) -> String {
    let line = incumbent_mean(board).map_or("", |_| "; dashed: the incumbent");
    let what = if is_measured(board) {
        "composite with 95 % interval"
    } else {
        "composite"
    };
    format!("{what}{}{line}", sentences::of_maximum(board))
}

fn described(board: &Leaderboard, row: &Row) -> String {
    let incumbent = if sentences::is_incumbent(board, row) {
        ", the incumbent"
    } else {
        ""
    };
    format!("{}{incumbent}: {}", row.pair(), estimate(row))
}

fn estimate(row: &Row) -> String {
    let mean = figure::plain(row.composite.mean);
    match interval(row) {
        Some(ends) => format!("{mean} {}", figure::interval(ends)),
        None => mean,
    }
}
