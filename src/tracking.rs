//! Which server a tracking URI names, and how to connect to it.

use std::sync::Arc;

use assize_http::{HttpConfig, is_http};
use assize_mlflow::Config;
use assize_pipeline::journal::Journal;
use assize_store::{Cells, Tracking};

use crate::environment::{self, Environment};

/// A store, with what records cells in it.
#[derive(Debug)]
pub struct OpenStore {
    pub store: Arc<dyn Tracking>,
    /// The store itself, or the journal before it.
    pub cells: Arc<dyn Cells>,
    pub journal: Option<Arc<Journal>>,
}

impl OpenStore {
    /// A store that cells are recorded in directly.
    pub fn direct<S: Tracking + Cells + 'static>(store: Arc<S>) -> Self {
        Self {
            cells: Arc::clone(&store) as Arc<dyn Cells>,
            store,
            journal: None,
        }
    }
}

/// Whether a tracking URI names a server.
pub fn is_server(uri: &str) -> bool {
    is_http(uri)
}

/// How to reach the server, with what MLflow's own client reads from the environment.
pub fn config(uri: &str, environment: &Environment) -> Config {
    let text = |key: &str| environment.get(key).map(str::to_owned);
    let defaults = Config::new(uri);
    let insecure = environment.get("MLFLOW_TRACKING_INSECURE_TLS");
    Config {
        username: text("MLFLOW_TRACKING_USERNAME"),
        password: text("MLFLOW_TRACKING_PASSWORD"),
        token: text("MLFLOW_TRACKING_TOKEN"),
        insecure_tls: insecure.is_some_and(|it| matches!(it, "true" | "True" | "TRUE" | "1")),
        host: text("MLFLOW_HOST_HEADER"),
        http: HttpConfig {
            jitter_seed: environment::jitter_seed(),
            ..defaults.http
        },
        ..defaults
    }
}
