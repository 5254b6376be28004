//! Real models: the embedded engine and a real Ollama. Without them these tests print `SKIPPED`.

#[cfg(feature = "embedded")]
mod embedded;
mod ollama;
