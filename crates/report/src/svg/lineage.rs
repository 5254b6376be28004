//! The tree on the left, every version's mean and interval on the right.

use assize_optimise::lineage::{Lineage, LineageVersion};
use assize_optimise::tree::State;

use super::{Anchor, aside, drawing, finish, guide, label, text_px};
use crate::axis::Axis;
use crate::figure;
use crate::lineage::{Branch, branches, conclusion, fate, score};
use crate::markup::Markup;

const ROW_PX: f64 = 24.0;
const TOP_PX: f64 = 6.0;
const STEP_PX: f64 = 18.0;
const PLOT_PX: f64 = 240.0;
const GAP_PX: f64 = 14.0;
/// Levels that are drawn apart; deeper ones share the last place.
const MOST_LEVELS: usize = 12;

pub(crate) fn draw(lineage: &Lineage) -> Option<Markup> {
    let rows = branches(lineage);
    if rows.is_empty() {
        return None;
    }
    let name_end = |it: &Branch<'_>| indent(it.depth) + 10.0 + text_px(&it.version.id);
    let left = rows.iter().map(name_end).fold(60.0, f64::max) + GAP_PX;
    let fates: Vec<String> = rows.iter().map(|it| fate_text(it.version)).collect();
    let right = fates.iter().map(|it| text_px(it)).fold(40.0, f64::max);
    let axis = Axis::covering(rows.iter().flat_map(|it| ends(it.version)), 4.0);
    let bottom = TOP_PX + rows.len() as f64 * ROW_PX;
    let title = format!("{}: {}", lineage.experiment, conclusion(lineage));
    let mut svg = drawing(
        &title,
        left + PLOT_PX + GAP_PX + right + 4.0,
        bottom + if axis.is_some() { 36.0 } else { 4.0 },
    );
    if let Some(axis) = &axis {
        scale(&mut svg, axis, left, bottom, seed_mean(lineage));
    }
    connectors(&mut svg, &rows);
    for (place, (branch, fate)) in rows.iter().zip(&fates).enumerate() {
        let y = middle(place);
        let it = branch.version;
        let about = format!("{}: {}", it.id, it.hypothesis);
        svg.raw("<g>").leaf("title", &[], &about).raw("\n");
        node(&mut svg, indent(branch.depth), y, it.state);
        let x = indent(branch.depth) + 10.0;
        label(&mut svg, x, y + 4.0, Anchor::Start, &it.id);
        if let Some(axis) = &axis {
            mark(&mut svg, it, y, |value| {
                left + axis.fraction(value) * PLOT_PX
            });
        }
        let x = left + PLOT_PX + GAP_PX;
        label(&mut svg, x, y + 4.0, Anchor::Start, fate);
        svg.raw("</g>\n");
    }
    Some(finish(svg))
}

fn indent(depth: usize) -> f64 {
    6.0 + depth.min(MOST_LEVELS) as f64 * STEP_PX
}

fn middle(place: usize) -> f64 {
    TOP_PX + (place as f64 + 0.5) * ROW_PX
}

fn fate_text(it: &LineageVersion) -> String {
    format!("{}  {}", score(it), fate(it))
}

/// Everything of a version that the axis must cover.
fn ends(it: &LineageVersion) -> Vec<f64> {
    let Some(found) = &it.feedback else {
        return Vec::new();
    };
    let ends = found.ci95.filter(figure::is_finite);
    ends.into_iter().flatten().chain([found.mean]).collect()
}

fn seed_mean(lineage: &Lineage) -> Option<f64> {
    let seed = lineage.versions.first()?;
    seed.feedback.as_ref().map(|it| it.mean)
}

fn scale(svg: &mut Markup, axis: &Axis, left: f64, bottom: f64, seed: Option<f64>) {
    let x = |value: f64| left + axis.fraction(value) * PLOT_PX;
    for tick in axis.ticks() {
        let at = x(tick);
        guide(
            svg,
            (at.into(), 0.0.into()),
            (at.into(), bottom.into()),
            false,
        );
        aside(svg, at, bottom + 14.0, Anchor::Middle, &figure::tick(tick));
    }
    if let Some(mean) = seed {
        let at = x(mean);
        guide(
            svg,
            (at.into(), 0.0.into()),
            (at.into(), bottom.into()),
            true,
        );
    }
    let words = "feedback mean and 95 % interval; dashed: the seed";
    aside(
        svg,
        left + PLOT_PX / 2.0,
        bottom + 30.0,
        Anchor::Middle,
        words,
    );
}

/// From every version to its parent: down, then across.
fn connectors(svg: &mut Markup, rows: &[Branch<'_>]) {
    for (place, branch) in rows.iter().enumerate().skip(1) {
        let above = rows[..place].iter();
        let parent = above
            .rev()
            .position(|it| it.depth < branch.depth)
            .map(|back| place - 1 - back);
        let Some(parent) = parent else { continue };
        let (from, to) = (
            indent(rows[parent].depth),
            indent(branch.depth.max(1)).max(indent(rows[parent].depth)),
        );
        let y = middle(place);
        line(svg, [from, middle(parent) + 5.0, from, y]);
        line(svg, [from, y, to - 5.0, y]);
    }
}

fn line(svg: &mut Markup, [x1, y1, x2, y2]: [f64; 4]) {
    let attributes = [
        ("x1", x1.into()),
        ("y1", y1.into()),
        ("x2", x2.into()),
        ("y2", y2.into()),
        ("stroke", "currentColor".into()),
        ("stroke-opacity", 0.35.into()),
    ];
    svg.empty("line", &attributes).raw("\n");
}

/// Filled where the version is nominated or promoted, hollow otherwise; the fate is written beside it.
fn node(svg: &mut Markup, x: f64, y: f64, state: State) {
    let is_chosen = matches!(
        state,
        State::Nominated
            | State::PendingJudgement
            | State::Judged
            | State::Confirming
            | State::Promoted
    );
    let fill = if is_chosen { "currentColor" } else { "none" };
    let attributes = [
        ("class", if is_chosen { "accent" } else { "hollow" }.into()),
        ("cx", x.into()),
        ("cy", y.into()),
        ("r", 4.0.into()),
        ("fill", fill.into()),
        ("stroke", "currentColor".into()),
    ];
    svg.empty("circle", &attributes).raw("\n");
}

fn mark(svg: &mut Markup, it: &LineageVersion, y: f64, x: impl Fn(f64) -> f64) {
    let Some(found) = &it.feedback else { return };
    if let Some([low, high]) = found.ci95.filter(figure::is_finite) {
        let attributes = [
            ("class", "accent-line".into()),
            ("x1", x(low).into()),
            ("y1", y.into()),
            ("x2", x(high).into()),
            ("y2", y.into()),
            ("stroke", "currentColor".into()),
            ("stroke-width", 1.5.into()),
        ];
        svg.empty("line", &attributes).raw("\n");
    }
    let attributes = [
        ("class", "accent".into()),
        ("cx", x(found.mean).into()),
        ("cy", y.into()),
        ("r", 3.5.into()),
    ];
    svg.empty("circle", &attributes).raw("\n");
}
