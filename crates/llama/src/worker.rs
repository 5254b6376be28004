//! The thread that owns a loaded model.
//!
//! A llama.cpp context borrows its model, so both live on the stack of one thread, which
//! serves requests from a channel. Unloading means ending the thread: when [`Worker::stop`]
//! has joined it, context and weights have been freed, and llama.cpp's own threads have ended.
//! A panic inside the engine ends the thread too, and callers get an error.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use assize_providers::{Completion, Request};
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::model::{LlamaChatTemplate, LlamaModel};

use crate::engine::{Engine, Settings};
use crate::memory::Shape;
use crate::prompt;

type Completions = Vec<Result<Completion, String>>;

enum Job {
    Generate(Box<Request>, Sender<Completions>),
    Reshape(Shape, Sender<Result<(), String>>),
}

/// A loaded model.
#[derive(Debug)]
pub(crate) struct Worker {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Loads the model at `path` on a new thread and waits until it is ready.
    pub(crate) fn start(path: PathBuf, shape: Shape, settings: Settings) -> Result<Self, String> {
        let (jobs, inbox) = channel();
        let (ready, loaded) = channel();
        let thread = std::thread::Builder::new()
            .name("assize-llama".to_owned())
            .spawn(move || match load(&path, settings) {
                Ok((model, template)) => serve(&model, &template, shape, settings, &inbox, ready),
                Err(reason) => drop(ready.send(Err(reason))),
            })
            .map_err(|error| format!("cannot start a thread for the model: {error}"))?;
        match loaded.recv().unwrap_or_else(|_| Err(stopped())) {
            Ok(()) => Ok(Self { jobs, thread }),
            Err(reason) => {
                let _panicked = thread.join();
                Err(reason)
            }
        }
    }

    /// Generates a request's candidates.
    pub(crate) fn generate(&self, request: &Request) -> Completions {
        let (reply, answer) = channel();
        let sent = self
            .jobs
            .send(Job::Generate(Box::new(request.clone()), reply));
        sent.ok()
            .and_then(|()| answer.recv().ok())
            .unwrap_or_else(|| vec![Err(stopped()); request.candidates.len()])
    }

    /// Replaces the context by one of another shape; the weights stay.
    pub(crate) fn reshape(&self, shape: Shape) -> Result<(), String> {
        let (reply, answer) = channel();
        let sent = self.jobs.send(Job::Reshape(shape, reply));
        sent.map_err(|_| stopped())?;
        answer.recv().unwrap_or_else(|_| Err(stopped()))
    }

    /// Whether the thread is still running, and with it the model loaded.
    pub(crate) fn is_alive(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Ends the thread and returns when everything that it owned is freed.
    pub(crate) fn stop(self) {
        drop(self.jobs);
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
fn serve(
    model: &LlamaModel,
    template: &LlamaChatTemplate,
    mut shape: Shape,
    settings: Settings,
    inbox: &Receiver<Job>,
    mut ready: Sender<Result<(), String>>,
) {
    loop {
        let mut engine = match Engine::new(model, template, shape, settings) {
            Ok(engine) => engine,
            Err(reason) => return drop(ready.send(Err(reason))),
        };
        let _nobody_waits = ready.send(Ok(()));
        loop {
            match inbox.recv() {
                Ok(Job::Generate(request, reply)) => {
                    let _nobody_waits = reply.send(engine.generate(&request));
                }
                Ok(Job::Reshape(wanted, reply)) => {
                    shape = wanted;
                    ready = reply;
                    break;
                }
                Err(_) => return,
            }
        }
    }
}
