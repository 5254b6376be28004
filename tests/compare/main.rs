//! `assize compare` and `assize promote`: leaderboards, and the gate before an alias moves.

mod changed_inputs;
mod full_grid;
mod leaderboard;
mod promote;
mod seal;
