//! The headers that say which server a browser or client meant: `Host`, `Origin`, `Referer`.
//!
//! These are checks against DNS rebinding and cross-site requests, so they are strict: anything
//! that is not plainly a host with a port is refused.

use std::net::IpAddr;

use url::{Host, Url};

use crate::address::path_and_query;

/// The `host[:port]` of a `Host` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    host: Host<String>,
    /// As it was sent; `None` where it was left out.
    pub port: Option<u16>,
}

impl Authority {
    /// Reads a header's value; `None` where it is anything else than a host and a port.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if text.is_empty() || !text.chars().all(is_plain) || text.ends_with(':') {
            return None;
        }
        // The scheme has no port of its own, so that the port stays as it was sent.
        let port = Url::parse(&format!("host://{text}")).ok()?.port();
        let url = Url::parse(&format!("http://{text}")).ok()?;
        let host = url.host()?.to_owned();
        if let Host::Ipv4(ip) = host {
            // Browsers send numbers in their usual notation only.
            let usual = port.map_or_else(|| ip.to_string(), |port| format!("{ip}:{port}"));
            if text != usual {
                return None;
            }
        }
        Some(Self { host, port })
    }

    /// The host where it is a number.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.host {
            Host::Domain(_) => None,
            Host::Ipv4(ip) => Some(ip.into()),
            Host::Ipv6(ip) => Some(ip.into()),
        }
    }

    /// The host where it is a name, in lower case.
    pub fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Domain(name) => Some(name),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        }
    }
}

/// Whether an `Origin` header names the server that the `Host` header names.
pub fn is_same_origin(origin: &str, host: &str) -> bool {
    let Ok(url) = Url::parse(origin) else {
        return false;
    };
    // A browser sends an origin as scheme and host only; the serialisation is that and a slash.
    let is_origin = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && path_and_query(&url) == "/"
        && url.fragment().is_none();
    let Some(authority) = Authority::parse(host).filter(|_| is_origin) else {
        return false;
    };
    let default_port = if url.scheme() == "https" { 443 } else { 80 };
    url.host().map(|it| it.to_owned()) == Some(authority.host)
        && url.port_or_known_default() == Some(authority.port.unwrap_or(default_port))
}

/// The path and query of a URL, for a `Referer` header.
pub fn path_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    url.has_host().then(|| path_and_query(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        let names = [
            ("localhost:4658", "localhost", Some(4658)),
            ("LOCALHOST", "localhost", None),
            ("bench.example", "bench.example", None),
            ("bench.example:80", "bench.example", Some(80)),
        ];
        for (text, name, port) in names {
            let authority = Authority::parse(text).expect(text);
            assert_eq!((authority.name(), authority.port), (Some(name), port));
        }
        for (text, ip) in [
            ("127.0.0.1:4658", "127.0.0.1"),
            ("[::1]:4658", "::1"),
            ("[::1]", "::1"),
        ] {
            let authority = Authority::parse(text).expect(text);
            assert_eq!(authority.ip(), ip.parse().ok(), "{text}");
            assert_eq!(authority.name(), None);
        }
    }

    #[test]
    fn what_is_not_a_host_and_a_port_is_refused() {
        for text in [
            "",
            "localhost:",
            "localhost:x",
            "localhost:99999",
            "user@localhost",
            "localhost/evil.test",
            "localhost\\evil.test",
            "localhost?evil",
            "local host",
            "%6cocalhost",
            "::1",
            ":4658",
            "127.1",
            "0x7f.1:4658",
            "2130706433",
        ] {
            assert_eq!(Authority::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_origin_is_ours_only_with_our_host_and_port() {
        for (origin, host) in [
            ("http://localhost:4658", "localhost:4658"),
            ("http://LOCALHOST:4658", "localhost:4658"),
            ("http://[::1]:4658", "[::1]:4658"),
            ("https://bench.example", "bench.example"),
            ("https://bench.example", "bench.example:443"),
            ("http://bench.example", "bench.example"),
        ] {
            assert!(is_same_origin(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("null", "localhost:4658"),
            ("", "localhost:4658"),
            ("localhost:4658", "localhost:4658"),
            ("http://localhost:4659", "localhost:4658"),
            ("http://localhost", "localhost:4658"),
            ("http://evil.test", "localhost:4658"),
            ("http://localhost:4658@evil.test", "localhost:4658"),
            ("http://localhost:4658.evil.test", "localhost:4658"),
            ("http://evil.test/localhost:4658", "localhost:4658"),
            ("http://u@localhost:4658", "localhost:4658"),
            ("http://localhost:4658/x", "localhost:4658"),
            ("file://localhost:4658", "localhost:4658"),
            ("http://127.0.0.1:4658", "localhost:4658"),
            ("http://localhost:4658", ""),
        ] {
            assert!(!is_same_origin(origin, host), "{origin} {host}");
        }
    }

    #[test]
    fn a_referer_has_a_path() {
        assert_eq!(
            path_of("http://localhost:4658/a/b?c=d").as_deref(),
            Some("/a/b?c=d")
        );
        assert_eq!(path_of("http://localhost").as_deref(), Some("/"));
        assert_eq!(path_of("/a"), None);
    }
}
