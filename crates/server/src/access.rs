//! Who may come in.
//!
//! - **Host.** A page in the user's browser can make a name of its own point to this machine
//!   (DNS rebinding), but it cannot choose the Host header: only `localhost`, addresses in
//!   numbers and names that were configured pass.
//! - **Origin.** A request that a page of another site makes carries that site's origin, and is
//!   refused.
//! - **Token.** Everything but `/health` and `/version` needs `Authorization: Bearer TOKEN`,
//!   unless the server was told to be open on loopback. Tokens are compared in constant time.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use subtle::ConstantTimeEq as _;

use crate::App;
use crate::mlflow::ApiError;

/// A shorter token could be guessed.
pub const SHORTEST_TOKEN: usize = 16;

/// Paths that need no token: they say nothing about what is tracked.
const OPEN: [&str; 2] = ["/health", "/version"];

/// What a caller has to bring.
pub struct Access {
    /// `None` lets everybody in, which is for loopback only.
    pub token: Option<String>,
    /// Names under which this server may be addressed, besides `localhost`; lower-case.
    pub hosts: Vec<String>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("hosts", &self.hosts)
            .finish()
    }
}

impl Access {
    fn knows_host(&self, header: &str) -> bool {
        let host = host_of(header).to_ascii_lowercase();
        host == "localhost"
            || host.parse::<IpAddr>().is_ok()
            || host
                .strip_prefix('[')
                .and_then(|it| it.strip_suffix(']'))
                .is_some_and(|it| it.parse::<Ipv6Addr>().is_ok())
            || self.hosts.contains(&host)
    }

    fn accepts(&self, header: Option<&HeaderValue>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let given = header
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, given)| given.trim());
        given.is_some_and(|given| given.as_bytes().ct_eq(token.as_bytes()).into())
    }
}

/// The host of `host:port`.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|it| it.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Lets a request pass or answers it.
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    if let Some(error) = refusal(&app.access, request.uri().path(), request.headers()) {
        return error.into_response();
    }
    let mut response = next.run(request).await;
    let nosniff = HeaderValue::from_static("nosniff");
    response
        .headers_mut()
        .insert("x-content-type-options", nosniff);
    response
}

fn refusal(access: &Access, path: &str, headers: &HeaderMap) -> Option<ApiError> {
    let text = |name| {
        headers
            .get(name)
            .and_then(|it: &HeaderValue| it.to_str().ok())
    };
    let host = text(HOST).unwrap_or_default();
    if !access.knows_host(host) {
        return Some(ApiError::new(
            StatusCode::FORBIDDEN,
            "PERMISSION_DENIED",
            format!(
                "Invalid Host header '{host}': address the server by localhost, by its IP address, or start it with --allowed-host"
            ),
        ));
    }
    let origin = headers.get(ORIGIN).map(|it| it.to_str().unwrap_or("?"));
    let is_ours = |origin: &str| origin.split_once("://").is_some_and(|(_, it)| it == host);
    if origin.is_some_and(|origin| !is_ours(origin)) {
        return Some(ApiError::new(
            StatusCode::FORBIDDEN,
            "PERMISSION_DENIED",
            "pages of other sites may not use this server".to_owned(),
        ));
    }
    if !OPEN.contains(&path) && !access.accepts(headers.get(AUTHORIZATION)) {
        return Some(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "UNAUTHENTICATED",
            "this server needs its token: send it as `Authorization: Bearer TOKEN` \
             (MLFLOW_TRACKING_TOKEN does that)"
                .to_owned(),
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_localhost_addresses_and_what_was_configured() {
        let access = Access {
            token: None,
            hosts: vec!["bench.example".to_owned()],
        };
        for good in [
            "localhost:4658",
            "LOCALHOST",
            "127.0.0.1:1",
            "[::1]:4658",
            "192.168.1.7:80",
            "bench.example:4658",
        ] {
            assert!(access.knows_host(good), "{good}");
        }
        for bad in ["", "evil.example", "localhost.evil.example:4658", "[evil]"] {
            assert!(!access.knows_host(bad), "{bad}");
        }
    }

    #[test]
    fn only_the_token_opens() {
        let access = Access {
            token: Some("a-long-enough-token".to_owned()),
            hosts: Vec::new(),
        };
        let accepts = |text| access.accepts(Some(&HeaderValue::from_static(text)));
        assert!(accepts("Bearer a-long-enough-token"));
        assert!(!accepts("Bearer a-long-enough-toke"));
        assert!(!accepts("Basic a-long-enough-token"));
        assert!(!accepts("Bearer "));
        assert!(!access.accepts(None));
    }
}
