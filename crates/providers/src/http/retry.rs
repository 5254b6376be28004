//! What is worth another try, and how long to wait for it.
//!
//! Worth it is what passes by itself: a full queue or a rate limit (429, 503, 529), a
//! gateway without its backend (502, 504), a connection refused or reset. A timeout has
//! already cost its whole time, so it gets one more try and no second; the same for an
//! upstream's timeout, which gateways report as 408. Everything else would fail the same
//! way again, 500 included: local servers answer 500 to a model that does not fit into
//! memory or a runner that crashed on this very input, and gateways to a missing key.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::fmt::rfc2822;
use ureq::http::{HeaderMap, HeaderName, header};

use super::{HttpConfig, Sleep};
use crate::{ProviderError, Result};

/// How often a failed request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    No,
    OnceMore,
    Yes,
}

/// One failed try.
#[derive(Debug)]
pub(super) struct Failure {
    error: ProviderError,
    retry: Retry,
    asked_wait: Option<Duration>,
}

impl Failure {
    pub(super) fn new(error: ProviderError, retry: Retry) -> Self {
        Self {
            error,
            retry,
            asked_wait: None,
        }
    }

    /// The same, with another opinion on trying again.
    pub(super) fn worth(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// The same, not to be tried again before the server's own delay.
    pub(super) fn after(self, asked_wait: Option<Duration>) -> Self {
        Self { asked_wait, ..self }
    }
}

pub(super) fn for_status(status: u16) -> Retry {
    match status {
        429 | 502 | 503 | 504 | 529 => Retry::Yes,
        408 => Retry::OnceMore,
        _ => Retry::No,
    }
}

/// What the server asks us to wait: seconds, or a date that is compared with its own clock.
pub(super) fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    let from_upstream = HeaderName::from_static("llm_provider-retry-after");
    let asked = [header::RETRY_AFTER, from_upstream]
        .iter()
        .find_map(|name| headers.get(name)?.to_str().ok())?
        .trim();
    if let Ok(seconds) = asked.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = rfc2822::parse(asked).ok()?.timestamp();
    let now = rfc2822::parse(headers.get(header::DATE)?.to_str().ok()?).ok()?;
    let wait_ms = until.as_millisecond() - now.timestamp().as_millisecond();
    Some(Duration::from_millis(wait_ms.try_into().unwrap_or(0)))
}

/// Sends again what is worth it, with waits that grow.
#[derive(Debug)]
pub(super) struct Backoff {
    retries: u32,
    first_wait: Duration,
    max_wait: Duration,
    sleep: Sleep,
    jitter: Jitter,
}

impl Backoff {
    pub(super) fn new(config: &HttpConfig) -> Self {
        Self {
            retries: config.retries,
            first_wait: config.backoff,
            max_wait: config.max_wait,
            sleep: config.sleep.clone(),
            jitter: Jitter(AtomicU64::new(config.jitter_seed)),
        }
    }

    pub(super) fn run<T>(
        &self,
        mut attempt: impl FnMut() -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let mut once_more_used = false;
        let mut tried: u32 = 0;
        loop {
            let failure = match attempt() {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            let worth_it = match failure.retry {
                Retry::No => false,
                Retry::OnceMore => !std::mem::replace(&mut once_more_used, true),
                Retry::Yes => true,
            };
            let asked = failure.asked_wait.unwrap_or_default();
            if !worth_it || tried >= self.retries || asked > self.max_wait {
                return Err(failure.error);
            }
            self.sleep.wait(asked.max(self.wait_before(tried)));
            tried += 1;
        }
    }

    fn wait_before(&self, tried: u32) -> Duration {
        let doubled = self.first_wait.saturating_mul(2_u32.saturating_pow(tried));
        doubled
            .min(self.max_wait)
            .mul_f64(0.5 + 0.5 * self.jitter.next())
    }
}

/// `SplitMix64`, shared by threads: each call moves the counter and mixes what it was.
#[derive(Debug)]
struct Jitter(AtomicU64);

impl Jitter {
    /// The next number in [0, 1).
    fn next(&self) -> f64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn busy() -> ProviderError {
        ProviderError::Busy {
            host: "h".to_owned(),
            status: 503,
            message: "full".to_owned(),
            retry_after_ms: None,
        }
    }

    /// Runs failures until they end and then succeeds; returns the outcome and the waits.
    fn run(retries: u32, seed: u64, failures: Vec<Failure>) -> (Result<u32>, Vec<Duration>) {
        let waits = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&waits);
        let backoff = Backoff::new(&HttpConfig {
            retries,
            jitter_seed: seed,
            sleep: Sleep::new(move |wait| record.lock().unwrap().push(wait)),
            ..HttpConfig::default()
        });
        let mut failures = failures.into_iter();
        let mut tries = 0;
        let outcome = backoff.run(|| {
            tries += 1;
            failures.next().map_or(Ok(tries), Err)
        });
        let waits = waits.lock().unwrap().clone();
        (outcome, waits)
    }

    #[test]
    fn waits_double_within_their_jitter_and_follow_the_seed() {
        let failures = || (0..4).map(|_| Failure::new(busy(), Retry::Yes)).collect();
        let (outcome, waits) = run(4, 1, failures());
        assert_eq!(outcome, Ok(5));
        for (wait, full_ms) in waits.iter().zip([500_u64, 1000, 2000, 4000]) {
            let full = Duration::from_millis(full_ms);
            assert!(*wait >= full / 2 && *wait < full, "{wait:?} of {full:?}");
        }
        assert_eq!(run(4, 1, failures()).1, waits);
        assert_ne!(run(4, 2, failures()).1, waits);
    }

    #[test]
    fn retries_are_bounded_and_the_last_error_is_returned() {
        let failures = (0..9).map(|_| Failure::new(busy(), Retry::Yes)).collect();
        let (outcome, waits) = run(2, 0, failures);
        assert_eq!(outcome, Err(busy()));
        assert_eq!(waits.len(), 2);
    }

    #[test]
    fn a_timeout_is_tried_once_more_even_between_other_failures() {
        let kinds = [Retry::OnceMore, Retry::Yes, Retry::OnceMore, Retry::Yes];
        let failures = kinds.map(|kind| Failure::new(busy(), kind)).into();
        let (outcome, waits) = run(9, 0, failures);
        assert!(outcome.is_err());
        assert_eq!(waits.len(), 2);
    }

    #[test]
    fn the_servers_own_delay_is_kept_up_to_the_limit() {
        let after = |seconds| {
            let failure = Failure::new(busy(), Retry::Yes);
            vec![failure.after(Some(Duration::from_secs(seconds)))]
        };
        let (outcome, waits) = run(3, 0, after(7));
        assert_eq!((outcome, waits), (Ok(2), vec![Duration::from_secs(7)]));
        let (outcome, waits) = run(3, 0, after(3600));
        assert_eq!((outcome, waits), (Err(busy()), vec![]));
    }

    #[test]
    fn delays_are_read_as_seconds_or_as_a_date() {
        let wait = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for &(name, value) in pairs {
                headers.insert(name, value.parse().unwrap());
            }
            asked_wait(&headers)
        };
        let seconds = |s| Some(Duration::from_secs(s));
        assert_eq!(wait(&[("retry-after", "3")]), seconds(3));
        assert_eq!(wait(&[("llm_provider-retry-after", "4")]), seconds(4));
        assert_eq!(
            wait(&[
                ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"),
                ("date", "Wed, 21 Oct 2026 07:28:00 GMT"),
            ]),
            seconds(30)
        );
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[("retry-after", "-1")]), None);
        assert_eq!(wait(&[]), None);
    }
}
