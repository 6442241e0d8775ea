//! Requests of a controller to an event manager in a process of its own.
//!
//! They come from the process that has started it, over its standard output, which is a socket then: a line of JSON whenever they
//! change. Standard input is its listening socket.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sheaf_node::RunControls;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Requests to the event manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Requests {
    hold: bool,
    pause: bool,
}

impl Requests {
    fn of(controls: &RunControls) -> Self {
        Self { hold: controls.hold.load(Ordering::Relaxed), pause: controls.pause.load(Ordering::Relaxed) }
    }
}

/// The end of the parent.
pub(crate) struct Steered {
    controls: Arc<RunControls>,
    stream: UnixStream,
    sent: Option<Requests>,
}

impl Steered {
    pub(crate) fn new(controls: Arc<RunControls>, stream: UnixStream) -> Self {
        Self { controls, stream, sent: None }
    }

    /// Passes on requests that have changed.
    pub(crate) fn pass_on(&mut self) {
        let requests = Requests::of(&self.controls);
        if self.sent == Some(requests) {
            return;
        }
        self.sent = Some(requests);
        let Ok(mut line) = serde_json::to_vec(&requests) else { return };
        line.push(b'\n');
        if let Err(error) = self.stream.write_all(&line) {
            log::debug!("the event manager does not take requests any more: {error}");
        }
    }
}

/// Follows the requests of the parent from now on, in the process of the event manager.
pub(crate) fn follow(controls: Arc<RunControls>) -> anyhow::Result<()> {
    let socket = std::io::stdout().as_fd().try_clone_to_owned().context("standard output is no socket")?;
    let lines = BufReader::new(UnixStream::from(socket)).lines();
    let body = move || {
        for line in lines.map_while(Result::ok) {
            match serde_json::from_str::<Requests>(&line) {
                Ok(Requests { hold, pause }) => {
                    controls.hold.store(hold, Ordering::Relaxed);
                    controls.pause.store(pause, Ordering::Relaxed);
                }
                Err(error) => log::warn!("a request of the controller cannot be read: {error}"),
            }
        }
    };
    std::thread::Builder::new().name("requests".into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}
