//! The control chart of judges: where each sitting's weighted shift lies between its limits.
//!
//! Time runs from left to right, one point a sitting. The band is what chance alone allows; a
//! point outside it is hollow and named.

use super::{Anchor, aside, drawing, finish, guide, label, text_px};
use crate::axis::Axis;
use crate::figure;
use crate::markup::Markup;
use crate::text::{clean, shorten};

const STEP_PX: f64 = 34.0;
const PLOT_PX: f64 = 150.0;
const LEFT_PX: f64 = 48.0;
const TOP_PX: f64 = 12.0;
const NAME_COLUMNS: usize = 24;

/// One sitting on the chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The judge, for the point's title.
    pub judge: String,
    pub ewma: f64,
    /// |ewma| above this is an alarm.
    pub limit: f64,
    pub alarm: bool,
}

/// Points in the order of time.
pub(crate) fn draw(points: &[Point]) -> Option<Markup> {
    let sound: Vec<&Point> = points.iter().filter(|it| it.ewma.is_finite()).collect();
    let values = sound
        .iter()
        .flat_map(|it| [it.ewma, it.limit, -it.limit, 0.0]);
    let axis = Axis::covering(values, 4.0).filter(|_| !sound.is_empty())?;
    let y = |value: f64| TOP_PX + (1.0 - axis.fraction(value)) * PLOT_PX;
    let x = |place: usize| LEFT_PX + (place as f64 + 0.5) * STEP_PX;
    let right = LEFT_PX + sound.len() as f64 * STEP_PX;
    let note = "weighted shift of each sitting; dashed: the limits of chance";
    let width = (right + 90.0).max(text_px(note) + 8.0);
    let mut svg = drawing(
        "Drift of the judges, sitting by sitting, with the limits of chance",
        width,
        TOP_PX + PLOT_PX + 34.0,
    );
    for tick in axis.ticks() {
        let ends = (
            (LEFT_PX.into(), y(tick).into()),
            (right.into(), y(tick).into()),
        );
        guide(&mut svg, ends.0, ends.1, false);
        aside(
            &mut svg,
            LEFT_PX - 6.0,
            y(tick) + 4.0,
            Anchor::End,
            &figure::tick(tick),
        );
    }
    for (place, point) in sound.iter().enumerate() {
        for limit in [point.limit, -point.limit] {
            let from = ((x(place) - STEP_PX / 2.0).into(), y(limit).into());
            let to = ((x(place) + STEP_PX / 2.0).into(), y(limit).into());
            guide(&mut svg, from, to, true);
        }
        if let Some(before) = place.checked_sub(1).and_then(|it| sound.get(it)) {
            let from = (x(place - 1).into(), y(before.ewma).into());
            guide(
                &mut svg,
                from,
                (x(place).into(), y(point.ewma).into()),
                false,
            );
        }
    }
    for (place, point) in sound.iter().enumerate() {
        mark(&mut svg, point, x(place), y(point.ewma));
    }
    aside(&mut svg, 0.0, TOP_PX + PLOT_PX + 28.0, Anchor::Start, note);
    Some(finish(svg))
}

fn mark(svg: &mut Markup, point: &Point, x: f64, y: f64) {
    let judge = shorten(&clean(&point.judge), NAME_COLUMNS);
    let outside = if point.alarm {
        ", outside the limits"
    } else {
        ""
    };
    let title = format!("{judge}: {}{outside}", figure::signed(point.ewma));
    svg.raw("<g>").leaf("title", &[], &title);
    let mut attributes = vec![
        (
            "class",
            if point.alarm { "hollow" } else { "accent" }.into(),
        ),
        ("cx", x.into()),
        ("cy", y.into()),
        ("r", 5.0.into()),
    ];
    if point.alarm {
        attributes.push(("stroke-width", 2.0.into()));
    }
    svg.empty("circle", &attributes);
    if point.alarm {
        label(svg, x + 9.0, y + 4.0, Anchor::Start, &judge);
    }
    svg.raw("</g>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_outside_are_named_and_nothing_is_drawn_without_points() {
        assert!(draw(&[]).is_none());
        let point = |ewma: f64, alarm| Point {
            judge: "<ana>".to_owned(),
            ewma,
            limit: 0.8,
            alarm,
        };
        let svg = draw(&[point(0.1, false), point(1.4, true)])
            .unwrap()
            .into_string();
        assert!(svg.contains("+1.40, outside the limits"), "{svg}");
        assert!(!svg.contains("<ana>") && !svg.contains("style="), "{svg}");
    }
}
