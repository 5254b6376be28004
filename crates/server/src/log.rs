//! Request logging: one line per request, with an id that the response repeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;

use crate::metrics::Metrics;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Middleware that measures, counts and logs a request, and sets `x-request-id`.
pub(crate) async fn request(
    State(metrics): State<Arc<Metrics>>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let id = format!("{:08x}", NEXT_ID.fetch_add(1, Ordering::Relaxed));
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "(none)".to_owned(), |it| it.as_str().to_owned());
    let mut response = next.run(request).await;
    let took = started.elapsed();
    let status = response.status().as_u16();
    metrics.record(&route, status, took);
    let took_ms = took.as_secs_f64() * 1000.0;
    if status == 501 {
        // The client used an operation that is not implemented; the server has not failed.
        tracing::warn!(id, %method, path, status, took_ms, "request");
    } else if status >= 500 {
        tracing::error!(id, %method, path, status, took_ms, "request");
    } else {
        tracing::debug!(id, %method, path, status, took_ms, "request");
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}
