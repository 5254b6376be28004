//! Metrics for Prometheus at `/metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

use crate::App;

/// Upper bounds of the duration's buckets, in seconds.
const BUCKETS: [f64; 7] = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0];

/// A count that can go up and down.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default, Clone)]
struct Durations {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum_s: f64,
}

/// Response times by route and status, and gauges.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    responses: Mutex<BTreeMap<(String, u16), Durations>>,
    /// Open event streams.
    pub subscribers: Gauge,
}

impl Metrics {
    /// Counts a response. `route` is the route's pattern, which limits the number of labels.
    pub fn record(&self, route: &str, status: u16, took: Duration) {
        let took_s = took.as_secs_f64();
        let mut responses = self
            .responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = responses.entry((route.to_owned(), status)).or_default();
        for (bound, count) in BUCKETS.iter().zip(&mut known.buckets) {
            *count += u64::from(took_s <= *bound);
        }
        known.count += 1;
        known.sum_s += took_s;
    }

    fn text(&self, jobs: usize) -> String {
        let mut text = String::from(
            "# HELP assize_request_seconds Time until the response headers were ready.\n\
             # TYPE assize_request_seconds histogram\n",
        );
        let responses = self
            .responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for ((route, status), it) in responses.iter() {
            let labels = format!("route=\"{route}\",status=\"{status}\"");
            for (bound, count) in BUCKETS.iter().zip(it.buckets) {
                text.push_str(&format!(
                    "assize_request_seconds_bucket{{{labels},le=\"{bound}\"}} {count}\n"
                ));
            }
            let (count, sum_s) = (it.count, it.sum_s);
            text.push_str(&format!(
                "assize_request_seconds_bucket{{{labels},le=\"+Inf\"}} {count}\n\
                 assize_request_seconds_sum{{{labels}}} {sum_s}\n\
                 assize_request_seconds_count{{{labels}}} {count}\n"
            ));
        }
        let subscribers = self.subscribers.get();
        text.push_str(&format!(
            "# HELP assize_jobs_running Jobs whose process is alive.\n\
             # TYPE assize_jobs_running gauge\n\
             assize_jobs_running {jobs}\n\
             # HELP assize_event_watchers Open event streams of jobs.\n\
             # TYPE assize_event_watchers gauge\n\
             assize_event_watchers {subscribers}\n"
        ));
        text
    }
}

pub(crate) async fn show(State(app): State<App>) -> Response {
    let text = app.metrics.text(app.jobs.count_running());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up() {
        let metrics = Metrics::default();
        metrics.record("/x", 200, Duration::from_millis(3));
        metrics.record("/x", 200, Duration::from_mins(1));
        let text = metrics.text(1);
        for line in [
            "assize_request_seconds_bucket{route=\"/x\",status=\"200\",le=\"0.001\"} 0",
            "assize_request_seconds_bucket{route=\"/x\",status=\"200\",le=\"0.005\"} 1",
            "assize_request_seconds_bucket{route=\"/x\",status=\"200\",le=\"+Inf\"} 2",
            "assize_request_seconds_count{route=\"/x\",status=\"200\"} 2",
            "assize_jobs_running 1",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
