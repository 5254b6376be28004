//! Authentication and authorization of requests.
//!
//! - **Host.** A malicious site can let its own name resolve to this machine (DNS rebinding), but
//!   its pages cannot choose the Host header. Only `localhost`, IP addresses and configured names
//!   are accepted.
//! - **Origin.** Requests from pages of other sites carry that site's origin and are rejected. A
//!   request that changes data and is authenticated by a cookie must carry this server's origin.
//! - **Token.** All routes except `/health`, `/version`, the assets and the sign-in require
//!   `Authorization: Bearer TOKEN` or the cookie of a signed-in browser, unless the server was
//!   started with open loopback access. Only hashes are stored and compared.
//! - **Right.** Every route declares the right that it requires; roles grant rights.
//! - **Blindness.** A judge cannot read results while one of their sittings is open.

use std::sync::Arc;

use assize_domain::error_kind::ErrorKind;
use assize_domain::hash::sha256;
use assize_domain::role::Role;
use assize_http::{Authority, is_same_origin, path_of};
use assize_pipeline::Now;
use assize_pipeline::team::Team;
use assize_store::embedded::EmbeddedStore;
use assize_store::state::State as LocalState;
use assize_store::state::tokens::{Digest, Token};
use axum::extract::{OriginalUri, Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, COOKIE, HOST, HeaderMap, ORIGIN, REFERER};
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use cookie::Cookie;

use crate::App;
use crate::error::{ApiError, ApiResult};
use crate::panel::page::{PageError, Visit, with_visit};

pub(crate) mod sign_in;

const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The name of the session cookie, without the port.
const COOKIE_NAME: &str = "assize_session";

/// Who may use the server, which the binary provides.
#[derive(Debug, Clone)]
pub struct AccessConfig {
    /// Host names that are accepted besides `localhost`, in lower case.
    pub host_names: Vec<String>,
    /// Whether requests from this machine need no token.
    pub open_loopback: bool,
    /// The name of the operating system's user; used for requests without a token.
    pub user: String,
}

/// What authentication and authorization need.
#[derive(Debug)]
pub(crate) struct Access {
    pub config: AccessConfig,
    pub clock: fn() -> Now,
    pub state: Arc<LocalState>,
    /// The tracked results, which a judge with an open sitting cannot read, and which the pages
    /// show; `None` if only policies are served.
    pub results: Option<Arc<EmbeddedStore>>,
    /// The team's tracking server whose copy the results are.
    pub team: Option<Arc<Team>>,
}

/// Who sent a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub role: Role,
    /// The name that verdicts and promotions record.
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

/// The right that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// None: no authentication is required.
    Public,
    /// None but a valid token.
    AnyRole,
    /// View results.
    Read,
    /// Change data or start jobs.
    Write,
    /// Score cases at the judge's desk.
    Judge,
    /// Read what applications read at run time: the champion, figures and events of the policies.
    ReadService,
    /// Use the online policies, as applications do at run time.
    Policies,
}

impl Right {
    pub fn is_granted_to(self, role: Role) -> bool {
        match self {
            Self::Public | Self::AnyRole => true,
            Self::Read => matches!(role, Role::Admin | Role::Viewer | Role::Judge),
            Self::Judge => matches!(role, Role::Admin | Role::Judge),
            Self::ReadService => matches!(role, Role::Admin | Role::Viewer | Role::Service),
            Self::Policies => matches!(role, Role::Admin | Role::Service),
            Self::Write => role == Role::Admin,
        }
    }
}

impl Access {
    fn accepts_host(&self, header: &str) -> bool {
        Authority::parse(header).is_some_and(|it| match it.name() {
            Some(name) => {
                name == "localhost" || self.config.host_names.iter().any(|own| own == name)
            }
            None => true,
        })
    }

    /// An error as a page for browsers where the server has pages, else as JSON.
    fn error(&self, error: ApiError, headers: &HeaderMap, path: &str) -> Response {
        if self.results.is_some() {
            error_response(error, headers, path)
        } else {
            error.into_response()
        }
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|it| it.to_str().ok())
}

/// Middleware that rejects requests with a foreign host or origin.
pub(crate) async fn check_host(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let host = header_text(headers, &HOST).unwrap_or_default();
    if !access.accepts_host(host) {
        let error = forbidden(&format!(
            "Invalid Host header '{host}': address the server by localhost, by its IP address, or start it with --allowed-host"
        ));
        return access.error(error, headers, request.uri().path());
    }
    if headers.get(ORIGIN).is_some() && !is_own_origin(headers) {
        let error = forbidden("requests from pages of other sites are not allowed");
        return access.error(error, headers, request.uri().path());
    }
    // Pages of other sites fetch images and scripts without an origin. Links to pages of this
    // server are allowed.
    let is_link = header_text(headers, &SEC_FETCH_MODE) == Some("navigate")
        && request.method() == Method::GET;
    if header_text(headers, &SEC_FETCH_SITE) == Some("cross-site")
        && (!is_link || request.uri().path().starts_with("/api/"))
    {
        let error = forbidden("requests from pages of other sites are not allowed");
        return access.error(error, headers, request.uri().path());
    }
    let mut response = next.run(request).await;
    let nosniff = HeaderValue::from_static("nosniff");
    response
        .headers_mut()
        .insert("x-content-type-options", nosniff);
    response
}

fn is_own_origin(headers: &HeaderMap) -> bool {
    let host = header_text(headers, &HOST).unwrap_or_default();
    header_text(headers, &ORIGIN).is_some_and(|it| is_same_origin(it, host))
}

/// Middleware that authenticates a request and checks the right that its route requires.
pub(crate) async fn check_right(
    State((access, right)): State<(Arc<Access>, Right)>,
    mut request: Request,
    next: Next,
) -> Response {
    // Routes are nested, so the request's URI lacks the prefix.
    let uri = request.extensions().get::<OriginalUri>();
    let uri = uri.map_or_else(|| request.uri().clone(), |it| it.0.clone());
    let method = request.method().clone();
    let headers = request.headers().clone();
    // The lookup in a small table is faster than a switch to a blocking thread.
    let caller = caller(&access, &headers, &method)
        .and_then(|caller| permit(&access, &caller, right).map(|()| caller));
    match caller {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error)
            if error.kind == ErrorKind::Unauthenticated
                && access.results.is_some()
                && expects_page(&headers, uri.path()) =>
        {
            redirect_to_sign_in(&headers, &method, &uri)
        }
        Err(error) => access.error(error, &headers, uri.path()),
    }
}

/// Redirects a browser without a valid session to the sign-in page, which leads back to the
/// requested page, or to the page whose form was sent.
fn redirect_to_sign_in(headers: &HeaderMap, method: &Method, uri: &Uri) -> Response {
    let is_form = method != Method::GET;
    let referer = header_text(headers, &REFERER)
        .and_then(path_of)
        .unwrap_or_else(|| "/".to_owned());
    let next = if is_form { referer } else { uri.to_string() };
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    let reason = match (cookie(headers).is_some(), is_form) {
        (true, false) => "error=ended&",
        (_, true) => "error=unsent&",
        (false, false) => "",
    };
    Redirect::to(&format!("/sign-in?{reason}next={next}")).into_response()
}

/// An error as a page for browsers, or as JSON for programs.
pub(crate) fn error_response(error: ApiError, headers: &HeaderMap, path: &str) -> Response {
    if expects_page(headers, path) {
        PageError::from(error).into_response()
    } else {
        error.into_response()
    }
}

/// Middleware that adds the navigation to error pages if the user is signed in. Requests of
/// programs are passed through.
pub(crate) async fn frame_errors(State(app): State<App>, request: Request, next: Next) -> Response {
    if !expects_page(request.headers(), request.uri().path()) {
        return next.run(request).await;
    }
    let headers = request.headers().clone();
    let response = next.run(request).await;
    with_visit(response, || {
        let caller = caller(&app.access, &headers, &Method::GET).ok()?;
        Visit::of(&app, &caller).ok()
    })
}

/// Whether the client is a browser that expects an HTML page.
fn expects_page(headers: &HeaderMap, path: &str) -> bool {
    !path.starts_with("/api/")
        && !path.contains("/ajax-api/")
        && header_text(headers, &ACCEPT).is_some_and(|it| it.contains("text/html"))
}

/// Authenticates a request by token, cookie or open loopback access.
fn caller(access: &Access, headers: &HeaderMap, method: &Method) -> ApiResult<Caller> {
    if let Some(secret) = bearer(headers) {
        let token = access.state.token_find(&digest(secret))?;
        return token.map(Caller::from).ok_or_else(|| {
            unauthenticated(
                "this token is unknown or was revoked: create one with `assize token create`",
            )
        });
    }
    if let Some(secret) = cookie(headers) {
        let now = (access.clock)().ms;
        if let Some(token) = access.state.session_find(&digest(&secret), now)? {
            let is_safe = *method == Method::GET || *method == Method::HEAD;
            if !is_safe && !is_own_origin(headers) {
                return Err(forbidden(
                    "a change that is authenticated by a cookie must come from a page of this \
                     server",
                ));
            }
            return Ok(token.into());
        }
    }
    if access.config.open_loopback {
        return Ok(Caller {
            role: Role::Admin,
            name: access.config.user.clone(),
            token_id: "loopback".to_owned(),
        });
    }
    Err(unauthenticated(
        "authentication required: send a token as `Authorization: Bearer TOKEN` \
         (set MLFLOW_TRACKING_TOKEN for MLflow's clients), or sign in with a browser",
    ))
}

/// Checks a caller's right again; for long-running responses.
pub(crate) fn recheck(access: &Access, caller: &Caller, right: Right) -> ApiResult<()> {
    if !access.config.open_loopback && !access.state.token_is_valid(&caller.token_id)? {
        return Err(unauthenticated("this token was revoked"));
    }
    permit(access, caller, right)
}

fn permit(access: &Access, caller: &Caller, right: Right) -> ApiResult<()> {
    if !right.is_granted_to(caller.role) {
        return Err(forbidden(&format!(
            "the role '{}' does not permit this: ask an admin for a token with another role",
            caller.role
        )));
    }
    if right != Right::Read || caller.role != Role::Judge {
        return Ok(());
    }
    if access.team.as_ref().is_some_and(|it| !it.knows_sittings()) {
        return Err(ApiError::new(
            ErrorKind::Unavailable,
            "the open sittings have not been read from the tracking server yet, and judges cannot \
             see results while one of theirs is open: try again later",
        ));
    }
    if let Some(results) = &access.results
        && results.judge_has_open_sitting(&caller.name)?
    {
        return Err(forbidden(
            "judges cannot see results while one of their sittings is open: finish yours first",
        ));
    }
    Ok(())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, given) = header_text(headers, &AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| given.trim())
}

/// Browsers store cookies by host and not by port. With the port in the cookie's name, two servers
/// on one host do not overwrite each other's sessions. It is the port that the browser sees.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = header_text(headers, &HOST).unwrap_or_default();
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
    fn roles_grant_their_rights_and_no_others() {
        let granted = |role: Role| {
            [
                Right::Read,
                Right::Write,
                Right::Judge,
                Right::Policies,
                Right::ReadService,
            ]
            .map(|right| right.is_granted_to(role))
        };
        assert_eq!(granted(Role::Admin), [true, true, true, true, true]);
        assert_eq!(granted(Role::Viewer), [true, false, false, false, true]);
        assert_eq!(granted(Role::Judge), [true, false, true, false, false]);
        assert_eq!(granted(Role::Service), [false, false, false, true, true]);
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
