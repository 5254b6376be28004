//! Addresses of servers, and the blocking HTTP client for them.
//!
//! Everything that reads a URL reads it here, with the `url` crate, so that one address has one
//! meaning: [`Address`] is a server that we call, [`Authority`] is the `Host` that somebody
//! called us by, [`LocalMachine`] tells whether a server shares this machine's memory, and
//! [`redacted`] is how an address is shown.
//!
//! [`Client`] sends requests to one server: timeouts, size limits, retries with backoff,
//! `Retry-After`, authorization. What an answer *means* is decided by its callers (model
//! providers, MLflow, the webhook), which map a [`Response`] or a [`TransportError`] to their
//! own errors and say whether it is worth another try.

mod address;
mod authority;
mod client;
mod local;
mod request;
mod response;
mod retry;
mod slots;
mod transport;
pub mod webhook;

pub use address::{Address, AddressError, Credentials, encoded, is_http, place_of, redacted};
pub use authority::{Authority, is_same_origin, path_of};
pub use client::{Authorization, Client, HttpConfig, Options, Sleep};
pub use local::{LocalMachine, Network, THIS_MACHINE};
pub use request::Request;
pub use response::{Response, quote};
pub use retry::{Backoff, FailedTry, Retry, Tries};
pub use transport::{TransportError, TransportErrorKind};
pub use webhook::{Webhook, WebhookError};
