//! Exporting: the cases are chosen, written and handed out, in an order that survives a crash.
//!
//! A file without a sitting on record could never be applied, and a sitting without a file would
//! only be empty. So a file is complete on the disk, then the sitting is recorded, then the file
//! gets its name; on a stream the record comes first.

use std::io::{BufWriter, Write};
use std::path::Path;

use assize_store::Tracking;

use super::write::write;
use crate::judge::Entropy;
use crate::judge::export::{self, Export, ExportOptions};
use crate::{Now, PipelineError, Result, whole_file};

const BUFFER_BYTES: usize = 1 << 16;

/// Hands pending cases out as a judge file under this name; `None` where nothing is pending.
/// `kept` is called with the new path of an older file of that name: it may hold scores that were not applied.
pub fn export_to_file(
    store: &dyn Tracking,
    options: &ExportOptions,
    path: &Path,
    kept: &dyn Fn(&Path),
    (now, entropy): (&Now, Entropy),
) -> Result<Option<Export>> {
    let name = path.display().to_string();
    if path.is_dir() {
        let message = format!("--out {name} is a folder: name a file, for example in it");
        return Err(PipelineError::Invalid(message));
    }
    let Some(export) = export::export(store, options, now, entropy)? else {
        return Ok(None);
    };
    let written = whole_file::fill_beside(path, |out| write(store, &export, out, &name))?;
    if let Some(older) = whole_file::keep_older(path)? {
        kept(&older);
    }
    store.sitting_open(&export.sitting)?;
    written.publish()?;
    Ok(Some(export))
}

/// Hands pending cases out as a judge file on a stream; `None` where nothing is pending.
pub fn export_to_stream(
    store: &dyn Tracking,
    options: &ExportOptions,
    out: &mut dyn Write,
    (now, entropy): (&Now, Entropy),
) -> Result<Option<Export>> {
    let Some(export) = export::export(store, options, now, entropy)? else {
        return Ok(None);
    };
    store.sitting_open(&export.sitting)?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    write(store, &export, &mut out, "standard output")?;
    Ok(Some(export))
}
