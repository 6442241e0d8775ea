//! Values that the handlers of requests share.

use crate::control::Control;
use crate::shared::{Shared, Tick};
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
    /// Where it listens.
    pub(crate) address: SocketAddr,
}
