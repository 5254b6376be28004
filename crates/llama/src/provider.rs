//! [`EmbeddedProvider`]: models as files in a directory, one of them loaded at a time.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Instant;

use assize_providers::{Completion, ModelInfo, Provider, ProviderError, Request, Resident, Result};

use crate::engine::Settings;
use crate::gguf::Header;
use crate::memory::{self, Shape};
use crate::worker::Worker;
use crate::{digest, sys};

const HOST: &str = "embedded";
const PREFIX: &str = "embedded:";
const BYTES_PER_MB: u64 = 1024 * 1024;

/// Where models are and how the engine computes.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig {
    /// The directory of `NAME.gguf` files.
    pub models_dir: PathBuf,
    /// `None` for all cores but one: with all of them in use, one competing process makes
    /// llama.cpp's threads wait for each other at every layer.
    pub threads: Option<usize>,
    /// Gives up exact sampling (the same text for a seed whatever else is in the batch) for
    /// speed, and uses a GPU where the build has one.
    pub fast: bool,
    /// Keeps the prompt of one request in the cache for the next. Only a benchmark turns it
    /// off: it does not change the output.
    pub keep_prefix: bool,
}

impl EmbeddedConfig {
    /// The defaults, for models in `models_dir`.
    pub fn new(models_dir: impl Into<PathBuf>) -> Self {
        Self {
            models_dir: models_dir.into(),
            threads: None,
            fast: false,
            keep_prefix: true,
        }
    }

    fn settings(&self) -> Settings {
        let cores = available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = self.threads.unwrap_or(cores - 1).max(1);
        Settings {
            threads: i32::try_from(threads).unwrap_or(i32::MAX),
            fast: self.fast,
            keep_prefix: self.keep_prefix,
        }
    }
}

/// `$XDG_CACHE_HOME/assize/models`, else `~/.cache/assize/models`, from the values of the
/// environment's `XDG_CACHE_HOME` and `HOME`.
pub fn default_models_dir(xdg_cache_home: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    let cache = xdg_cache_home
        .filter(|path| path.is_absolute())
        .map(Path::to_path_buf)
        .or_else(|| home.map(|home| home.join(".cache")))?;
    Some(cache.join("assize").join("models"))
}

/// llama.cpp in this process, as a provider.
///
/// Calls from several threads are serialised: the engine uses all of its cores for one request,
/// and parallel requests would only share them.
#[derive(Debug)]
pub struct EmbeddedProvider {
    config: EmbeddedConfig,
    loaded: Mutex<Option<Loaded>>,
}

#[derive(Debug)]
struct Loaded {
    path: PathBuf,
    resident: Resident,
    shape: Shape,
    worker: Worker,
}

impl EmbeddedProvider {
    pub fn new(config: EmbeddedConfig) -> Self {
        Self {
            config,
            loaded: Mutex::new(None),
        }
    }

    /// The loaded model, if any; a worker that stopped counts as unloaded.
    fn loaded(&self) -> MutexGuard<'_, Option<Loaded>> {
        let mut guard = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        guard.take_if(|loaded| !loaded.worker.is_alive());
        guard
    }

    /// The file behind a name: `NAME` or `embedded:NAME` in the models directory, or a path
    /// that ends in `.gguf`.
    fn resolve(&self, model: &str) -> Result<PathBuf> {
        let name = model.strip_prefix(PREFIX).unwrap_or(model);
        let path = if Path::new(name).extension().is_some_and(|e| e == "gguf") {
            let here = PathBuf::from(name);
            if here.is_file() {
                here
            } else {
                self.config.models_dir.join(name)
            }
        } else {
            self.config.models_dir.join(format!("{name}.gguf"))
        };
        if path.is_file() {
            return Ok(path);
        }
        Err(ProviderError::ModelNotFound {
            host: HOST.to_owned(),
            model: name.to_owned(),
            remedy: format!("get it with `assize models pull {name}`"),
        })
    }

    fn load_new(&self, model: &str, path: PathBuf, shape: Shape) -> Result<Loaded> {
        let info = self.describe(model)?;
        let worker = Worker::start(path.clone(), shape, self.config.settings())
            .map_err(|reason| engine_error(model, reason))?;
        Ok(Loaded {
            path,
            resident: Resident {
                model: model.to_owned(),
                digest: info.digest,
                size_bytes: info.size_bytes.unwrap_or(0),
                expires_at_ms: None,
            },
            shape,
            worker,
        })
    }
}

impl Provider for EmbeddedProvider {
    fn host(&self) -> Option<String> {
        Some(HOST.to_owned())
    }

    fn list(&self) -> Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.config.models_dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                let directory = self.config.models_dir.display().to_string();
                return Err(engine_error(&directory, error.to_string()));
            }
        };
        let mut names: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "gguf") && path.is_file())
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        names.sort();
        Ok(names)
    }

    fn describe(&self, model: &str) -> Result<ModelInfo> {
        let path = self.resolve(model)?;
        let header = read_header(model, &path)?;
        let io_error = |error: std::io::Error| engine_error(model, error.to_string());
        Ok(ModelInfo {
            parameter_count: Some(header.parameter_count()),
            digest: digest::of_file(&path).map_err(io_error)?,
            provenance: sys::provenance(sys::Reproducibility::new(
                self.config.fast,
                header.tensor_types(),
            )),
            size_bytes: Some(path.metadata().map_err(io_error)?.len()),
            context_length: header.architecture_integer("context_length"),
        })
    }

    fn resident(&self) -> Result<Vec<Resident>> {
        let loaded = self.loaded();
        Ok(loaded
            .iter()
            .map(|loaded| loaded.resident.clone())
            .collect())
    }

    fn load(&self, model: &str, num_ctx: u32, candidates: u32) -> Result<f64> {
        let path = self.resolve(model)?;
        let shape = Shape::new(num_ctx, candidates);
        let started = Instant::now();
        let mut slot = self.loaded();
        match slot.as_mut() {
            Some(loaded) if loaded.path != path => {
                return Err(engine_error(
                    model,
                    format!(
                        "'{}' is still loaded: unload it first",
                        loaded.resident.model
                    ),
                ));
            }
            Some(loaded) if loaded.shape.covers(shape) => return Ok(0.0),
            Some(loaded) => {
                let shape = loaded.shape.union(shape);
                check_memory(model, &path, shape, loaded.resident.size_bytes)?;
                let reshaped = loaded.worker.reshape(shape);
                reshaped.map_err(|reason| engine_error(model, reason))?;
                loaded.shape = shape;
            }
            None => {
                check_memory(model, &path, shape, 0)?;
                *slot = Some(self.load_new(model, path, shape)?);
            }
        }
        Ok(started.elapsed().as_secs_f64() * 1000.0)
    }

    fn generate(&self, model: &str, request: &Request) -> Vec<Result<Completion>> {
        let all = |error: ProviderError| vec![Err(error); request.candidates.len()];
        let path = match self.resolve(model) {
            Ok(path) => path,
            Err(error) => return all(error),
        };
        let slot = self.loaded();
        let Some(loaded) = slot.as_ref().filter(|loaded| loaded.path == path) else {
            return all(engine_error(
                model,
                "it is not loaded: load it first".to_owned(),
            ));
        };
        loaded
            .worker
            .generate(request)
            .into_iter()
            .map(|outcome| outcome.map_err(|reason| engine_error(model, reason)))
            .collect()
    }

    fn unload(&self, model: &str) -> Result<()> {
        let path = self.resolve(model)?;
        let mut slot = self.loaded();
        if let Some(loaded) = slot.take_if(|loaded| loaded.path == path) {
            loaded.worker.stop();
        }
        Ok(())
    }
}

/// Rejects a model that does not fit into the free memory; `resident_bytes` are already loaded.
fn check_memory(model: &str, path: &Path, shape: Shape, resident_bytes: u64) -> Result<()> {
    let header = read_header(model, path)?;
    let file_bytes = path.metadata().map_or(0, |metadata| metadata.len());
    let needed = memory::estimate_bytes(&header, file_bytes, shape).saturating_sub(resident_bytes);
    match memory::free_bytes() {
        Some(free) if free < needed => Err(ProviderError::OutOfMemory {
            model: model.to_owned(),
            needed_mb: needed / BYTES_PER_MB,
            free_mb: free / BYTES_PER_MB,
        }),
        _ => Ok(()),
    }
}

fn read_header(model: &str, path: &Path) -> Result<Header> {
    Header::read(path).map_err(|reason| {
        let path = path.display();
        engine_error(
            model,
            format!("{path} is not a usable GGUF file: {reason}; pull it again"),
        )
    })
}

fn engine_error(model: &str, reason: String) -> ProviderError {
    ProviderError::Engine {
        model: model.to_owned(),
        reason,
    }
}
