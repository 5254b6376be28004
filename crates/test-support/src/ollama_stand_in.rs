//! A stand-in for an Ollama host, for tests. It is not Ollama and generates nothing.
//!
//! It speaks the part of Ollama's HTTP that we use, answers with canned texts, and keeps
//! account of what a test wants to prove: every call, every load, and every set of models
//! that was ever in memory together. As on the real host, memory is freed some time after
//! an unload was asked for, another model's request loads that model beside the first one, a
//! changed `num_ctx` reloads, `keep_alive` runs out, and timings that are zero are left out.
//! It can be told to fail in each way that the real one is known to, to take its time, and to be
//! unreachable for a while.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

pub use memory::{REAL_LOAD_NS, RESIDENT_LOAD_NS};

pub use pace::{Pace, Spell};

use memory::{DEFAULT_KEEP_ALIVE, State};

mod memory;
mod pace;
mod wire;

/// How long a test waits for something that must happen, and how often it looks.
const TIMEOUT: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(5);

/// A model that the stand-in has.
#[derive(Debug, Clone)]
pub struct StandInModel {
    /// As the host reports it, tag included.
    pub name: String,
    /// `None` leaves it out of `/api/show`.
    pub parameter_count: Option<u64>,
    /// The rounded label in `details`.
    pub parameter_size: String,
    /// Answers, chosen by seed: the same for the same seed whatever the order of calls.
    pub texts: Vec<String>,
    /// What a thinking model reports beside its answer.
    pub thinking: Option<String>,
    /// Distinguishes weights that have the same name.
    pub build: String,
}

impl StandInModel {
    pub fn new(name: &str, parameter_count: u64, texts: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            parameter_count: Some(parameter_count),
            parameter_size: format!("{:.1}B", parameter_count as f64 / 1e9),
            texts: texts.iter().map(|&text| text.to_owned()).collect(),
            thinking: None,
            build: String::new(),
        }
    }

    pub fn digest(&self) -> String {
        format!("digest-of-{}{}", self.name, self.build)
    }
}

/// As a path: every call that asks for text.
pub const COMPLETIONS: &str = "completions";

/// One request as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub method: String,
    pub path: String,
    pub body: Value,
}

impl Call {
    pub fn is_completion(&self) -> bool {
        let messages = self.body["messages"].as_array();
        self.path == "/api/chat" && messages.is_some_and(|messages| !messages.is_empty())
    }
}

/// A way to fail.
#[derive(Debug, Clone)]
pub enum Fault {
    /// This status with Ollama's `{"error": …}`.
    Status(u16, &'static str),
    /// This status with a body that is not JSON.
    PlainText(u16, &'static str),
    /// Success, half of a stream, and then an error line.
    ErrorLine(&'static str),
    /// The connection ends in the middle of the answer.
    CutMidBody,
    /// The right answer, but late.
    Slow(Duration),
    /// Done at once, as far as memory goes, but the answer comes late.
    DoneButLate(Duration),
}

/// A running stand-in. When it is dropped it is gone as a killed host is: what is in flight
/// gets no answer, and nobody can connect.
#[derive(Debug)]
pub struct OllamaStandIn {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    connections: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
}

impl OllamaStandIn {
    pub fn start(models: Vec<StandInModel>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::new(Mutex::new(State::new(models))),
            connections: Arc::default(),
            stopping: Arc::default(),
        };
        let state = Arc::clone(&server.state);
        let connections = Arc::clone(&server.connections);
        let stopping = Arc::clone(&server.stopping);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stopping.load(Ordering::SeqCst) {
                    break;
                }
                connections.fetch_add(1, Ordering::SeqCst);
                let (state, stopping) = (Arc::clone(&state), Arc::clone(&stopping));
                thread::spawn(move || wire::serve(&stream, &state, &stopping));
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How long a model takes from now on.
    pub fn set_pace(&self, model: &str, pace: Pace) {
        let mut state = self.state.lock().unwrap();
        state.times.paces.insert(model.to_owned(), pace);
    }

    /// The host is gone as a machine without power: what is in flight gets no answer, nobody can
    /// connect, and its memory is empty.
    pub fn go_down(&self) {
        let mut state = self.state.lock().unwrap();
        state.held.clear();
        state.times.outages.push((Instant::now(), None));
    }

    pub fn come_back(&self) {
        let mut state = self.state.lock().unwrap();
        state.times.outages.last_mut().unwrap().1 = Some(Instant::now());
    }

    /// When the host was unreachable.
    pub fn outages(&self) -> Vec<(Instant, Option<Instant>)> {
        self.state.lock().unwrap().times.outages.clone()
    }

    /// Every load and completion that was answered, where the model takes its time.
    pub fn spells(&self) -> Vec<Spell> {
        self.state.lock().unwrap().times.spells.clone()
    }

    /// Fails the next `times` calls to `path`, or all [`COMPLETIONS`].
    pub fn fail(&self, path: &str, times: usize, fault: Fault) {
        let mut state = self.state.lock().unwrap();
        state.faults.push((path.to_owned(), times, fault));
    }

    /// Puts a model into memory as another client would; it needs not be one of ours.
    pub fn preload(&self, name: &str) {
        self.state
            .lock()
            .unwrap()
            .hold(name, "another client's", DEFAULT_KEEP_ALIVE);
    }

    /// Uses a resident model as another client would who keeps it for longer.
    pub fn renew_as_another_client(&self, name: &str, keep_alive: Duration) {
        self.state.lock().unwrap().renew(name, keep_alive);
    }

    /// Answers this many more completions and keeps the others waiting until [`Self::resume`].
    pub fn pause_after(&self, completions: usize) {
        self.state.lock().unwrap().admit = Some(completions);
    }

    pub fn resume(&self) {
        self.state.lock().unwrap().admit = None;
    }

    /// Waits until so many completions have been asked for since the start.
    pub fn wait_for_completions(&self, count: usize) {
        let deadline = Instant::now() + TIMEOUT;
        while self.completions().len() < count {
            assert!(Instant::now() < deadline, "{:#?}", self.calls());
            thread::sleep(POLL);
        }
    }

    /// The calls that asked for text, as opposed to loading and unloading.
    pub fn completions(&self) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(Call::is_completion);
        calls
    }

    /// The most completions that were ever in flight at once.
    pub fn most_in_flight(&self) -> usize {
        self.state.lock().unwrap().most_in_flight
    }

    /// How many looks at `/api/ps` still see a model that was told to unload.
    pub fn free_after_looks(&self, looks: u32) {
        self.state.lock().unwrap().looks_until_freed = looks;
    }

    /// From now on nothing is ever freed, as on some GPUs.
    pub fn never_free(&self) {
        self.free_after_looks(u32::MAX);
    }

    pub fn calls(&self) -> Vec<Call> {
        self.state.lock().unwrap().calls.clone()
    }

    pub fn calls_to(&self, path: &str) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(|call| call.path == path);
        calls
    }

    /// Every load of weights, reloads included, in order.
    pub fn loads(&self) -> Vec<String> {
        self.state.lock().unwrap().loads.clone()
    }

    /// Every set of models that was in memory at one time, in order of appearance.
    pub fn held_together(&self) -> Vec<BTreeSet<String>> {
        self.state.lock().unwrap().held_together.clone()
    }

    /// The most models that were ever in memory at once.
    pub fn most_held_at_once(&self) -> usize {
        self.held_together()
            .iter()
            .map(BTreeSet::len)
            .max()
            .unwrap_or(0)
    }

    /// What is in memory now, including what is being freed.
    pub fn held_now(&self) -> Vec<String> {
        let mut state = self.state.lock().unwrap();
        state.expire();
        state.held.keys().cloned().collect()
    }

    /// How many connections clients have opened.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for OllamaStandIn {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
    }
}
