//! Writing to runs: params, tags, metrics and files.

use std::collections::BTreeMap;

use assize_domain::hash::sha256_hex;
use assize_store::Result;
use serde_json::{Value, json};

use crate::MlflowStore;
use crate::artifacts::corrupt;
use crate::limits::{self, Overflow, Pairs};
use crate::wire::{CHANGED, Nothing, Tracked, number_json};

/// MLflow's limits for one request: a thousand entries in total, at most a hundred params and a
/// hundred tags. One metric of each request is for [`CHANGED`].
const PAIRS: usize = 100;
const METRICS: usize = 799;

/// The entries to write to a run.
#[derive(Debug, Default, Clone)]
pub(crate) struct Entries {
    pub params: Pairs,
    pub tags: Pairs,
    pub metrics: Vec<(String, f64)>,
}

impl MlflowStore {
    /// Writes to a run. Entries that belong together are written last, in one request, which the
    /// server applies as a whole. Values that exceed the limits are written before it, into a file.
    pub(crate) fn write(&self, run: &Tracked, mut entries: Entries) -> Result<()> {
        let more = Overflow::split(&mut entries.params, &mut entries.tags);
        let mut kept = match run.tag(limits::TAG) {
            Some(_) => self.overflow_read(run)?,
            None => Overflow::default(),
        };
        let before = kept.clone();
        for (key, _) in &entries.tags {
            kept.tags.remove(key);
        }
        kept.params.extend(more.params);
        kept.tags.extend(more.tags);
        if kept != before {
            let text =
                serde_json::to_string(&kept).map_err(|error| corrupt(run, limits::FILE, &error))?;
            self.file_put(run, limits::FILE, text.as_bytes())?;
            let hash = sha256_hex(text.as_bytes());
            entries.tags.push((limits::TAG.to_owned(), hash));
        }
        let now_ms = self.now_ms();
        let metrics: Vec<Value> = entries
            .metrics
            .iter()
            .filter(|(key, value)| !is_same(run.metric(key), *value))
            .map(|(key, value)| {
                // The latest point of a step is the one with the latest time.
                let before = run.metrics.get(key).map_or(0, |it| it.timestamp_ms + 1);
                json!({"key": key, "value": number_json(*value), "step": 0,
                       "timestamp": now_ms.max(before)})
            })
            .collect();
        let (params, tags) = (pairs(&entries.params), pairs(&entries.tags));
        if params.is_empty() && tags.is_empty() && metrics.is_empty() {
            return self.touch(&run.run_id);
        }
        self.log(&run.run_id, &params, &tags, &metrics)
    }

    /// Marks a run as changed now, after a change that [`MlflowStore::log`] did not make, or before
    /// the run is deleted. A run that is deleted already is not marked.
    pub(crate) fn touch(&self, run_id: &str) -> Result<()> {
        let Some(mark) = self.change_mark()? else {
            return Ok(());
        };
        let body = json!({"run_id": run_id, "metrics": [mark]});
        let _ = self
            .rest
            .post::<Nothing>("/api/2.0/mlflow/runs/log-batch", &body)?;
        Ok(())
    }

    /// The point of [`CHANGED`] for a change that is made now; `None` for a server that is
    /// `assize serve`, which shows all metrics and is not followed.
    fn change_mark(&self) -> Result<Option<Value>> {
        let now_ms = self.now_ms();
        let mark = json!({"key": CHANGED, "value": now_ms, "step": 0, "timestamp": now_ms});
        Ok((!self.is_assize()?).then_some(mark))
    }

    /// Logs entries in as few requests as the server allows; the last one marks the run as changed.
    pub(crate) fn log(
        &self,
        run_id: &str,
        params: &[Value],
        tags: &[Value],
        metrics: &[Value],
    ) -> Result<()> {
        let requests = [
            params.len().div_ceil(PAIRS),
            tags.len().div_ceil(PAIRS),
            metrics.len().div_ceil(METRICS),
        ];
        let requests = requests.into_iter().max().unwrap_or(0);
        let part = |list: &[Value], number: usize, most: usize| -> Vec<Value> {
            list.iter()
                .skip(number * most)
                .take(most)
                .cloned()
                .collect()
        };
        for number in 0..requests {
            let mut metrics = part(metrics, number, METRICS);
            if number + 1 == requests {
                metrics.extend(self.change_mark()?);
            }
            let body = json!({
                "run_id": run_id,
                "params": part(params, number, PAIRS),
                "tags": part(tags, number, PAIRS),
                "metrics": metrics,
            });
            let logged = self
                .rest
                .post::<Nothing>("/api/2.0/mlflow/runs/log-batch", &body)?;
            logged.map_err(|refusal| {
                self.rest
                    .refused(&format!("to log entries of run {run_id}"), &refusal)
            })?;
        }
        Ok(())
    }

    /// Tries to write a write-once param: `false` if it already has another value. The server
    /// refuses the whole request then, so that the run is marked as changed only by the winner.
    pub(crate) fn param_claim(&self, run_id: &str, key: &str, value: &str) -> Result<bool> {
        let mark: Vec<Value> = self.change_mark()?.into_iter().collect();
        let param = json!({"key": key, "value": value});
        let body = json!({"run_id": run_id, "params": [param], "metrics": mark});
        let logged = self
            .rest
            .post::<Nothing>("/api/2.0/mlflow/runs/log-batch", &body)?;
        match logged {
            Ok(_) => Ok(true),
            Err(refusal) if refusal.status == 400 => {
                let run = self.run_load(run_id)?;
                match run.param(key) {
                    Some(there) => Ok(there == value),
                    None => Err(self
                        .rest
                        .refused(&format!("{key} of run {run_id}"), &refusal)),
                }
            }
            Err(refusal) => Err(self
                .rest
                .refused(&format!("{key} of run {run_id}"), &refusal)),
        }
    }

    /// Deletes tags of a run.
    pub(crate) fn tags_drop(&self, run: &Tracked, keys: &[&str]) -> Result<()> {
        for key in keys.iter().filter(|key| run.tags.contains_key(**key)) {
            let body = json!({"run_id": run.run_id, "key": key});
            let gone = self
                .rest
                .post::<Nothing>("/api/2.0/mlflow/runs/delete-tag", &body)?;
            match gone {
                Ok(_) => {}
                Err(refusal) if refusal.is_missing() => {}
                Err(refusal) => {
                    let what = format!("to delete the tag {key} of run {}", run.run_id);
                    return Err(self.rest.refused(&what, &refusal));
                }
            }
        }
        Ok(())
    }

    /// Stores a file with a run.
    pub(crate) fn file_put(&self, run: &Tracked, path: &str, content: &[u8]) -> Result<()> {
        self.artifacts.put(&self.rest, run, path, content, &|tags| {
            self.log(&run.run_id, &[], &pairs(tags), &[])
        })
    }

    /// The content of a text file of a run.
    pub(crate) fn file_text(&self, run: &Tracked, path: &str) -> Result<Option<String>> {
        self.artifacts.text(&self.rest, run, path)
    }

    pub(super) fn overflow_read(&self, run: &Tracked) -> Result<Overflow> {
        let text = self
            .file_text(run, limits::FILE)?
            .ok_or_else(|| corrupt(run, limits::FILE, &"the file is missing"))?;
        serde_json::from_str(&text).map_err(|error| corrupt(run, limits::FILE, &error))
    }
}

/// Entries in the API's format.
pub(crate) fn pairs(pairs: &[(String, String)]) -> Vec<Value> {
    // The first of several values for a key counts.
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, value) in pairs {
        first.entry(key).or_insert(value);
    }
    let pairs = first.into_iter();
    pairs
        .map(|(key, value)| json!({"key": key, "value": value}))
        .collect()
}

fn is_same(there: Option<f64>, value: f64) -> bool {
    there
        .is_some_and(|there| there.to_bits() == value.to_bits() || there.is_nan() && value.is_nan())
}
