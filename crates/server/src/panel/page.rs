//! What all pages share: the frame around them, how they leave, and what an error looks like.

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
use crate::App;
use crate::access::Caller;
use crate::error::{ApiError, status_of};
use crate::http::run_blocking;
use crate::judging_sessions::SessionJudge;

/// Nothing inline, nothing from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; \
    base-uri 'none'";

/// Who looks, and when.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub name: String,
    pub token_id: String,
    /// Now: judges are blind while a sitting of theirs is open.
    pub may_read: bool,
    pub may_write: bool,
    pub may_judge: bool,
    pub now_ms: i64,
}

impl Visit {
    pub fn of(app: &App, caller: &Caller) -> Result<Self, StoreError> {
        let role = caller.role;
        let is_blind = role == Role::Judge && app.store.judge_sits(&caller.name)?;
        Ok(Self {
            name: caller.name.clone(),
            token_id: caller.token_id.clone(),
            may_read: role != Role::Service && !is_blind,
            may_write: role == Role::Admin,
            may_judge: matches!(role, Role::Admin | Role::Judge),
            now_ms: (app.config.clock)().ms,
        })
    }

    /// As the desk knows the visitor.
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
            let message = "This page needs somebody who has signed in.";
            return Err(PageError::new(ErrorKind::Unauthenticated, message));
        };
        Ok(Self::of(app, caller)?)
    }
}

/// What the layout needs.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// The entry of the navigation that this page belongs to.
    pub active: &'static str,
    pub visit: Option<Visit>,
    /// Seconds after which a page without JavaScript loads again; 0 never.
    pub refresh_s: u32,
    /// The version of style sheet and script.
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

    /// The first page that is open to whoever looks, where one is.
    pub fn home(&self) -> Option<(&'static str, &'static str)> {
        match &self.visit {
            Some(it) if !it.may_read && it.may_judge => Some(("/desk", "Back to the desk")),
            Some(it) if !it.may_read => None,
            _ => Some(("/", "Experiments")),
        }
    }

    /// Around a page for nobody in particular.
    pub fn bare() -> Self {
        Self {
            active: "",
            visit: None,
            refresh_s: 0,
            assets: &ASSETS.version,
        }
    }
}

/// A page that can be shown, or why not.
pub(crate) type Paged = Result<Response, PageError>;

/// A template as a response.
pub(crate) fn show(template: &impl Template) -> Paged {
    with_status(StatusCode::OK, template)
}

pub(crate) fn with_status(status: StatusCode, template: &impl Template) -> Paged {
    let html = template
        .render()
        .map_err(|error| PageError::internal(error.to_string()))?;
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        // Not `no-referrer`: forms would then send no origin of ours.
        (REFERRER_POLICY, "same-origin"),
    ];
    Ok((status, headers, html).into_response())
}

/// [`run_blocking`] for handlers of pages.
pub(crate) async fn blocking<R: Send + 'static>(
    app: &App,
    work: impl FnOnce(&App) -> Result<R, PageError> + Send + 'static,
) -> Result<R, PageError> {
    run_blocking(app, work).await
}

/// A page that says what is wrong.
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

/// Messages for programs start small.
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
                "There is nothing here",
                "It may have been deleted, or the address is not complete.",
            ),
            ErrorKind::InvalidInput | ErrorKind::AlreadyExists => (
                "That cannot be done",
                "Go back, change what the message names, and try again.",
            ),
            ErrorKind::Forbidden => (
                "This is not open to you now",
                "Where the message names something to do, do that first; else ask whoever runs this server for a token with another role.",
            ),
            ErrorKind::TooLarge => ("That is too much at once", "Go back, and send less of it."),
            ErrorKind::MethodNotAllowed => (
                "This address is not a page",
                "A form leads here; open the page that it is on.",
            ),
            ErrorKind::Conflict | ErrorKind::Superseded => (
                "This conflicts with the current state",
                "Look at what changed, then decide again.",
            ),
            _ => (
                "Something failed",
                "Nothing was changed. Try again; where it stays, the server's log says more.",
            ),
        };
        let page = ErrorPage {
            frame,
            title,
            message: &self.message,
            hint,
        };
        with_status(status_of(self.kind), &page).unwrap_or_else(|error| {
            // The template of errors itself failed; plain text cannot.
            (status_of(error.kind), error.message).into_response()
        })
    }
}

impl IntoResponse for PageError {
    /// The page for nobody in particular; [`with_visit`] knows better.
    fn into_response(self) -> Response {
        let mut response = self.page(Frame::bare());
        response.extensions_mut().insert(self);
        response
    }
}

/// What is wrong, with the ways on for whoever is signed in.
pub(crate) fn with_visit(response: Response, visit: impl FnOnce() -> Option<Visit>) -> Response {
    let Some(error) = response.extensions().get::<PageError>() else {
        return response;
    };
    match visit() {
        Some(visit) => error.page(Frame::new("", &visit)),
        None => response,
    }
}
