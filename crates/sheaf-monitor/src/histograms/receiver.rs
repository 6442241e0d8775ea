//! The thread of a run that takes publications and writes the file.

use super::publishing;
use super::receiving::{Receiving, SOCKET_NAME};
use crate::unix_time::unix_ms;
use sheaf_histogram::{HistogramRecord, HistogramStore, StoreLimits};
use sheaf_machine::listen_at;
use sheaf_telemetry::log_as;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

/// Interval between two looks for changes to write.
const TICK: Duration = Duration::from_secs(1);

/// A publisher is expected to publish its last if it has published within this time. Publishers do so every 3 s at least.
const EXPECTED_MS: u64 = 10_000;

/// Time that publishers have for it after the end of the run.
const GRACE: Duration = Duration::from_secs(2);

/// Pause between two looks whether they have.
const PAUSE: Duration = Duration::from_millis(10);

/// Reason why publishers cannot reach a run.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverError {
    /// The socket cannot be made.
    #[error("cannot listen at {path}: {error}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread for histograms: {0}")]
    Thread(io::Error),
}

/// Options of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverOptions {
    /// Directory of the run, for the socket and the file.
    pub directory: PathBuf,
    /// Number of the run.
    pub run: u32,
    /// Limit of the bytes of all histograms.
    pub bytes: u64,
}

/// The file of a run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHistograms {
    /// Number of histograms.
    pub histograms: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Takes histograms of a run until it is dropped.
#[derive(Debug)]
pub struct HistogramReceiver {
    shared: Arc<Receiving>,
    directory: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HistogramReceiver {
    /// Begins to take histograms.
    ///
    /// # Errors
    /// If the socket or the thread cannot be made.
    pub fn start(options: ReceiverOptions) -> Result<Self, ReceiverError> {
        let ReceiverOptions { directory, run, bytes } = options;
        let path = directory.join(SOCKET_NAME);
        let listener = listen_at(&path);
        let listener = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        let listener = listener.map_err(|error| ReceiverError::Socket { path, error })?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(ReceiverError::Thread)?;
        let limits = StoreLimits { bytes, ..StoreLimits::default() };
        let shared = Arc::new(Receiving::new(HistogramStore::new(run, limits)));
        let (stop, stopped) = oneshot::channel();
        let writer =
            Writer { shared: shared.clone(), directory: directory.clone(), written: 0, fails: false };
        let body = move || {
            if let Err(error) = runtime.block_on(serve(listener, writer, stopped)) {
                log_as!(HISTOGRAMS_UNAVAILABLE; "histograms are not taken any more: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("histograms".into()).spawn(body);
        let thread = Some(thread.map_err(ReceiverError::Thread)?);
        Ok(Self { shared, directory, stop: Some(stop), thread })
    }

    /// Waits for the last publications of publishers at work, for two seconds at most, takes no more, and writes the file. Returns nothing
    /// if there is no histogram, or if the file cannot be written.
    #[must_use]
    pub fn finish(mut self) -> Option<StoredHistograms> {
        let until = Instant::now() + GRACE;
        while self.shared.store().is_awaited(unix_ms().saturating_sub(EXPECTED_MS)) && Instant::now() < until
        {
            std::thread::sleep(PAUSE);
        }
        self.end();
        let record = {
            let store = self.shared.store();
            if store.revision() == 0 {
                return None;
            }
            store.record(unix_ms(), true)
        };
        let bytes = record.to_bytes();
        match write(&self.directory, &bytes, true) {
            Ok(()) => {
                let histograms = record.histograms.len() as u64;
                Some(StoredHistograms { histograms, bytes: bytes.len() as u64 })
            }
            Err(error) => {
                log_unwritten(&error);
                None
            }
        }
    }

    fn end(&mut self) {
        drop(self.stop.take());
        let Some(thread) = self.thread.take() else { return };
        if thread.join().is_err() {
            log_as!(
                THREAD_PANICKED;
                "the thread for histograms panicked: this is a bug in sheaf; its message is above"
            );
        }
        // It may be gone with the directory of a run that did not begin.
        let _ = fs::remove_file(self.directory.join(SOCKET_NAME));
    }
}

impl Drop for HistogramReceiver {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves publishers until `stopped`, and writes what has changed.
async fn serve(listener: UnixListener, mut writer: Writer, stopped: oneshot::Receiver<()>) -> io::Result<()> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let service = axum::serve(listener, publishing::router(writer.shared.clone())).into_future();
    let mut service = std::pin::pin!(service);
    let mut stopped = std::pin::pin!(stopped);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            result = &mut service => return result,
            _ = &mut stopped => return Ok(()),
            _ = ticks.tick() => writer.write(),
        }
    }
}

/// Writes the file again where something has changed.
struct Writer {
    shared: Arc<Receiving>,
    directory: PathBuf,
    /// Revision of the store that was written.
    written: u64,
    /// Whether the last attempt failed.
    fails: bool,
}

impl Writer {
    fn write(&mut self) {
        let (revision, record) = {
            let store = self.shared.store();
            if store.revision() == self.written {
                return;
            }
            (store.revision(), store.record(unix_ms(), false))
        };
        match write(&self.directory, &record.to_bytes(), false) {
            Ok(()) => (self.written, self.fails) = (revision, false),
            Err(error) => {
                if !self.fails {
                    log_unwritten(&error);
                }
                self.fails = true;
            }
        }
    }
}

fn log_unwritten(error: &io::Error) {
    log_as!(HISTOGRAMS_NOT_WRITTEN; "cannot write {}: {error}", HistogramRecord::FILE);
}

/// Replaces the file at once: a reader finds the old one or the new one.
fn write(directory: &Path, bytes: &[u8], is_last: bool) -> io::Result<()> {
    let (path, new) = (directory.join(HistogramRecord::FILE), directory.join(".histograms.json.new"));
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        if is_last { file.sync_all() } else { Ok(()) }
    });
    let written = written.and_then(|()| fs::rename(&new, &path));
    if written.is_err() {
        // The next attempt would need its room.
        let _ = fs::remove_file(&new);
    }
    written
}
