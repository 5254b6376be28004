//! The packages' own tests, which are written in the language of their engine.

use super::{pytest, python};

/// The versions that the lock file of the package names.
pub const AIRFLOW: [&str; 4] = [
    "-c",
    "integrations/airflow/requirements.lock",
    "apache-airflow",
    "pytest",
];

#[test]
fn airflow() {
    if let Some(python) = python("airflow", &AIRFLOW) {
        pytest("airflow", &python);
    }
}

#[test]
fn kubernetes() {
    let packages = ["kubernetes-validate==1.37.0", "PyYAML", "pytest"];
    if let Some(python) = python("kubernetes", &packages) {
        pytest("kubernetes", &python);
    }
}

#[test]
#[ignore = "starts a Ray cluster of two nodes: make test-ray"]
fn ray() {
    if let Some(python) = python("ray", &["ray==2.60.0", "pytest"]) {
        pytest("ray", &python);
    }
}
