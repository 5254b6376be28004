//! `--mlflow-ui`: where MLflow's own pages are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::bail;
use assize_pipeline::PipelineError;
use assize_server::find_mlflow_pages;

use crate::cli::Serve;
use crate::tracking;

/// What the option has without a value.
const FIND: &str = "auto";

/// Prints where the package is, without importing it, which would take seconds.
const ASK_PYTHON: &str = "import importlib.util as u; s = u.find_spec('mlflow'); \
                          print(s.submodule_search_locations[0] if s else '')";

/// The folder of the pages, if they are to be served.
pub fn find(args: &Serve, tracking_uri: &str) -> anyhow::Result<Option<PathBuf>> {
    let Some(named) = &args.mlflow_ui else {
        return Ok(None);
    };
    if tracking::is_server(tracking_uri) {
        bail!(PipelineError::Invalid(
            "--mlflow-ui is for runs in this server's own file: the tracking server has its own \
             pages"
                .to_owned()
        ));
    }
    if named.as_os_str() != FIND {
        return match find_mlflow_pages(named) {
            Some(pages) => Ok(Some(pages)),
            None => bail!(PipelineError::Invalid(format!(
                "there are no pages of MLflow in {}: name the folder of an installed mlflow \
                 package, or leave it out to use the one that python3 finds",
                named.display()
            ))),
        };
    }
    let found = ["python3", "python"].into_iter().find_map(package);
    match found.as_deref().and_then(find_mlflow_pages) {
        Some(pages) => Ok(Some(pages)),
        None => bail!(PipelineError::Invalid(
            "python3 finds no mlflow package with its pages: run `pip install mlflow`, or name \
             the folder of the package (--mlflow-ui DIR)"
                .to_owned()
        )),
    }
}

/// Refuses the option where the pages would have nothing to show.
pub fn refuse_alone(args: &Serve) -> anyhow::Result<()> {
    if args.mlflow_ui.is_some() {
        bail!(PipelineError::Invalid(
            "--mlflow-ui needs the tracking store: leave --only out".to_owned()
        ));
    }
    Ok(())
}

/// The folder of the package `mlflow` of a Python.
fn package(python: &str) -> Option<PathBuf> {
    let output = Command::new(python)
        .args(["-c", ASK_PYTHON])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let path = Path::new(text.trim());
    (output.status.success() && path.is_dir()).then(|| path.to_owned())
}
