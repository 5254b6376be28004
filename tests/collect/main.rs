//! `assize collect`: which cells it makes, its options, adaptive rounds, and Ollama hosts.

mod adaptive;
mod cells;
mod ollama;
mod options;
