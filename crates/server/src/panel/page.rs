//! The parts that all pages share: the layout's data, rendering, and error pages.

use askama::Template;
use assize_domain::error_kind::ErrorKind;
use assize_domain::role::Role;
use assize_pipeline::PipelineError;
use assize_store::StoreError;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::ASSETS;
use super::team_notice::TeamNotice;
use crate::App;
use crate::access::Caller;
use crate::error::{ApiError, status_of};
use crate::http::run_blocking;
use crate::judging_sessions::SessionJudge;

/// The content security policy: no inline code, no resources from other sites.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; \
    base-uri 'none'";

/// The signed-in user of a request, their permissions, and the request's time.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub name: String,
    pub token_id: String,
    /// False for a judge with an open sitting.
    pub may_read: bool,
    pub may_write: bool,
    pub may_judge: bool,
    pub now_ms: i64,
    /// The state of the team's tracking server.
    pub team: Option<TeamNotice>,
}

impl Visit {
    pub fn of(app: &App, caller: &Caller) -> Result<Self, StoreError> {
        let role = caller.role;
        let is_known = app.team.as_ref().is_none_or(|it| it.knows_sittings());
        let is_blind =
            role == Role::Judge && (!is_known || app.store.judge_has_open_sitting(&caller.name)?);
        Ok(Self {
            name: caller.name.clone(),
            token_id: caller.token_id.clone(),
            may_read: role != Role::Service && !is_blind,
            may_write: role == Role::Admin,
            may_judge: matches!(role, Role::Admin | Role::Judge),
            now_ms: (app.config.clock)().ms,
            team: app
                .team
                .as_ref()
                .map(|it| TeamNotice::of(it, (app.config.clock)().ms)),
        })
    }

    /// The user as a judge.
    pub fn session_judge(&self) -> SessionJudge {
        SessionJudge {
            token_id: self.token_id.clone(),
            name: self.name.clone(),
        }
    }
}

impl FromRequestParts<App> for Visit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, PageError> {
        let Some(caller) = parts.extensions.get::<Caller>() else {
            let message = "Authentication required: sign in to see this page.";
            return Err(PageError::new(ErrorKind::Unauthenticated, message));
        };
        Ok(Self::of(app, caller)?)
    }
}

/// The data of the layout.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// The entry of the navigation that this page belongs to.
    pub active: &'static str,
    pub visit: Option<Visit>,
    /// Seconds until the page reloads; 0 for never.
    pub refresh_s: u32,
    /// The version of the assets.
    pub assets: &'static str,
}

impl Frame {
    pub fn new(active: &'static str, visit: &Visit) -> Self {
        Self {
            active,
            visit: Some(visit.clone()),
            ..Self::bare()
        }
    }

    pub fn may_write(&self) -> bool {
        self.visit.as_ref().is_some_and(|it| it.may_write)
    }

    pub fn may_read(&self) -> bool {
        self.visit.as_ref().is_some_and(|it| it.may_read)
    }

    pub fn may_judge(&self) -> bool {
        self.visit.as_ref().is_some_and(|it| it.may_judge)
    }

    /// The URL and label of the start page that the user may see.
    pub fn home(&self) -> Option<(&'static str, &'static str)> {
        match &self.visit {
            Some(it) if !it.may_read && it.may_judge => Some(("/desk", "Back to the desk")),
            Some(it) if !it.may_read => None,
            _ => Some(("/", "Experiments")),
        }
    }

    /// The layout without a signed-in user.
    pub fn bare() -> Self {
        Self {
            active: "",
            visit: None,
            refresh_s: 0,
            assets: &ASSETS.version,
        }
    }
}

/// The result of page handlers.
pub(crate) type PageResult = Result<Response, PageError>;

/// Renders a template with status 200.
pub(crate) fn show(template: &impl Template) -> PageResult {
    with_status(StatusCode::OK, template)
}

pub(crate) fn with_status(status: StatusCode, template: &impl Template) -> PageResult {
    let html = template
        .render()
        .map_err(|error| PageError::internal(error.to_string()))?;
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        // With `no-referrer` browsers would send `Origin: null` with forms.
        (REFERRER_POLICY, "same-origin"),
    ];
    Ok((status, headers, html).into_response())
}

/// [`run_blocking`] for page handlers.
pub(crate) async fn blocking<R: Send + 'static>(
    app: &App,
    work: impl FnOnce(&App) -> Result<R, PageError> + Send + 'static,
) -> Result<R, PageError> {
    run_blocking(app, work).await
}

/// An error that is shown as a page.
#[derive(Debug, Clone)]
pub(crate) struct PageError {
    pub kind: ErrorKind,
    pub message: String,
}

impl PageError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

impl From<PipelineError> for PageError {
    fn from(error: PipelineError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        Self::new(error.kind, sentence(&error.message))
    }
}

/// Capitalises the first letter; messages of the API start in lower case.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    frame: Frame,
    title: &'a str,
    message: &'a str,
    hint: &'a str,
}

impl PageError {
    fn page(&self, frame: Frame) -> Response {
        let (title, hint) = match self.kind {
            ErrorKind::NotFound | ErrorKind::EndpointNotFound => (
                "Not found",
                "It may have been deleted, or the address is incomplete.",
            ),
            ErrorKind::InvalidInput | ErrorKind::AlreadyExists => (
                "Invalid request",
                "Go back, correct the input, and try again.",
            ),
            ErrorKind::Forbidden => (
                "Access denied",
                "Follow the message if it names a remedy; otherwise ask an admin for a token with another role.",
            ),
            ErrorKind::Sealed => (
                "The confirmation split is sealed",
                "Nominate a candidate first: run the gate on the page Promotions.",
            ),
            ErrorKind::Unreachable => (
                "The tracking server is unreachable",
                "Nothing was changed. Pages show what was read from it last; try again when it answers.",
            ),
            ErrorKind::TooLarge => ("The request is too large", "Go back and send less data."),
            ErrorKind::MethodNotAllowed => (
                "This address is not a page",
                "It only accepts forms; open the page with the form.",
            ),
            ErrorKind::Conflict | ErrorKind::Superseded => (
                "This conflicts with the current state",
                "Reload the page, check what has changed, and try again.",
            ),
            _ => (
                "Internal error",
                "Nothing was changed. Try again; if the error persists, see the server's log.",
            ),
        };
        let page = ErrorPage {
            frame,
            title,
            message: &self.message,
            hint,
        };
        with_status(status_of(self.kind), &page).unwrap_or_else(|error| {
            // Rendering the error page itself failed, so the response is plain text.
            (status_of(error.kind), error.message).into_response()
        })
    }
}

impl IntoResponse for PageError {
    /// The page without navigation; [`with_visit`] adds it for a signed-in user.
    fn into_response(self) -> Response {
        let mut response = self.page(Frame::bare());
        response.extensions_mut().insert(self);
        response
    }
}

/// Renders an error page again, with navigation, if a user is signed in.
pub(crate) fn with_visit(response: Response, visit: impl FnOnce() -> Option<Visit>) -> Response {
    let Some(error) = response.extensions().get::<PageError>() else {
        return response;
    };
    match visit() {
        Some(visit) => error.page(Frame::new("", &visit)),
        None => response,
    }
}
