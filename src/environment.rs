//! The process environment: variables, folders, the clock, random bytes.
//!
//! This is the only module that reads them; everything else gets them as parameters.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use assize_http::redacted;

mod dotenv;

use dotenv::DotEnv;

/// The environment, read once.
#[derive(Debug, Clone)]
pub struct Environment {
    variables: Vec<(String, String)>,
    /// Names of the variables that `.env` sets.
    in_file: Vec<String>,
    /// Lines of `.env` that could not be read.
    pub warnings: Vec<String>,
}

impl Environment {
    /// Reads `.env` in the working directory (variables that are set already win), then the
    /// environment.
    pub fn read() -> Result<Self, String> {
        let file = DotEnv::read(Path::new(".env"))?;
        let mut variables: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let mut in_file = Vec::new();
        for (key, value) in file.variables {
            if !variables.iter().any(|(known, _)| *known == key) {
                in_file.push(key.clone());
                variables.push((key, value));
            }
        }
        Ok(Self {
            variables,
            in_file,
            warnings: file.warnings,
        })
    }

    /// A variable that is set to something.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(known, _)| known == key);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// A variable's name with the file that sets it, for messages: `ASSIZE_N_TIPS in .env`.
    pub fn origin(&self, key: &str) -> String {
        if self.in_file.iter().any(|known| known == key) {
            format!("{key} in .env")
        } else {
            key.to_owned()
        }
    }

    /// Variables that start with `prefix`, without it.
    pub fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&str, &str)> {
        let found = self
            .variables
            .iter()
            .filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, value)));
        found.map(|(key, value)| (key, value.as_str()))
    }

    /// Where things live that can be fetched again, for all projects of this user.
    pub fn cache_dir(&self) -> PathBuf {
        if let Some(folder) = self.get("ASSIZE_CACHE_DIR") {
            return PathBuf::from(folder);
        }
        let base = self
            .get("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        let base = base.or_else(|| Some(Path::new(self.get("HOME")?).join(".cache")));
        base.unwrap_or_else(std::env::temp_dir).join("assize")
    }

    /// Where the embedded engine looks for weights.
    pub fn models_dir(&self) -> PathBuf {
        self.get("ASSIZE_MODELS_DIR")
            .map_or_else(|| self.cache_dir().join("models"), PathBuf::from)
    }

    /// The name of the current user.
    pub fn user(&self) -> Option<String> {
        self.get("USER")
            .or_else(|| self.get("USERNAME"))
            .map(str::to_owned)
    }
}

/// Where what is local to this machine lives, whatever the tracking URI.
pub const STATE_DIR: &str = ".assize";

/// Unix milliseconds.
pub fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// What other Assize processes are told about this one.
pub fn identity() -> assize_pipeline::lock::Identity {
    let public = |word: String| match word.split_once('=') {
        Some((flag, value)) if flag.starts_with('-') => format!("{flag}={}", redacted(value)),
        _ => redacted(&word),
    };
    let words = std::env::args_os().skip(1);
    let words = words.map(|it| public(it.to_string_lossy().into_owned()));
    let command: Vec<String> = std::iter::once("assize".to_owned()).chain(words).collect();
    let folder = std::env::current_dir().unwrap_or_default();
    assize_pipeline::lock::Identity {
        command: command.join(" "),
        folder: folder.display().to_string(),
        clock: now_rfc3339,
    }
}

/// This program's own file.
pub fn program() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}

/// The current time as RFC 3339 in UTC, to the millisecond.
pub fn now_rfc3339() -> String {
    now().rfc3339
}

/// The present moment.
pub fn now() -> assize_pipeline::Now {
    assize_pipeline::Now::at(now_ms())
}

/// Random bytes from the operating system.
pub fn entropy() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}

/// Where the random waits of HTTP clients start. Without randomness they are only less spread.
pub fn jitter_seed() -> u64 {
    entropy().map_or(0, |[a, b, c, d, ..]| {
        u64::from(u32::from_le_bytes([a, b, c, d]))
    })
}
