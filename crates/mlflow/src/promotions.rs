//! Promotions on an MLflow server: versions of a task's prompts, the alias `champion`, and the
//! history.
//!
//! The history of a task is kept in one run. A tag of the task's registered prompt holds the id of
//! that run, and the tag is set when the prompt is created. Prompt names are unique, so there is
//! one such run. An entry is a write-once param `promotion.NUMBER` of that run, with the version
//! and the hash of its record, which is an artifact. If two promotions run at once, one of them
//! finds the number taken: that is the compare-and-swap. The version's tags and the alias are
//! written after the entry. If that is interrupted, the next promotion repairs them.

use assize_domain::hash::sha256_hex;
use assize_domain::promotion::{
    ALIAS, CHALLENGER, Nominee, PROMPT_TAGS, Promotion, nominee_tags, version_tags,
};
use assize_domain::run::RunStatus;
use assize_store::rules::superseded;
use assize_store::{Promotions, Result, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::address::encoded;
use crate::artifacts::corrupt;
use crate::runs::{pairs, quoted};
use crate::wire::{Nothing, Pair, Tracked};
use crate::{MlflowStore, SITTINGS, parallel};

/// The tag of a registered prompt that holds the id of its history's run.
const HISTORY: &str = "assize.history";
/// The tag of a history's run that holds the name of the task.
pub(crate) const PROMOTIONS: &str = "promotions";
const PARAM: &str = "promotion.";
const SHA256: &str = "assize.prompt_sha256";

#[derive(Deserialize)]
struct PromptAnswer {
    registered_model: Prompt,
}

#[derive(Deserialize)]
struct Prompt {
    #[serde(default)]
    tags: Vec<Pair>,
    #[serde(default)]
    aliases: Vec<Alias>,
}

#[derive(Deserialize)]
struct Alias {
    alias: String,
    version: Value,
}

impl Prompt {
    fn history(&self) -> Option<&str> {
        let found = self.tags.iter().find(|it| it.key == HISTORY);
        found.map(|it| it.value.as_str())
    }
}

#[derive(Deserialize)]
struct VersionAnswer {
    model_version: Version,
}

#[derive(Deserialize)]
struct VersionsAnswer {
    #[serde(default)]
    model_versions: Vec<Version>,
}

#[derive(Deserialize, Clone)]
struct Version {
    version: Value,
    #[serde(default)]
    tags: Vec<Pair>,
}

impl Version {
    fn number(&self) -> u32 {
        let number = match &self.version {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64().and_then(|it| it.try_into().ok()),
        };
        number.unwrap_or(0)
    }

    fn tag(&self, key: &str) -> Option<&str> {
        let found = self.tags.iter().find(|it| it.key == key);
        found.map(|it| it.value.as_str())
    }
}

impl Promotions for MlflowStore {
    fn champion_get(&self, task: &str) -> Result<Option<Promotion>> {
        let Some(run) = self.history(task)? else {
            return Ok(None);
        };
        let last = entries(&run).pop();
        let champion = last
            .map(|number| self.entry_read(&run, number))
            .transpose()?;
        if let Some(it) = &champion {
            self.alias_repair(task, it.version)?;
        }
        Ok(champion)
    }

    fn promotion_list(&self, task: &str) -> Result<Vec<Promotion>> {
        let Some(run) = self.history(task)? else {
            return Ok(Vec::new());
        };
        parallel::each(&entries(&run), |number| self.entry_read(&run, *number))
    }

    fn promotion_record(&self, promotion: &Promotion) -> Result<u32> {
        let task = &promotion.task;
        let run = self.history_make(task)?;
        let last = entries(&run).pop();
        if last.unwrap_or(0) + 1 != promotion.number {
            let latest = last
                .map(|number| self.entry_read(&run, number))
                .transpose()?;
            return Err(superseded(promotion, latest.as_ref()));
        }
        let sha256 = &promotion.champion.prompt_sha256;
        let version = self.version_make(task, sha256, "", &version_tags(promotion))?;
        let text = serde_json::to_string(promotion).map_err(|error| {
            StoreError::Internal(format!("the promotion cannot be stored: {error}"))
        })?;
        let hash = sha256_hex(text.as_bytes());
        self.file_put(&run, &record_path(&hash), text.as_bytes())?;
        let number = version.number();
        let name = format!("{PARAM}{}", promotion.number);
        if !self.param_claim(&run.run_id, &name, &format!("{hash} {number}"))? {
            return Err(superseded(promotion, self.champion_get(task)?.as_ref()));
        }
        self.version_describe(promotion, &version)?;
        self.alias_set(task, ALIAS, number)?;
        Ok(number)
    }

    fn nominee_record(&self, nominee: &Nominee) -> Result<u32> {
        let (task, sha256) = (&nominee.task, &nominee.prompt_sha256);
        self.history_make(task)?;
        let wanted = nominee_tags(nominee);
        let version = self.version_make(task, sha256, &nominee.commit_message, &wanted)?;
        let number = version.number();
        // A version that was there before keeps the tags that it has.
        for (key, value) in wanted.iter().filter(|it| version.tag(&it.0).is_none()) {
            let number = number.to_string();
            let body = json!({"name": task, "version": number, "key": key, "value": value});
            self.registry::<Nothing>("POST", "model-versions/set-tag", &body)?;
        }
        self.alias_set(task, CHALLENGER, number)?;
        Ok(number)
    }

    fn nominee_withdraw(&self, task: &str, version: u32) -> Result<()> {
        if self.alias_is_at(task, CHALLENGER, version)? {
            let body = json!({"name": task, "alias": CHALLENGER});
            self.registry::<Nothing>("DELETE", "registered-models/alias", &body)?;
        }
        Ok(())
    }
}

impl MlflowStore {
    fn alias_set(&self, task: &str, alias: &str, version: u32) -> Result<()> {
        let body = json!({"name": task, "alias": alias, "version": version.to_string()});
        self.registry::<Nothing>("POST", "registered-models/alias", &body)?;
        Ok(())
    }

    /// Moves the alias if a promotion was interrupted after it had written its entry. A client
    /// without write permission still gets the champion.
    fn alias_repair(&self, task: &str, version: u32) -> Result<()> {
        if !self.alias_is_at(task, ALIAS, version)? {
            let _ = self.alias_set(task, ALIAS, version);
        }
        Ok(())
    }

    fn alias_is_at(&self, task: &str, alias: &str, version: u32) -> Result<bool> {
        let prompt = self.prompt(task)?;
        let mut aliases = prompt.iter().flat_map(|it| &it.aliases);
        let text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        Ok(aliases.any(|it| it.alias == alias && text(&it.version) == version.to_string()))
    }

    fn entry_read(&self, run: &Tracked, number: u32) -> Result<Promotion> {
        let name = format!("{PARAM}{number}");
        let value = run.param(&name).unwrap_or_default();
        let (hash, version) = value.split_once(' ').unwrap_or((value, "0"));
        let text = self.file_text(run, &record_path(hash))?.unwrap_or_default();
        if sha256_hex(text.as_bytes()) != hash {
            return Err(corrupt(
                run,
                &name,
                &"its record is missing or was modified",
            ));
        }
        let read: Promotion =
            serde_json::from_str(&text).map_err(|error| corrupt(run, &name, &error))?;
        Ok(Promotion {
            version: version.parse().unwrap_or(0),
            ..read
        })
    }

    /// The run that holds the history of a task, if there is one.
    fn history(&self, task: &str) -> Result<Option<Tracked>> {
        let Some(prompt) = self.prompt(task)? else {
            return Ok(None);
        };
        prompt
            .history()
            .map(|run_id| self.run_load(run_id))
            .transpose()
    }

    fn prompt(&self, task: &str) -> Result<Option<Prompt>> {
        let path = format!(
            "/api/2.0/mlflow/registered-models/get?name={}",
            encoded(task)
        );
        match self.rest.get::<PromptAnswer>(&path)? {
            Ok(found) => Ok(Some(found.registered_model)),
            Err(refusal) if refusal.is_missing() => Ok(None),
            Err(refusal) => Err(self.rest.refused(&format!("the prompt '{task}'"), &refusal)),
        }
    }

    /// The run that holds the history. Creates it, and the registered prompt, if they do not exist.
    fn history_make(&self, task: &str) -> Result<Tracked> {
        if let Some(run) = self.history(task)? {
            return Ok(run);
        }
        let run = self.history_run(task)?;
        let mut tags: Vec<(String, String)> = PROMPT_TAGS
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        tags.push((HISTORY.to_owned(), run.run_id.clone()));
        let body = json!({"name": task, "tags": pairs(&tags)});
        let made = self
            .rest
            .post::<PromptAnswer>("/api/2.0/mlflow/registered-models/create", &body)?;
        match made {
            Ok(_) => return Ok(run),
            Err(refusal) if refusal.is_there_already() => {}
            Err(refusal) => {
                return Err(self.rest.refused(&format!("the prompt '{task}'"), &refusal));
            }
        }
        if let Some(first) = self.history(task)? {
            if first.run_id != run.run_id {
                self.run_remove(&run.run_id)?;
            }
            return Ok(first);
        }
        // Another client registered the prompt before there was a history.
        let body = json!({"name": task, "key": HISTORY, "value": run.run_id});
        self.registry::<Nothing>("POST", "registered-models/set-tag", &body)?;
        Ok(self.history(task)?.unwrap_or(run))
    }

    fn history_run(&self, task: &str) -> Result<Tracked> {
        let experiment_id = self.experiment_make(SITTINGS)?;
        let now_ms = self.now_ms();
        let tags = [(PROMOTIONS.to_owned(), task.to_owned())];
        let body = json!({
            "experiment_id": experiment_id,
            "run_name": format!("promotions of {task}"),
            "start_time": now_ms,
            "tags": pairs(&tags),
        });
        let run = self.run_create(&experiment_id, &body, (PROMOTIONS, task))?;
        self.run_update(&run.run_id, RunStatus::Finished, Some(now_ms))?;
        Ok(run)
    }

    /// The version with this content; creates it if it does not exist.
    fn version_make(
        &self,
        task: &str,
        sha256: &str,
        commit_message: &str,
        tags: &[(String, String)],
    ) -> Result<Version> {
        let mut tried = 0;
        loop {
            if let Some(known) = self.version_find(task, sha256)? {
                return Ok(known);
            }
            let body = json!({
                "name": task,
                "source": "dummy-source",
                "description": commit_message,
                "tags": pairs(tags),
            });
            let path = "/api/2.0/mlflow/model-versions/create";
            if let Some(made) = self.rest.post_once::<VersionAnswer>(path, &body, tried)? {
                let refused = |refusal| self.rest.refused("a version of the prompt", &refusal);
                return Ok(made.map_err(refused)?.model_version);
            }
            tried += 1;
        }
    }

    fn version_find(&self, task: &str, sha256: &str) -> Result<Option<Version>> {
        let Some(name) = quoted(task) else {
            let message = format!("'{task}' cannot be the name of a registered prompt");
            return Err(StoreError::Invalid(message));
        };
        let filter = format!(
            "name = {name} AND tags.`mlflow.prompt.is_prompt` = 'true' AND tags.`{SHA256}` = '{sha256}'"
        );
        let path = format!(
            "/api/2.0/mlflow/model-versions/search?max_results=100&filter={}",
            encoded(&filter)
        );
        let found = self.rest.get::<VersionsAnswer>(&path)?;
        let found =
            found.map_err(|refusal| self.rest.refused("a search for versions", &refusal))?;
        let mut same = found.model_versions;
        same.retain(|it| it.tag(SHA256) == Some(sha256));
        Ok(same.into_iter().min_by_key(Version::number))
    }

    /// Sets the version's tags to those of the latest promotion, replacing earlier ones.
    fn version_describe(&self, promotion: &Promotion, version: &Version) -> Result<()> {
        let (task, number) = (&promotion.task, version.number().to_string());
        let wanted = version_tags(promotion);
        let is_stale =
            |key: &str| key.starts_with("assize.") && !wanted.iter().any(|(known, _)| known == key);
        for tag in version.tags.iter().filter(|tag| is_stale(&tag.key)) {
            let body = json!({"name": task, "version": number, "key": tag.key});
            self.registry::<Nothing>("DELETE", "model-versions/delete-tag", &body)?;
        }
        let changed = wanted
            .iter()
            .filter(|(key, value)| version.tag(key) != Some(value.as_str()));
        for (key, value) in changed {
            let body = json!({"name": task, "version": number, "key": key, "value": value});
            self.registry::<Nothing>("POST", "model-versions/set-tag", &body)?;
        }
        Ok(())
    }

    fn registry<T: serde::de::DeserializeOwned>(
        &self,
        method: &'static str,
        verb: &str,
        body: &Value,
    ) -> Result<T> {
        let path = format!("/api/2.0/mlflow/{verb}");
        let answer = self.rest.send::<T>(method, &path, body)?;
        answer.map_err(|refusal| self.rest.refused(verb, &refusal))
    }
}

fn record_path(hash: &str) -> String {
    format!("promotions/{hash}.json")
}

/// The numbers of the entries, in order.
fn entries(run: &Tracked) -> Vec<u32> {
    let names = run.params.keys().filter_map(|key| key.strip_prefix(PARAM));
    let mut numbers: Vec<u32> = names.filter_map(|it| it.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}
