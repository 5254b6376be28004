//! The connection to an MLflow server: responses, retries, and when it counts as unreachable.
//!
//! The HTTP client is that of `assize_http`, with a limited number of requests in flight. Transient
//! errors (a restart, a full queue) are retried with exponential backoff. After the last retry the
//! server is *unreachable*, which callers can distinguish from a rejected request. While it is
//! unreachable, each request is tried only once, so that a long list of requests does not wait for
//! each. A server that accepts a request and does not respond in time is unreachable, too.
//!
//! An invalid address is distinguished from an unreachable server ([`invalid_address`]) only until
//! the server has responded once: after that, the same symptoms are transient network errors.
//!
//! Most of MLflow's requests are idempotent. Those that are not (creating a run) use
//! [`Rest::post_once`], and their callers check the result before they send the request again.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_http::{
    Address, Client, FailedTry, Options, Request, Response, Retry, TransportError,
    TransportErrorKind, Tries,
};
use assize_store::{Result, StoreError};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use config::Config;
pub(crate) use refusal::{Answer, Refusal};

use crate::parallel::AT_ONCE;

mod config;
mod invalid_address;
mod refusal;

/// A page of a thousand runs with long params has a few megabytes. A larger body is an error.
const MAX_BODY_BYTES: u64 = 512 << 20;
/// The response timeout, and the one that applies while the server is unreachable.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
const RESPONSE_TIMEOUT_UNREACHABLE: Duration = Duration::from_secs(5);
/// Searches in large experiments take minutes.
const SEARCH_TIMEOUT: Duration = Duration::from_mins(2);
/// Larger uploads have no response timeout, because the server has to forward them.
const LARGE_BODY: usize = 1 << 20;
/// How often a request is sent again whose rows another process inserted at the same moment.
const INSERT_RACES: usize = 5;

/// Why a request failed.
enum Failure {
    /// A transient error, which is worth a retry.
    Transient {
        reason: String,
        /// The server responded with an internal error.
        is_answer: bool,
    },
    Permanent(StoreError),
}

/// One attempt at a request.
type Try<T> = std::result::Result<T, FailedTry<Failure>>;

pub(crate) struct Rest {
    client: Client,
    /// The last request failed after all retries: others are tried only once.
    is_unreachable: AtomicBool,
    /// The server has responded as an MLflow server does.
    is_known: AtomicBool,
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest")
            .field("uri", &self.uri())
            .finish_non_exhaustive()
    }
}

impl Rest {
    pub fn new(config: &Config) -> Result<Self> {
        let address = Address::parse(&config.uri).map_err(|error| StoreError::InvalidAddress {
            uri: error.address,
            reason: format!("this is not a valid server address: {}", error.reason),
        })?;
        let options = Options {
            authorization: config.authorization(&address),
            host_header: config.host.as_deref().map(str::to_lowercase),
            insecure_tls: config.insecure_tls,
            max_body_bytes: MAX_BODY_BYTES,
            max_in_flight: Some(AT_ONCE),
        };
        Ok(Self {
            client: Client::new(address, options, &config.http),
            is_unreachable: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
        })
    }

    /// The server's address, without credentials.
    pub fn uri(&self) -> &str {
        self.client.address().base()
    }

    /// `GET` of JSON.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>> {
        self.json("GET", path, None)
    }

    /// `POST` of an idempotent request. Two processes may write the same row at the same moment,
    /// for example one point of a metric in the same millisecond, and MLflow then refuses one of
    /// them, whose request may be half done. It is sent again: rows that are there are accepted.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<Answer<T>> {
        for _ in 0..INSERT_RACES {
            match self.json("POST", path, Some(body))? {
                Err(refusal) if refusal.is_insert_race() => {}
                answer => return Ok(answer),
            }
        }
        self.json("POST", path, Some(body))
    }

    /// A JSON request with another method.
    pub fn send<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        body: &Value,
    ) -> Result<Answer<T>> {
        self.json(method, path, Some(body))
    }

    /// `POST` of a request that is not idempotent: `None` if it is not known whether it arrived.
    /// `tried` counts the attempts so far; after the last one it is an error.
    pub fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        tried: u32,
    ) -> Result<Option<Answer<T>>> {
        let request = Request::new("POST", path).json(body);
        match self.attempt(&request) {
            Ok(answer) => {
                self.is_unreachable.store(false, Ordering::Relaxed);
                Ok(Some(self.parse_answer(path, answer)?))
            }
            Err(failed) => {
                let backoff = self.client.backoff();
                if backoff.wait(&mut Tries::after(tried), &failed) {
                    Ok(None)
                } else {
                    Err(self.give_up(failed.error))
                }
            }
        }
    }

    /// `GET` of bytes.
    pub fn bytes_get(&self, path: &str) -> Result<Answer<Vec<u8>>> {
        self.run(&Request::get(path))
    }

    pub fn bytes_put(
        &self,
        method: &'static str,
        path: &str,
        bytes: &[u8],
    ) -> Result<Answer<Vec<u8>>> {
        self.run(&Request::new(method, path).bytes(bytes))
    }

    /// Like [`Rest::bytes_put`] and [`Rest::bytes_get`], to find out whether the server supports
    /// it: an internal error of the server is a result, an unreachable server is an error.
    pub fn probe(
        &self,
        method: &'static str,
        path: &str,
        bytes: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let request = match bytes {
            Some(bytes) => Request::new(method, path).bytes(bytes),
            None => Request::new(method, path),
        };
        let outcome = self.client.backoff().run(|| match self.attempt(&request) {
            Ok(answer) => Ok(answer.ok()),
            Err(FailedTry {
                error:
                    Failure::Transient {
                        is_answer: true, ..
                    },
                ..
            }) => Ok(None),
            Err(failed) => Err(failed),
        });
        outcome.map_err(|failure| self.give_up(failure))
    }

    /// The error for a rejected request that the caller does not handle.
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
            path: self.uri().to_owned(),
            reason,
        }
    }

    fn json<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer<T>> {
        let request = match body {
            Some(body) => Request::new(method, path).json(body),
            None => Request::new(method, path),
        };
        let answer = self.run(&request)?;
        self.parse_answer(path, answer)
    }

    fn parse_answer<T: DeserializeOwned>(
        &self,
        path: &str,
        answer: Answer<Vec<u8>>,
    ) -> Result<Answer<T>> {
        match answer {
            Ok(bytes) => self.parse(path, &bytes).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    fn parse<T: DeserializeOwned>(&self, path: &str, bytes: &[u8]) -> Result<T> {
        let parsed = serde_json::from_slice(bytes).map_err(|error| {
            let reason = format!(
                "the response to {path} is not a valid MLflow response ({error}): check that this \
                 is the address of an MLflow server, with its path prefix"
            );
            if self.is_known.load(Ordering::Relaxed) {
                self.unusable(reason)
            } else {
                self.invalid_address(reason)
            }
        })?;
        self.is_known.store(true, Ordering::Relaxed);
        Ok(parsed)
    }

    fn invalid_address(&self, reason: String) -> StoreError {
        StoreError::InvalidAddress {
            uri: self.uri().to_owned(),
            reason,
        }
    }

    fn run(&self, request: &Request<'_>) -> Result<Answer<Vec<u8>>> {
        let outcome = self.client.backoff().run(|| self.attempt(request));
        let answer = outcome.map_err(|failure| self.give_up(failure))?;
        self.is_unreachable.store(false, Ordering::Relaxed);
        Ok(answer)
    }

    /// The error of a request that is not retried.
    fn give_up(&self, failure: Failure) -> StoreError {
        match failure {
            Failure::Permanent(error) => error,
            Failure::Transient { reason, .. } => {
                self.is_unreachable.store(true, Ordering::Relaxed);
                StoreError::Unreachable {
                    uri: self.uri().to_owned(),
                    reason,
                }
            }
        }
    }

    fn attempt(&self, request: &Request<'_>) -> Try<Answer<Vec<u8>>> {
        let request = request.clone().silence(self.response_timeout(request));
        match self.client.attempt(&request) {
            Ok(response) => self.answer(response),
            Err(error) => Err(self.transport_failure(error)),
        }
    }

    fn answer(&self, response: Response) -> Try<Answer<Vec<u8>>> {
        if response.is_success() {
            return Ok(Ok(response.body));
        }
        let asked = response.retry_after();
        if let Some(error) = response.incomplete {
            return Err(self.transport_failure(error));
        }
        let refusal = Refusal::read(response.status, &response.body);
        if !["", "ENDPOINT_NOT_FOUND"].contains(&refusal.code.as_str()) {
            self.is_known.store(true, Ordering::Relaxed);
        }
        match refusal.status {
            408 | 429 | 500 | 502..=504 | 506.. => {
                let reason = format!("it returned {}: {}", refusal.status, refusal.message);
                Err(self
                    .transient(reason, refusal.status == 500, Retry::Yes)
                    .after(asked))
            }
            _ => match self.permanent_refusal(&refusal) {
                Some(error) => Err(FailedTry::new(Failure::Permanent(error), Retry::No)),
                None => Ok(Err(refusal)),
            },
        }
    }

    fn transient(&self, reason: String, is_answer: bool, retry: Retry) -> FailedTry<Failure> {
        let retry = if self.is_unreachable.load(Ordering::Relaxed) {
            Retry::No
        } else {
            retry
        };
        FailedTry::new(Failure::Transient { reason, is_answer }, retry)
    }

    /// The response timeout of a request.
    fn response_timeout(&self, request: &Request<'_>) -> Option<Duration> {
        let is_known = self.is_known.load(Ordering::Relaxed);
        if self.is_unreachable.load(Ordering::Relaxed) {
            Some(RESPONSE_TIMEOUT_UNREACHABLE)
        } else if request.body_len() > LARGE_BODY {
            None
        } else if is_known && request.path().ends_with("/search") {
            Some(SEARCH_TIMEOUT)
        } else {
            Some(RESPONSE_TIMEOUT)
        }
    }

    fn transport_failure(&self, error: TransportError) -> FailedTry<Failure> {
        let address = self.client.address();
        if !self.is_known.load(Ordering::Relaxed)
            && let Some(reason) = invalid_address::from_transport(&error, address)
        {
            let invalid = Failure::Permanent(self.invalid_address(reason));
            return FailedTry::new(invalid, Retry::No);
        }
        match error.kind {
            // Another attempt would take as long again.
            TransportErrorKind::Timeout | TransportErrorKind::ConnectTimeout => {
                self.transient(error.reason, false, Retry::No)
            }
            _ if error.is_transient => self.transient(error.reason, false, Retry::Yes),
            _ => {
                let error = self.unusable(format!("the request failed: {}", error.reason));
                FailedTry::new(Failure::Permanent(error), Retry::No)
            }
        }
    }

    /// The error for responses that every further request would get, too.
    fn permanent_refusal(&self, refusal: &Refusal) -> Option<StoreError> {
        let reason = match refusal.status {
            401 => "authentication required: set MLFLOW_TRACKING_USERNAME and \
                    MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
                .to_owned(),
            403 if refusal.message.contains("Invalid Host header") => format!(
                "the server does not accept requests for the host '{}' (403, Invalid Host header): \
                 start it with --allowed-hosts, or set MLFLOW_HOST_HEADER to a name that it \
                 accepts, for example localhost:{}",
                self.client.host_header(),
                self.client.address().port()
            ),
            403 => format!("permission denied: {}", refusal.message),
            300..=399 => {
                return Some(self.invalid_address(
                    "the server redirects to another address: use that one, with its scheme and \
                     path"
                        .to_owned(),
                ));
            }
            _ if !self.is_known.load(Ordering::Relaxed) => {
                return Some(self.invalid_address(invalid_address::from_answer(refusal)));
            }
            _ => return None,
        };
        Some(self.unusable(reason))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    /// A stand-in for an MLflow server that refuses the first `races` requests as a server does
    /// whose database has just got the same row from another process.
    fn racing_server(races: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut reader = BufReader::new(stream.expect("a connection"));
                let mut length = 0;
                let mut line = String::new();
                while reader.read_line(&mut line).expect("a header") > 2 {
                    let header = line.to_lowercase();
                    if let Some(value) = header.strip_prefix("content-length:") {
                        length = value.trim().parse().expect("a length");
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body");
                let (status, body) = if number < races {
                    let message = "(sqlite3.IntegrityError) UNIQUE constraint failed: metrics.key";
                    let refusal = json!({"error_code": "BAD_REQUEST", "message": message});
                    ("400 Bad Request", refusal.to_string())
                } else {
                    ("200 OK", json!({"request": number}).to_string())
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
                     content-length: {}\r\n\r\n",
                    body.len()
                );
                let mut stream = reader.into_inner();
                stream
                    .write_all((head + &body).as_bytes())
                    .expect("an answer");
            }
        });
        url
    }

    #[test]
    fn a_request_that_lost_an_insert_race_is_sent_again_and_not_forever() {
        let post = |races| {
            let rest = Rest::new(&Config::new(&racing_server(races))).expect("an address");
            let path = "/api/2.0/mlflow/runs/log-batch";
            rest.post::<Value>(path, &json!({"run_id": "a"}))
                .expect("a reachable server")
        };
        assert_eq!(post(2).expect("accepted"), json!({"request": 2}));
        assert!(post(100).expect_err("refused").is_insert_race());
    }
}
