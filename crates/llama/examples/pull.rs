//! Pulls models into a directory: `cargo run --release --example pull -- DIR NAME…`.
#![expect(clippy::print_stderr, reason = "an example talks to its user")]

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: pull DIR NAME…")?;
    for name in arguments {
        let pulled = assize_llama::pull(Path::new(&directory), &name, &mut |progress| {
            if let assize_llama::Progress::Step(sentence) = progress {
                eprintln!("{sentence}");
            }
        })?;
        eprintln!("{pulled:?}");
    }
    Ok(())
}
