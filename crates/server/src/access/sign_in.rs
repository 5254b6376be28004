//! Signing in with a browser, and out again.
//!
//! Wrong tokens are counted by address, and beyond a limit they are answered as such. A right
//! one always gets in, so that people behind one proxy do not lock each other out. That tells a
//! guesser nothing that a request with the token would not tell, and with 256 random bits
//! guessing leads nowhere at any pace.

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

use super::{cookie, cookie_name, digest, forbidden, is_own_origin, refused};
use crate::error::Answer;
use crate::http::{blocking, read_body};
use crate::{App, panel};

/// A browser that signed in stays so for a fortnight.
const SESSION_MS: i64 = 14 * 24 * 60 * 60 * 1000;
/// So many wrong tokens from one address are no matter in so long a time.
const ATTEMPTS: u32 = 10;
const WINDOW_MS: i64 = 60_000;
/// A form with a token is short.
const LARGEST_FORM: usize = 4096;
/// How long it may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);
/// Addresses that are remembered at most.
const MOST_ADDRESSES: usize = 10_000;

/// Wrong tokens by address, with the time of the first.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<IpAddr, (i64, u32)>>);

impl Attempts {
    /// One more; answers whether that is too many.
    fn was_wrong(&self, address: IpAddr, now_ms: i64) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (since, _)| now_ms - *since < WINDOW_MS);
        if known.len() >= MOST_ADDRESSES && !known.contains_key(&address) {
            return true;
        }
        let (_, count) = known.entry(address).or_insert((now_ms, 0));
        *count = count.saturating_add(1);
        *count > ATTEMPTS
    }
}

/// `POST /sign-in` with the form fields `token` and `next`.
pub(crate) async fn enter(
    State(app): State<App>,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let outcome = async {
        if !is_own_origin(&headers) {
            return Err(forbidden("sign in from a page of this server"));
        }
        let form = read_body(body, LARGEST_FORM, PATIENCE).await?;
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
            sign_in(app, address.ip(), (&secret, &cookie), next.as_deref())
        })
        .await
    };
    let outcome = outcome.await;
    outcome.unwrap_or_else(|error| refused(error, &headers, "/sign-in"))
}

fn sign_in(
    app: &App,
    address: IpAddr,
    (secret, cookie): (&str, &str),
    next: Option<&str>,
) -> Answer<Response> {
    let now_ms = (app.config.clock)().ms;
    let again = |why: &str| {
        let next: String =
            form_urlencoded::byte_serialize(next.unwrap_or("/").as_bytes()).collect();
        Redirect::to(&format!("/sign-in?error={why}&next={next}")).into_response()
    };
    let Some(token) = app.state.token_find(&digest(secret))? else {
        if app.attempts.was_wrong(address, now_ms) {
            return Ok(panel::sign_in::too_many(next, WINDOW_MS / 1000));
        }
        return Ok(again("wrong"));
    };
    let session = app.config.secret()?;
    let times = (now_ms, now_ms + SESSION_MS);
    app.state
        .session_open(&digest(&session), &token.id, times)?;
    let place = match next {
        Some(place) if place != "/" => place,
        _ => first_page(token.role),
    };
    let mut response = Redirect::to(place).into_response();
    put_cookie(&mut response, (cookie, &session), SESSION_MS / 1000);
    Ok(response)
}

/// Where people start who asked for nothing in particular: judges may not read while they sit.
const fn first_page(role: Role) -> &'static str {
    match role {
        Role::Judge => "/desk",
        Role::Admin | Role::Viewer | Role::Service => "/",
    }
}

/// `POST /sign-out`.
pub(crate) async fn leave(State(app): State<App>, headers: HeaderMap) -> Response {
    if !is_own_origin(&headers) {
        let error = forbidden("sign out from a page of this server");
        return refused(error, &headers, "/sign-out");
    }
    if let Some(secret) = cookie(&headers) {
        let secret = digest(&secret);
        let closed = blocking(&app, move |app| Ok(app.state.session_close(&secret)?)).await;
        if let Err(error) = closed {
            return refused(error, &headers, "/sign-out");
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

/// Only to places on this server: `//elsewhere` and `/\elsewhere` are other hosts to a browser.
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
    fn attempts_are_limited_by_address_and_time() {
        let attempts = Attempts::default();
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        for _ in 0..ATTEMPTS {
            assert!(!attempts.was_wrong(one, 5));
        }
        assert!(attempts.was_wrong(one, 6));
        assert!(!attempts.was_wrong(other, 6));
        assert!(!attempts.was_wrong(one, 5 + WINDOW_MS));
    }

    #[test]
    fn nobody_is_sent_elsewhere() {
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
