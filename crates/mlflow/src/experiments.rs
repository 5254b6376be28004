//! Experiments: finding, creating and listing them.

use assize_domain::run::{RunStatus, tag};
use assize_store::{ExperimentSummary, Result, StoreError, rules};
use serde_json::json;

use crate::address::encoded;
use crate::wire::{CreatedExperiment, Experiment, ExperimentAnswer, ExperimentsAnswer};
use crate::{MlflowStore, SITTINGS, lock};

impl MlflowStore {
    /// The id of an active experiment, if there is one.
    pub(crate) fn experiment_find(&self, name: &str) -> Result<Option<String>> {
        if let Some(id) = lock(&self.experiments).get(name) {
            return Ok(Some(id.clone()));
        }
        let Some(found) = self.experiment_fetch(name)? else {
            return Ok(None);
        };
        if found.lifecycle_stage == "deleted" {
            return Ok(None);
        }
        self.experiment_remember(name, &found.id);
        Ok(Some(found.id))
    }

    /// The id of an active experiment, or an error.
    pub(crate) fn experiment_need(&self, name: &str) -> Result<String> {
        if let Some(id) = self.experiment_find(name)? {
            return Ok(id);
        }
        let mut known: Vec<String> = self
            .experiments_all()?
            .into_iter()
            .map(|it| it.name)
            .filter(|it| it != SITTINGS && it != "Default")
            .collect();
        known.sort();
        Err(rules::no_experiment(name, known))
    }

    /// The id of an experiment; creates it if it does not exist.
    pub(crate) fn experiment_make(&self, name: &str) -> Result<String> {
        if let Some(id) = self.experiment_find(name)? {
            return Ok(id);
        }
        let body = json!({ "name": name });
        let made = self
            .rest
            .post::<CreatedExperiment>("/api/2.0/mlflow/experiments/create", &body)?;
        match made {
            Ok(made) => {
                self.experiment_remember(name, &made.experiment_id);
                Ok(made.experiment_id)
            }
            Err(refusal) if refusal.is_there_already() => {
                // Another client has just created it, or it was deleted.
                self.experiment_find(name)?.ok_or_else(|| {
                    StoreError::Conflict(format!(
                        "the experiment '{name}' has been deleted: restore it, or choose another name"
                    ))
                })
            }
            Err(refusal) => Err(self
                .rest
                .refused(&format!("the experiment '{name}'"), &refusal)),
        }
    }

    /// The name of an experiment.
    pub(crate) fn experiment_name(&self, id: &str) -> Result<String> {
        let known = lock(&self.experiments)
            .iter()
            .find(|(_, known)| *known == id)
            .map(|(name, _)| name.clone());
        if let Some(name) = known {
            return Ok(name);
        }
        let path = format!(
            "/api/2.0/mlflow/experiments/get?experiment_id={}",
            encoded(id)
        );
        let found = self.rest.get::<ExperimentAnswer>(&path)?;
        let found = found.map_err(|refusal| self.rest.refused("an experiment", &refusal))?;
        self.experiment_remember(&found.experiment.name, id);
        Ok(found.experiment.name)
    }

    /// All active experiments.
    pub(crate) fn experiments_all(&self) -> Result<Vec<Experiment>> {
        let mut all = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut body = json!({"max_results": 1000, "view_type": "ACTIVE_ONLY"});
            if let Some(token) = &token {
                body["page_token"] = json!(token);
            }
            let page = self
                .rest
                .post::<ExperimentsAnswer>("/api/2.0/mlflow/experiments/search", &body)?;
            let page =
                page.map_err(|refusal| self.rest.refused("a list of experiments", &refusal))?;
            all.extend(page.experiments);
            token = page.next_page_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(all);
            }
        }
    }

    pub(crate) fn experiment_sum_up(&self, experiment: &Experiment) -> Result<ExperimentSummary> {
        let mut summary = ExperimentSummary {
            name: experiment.name.clone(),
            experiment_id: experiment.id.clone(),
            runs: 0,
            pending: 0,
            judged: 0,
            last_updated: experiment.last_update_time.unwrap_or(0),
        };
        self.cells_each(&experiment.id, &mut |runs| {
            for run in &runs {
                let Some(pending) = run.tag(tag::JUDGE_PENDING) else {
                    continue;
                };
                let finished = run.status == RunStatus::Finished;
                summary.runs += 1;
                summary.pending += u64::from(finished && pending == "true");
                summary.judged += u64::from(finished && pending == "false");
                let touched = run.end_time_ms.unwrap_or(run.start_time_ms);
                summary.last_updated = summary.last_updated.max(touched);
            }
            Ok(true)
        })?;
        Ok(summary)
    }

    pub(crate) fn experiment_fetch(&self, name: &str) -> Result<Option<Experiment>> {
        let path = format!(
            "/api/2.0/mlflow/experiments/get-by-name?experiment_name={}",
            encoded(name)
        );
        match self.rest.get::<ExperimentAnswer>(&path)? {
            Ok(found) => Ok(Some(found.experiment)),
            // A server that is not MLflow may also return 404, but without MLflow's error code.
            Err(refusal) if refusal.code == "RESOURCE_DOES_NOT_EXIST" => Ok(None),
            Err(refusal) if refusal.status == 404 => Err(self.rest.unusable(
                "this is not an MLflow server: check the address and its path prefix".to_owned(),
            )),
            Err(refusal) => Err(self
                .rest
                .refused(&format!("the experiment '{name}'"), &refusal)),
        }
    }

    fn experiment_remember(&self, name: &str, id: &str) {
        lock(&self.experiments).insert(name.to_owned(), id.to_owned());
    }
}
