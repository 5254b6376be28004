//! Connection settings of a server.

use std::fmt;
use std::time::Duration;

use assize_http::{Address, Authorization, Credentials, HttpConfig, redacted};

/// Connection settings of a server.
#[derive(Clone)]
pub struct Config {
    /// `http(s)://[USER:PASSWORD@]HOST[:PORT][/PREFIX]`.
    pub uri: String,
    pub username: Option<String>,
    pub password: Option<String>,
    /// A bearer token, used if there is no user.
    pub token: Option<String>,
    /// Accept any certificate.
    pub insecure_tls: bool,
    /// The value of the `Host` header, for a server that does not accept its own name.
    pub host: Option<String>,
    pub http: HttpConfig,
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
            http: HttpConfig {
                timeout: Duration::from_mins(5),
                retries: 5,
                backoff: Duration::from_millis(250),
                max_wait: Duration::from_secs(10),
                ..HttpConfig::default()
            },
        }
    }

    /// The credentials of the address, else the user from the settings, else the token.
    pub(super) fn authorization(&self, address: &Address) -> Option<Authorization> {
        let from_settings = || {
            Some(Credentials {
                username: self.username.clone()?,
                password: self.password.clone().unwrap_or_default(),
            })
        };
        let user = address.credentials().cloned().or_else(from_settings);
        let token = || self.token.clone().map(Authorization::Bearer);
        user.map(Authorization::Basic).or_else(token)
    }
}

impl fmt::Debug for Config {
    /// Omits the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("uri", &redacted(&self.uri))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_s_user_comes_first_then_the_settings_then_the_token() {
        let mut config = Config::new("");
        let kind = |config: &Config, uri: &str| {
            let address = Address::parse(uri).unwrap();
            match config.authorization(&address) {
                Some(Authorization::Basic(user)) => format!("{}:{}", user.username, user.password),
                Some(Authorization::Bearer(token)) => token,
                None => String::new(),
            }
        };
        let (plain, own) = ("http://h", "http://us%40er:p:w@h");
        assert_eq!(kind(&config, plain), "");
        config.token = Some("token".to_owned());
        assert_eq!(kind(&config, plain), "token");
        config.username = Some("ada".to_owned());
        assert_eq!(kind(&config, plain), "ada:");
        assert_eq!(kind(&config, own), "us@er:p:w");
    }

    #[test]
    fn credentials_are_not_in_the_debug_output() {
        let shown = format!("{:?}", Config::new("http://ada:s3cret@h"));
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
