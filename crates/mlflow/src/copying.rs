//! Copying runs: reading a run completely, and adding missing data to one.

use std::collections::HashMap;

use assize_domain::run::{RunStatus, tag};
use assize_store::mlflow::{Entry, Point};
use assize_store::queue::SittingRecord;
use assize_store::{Additions, Copying, Imported, ImportedRun, Result, WholeRun};
use serde_json::{Value, json};

use crate::address::encoded;
use crate::limits::{self, Pairs};
use crate::runs::Entries;
use crate::wire::{HistoryAnswer, ModelsAnswer, Nothing, Tracked, number_json};
use crate::{MlflowStore, import, parallel};

/// Page size of metric history, datasets per request, and page size of logged models.
const POINTS: usize = 25_000;
const DATASETS: usize = 100;
const MODELS: usize = 100;

impl Copying for MlflowStore {
    fn runs_import(&self, experiment: &str, runs: &[ImportedRun]) -> Result<Vec<Imported>> {
        import::runs_import(self, experiment, runs)
    }

    fn run_get_whole(&self, run_id: &str) -> Result<WholeRun> {
        let mut tracked = self.run_load(run_id)?;
        let mut files = self.artifacts.files(&self.rest, &tracked)?;
        if tracked.tag(limits::TAG).is_some() {
            files.retain(|(path, _)| path != limits::FILE);
        }
        let points = self.points(&tracked)?;
        let datasets = std::mem::take(&mut tracked.datasets);
        let mut run = self.run_shown(tracked)?;
        run.artifacts = files.iter().map(|(path, _)| path.clone()).collect();
        Ok(WholeRun {
            run,
            points,
            datasets,
            files,
        })
    }

    fn run_add(&self, run_id: &str, additions: &Additions) -> Result<()> {
        self.add(&self.run_load(run_id)?, additions)
    }

    fn artifact_add(&self, run_id: &str, path: &str, content: Vec<u8>) -> Result<()> {
        self.file_put(&*self.run_recent(run_id)?, path, &content)
    }

    fn experiment_tags_get(&self, experiment: &str) -> Result<Pairs> {
        let found = self.experiment_fetch(experiment)?;
        let tags = found.into_iter().flat_map(|it| it.tags);
        Ok(tags.map(|tag| (tag.key, tag.value)).collect())
    }

    fn experiment_tags_add(&self, experiment: &str, tags: &[(String, String)]) -> Result<()> {
        let id = self.experiment_make(experiment)?;
        for (key, value) in tags {
            self.experiment_tag_set(experiment, &id, key, value)?;
        }
        Ok(())
    }

    /// Older servers have no logged models.
    fn logged_model_count(&self, experiment: &str) -> Result<u64> {
        let Some(id) = self.experiment_find(experiment)? else {
            return Ok(0);
        };
        let mut count = 0;
        let mut body = json!({"experiment_ids": [id], "max_results": MODELS});
        loop {
            let path = "/api/2.0/mlflow/logged-models/search";
            let Ok(page) = self.rest.post::<ModelsAnswer>(path, &body)? else {
                return Ok(count);
            };
            count += page.models.len() as u64;
            match page.next_page_token.filter(|token| !token.is_empty()) {
                Some(token) => body["page_token"] = json!(token),
                None => return Ok(count),
            }
        }
    }

    fn sitting_import(&self, record: &SittingRecord) -> Result<bool> {
        import::sitting_import(self, record)
    }

    /// Deletes duplicate runs of cells: of several finished runs, the first one that was judged is
    /// kept, else the first. Unfinished runs of such cells are deleted, too. A finished run that
    /// was judged is never deleted.
    fn runs_tidy(&self, experiment: &str) -> Result<u64> {
        let id = self.experiment_need(experiment)?;
        let mut kept: HashMap<String, (String, bool)> = HashMap::new();
        let mut others: Vec<(String, String)> = Vec::new();
        let filter = format!("tags.{} != ''", tag::CELL_KEY);
        self.scan(&id, &filter, 0, &mut |runs| {
            for run in runs {
                let key = run.tag(tag::CELL_KEY).unwrap_or_default().to_owned();
                let judged = run.is_judged();
                if run.status != RunStatus::Finished {
                    others.push((key, run.run_id));
                    continue;
                }
                match kept.get(&key) {
                    None => {
                        kept.insert(key, (run.run_id, judged));
                    }
                    Some((_, true)) if judged => {}
                    Some((_, false)) if judged => {
                        let first = kept.insert(key.clone(), (run.run_id, true));
                        others.extend(first.map(|(run_id, _)| (key, run_id)));
                    }
                    Some(_) => others.push((key, run.run_id)),
                }
            }
            Ok(true)
        })?;
        others.retain(|(key, _)| kept.contains_key(key));
        parallel::each(&others, |(_, run_id)| self.run_remove(run_id))?;
        Ok(others.len() as u64)
    }
}

impl MlflowStore {
    /// Every point of every metric, the latest of each last.
    fn points(&self, run: &Tracked) -> Result<Vec<Point>> {
        // A cell's own metrics have one point each, so their history is not requested.
        let is_cell = run.tag(tag::CELL_KEY).is_some();
        let (single, others): (Vec<_>, Vec<_>) = run.metrics.iter().partition(|(_, latest)| {
            is_cell && latest.step == 0 && Some(latest.timestamp_ms) == run.end_time_ms
        });
        let mut points: Vec<Point> = single
            .into_iter()
            .map(|(key, latest)| Point {
                key: key.clone(),
                value: latest.value,
                timestamp: latest.timestamp_ms,
                step: latest.step,
            })
            .collect();
        let histories = parallel::each(&others, |(key, _)| self.metric_history(&run.run_id, key))?;
        points.extend(histories.into_iter().flatten());
        points.sort_by_key(|it| (it.step, it.timestamp));
        Ok(points)
    }

    fn metric_history(&self, run_id: &str, key: &str) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        let mut token = String::new();
        loop {
            let path = format!(
                "/api/2.0/mlflow/metrics/get-history?run_id={}&metric_key={}&max_results={POINTS}{token}",
                encoded(run_id),
                encoded(key)
            );
            let page = self.rest.get::<HistoryAnswer>(&path)?;
            let page = page.map_err(|refusal| {
                let what = format!("the history of '{key}' of run {run_id}");
                self.rest.refused(&what, &refusal)
            })?;
            points.extend(page.metrics.iter().map(|shape| {
                let point = shape.point();
                Point {
                    key: key.to_owned(),
                    value: point.value,
                    timestamp: point.timestamp_ms,
                    step: point.step,
                }
            }));
            match page.next_page_token.filter(|token| !token.is_empty()) {
                Some(next) => token = format!("&page_token={}", encoded(&next)),
                None => return Ok(points),
            }
        }
    }

    /// Adds missing data to a run; its final status is written last.
    pub(crate) fn add(&self, run: &Tracked, additions: &Additions) -> Result<()> {
        for datasets in additions.datasets.chunks(DATASETS) {
            let body = json!({"run_id": run.run_id, "datasets": datasets});
            let logged = self
                .rest
                .post::<Nothing>("/api/2.0/mlflow/runs/log-inputs", &body)?;
            logged.map_err(|refusal| {
                self.rest
                    .refused(&format!("the datasets of run {}", run.run_id), &refusal)
            })?;
        }
        if !additions.params.is_empty() || !additions.tags.is_empty() {
            let entries = Entries {
                params: owned(&additions.params),
                tags: owned(&additions.tags),
                metrics: Vec::new(),
            };
            self.write(run, entries)?;
        }
        let points = additions.points.iter().map(|point| {
            json!({"key": point.key, "value": number_json(point.value),
                   "timestamp": point.timestamp, "step": point.step})
        });
        let points: Vec<Value> = points.collect();
        self.log(&run.run_id, &[], &[], &points)?;
        match additions.end {
            Some((status, end_ms)) => self.run_update(&run.run_id, status, end_ms),
            None => Ok(()),
        }
    }
}

fn owned(entries: &[Entry]) -> Pairs {
    entries
        .iter()
        .map(|entry| (entry.key.clone(), entry.value.clone()))
        .collect()
}
