//! From a checked request to a run of a DAG in Airflow, where `engine = "airflow"`.
//!
//! The conf has every value explicitly, because the settings of Airflow's workers may differ from
//! the server's. Addresses that were not named are left to Airflow, which knows its own hosts.

use assize_domain::job::JobKind;
use assize_domain::options::{Options, request_keys};
use assize_server::{DELEGATED_COMMAND, Plan};
use serde_json::{Map, Value};

use super::{Checker, Problems, problem};
use crate::commands::airflow_run::{COLLECTIONS, SIMULATIONS};
use crate::settings::Settings;

impl Checker {
    pub(super) fn collect_on_airflow(
        &self,
        settings: &Settings,
        fields: &Map<String, Value>,
        (task, total): (String, u32),
    ) -> Result<Plan, Problems> {
        let named = fields.get("mlflow_url").and_then(Value::as_str);
        let airflow = &self.settings.airflow;
        let tracking = named.or_else(|| airflow.tracking_uri(self.session.tracking_uri()));
        let Some(tracking) = tracking else {
            return Err(vec![problem("mlflow_url", NO_TRACKING)]);
        };
        let mut conf = explicit(&settings.options, fields);
        conf.insert("task".to_owned(), task.into());
        conf.insert("mlflow_url".to_owned(), tracking.into());
        Ok(Plan {
            kind: JobKind::Collect,
            experiment: settings.options.experiment.clone(),
            words: self.delegated(COLLECTIONS, conf, total),
            // Airflow's pools keep collections on one host apart.
            hosts: Vec::new(),
            total,
        })
    }

    pub(super) fn simulate_on_airflow(
        &self,
        fields: &Map<String, Value>,
        experiment: String,
    ) -> Plan {
        let mut conf = fields.clone();
        conf.insert("experiment".to_owned(), experiment.clone().into());
        let airflow = &self.settings.airflow;
        if let Some(uri) = airflow.tracking_uri(self.session.tracking_uri()) {
            conf.insert("mlflow_url".to_owned(), uri.into());
        }
        Plan {
            kind: JobKind::Simulate,
            experiment,
            words: self.delegated(SIMULATIONS, conf, 1),
            hosts: Vec::new(),
            total: 1,
        }
    }

    fn delegated(&self, dag: &str, conf: Map<String, Value>, total: u32) -> Vec<String> {
        let mut words = vec![
            DELEGATED_COMMAND.to_owned(),
            "--json".to_owned(),
            format!("--dag={dag}"),
            format!("--conf={}", Value::Object(conf)),
            format!("--total={total}"),
        ];
        if let Some(file) = self.session.config_file() {
            words.push(format!("--config={}", file.display()));
        }
        words
    }
}

const NO_TRACKING: &str = "is missing: Airflow's tasks need a tracking server; name it with \
                           airflow.tracking_uri in the server's settings";

/// The values in force that requests may name; lists and texts that are empty are left out.
fn explicit(options: &Options, fields: &Map<String, Value>) -> Map<String, Value> {
    let Ok(Value::Object(mut values)) = serde_json::to_value(options) else {
        return Map::new();
    };
    let known = request_keys(JobKind::Collect);
    let of_hosts = ["ollama_url", "base_url"];
    values.retain(|key, value| {
        let is_empty = matches!(value, Value::String(text) if text.is_empty())
            || matches!(value, Value::Array(list) if list.is_empty());
        let is_hosts = of_hosts.contains(&key.as_str()) && !fields.contains_key(key);
        known.contains(&key.as_str()) && !is_empty && !is_hosts
    });
    values
}
