//! A real `ollama serve` that belongs to one test, and a look at what it holds in memory.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use assize_test_support::limits::free_port;
use serde_json::{Value, json};

use super::wait_until;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A running host; it ends, with what it started, when it is dropped.
pub struct Server {
    child: Child,
    binary: PathBuf,
    address: String,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts the `ollama` on the PATH; `None` where there is none.
    pub fn start() -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let mut places = std::env::split_paths(&path).map(|folder| folder.join("ollama"));
        let binary = places.find(|binary| binary.is_file())?;
        // A port that is free now may be somebody else's a moment later.
        let started = (0..5).find_map(|_| Self::start_on_a_free_port(&binary));
        Some(started.expect("ollama serve ends at once, five times"))
    }

    fn start_on_a_free_port(binary: &Path) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let address = format!("127.0.0.1:{}", free_port());
        let log = File::create(folder.path().join("serve.log")).expect("a log");
        let child = command(binary, &address, &folder)
            .arg("serve")
            .stdout(Stdio::from(log.try_clone().expect("a log")))
            .stderr(Stdio::from(log))
            .spawn()
            .expect("ollama starts");
        let mut server = Self {
            child,
            binary: binary.to_owned(),
            address,
            folder,
        };
        let mut has_ended = false;
        wait_until("the host answers", || {
            has_ended = matches!(server.child.try_wait(), Ok(Some(_)));
            has_ended || server.ask("GET", "/api/version", None).is_some()
        });
        (!has_ended).then_some(server)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Makes a model from a Modelfile.
    pub fn create(&self, name: &str, modelfile: &str) {
        let path = self.folder.path().join("Modelfile");
        std::fs::write(&path, modelfile).expect("a Modelfile");
        let made = command(&self.binary, &self.address, &self.folder)
            .args(["create", name, "-f"])
            .arg(&path)
            .output()
            .expect("ollama runs");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(
            made.status.success(),
            "ollama create {name}: {said}\n{}",
            self.log()
        );
    }

    /// Loads a model as another client would.
    pub fn load_as_another_client(&self, model: &str) {
        let body = json!({"model": model, "prompt": "", "stream": false});
        let loaded = self.ask("POST", "/api/generate", Some(&body));
        assert!(
            loaded.is_some_and(|answer| answer["done"] == true),
            "{}",
            self.log()
        );
    }

    /// What is in memory now, by name.
    pub fn resident(&self) -> Vec<String> {
        let list = self.ask("GET", "/api/ps", None).expect("the host answers");
        let models = list["models"].as_array().cloned().unwrap_or_default();
        models
            .iter()
            .filter_map(|model| model["name"].as_str().map(str::to_owned))
            .collect()
    }

    /// Does `work` and tells what was in memory meanwhile.
    pub fn watch<T>(&self, work: impl FnOnce() -> T) -> (T, Seen) {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut seen = vec![self.resident()];
                while !done.load(Ordering::SeqCst) {
                    let now = self.resident();
                    if seen.last() != Some(&now) {
                        seen.push(now);
                    }
                    thread::sleep(LOOK_EVERY);
                }
                Seen(seen)
            });
            let guard = SetOnDrop(&done);
            let result = work();
            drop(guard);
            (result, watcher.join().expect("a watcher"))
        })
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("serve.log")).unwrap_or_default()
    }

    /// One request. HTTP/1.0, so that the answer ends where the connection does.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = writeln!(std::io::stderr(), "--- what the host said\n{}", self.log());
        }
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Asked kindly it ends its runners too; they would outlive a kill.
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        for _ in 0..200 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(binary: &Path, address: &str, folder: &tempfile::TempDir) -> Command {
    let mut command = Command::new(binary);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder.path())
        .env("OLLAMA_HOST", address)
        .env("OLLAMA_MODELS", folder.path().join("models"))
        .stdin(Stdio::null());
    command
}

/// Lets the watcher end although the work panicked.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What was in memory, one entry for each change.
#[derive(Debug)]
pub struct Seen(Vec<Vec<String>>);

impl Seen {
    pub fn most_at_once(&self) -> usize {
        self.0.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// How many times a model came into memory.
    pub fn arrivals(&self, model: &str) -> usize {
        let held = |state: &Vec<String>| state.iter().any(|name| name == model);
        self.0
            .windows(2)
            .filter(|pair| !held(&pair[0]) && held(&pair[1]))
            .count()
    }
}
