//! The ledger on an MLflow server: tags of the experiment.
//!
//! One request writes one entry, under a key that no other writer uses, so it can be repeated
//! after a timeout and two writers never displace each other's entries. The server itself lets
//! everybody with write access change or delete tags; Assize never does.

use assize_domain::ledger::{self, Entry};
use assize_store::rules::ledger_unreadable;
use assize_store::{Ledger, Result};
use serde_json::json;

use crate::MlflowStore;
use crate::wire::Nothing;

impl Ledger for MlflowStore {
    fn ledger_list(&self, experiment: &str) -> Result<Vec<Entry>> {
        self.experiment_need(experiment)?;
        let tags = self.experiment_fetch(experiment)?;
        let tags = tags.iter().flat_map(|it| &it.tags);
        let entries = ledger::from_tags(tags.map(|tag| (&*tag.key, &*tag.value)));
        entries.map_err(|error| ledger_unreadable(experiment, &error))
    }

    fn ledger_append(&self, experiment: &str, entry: &Entry) -> Result<()> {
        let id = self.experiment_need(experiment)?;
        let (key, value) = entry.tag();
        self.experiment_tag_set(experiment, &id, &key, &value)
    }
}

impl MlflowStore {
    pub(crate) fn experiment_tag_set(
        &self,
        experiment: &str,
        id: &str,
        key: &str,
        value: &str,
    ) -> Result<()> {
        let body = json!({"experiment_id": id, "key": key, "value": value});
        let set = self
            .rest
            .post::<Nothing>("/api/2.0/mlflow/experiments/set-experiment-tag", &body)?;
        set.map(|_| ()).map_err(|refusal| {
            let what = format!("the tag '{key}' of the experiment '{experiment}'");
            self.rest.refused(&what, &refusal)
        })
    }
}
