//! Renders a [`Leaderboard`](assize_domain::leaderboard::Leaderboard) for readers.
//!
//! There is one module for each format: [`terminal`], [`markdown`], [`csv`], [`html`] and
//! [`junit`], and [`svg`] for the charts that the HTML report and the web panel share.
//! [`gate_table`] renders the report of the promotion gate, [`plan_lines`] the plan of an
//! experiment, [`simulation`] a study of policies, [`lineage`] a prompt loop. All formats take their sentences from
//! [`sentences`] and their number formats from [`figure`], so that they agree.
//!
//! Everything here is a pure function from a board to a string: no I/O, no environment, no clock,
//! and no statistics. A figure that the board does not hold is shown as missing and never computed
//! here. JSON is the board's own serialisation and therefore not part of this crate.
//!
//! Names of models, prompts, criteria and experiments are untrusted. Every format passes them
//! through `text::clean` (control and bidirectional characters) and then through its own
//! escaping.

pub mod columns;
pub mod csv;
pub mod gate_table;
pub mod html;
pub mod junit;
pub mod lineage;
pub mod markdown;
pub mod plan_lines;
pub mod simulation;
pub mod svg;
pub mod terminal;

pub mod axis;
pub mod figure;
mod markup;
pub mod sentences;
pub mod shell;
pub mod text;
