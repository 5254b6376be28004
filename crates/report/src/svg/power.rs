//! Power curves: how often the gate promotes, by the size of what is varied along the axis.
//!
//! Each curve has its name at its right end; a dashed line marks the power that is asked for.

use super::{Anchor, aside, drawing, finish, guide, label, text_px};
use crate::axis::Axis;
use crate::figure;
use crate::markup::Markup;
use crate::text::clean;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = HEIGHT - 44.0;
/// Names of curves that would be closer than this are moved apart.
const LINE_PX: f64 = 14.0;

/// One line of the chart: its name, and (position, power) in the order of the positions.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// What the chart is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Labels<'a> {
    pub title: &'a str,
    /// What is along the axis.
    pub across: &'a str,
    /// The power that is asked for.
    pub wanted: Option<f64>,
}

/// The curves over one axis; `None` where there are no points.
pub(crate) fn draw(curves: &[Curve], labels: Labels<'_>) -> Option<Markup> {
    let positions = curves.iter().flat_map(|it| it.points.iter().map(|it| it.0));
    let axis = Axis::covering(positions, 6.0)?;
    let names = curves.iter().map(|it| text_px(&clean(&it.name)));
    let right = WIDTH - names.fold(0.0, f64::max) - 14.0;
    let x = |value: f64| LEFT + axis.fraction(value) * (right - LEFT);
    let mut svg = drawing(labels.title, WIDTH, HEIGHT);
    for tick in [0.0, 0.2, 0.4, 0.6, 0.8, 1.0] {
        let at = y(tick);
        guide(
            &mut svg,
            (LEFT.into(), at.into()),
            (right.into(), at.into()),
            false,
        );
        aside(
            &mut svg,
            LEFT - 6.0,
            at + 4.0,
            Anchor::End,
            &figure::percent(tick),
        );
    }
    for tick in axis.ticks() {
        aside(
            &mut svg,
            x(tick),
            BOTTOM + 16.0,
            Anchor::Middle,
            &figure::tick(tick),
        );
    }
    if let Some(wanted) = labels.wanted {
        let at = y(wanted);
        guide(
            &mut svg,
            (LEFT.into(), at.into()),
            (right.into(), at.into()),
            true,
        );
    }
    for curve in curves {
        line(&mut svg, curve, &x);
    }
    for (name, at) in placed(curves) {
        label(&mut svg, right + 8.0, at + 4.0, Anchor::Start, &name);
    }
    aside(
        &mut svg,
        0.0,
        11.0,
        Anchor::Start,
        "↑ promoted by the whole gate",
    );
    aside(&mut svg, right, HEIGHT - 8.0, Anchor::End, labels.across);
    Some(finish(svg))
}

fn y(power: f64) -> f64 {
    BOTTOM - power.clamp(0.0, 1.0) * (BOTTOM - TOP)
}

fn line(svg: &mut Markup, curve: &Curve, x: &impl Fn(f64) -> f64) {
    for pair in curve.points.windows(2) {
        let attributes = [
            ("class", "accent-line".into()),
            ("x1", x(pair[0].0).into()),
            ("y1", y(pair[0].1).into()),
            ("x2", x(pair[1].0).into()),
            ("y2", y(pair[1].1).into()),
            ("stroke", "currentColor".into()),
            ("stroke-width", 1.5.into()),
        ];
        svg.empty("line", &attributes).raw("\n");
    }
    for (position, power) in &curve.points {
        let title = format!(
            "{}, {}: {}",
            clean(&curve.name),
            figure::tick(*position),
            figure::percent(*power)
        );
        svg.raw("<g>").leaf("title", &[], &title);
        let attributes = [
            ("class", "accent".into()),
            ("cx", x(*position).into()),
            ("cy", y(*power).into()),
            ("r", 3.0.into()),
        ];
        svg.empty("circle", &attributes).raw("</g>\n");
    }
}

/// The names beside the ends of their curves, top to bottom, without overlaps.
fn placed(curves: &[Curve]) -> Vec<(String, f64)> {
    let mut names: Vec<(String, f64)> = curves
        .iter()
        .filter_map(|it| Some((clean(&it.name).into_owned(), y(it.points.last()?.1))))
        .collect();
    names.sort_by(|a, b| a.1.total_cmp(&b.1));
    for place in 1..names.len() {
        names[place].1 = names[place].1.max(names[place - 1].1 + LINE_PX);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_named_and_hostile_names_are_escaped() {
        let labels = Labels {
            title: "Power",
            across: "true effect in points",
            wanted: Some(0.8),
        };
        assert!(draw(&[], labels).is_none());
        let curve = |name: &str| Curve {
            name: name.to_owned(),
            points: vec![(0.0, 0.01), (1.0, 0.6), (2.0, 0.99)],
        };
        let svg = draw(&[curve("<a>"), curve("b")], labels)
            .unwrap()
            .into_string();
        assert!(
            svg.contains("&lt;a&gt;, 1: 60 %") && !svg.contains("<a>"),
            "{svg}"
        );
        assert!(
            svg.contains("stroke-dasharray") && !svg.contains("style="),
            "{svg}"
        );
        let named = placed(&[curve("a"), curve("b")]);
        assert!(named[1].1 - named[0].1 >= LINE_PX, "{named:?}");
    }
}
