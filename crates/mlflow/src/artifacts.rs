//! A run's artifacts, stored in one of three ways.
//!
//! 1. If the run's artifact URI is `mlflow-artifacts:`, through the server's artifact proxy.
//! 2. Otherwise through the server's upload endpoint, which writes to a disk that only the
//!    server can access.
//! 3. Otherwise as tags `artifact:PATH`, split into numbered parts if they are long.
//!
//! A server does not report which of these works. So the first artifact of an experiment is
//! written and read back, and the result is cached for the others. Reading supports all three,
//! whichever client wrote the artifact.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use assize_domain::hash::sha256_hex;
use assize_store::{Result, StoreError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::address::encoded;
use crate::rest::Rest;
use crate::wire::{FileShape, FilesAnswer, Tracked};

/// The maximum number of characters of a tag that every server accepts.
const PART: usize = 4_900;
/// The maximum number of tags that are written in one request.
const PARTS_AT_ONCE: usize = 40;
const PREFIX: &str = "artifact:";
/// The first word of a tag that holds the number of parts and their hash.
const IN_PARTS: &str = "assize-parts";
/// The end of that tag if the file is not text.
const BASE64: &str = " base64";
/// The largest file that the upload endpoint accepts.
const MAX_UPLOAD_BYTES: usize = 10 << 20;

/// How artifacts are stored on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Proxy,
    Upload,
    Tags,
}

/// The storage method of each experiment.
#[derive(Debug, Default)]
pub(crate) struct Artifacts {
    methods: Mutex<HashMap<String, Method>>,
}

/// Writes tags of a run.
pub(crate) type TagsSet<'a> = &'a dyn Fn(&[(String, String)]) -> Result<()>;

impl Artifacts {
    /// Stores a file with a run, replacing an existing one.
    pub fn put(
        &self,
        rest: &Rest,
        run: &Tracked,
        path: &str,
        content: &[u8],
        tags_set: TagsSet<'_>,
    ) -> Result<()> {
        let method = self.method(rest, run, path, content)?;
        let fits_upload = !content.is_empty() && content.len() <= MAX_UPLOAD_BYTES;
        let answer = match method {
            Method::Proxy => rest.bytes_put("PUT", &proxy_path(run, path), content)?,
            Method::Upload if fits_upload => {
                rest.bytes_put("POST", &upload_path(run, path), content)?
            }
            Method::Upload | Method::Tags => return put_tags(path, content, tags_set),
        };
        let refused = |refusal| rest.refused(&format!("{path} of run {}", run.run_id), &refusal);
        answer.map(|_| ()).map_err(refused)
    }

    /// The method that works for a run's experiment, determined once.
    fn method(&self, rest: &Rest, run: &Tracked, path: &str, content: &[u8]) -> Result<Method> {
        // Held during the probe, so that only one thread probes.
        let mut methods = self.methods.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(method) = methods.get(&run.experiment_id) {
            return Ok(*method);
        }
        let is_too_large = !is_proxied(run) && content.len() > MAX_UPLOAD_BYTES;
        if content.is_empty() || is_too_large {
            // An empty file, or one that no server accepts, is not a meaningful probe.
            return Ok(if is_proxied(run) {
                Method::Proxy
            } else {
                Method::Tags
            });
        }
        let put_path = if is_proxied(run) {
            (Method::Proxy, "PUT", proxy_path(run, path))
        } else {
            (Method::Upload, "POST", upload_path(run, path))
        };
        let (method, verb, put_path) = put_path;
        let took = rest.probe(verb, &put_path, Some(content))?.is_some();
        let works =
            took && rest.probe("GET", &read_path(run, path), None)?.as_deref() == Some(content);
        let method = if works { method } else { Method::Tags };
        methods.insert(run.experiment_id.clone(), method);
        Ok(method)
    }

    /// The content of a file; `None` if the run has no such file.
    #[expect(clippy::unused_self, reason = "the counterpart of put")]
    pub fn get(&self, rest: &Rest, run: &Tracked, path: &str) -> Result<Option<Vec<u8>>> {
        if let Some(found) = read_tags(run, path)? {
            return Ok(Some(found));
        }
        let place = read_path(run, path);
        if !is_proxied(run) && tag_paths(run).next().is_some() {
            // Files of this run are stored as tags because neither endpoint works, so an error
            // of the endpoint does not mean that this file is damaged.
            return rest.probe("GET", &place, None);
        }
        match rest.bytes_get(&place)? {
            Ok(content) => Ok(Some(content)),
            Err(refusal) if refusal.is_missing() || refusal.status == 400 => Ok(None),
            Err(refusal) => Err(rest.refused(&format!("{path} of run {}", run.run_id), &refusal)),
        }
    }

    /// The content of a text file.
    pub fn text(&self, rest: &Rest, run: &Tracked, path: &str) -> Result<Option<String>> {
        let Some(content) = self.get(rest, run, path)? else {
            return Ok(None);
        };
        let text = String::from_utf8(content);
        Ok(Some(text.map_err(|error| corrupt(run, path, &error))?))
    }

    /// The paths of a run's files, in order.
    pub fn list(&self, rest: &Rest, run: &Tracked) -> Result<Vec<String>> {
        let files = self.files(rest, run)?.into_iter();
        Ok(files.map(|(path, _)| path).collect())
    }

    /// The paths of a run's files with their sizes, in order.
    #[expect(clippy::unused_self, reason = "the counterpart of put")]
    pub fn files(&self, rest: &Rest, run: &Tracked) -> Result<Vec<(String, u64)>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for file in listed(rest, run, &folder)? {
                if file.is_dir {
                    folders.push(file.path);
                } else {
                    let size = file.file_size.unwrap_or(0);
                    found.insert(file.path, u64::try_from(size).unwrap_or(0));
                }
            }
        }
        for path in tag_paths(run) {
            let size = read_tags(run, path)?.map_or(0, |content| content.len());
            found.insert(path.to_owned(), size as u64);
        }
        Ok(found.into_iter().collect())
    }
}

/// The entries of a folder of a run's files; empty if the server cannot list them.
pub(crate) fn listed(rest: &Rest, run: &Tracked, folder: &str) -> Result<Vec<FileShape>> {
    let path = format!(
        "/api/2.0/mlflow/artifacts/list?run_id={}&path={}",
        run.run_id,
        encoded(folder)
    );
    let answer = rest.probe("GET", &path, None)?;
    let parsed = answer.and_then(|bytes| serde_json::from_slice::<FilesAnswer>(&bytes).ok());
    Ok(parsed.map(|it| it.files).unwrap_or_default())
}

pub(crate) fn corrupt(run: &Tracked, what: &str, reason: &dyn ToString) -> StoreError {
    StoreError::Corrupt {
        run_id: run.run_id.clone(),
        what: what.to_owned(),
        reason: reason.to_string(),
    }
}

fn is_proxied(run: &Tracked) -> bool {
    run.artifact_uri.starts_with("mlflow-artifacts:")
}

fn proxy_path(run: &Tracked, path: &str) -> String {
    let place = run.artifact_uri.trim_start_matches("mlflow-artifacts:");
    // `mlflow-artifacts://HOST/PATH` names a host, which is this server.
    let place = match place.strip_prefix("//") {
        Some(rest) => rest.split_once('/').map_or("", |(_, path)| path),
        None => place.trim_start_matches('/'),
    };
    let place = place.trim_end_matches('/');
    format!(
        "/api/2.0/mlflow-artifacts/artifacts/{}/{}",
        encoded(place),
        encoded(path)
    )
}

fn upload_path(run: &Tracked, path: &str) -> String {
    format!(
        "/ajax-api/2.0/mlflow/upload-artifact?run_uuid={0}&run_id={0}&path={1}",
        run.run_id,
        encoded(path)
    )
}

fn read_path(run: &Tracked, path: &str) -> String {
    if is_proxied(run) {
        return proxy_path(run, path);
    }
    format!(
        "/get-artifact?run_uuid={0}&run_id={0}&path={1}",
        run.run_id,
        encoded(path)
    )
}

fn put_tags(path: &str, content: &[u8], tags_set: TagsSet<'_>) -> Result<()> {
    let name = format!("{PREFIX}{path}");
    // A tag can hold only text.
    let (text, code) = match std::str::from_utf8(content) {
        Ok(text) => (Cow::Borrowed(text), ""),
        Err(_) => (Cow::Owned(STANDARD.encode(content)), BASE64),
    };
    // A text that starts like a list of parts is stored in parts, so that it is not read as one.
    if code.is_empty() && text.chars().count() <= PART && !text.starts_with(IN_PARTS) {
        return tags_set(&[(name, text.into_owned())]);
    }
    let characters: Vec<char> = text.chars().collect();
    let parts: Vec<(String, String)> = characters
        .chunks(PART)
        .enumerate()
        .map(|(number, part)| (format!("{name}/{}", number + 1), part.iter().collect()))
        .collect();
    for some in parts.chunks(PARTS_AT_ONCE) {
        tags_set(some)?;
    }
    let hash = sha256_hex(content);
    tags_set(&[(
        name,
        format!("{IN_PARTS} {} sha256 {hash}{code}", parts.len()),
    )])
}

fn read_tags(run: &Tracked, path: &str) -> Result<Option<Vec<u8>>> {
    let name = format!("{PREFIX}{path}");
    let Some(value) = run.tag(&name) else {
        return Ok(None);
    };
    let mut words = value.split_whitespace();
    let (first, count, _, hash) = (words.next(), words.next(), words.next(), words.next());
    let (Some(IN_PARTS), Some(count), Some(hash)) =
        (first, count.and_then(|it| it.parse().ok()), hash)
    else {
        return Ok(Some(value.as_bytes().to_vec()));
    };
    let mut text = String::new();
    for number in 1..=count {
        let number: usize = number;
        let part = run.tag(&format!("{name}/{number}"));
        text.push_str(
            part.ok_or_else(|| {
                corrupt(run, path, &format!("part {number} of {count} is missing"))
            })?,
        );
    }
    let content = if value.ends_with(BASE64) {
        let decoded = STANDARD.decode(&text);
        decoded.map_err(|error| corrupt(run, path, &error))?
    } else {
        text.into_bytes()
    };
    if sha256_hex(&content) != hash {
        let reason = "its parts do not match the stored hash";
        return Err(corrupt(run, path, &reason));
    }
    Ok(Some(content))
}

/// The paths of the files that are stored as tags of a run.
pub(crate) fn tag_paths(run: &Tracked) -> impl Iterator<Item = &str> {
    let named = run.tags.keys().filter_map(|key| key.strip_prefix(PREFIX));
    named.filter(|path| !is_part(&run.tags, path))
}

fn is_part(tags: &BTreeMap<String, String>, path: &str) -> bool {
    let Some((whole, number)) = path.rsplit_once('/') else {
        return false;
    };
    number.parse::<usize>().is_ok()
        && tags
            .get(&format!("{PREFIX}{whole}"))
            .is_some_and(|value| value.starts_with(IN_PARTS))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use super::*;

    fn run(artifact_uri: &str) -> Tracked {
        serde_json::from_value(json!({"info": {"run_id": "r", "artifact_uri": artifact_uri}}))
            .unwrap()
    }

    #[test]
    fn tags_hold_long_files_in_parts_and_notice_a_missing_one() {
        let short = "short \u{e9}".to_owned();
        let long = "\u{1f600}".repeat(PART * 2 + 1);
        let like_parts = format!("{IN_PARTS} 3 sha256 x");
        for (content, tags) in [
            (short.into_bytes(), 1),
            (long.into_bytes(), 4),
            (like_parts.into_bytes(), 2),
            (Vec::new(), 1),
            (vec![0, 159, 146, 150], 2),
        ] {
            let kept = RefCell::new(BTreeMap::new());
            let set = |tags: &[(String, String)]| {
                kept.borrow_mut().extend(tags.iter().cloned());
                Ok(())
            };
            put_tags("a/b.json", &content, &set).unwrap();
            let mut run = run("");
            run.tags = kept.into_inner();
            assert_eq!(run.tags.len(), tags);
            assert!(run.tags.values().all(|value| value.chars().count() <= PART));
            assert_eq!(read_tags(&run, "a/b.json").unwrap().unwrap(), content);
            assert_eq!(tag_paths(&run).collect::<Vec<_>>(), ["a/b.json"]);
            assert!(read_tags(&run, "other").unwrap().is_none());
            if run.tags.remove("artifact:a/b.json/1").is_some() {
                let error = read_tags(&run, "a/b.json").unwrap_err().to_string();
                assert!(error.contains("part 1"), "{error}");
            }
        }
    }

    #[test]
    fn the_proxy_s_paths_follow_the_artifact_uri() {
        let end = "/api/2.0/mlflow-artifacts/artifacts/1/r/artifacts/x%20y.json";
        for uri in [
            "mlflow-artifacts:/1/r/artifacts",
            "mlflow-artifacts://h:1/1/r/artifacts/",
        ] {
            assert_eq!(read_path(&run(uri), "x y.json"), end);
        }
        assert!(read_path(&run("file:///x"), "p").starts_with("/get-artifact?"));
    }
}
