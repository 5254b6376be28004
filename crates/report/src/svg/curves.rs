//! Curves with bands over a common axis, for instance regret over decisions.
//!
//! Curves differ by their dashes, and each has its name at its right end, so nothing depends on
//! colour. A band is drawn behind all curves.

use super::{Anchor, aside, drawing, finish, guide, label, text_px};
use crate::axis::Axis;
use crate::figure;
use crate::markup::Markup;
use crate::text::{clean, shorten};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = HEIGHT - 42.0;
const LINE_PX: f64 = 14.0;
const NAME_COLUMNS: usize = 24;
/// The dashes of the first curve, of the second, and so on.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// One point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BandPoint {
    pub position: f64,
    pub value: f64,
    /// The ends of the band.
    pub low: f64,
    pub high: f64,
}

/// One curve, its points in the order of their positions.
#[derive(Debug, Clone, PartialEq)]
pub struct BandCurve {
    pub name: String,
    pub points: Vec<BandPoint>,
}

/// What the chart is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurveLabels<'a> {
    pub title: &'a str,
    /// What is along the axis.
    pub across: &'a str,
    /// What rises.
    pub up: &'a str,
}

/// The curves; `None` where there are no points.
pub(crate) fn draw(curves: &[BandCurve], labels: CurveLabels<'_>) -> Option<Markup> {
    let points = || curves.iter().flat_map(|it| &it.points);
    let across = Axis::covering(points().map(|it| it.position), 5.0)?;
    let ends = points().flat_map(|it| [it.low, it.value, it.high]);
    let up = Axis::covering(ends, 5.0)?;
    let name = |curve: &BandCurve| shorten(&clean(&curve.name), NAME_COLUMNS);
    let names = curves.iter().map(|it| text_px(&name(it)));
    let right = WIDTH - names.fold(0.0, f64::max) - 14.0;
    let place = |position: f64, value: f64| {
        let x = LEFT + across.fraction(position) * (right - LEFT);
        (x, BOTTOM - up.fraction(value) * (BOTTOM - TOP))
    };
    let mut svg = drawing(labels.title, WIDTH, HEIGHT);
    for tick in up.ticks() {
        let (_, at) = place(across.low, tick);
        let from = (LEFT.into(), at.into());
        guide(&mut svg, from, (right.into(), at.into()), false);
        let text = figure::tick(tick);
        aside(&mut svg, LEFT - 6.0, at + 4.0, Anchor::End, &text);
    }
    for tick in across.ticks() {
        let (at, _) = place(tick, up.low);
        let text = figure::tick(tick);
        aside(&mut svg, at, BOTTOM + 16.0, Anchor::Middle, &text);
    }
    for curve in curves {
        band(&mut svg, curve, place);
    }
    for (curve, dashes) in curves.iter().zip(DASHES.into_iter().cycle()) {
        line(&mut svg, curve, dashes, place);
    }
    let last = |curve: &BandCurve| {
        let last = curve.points.last()?;
        Some((name(curve), place(last.position, last.value).1))
    };
    for (name, at) in apart(curves.iter().filter_map(last).collect()) {
        label(&mut svg, right + 8.0, at + 4.0, Anchor::Start, &name);
    }
    aside(
        &mut svg,
        0.0,
        11.0,
        Anchor::Start,
        &format!("↑ {}", labels.up),
    );
    aside(&mut svg, right, HEIGHT - 8.0, Anchor::End, labels.across);
    Some(finish(svg))
}

/// Moves the names that would overlap apart, top to bottom.
fn apart(mut names: Vec<(String, f64)>) -> Vec<(String, f64)> {
    names.sort_by(|a, b| a.1.total_cmp(&b.1));
    for place in 1..names.len() {
        names[place].1 = names[place].1.max(names[place - 1].1 + LINE_PX);
    }
    names
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let steps = points.enumerate().map(|(place, (x, y))| {
        let step = if place == 0 { 'M' } else { 'L' };
        format!("{step}{x:.1} {y:.1}")
    });
    steps.collect()
}

fn band(svg: &mut Markup, curve: &BandCurve, place: impl Fn(f64, f64) -> (f64, f64)) {
    let lower = curve.points.iter().map(|it| place(it.position, it.low));
    let upper = curve.points.iter().rev();
    let upper = upper.map(|it| place(it.position, it.high));
    let outline = path(lower.chain(upper));
    let attributes = [
        ("class", "accent".into()),
        ("d", outline.as_str().into()),
        ("fill-opacity", 0.12.into()),
    ];
    svg.empty("path", &attributes).raw("\n");
}

fn line(svg: &mut Markup, curve: &BandCurve, dashes: &str, place: impl Fn(f64, f64) -> (f64, f64)) {
    let points = curve.points.iter().map(|it| place(it.position, it.value));
    let outline = path(points);
    let mut attributes = vec![
        ("class", "accent-line".into()),
        ("d", outline.as_str().into()),
        ("fill", "none".into()),
        ("stroke", "currentColor".into()),
        ("stroke-width", 1.75.into()),
    ];
    if !dashes.is_empty() {
        attributes.push(("stroke-dasharray", dashes.into()));
    }
    svg.raw("<g>").leaf("title", &[], &curve.name);
    svg.empty("path", &attributes).raw("</g>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_bands_names_and_dashes() {
        let labels = CurveLabels {
            title: "Regret",
            across: "decisions",
            up: "regret",
        };
        assert!(draw(&[], labels).is_none());
        let curve = |name: &str, value: f64| BandCurve {
            name: name.to_owned(),
            points: [1.0, 2.0]
                .map(|position| BandPoint {
                    position,
                    value: value * position,
                    low: value * position - 1.0,
                    high: value * position + 1.0,
                })
                .to_vec(),
        };
        let svg = draw(&[curve("<a>", 3.0), curve("b", 3.0)], labels)
            .unwrap()
            .into_string();
        assert!(svg.contains("&lt;a&gt;") && !svg.contains("<a>"), "{svg}");
        assert_eq!(svg.matches("fill-opacity=\"0.12\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("stroke-dasharray=\"7 3\"").count(), 1, "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("style="), "{svg}");
        let named = apart(vec![("a".to_owned(), 10.0), ("b".to_owned(), 11.0)]);
        assert!(named[1].1 - named[0].1 >= LINE_PX);
    }
}
