//! `engine` and `[airflow]`: what runs the jobs of `assize serve`.

use assize_http::{Address, is_http};
use serde::Deserialize;

/// The engine that needs no other service, and the default.
const SUBPROCESS: &str = "subprocess";
/// Airflow, over its REST API.
const AIRFLOW: &str = "airflow";

/// Where Airflow is, and how to sign in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AirflowSettings {
    pub url: String,
    pub username: String,
    /// The environment variable that holds the password.
    pub password_env: String,
    /// The environment variable that holds a token, instead of name and password.
    pub token_env: String,
    /// Where the tasks of Airflow track their runs; empty: where the server does.
    pub tracking_uri: String,
}

impl AirflowSettings {
    /// The first problem, by key.
    pub(super) fn problem(&self, engine: &str) -> Option<(&'static str, String)> {
        match engine {
            SUBPROCESS => return None,
            AIRFLOW => {}
            other => {
                let message = format!("is '{other}': use subprocess or airflow");
                return Some(("engine", message));
            }
        }
        match Address::parse(&self.url) {
            Err(_) => {
                let message = "must be the address of Airflow, http://HOST:PORT";
                return Some(("airflow.url", message.to_owned()));
            }
            Ok(address) if address.credentials().is_some() => {
                let message = "holds a user or password: use airflow.username and \
                               airflow.password_env instead";
                return Some(("airflow.url", message.to_owned()));
            }
            Ok(_) => {}
        }
        if self.token_env.is_empty() && (self.username.is_empty() || self.password_env.is_empty()) {
            let message = "is empty: name the user, and the environment variable that holds the \
                           password (or a token: airflow.token_env)";
            let key = if self.username.is_empty() {
                "airflow.username"
            } else {
                "airflow.password_env"
            };
            return Some((key, message.to_owned()));
        }
        if !self.tracking_uri.is_empty() && !is_http(&self.tracking_uri) {
            let message = "must be a tracking server's address, http://HOST:PORT";
            return Some(("airflow.tracking_uri", message.to_owned()));
        }
        None
    }

    /// Where the tasks track their runs; `None` where no server is known.
    pub fn tracking_uri<'a>(&'a self, of_server: &'a str) -> Option<&'a str> {
        let own = Some(self.tracking_uri.as_str()).filter(|it| !it.is_empty());
        own.or_else(|| Some(of_server).filter(|it| is_http(it)))
    }
}

/// Whether jobs run on Airflow.
pub fn is_airflow(engine: &str) -> bool {
    engine == AIRFLOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_by_key() {
        let key =
            |engine: &str, settings: &AirflowSettings| settings.problem(engine).map(|(key, _)| key);
        let mut it = AirflowSettings::default();
        assert_eq!(key("subprocess", &it), None);
        assert_eq!(key("celery", &it), Some("engine"));
        assert_eq!(key("airflow", &it), Some("airflow.url"));
        it.url = "http://u:p@airflow:8080".to_owned();
        assert_eq!(key("airflow", &it), Some("airflow.url"));
        it.url = "http://airflow:8080".to_owned();
        assert_eq!(key("airflow", &it), Some("airflow.username"));
        it.username = "ada".to_owned();
        assert_eq!(key("airflow", &it), Some("airflow.password_env"));
        it.password_env = "AIRFLOW_PASSWORD".to_owned();
        assert_eq!(key("airflow", &it), None);
        it.tracking_uri = "sqlite:x.db".to_owned();
        assert_eq!(key("airflow", &it), Some("airflow.tracking_uri"));
    }

    #[test]
    fn the_server_s_own_tracking_uri_is_used_where_it_is_a_server_s() {
        let mut it = AirflowSettings::default();
        assert_eq!(it.tracking_uri("sqlite:x.db"), None);
        assert_eq!(it.tracking_uri("http://mlflow"), Some("http://mlflow"));
        it.tracking_uri = "http://other".to_owned();
        assert_eq!(it.tracking_uri("http://mlflow"), Some("http://other"));
    }
}
