//! `assize collect`: which cells it makes, its options, adaptive rounds, and Ollama hosts.

mod adaptive;
mod cells;
mod chat;
mod endpoint;
mod hosted;
mod litellm;
mod ollama;
mod options;
mod pool;
mod watch;
