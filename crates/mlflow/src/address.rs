//! Where a server is, and who we say that we are.

use assize_store::{Result, StoreError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ureq::http::Uri;

use crate::rest::Config;

/// A tracking URI, taken apart. What opens doors is not in `base`, which is shown to people.
pub(crate) struct Address {
    /// `http://host:port/prefix`, in lower case up to the prefix.
    pub base: String,
    pub host: String,
    pub port: u16,
    user: Option<(String, String)>,
}

impl Address {
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |reason: &str| StoreError::InvalidAddress {
            uri: Self::shown(text),
            reason: format!("{reason}: use http(s)://HOST[:PORT][/PREFIX]"),
        };
        let (user, plain) = split_user(text.trim());
        let uri: Uri = plain
            .parse()
            .map_err(|_| wrong("this is not the address of a server"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong("this is not the address of a server"));
        };
        if uri.query().is_some() {
            return Err(wrong("the address of a server has no '?'"));
        }
        if authority.host().is_empty() {
            return Err(wrong("the address names no host"));
        }
        if authority.port().is_none() && authority.as_str().len() > authority.host().len()
            || authority.port().is_some() && authority.port_u16().is_none()
        {
            return Err(wrong("the port is not a number up to 65535"));
        }
        let scheme = scheme.to_lowercase();
        let host = authority.as_str().to_lowercase();
        let prefix = uri.path().trim_end_matches('/');
        let default_port = if scheme == "https" { 443 } else { 80 };
        Ok(Self {
            base: format!("{scheme}://{host}{prefix}"),
            port: authority.port_u16().unwrap_or(default_port),
            host,
            user,
        })
    }

    /// The URI without what opens doors.
    pub fn shown(text: &str) -> String {
        split_user(text.trim()).1
    }

    /// The host without its port.
    pub fn name(&self) -> &str {
        let port = self.host.rsplit_once(':');
        let port = port.filter(|(_, port)| port.bytes().all(|it| it.is_ascii_digit()));
        port.map_or(&*self.host, |it| it.0)
    }

    /// What follows the scheme.
    pub fn rest(&self) -> &str {
        self.base.split_once("://").map_or("", |it| it.1)
    }

    pub fn is_this_machine(&self) -> bool {
        let name = self.name();
        name == "localhost" || name.starts_with("127.") || name == "[::1]"
    }

    /// The value of the header, if we have anything to say.
    pub fn authorization(&self, config: &Config) -> Option<String> {
        let from_settings = || {
            let password = config.password.clone().unwrap_or_default();
            Some((config.username.clone()?, password))
        };
        if let Some((name, password)) = self.user.clone().or_else(from_settings) {
            let both = STANDARD.encode(format!("{name}:{password}"));
            return Some(format!("Basic {both}"));
        }
        config.token.as_ref().map(|token| format!("Bearer {token}"))
    }
}

/// The user in a URI, and the URI without it.
fn split_user(text: &str) -> (Option<(String, String)>, String) {
    let Some((scheme, rest)) = text.split_once("://") else {
        return (None, text.to_owned());
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@') {
        None => (None, text.to_owned()),
        Some((user, host)) => {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            let user = (decoded(name), decoded(password));
            (Some(user), format!("{scheme}://{host}{path}"))
        }
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let pair = tail
            .get(..2)
            .and_then(|pair| std::str::from_utf8(pair).ok());
        let escaped = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        if let (b'%', Some(byte)) = (first, escaped) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A text as a part of a path or of a query; `/` stays.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let address = Address::parse("HTTP://us%40er:p:w@MLflow.Test:5000/Base/").unwrap();
        assert_eq!(address.base, "http://mlflow.test:5000/Base");
        assert_eq!(
            (address.host.as_str(), address.port),
            ("mlflow.test:5000", 5000)
        );
        let expected = STANDARD.encode("us@er:p:w");
        assert_eq!(
            address.authorization(&Config::new("")),
            Some(format!("Basic {expected}"))
        );
        assert!(!address.is_this_machine());
        assert!(
            Address::parse("http://127.0.0.1:1")
                .unwrap()
                .is_this_machine()
        );
        for bad in ["http://", "mlflow", "http://h/?x=1"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_opens_doors_is_never_shown() {
        let uri = "http://ada:s3cret@[bad host/x";
        let error = Address::parse(uri).map(|_| ()).unwrap_err().to_string();
        let config = format!("{:?}", Config::new("http://ada:s3cret@h"));
        assert!(
            !error.contains("s3cret") && !config.contains("s3cret"),
            "{error} {config}"
        );
    }

    #[test]
    fn parts_of_addresses_are_escaped() {
        assert_eq!(encoded("a b/ü?.json"), "a%20b/%C3%BC%3F.json");
    }
}
