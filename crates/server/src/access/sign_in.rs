//! Signing in and out with a browser.
//!
//! Failed attempts are counted by IP address; beyond a limit the response is 429. A valid token
//! is always accepted, so that users behind one proxy cannot lock each other out. This does not
//! help an attacker: tokens have 256 random bits, and a request with a guessed token would reveal
//! the same.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use assize_domain::role::Role;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::HeaderValue;
use axum::http::header::{HeaderMap, SET_COOKIE};
use axum::response::{IntoResponse as _, Redirect, Response};
use cookie::{Cookie, SameSite};

use super::{cookie, cookie_name, digest, error_response, forbidden, is_own_origin};
use crate::error::ApiResult;
use crate::http::{blocking, read_body};
use crate::{App, panel};

/// How long a session is valid: 14 days.
const SESSION_MS: i64 = 14 * 24 * 60 * 60 * 1000;
/// How many failed attempts one address may make within the window.
const MAX_FAILURES: u32 = 10;
const WINDOW_MS: i64 = 60_000;
/// The size limit of the form, in bytes.
const MAX_FORM: usize = 4096;
/// How long the form may take to arrive.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);
/// How many addresses are counted at once.
const MAX_ADDRESSES: usize = 10_000;

/// Failed attempts by address, with the time of the first.
#[derive(Debug, Default)]
pub(crate) struct FailedSignIns(Mutex<HashMap<IpAddr, (i64, u32)>>);

impl FailedSignIns {
    /// Counts a failed attempt; returns whether the limit is exceeded.
    fn record(&self, address: IpAddr, now_ms: i64) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (since, _)| now_ms - *since < WINDOW_MS);
        if known.len() >= MAX_ADDRESSES && !known.contains_key(&address) {
            return true;
        }
        let (_, count) = known.entry(address).or_insert((now_ms, 0));
        *count = count.saturating_add(1);
        *count > MAX_FAILURES
    }
}

/// `POST /sign-in` with the form fields `token` and `next`.
pub(crate) async fn sign_in(
    State(app): State<App>,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let outcome = async {
        if !is_own_origin(&headers) {
            return Err(forbidden("sign in from a page of this server"));
        }
        let form = read_body(body, MAX_FORM, FORM_TIMEOUT).await?;
        let field = |name: &str| {
            let mut fields = form_urlencoded::parse(&form);
            fields
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.trim().to_owned())
        };
        let secret = field("token").unwrap_or_default();
        let next = field("next").filter(|it| is_own_path(it));
        let cookie = cookie_name(&headers);
        blocking(&app, move |app| {
            authenticate(app, address.ip(), (&secret, &cookie), next.as_deref())
        })
        .await
    };
    let outcome = outcome.await;
    outcome.unwrap_or_else(|error| error_response(error, &headers, "/sign-in"))
}

fn authenticate(
    app: &App,
    address: IpAddr,
    (secret, cookie): (&str, &str),
    next: Option<&str>,
) -> ApiResult<Response> {
    let now_ms = (app.config.clock)().ms;
    let retry = |reason: &str| {
        let next: String =
            form_urlencoded::byte_serialize(next.unwrap_or("/").as_bytes()).collect();
        Redirect::to(&format!("/sign-in?error={reason}&next={next}")).into_response()
    };
    let Some(token) = app.state.token_find(&digest(secret))? else {
        if app.failed_sign_ins.record(address, now_ms) {
            return Ok(panel::sign_in::too_many(next, WINDOW_MS / 1000));
        }
        return Ok(retry("wrong"));
    };
    let session = app.config.secret()?;
    let times = (now_ms, now_ms + SESSION_MS);
    app.state
        .session_open(&digest(&session), &token.id, times)?;
    let target = match next {
        Some(path) if path != "/" => path,
        _ => first_page(token.role),
    };
    let mut response = Redirect::to(target).into_response();
    put_cookie(&mut response, (cookie, &session), SESSION_MS / 1000);
    Ok(response)
}

/// The page after the sign-in. Judges start at the desk, because they cannot read results while a
/// sitting is open.
const fn first_page(role: Role) -> &'static str {
    match role {
        Role::Judge => "/desk",
        Role::Admin | Role::Viewer | Role::Service => "/",
    }
}

/// `POST /sign-out`.
pub(crate) async fn sign_out(State(app): State<App>, headers: HeaderMap) -> Response {
    if !is_own_origin(&headers) {
        let error = forbidden("sign out from a page of this server");
        return error_response(error, &headers, "/sign-out");
    }
    if let Some(secret) = cookie(&headers) {
        let secret = digest(&secret);
        let closed = blocking(&app, move |app| Ok(app.state.session_close(&secret)?)).await;
        if let Err(error) = closed {
            return error_response(error, &headers, "/sign-out");
        }
    }
    let mut response = Redirect::to("/sign-in").into_response();
    put_cookie(&mut response, (&cookie_name(&headers), ""), 0);
    response
}

fn put_cookie(response: &mut Response, (name, value): (&str, &str), max_age_s: i64) {
    let cookie = Cookie::build((name, value))
        .path("/")
        .http_only(true)
        .same_site(SameSite::Lax)
        .max_age(::cookie::time::Duration::seconds(max_age_s))
        .build();
    if let Ok(cookie) = HeaderValue::from_str(&cookie.to_string()) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// Whether a redirect stays on this server. Browsers read `//host` and `/\host` as other hosts.
fn is_own_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && !path.contains('\\')
        && !path.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_limited_by_address_and_time() {
        let failures = FailedSignIns::default();
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        for _ in 0..MAX_FAILURES {
            assert!(!failures.record(one, 5));
        }
        assert!(failures.record(one, 6));
        assert!(!failures.record(other, 6));
        assert!(!failures.record(one, 5 + WINDOW_MS));
    }

    #[test]
    fn redirects_stay_on_this_server() {
        for good in ["/", "/experiments/a?tab=runs"] {
            assert!(is_own_path(good), "{good}");
        }
        for bad in [
            "",
            "x",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
        ] {
            assert!(!is_own_path(bad), "{bad}");
        }
    }
}
