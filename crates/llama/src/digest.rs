//! The sha256 of a weights file, computed once.
//!
//! Hashing gigabytes at every start is slow, so the digest is cached next to the file as
//! `NAME.gguf.sha256`, together with the size and modification time that it was computed for.
//! If the cache cannot be written (a read-only directory), the file is hashed again every time.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

/// The file's sha256 in hexadecimal, from the cache if that is still valid.
pub(crate) fn of_file(path: &Path) -> std::io::Result<String> {
    let key = cache_key(path)?;
    let cache = cache_path(path);
    if let Some(digest) = read_cache(&cache, &key) {
        return Ok(digest);
    }
    let digest = compute(path)?;
    let _unwritable_is_fine = write_cache(&cache, &format!("{digest} {key}\n"));
    Ok(digest)
}

/// Hashes the file's bytes, without any cache.
pub(crate) fn compute(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
    }
    let mut digest = String::with_capacity(64);
    for byte in hasher.finalize() {
        let _infallible = write!(digest, "{byte:02x}");
    }
    Ok(digest)
}

/// Size and modification time, which identify the file that was hashed.
fn cache_key(path: &Path) -> std::io::Result<String> {
    let metadata = fs::metadata(path)?;
    let modified_ns = metadata
        .modified()?
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    Ok(format!("{} {modified_ns}", metadata.len()))
}

fn cache_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".sha256");
    PathBuf::from(name)
}

fn read_cache(cache: &Path, key: &str) -> Option<String> {
    let text = fs::read_to_string(cache).ok()?;
    let (digest, cached_key) = text.trim_end().split_once(' ')?;
    (cached_key == key && digest.len() == 64).then(|| digest.to_owned())
}

fn write_cache(cache: &Path, line: &str) -> std::io::Result<()> {
    let directory = cache.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(line.as_bytes())?;
    file.persist(cache).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_valid_cache_is_used_and_a_changed_file_is_hashed_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.gguf");
        fs::write(&path, "abc").unwrap();
        assert_eq!(of_file(&path).unwrap(), OF_ABC);

        let forged = "f".repeat(64);
        let cached = fs::read_to_string(cache_path(&path)).unwrap();
        fs::write(cache_path(&path), cached.replace(OF_ABC, &forged)).unwrap();
        assert_eq!(of_file(&path).unwrap(), forged, "the cache was not read");

        fs::write(&path, "abcd").unwrap();
        assert_eq!(of_file(&path).unwrap(), compute(&path).unwrap());
        assert_ne!(of_file(&path).unwrap(), OF_ABC);
    }

    #[test]
    fn a_damaged_cache_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.gguf");
        fs::write(&path, "abc").unwrap();
        fs::write(cache_path(&path), "half a li").unwrap();
        assert_eq!(of_file(&path).unwrap(), OF_ABC);
    }
}
