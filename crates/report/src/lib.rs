//! A [`Leaderboard`](assize_domain::leaderboard::Leaderboard) turned into what people read.
//!
//! [`gate`] does the same for the promotion gate. One module a format: [`terminal`], [`markdown`],
//! [`csv`], [`html`], [`junit`], and [`svg`] for the charts
//! that the page and the web panel share. Sentences live in `words` and numbers in `figure`, so
//! that every format says the same in the same way.
//!
//! Everything here is a pure function from a board to a string: no I/O, no environment, no clock,
//! and no statistics. What the board does not hold is shown as missing and never computed here.
//! JSON is the board's own serialisation and therefore not here either.
//!
//! Names of models, prompts, criteria and experiments are made by others. Every format passes
//! them through `text::clean` (control and bidirectional characters) and then through its own
//! escaping.

pub mod columns;
pub mod csv;
pub mod gate;
pub mod html;
pub mod junit;
pub mod markdown;
pub mod svg;
pub mod terminal;

pub mod axis;
pub mod figure;
mod markup;
pub mod text;
pub mod words;
