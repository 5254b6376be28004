//! How to reach a server.

use std::fmt;
use std::time::Duration;

use crate::address::Address;

/// How to reach a server.
#[derive(Clone)]
pub struct Config {
    /// `http(s)://[USER:PASSWORD@]HOST[:PORT][/PREFIX]`.
    pub uri: String,
    pub username: Option<String>,
    pub password: Option<String>,
    /// A bearer token, where there is no user.
    pub token: Option<String>,
    /// Take any certificate.
    pub insecure_tls: bool,
    /// What to send as `Host`, where the server does not accept its own name.
    pub host: Option<String>,
    /// The longest that one request may take, with all that is sent and answered.
    pub timeout: Duration,
    pub retries: u32,
    /// The wait before the first retry; it doubles with each further one, and a random half of
    /// it is left out.
    pub backoff: Duration,
    /// The longest wait before a retry, whatever the server asks for.
    pub max_wait: Duration,
    pub jitter_seed: u64,
}

impl Config {
    pub fn new(uri: &str) -> Self {
        Self {
            uri: uri.to_owned(),
            username: None,
            password: None,
            token: None,
            insecure_tls: false,
            host: None,
            timeout: Duration::from_mins(5),
            retries: 5,
            backoff: Duration::from_millis(250),
            max_wait: Duration::from_secs(10),
            jitter_seed: 0,
        }
    }
}

impl fmt::Debug for Config {
    /// Leaves out what opens doors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("uri", &Address::shown(&self.uri))
            .finish_non_exhaustive()
    }
}
