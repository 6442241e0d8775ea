//! The thread that keeps the commands in the manifest of a run up to date.

use crate::commands::RunCommands;
use anyhow::Context as _;
use sheaf_store::run::Manifest;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between two looks at the commands. A look reads the number and the size of a file.
const PERIOD: Duration = Duration::from_millis(500);

/// See the [module](self). Dropping it ends the thread.
pub(crate) struct CommandWatch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl CommandWatch {
    pub(super) fn begin(
        manifest: Arc<Mutex<Manifest>>,
        path: PathBuf,
        commands: Arc<RunCommands>,
    ) -> anyhow::Result<Self> {
        let (end, ended) = channel::<()>();
        let body = move || loop {
            let mut manifest = manifest.lock().unwrap_or_else(PoisonError::into_inner);
            // What a full disk does not take is in memory, and is written when the run is closed.
            if commands.fill(&mut manifest, None)
                && let Err(error) = manifest.write(&path)
            {
                log::debug!("the commands of the run cannot be recorded yet: {error}");
            }
            drop(manifest);
            if ended.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        };
        let thread = std::thread::Builder::new().name("commands".into()).spawn(body);
        Ok(Self { end: Some(end), thread: Some(thread.context("cannot start a thread")?) })
    }
}

impl Drop for CommandWatch {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
