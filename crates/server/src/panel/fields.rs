//! The fields of a query or of a form, in order; a name may come again.

use std::convert::Infallible;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::response::IntoResponse as _;

use super::page::PageError;
use crate::App;

/// Names with values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    fn parse(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// The first value; `None` where it is missing or blank.
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

    /// A value that has to be of some type.
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

/// Writes a query from names and values; what has no value is left out.
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
            Err(error) => Err(PageError::new(error.status(), error.body_text()).into_response()),
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
}
