//! Files that appear complete or not at all.
//!
//! The content goes into a temporary file in the same folder, is synced to the disk, and only then
//! gets its name, so that a full disk or a crash never leaves half a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::{PipelineError, Result};

const BUFFER_BYTES: usize = 1 << 16;
/// The most older files of one name that are kept.
const MOST_KEPT: usize = 10_000;

/// A file that is complete on the disk, but not yet under its name. Dropping it removes it.
#[derive(Debug)]
pub struct Unpublished {
    temporary: Option<PathBuf>,
    path: PathBuf,
}

/// Writes a text under this name.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let content = |out: &mut dyn Write| out.write_all(text.as_bytes()).map_err(not_written(path));
    fill_beside(path, content)?.publish()
}

/// Writes a temporary file beside `path`.
pub fn fill_beside(
    path: &Path,
    write_content: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<Unpublished> {
    let name = name_of(path);
    let temporary = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let file = File::create(&temporary).map_err(not_written(path))?;
    let unpublished = Unpublished {
        temporary: Some(temporary),
        path: path.to_owned(),
    };
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
    write_content(&mut out)?;
    out.flush()
        .and_then(|()| out.get_ref().sync_all())
        .map_err(not_written(path))?;
    Ok(unpublished)
}

/// Renames an existing file of this name to `NAME.1.bak` (or the next free number) and returns its
/// new path.
pub fn keep_older(path: &Path) -> Result<Option<PathBuf>> {
    if !path.exists() {
        return Ok(None);
    }
    let name = name_of(path);
    let free = (1..MOST_KEPT)
        .map(|number| path.with_file_name(format!("{name}.{number}.bak")))
        .find(|it| !it.exists());
    if let Some(kept) = &free {
        std::fs::rename(path, kept).map_err(|source| PipelineError::NotWritten {
            path: kept.display().to_string(),
            source,
        })?;
    }
    Ok(free)
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn not_written(path: &Path) -> impl Fn(io::Error) -> PipelineError {
    let path = path.display().to_string();
    move |source| PipelineError::NotWritten {
        path: path.clone(),
        source,
    }
}

impl Unpublished {
    /// Gives the file its name.
    pub fn publish(mut self) -> Result<()> {
        if let Some(temporary) = &self.temporary {
            std::fs::rename(temporary, &self.path).map_err(not_written(&self.path))?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = std::fs::remove_file(temporary);
        }
    }
}
