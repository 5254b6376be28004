//! The address of a server, in one canonical form.
//!
//! The `url` crate reads it as browsers do: scheme and host in lower case, numbers in any
//! notation (`127.1`, `0x7f.1`) as IP addresses, international names as Punycode, default ports
//! left out. Requests go to this canonical form, so what was checked is what is called.
//!
//! Credentials in an address are kept apart, and no function here shows them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::{Host, ParseError, Url};

/// What stays as it is in a path: RFC 3986's unreserved characters, and the slash.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// A text that is not the address of an HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{address}' is not a valid address: {reason}")]
pub struct AddressError {
    /// Without credentials.
    pub address: String,
    pub reason: String,
}

/// A user name and a password, decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub username: String,
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// An HTTP server: scheme, host, port and the prefix of its paths.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    url: Url,
    base: String,
    credentials: Option<Credentials>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.base).finish()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

impl Address {
    /// Reads `http(s)://[USER[:PASSWORD]@]HOST[:PORT][/PREFIX]`.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let url = http_url(text)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid(
                text,
                "the address of a server has no '?' and no '#'",
            ));
        }
        Ok(Self::of(url))
    }

    /// The same, where an address without a scheme is taken as `http://`.
    pub fn parse_or_http(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.contains("://") {
            Self::parse(text)
        } else {
            Self::parse(&format!("http://{text}"))
        }
    }

    /// The server that a URL names, and the path with the query that it asks for there.
    pub fn with_path(text: &str) -> Result<(Self, String), AddressError> {
        let url = http_url(text)?;
        let path = path_and_query(&url);
        let mut server = url;
        server.set_path("");
        server.set_query(None);
        server.set_fragment(None);
        Ok((Self::of(server), path))
    }

    fn of(mut url: Url) -> Self {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let has_user = !url.username().is_empty() || url.password().is_some();
        let credentials = has_user.then(|| Credentials {
            username: decoded(url.username()),
            password: decoded(url.password().unwrap_or_default()),
        });
        remove_credentials(&mut url);
        let base = url.as_str().trim_end_matches('/').to_owned();
        Self {
            url,
            base,
            credentials,
        }
    }

    /// `http://host[:port][/prefix]`: without credentials, and without a slash at the end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The base without its scheme.
    pub fn without_scheme(&self) -> &str {
        let scheme = self.url.scheme().len() + "://".len();
        self.base.get(scheme..).unwrap_or_default()
    }

    /// The host alone; an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// `host[:port]`, without the scheme's own port.
    pub fn authority(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.host()),
            None => self.host().to_owned(),
        }
    }

    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(80)
    }

    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The credentials in the address itself.
    pub fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// Where to connect to; asks the name server.
    pub fn socket_addresses(&self) -> std::io::Result<Vec<SocketAddr>> {
        self.url.socket_addrs(|| None)
    }

    /// Whether the host is on this machine by its name or number alone.
    pub fn is_loopback(&self) -> bool {
        if let Some(ip) = self.ip() {
            return is_loopback(ip);
        }
        let name = self.name();
        name == "localhost" || name.ends_with(".localhost")
    }

    /// The host where it is a number; an IPv4 address in IPv6's notation as what it is.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self.url.host()? {
            Host::Domain(_) => None,
            Host::Ipv4(ip) => Some(ip.into()),
            Host::Ipv6(ip) => Some(IpAddr::from(ip).to_canonical()),
        }
    }

    /// The host where it is a name. The dot at the end of an absolute name is left out.
    pub(crate) fn name(&self) -> &str {
        self.host().trim_end_matches('.')
    }

    /// The same for all spellings of one host and port.
    pub(crate) fn identity(&self) -> String {
        let host = match self.ip() {
            Some(IpAddr::V6(ip)) => format!("[{ip}]"),
            Some(IpAddr::V4(ip)) => ip.to_string(),
            None => self.name().to_owned(),
        };
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }
}

/// Whether connections to this number reach this machine whatever its network is. No server listens
/// at the unspecified address, but a client that connects to it reaches its own machine.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}

/// Whether a text is meant as the address of an HTTP server, right or wrong.
pub fn is_http(text: &str) -> bool {
    let scheme = text.trim().split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|it| it.eq_ignore_ascii_case("http") || it.eq_ignore_ascii_case("https"))
}

/// A URL as it may be shown: without the user and the password. What has none stays as it is.
pub fn redacted(text: &str) -> String {
    let text = text.trim();
    match Url::parse(text) {
        // A file's name may have an @.
        Ok(url) if url.scheme() == "sqlite" => text.to_owned(),
        Ok(mut url) if !url.cannot_be_a_base() => {
            if url.username().is_empty() && url.password().is_none() {
                return text.to_owned();
            }
            remove_credentials(&mut url);
            url.as_str().trim_end_matches('/').to_owned()
        }
        // Whatever this is meant to be, what stands before an @ may be a password.
        _ => match text.rsplit_once('@') {
            Some((before, rest)) => match before.split_once("://") {
                Some((scheme, _)) => format!("{scheme}://{rest}"),
                None => rest.to_owned(),
            },
            None => text.to_owned(),
        },
    }
}

/// Where a tracking URI leads, in one spelling and without credentials: the name under which
/// cells wait for a server. What is not an HTTP address stays as it is.
pub fn place_of(uri: &str) -> String {
    match http_url(uri) {
        Ok(mut url) => {
            url.set_query(None);
            url.set_fragment(None);
            Address::of(url).base
        }
        Err(_) => redacted(uri),
    }
}

/// A text as a part of a path or of a query; `/` stays.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

pub(crate) fn path_and_query(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

fn http_url(text: &str) -> Result<Url, AddressError> {
    let text = text.trim();
    if !is_http(text) {
        return Err(invalid(text, "it does not start with http:// or https://"));
    }
    // Browsers forgive `http:///host`; here it is a forgotten host.
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    if rest.starts_with(['/', '\\']) {
        return Err(invalid(text, "it names no host"));
    }
    Url::parse(text).map_err(|error| {
        let reason = match error {
            ParseError::EmptyHost => "it names no host".to_owned(),
            ParseError::InvalidPort => "the port is not a number up to 65535".to_owned(),
            other => other.to_string(),
        };
        invalid(text, &reason)
    })
}

fn invalid(text: &str, reason: &str) -> AddressError {
    AddressError {
        address: redacted(text),
        reason: format!("{reason}; use http(s)://HOST[:PORT][/PATH]"),
    }
}

fn remove_credentials(url: &mut Url) {
    // Both fail only where a URL has no host, and then it has no credentials either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(text: &str) -> String {
        Address::parse(text).expect(text).base().to_owned()
    }

    #[test]
    fn an_address_has_one_canonical_form() {
        for (text, canonical) in [
            ("http://localhost:11434", "http://localhost:11434"),
            (" HTTP://LocalHost:11434/ ", "http://localhost:11434"),
            ("http://u:p@localhost:11434/", "http://localhost:11434"),
            ("https://api.test:443/v1/", "https://api.test/v1"),
            ("http://127.1:1", "http://127.0.0.1:1"),
            ("http://0x7f.1:1", "http://127.0.0.1:1"),
            ("http://[::1]:2/Prefix", "http://[::1]:2/Prefix"),
            ("http://bücher.test", "http://xn--bcher-kva.test"),
        ] {
            assert_eq!(base(text), canonical, "{text}");
        }
        let lenient = Address::parse_or_http("localhost:11434").expect("an address");
        assert_eq!(lenient.base(), "http://localhost:11434");
    }

    #[test]
    fn parts_are_found() {
        let address = Address::parse("https://us%40er:p:w@MLflow.Test:5000/Base/").expect("valid");
        assert_eq!(address.host(), "mlflow.test");
        assert_eq!(address.authority(), "mlflow.test:5000");
        assert_eq!(address.port(), 5000);
        assert_eq!(address.without_scheme(), "mlflow.test:5000/Base");
        let credentials = address.credentials().expect("credentials");
        assert_eq!(credentials.username, "us@er");
        assert_eq!(credentials.password, "p:w");
        assert_eq!(Address::parse("https://h").expect("valid").port(), 443);
        let (server, path) = Address::with_path("https://h.test/a/b?c=d#e").expect("valid");
        assert_eq!(
            (server.base(), path.as_str()),
            ("https://h.test", "/a/b?c=d")
        );
    }

    #[test]
    fn what_is_not_an_address_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "http://"),
            ("mlflow", "http://"),
            ("ftp://h", "http://"),
            ("http://", "no host"),
            ("http:///x", "no host"),
            ("http://h:99999", "65535"),
            ("http://h:x", "65535"),
            ("http://two words", "http(s)://HOST"),
            ("http://h/?x=1", "'?'"),
        ] {
            let error = Address::parse(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn credentials_are_never_shown() {
        for text in [
            "http://ada:s3cret@h",
            "HTTP://ada:s3cret@[bad host/x",
            "http://ada:s3cret@h:99999",
            "http://ada:s3/cret@h",
            "http:ada:s3cret@h",
            "postgresql://ada:s3cret@h/db",
            "ada:s3cret@h",
        ] {
            let shown = redacted(text);
            assert!(!shown.contains("s3") && !shown.contains("cret"), "{shown}");
            if let Err(error) = Address::parse(text) {
                let shown = format!("{error} {error:?}");
                assert!(!shown.contains("s3"), "{shown}");
            }
        }
        let address = Address::parse("http://ada:s3cret@h/x").expect("valid");
        assert_eq!(
            format!("{address} {address:?}"),
            "http://h/x Address(\"http://h/x\")"
        );
        assert_eq!(
            redacted("https://me:secret@A.example/mlflow/"),
            "https://a.example/mlflow"
        );
    }

    #[test]
    fn what_has_no_credentials_is_shown_as_it_is() {
        for text in [
            "http://h:5000/",
            "http://h/?x=1",
            "sqlite:.assize/a@b.db",
            "sqlite:///a@b.db",
            "sqlite:a.db",
            "plain",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn a_place_has_one_spelling_and_no_credentials() {
        for (uri, place) in [
            ("http://a:5000", "http://a:5000"),
            ("HTTP://A:5000/", "http://a:5000"),
            (
                "https://me:secret@A.example/mlflow/",
                "https://a.example/mlflow",
            ),
            ("http://me@a:5000/?x=y", "http://a:5000"),
            ("sqlite:.assize/Assize.db", "sqlite:.assize/Assize.db"),
        ] {
            assert_eq!(place_of(uri), place);
        }
    }

    #[test]
    fn parts_of_paths_are_escaped() {
        assert_eq!(encoded("a b/ü?.json"), "a%20b/%C3%BC%3F.json");
        assert_eq!(encoded("a-b_c.d~e"), "a-b_c.d~e");
    }
}
