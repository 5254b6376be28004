//! The connection to an MLflow server: who we are, what is tried again, what errors mean.
//!
//! One agent keeps connections open, and a few requests at most are in flight at once. What
//! passes by itself (a server that restarts, a full queue) is tried again with growing waits;
//! after that the server is *away*, which callers may tell from a refusal. While it is away
//! every request is tried once only, so that a long list of them does not wait for each. A
//! server that takes a request and keeps silent is away too.
//!
//! An address that can never work is told from a server that is away ([`wrong`]), but only until
//! the server has answered once: after that the same signs are a network's bad day.
//!
//! Most of MLflow's requests can be repeated without harm. Those that cannot (making a run)
//! use [`Rest::post_once`], and their callers look before they ask again.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use assize_store::{Result, StoreError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::{Request, Response, header};
use ureq::tls::TlsConfig;
use ureq::{Agent, Body};

pub use config::Config;
pub(crate) use message::{Answer, Refusal};
use message::{Sent, asked_wait, refusal};

use crate::address::Address;
use crate::parallel::{AT_ONCE, Slots};

mod config;
mod message;
mod wrong;

/// A page of a thousand runs with long params is some megabytes; this is no page.
const MAX_BODY_BYTES: u64 = 512 << 20;
const MAX_CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long a server may keep silent after it was asked, and how long while it is away.
const SILENCE: Duration = Duration::from_secs(30);
const SILENCE_WHILE_AWAY: Duration = Duration::from_secs(5);
/// Searches in large experiments take minutes.
const SEARCH_SILENCE: Duration = Duration::from_mins(2);
/// Files of more bytes take the server a while to pass on.
const LARGE_BODY: usize = 1 << 20;

/// Why one try failed.
enum Failure {
    /// Worth another try, but not before this.
    Passing {
        reason: String,
        asked_wait: Option<Duration>,
        /// The server is there and says that it cannot.
        is_answer: bool,
    },
    Lasting(StoreError),
}

pub(crate) struct Rest {
    agent: Agent,
    address: Address,
    authorization: Option<String>,
    host: Option<String>,
    retries: u32,
    backoff: Duration,
    max_wait: Duration,
    jitter: AtomicU64,
    slots: Slots,
    away: AtomicBool,
    /// It has answered as an MLflow server does.
    is_known: AtomicBool,
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest")
            .field("uri", &self.address.base)
            .finish_non_exhaustive()
    }
}

impl Rest {
    pub fn new(config: &Config) -> Result<Self> {
        let address = Address::parse(&config.uri)?;
        let mut settings = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(config.timeout))
            .timeout_connect(Some(config.timeout.min(MAX_CONNECT_TIME)))
            .max_idle_connections(AT_ONCE)
            .max_idle_connections_per_host(AT_ONCE)
            .no_delay(true)
            .user_agent(concat!("assize/", env!("CARGO_PKG_VERSION")));
        if config.insecure_tls {
            let tls = TlsConfig::builder().disable_verification(true).build();
            settings = settings.tls_config(tls);
        }
        if address.is_this_machine() {
            settings = settings.proxy(None);
        }
        Ok(Self {
            agent: settings.build().into(),
            authorization: address.authorization(config),
            host: config.host.as_deref().map(str::to_lowercase),
            address,
            retries: config.retries,
            backoff: config.backoff,
            max_wait: config.max_wait,
            jitter: AtomicU64::new(config.jitter_seed),
            slots: Slots::new(AT_ONCE),
            away: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
        })
    }

    /// Where the server is, without what opens doors.
    pub fn uri(&self) -> &str {
        &self.address.base
    }

    /// `GET`, for JSON.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>> {
        self.json("GET", path, None)
    }

    /// `POST` of something that may safely be sent again.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<Answer<T>> {
        self.json("POST", path, Some(body))
    }

    /// Any other method with a JSON body.
    pub fn send<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        body: &Value,
    ) -> Result<Answer<T>> {
        self.json(method, path, Some(body))
    }

    /// `POST` of something that must not blindly be sent again: `None` where nobody knows
    /// whether it arrived. `tried` counts the tries so far; past the last one it is an error.
    pub fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        tried: u32,
    ) -> Result<Option<Answer<T>>> {
        let sent = Sent::json("POST", path, Some(body));
        match self.attempt(&sent) {
            Ok(answer) => {
                self.away.store(false, Ordering::Relaxed);
                let answer = answer.map(|bytes| self.parse(path, &bytes));
                Ok(Some(flip(answer)?))
            }
            Err(Failure::Lasting(error)) => Err(error),
            Err(Failure::Passing {
                reason, asked_wait, ..
            }) => {
                self.wait_or_give_up(tried, reason, asked_wait)?;
                Ok(None)
            }
        }
    }

    /// `GET`, for bytes.
    pub fn bytes_get(&self, path: &str) -> Result<Answer<Vec<u8>>> {
        self.run(&Sent::bytes("GET", path, None))
    }

    pub fn bytes_put(
        &self,
        method: &'static str,
        path: &str,
        bytes: &[u8],
    ) -> Result<Answer<Vec<u8>>> {
        self.run(&Sent::bytes(method, path, Some(bytes)))
    }

    /// Like [`Rest::bytes_put`] and [`Rest::bytes_get`] to see whether the server can do it: that
    /// it fails inside is an answer too, that it is away is not.
    pub fn probe(
        &self,
        method: &'static str,
        path: &str,
        bytes: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let mut tried = 0;
        loop {
            match self.attempt(&Sent::bytes(method, path, bytes)) {
                Ok(answer) => return Ok(answer.ok()),
                Err(Failure::Lasting(error)) => return Err(error),
                Err(Failure::Passing {
                    is_answer: true, ..
                }) => return Ok(None),
                Err(Failure::Passing {
                    reason, asked_wait, ..
                }) => {
                    self.wait_or_give_up(tried, reason, asked_wait)?;
                    tried += 1;
                }
            }
        }
    }

    /// A refusal that nobody expected.
    pub fn refused(&self, what: &str, refusal: &Refusal) -> StoreError {
        let Refusal {
            status,
            code,
            message,
        } = refusal;
        let code = if code.is_empty() {
            String::new()
        } else {
            format!(" {code}")
        };
        self.unusable(format!(
            "the server refused {what}: {message} ({status}{code})"
        ))
    }

    pub fn unusable(&self, reason: String) -> StoreError {
        StoreError::Unusable {
            path: self.address.base.clone(),
            reason,
        }
    }

    fn json<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer<T>> {
        let answer = self.run(&Sent::json(method, path, body))?;
        flip(answer.map(|bytes| self.parse(path, &bytes)))
    }

    fn parse<T: DeserializeOwned>(&self, path: &str, bytes: &[u8]) -> Result<T> {
        let parsed = serde_json::from_slice(bytes).map_err(|error| {
            let reason = format!(
                "the answer to {path} is not MLflow's ({error}): is this the address of an MLflow \
                 server, with its path prefix?"
            );
            if self.is_known.load(Ordering::Relaxed) {
                self.unusable(reason)
            } else {
                self.wrong(reason)
            }
        })?;
        self.is_known.store(true, Ordering::Relaxed);
        Ok(parsed)
    }

    fn wrong(&self, reason: String) -> StoreError {
        StoreError::InvalidAddress {
            uri: self.address.base.clone(),
            reason,
        }
    }

    fn run(&self, sent: &Sent<'_>) -> Result<Answer<Vec<u8>>> {
        let mut tried = 0;
        loop {
            match self.attempt(sent) {
                Ok(answer) => {
                    self.away.store(false, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(Failure::Lasting(error)) => return Err(error),
                Err(Failure::Passing {
                    reason, asked_wait, ..
                }) => {
                    self.wait_or_give_up(tried, reason, asked_wait)?;
                    tried += 1;
                }
            }
        }
    }

    fn wait_or_give_up(
        &self,
        tried: u32,
        reason: String,
        asked_wait: Option<Duration>,
    ) -> Result<()> {
        let asked = asked_wait.unwrap_or_default();
        if tried >= self.retries || asked > self.max_wait || self.away.load(Ordering::Relaxed) {
            self.away.store(true, Ordering::Relaxed);
            return Err(StoreError::Unreachable {
                uri: self.address.base.clone(),
                reason,
            });
        }
        let doubled = self.backoff.saturating_mul(2_u32.saturating_pow(tried));
        let wait = doubled
            .min(self.max_wait)
            .mul_f64(0.5 + 0.5 * self.random());
        std::thread::sleep(asked.max(wait));
        Ok(())
    }

    /// A number in [0, 1): `SplitMix64`, shared by threads.
    fn random(&self) -> f64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self
            .jitter
            .fetch_add(STEP, Ordering::Relaxed)
            .wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn attempt(&self, sent: &Sent<'_>) -> std::result::Result<Answer<Vec<u8>>, Failure> {
        let _slot = self.slots.take();
        let mut request = Request::builder()
            .method(sent.method)
            .uri(format!("{}{}", self.address.base, sent.path));
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        if let Some(host) = &self.host {
            request = request.header(header::HOST, host);
        }
        if let Some(kind) = sent.content_type {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let silence = self.patience(sent);
        let answered = match &sent.body {
            Some(body) => request
                .body(body.as_ref())
                .map_err(ureq::Error::from)
                .and_then(|request| self.ask(request, silence)),
            None => request
                .body(())
                .map_err(ureq::Error::from)
                .and_then(|request| self.ask(request, silence)),
        };
        let mut response = answered.map_err(|error| self.transport(&error))?;
        let status = response.status().as_u16();
        let asked_wait = asked_wait(&response);
        let limited = response.body_mut().with_config().limit(MAX_BODY_BYTES);
        let bytes = limited
            .read_to_vec()
            .map_err(|error| self.transport(&error))?;
        if (200..300).contains(&status) {
            return Ok(Ok(bytes));
        }
        let refusal = refusal(status, &bytes);
        if !["", "ENDPOINT_NOT_FOUND"].contains(&refusal.code.as_str()) {
            self.is_known.store(true, Ordering::Relaxed);
        }
        match status {
            408 | 429 | 500 | 502..=504 | 506.. => Err(Failure::Passing {
                reason: format!("it answers {status}: {}", refusal.message),
                asked_wait,
                is_answer: status == 500,
            }),
            _ => match self.closed_door(&refusal) {
                Some(error) => Err(Failure::Lasting(error)),
                None => Ok(Err(refusal)),
            },
        }
    }

    /// How long the server may be silent after it was asked.
    fn patience(&self, sent: &Sent<'_>) -> Option<Duration> {
        let is_large = sent.body.as_ref().is_some_and(|it| it.len() > LARGE_BODY);
        let is_known = self.is_known.load(Ordering::Relaxed);
        if self.away.load(Ordering::Relaxed) {
            Some(SILENCE_WHILE_AWAY)
        } else if is_large {
            None
        } else if is_known && sent.path.ends_with("/search") {
            Some(SEARCH_SILENCE)
        } else {
            Some(SILENCE)
        }
    }

    fn ask<S: ureq::AsSendBody>(
        &self,
        request: Request<S>,
        silence: Option<Duration>,
    ) -> std::result::Result<Response<Body>, ureq::Error> {
        let request = self.agent.configure_request(request);
        self.agent
            .run(request.timeout_recv_response(silence).build())
    }

    fn transport(&self, error: &ureq::Error) -> Failure {
        if !self.is_known.load(Ordering::Relaxed)
            && let Some(reason) = wrong::connection(error, &self.address)
        {
            return Failure::Lasting(self.wrong(reason));
        }
        let reason = match error {
            ureq::Error::Timeout(_) => "no answer in time".to_owned(),
            other => other.to_string(),
        };
        match error {
            // Another try would take as long again.
            ureq::Error::Timeout(_) => Failure::Passing {
                reason,
                asked_wait: Some(Duration::MAX),
                is_answer: false,
            },
            ureq::Error::Io(_) | ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => {
                Failure::Passing {
                    reason,
                    asked_wait: None,
                    is_answer: false,
                }
            }
            _ => Failure::Lasting(self.unusable(format!("cannot be asked: {reason}"))),
        }
    }

    /// Answers that every further request would get too, with what to do about them.
    fn closed_door(&self, refusal: &Refusal) -> Option<StoreError> {
        let reason = match refusal.status {
            401 => "the server wants to know who you are: set MLFLOW_TRACKING_USERNAME and \
                    MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
                .to_owned(),
            403 if refusal.message.contains("Invalid Host header") => format!(
                "the server does not accept requests for the host '{}' (403, Invalid Host header): \
                 start it with --allowed-hosts, or set MLFLOW_HOST_HEADER to a name that it \
                 accepts, for example localhost:{}",
                self.host.as_deref().unwrap_or(&self.address.host),
                self.address.port
            ),
            403 => format!("you may not do this here: {}", refusal.message),
            300..=399 => {
                return Some(self.wrong(
                    "the server sends us elsewhere: use the address that it redirects to, with \
                     its scheme and path"
                        .to_owned(),
                ));
            }
            _ if !self.is_known.load(Ordering::Relaxed) => {
                return Some(self.wrong(wrong::answer(refusal)));
            }
            _ => return None,
        };
        Some(self.unusable(reason))
    }
}

fn flip<T>(answer: std::result::Result<Result<T>, Refusal>) -> Result<Answer<T>> {
    match answer {
        Ok(parsed) => parsed.map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    }
}
