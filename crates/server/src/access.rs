//! Who may come in, and what they may do.
//!
//! - **Host.** A page in the user's browser can make a name of its own point to this machine
//!   (DNS rebinding), but it cannot choose the Host header: only `localhost`, addresses in
//!   numbers and names that were configured pass.
//! - **Origin.** A request that a page of another site makes carries that site's origin, and is
//!   refused. What changes something on the strength of a cookie must carry our own.
//! - **Token.** Everything but `/health`, `/version`, assets and the sign-in needs
//!   `Authorization: Bearer TOKEN` or the cookie of a browser that signed in with one, unless
//!   the server was told to be open on loopback. Only hashes are kept and compared.
//! - **Right.** Every route stands in its table beside the right that it needs; roles have
//!   rights.
//! - **Blindness.** A judge reads nothing while a sitting of theirs is open.

use assize_domain::error_kind::ErrorKind;
use assize_domain::hash::sha256;
use assize_domain::role::Role;
use assize_http::{Authority, is_same_origin, path_of};
use assize_store::state::tokens::{Digest, Token};
use axum::extract::{OriginalUri, Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, COOKIE, HOST, HeaderMap, ORIGIN, REFERER};
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use cookie::Cookie;

use crate::error::{Answer, ApiError};
use crate::panel::page::{PageError, Visit, with_visit};
use crate::{App, Config};

pub(crate) mod sign_in;

const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The cookie of a browser that signed in, without the port.
const COOKIE_NAME: &str = "assize_session";

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub role: Role,
    /// As verdicts and promotions name them.
    pub name: String,
    pub token_id: String,
}

impl From<Token> for Caller {
    fn from(token: Token) -> Self {
        Self {
            role: token.role,
            name: token.name,
            token_id: token.id,
        }
    }
}

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// Nothing: it is open to everybody.
    Public,
    /// To look.
    Read,
    /// To change or start anything.
    Write,
    /// To sit at the judge's desk.
    Judge,
}

impl Right {
    pub fn is_had_by(self, role: Role) -> bool {
        match self {
            Self::Public => true,
            Self::Read => matches!(role, Role::Admin | Role::Viewer | Role::Judge),
            Self::Judge => matches!(role, Role::Admin | Role::Judge),
            Self::Write => role == Role::Admin,
        }
    }
}

impl Config {
    fn knows_host(&self, header: &str) -> bool {
        Authority::parse(header).is_some_and(|it| match it.name() {
            Some(name) => name == "localhost" || self.host_names.iter().any(|own| own == name),
            None => true,
        })
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|it| it.to_str().ok())
}

/// Refuses what cannot be meant for this server, before anything else looks at it.
pub(crate) async fn check_host(State(app): State<App>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = text(headers, &HOST).unwrap_or_default();
    if !app.config.knows_host(host) {
        let error = forbidden(&format!(
            "Invalid Host header '{host}': address the server by localhost, by its IP address, or start it with --allowed-host"
        ));
        return refused(error, headers, request.uri().path());
    }
    if headers.get(ORIGIN).is_some() && !is_own_origin(headers) {
        let error = forbidden("pages of other sites may not use this server");
        return refused(error, headers, request.uri().path());
    }
    // What a page of another site fetches without an origin: an image, a script, a prefetch.
    // Following a link to a page is fine.
    let is_link =
        text(headers, &SEC_FETCH_MODE) == Some("navigate") && request.method() == Method::GET;
    if text(headers, &SEC_FETCH_SITE) == Some("cross-site")
        && (!is_link || request.uri().path().starts_with("/api/"))
    {
        let error = forbidden("pages of other sites may not use this server");
        return refused(error, headers, request.uri().path());
    }
    let mut response = next.run(request).await;
    let nosniff = HeaderValue::from_static("nosniff");
    response
        .headers_mut()
        .insert("x-content-type-options", nosniff);
    response
}

fn is_own_origin(headers: &HeaderMap) -> bool {
    let host = text(headers, &HOST).unwrap_or_default();
    text(headers, &ORIGIN).is_some_and(|it| is_same_origin(it, host))
}

/// Lets a request pass to a route that needs a right, or answers it.
pub(crate) async fn check_right(
    State((app, right)): State<(App, Right)>,
    mut request: Request,
    next: Next,
) -> Response {
    // Routes are nested, so the path that is left is not the path that was asked for.
    let uri = request.extensions().get::<OriginalUri>();
    let uri = uri.map_or_else(|| request.uri().clone(), |it| it.0.clone());
    let method = request.method().clone();
    let headers = request.headers().clone();
    // A look at a small table takes less than handing the request to another thread would.
    let caller = caller(&app, &headers, &method)
        .and_then(|caller| permit(&app, &caller, right).map(|()| caller));
    match caller {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error)
            if error.kind == ErrorKind::Unauthenticated && wants_page(&headers, uri.path()) =>
        {
            to_sign_in(&headers, &method, &uri)
        }
        Err(error) => refused(error, &headers, uri.path()),
    }
}

/// Where a browser goes that nobody signed in with, or not lately. It comes back to the page that
/// it asked for, or to the one with the form that it sent.
fn to_sign_in(headers: &HeaderMap, method: &Method, uri: &Uri) -> Response {
    let is_form = method != Method::GET;
    let came_from = text(headers, &REFERER)
        .and_then(path_of)
        .unwrap_or_else(|| "/".to_owned());
    let next = if is_form { came_from } else { uri.to_string() };
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    let why = match (cookie(headers).is_some(), is_form) {
        (true, false) => "error=ended&",
        (_, true) => "error=unsent&",
        (false, false) => "",
    };
    Redirect::to(&format!("/sign-in?{why}next={next}")).into_response()
}

/// An error in the shape that whoever asked can read.
pub(crate) fn refused(error: ApiError, headers: &HeaderMap, path: &str) -> Response {
    if wants_page(headers, path) {
        PageError::from(error).into_response()
    } else {
        error.into_response()
    }
}

/// Puts the navigation around pages that say what is wrong, for whoever is signed in. Programs
/// get no pages, and are not held up.
pub(crate) async fn frame_errors(State(app): State<App>, request: Request, next: Next) -> Response {
    if !wants_page(request.headers(), request.uri().path()) {
        return next.run(request).await;
    }
    let headers = request.headers().clone();
    let response = next.run(request).await;
    with_visit(response, || {
        let caller = caller(&app, &headers, &Method::GET).ok()?;
        Visit::of(&app, &caller).ok()
    })
}

/// Whether a browser asks for something to look at, and not a program for data.
fn wants_page(headers: &HeaderMap, path: &str) -> bool {
    !path.starts_with("/api/")
        && !path.starts_with("/ajax-api/")
        && text(headers, &ACCEPT).is_some_and(|it| it.contains("text/html"))
}

/// Finds out who asks.
fn caller(app: &App, headers: &HeaderMap, method: &Method) -> Answer<Caller> {
    if let Some(secret) = bearer(headers) {
        let token = app.state.token_find(&digest(secret))?;
        return token.map(Caller::from).ok_or_else(|| {
            unauthenticated(
                "this token is not known, or was revoked: `assize token create` makes one",
            )
        });
    }
    if let Some(secret) = cookie(headers) {
        let now = (app.config.clock)().ms;
        if let Some(token) = app.state.session_find(&digest(&secret), now)? {
            let is_safe = *method == Method::GET || *method == Method::HEAD;
            if !is_safe && !is_own_origin(headers) {
                return Err(forbidden(
                    "a change that a cookie vouches for must come from a page of this server",
                ));
            }
            return Ok(token.into());
        }
    }
    if app.config.open_loopback {
        return Ok(Caller {
            role: Role::Admin,
            name: app.config.user.clone(),
            token_id: "loopback".to_owned(),
        });
    }
    Err(unauthenticated(
        "this server needs a token: send it as `Authorization: Bearer TOKEN` \
         (MLFLOW_TRACKING_TOKEN does that), or sign in with a browser",
    ))
}

/// Whether whoever was let in to read may still do so; for answers that take long.
pub(crate) fn still_reads(app: &App, caller: &Caller) -> Answer<()> {
    if !app.config.open_loopback && !app.state.token_is_valid(&caller.token_id)? {
        return Err(unauthenticated("this token was revoked"));
    }
    permit(app, caller, Right::Read)
}

fn permit(app: &App, caller: &Caller, right: Right) -> Answer<()> {
    if !right.is_had_by(caller.role) {
        return Err(forbidden(&format!(
            "a token of the role {} may not do this: ask an admin for another",
            caller.role
        )));
    }
    if right == Right::Read && caller.role == Role::Judge && app.store.judge_sits(&caller.name)? {
        return Err(forbidden(
            "a sitting of yours is open, and judges are blind until it is over: finish it first",
        ));
    }
    Ok(())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, given) = text(headers, &AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| given.trim())
}

/// Browsers keep cookies by host and not by port: with the port in its name, two servers on one
/// host do not sign each other out. It is the port that the browser sees.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = text(headers, &HOST).unwrap_or_default();
    match Authority::parse(host).and_then(|it| it.port) {
        Some(port) => format!("{COOKIE_NAME}_{port}"),
        None => COOKIE_NAME.to_owned(),
    }
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let own = cookie_name(headers);
    let all = headers.get_all(COOKIE).iter();
    all.filter_map(|it| it.to_str().ok())
        .flat_map(Cookie::split_parse)
        .filter_map(Result::ok)
        .find(|it| it.name() == own)
        .map(|it| it.value().to_owned())
}

pub(crate) fn digest(secret: &str) -> Digest {
    sha256(secret.as_bytes())
}

fn unauthenticated(message: &str) -> ApiError {
    ApiError::new(ErrorKind::Unauthenticated, message)
}

fn forbidden(message: &str) -> ApiError {
    ApiError::new(ErrorKind::Forbidden, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_their_rights_and_no_others() {
        let had = |role: Role| {
            [Right::Read, Right::Write, Right::Judge].map(|right| right.is_had_by(role))
        };
        assert_eq!(had(Role::Admin), [true, true, true]);
        assert_eq!(had(Role::Viewer), [true, false, false]);
        assert_eq!(had(Role::Judge), [true, false, true]);
        assert_eq!(had(Role::Service), [false, false, false]);
    }

    #[test]
    fn a_server_s_own_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(
            COOKIE,
            HeaderValue::from_static("a=b; assize_session=xyz; assize_session_4658=abc; c"),
        );
        assert_eq!(cookie(&headers).as_deref(), Some("xyz"));
        headers.insert(HOST, HeaderValue::from_static("[::1]:4658"));
        assert_eq!(cookie(&headers).as_deref(), Some("abc"));
        headers.insert(HOST, HeaderValue::from_static("localhost:4659"));
        assert_eq!(cookie(&headers), None);
    }
}
