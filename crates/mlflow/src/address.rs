//! Encoding of URL parts for an MLflow server.

pub(crate) use assize_http::encoded;
