//! Texts that boards do not need: candidates, contexts and rubrics.
//!
//! They are read when a page needs them, and by a thread of their own, newest runs first, so that
//! pages have them while the server is unreachable. That thread uses a third of its time, waits
//! while changes are asked for, and writes the texts of many runs at once, because every write makes
//! the cached boards be computed again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use assize_domain::run::{artifact, tag};
use assize_store::following::RunFile;
use assize_store::{Result, Runs as _};

use super::follow::LONGEST_DELAY;
use super::{Team, lock};

/// The pause before runs without texts are looked for again.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The pause after a run, as a multiple of the time that it took.
const RUN_PAUSE: u32 = 2;
/// How many runs' texts are written at once.
const RUNS_AT_ONCE: usize = 64;
/// When a run whose texts could not be read is tried again.
const RETRY: Duration = Duration::from_mins(10);
/// How many texts that runs share are in memory.
const MAX_TEXTS: usize = 1024;

impl Team {
    /// Reads the texts of runs that lack them until the server ends.
    pub(super) fn fetch_texts(&self) {
        let mut tried = HashMap::new();
        loop {
            let is_ready = lock(&self.status).catching_up.is_none();
            let pause = if is_ready && self.check_reachable().is_ok() {
                self.fetch_missing(&mut tried);
                LOOK_EVERY
            } else {
                LONGEST_DELAY
            };
            if !self.pause(pause) {
                return;
            }
        }
    }

    fn fetch_missing(&self, tried: &mut HashMap<String, Instant>) {
        tried.retain(|_, at| at.elapsed() < RETRY);
        let Ok(mut missing) = self.copy.mirror_runs_without_candidates() else {
            return;
        };
        missing.retain(|run_id| !tried.contains_key(run_id));
        for some in missing.chunks(RUNS_AT_ONCE) {
            let mut files = Vec::new();
            for run_id in some {
                let began = Instant::now();
                // A broken run must not keep the others from being read.
                match self.texts_read(
                    run_id,
                    &[artifact::CANDIDATES, artifact::CONTEXT, artifact::RUBRIC],
                ) {
                    Ok(read) if read.iter().any(|it| it.path == artifact::CANDIDATES) => {
                        files.extend(read);
                    }
                    Ok(_) | Err(_) => {
                        tried.insert(run_id.clone(), Instant::now());
                    }
                }
                // The server has other clients, and changes are asked for at the same time.
                let pause = began.elapsed() * RUN_PAUSE;
                if !self.pause(pause) || self.check_reachable().is_err() {
                    break;
                }
                drop(lock(&self.polling));
            }
            let is_written = self.copy.mirror_files_put(files).is_ok();
            if !is_written || self.check_reachable().is_err() || *lock(&self.stopping) {
                return;
            }
        }
    }

    /// Reads files of a run that the copy lacks, and stores them in it.
    pub(super) fn texts_fetch(&self, run_id: &str, paths: &[&str]) -> Result<()> {
        let files = self.texts_read(run_id, paths)?;
        if files.is_empty() {
            return Ok(());
        }
        self.copy.mirror_files_put(files)
    }

    /// Reads files of a run that the copy lacks. A context or rubric that was read for another run
    /// with the same hash is not read again.
    fn texts_read(&self, run_id: &str, paths: &[&str]) -> Result<Vec<RunFile>> {
        let known = self.copy.artifacts_get(run_id, paths)?;
        let tags = self.copy.run_get(run_id)?.tags;
        let mut files = Vec::new();
        for (path, _) in paths.iter().zip(known).filter(|(_, known)| known.is_none()) {
            let shared_by = match *path {
                artifact::CONTEXT => tag::SCENARIO_SHA256,
                artifact::RUBRIC => tag::RUBRIC_SHA256,
                _ => "",
            };
            let hash = tags.iter().find(|(key, _)| key == shared_by);
            let shared = hash.map(|(_, hash)| format!("{path} {hash}"));
            let cached = shared
                .as_ref()
                .and_then(|it| lock(&self.texts).get(it).cloned());
            let content = match cached {
                Some(content) => Some(content),
                None if self.check_reachable().is_err() => None,
                None => self.server.artifact_get_bytes(run_id, path)?,
            };
            let Some(content) = content else { continue };
            if let Some(shared) = shared {
                let mut texts = lock(&self.texts);
                if texts.len() >= MAX_TEXTS {
                    texts.clear();
                }
                texts.insert(shared, content.clone());
            }
            files.push(RunFile {
                run_id: run_id.to_owned(),
                path: (*path).to_owned(),
                content,
            });
        }
        Ok(files)
    }
}
