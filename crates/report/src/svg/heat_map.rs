//! The heat map: the composite of every model (rows) with every prompt (columns).
//!
//! Models and prompts are sorted by their best rank. Each cell shows its value; the shade only
//! repeats it, and is light enough for the text to keep its contrast in light and dark mode.

use assize_domain::leaderboard::{Leaderboard, Row};

use super::{Anchor, aside, drawing, finish, label, text_px};
use crate::markup::Markup;
use crate::text::{clean, shorten_apart};
use crate::{figure, sentences};

const NAME_COLUMNS: usize = 30;
const CELL_PX: f64 = 34.0;
const MIN_CELL_WIDTH_PX: f64 = 72.0;
const SHADES: [f64; 2] = [0.05, 0.42];

/// One cell per pair; pairs that were not judged are dashes.
pub fn draw(board: &Leaderboard) -> Option<Markup> {
    if board.rows.is_empty() {
        return None;
    }
    let models = distinct(board, |row| &row.model);
    let prompts = distinct(board, |row| &row.prompt);
    let (model_names, prompt_names) = (short(&models), short(&prompts));
    let widest = |names: &[String]| names.iter().map(|name| text_px(name)).fold(0.0, f64::max);
    let left = widest(&model_names).max(50.0) + 12.0;
    let cell_width = (widest(&prompt_names) + 16.0).max(MIN_CELL_WIDTH_PX);
    let top = 42.0;
    let size = (
        prompts.len() as f64 * cell_width,
        models.len() as f64 * CELL_PX,
    );
    let title = format!("Mean composite by model and prompt in {}", board.experiment);
    let note = match board.incumbent {
        Some(_) => "darker is higher; outlined: the incumbent",
        None => "darker is higher",
    };
    let width = (left + size.0).max(text_px(note));
    let mut svg = drawing(&title, width, top + size.1 + 22.0);
    aside(&mut svg, 0.0, top - 8.0, Anchor::Start, "model");
    aside(&mut svg, left + 4.0, 12.0, Anchor::Start, "prompt");
    for (position, name) in prompt_names.iter().enumerate() {
        let x = left + (position as f64 + 0.5) * cell_width;
        label(&mut svg, x, top - 8.0, Anchor::Middle, name);
    }
    let scale = Scale::of(board);
    for (model_position, model) in models.iter().enumerate() {
        let y = top + model_position as f64 * CELL_PX;
        label(
            &mut svg,
            0.0,
            y + CELL_PX / 2.0 + 4.0,
            Anchor::Start,
            &model_names[model_position],
        );
        for (prompt_position, prompt) in prompts.iter().enumerate() {
            let x = left + prompt_position as f64 * cell_width;
            let row = board
                .rows
                .iter()
                .find(|row| row.model == *model && row.prompt == *prompt);
            cell(&mut svg, board, row, &scale, [x, y, cell_width]);
        }
    }
    aside(&mut svg, 0.0, top + size.1 + 16.0, Anchor::Start, note);
    Some(finish(svg))
}

fn short(names: &[&str]) -> Vec<String> {
    let clean: Vec<_> = names.iter().map(|name| clean(name)).collect();
    let rooms: Vec<_> = clean.iter().map(|name| (&**name, NAME_COLUMNS)).collect();
    shorten_apart(&rooms)
}

fn cell(
    svg: &mut Markup,
    board: &Leaderboard,
    row: Option<&Row>,
    scale: &Scale,
    [x, y, width]: [f64; 3],
) {
    let middle = (x + width / 2.0, y + CELL_PX / 2.0 + 4.0);
    let Some(row) = row else {
        aside(svg, middle.0, middle.1, Anchor::Middle, figure::NONE);
        return;
    };
    let value = figure::plain(row.composite.mean);
    svg.raw("<g>")
        .leaf("title", &[], &format!("{}: {value}", row.pair()));
    let mut attributes = vec![
        ("class", "accent".into()),
        ("x", (x + 1.0).into()),
        ("y", (y + 1.0).into()),
        ("width", (width - 2.0).into()),
        ("height", (CELL_PX - 2.0).into()),
        ("fill-opacity", scale.shade(row.composite.mean).into()),
    ];
    if sentences::is_incumbent(board, row) {
        attributes.push(("stroke", "currentColor".into()));
        attributes.push(("stroke-dasharray", "3 3".into()));
    }
    svg.empty("rect", &attributes);
    label(svg, middle.0, middle.1, Anchor::Middle, &value);
    svg.raw("</g>\n");
}

/// From the lowest mean to the highest.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(board: &Leaderboard) -> Self {
        let means = board
            .rows
            .iter()
            .map(|row| row.composite.mean)
            .filter(|mean| mean.is_finite());
        let (low, high) = means.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), mean| {
            (low.min(mean), high.max(mean))
        });
        Self { low, high }
    }

    fn shade(&self, value: f64) -> f64 {
        let [faint, deep] = SHADES;
        let span = self.high - self.low;
        if span > 0.0 && value.is_finite() {
            faint + (value - self.low) / span * (deep - faint)
        } else {
            faint
        }
    }
}

/// The names in the order in which they first appear.
fn distinct(board: &Leaderboard, of: fn(&Row) -> &String) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in &board.rows {
        let name = of(row).as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
