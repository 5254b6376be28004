//! `assize compare` and `assize promote`: leaderboards, and the gate before an alias moves.

mod answers;
mod changed_inputs;
mod comparable_pairs;
mod full_grid;
mod leaderboard;
mod money;
mod promote;

mod seal;
mod sweep;
