//! MLflow's own web pages, from an installed `mlflow` package, over this server's API.
//!
//! The pages are one application that names its files and the API relative to its own address, so
//! that it works below [`PREFIX`] beside the panel, with the panel's sign-in. Nothing of it is part
//! of Assize: the files are read from the package. [`page_queries`](super::page_queries) answers
//! the GraphQL queries of these pages.

use std::path::{Path as FilePath, PathBuf};

use assize_domain::error_kind::ErrorKind;
use assize_store::mlflow::limits;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::json;

use super::request::{call, respond};
use super::{ApiError, ApiResult, artifacts, page_queries};
use crate::App;
use crate::access::Right::Read;
use crate::http::route::{Group, Route};
use crate::http::{blocking, json};

/// The address of the pages.
pub const PREFIX: &str = "/mlflow/";

/// What the pages may do. They need no inline scripts, so a mistake of theirs in showing what a
/// model or a client wrote cannot run any; and they reach no other server.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; \
    frame-src 'self' blob: data:; media-src 'self' blob: data:; object-src 'none'; \
    base-uri 'self'; form-action 'self'; frame-ancestors 'self'";

/// The folder of MLflow's pages in a package, or below its source.
const IN_PACKAGE: &str = "server/js/build";

/// Finds the pages in a folder: the pages themselves, the package `mlflow`, or the folder that
/// packages are installed in.
pub fn find(folder: &FilePath) -> Option<PathBuf> {
    let places = [
        folder.to_owned(),
        folder.join(IN_PACKAGE),
        folder.join("mlflow").join(IN_PACKAGE),
    ];
    let is_pages = |it: &PathBuf| it.join("index.html").is_file() && it.join("static").is_dir();
    places.into_iter().find(is_pages)?.canonicalize().ok()
}

/// The routes of the pages, which repeat those of the API below their own address.
pub(crate) fn groups(api: Vec<Group>) -> Vec<Group> {
    let mut groups = vec![Group {
        prefix: "",
        routes: vec![
            Route::get("/mlflow", Read, async || Redirect::permanent(PREFIX)),
            Route::get(PREFIX, Read, index),
            Route::get("/mlflow/static-files/{*path}", Read, file),
            Route::get("/mlflow/get-artifact", Read, artifacts::run_get),
            Route::post("/mlflow/graphql", Read, call(page_queries::answer)),
            Route::get(
                "/mlflow/ajax-api/3.0/mlflow/ui-telemetry",
                Read,
                no_telemetry,
            ),
        ],
        owns_prefix: false,
    }];
    groups.extend(api.into_iter().filter_map(|group| {
        let prefix = match group.prefix {
            "/ajax-api/2.0/mlflow" => "/mlflow/ajax-api/2.0/mlflow",
            "/ajax-api/3.0/mlflow" => "/mlflow/ajax-api/3.0/mlflow",
            "/ajax-api/2.0/mlflow-artifacts" => "/mlflow/ajax-api/2.0/mlflow-artifacts",
            _ => return None,
        };
        Some(Group { prefix, ..group })
    }));
    groups
}

async fn index(state: State<App>) -> Response {
    let mut response = send(state, "index.html".to_owned(), "no-cache").await;
    let policy = HeaderValue::from_static(POLICY);
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, policy);
    response
}

async fn file(state: State<App>, Path(path): Path<String>) -> Response {
    send(state, path, "private, max-age=86400").await
}

/// The pages would ask where to report their use.
async fn no_telemetry() -> Response {
    let settings = json!({
        "disable_ui_telemetry": true,
        "disable_ui_events": [],
        "ui_rollout_percentage": 0,
    });
    json(StatusCode::OK, settings.to_string())
}

async fn send(State(app): State<App>, path: String, caching: &'static str) -> Response {
    respond(async {
        limits::artifact_path(&path)?;
        let kind = media_type(&path);
        let content = blocking(&app, move |app| read(app, &path)).await?;
        let headers: [(HeaderName, &str); 2] = [(CONTENT_TYPE, kind), (CACHE_CONTROL, caching)];
        Ok((headers, Body::from(content)).into_response())
    })
    .await
}

fn read(app: &App, path: &str) -> ApiResult<Vec<u8>> {
    let missing = || {
        ApiError::new(
            ErrorKind::EndpointNotFound,
            format!("MLflow's pages have no file '{path}'"),
        )
    };
    let root = app.config.mlflow_pages.as_ref().ok_or_else(missing)?;
    let file = root.join(path).canonicalize().map_err(|_| missing())?;
    if !file.starts_with(root) || !file.is_file() {
        return Err(missing());
    }
    Ok(std::fs::read(file)?)
}

/// The media type of a file of the pages.
fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "gif" => "image/gif",
        "jpg" | "jpeg" => "image/jpeg",
        "ico" => "image/vnd.microsoft.icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "wasm" => "application/wasm",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_in_their_folder_the_package_or_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find(folder.path()), None);
        let pages = folder.path().join("mlflow/server/js/build");
        std::fs::create_dir_all(pages.join("static")).unwrap();
        std::fs::write(pages.join("index.html"), "").unwrap();
        let expected = pages.canonicalize().unwrap();
        for place in [folder.path(), &folder.path().join("mlflow"), &pages] {
            assert_eq!(find(place).as_ref(), Some(&expected), "{}", place.display());
        }
    }
}
