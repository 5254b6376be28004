//! The one-model guard: two models' weights are never resident at once on a host.
//!
//! Before a model loads, the guard looks at what the host holds. What we loaded ourselves
//! (in this process or in one that was killed) is unloaded and seen to be gone; somebody
//! else's model stops us, unless the user asked to evict it. While a [`Tenancy`] lives, a
//! held lock keeps other Assize processes on this machine away from the same memory.
//!
//! What we loaded is written to the local state *before* it loads, with the time until which
//! it can be ours: the host's own `keep_alive` unloads it after that, so anything that stays
//! longer was renewed by somebody else. While the model is in use that time is moved on by a
//! clock and not by finished work, because a slow model may take longer for one cell than the
//! whole of `keep_alive`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use assize_http::{LocalMachine, THIS_MACHINE};
use assize_providers::ollama::same_model;
use assize_providers::{Provider, ProviderError, Resident};
use assize_store::state::State;

use crate::lock::{self, Lock, Patience};
use crate::{Clock, PipelineError, Result};

/// The state, locks and clock that the guard works with.
#[derive(Debug, Clone)]
pub struct Guard {
    pub state: Arc<State>,
    /// Machine-wide folder of locks, one for each host's memory.
    pub locks: PathBuf,
    /// Unload other people's models instead of stopping.
    pub evict: bool,
    /// How long to wait for another Assize process.
    pub wait: Duration,
    pub keep_alive_ms: i64,
    pub clock: Clock,
    /// Tells which hosts share this machine's memory.
    pub machine: LocalMachine,
}

/// A model that is loaded under the guard, until [`Tenancy::leave`].
#[derive(Debug)]
pub struct Tenancy {
    guard: Guard,
    provider: Arc<dyn Provider>,
    host: Option<String>,
    model: String,
    heartbeat: Option<Heartbeat>,
    pub load_ms: f64,
    _lock: Option<Lock>,
}

/// How a model is to be loaded.
#[expect(missing_debug_implementations, reason = "it holds a closure")]
pub struct Place<'a> {
    pub num_ctx: u32,
    pub candidates: u32,
    /// Ends the wait for somebody else's turn.
    pub stopped: &'a dyn Fn() -> bool,
}

/// How often we write down that the model in use is still our own, and how much longer than
/// its `keep_alive` it then counts as ours: a beat may be late, and so may a host's clock.
const RENEW_EVERY: Duration = Duration::from_secs(30);
const GRACE_MS: i64 = 60_000;

impl Guard {
    /// Loads `model` where nothing else is resident.
    pub fn enter(
        &self,
        provider: &Arc<dyn Provider>,
        model: &str,
        digest: &str,
        place: &Place<'_>,
        waiting: impl FnOnce(&str),
    ) -> Result<Tenancy> {
        let host = provider.host();
        let mut held = None;
        let mut heartbeat = None;
        if let Some(host) = &host {
            let what = format!("memory of {}", memory_of(host, &self.machine));
            let patience = Patience {
                stopped: place.stopped,
                at_most: Some(self.wait),
            };
            held = Some(lock::acquire_within(&self.locks, &what, patience, waiting)?);
            // The previous holder may have failed to free the memory.
            if (place.stopped)() {
                return Err(PipelineError::Interrupted);
            }
            self.clear(provider.as_ref(), host, model)?;
            self.remember(host, model, digest)?;
            heartbeat = Some(self.keep_remembering(host, model, digest));
        }
        let load_ms = match provider.load(model, place.num_ctx, place.candidates) {
            Ok(load_ms) => load_ms,
            Err(error) => {
                drop(heartbeat);
                return Err(self.give_up(provider.as_ref(), host.as_deref(), model, error));
            }
        };
        Ok(Tenancy {
            guard: self.clone(),
            provider: Arc::clone(provider),
            host,
            model: model.to_owned(),
            heartbeat,
            load_ms,
            _lock: held,
        })
    }

    /// A load that was given up here may still come about on the host.
    fn give_up(
        &self,
        provider: &dyn Provider,
        host: Option<&str>,
        model: &str,
        error: ProviderError,
    ) -> PipelineError {
        if let Some(host) = host.filter(|_| !error.is_host_down())
            && let Err(stuck @ PipelineError::Provider(ProviderError::NotFreed { .. })) =
                self.free(provider, host, model)
        {
            return stuck;
        }
        error.into()
    }

    /// Unloads a model, sees that it is gone, and forgets it.
    fn free(&self, provider: &dyn Provider, host: &str, model: &str) -> Result<()> {
        provider.unload(model)?;
        // The host may call it by a longer name than the one that we loaded it by.
        for known in self
            .state
            .loaded_list(host)?
            .iter()
            .filter(|known| same_model(&known.model, model))
        {
            self.state.loaded_remove(host, &known.model)?;
        }
        Ok(())
    }

    /// Makes sure that the host holds nothing but, perhaps, `model` of our own.
    fn clear(&self, provider: &dyn Provider, host: &str, model: &str) -> Result<()> {
        let residents = provider.resident()?;
        let (ours, foreign): (Vec<_>, Vec<_>) = {
            let known = self.state.loaded_list(host)?;
            residents.into_iter().partition(|resident| {
                known.iter().any(|it| {
                    same_model(&it.model, &resident.model)
                        && resident
                            .expires_at_ms
                            .is_none_or(|expires| expires <= it.ours_until_ms)
                })
            })
        };
        if !foreign.is_empty() && !self.evict {
            let models = foreign
                .iter()
                .map(|it| format!("'{}'", it.model))
                .collect::<Vec<_>>()
                .join(", ");
            return Err(PipelineError::Occupied {
                host: host.to_owned(),
                models,
            });
        }
        for Resident {
            model: resident, ..
        } in ours.iter().chain(&foreign)
        {
            let keep = same_model(resident, model) && ours.iter().any(|it| it.model == *resident);
            if keep {
                continue;
            }
            self.free(provider, host, resident)?;
        }
        Ok(())
    }

    fn remember(&self, host: &str, model: &str, digest: &str) -> Result<()> {
        let ours_until_ms = (self.clock)() + self.keep_alive_ms + GRACE_MS;
        Ok(self.state.loaded_put(host, model, digest, ours_until_ms)?)
    }

    fn keep_remembering(&self, host: &str, model: &str, digest: &str) -> Heartbeat {
        let (guard, host, model, digest) = (
            self.clone(),
            host.to_owned(),
            model.to_owned(),
            digest.to_owned(),
        );
        Heartbeat::start(RENEW_EVERY, move || {
            // A beat that fails is made up for by the next; only a restart would miss it.
            let _ = guard.remember(&host, &model, &digest);
        })
    }
}

impl Tenancy {
    /// Unloads the model, sees that it is gone, and lets the next one in.
    pub fn leave(mut self) -> Result<()> {
        // The last beat comes before the model is forgotten, not after.
        drop(self.heartbeat.take());
        match &self.host {
            Some(host) => self.guard.free(self.provider.as_ref(), host, &self.model),
            None => Ok(self.provider.unload(&self.model)?),
        }
    }
}

/// Calls a function every so often, in a thread of its own, until it is dropped.
#[derive(Debug)]
struct Heartbeat {
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    fn start(every: Duration, mut beat: impl FnMut() + Send + 'static) -> Self {
        let (alive, is_alive) = channel();
        let thread = std::thread::spawn(move || {
            while is_alive.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                beat();
            }
        });
        Self {
            alive: Some(alive),
            thread: Some(thread),
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Which machine's memory a host's weights occupy: the embedded engine and every server on this
/// machine, under whatever name, share one.
pub fn memory_of(host: &str, machine: &LocalMachine) -> String {
    if host == "embedded" {
        return THIS_MACHINE.to_owned();
    }
    machine.memory_of(host)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::TryRecvError;

    use super::*;

    #[test]
    fn the_embedded_engine_and_servers_on_this_machine_share_one_memory() {
        let machine = LocalMachine::system();
        for host in [
            "embedded",
            "http://localhost:11434",
            "http://LOCALHOST:11434",
            "http://u@localhost.:11434/ollama",
            "http://127.0.0.2:1",
            "http://[::ffff:127.0.0.1]:1",
        ] {
            assert_eq!(memory_of(host, &machine), THIS_MACHINE, "{host}");
        }
        // Addresses that are not assigned.
        for host in ["http://203.0.113.1:11434", "http://u:p@203.0.113.1:11434/"] {
            assert_eq!(memory_of(host, &machine), "203.0.113.1:11434");
        }
    }

    #[test]
    fn a_heart_beats_until_it_is_dropped() {
        let (sender, beats) = channel();
        let heart = Heartbeat::start(Duration::from_millis(1), move || {
            let _ = sender.send(());
        });
        for _ in 0..3 {
            beats.recv().expect("a beat");
        }
        drop(heart);
        while beats.try_recv().is_ok() {}
        assert_eq!(
            beats.try_recv(),
            Err(TryRecvError::Disconnected),
            "the heartbeat thread has ended"
        );
    }
}
