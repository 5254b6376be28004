//! A real LiteLLM proxy that ends with its test. `scripts/litellm.sh` finds or installs it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::limits::{Slot, free_port, heavyweight};
use crate::{Outcome, Scratch};

/// The key that the proxy accepts.
pub const KEY: &str = "sk-ci-1234";

/// A proxy of one test.
#[derive(Debug)]
pub struct Proxy {
    child: Child,
    pub url: String,
    _slot: Slot,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// Starts it with this configuration (YAML); `Err` says why there is none.
    pub fn start(scratch: &Scratch, config: &str) -> Result<Self, String> {
        let found = Command::new(crate::root().join("scripts/litellm.sh"))
            .output()
            .map_err(|error| error.to_string())?;
        // Its path, or the reason.
        let program = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        if !found.status.success() {
            return Err(program);
        }
        let slot = heavyweight();
        scratch.write("litellm.yaml", config);
        let port = free_port();
        let log = std::fs::File::create(scratch.file("litellm.log")).expect("a log");
        let child = Command::new(program)
            .args(["--config", "litellm.yaml", "--host", "127.0.0.1", "--port"])
            .arg(port.to_string())
            .current_dir(scratch.path())
            .env("LITELLM_MASTER_KEY", KEY)
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut proxy = Self {
            child,
            url: format!("http://127.0.0.1:{port}/v1"),
            _slot: slot,
        };
        let deadline = Instant::now() + Duration::from_mins(3);
        while !is_live(port) {
            let ended = proxy.child.try_wait().ok().flatten().is_some();
            if ended || Instant::now() > deadline {
                let log = scratch.read("litellm.log");
                return Err(format!("it does not start:\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(proxy)
    }
}

/// Runs the binary with a key for the proxy, or without one.
pub fn run(scratch: &Scratch, line: &str, key: Option<&str>) -> Outcome {
    let mut command = scratch.command(line);
    if let Some(key) = key {
        command.env("OPENAI_API_KEY", key);
    }
    Outcome::of(&command.output().expect("the binary runs"))
}

fn is_live(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"GET /health/liveliness HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.contains(" 200 "))
    };
    ask().unwrap_or(false)
}
