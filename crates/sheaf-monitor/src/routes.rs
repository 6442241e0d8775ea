//! The list of requests that are answered, of which the router is made. A test compares it with the description of the interface.

use crate::serving::Server;
use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};

/// A request that is answered.
pub(crate) struct Route {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the description of the interface is compared with it")
    )]
    pub(crate) method: Method,
    /// Path, as the router takes it.
    pub(crate) path: &'static str,
    answer: MethodRouter<Server>,
}

impl Route {
    /// Makes a route.
    ///
    /// # Panics
    /// If the method is none of HTTP.
    pub(crate) fn new<H, T>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Server>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("the method is one of HTTP");
        Self { method, path, answer: on(filter, handler) }
    }

    pub(crate) fn get<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Server>,
        T: 'static,
    {
        Self::new(Method::GET, path, handler)
    }
}

/// Returns a router of these routes.
pub(crate) fn router(routes: Vec<Route>) -> Router<Server> {
    routes.into_iter().fold(Router::new(), |router, route| router.route(route.path, route.answer))
}
