//! Files that are written whole or not at all: a full disk leaves no half of one behind.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A file that is complete on the disk, but not yet under its name.
#[derive(Debug)]
pub struct Unpublished {
    partial: Option<PathBuf>,
    path: PathBuf,
}

/// Writes what `fill` gives, beside `path`.
pub fn whole_file(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<Unpublished> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let unpublished = Unpublished {
        partial: Some(partial.clone()),
        path: path.to_owned(),
    };
    let write = || -> anyhow::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, File::create(&partial)?);
        fill(&mut out)?;
        out.flush()?;
        out.get_ref().sync_all()?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(unpublished)
}

/// Writes a text as a whole file or none.
pub fn write_whole(path: &Path, text: &str) -> anyhow::Result<()> {
    whole_file(path, |out| Ok(out.write_all(text.as_bytes())?))?.publish()
}

impl Unpublished {
    /// Gives the file its name.
    pub fn publish(mut self) -> anyhow::Result<()> {
        if let Some(partial) = &self.partial {
            std::fs::rename(partial, &self.path)
                .with_context(|| format!("cannot write {}", self.path.display()))?;
        }
        self.partial = None;
        Ok(())
    }
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            let _ = std::fs::remove_file(partial);
        }
    }
}
