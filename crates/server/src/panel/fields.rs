//! Extractors for pages: the path parameter, and the fields of a query or a form.

use std::convert::Infallible;

use assize_domain::error_kind::ErrorKind;
use assize_domain::job::JobKind;
use assize_domain::options::form_label;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::IntoResponse as _;
use serde_json::Value;

use super::page::PageError;
use crate::App;
use crate::jobs::plan::FieldProblem;

/// Fields in order; a name may occur more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn parse(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// Whether no fields were sent.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first value; `None` if it is missing or blank.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut all = self.0.iter().filter(|(known, _)| known == name);
        all.next()
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        let all = self.0.iter().filter(|(known, _)| known == name);
        all.map(|(_, value)| value.as_str()).collect()
    }

    pub fn owned(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// Parses the first value.
    pub fn read<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, PageError>
    where
        T::Err: std::fmt::Display,
    {
        let read = |text: &str| {
            text.parse()
                .map_err(|error| PageError::invalid(format!("{name}: {error}")))
        };
        self.get(name).map(read).transpose()
    }
}

/// Builds a query string; fields without a value are omitted.
pub(crate) fn query(fields: &[(&str, Option<&str>)]) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        if let Some(value) = value.filter(|it| !it.is_empty()) {
            text.append_pair(name, value);
        }
    }
    match text.finish() {
        empty if empty.is_empty() => String::new(),
        text => format!("?{text}"),
    }
}

/// Converts a text to a number. Other text is kept, so that the check of the request can report
/// the field.
pub(crate) fn number<T: std::str::FromStr + Into<Value>>(text: &str) -> Value {
    text.parse::<T>().map_or_else(|_| text.into(), Into::into)
}

/// Problems of a request, each with the form's label of its field.
pub(crate) fn named(problems: &[FieldProblem], kind: JobKind) -> Vec<String> {
    let label = |field: &str| {
        let known = form_label(kind, field);
        known.map_or_else(|| field.to_owned(), |label| format!("“{label}”"))
    };
    let words = problems
        .iter()
        .map(|it| format!("{} {}", label(&it.field), it.message));
    words.collect()
}

/// The name or id in a URL path.
#[derive(Debug)]
pub(crate) struct Path(pub String);

impl FromRequestParts<App> for Path {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, PageError> {
        let named = axum::extract::Path::<String>::from_request_parts(parts, app).await;
        named.map(|it| Self(it.0)).map_err(|_| {
            let message = "The address is not valid UTF-8.";
            PageError::new(ErrorKind::NotFound, message)
        })
    }
}

/// The fields of the query.
#[derive(Debug)]
pub(crate) struct Query(pub Fields);

impl FromRequestParts<App> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Infallible> {
        let text = parts.uri.query().unwrap_or_default();
        Ok(Self(Fields::parse(text.as_bytes())))
    }
}

/// The fields of a posted form.
#[derive(Debug)]
pub(crate) struct Form(pub Fields);

impl FromRequest<App> for Form {
    type Rejection = axum::response::Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Self::Rejection> {
        let body = Bytes::from_request(request, app).await;
        match body {
            Ok(body) => Ok(Self(Fields::parse(&body))),
            Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                Err(PageError::new(ErrorKind::TooLarge, error.body_text()).into_response())
            }
            Err(error) => Err(PageError::invalid(error.body_text()).into_response()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_written() {
        let fields = Fields::parse(b"a=1+2&b=&a=%C3%A9&c=x");
        assert_eq!(fields.get("a"), Some("1 2"));
        assert_eq!(fields.get("b"), None);
        assert_eq!(fields.all("a"), ["1 2", "é"]);
        assert!(fields.read::<u32>("c").is_err());
        assert_eq!(query(&[("a", Some("1 &")), ("b", None)]), "?a=1+%26");
        assert_eq!(query(&[("b", Some(""))]), "");
    }

    #[test]
    fn problems_name_the_form_s_labels() {
        let problem = |field: &str| FieldProblem {
            field: field.to_owned(),
            message: "is 0".to_owned(),
        };
        let problems = [problem("n_tips"), problem("jobs"), problem("limit")];
        let words = named(&problems, JobKind::Collect);
        assert_eq!(
            words,
            ["“outputs per cell” is 0", "jobs is 0", "limit is 0"]
        );
        let words = named(&problems[2..], JobKind::Judge);
        assert_eq!(words, ["“cases at most” is 0"]);
        assert_eq!(number::<i64>("7"), 7);
        assert_eq!(number::<i64>("many"), "many");
        assert_eq!(number::<f64>("0.5"), 0.5);
    }
}
