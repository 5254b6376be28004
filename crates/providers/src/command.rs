//! Any program as a model: one line of JSON for a request, one line for its answer.
//!
//! The program is started when the first request comes and stays until the provider is dropped. It
//! reads requests from stdin and answers each on stdout, in any language and without a library;
//! docs/providers.md has the protocol and an example of 15 lines.
//!
//! - It is started directly, never through a shell.
//! - Requests go one at a time: the program needs no concurrency.
//! - A program that ends, prints something else or answers too late fails the request, and is
//!   ended; the next request starts it again. The end of what it wrote to stderr is in the error.
//! - It holds weights that we know nothing of, so there is no host to guard.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use assize_domain::hash::sha256_fields;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{Candidate, Completion, ModelInfo, Provider, ProviderError, Request, Result};

/// The longest line that a program may print.
const MOST_BYTES: u64 = 16 << 20;
/// How much of stderr is kept, and how much of it an error quotes.
const MOST_KEPT: usize = 8 << 10;
const MOST_QUOTED: usize = 300;
/// How long a program may take to end after its stdin was closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// A program that is a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CommandModel {
    /// `command:NAME`
    pub name: String,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Where the program knows how large its model is.
    pub parameters: Option<u64>,
    /// Distinguishes versions of the program; part of every cell's identity.
    pub version: String,
}

/// Programs by name.
#[derive(Debug)]
pub struct CommandProvider {
    models: Vec<(CommandModel, Mutex<Option<Running>>)>,
    timeout: Duration,
}

#[derive(Debug)]
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<std::io::Result<String>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    next_id: u64,
}

#[derive(Debug, Deserialize)]
struct Answer {
    id: u64,
    text: Option<String>,
    error: Option<String>,
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    thinking_tokens: u64,
    #[serde(default)]
    truncated: bool,
    cost_usd: Option<f64>,
}

impl CommandProvider {
    pub fn new(models: Vec<CommandModel>, timeout: Duration) -> Self {
        let models = models.into_iter();
        Self {
            models: models.map(|it| (it, Mutex::new(None))).collect(),
            timeout,
        }
    }

    fn find(&self, name: &str) -> Result<&(CommandModel, Mutex<Option<Running>>)> {
        let found = self.models.iter().find(|(model, _)| model.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.models.iter().map(|it| it.0.name.as_str()).collect();
            let known = match known.join(", ") {
                known if known.is_empty() => String::new(),
                known => format!(" (it has {known})"),
            };
            ProviderError::ModelNotFound {
                host: "the settings file".to_owned(),
                model: format!("command:{name}"),
                remedy: format!(
                    "add [command.{name}] with run = [\"PROGRAM\", \"ARGUMENT\"]{known}"
                ),
            }
        })
    }

    fn complete(&self, name: &str, request: &Request, candidate: &Candidate) -> Result<Completion> {
        let (model, slot) = self.find(name)?;
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = match slot.take() {
            Some(running) => running,
            None => Running::start(model)?,
        };
        let answered = running.ask(model, request, candidate, self.timeout);
        match answered {
            // Only a program that keeps to the protocol is asked again.
            Ok(answer) => {
                *slot = Some(running);
                answer
            }
            Err(Broken::TimedOut) => {
                running.end();
                Err(ProviderError::Timeout {
                    host: format!("command:{name}"),
                    timeout_s: self.timeout.as_secs(),
                })
            }
            Err(Broken::Because(reason)) => {
                let words = running.end();
                Err(failed(model, &format!("{reason}{words}"), false))
            }
        }
    }
}

fn failed(model: &CommandModel, reason: &str, is_gone: bool) -> ProviderError {
    ProviderError::Command {
        name: model.name.clone(),
        reason: reason.to_owned(),
        is_gone,
    }
}

/// Why a program cannot be asked again.
enum Broken {
    TimedOut,
    Because(String),
}

impl Running {
    fn start(model: &CommandModel) -> Result<Self> {
        let Some((program, arguments)) = model.run.split_first() else {
            return Err(failed(model, "'run' is empty: name its program", true));
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C ends Assize, which lets the program finish what is in flight.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| {
            failed(
                model,
                &format!("{program} cannot be started: {error}"),
                true,
            )
        })?;
        let (sender, lines) = sync_channel(1);
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stdout);
                loop {
                    let mut line = Vec::new();
                    let read = reader
                        .by_ref()
                        .take(MOST_BYTES)
                        .read_until(b'\n', &mut line);
                    let line = match read {
                        Ok(0) => return,
                        Ok(_) => Ok(String::from_utf8_lossy(&line).into_owned()),
                        Err(error) => Err(error),
                    };
                    let is_last = line.is_err();
                    if sender.send(line).is_err() || is_last {
                        return;
                    }
                }
            });
        }
        let stderr = Arc::new(Mutex::new(Vec::new()));
        if let Some(mut pipe) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            std::thread::spawn(move || {
                let mut buffer = [0; 1024];
                while let Ok(read @ 1..) = pipe.read(&mut buffer) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend_from_slice(&buffer[..read]);
                    let extra = kept.len().saturating_sub(MOST_KEPT);
                    kept.drain(..extra);
                }
            });
        }
        Ok(Self {
            stdin: child.stdin.take(),
            child,
            lines,
            stderr,
            next_id: 1,
        })
    }

    /// The inner result is what the program answered, the outer whether it keeps to the protocol.
    fn ask(
        &mut self,
        model: &CommandModel,
        request: &Request,
        candidate: &Candidate,
        timeout: Duration,
    ) -> std::result::Result<Result<Completion>, Broken> {
        let id = self.next_id;
        self.next_id += 1;
        let line = format!("{}\n", body(id, model, request, candidate));
        let started = Instant::now();
        let written = self.stdin.as_mut().map(|it| {
            it.write_all(line.as_bytes())?;
            it.flush()
        });
        if let Some(Err(_)) | None = written {
            return Err(Broken::Because(self.how_it_ended()));
        }
        let line = match self.lines.recv_timeout(timeout) {
            Ok(Ok(line)) => line,
            Ok(Err(error)) => {
                return Err(Broken::Because(format!(
                    "its output cannot be read: {error}"
                )));
            }
            Err(RecvTimeoutError::Timeout) => return Err(Broken::TimedOut),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Broken::Because(self.how_it_ended()));
            }
        };
        let answer: Answer = serde_json::from_str(&line).map_err(|error| {
            let shown: String = line.trim().chars().take(120).collect();
            Broken::Because(format!(
                "it printed a line that is no answer ({error}): {shown}"
            ))
        })?;
        if answer.id != id {
            let reason = format!("it answered the request {} when {id} was asked", answer.id);
            return Err(Broken::Because(reason));
        }
        Ok(match (answer.text, answer.error) {
            (Some(text), None) => Ok(Completion {
                text,
                prompt_tokens: answer.prompt_tokens,
                completion_tokens: answer.completion_tokens,
                thinking_tokens: answer.thinking_tokens,
                latency_ms: started.elapsed().as_secs_f64() * 1e3,
                truncated: answer.truncated,
                cost_usd: answer.cost_usd.filter(|it| it.is_finite() && *it >= 0.0),
                ..Completion::default()
            }),
            (_, Some(error)) => Err(failed(model, &error, false)),
            (None, None) => Err(failed(
                model,
                "its answer has neither text nor error",
                false,
            )),
        })
    }

    fn how_it_ended(&mut self) -> String {
        // The pipe closes a moment before the program is gone.
        match self.wait() {
            Some(status) => format!("the program ended with {status}"),
            None => "the program closed its output".to_owned(),
        }
    }

    fn wait(&mut self) -> Option<std::process::ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return None,
            }
        }
    }

    /// Ends the program, and returns what it said last.
    fn end(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let text = text.trim();
        let skipped = text.chars().count().saturating_sub(MOST_QUOTED);
        let text: String = text.chars().skip(skipped).collect();
        if text.is_empty() {
            String::new()
        } else {
            format!("; stderr: {text}")
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if self.wait().is_none() {
            self.end();
        }
    }
}

/// One request.
fn body(id: u64, model: &CommandModel, request: &Request, candidate: &Candidate) -> Value {
    let messages: Vec<Value> = candidate
        .messages
        .iter()
        .map(|it| json!({"role": it.role.as_str(), "content": it.content}))
        .collect();
    let sampling = &request.sampling;
    let mut options = Map::new();
    options.insert("temperature".to_owned(), json!(sampling.temperature));
    options.insert("max_tokens".to_owned(), json!(sampling.max_tokens));
    options.insert("num_ctx".to_owned(), json!(sampling.num_ctx));
    options.extend(sampling.model_options.iter().cloned());
    let mut body = json!({
        "id": id,
        "model": model.name,
        "messages": messages,
        "seed": candidate.seed,
        "options": options,
    });
    if let Some(schema) = &sampling.json_schema {
        body["schema"] = schema.clone();
    }
    if !request.tools.is_empty() {
        body["tools"] = json!(request.tools);
    }
    if !request.images.is_empty() {
        let images = request.images.iter();
        let images = images.map(|it| json!({"media_type": it.media_type, "data": it.base64}));
        body["images"] = images.collect();
    }
    body
}

impl Provider for CommandProvider {
    /// A program that does not give the size of its model is its owner's to fit into memory.
    fn is_hosted(&self) -> bool {
        true
    }

    fn host(&self) -> Option<String> {
        None
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.models.iter().map(|it| it.0.name.clone()).collect())
    }

    fn describe(&self, model: &str) -> Result<ModelInfo> {
        let (model, _) = self.find(model)?;
        let run = model.run.join(" ");
        Ok(ModelInfo {
            parameter_count: model.parameters,
            digest: sha256_fields(&[
                ("command", &model.name),
                ("run", &run),
                ("version", &model.version),
            ]),
            provenance: format!(
                "the program {}",
                model.run.first().map_or("", String::as_str)
            ),
            size_bytes: None,
            context_length: None,
        })
    }

    fn generate(&self, model: &str, request: &Request) -> Vec<Result<Completion>> {
        let candidates = request.candidates.iter();
        candidates
            .map(|candidate| self.complete(model, request, candidate))
            .collect()
    }

    /// Closes the program's input, after which it ends.
    fn unload(&self, model: &str) -> Result<()> {
        let (_, slot) = self.find(model)?;
        let running = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(running);
        Ok(())
    }
}
