//! When to send a request again, and how long to wait before.
//!
//! The callers decide what is worth another try ([`Retry`]); here it is only counted and timed.
//! Waits double from one try to the next, and a random half of each is left out, so that several
//! clients do not come back at the same moment. A server's own `Retry-After` is respected up to
//! a limit; a server that asks for more is not asked again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use assize_stats::rng::SplitMix64;
use jiff::fmt::rfc2822;
use ureq::http::{HeaderMap, HeaderName, header};

use crate::{HttpConfig, Sleep};

/// How often a failed request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    No,
    /// Once, whatever else fails before and after: it costs a whole timeout.
    OnceMore,
    /// As often as the configuration says.
    Yes,
}

/// One failed try.
#[derive(Debug)]
pub struct FailedTry<E> {
    pub error: E,
    pub retry: Retry,
    /// What the server asks us to wait.
    pub retry_after: Option<Duration>,
}

impl<E> FailedTry<E> {
    pub fn new(error: E, retry: Retry) -> Self {
        Self {
            error,
            retry,
            retry_after: None,
        }
    }

    /// The same, not to be tried again before the server's own delay.
    #[must_use]
    pub fn after(self, retry_after: Option<Duration>) -> Self {
        Self {
            retry_after,
            ..self
        }
    }
}

/// The tries of one request so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tries {
    failed: u32,
    once_more_used: bool,
}

impl Tries {
    /// After this many failed tries.
    pub const fn after(failed: u32) -> Self {
        Self {
            failed,
            once_more_used: false,
        }
    }
}

/// Counts and times retries.
#[derive(Debug)]
pub struct Backoff {
    retries: u32,
    first_wait: Duration,
    max_wait: Duration,
    sleep: Sleep,
    jitter: Jitter,
}

impl Backoff {
    pub fn new(config: &HttpConfig) -> Self {
        Self {
            retries: config.retries,
            first_wait: config.backoff,
            max_wait: config.max_wait,
            sleep: config.sleep.clone(),
            jitter: Jitter {
                seed: config.jitter_seed,
                drawn: AtomicU64::new(0),
            },
        }
    }

    /// Tries until it succeeds or is not worth another try; returns the last error.
    pub fn run<T, E>(&self, mut attempt: impl FnMut() -> Result<T, FailedTry<E>>) -> Result<T, E> {
        let mut tries = Tries::default();
        loop {
            match attempt() {
                Ok(value) => return Ok(value),
                Err(failed) if self.wait(&mut tries, &failed) => {}
                Err(failed) => return Err(failed.error),
            }
        }
    }

    /// Waits before the next try; `false`, at once, where there is to be none.
    pub fn wait<E>(&self, tries: &mut Tries, failed: &FailedTry<E>) -> bool {
        let is_worth_it = match failed.retry {
            Retry::No => false,
            Retry::OnceMore => !std::mem::replace(&mut tries.once_more_used, true),
            Retry::Yes => true,
        };
        let asked = failed.retry_after.unwrap_or_default();
        if !is_worth_it || tries.failed >= self.retries || asked > self.max_wait {
            return false;
        }
        self.sleep.wait(asked.max(self.wait_after(tries.failed)));
        tries.failed += 1;
        true
    }

    fn wait_after(&self, failed: u32) -> Duration {
        let doubled = self.first_wait.saturating_mul(2_u32.saturating_pow(failed));
        doubled
            .min(self.max_wait)
            .mul_f64(0.5 + 0.5 * self.jitter.next())
    }
}

/// Random numbers, shared by threads.
#[derive(Debug)]
struct Jitter {
    seed: u64,
    drawn: AtomicU64,
}

impl Jitter {
    /// The next number in [0, 1).
    fn next(&self) -> f64 {
        let position = self.drawn.fetch_add(1, Ordering::Relaxed);
        SplitMix64::at(self.seed, position).next_f64()
    }
}

/// What a server asks us to wait: seconds, or an HTTP date that is compared with its own clock.
/// A gateway passes on what its upstream asks for.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn failed(retry: Retry) -> FailedTry<&'static str> {
        FailedTry::new("full", retry)
    }

    /// Runs failures until they end and then succeeds; returns the outcome and the waits.
    fn run(
        retries: u32,
        seed: u64,
        failures: Vec<FailedTry<&'static str>>,
    ) -> (Result<u32, &'static str>, Vec<Duration>) {
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
        let failures = || (0..4).map(|_| failed(Retry::Yes)).collect();
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
        let (outcome, waits) = run(2, 0, (0..9).map(|_| failed(Retry::Yes)).collect());
        assert_eq!(outcome, Err("full"));
        assert_eq!(waits.len(), 2);
    }

    #[test]
    fn a_timeout_is_tried_once_more_even_between_other_failures() {
        let kinds = [Retry::OnceMore, Retry::Yes, Retry::OnceMore, Retry::Yes];
        let (outcome, waits) = run(9, 0, kinds.map(failed).into());
        assert!(outcome.is_err());
        assert_eq!(waits.len(), 2);
    }

    #[test]
    fn the_servers_own_delay_is_kept_up_to_the_limit() {
        let after = |seconds| vec![failed(Retry::Yes).after(Some(Duration::from_secs(seconds)))];
        let (outcome, waits) = run(3, 0, after(7));
        assert_eq!((outcome, waits), (Ok(2), vec![Duration::from_secs(7)]));
        let (outcome, waits) = run(3, 0, after(3600));
        assert_eq!((outcome, waits), (Err("full"), vec![]));
    }

    #[test]
    fn delays_are_read_as_seconds_or_as_a_date() {
        let wait = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for &(name, value) in pairs {
                headers.insert(name, value.parse().unwrap());
            }
            retry_after(&headers)
        };
        let seconds = |s| Some(Duration::from_secs(s));
        assert_eq!(wait(&[("retry-after", "3")]), seconds(3));
        assert_eq!(wait(&[("llm_provider-retry-after", "4")]), seconds(4));
        let date = ("date", "Wed, 21 Oct 2026 07:28:00 GMT");
        let later = ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT");
        let earlier = ("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT");
        assert_eq!(wait(&[later, date]), seconds(30));
        assert_eq!(wait(&[earlier, date]), seconds(0));
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[("retry-after", "-1")]), None);
        assert_eq!(wait(&[]), None);
    }
}
