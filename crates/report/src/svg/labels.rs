//! Places labels beside points so that no label covers another.
//!
//! Points are given in order of importance. Each gets the first free position around it, with the
//! whole text if that fits, else the short text, else no label.

use super::{Anchor, text_px};

const HEIGHT_PX: f64 = 14.0;
const POINT_PX: f64 = 6.0;

/// A rectangle on the chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn inside(&self, other: &Self) -> bool {
        self.left >= other.left
            && self.right <= other.right
            && self.top >= other.top
            && self.bottom <= other.bottom
    }
}

/// A point to be labelled.
#[derive(Debug, Clone)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub whole: String,
    pub short: String,
}

/// A label with its position; `y` is the text's baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    pub x: f64,
    pub y: f64,
    pub anchor: Anchor,
    pub text: String,
}

/// One label per point, `None` if no position was free.
pub fn place(points: &[Point], bounds: Area) -> Vec<Option<Placed>> {
    let mut taken: Vec<Area> = points.iter().map(around).collect();
    let mut placed = Vec::with_capacity(points.len());
    for point in points {
        let mut tries = [&point.whole, &point.short]
            .into_iter()
            .flat_map(|text| places(point, text));
        let free = |(area, _): &(Area, Placed)| {
            area.inside(&bounds) && !taken.iter().any(|other| area.overlaps(other))
        };
        let found = tries.find(free);
        if let Some((area, _)) = &found {
            taken.push(*area);
        }
        placed.push(found.map(|(_, label)| label));
    }
    placed
}

fn around(point: &Point) -> Area {
    Area {
        left: point.x - POINT_PX,
        top: point.y - POINT_PX,
        right: point.x + POINT_PX,
        bottom: point.y + POINT_PX,
    }
}

/// Right, left, above, below, and the four corners.
fn places(point: &Point, text: &str) -> Vec<(Area, Placed)> {
    let beside = POINT_PX + 3.0;
    let vertical = POINT_PX + HEIGHT_PX / 2.0 + 1.0;
    let moves = [
        (Anchor::Start, beside, 0.0),
        (Anchor::End, -beside, 0.0),
        (Anchor::Middle, 0.0, -vertical),
        (Anchor::Middle, 0.0, vertical),
        (Anchor::Start, POINT_PX, -vertical),
        (Anchor::Start, POINT_PX, vertical),
        (Anchor::End, -POINT_PX, -vertical),
        (Anchor::End, -POINT_PX, vertical),
    ];
    let at = |(anchor, dx, dy): (Anchor, f64, f64)| {
        let (x, middle, length) = (point.x + dx, point.y + dy, text_px(text));
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - length / 2.0,
            Anchor::End => x - length,
        };
        let area = Area {
            left,
            top: middle - HEIGHT_PX / 2.0,
            right: left + length,
            bottom: middle + HEIGHT_PX / 2.0,
        };
        let text = text.to_owned();
        (
            area,
            Placed {
                x,
                y: middle + 4.0,
                anchor,
                text,
            },
        )
    };
    moves.into_iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Area = Area {
        left: 0.0,
        top: 0.0,
        right: 400.0,
        bottom: 200.0,
    };

    fn point(x: f64, y: f64, whole: &str) -> Point {
        Point {
            x,
            y,
            whole: whole.to_owned(),
            short: "7".to_owned(),
        }
    }

    #[test]
    fn labels_stay_inside() {
        let placed = place(&[point(390.0, 100.0, "a long name of a pair")], BOUNDS);
        assert_eq!(placed[0].as_ref().unwrap().anchor, Anchor::End);
    }

    #[test]
    fn a_crowd_falls_back_to_short_labels_and_then_to_none() {
        let crowd: Vec<Point> = (0..40)
            .map(|it| point(200.0 + f64::from(it), 100.0, "a long name of a pair"))
            .collect();
        let placed = place(&crowd, BOUNDS);
        assert!(placed.iter().flatten().any(|it| it.text != "7"));
        assert!(placed.iter().any(Option::is_none));
    }
}
