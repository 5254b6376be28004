//! The sign-in page. [`access::sign_in`](crate::access::sign_in) checks the token.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse as _, Response};

use super::fields::Query;
use super::page::{Frame, PageResult, show, with_status};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    frame: Frame,
    problem: Option<&'static str>,
    next: String,
}

pub(crate) async fn page(Query(fields): Query) -> PageResult {
    let problem = match fields.get("error") {
        None => None,
        Some("ended") => Some("Your session has expired. Sign in again."),
        Some("unsent") => Some(
            "You were not signed in, so the form was not processed. Sign in and send it again.",
        ),
        Some(_) => {
            Some("This token is unknown or was revoked. Check that it was copied completely.")
        }
    };
    show(&SignInPage {
        frame: Frame::bare(),
        problem,
        next: fields.owned("next").unwrap_or_default(),
    })
}

/// The response to too many failed attempts.
pub(crate) fn too_many(next: Option<&str>, wait_s: i64) -> Response {
    let page = SignInPage {
        frame: Frame::bare(),
        problem: Some("Too many failed attempts from this address. Wait a minute, then try again."),
        next: next.unwrap_or_default().to_owned(),
    };
    let page = with_status(StatusCode::TOO_MANY_REQUESTS, &page);
    ([(RETRY_AFTER, wait_s.to_string())], page).into_response()
}
