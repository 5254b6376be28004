//! The verdict files of a run, and which of them count.
//!
//! A file is an immutable artifact. A write-once param of the run names it and holds its hash. If a
//! sitting is applied as a whole, the param also contains the commit id, and the file counts once
//! the sitting's run has the mark of that commit. An interrupted attempt therefore leaves files
//! that do not count, and the next attempt writes new ones.
//!
//! A tag repeats the content of a short file, because searches return tags and not files.
//!
//! Runs that another tool judged, and runs of an embedded store behind `assize serve`, have files
//! without params. Those are found by listing artifacts.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use assize_domain::candidate::Candidate;
use assize_domain::hash::sha256_hex;
use assize_domain::rubric::Rubric;
use assize_domain::run::{RunStatus, artifact, tag};
use assize_domain::verdict::VerdictFile;
use assize_store::Result;
use serde::Deserialize;

use crate::artifacts::{corrupt, listed, tag_paths};
use crate::wire::Tracked;
use crate::{MlflowStore, lock};

/// The size of the cache of texts.
const TEXTS: usize = 16_384;
const PARAM: &str = "verdict.";
/// The prefix of the tags that repeat verdict files, and their longest value: some servers have
/// columns of 5,000 characters.
pub(crate) const TAG: &str = "verdict:";
const LONGEST_TAG: usize = 4_900;
/// The prefix of a commit mark on the sitting's run.
pub(crate) const COMMIT: &str = "commit.";

/// A verdict file of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    path: String,
    sitting: String,
    part: u32,
    sha256: Option<String>,
    commit: Option<String>,
}

/// The param that names a verdict file.
pub(crate) fn param_of(path: &str) -> String {
    let stem = path.strip_prefix(artifact::VERDICTS).unwrap_or(path);
    format!("{PARAM}{}", stem.strip_suffix(".json").unwrap_or(stem))
}

/// The tag that repeats the content of a verdict file, unless it is too long. Searches return tags,
/// so a board needs no request for each run; the param's hash shows whether the tag was changed.
pub(crate) fn verdict_tag(path: &str, text: String) -> Option<(String, String)> {
    let is_short = text.chars().count() <= LONGEST_TAG;
    is_short.then(|| (tag_name(path), text))
}

fn tag_name(path: &str) -> String {
    let stem = path.strip_prefix(artifact::VERDICTS).unwrap_or(path);
    format!("{TAG}{}", stem.strip_suffix(".json").unwrap_or(stem))
}

/// The content of a verdict file as a tag of its run repeats it, if that has this hash.
fn from_tag(run: &Tracked, file: &Named) -> Option<String> {
    let text = run.tag(&tag_name(&file.path))?;
    let hash = sha256_hex(text.as_bytes());
    (file.sha256.as_ref() == Some(&hash)).then(|| text.to_owned())
}

/// Whether a param of the run names this verdict file, whether it counts or not.
pub(crate) fn is_named(run: &Tracked, path: &str) -> bool {
    run.params.contains_key(&param_of(path))
}

/// The paths of all verdict files that a run's params name, whether they count or not.
pub(crate) fn named_paths(run: &Tracked) -> Vec<String> {
    named(run).into_iter().map(|it| it.path).collect()
}

/// Whether a run has a verdict file of this sitting.
pub(crate) fn has_judged(run: &Tracked, sitting: &str) -> bool {
    named(run).iter().any(|it| it.sitting == sitting)
}

fn named(run: &Tracked) -> Vec<Named> {
    let params = run.params.iter();
    params
        .filter_map(|(key, value)| {
            let mut words = value.split_whitespace().map(str::to_owned);
            Some(Named {
                sha256: words.next(),
                commit: words.next(),
                ..from_stem(key.strip_prefix(PARAM)?)
            })
        })
        .collect()
}

fn from_stem(stem: &str) -> Named {
    let numbered = stem
        .rsplit_once('.')
        .and_then(|(sitting, part)| Some((sitting, part.parse().ok()?)));
    let (sitting, part) = numbered.unwrap_or((stem, 1));
    Named {
        path: format!("{}{stem}.json", artifact::VERDICTS),
        sitting: sitting.to_owned(),
        part,
        sha256: None,
        commit: None,
    }
}

/// A cache of the commit marks of sittings.
pub(crate) struct Marks<'a> {
    store: &'a MlflowStore,
    known: Mutex<HashMap<String, BTreeSet<String>>>,
}

impl<'a> Marks<'a> {
    pub fn new(store: &'a MlflowStore) -> Self {
        Self {
            store,
            known: Mutex::default(),
        }
    }

    /// Whether this commit of a sitting was completed.
    fn has(&self, sitting: &str, commit: &str) -> Result<bool> {
        if let Some(marks) = lock(&self.known).get(sitting) {
            return Ok(marks.contains(commit));
        }
        let run = self.store.sitting_run(sitting)?;
        let params = run.iter().flat_map(|run| run.params.keys());
        let marks: BTreeSet<String> = params
            .filter_map(|key| key.strip_prefix(COMMIT))
            .map(str::to_owned)
            .collect();
        let has = marks.contains(commit);
        lock(&self.known).insert(sitting.to_owned(), marks);
        Ok(has)
    }
}

impl MlflowStore {
    /// The contents of a run's committed verdict files, in the order of their parts.
    pub(crate) fn verdict_texts(
        &self,
        run: &Tracked,
        marks: &Marks<'_>,
    ) -> Result<Vec<(String, String)>> {
        let mut files = named(run);
        let judged = |key: &str| run.tag(key) == Some("false");
        let looks_judged = judged(tag::JUDGE_PENDING)
            || judged(tag::AUTO_PENDING)
            || run.metrics.keys().any(|key| key.ends_with(".composite"));
        if looks_judged && (files.is_empty() || self.is_assize()?) {
            for path in self.verdict_paths(run)? {
                if !files.iter().any(|it| it.path == path) {
                    let stem = path.strip_prefix(artifact::VERDICTS).unwrap_or(&path);
                    files.push(from_stem(stem.strip_suffix(".json").unwrap_or(stem)));
                }
            }
        }
        files.sort_by(|a, b| (&a.sitting, a.part).cmp(&(&b.sitting, b.part)));
        let mut texts = Vec::with_capacity(files.len());
        for file in files {
            if let Some(commit) = &file.commit
                && !marks.has(&file.sitting, commit)?
            {
                continue;
            }
            if let Some(text) = from_tag(run, &file) {
                texts.push((file.path, text));
                continue;
            }
            let text = self
                .file_text(run, &file.path)?
                .ok_or_else(|| corrupt(run, &file.path, &"the file is missing"))?;
            let hash = sha256_hex(text.as_bytes());
            if file.sha256.as_ref().is_some_and(|sha256| *sha256 != hash) {
                return Err(corrupt(
                    run,
                    &file.path,
                    &"it was modified after it was written",
                ));
            }
            texts.push((file.path, text));
        }
        Ok(texts)
    }

    /// A run's committed verdict files, with their paths.
    pub(crate) fn verdicts_read(
        &self,
        run: &Tracked,
        marks: &Marks<'_>,
    ) -> Result<Vec<(String, VerdictFile)>> {
        let texts = self.verdict_texts(run, marks)?.into_iter();
        let files = texts.map(|(path, text)| {
            let file = serde_json::from_str(&text).map_err(|error| corrupt(run, &path, &error))?;
            Ok((path, file))
        });
        files.collect()
    }

    /// The paths of the verdict files among a run's artifacts.
    fn verdict_paths(&self, run: &Tracked) -> Result<Vec<String>> {
        let folder = artifact::VERDICTS;
        let mut paths: Vec<String> = tag_paths(run)
            .filter(|path| path.starts_with(folder))
            .map(str::to_owned)
            .collect();
        let files = listed(&self.rest, run, folder.trim_end_matches('/'))?;
        let files = files.into_iter().filter(|file| !file.is_dir);
        paths.extend(files.map(|file| file.path));
        Ok(paths)
    }

    /// Whether the server is `assize serve` with an embedded store, which stores verdict files
    /// without params.
    pub(crate) fn is_assize(&self) -> Result<bool> {
        #[derive(Deserialize)]
        struct Info {
            #[serde(default)]
            server: String,
        }
        if let Some(known) = self.is_assize.get() {
            return Ok(*known);
        }
        let info = self.rest.get::<Info>("/api/3.0/mlflow/server-info")?;
        let is_assize = info.is_ok_and(|info| info.server == "assize");
        Ok(*self.is_assize.get_or_init(|| is_assize))
    }

    /// The candidates of a run; empty if it has no list of them.
    pub(crate) fn candidates_read(&self, run: &Tracked) -> Result<Vec<Candidate>> {
        let path = artifact::CANDIDATES;
        let Some(text) = self.candidates_text(run)? else {
            return Ok(Vec::new());
        };
        serde_json::from_str(&text).map_err(|error| corrupt(run, path, &error))
    }

    /// The content of `candidates.json`, whose texts do not change after a run is finished.
    pub(crate) fn candidates_text(&self, run: &Tracked) -> Result<Option<Arc<str>>> {
        let key = format!("candidates of {}", run.run_id);
        let known = lock(&self.texts).get(&key).map(Arc::clone);
        if known.is_some() {
            return Ok(known);
        }
        let text: Option<Arc<str>> = self.file_text(run, artifact::CANDIDATES)?.map(Into::into);
        if let Some(text) = text.as_ref().filter(|_| run.status == RunStatus::Finished) {
            self.text_remember(key, text);
        }
        Ok(text)
    }

    /// Replaces `candidates.json`, where something was computed again.
    pub(crate) fn candidates_replace(&self, run: &Tracked, content: &str) -> Result<()> {
        self.file_put(run, artifact::CANDIDATES, content.as_bytes())?;
        lock(&self.texts).remove(&format!("candidates of {}", run.run_id));
        Ok(())
    }

    /// Caches a text.
    pub(crate) fn text_remember(&self, key: String, text: &Arc<str>) {
        let mut texts = lock(&self.texts);
        if texts.len() >= TEXTS {
            texts.clear();
        }
        texts.insert(key, Arc::clone(text));
    }

    /// The rubric of a run.
    pub(crate) fn rubric_read(&self, run: &Tracked) -> Result<Rubric> {
        let path = artifact::RUBRIC;
        let text = self.file_text(run, path)?.unwrap_or_default();
        Rubric::parse(path, &text).map_err(|problems| {
            let first = problems.first().map(ToString::to_string);
            corrupt(run, path, &first.unwrap_or_default())
        })
    }
}

/// The sittings whose verdicts on a run do not count.
pub(crate) fn set_aside(run: &Tracked) -> Vec<String> {
    let list = run.tag(tag::SET_ASIDE).unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}

/// The files that are not set aside.
pub(crate) fn counting(files: Vec<(String, VerdictFile)>, aside: &[String]) -> Vec<VerdictFile> {
    let files = files.into_iter().map(|(_, file)| file);
    files
        .filter(|file| !aside.contains(&file.sitting))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn params_name_files_with_their_parts() {
        let run: Tracked = serde_json::from_value(json!({
            "info": {"run_id": "r"},
            "data": {"params": [{"key": "verdict.20260101T000000-ab", "value": "h1"},
                                {"key": "verdict.20260101T000000-ab.12", "value": "h2 c1"},
                                {"key": "model", "value": "m"}]},
        }))
        .unwrap();
        let named = named(&run);
        assert_eq!(named.len(), 2);
        let second = &named[1];
        assert_eq!(second.path, "verdicts/20260101T000000-ab.12.json");
        assert_eq!((second.part, second.commit.as_deref()), (12, Some("c1")));
        assert_eq!(param_of(&second.path), "verdict.20260101T000000-ab.12");
        assert!(is_named(&run, "verdicts/20260101T000000-ab.json"));
        assert!(has_judged(&run, "20260101T000000-ab") && !has_judged(&run, "other"));
    }
}
