//! MLflow: its Python client with `assize serve`, its server as our tracking store, searches, and
//! `assize sync` between stores.

mod addresses;
mod api;
mod client;
mod fuzz;
#[cfg(unix)]
mod ledger;
#[cfg(unix)]
mod pages;
#[cfg(unix)]
mod parity;
#[cfg(unix)]
mod recovery;
mod search;
#[cfg(unix)]
mod server;
#[cfg(unix)]
#[path = "../support/sittings.rs"]
mod sittings;
mod sync;
#[cfg(unix)]
mod team;
