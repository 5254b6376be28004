//! [`EmbeddedProvider`]: models as files in a directory, one of them loaded at a time.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use assize_providers::{
    Activity, Completion, ModelInfo, Provider, ProviderError, Request, Resident, Result,
};

use crate::engine::Settings;
use crate::gguf::Header;
use crate::memory::{self, Footprint, Shape};
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
    /// `None` for as many as there are free cores, which is looked at again and again.
    pub threads: Option<usize>,
    /// Candidates that are decoded at once; `None` for as many as memory allows and as make
    /// decoding faster.
    pub sequences: Option<u32>,
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
            sequences: None,
            fast: false,
            keep_prefix: true,
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            threads: self.threads,
            sequences: self.sequences,
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
/// Requests from several threads are decoded as one batch: the more there are, the more tokens are
/// generated in a second ([`Provider::requests_wanted`] says how many are enough).
#[derive(Debug)]
pub struct EmbeddedProvider {
    config: EmbeddedConfig,
    loaded: Mutex<Option<Loaded>>,
}

#[derive(Debug)]
struct Loaded {
    path: PathBuf,
    resident: Resident,
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

    fn load_new(&self, model: &str, path: PathBuf, num_ctx: u32) -> Result<Loaded> {
        let info = self.describe(model)?;
        let header = read_header(model, &path)?;
        let file_bytes = info.size_bytes.unwrap_or(0);
        let footprint = Footprint::new(&header, file_bytes);
        // Contexts grow with the prompts; one of the full length has to fit.
        check_memory(model, footprint.bytes(Shape::new(num_ctx, 1)))?;
        let worker = Worker::start(path.clone(), footprint, self.config.settings())
            .map_err(|reason| engine_error(model, reason))?;
        Ok(Loaded {
            path,
            resident: Resident {
                model: model.to_owned(),
                digest: info.digest,
                size_bytes: file_bytes,
                expires_at_ms: None,
            },
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

    /// How many candidates are decoded at once does not depend on how many one cell has.
    fn load(&self, model: &str, num_ctx: u32, _candidates: u32) -> Result<f64> {
        let path = self.resolve(model)?;
        let started = Instant::now();
        let mut slot = self.loaded();
        match slot.as_ref() {
            Some(loaded) if loaded.path != path => {
                return Err(engine_error(
                    model,
                    format!(
                        "'{}' is still loaded: unload it first",
                        loaded.resident.model
                    ),
                ));
            }
            Some(_) => return Ok(0.0),
            None => *slot = Some(self.load_new(model, path, num_ctx)?),
        }
        Ok(started.elapsed().as_secs_f64() * 1000.0)
    }

    fn generate(&self, model: &str, request: &Request) -> Vec<Result<Completion>> {
        let all = |error: ProviderError| vec![Err(error); request.candidates.len()];
        let path = match self.resolve(model) {
            Ok(path) => path,
            Err(error) => return all(error),
        };
        let loaded = self.loaded();
        let own = loaded.as_ref().filter(|loaded| loaded.path == path);
        let Some(door) = own.map(|loaded| loaded.worker.door()) else {
            return all(engine_error(
                model,
                "it is not loaded: load it first".to_owned(),
            ));
        };
        drop(loaded);
        door.generate(request)
            .into_iter()
            .map(|outcome| outcome.map_err(|reason| engine_error(model, reason)))
            .collect()
    }

    /// Enough to fill the batch, and one more that takes the place of one that ends.
    fn requests_wanted(&self, candidates: u32) -> u32 {
        let sequences = self.config.sequences;
        let sequences = sequences.unwrap_or(memory::DEFAULT_MOST_SEQUENCES);
        sequences.div_ceil(candidates.max(1)) + 1
    }

    fn activity(&self) -> Option<Activity> {
        Some(self.loaded().as_ref()?.worker.counters.activity())
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

/// Rejects a model that does not fit into the free memory.
fn check_memory(model: &str, needed: u64) -> Result<()> {
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
