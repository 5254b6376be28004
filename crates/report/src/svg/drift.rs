//! The control chart of the judges: each sitting's weighted shift (EWMA) and its control limits.
//!
//! Time runs from left to right. Each sitting is a point with its number and, if there is room,
//! its judge below. The band shows the control limits; a point outside is hollow and labelled.

use super::{Anchor, aside, drawing, finish, guide, label, text_px};
use crate::axis::Axis;
use crate::figure;
use crate::markup::Markup;
use crate::text::{clean, shorten};

const STEP_PX: f64 = 34.0;
/// With fewer sittings the points are further apart and show the judge's name.
const NAMED_STEP_PX: f64 = 90.0;
const MOST_NAMED: usize = 12;
const UNDER_COLUMNS: usize = 12;
const PLOT_PX: f64 = 150.0;
const LEFT_PX: f64 = 48.0;
const TOP_PX: f64 = 12.0;
const NAME_COLUMNS: usize = 24;

/// One sitting on the chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// As the table beside the chart counts sittings.
    pub number: usize,
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
    let is_named = sound.len() <= MOST_NAMED;
    let step = if is_named { NAMED_STEP_PX } else { STEP_PX };
    let x = |place: usize| LEFT_PX + (place as f64 + 0.5) * step;
    let right = LEFT_PX + sound.len() as f64 * step;
    let note = "sittings by number; weighted shift of each; dashed: control limits";
    let width = (right + 90.0).max(text_px(note) + 8.0);
    let mut svg = drawing(
        "Drift of the judges by sitting, with control limits",
        width,
        TOP_PX + PLOT_PX + 56.0,
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
            let from = ((x(place) - step / 2.0).into(), y(limit).into());
            let to = ((x(place) + step / 2.0).into(), y(limit).into());
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
        let mut under = point.number.to_string();
        if is_named {
            under = format!("{under} {}", shorten(&clean(&point.judge), UNDER_COLUMNS));
        }
        let below = TOP_PX + PLOT_PX + 20.0;
        label(&mut svg, x(place), below, Anchor::Middle, &under);
    }
    aside(&mut svg, 0.0, TOP_PX + PLOT_PX + 48.0, Anchor::Start, note);
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
            number: 7,
            judge: "<ana>".to_owned(),
            ewma,
            limit: 0.8,
            alarm,
        };
        let svg = draw(&[point(0.1, false), point(1.4, true)])
            .unwrap()
            .into_string();
        assert!(svg.contains("+1.40, outside the limits"), "{svg}");
        assert!(svg.contains(">7 &lt;ana&gt;<"), "{svg}");
        assert!(!svg.contains("<ana>") && !svg.contains("style="), "{svg}");
    }
}
