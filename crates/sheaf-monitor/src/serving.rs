//! Values that the handlers of requests share.

use crate::access::Senders;
use crate::control::Control;
use crate::guard::Door;
use crate::shared::{Shared, Tick};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;

/// Everything that handlers need.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    pub(crate) ticks: watch::Receiver<Tick>,
    /// Run control, if this page has it.
    pub(crate) control: Option<Arc<dyn Control>>,
    /// Knows who may send values, if there are any.
    pub(crate) senders: Option<Arc<dyn Senders>>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where requests come in.
    pub(crate) door: Door,
}

/// Status and text of an answer without anything else.
pub(crate) type Refusal = (StatusCode, String);

/// Does work that may wait for a disk, on another thread.
///
/// # Errors
/// The answer that says why there is no result.
pub(crate) async fn on_another_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Response> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(IntoResponse::into_response),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()),
    }
}
