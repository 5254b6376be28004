//! The thread that owns a loaded model.
//!
//! A llama.cpp context borrows its model, so both live on the stack of one thread, which takes
//! requests from a channel between two steps. Unloading means ending the thread: when
//! [`Worker::stop`] has joined it, context and weights have been freed, and llama.cpp's own threads
//! have ended. A panic inside the engine ends the thread too, and callers get an error.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use assize_providers::Request;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::model::{LlamaChatTemplate, LlamaModel};

use crate::counters::Counters;
use crate::engine::{Completions, Engine, Settings};
use crate::memory::Footprint;
use crate::prompt;
use crate::threads::Threads;

struct Job {
    request: Box<Request>,
    reply: Sender<Completions>,
}

/// A loaded model.
#[derive(Debug)]
pub(crate) struct Worker {
    door: Door,
    thread: JoinHandle<()>,
    pub(crate) counters: Arc<Counters>,
}

/// Where requests for a loaded model are handed in, from any thread.
#[derive(Debug, Clone)]
pub(crate) struct Door(Sender<Job>);

impl Door {
    /// Generates a request's candidates.
    pub(crate) fn generate(&self, request: &Request) -> Completions {
        let (reply, answer) = channel();
        let request = Box::new(request.clone());
        let count = request.candidates.len();
        let sent = self.0.send(Job { request, reply });
        sent.ok()
            .and_then(|()| answer.recv().ok())
            .unwrap_or_else(|| vec![Err(stopped()); count])
    }
}

impl Worker {
    /// Loads the model at `path` on a new thread and waits until it is ready.
    pub(crate) fn start(
        path: PathBuf,
        footprint: Footprint,
        settings: Settings,
    ) -> Result<Self, String> {
        let (jobs, inbox) = channel();
        let (ready, loaded) = channel();
        let counters = Arc::new(Counters::default());
        let seen = Arc::clone(&counters);
        let thread = std::thread::Builder::new()
            .name("assize-llama".to_owned())
            .spawn(move || {
                // It watches the machine from here on, so that it knows it at the first batch.
                let threads = Threads::new(settings.threads);
                match load(&path, settings) {
                    Ok((model, template)) => {
                        let _nobody_waits = ready.send(Ok(()));
                        serve(
                            Engine::new(&model, &template, footprint, settings, seen, threads),
                            &inbox,
                        );
                    }
                    Err(reason) => drop(ready.send(Err(reason))),
                }
            })
            .map_err(|error| format!("cannot start a thread for the model: {error}"))?;
        match loaded.recv().unwrap_or_else(|_| Err(stopped())) {
            Ok(()) => Ok(Self {
                door: Door(jobs),
                thread,
                counters,
            }),
            Err(reason) => {
                let _panicked = thread.join();
                Err(reason)
            }
        }
    }

    pub(crate) fn door(&self) -> Door {
        self.door.clone()
    }

    /// Whether the thread is still running, and with it the model loaded.
    pub(crate) fn is_alive(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Ends the thread after what it has taken, and returns when everything that it owned is freed.
    pub(crate) fn stop(self) {
        drop(self.door);
        let _panicked = self.thread.join();
    }
}

fn stopped() -> String {
    "internal error: the engine stopped unexpectedly; load the model again".to_owned()
}

fn load(path: &PathBuf, settings: Settings) -> Result<(LlamaModel, LlamaChatTemplate), String> {
    let backend = crate::sys::backend()
        .ok_or("llama.cpp was already initialised by other code in this process")?;
    let mut params = LlamaModelParams::default();
    if !settings.fast {
        params = params.with_n_gpu_layers(0);
    }
    let model = LlamaModel::load_from_file(backend, path, &params).map_err(|_| {
        format!(
            "llama.cpp refuses {}: it is damaged or cut short, or of an architecture that this \
             build does not know; pull it again",
            path.display()
        )
    })?;
    let template = prompt::template(&model)?;
    Ok((model, template))
}

/// Processes requests until the channel is closed.
fn serve(mut engine: Engine<'_>, inbox: &Receiver<Job>) {
    let take = |engine: &mut Engine<'_>, Job { request, reply }: Job| {
        engine.take(
            &request,
            Box::new(move |completions| drop(reply.send(completions))),
        );
    };
    loop {
        if engine.is_idle() {
            match inbox.recv() {
                Ok(job) => take(&mut engine, job),
                Err(_) => return,
            }
        }
        for job in inbox.try_iter() {
            take(&mut engine, job);
        }
        engine.turn();
    }
}
