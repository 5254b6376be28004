//! Parts of addresses on an MLflow server.

pub(crate) use assize_http::encoded;
