//! Draws interval bars with characters.

use assize_domain::leaderboard::Row;

use crate::axis::{Axis, interval};
use crate::{figure, text};

/// `··├──●──┤·┊··`: the mean, its interval, and the incumbent's mean unless the interval covers it.
pub fn draw(row: &Row, axis: &Axis, incumbent: Option<f64>, width: usize) -> String {
    let place = |value: f64| columns(axis.fraction(value), width.saturating_sub(1));
    let mut cells = vec!['·'; width];
    let mut put = |position: usize, mark: char| {
        if let Some(cell) = cells.get_mut(position) {
            *cell = mark;
        }
    };
    if let Some(mean) = incumbent.filter(|mean| mean.is_finite()) {
        put(place(mean), '┊');
    }
    if let Some([low, high]) = interval(row) {
        let (low, high) = (place(low), place(high));
        (low..=high).for_each(|position| put(position, '─'));
        put(low, '├');
        put(high, '┤');
    }
    if row.composite.mean.is_finite() {
        put(place(row.composite.mean), '●');
    }
    cells.into_iter().collect()
}

/// The ends of the axis, for the line below the bars.
pub fn scale(axis: &Axis, width: usize) -> String {
    let (low, high) = (figure::tick(axis.low), figure::tick(axis.high));
    let between = width.saturating_sub(text::width(&low) + text::width(&high) + 2);
    format!("{low} {} {high}", "─".repeat(between))
}

/// A share of a number of columns, rounded to whole columns.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the product lies between 0 and a terminal's width, and not a number becomes 0"
)]
pub fn columns(fraction: f64, of: usize) -> usize {
    (fraction.clamp(0.0, 1.0) * of as f64).round() as usize
}
