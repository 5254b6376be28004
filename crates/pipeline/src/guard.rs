//! The one-model guard: two models' weights are never resident at once on a host.
//!
//! Before a model loads, the guard looks at what the host holds. What we loaded ourselves
//! (in this process or in one that was killed) is unloaded and seen to be gone; somebody
//! else's model stops us, unless the user asked to evict it. While a [`Tenancy`] lives, a
//! held lock keeps other Assize processes on this machine away from the same memory.
//!
//! What we loaded is written to the local state *before* it loads, with the time until which
//! it can be ours: the host's own `keep_alive` unloads it after that, so anything that stays
//! longer was renewed by somebody else.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use assize_providers::ollama::same_model;
use assize_providers::{Provider, Resident};
use assize_store::state::State;

use crate::lock::{self, Lock};
use crate::{Clock, PipelineError, Result};

/// What the guard needs to know of its surroundings.
#[derive(Debug, Clone)]
pub struct Guard {
    pub state: Arc<State>,
    /// Machine-wide folder of locks, one for each host's memory.
    pub locks: PathBuf,
    /// Unload other people's models instead of stopping.
    pub evict: bool,
    pub keep_alive_ms: i64,
    pub clock: Clock,
}

/// A model that is loaded under the guard, until [`Tenancy::leave`].
#[derive(Debug)]
pub struct Tenancy {
    guard: Guard,
    provider: Arc<dyn Provider>,
    host: Option<String>,
    model: String,
    digest: String,
    renewed_at_ms: Mutex<i64>,
    pub load_ms: f64,
    /// Whether the model was in memory already, left there by a process of ours.
    pub was_resident: bool,
    _lock: Option<Lock>,
}

/// How a model is to be loaded.
#[derive(Debug)]
pub struct Place<'a> {
    pub num_ctx: u32,
    pub candidates: u32,
    /// Ends the wait for somebody else's turn.
    pub stop: &'a AtomicBool,
}

/// How often a running collection writes down that the model is still its own.
const RENEW_EVERY_MS: i64 = 30_000;

impl Guard {
    /// Loads `model` where nothing else is resident.
    pub fn enter(
        &self,
        provider: &Arc<dyn Provider>,
        model: &str,
        digest: &str,
        place: &Place<'_>,
        waiting: impl FnOnce(),
    ) -> Result<Tenancy> {
        let host = provider.host();
        let mut was_resident = false;
        let mut held = None;
        if let Some(host) = &host {
            held = Some(lock::acquire(&self.locks, &format!("memory of {}", memory_of(host)), place.stop, waiting)?);
            was_resident = self.clear(provider.as_ref(), host, model)?;
            self.remember(host, model, digest)?;
        }
        let load_ms = provider.load(model, place.num_ctx, place.candidates)?;
        Ok(Tenancy {
            guard: self.clone(),
            provider: Arc::clone(provider),
            host,
            model: model.to_owned(),
            digest: digest.to_owned(),
            renewed_at_ms: Mutex::new((self.clock)()),
            load_ms,
            was_resident,
            _lock: held,
        })
    }

    /// Makes sure that the host holds nothing but, perhaps, `model` of our own.
    fn clear(&self, provider: &dyn Provider, host: &str, model: &str) -> Result<bool> {
        let residents = provider.resident()?;
        let (ours, foreign): (Vec<_>, Vec<_>) = {
            let known = self.state.loaded_list(host)?;
            residents.into_iter().partition(|resident| {
                known.iter().any(|it| {
                    same_model(&it.model, &resident.model)
                        && resident.expires_at_ms.is_none_or(|expires| expires <= it.ours_until_ms)
                })
            })
        };
        if !foreign.is_empty() && !self.evict {
            let models = foreign.iter().map(|it| format!("'{}'", it.model)).collect::<Vec<_>>().join(", ");
            return Err(PipelineError::Occupied { host: host.to_owned(), models });
        }
        let mut was_resident = false;
        for Resident { model: resident, .. } in ours.iter().chain(&foreign) {
            let keep = same_model(resident, model) && ours.iter().any(|it| it.model == *resident);
            if keep {
                was_resident = true;
                continue;
            }
            provider.unload(resident)?;
            self.state.loaded_remove(host, resident)?;
        }
        Ok(was_resident)
    }

    fn remember(&self, host: &str, model: &str, digest: &str) -> Result<()> {
        let ours_until_ms = (self.clock)() + self.keep_alive_ms + 2 * RENEW_EVERY_MS;
        Ok(self.state.loaded_put(host, model, digest, ours_until_ms)?)
    }
}

impl Tenancy {
    /// Notes that the model was used just now, which renewed its `keep_alive`.
    pub fn renew(&self) -> Result<()> {
        let Some(host) = &self.host else {
            return Ok(());
        };
        let now = (self.guard.clock)();
        {
            let Ok(mut renewed_at) = self.renewed_at_ms.lock() else {
                return Ok(());
            };
            if now - *renewed_at < RENEW_EVERY_MS {
                return Ok(());
            }
            *renewed_at = now;
        }
        self.guard.remember(host, &self.model, &self.digest)
    }

    /// Unloads the model, sees that it is gone, and lets the next one in.
    pub fn leave(self) -> Result<()> {
        self.provider.unload(&self.model)?;
        if let Some(host) = &self.host {
            self.guard.state.loaded_remove(host, &self.model)?;
        }
        Ok(())
    }
}

/// Which machine's memory a host's weights occupy: the embedded engine and every server on
/// loopback share this machine's.
fn memory_of(host: &str) -> &str {
    let authority = host.split("://").last().unwrap_or(host);
    let name = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
    match name.trim_matches(['[', ']']) {
        "localhost" | "::1" | "embedded" => "this machine",
        name if name.starts_with("127.") => "this machine",
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_on_loopback_shares_one_memory() {
        for host in ["embedded", "http://localhost:11434", "http://127.0.0.1:1", "http://[::1]:2"] {
            assert_eq!(memory_of(host), "this machine", "{host}");
        }
        assert_eq!(memory_of("http://gpu-box:11434"), "gpu-box:11434");
    }
}
