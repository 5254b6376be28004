//! Artifacts, by proxy path (`EXPERIMENT/RUN/artifacts/PATH`, or any other path for files that
//! belong to no run) and by run.
//!
//! Bodies are streamed in both directions. An upload is written to an anonymous temporary file
//! until it is complete, so that a slow or broken upload blocks nothing and leaves nothing.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};

use assize_domain::error_kind::ErrorKind;
use assize_store::embedded::mlflow::{LOOSE, Mlflow};
use assize_store::mlflow::FileInfo;
use assize_store::mlflow::limits::{self, ARTIFACT_BYTES};
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::Value;

use super::fields::RunRef;
use super::mistakes::missing;
use super::request::respond;
use super::{ApiError, ApiResult, mime, traces};
use crate::App;
use crate::http::{blocking, json, stream};

/// The size limit of uploads from MLflow's own pages, in bytes.
const MAX_UPLOAD: u64 = 10 << 20;

/// The owner of an artifact, and its path there.
#[derive(Debug, Clone)]
struct ArtifactPath {
    owner: Owner,
    path: String,
}

#[derive(Debug, Clone)]
enum Owner {
    /// A run, or a logged model, whose id starts with `m-`, or [`LOOSE`].
    Run(String),
    Trace(String),
}

impl ArtifactPath {
    /// Parses `EXPERIMENT/RUN/artifacts/PATH` (with any prefix before the run),
    /// `EXPERIMENT/models/MODEL/artifacts/PATH` or `EXPERIMENT/traces/TRACE/artifacts/PATH`. Other
    /// paths belong to no run.
    fn of(path: &str) -> ApiResult<Self> {
        let path = path.trim_end_matches('/');
        limits::artifact_path(path)?;
        let parts: Vec<&str> = path.split('/').collect();
        if let [_, "traces", trace_id, "artifacts", rest @ ..] = parts.as_slice() {
            return Ok(Self {
                owner: Owner::Trace((*trace_id).to_owned()),
                path: rest.join("/"),
            });
        }
        let is_run = |part: &str| {
            let digits = part.strip_prefix("m-").unwrap_or(part);
            digits.len() == 32 && digits.bytes().all(|it| it.is_ascii_hexdigit())
        };
        let at = parts
            .windows(2)
            .position(|pair| is_run(pair[0]) && pair[1] == "artifacts");
        let Some(at) = at else {
            return Ok(Self {
                owner: Owner::Run(LOOSE.to_owned()),
                path: path.to_owned(),
            });
        };
        Ok(Self {
            owner: Owner::Run(parts[at].to_owned()),
            path: parts[at + 2..].join("/"),
        })
    }

    /// The run's id. Files of traces can only be written and read.
    fn run_id(&self) -> ApiResult<&str> {
        match &self.owner {
            Owner::Run(run_id) => Ok(run_id),
            Owner::Trace(_) => Err(ApiError::not_implemented(
                "listing and deleting files of traces is not supported",
            )),
        }
    }
}

pub(crate) async fn proxy_get(State(app): State<App>, Path(path): Path<String>) -> Response {
    respond(async { download(app, ArtifactPath::of(&path)?).await }).await
}

pub(crate) async fn proxy_put(
    State(app): State<App>,
    Path(path): Path<String>,
    request: Request,
) -> Response {
    respond(async {
        let artifact = ArtifactPath::of(&path)?;
        upload(app, artifact, request.into_body(), ARTIFACT_BYTES).await
    })
    .await
}

pub(crate) async fn proxy_delete(State(app): State<App>, Path(path): Path<String>) -> Response {
    respond(async {
        let artifact = ArtifactPath::of(&path)?;
        blocking(&app, move |app| {
            let mlflow = app.store.mlflow();
            Ok(mlflow.artifact_delete(artifact.run_id()?, &artifact.path)?)
        })
        .await?;
        Ok(empty())
    })
    .await
}

#[derive(Debug, Deserialize)]
pub(crate) struct ListRequest {
    #[serde(flatten)]
    run: RunRef,
    #[serde(default)]
    path: String,
}

/// Paths in the response are relative to the listed folder.
#[expect(
    clippy::needless_pass_by_value,
    reason = "handlers take their request by value"
)]
pub(crate) fn proxy_list(mlflow: Mlflow<'_>, request: ListRequest) -> ApiResult<Value> {
    let artifact = match request.path.as_str() {
        "" => ArtifactPath {
            owner: Owner::Run(LOOSE.to_owned()),
            path: String::new(),
        },
        path => ArtifactPath::of(path)?,
    };
    let mut files = mlflow.artifact_list(artifact.run_id()?, &artifact.path)?;
    for file in &mut files {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        file.path = name.to_owned();
    }
    Ok(listed(&files))
}

/// Paths in the response are relative to the run's root.
#[expect(
    clippy::needless_pass_by_value,
    reason = "handlers take their request by value"
)]
pub(crate) fn run_list(mlflow: Mlflow<'_>, request: ListRequest) -> ApiResult<Value> {
    let run_id = request.run.id()?;
    let root = mlflow.run_get(run_id)?.info.artifact_uri;
    let mut response = listed(&mlflow.artifact_list(run_id, &request.path)?);
    response["root_uri"] = root.into();
    Ok(response)
}

pub(super) fn listed(files: &[FileInfo]) -> Value {
    if files.is_empty() {
        serde_json::json!({})
    } else {
        serde_json::json!({"files": files})
    }
}

pub(crate) async fn run_get(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    respond(async { download(app, named(query)?).await }).await
}

pub(crate) async fn run_upload(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    respond(async {
        // Browsers let pages of other sites send forms and plain text without a preflight request.
        let kind = request.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or_default();
        if kind.is_empty() || kind.starts_with("text/plain") || kind.contains("form") {
            return Err(ApiError::invalid(
                "Content-Type must be application/octet-stream",
            ));
        }
        let artifact = named(query)?;
        let upload = upload(app, artifact, request.into_body(), MAX_UPLOAD).await;
        upload.map_err(|error| match error.kind {
            ErrorKind::TooLarge => {
                ApiError::invalid("Artifact size is too large. Max size is 10MB.")
            }
            _ => error,
        })
    })
    .await
}

/// Reads the artifact's run and path from a query.
fn named(query: Option<String>) -> ApiResult<ArtifactPath> {
    let query = query.unwrap_or_default();
    let value = |names: &[&str]| {
        let value = query_value(&query, names);
        value.ok_or_else(|| ApiError::invalid(format!("Request must specify {}.", names[0])))
    };
    let owner = Owner::Run(value(&["run_uuid", "run_id"])?);
    let path = value(&["path"])?;
    limits::artifact_path(&path)?;
    Ok(ArtifactPath { owner, path })
}

/// The value of the first of these keys in a query, if it is not empty.
fn query_value(query: &str, names: &[&str]) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs
        .find(|(key, value)| names.contains(&key.as_ref()) && !value.is_empty())
        .map(|(_, value)| value.into_owned())
}

/// A file of a trace, for MLflow's pages: its spans.
pub(crate) async fn trace_get(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    respond(async {
        let query = query.unwrap_or_default();
        let trace_id = query_value(&query, &["request_id", "trace_id"]);
        let path = query_value(&query, &["path"]).unwrap_or_else(|| traces::SPANS_FILE.to_owned());
        let artifact = ArtifactPath {
            owner: Owner::Trace(trace_id.ok_or_else(|| missing("request_id"))?),
            path,
        };
        download(app, artifact).await
    })
    .await
}

/// A file of a logged model, for MLflow's pages.
pub(crate) async fn model_get(
    State(app): State<App>,
    Path(model_id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    respond(async {
        let path = query_value(&query.unwrap_or_default(), &["artifact_file_path"]);
        let path = path.ok_or_else(|| missing("artifact_file_path"))?;
        if !model_id.starts_with("m-") {
            return Err(ApiError::not_found(format!(
                "Logged model with ID '{model_id}' not found."
            )));
        }
        let owner = Owner::Run(model_id);
        download(app, ArtifactPath { owner, path }).await
    })
    .await
}

fn empty() -> Response {
    json(StatusCode::OK, "{}")
}

async fn download(app: App, artifact: ArtifactPath) -> ApiResult<Response> {
    let name = artifact
        .path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let mut response = match artifact.owner {
        Owner::Run(run_id) => stored(app, run_id, artifact.path).await?,
        Owner::Trace(trace_id) => {
            let read = move |app: &App| traces::file(app.store.mlflow(), &trace_id, &artifact.path);
            Response::new(Body::from(blocking(&app, read).await?))
        }
    };
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static(mime::media_type(&name));
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CONTENT_DISPOSITION, mime::attachment(&name));
    Ok(response)
}

/// Streams a run's artifact.
async fn stored(app: App, run_id: String, path: String) -> ApiResult<Response> {
    let asked = (run_id.clone(), path.clone());
    let size = blocking(&app, move |app| {
        Ok(app.store.mlflow().artifact_size(&asked.0, &asked.1)?)
    })
    .await?;
    let (sender, body) = stream::body();
    tokio::task::spawn_blocking(move || {
        // The client detects an error by a body that is shorter than its Content-Length.
        let mlflow = app.store.mlflow();
        let _ = mlflow.artifact_read(&run_id, &path, &mut |part| {
            sender.send(Ok(Bytes::copy_from_slice(part)))
        });
    });
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    Ok(response)
}

async fn upload(
    app: App,
    artifact: ArtifactPath,
    mut body: Body,
    limit: u64,
) -> ApiResult<Response> {
    limits::artifact_path(&artifact.path)?;
    let failed =
        |error: io::Error| ApiError::internal(format!("the upload cannot be buffered: {error}"));
    let mut file = tempfile::tempfile().map_err(failed)?;
    let mut size = 0_u64;
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| ApiError::invalid(format!("the upload was interrupted: {error}")))?;
        let Ok(part) = frame.into_data() else {
            continue;
        };
        size += u64::try_from(part.len()).unwrap_or(u64::MAX);
        if size > limit {
            return Err(ApiError::new(
                ErrorKind::TooLarge,
                format!("the artifact is larger than the limit of {limit} bytes"),
            ));
        }
        // This only copies to the page cache, so it does not block for long.
        file.write_all(&part).map_err(failed)?;
    }
    if size == 0 && limit == MAX_UPLOAD {
        return Err(ApiError::invalid("Request must specify data."));
    }
    blocking(&app, move |app| store(app.store.mlflow(), &artifact, file)).await?;
    Ok(empty())
}

fn store(mlflow: Mlflow<'_>, artifact: &ArtifactPath, mut file: File) -> ApiResult<()> {
    match &artifact.owner {
        Owner::Run(run_id) => mlflow.artifact_write(run_id, &artifact.path, file)?,
        Owner::Trace(trace_id) => {
            let mut content = Vec::new();
            let read = file.rewind().and_then(|()| file.read_to_end(&mut content));
            read.map_err(|error| ApiError::internal(error.to_string()))?;
            mlflow.trace_file_write(trace_id, &artifact.path, content)?;
        }
    }
    Ok(())
}
