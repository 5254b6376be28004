//! A route: method, path, handler, and the right that it requires.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{self, MethodFilter, MethodRouter};

use crate::App;
use crate::access::{Access, Right, check_right};

/// One entry of a table of routes. `S` is the state of its handler.
#[derive(Debug)]
pub(crate) struct Route<S = App> {
    /// `None` accepts every method.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "only the test of rights reads it")
    )]
    pub method: Option<Method>,
    pub path: &'static str,
    pub right: Right,
    handler: MethodRouter<S>,
}

impl<S: Clone + Send + Sync + 'static> Route<S> {
    pub fn get<H: Handler<T, S>, T: 'static>(path: &'static str, right: Right, it: H) -> Self {
        Self::on((Method::GET, MethodFilter::GET), path, right, it)
    }

    pub fn post<H: Handler<T, S>, T: 'static>(path: &'static str, right: Right, it: H) -> Self {
        Self::on((Method::POST, MethodFilter::POST), path, right, it)
    }

    pub fn put<H: Handler<T, S>, T: 'static>(path: &'static str, right: Right, it: H) -> Self {
        Self::on((Method::PUT, MethodFilter::PUT), path, right, it)
    }

    pub fn patch<H: Handler<T, S>, T: 'static>(path: &'static str, right: Right, it: H) -> Self {
        Self::on((Method::PATCH, MethodFilter::PATCH), path, right, it)
    }

    pub fn delete<H: Handler<T, S>, T: 'static>(path: &'static str, right: Right, it: H) -> Self {
        Self::on((Method::DELETE, MethodFilter::DELETE), path, right, it)
    }

    pub fn any<H: Handler<T, S>, T: 'static>(path: &'static str, right: Right, it: H) -> Self {
        Self {
            method: None,
            path,
            right,
            handler: routing::any(it),
        }
    }

    fn on<H: Handler<T, S>, T: 'static>(
        (method, filter): (Method, MethodFilter),
        path: &'static str,
        right: Right,
        handler: H,
    ) -> Self {
        Self {
            method: Some(method),
            path,
            right,
            handler: routing::on(filter, handler),
        }
    }

    /// The handler, wrapped in the authorization check.
    pub fn authorized(self, access: &Arc<Access>) -> MethodRouter<S> {
        match self.right {
            Right::Public => self.handler,
            right => {
                let check = from_fn_with_state((Arc::clone(access), right), check_right);
                self.handler.layer(check)
            }
        }
    }
}

/// Routes under one prefix.
#[derive(Debug)]
pub(crate) struct Group {
    pub prefix: &'static str,
    pub routes: Vec<Route>,
    /// Whether other paths under the prefix respond with 501 (not implemented).
    pub owns_prefix: bool,
}
