//! The blocking HTTP client: one connection pool to one server.
//!
//! Every answer is bounded in time and in size. Redirects are reported and not followed: a
//! redirected POST loses its body. A proxy named in the environment is used (by ureq), except
//! for servers on loopback.

use std::fmt;
use std::io::Read as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ureq::http::{Request as HttpRequest, Response as HttpResponse, header};
use ureq::tls::TlsConfig;
use ureq::{Agent, AsSendBody, Body};

use crate::slots::Slots;
use crate::{Address, Backoff, Credentials, FailedTry, Request, Response, TransportError};

const MAX_CONNECT_TIME: Duration = Duration::from_secs(10);
/// One for each request in flight; ureq's default of three would reconnect with `-j 4`.
const MAX_IDLE_CONNECTIONS: usize = 1024;
/// Error bodies are only read to quote them.
const MAX_ERROR_BODY_BYTES: u64 = 1 << 20;

/// How patient to be with a server.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// The longest that one request may take, from connecting to the answer's last byte.
    pub timeout: Duration,
    /// How many times a request is sent again where that is worth it; a request that timed
    /// out at most once.
    pub retries: u32,
    /// The wait before the first retry. It doubles with each further one, and a random half
    /// of it is left out, so that several clients do not come back at the same moment.
    pub backoff: Duration,
    /// The longest wait before a retry. A server that asks for more is not asked again.
    pub max_wait: Duration,
    /// Where the randomness of the waits comes from.
    pub jitter_seed: u64,
    /// How waits are carried out.
    pub sleep: Sleep,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(2),
            retries: 3,
            backoff: Duration::from_millis(500),
            max_wait: Duration::from_mins(1),
            jitter_seed: 0,
            sleep: Sleep::default(),
        }
    }
}

/// A way to wait: the real one by default, something faster or interruptible where given.
#[derive(Clone)]
pub struct Sleep(Arc<dyn Fn(Duration) + Send + Sync>);

impl Sleep {
    /// Waits by calling `wait`.
    pub fn new(wait: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self(Arc::new(wait))
    }

    pub fn wait(&self, duration: Duration) {
        (self.0)(duration);
    }
}

impl Default for Sleep {
    fn default() -> Self {
        Self::new(thread::sleep)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleep")
    }
}

/// How a client identifies itself.
#[derive(Clone)]
pub enum Authorization {
    Basic(Credentials),
    Bearer(String),
}

impl Authorization {
    fn header(&self) -> String {
        match self {
            Self::Basic(Credentials { username, password }) => {
                format!("Basic {}", BASE64.encode(format!("{username}:{password}")))
            }
            Self::Bearer(token) => format!("Bearer {token}"),
        }
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic(_) => "Basic",
            Self::Bearer(_) => "Bearer",
        })
    }
}

/// What is particular to a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it is missing, the address's own credentials are used.
    pub authorization: Option<Authorization>,
    /// What to send as `Host`, where the server does not accept its own name.
    pub host_header: Option<String>,
    /// Accept any certificate.
    pub insecure_tls: bool,
    /// The longest answer.
    pub max_body_bytes: u64,
    /// Requests in flight at most; further ones wait for their turn.
    pub max_in_flight: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            authorization: None,
            host_header: None,
            insecure_tls: false,
            max_body_bytes: 16 << 20,
            max_in_flight: None,
        }
    }
}

/// A connection to one server. Threads share it.
pub struct Client {
    agent: Agent,
    address: Address,
    /// The value of the `Authorization` header.
    authorization: Option<String>,
    host_header: Option<String>,
    max_body_bytes: u64,
    slots: Option<Slots>,
    timeout: Duration,
    backoff: Backoff,
}

impl fmt::Debug for Client {
    /// Leaves the credentials out, so that no log can show them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.address.base())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client for the server at `address`; nothing is asked of it yet.
    pub fn new(address: Address, options: Options, config: &HttpConfig) -> Self {
        let idle = options.max_in_flight.unwrap_or(MAX_IDLE_CONNECTIONS);
        let mut settings = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(config.timeout))
            .timeout_connect(Some(config.timeout.min(MAX_CONNECT_TIME)))
            .max_idle_connections(idle)
            .max_idle_connections_per_host(idle)
            .no_delay(true)
            .user_agent(concat!("assize/", env!("CARGO_PKG_VERSION")));
        if options.insecure_tls {
            let tls = TlsConfig::builder().disable_verification(true).build();
            settings = settings.tls_config(tls);
        }
        if address.is_loopback() {
            settings = settings.proxy(None);
        }
        let from_address = || address.credentials().cloned().map(Authorization::Basic);
        let authorization = options.authorization.or_else(from_address);
        Self {
            agent: settings.build().into(),
            authorization: authorization.map(|it| it.header()),
            address,
            host_header: options.host_header,
            max_body_bytes: options.max_body_bytes,
            slots: options.max_in_flight.map(Slots::new),
            timeout: config.timeout,
            backoff: Backoff::new(config),
        }
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What is sent as `Host`.
    pub fn host_header(&self) -> String {
        let own = || self.address.authority();
        self.host_header.clone().unwrap_or_else(own)
    }

    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    pub fn backoff(&self) -> &Backoff {
        &self.backoff
    }

    /// Sends a request until `classify` has an answer, or an error that is not worth another try.
    pub fn send<T, E>(
        &self,
        request: &Request<'_>,
        classify: impl Fn(Result<Response, TransportError>) -> Result<T, FailedTry<E>>,
    ) -> Result<T, E> {
        self.backoff.run(|| classify(self.attempt(request)))
    }

    /// Sends a request once.
    pub fn attempt(&self, request: &Request<'_>) -> Result<Response, TransportError> {
        let _slot = self.slots.as_ref().map(Slots::take);
        let started = Instant::now();
        let mut response = self
            .exchange(request)
            .map_err(|error| self.failed(&error))?;
        let status = response.status();
        let mut incomplete = None;
        let body = if status.is_success() {
            let limited = response.body_mut().with_config().limit(self.max_body_bytes);
            limited.read_to_vec().map_err(|error| self.failed(&error))?
        } else {
            let mut body = Vec::new();
            let reader = response.body_mut().as_reader();
            // What arrived before a failure is still worth quoting.
            if let Err(error) = reader.take(MAX_ERROR_BODY_BYTES).read_to_end(&mut body) {
                incomplete = Some(self.failed(&error.into()));
            }
            body
        };
        Ok(Response {
            status: status.as_u16(),
            headers: response.into_parts().0.headers,
            body,
            elapsed: started.elapsed(),
            incomplete,
        })
    }

    fn exchange(&self, request: &Request<'_>) -> Result<HttpResponse<Body>, ureq::Error> {
        let mut head = HttpRequest::builder().method(request.method).uri(format!(
            "{}{}",
            self.address.base(),
            request.path
        ));
        if let Some(authorization) = &self.authorization {
            head = head.header(header::AUTHORIZATION, authorization);
        }
        if let Some(host) = &self.host_header {
            head = head.header(header::HOST, host);
        }
        for (name, value) in &request.headers {
            head = head.header(*name, value);
        }
        match &request.body {
            Some(body) => self.run(head.body(body.as_ref())?, request.silence),
            None => self.run(head.body(())?, request.silence),
        }
    }

    fn run<S: AsSendBody>(
        &self,
        request: HttpRequest<S>,
        silence: Option<Duration>,
    ) -> Result<HttpResponse<Body>, ureq::Error> {
        let request = self.agent.configure_request(request);
        self.agent
            .run(request.timeout_recv_response(silence).build())
    }

    fn failed(&self, error: &ureq::Error) -> TransportError {
        TransportError::new(error, self.address.is_https())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_in_the_debug_output() {
        let address = Address::parse("http://ada:s3cret@localhost:1").expect("valid");
        let options = Options {
            authorization: Some(Authorization::Bearer("s3cret".to_owned())),
            ..Options::default()
        };
        let shown = format!("{options:?} {address:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        let client = Client::new(address, options, &HttpConfig::default());
        let shown = format!("{client:?}");
        assert!(
            shown.contains("localhost") && !shown.contains("s3cret"),
            "{shown}"
        );
    }

    #[test]
    fn an_address_s_credentials_are_sent_unless_others_are_given() {
        let header = |authorization| {
            let address = Address::parse("http://ada:s3cret@localhost:1").expect("valid");
            let options = Options {
                authorization,
                ..Options::default()
            };
            Client::new(address, options, &HttpConfig::default()).authorization
        };
        let basic = format!("Basic {}", BASE64.encode("ada:s3cret"));
        assert_eq!(header(None), Some(basic));
        let bearer = Authorization::Bearer("t".to_owned());
        assert_eq!(header(Some(bearer)), Some("Bearer t".to_owned()));
    }
}
