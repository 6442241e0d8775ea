//! A thread that converts the files that an output has closed to another format.
//!
//! Events are already stored when conversion begins: their file is closed, and stays until the converted file is
//! complete. So a failed conversion costs only disk space, and is repeated. An output whose files are closed faster
//! than they are converted takes no more events until some are converted.

use sheaf_store::event_file::ClosedFile;
use sheaf_telemetry::log_as;
use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{io, mem};

/// Maximum number of closed files that wait, not counting those closed at the same moment.
const MOST_WAITING: usize = 4;

/// The pause before a second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Time for which the end of an output waits for its last files: less than processes are given to exit.
const PATIENCE: Duration = Duration::from_secs(10);

/// Converts a closed file and describes the result. It stops, with any error, soon after the given function returns that
/// the work has ended.
pub type Convert =
    Box<dyn FnMut(&ClosedFile, &dyn Fn() -> bool) -> Result<ClosedFile, ConversionError> + Send>;

/// Reason why a closed file could not be converted. The kind of the error depends on the format.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct ConversionError(Arc<dyn Error + Send + Sync>);

impl ConversionError {
    /// Wraps an error of the format.
    #[must_use]
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into().into())
    }
}

/// Closed files on their way to another format.
#[derive(Debug)]
pub struct Converter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<ClosedFile>,
    under_way: bool,
    done: VecDeque<ClosedFile>,
    trouble: Option<ConversionError>,
    /// Whether no more files follow: failures are not repeated.
    closing: bool,
    /// The conversion under way is abandoned.
    ended: bool,
    files: u64,
    bytes: u64,
    failures: u64,
}

impl State {
    fn waiting(&self) -> usize {
        self.queue.len() + usize::from(self.under_way)
    }
}

impl Converter {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system's error if it cannot start a thread.
    pub fn start(convert: Convert) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let thread = Builder::new().name("convert".to_owned()).spawn(move || own.work(convert))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Takes on a closed file.
    pub fn submit(&mut self, file: ClosedFile) {
        self.shared.state().queue.push_back(file);
        self.shared.changed.notify_all();
    }

    /// A file that was made, each once.
    pub fn poll(&mut self) -> Option<ClosedFile> {
        self.shared.state().done.pop_front()
    }

    /// Files that were taken on and are neither converted nor given up.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let state = self.shared.state();
        state.waiting() + state.done.len()
    }

    /// Returns whether more files may be closed, since few enough wait.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.shared.state().waiting() < MOST_WAITING
    }

    /// Returns the present error; the work is retried meanwhile.
    #[must_use]
    pub fn trouble(&self) -> Option<ConversionError> {
        self.shared.state().trouble.clone()
    }

    /// Returns its counters by name.
    #[must_use]
    pub fn counters(&self) -> [(&'static str, u64); 3] {
        let state = self.shared.state();
        [
            ("converted_files", state.files),
            ("converted_bytes", state.bytes),
            ("conversions_failed", state.failures),
        ]
    }

    /// Converts the waiting files within a time limit, and ends the thread. Files that were not converted are
    /// unchanged.
    ///
    /// # Errors
    /// The failure of a conversion. Running out of time is not an error.
    pub fn finish(&mut self) -> Result<(), ConversionError> {
        self.finish_within(PATIENCE)
    }

    fn finish_within(&mut self, patience: Duration) -> Result<(), ConversionError> {
        let mut state = self.shared.state();
        state.closing = true;
        self.shared.changed.notify_all();
        let busy = |state: &mut State| state.waiting() > 0;
        let waited = self.shared.changed.wait_timeout_while(state, patience, busy);
        (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let (left, trouble) = (state.waiting(), state.trouble.clone());
        drop(state);
        self.end();
        match trouble {
            Some(trouble) => Err(trouble),
            None if left > 0 => {
                log_as!(
                    CONVERSION_INCOMPLETE;
                    "{left} closed files were not converted within the time limit"
                );
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn end(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log_as!(THREAD_PANICKED; "the thread that converts files has panicked");
        }
    }
}

impl Drop for Converter {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, mut convert: Convert) {
        let mut pause = FIRST_PAUSE;
        while let Some(file) = self.take() {
            let made = convert(&file, &|| self.state().ended);
            let mut state = self.state();
            state.under_way = false;
            match made {
                Ok(made) => {
                    state.files += 1;
                    state.bytes += made.bytes;
                    state.done.push_back(made);
                    if mem::take(&mut state.trouble).is_some() {
                        log_as!(CONVERSION_WORKS; "closed files are converted again");
                    }
                    pause = FIRST_PAUSE;
                }
                Err(_) if state.ended => return,
                Err(error) => {
                    state.failures += 1;
                    state.trouble = Some(error);
                    if state.closing {
                        // The node no longer waits for room.
                        state.queue.clear();
                    } else {
                        state.queue.push_front(file);
                        let rest = self
                            .changed
                            .wait_timeout_while(state, pause, |state| !state.ended && !state.closing);
                        drop(rest.unwrap_or_else(PoisonError::into_inner));
                        pause = (2 * pause).min(LONGEST_PAUSE);
                    }
                }
            }
            self.changed.notify_all();
        }
    }

    /// The next file, which is then under way; `None` at the end.
    fn take(&self) -> Option<ClosedFile> {
        let mut state = self.state();
        loop {
            if state.ended {
                return None;
            }
            if let Some(file) = state.queue.pop_front() {
                state.under_way = true;
                return Some(file);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests;
