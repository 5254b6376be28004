//! Signing in: one field for a token. Checking it is the access layer's.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse as _, Response};

use super::fields::Query;
use super::page::{Frame, Paged, show, with_status};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    frame: Frame,
    problem: Option<&'static str>,
    next: String,
}

pub(crate) async fn page(Query(fields): Query) -> Paged {
    let problem = match fields.get("error") {
        None => None,
        Some("ended") => Some("You are not signed in any more. Sign in again to go on."),
        Some("unsent") => Some(
            "You were not signed in, so the form was not taken. Sign in, and send it once more.",
        ),
        Some(_) => {
            Some("This token is not known, or was revoked. Check that all of it was copied.")
        }
    };
    show(&SignInPage {
        frame: Frame::bare(),
        problem,
        next: fields.owned("next").unwrap_or_default(),
    })
}

/// The page again, for somebody who has tried too often.
pub(crate) fn too_many(next: Option<&str>, wait_s: i64) -> Response {
    let page = SignInPage {
        frame: Frame::bare(),
        problem: Some(
            "Too many wrong tokens came from this address. Wait a minute, then try again.",
        ),
        next: next.unwrap_or_default().to_owned(),
    };
    let page = with_status(StatusCode::TOO_MANY_REQUESTS, &page);
    ([(RETRY_AFTER, wait_s.to_string())], page).into_response()
}
