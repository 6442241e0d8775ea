//! Threads that bring the closed files of a run to the object store.

use crate::client::Client;
use crate::error::ObjectError;
use crate::transfer;
use sheaf_store::event_file::ClosedFile;
use sheaf_store::upload::{StoreError, UploadError, Uploads};
use sheaf_telemetry::log_as;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

/// The pause before a second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// A store that is busy or away for a moment is no trouble until a file has failed so often.
const FAILURES_BEFORE_TROUBLE: u32 = 3;

/// Brings closed files of one run directory to objects below one key. See [`Uploads`].
#[derive(Debug)]
pub struct Uploader {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    directory: PathBuf,
    /// Prefix of the keys of its objects, with the slash at the end.
    below: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<ClosedFile>,
    /// Files that a thread has, by thread.
    under_way: BTreeMap<usize, String>,
    done: VecDeque<ClosedFile>,
    trouble: BTreeMap<usize, StoreError>,
    ended: bool,
    files: u64,
    bytes: u64,
    attempts_failed: u64,
}

impl Uploader {
    /// Starts the threads. Files are taken from `directory` and become objects named `below/FILE`.
    ///
    /// # Errors
    /// The operating system's error if it cannot start a thread.
    pub fn start(client: Client, directory: &Path, below: &str) -> io::Result<Self> {
        let connections = client.settings().connections.max(1);
        let shared = Arc::new(Shared {
            directory: directory.to_owned(),
            below: format!("{}/", client.key(below)),
            client,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let mut uploader = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        for number in 0..connections {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name(format!("upload{number}"));
            uploader.threads.push(thread.spawn(move || shared.work(number))?);
        }
        Ok(uploader)
    }

    fn end(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log_as!(THREAD_PANICKED; "a thread that uploads has panicked");
            }
        }
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        self.end();
    }
}

impl Uploads for Uploader {
    fn submit(&mut self, file: ClosedFile) {
        self.shared.state().queue.push_back(file);
        self.shared.changed.notify_one();
    }

    fn poll(&mut self) -> Option<ClosedFile> {
        self.shared.state().done.pop_front()
    }

    fn waiting(&self) -> usize {
        let state = self.shared.state();
        state.queue.len() + state.under_way.len() + state.done.len()
    }

    fn trouble(&self) -> Option<StoreError> {
        self.shared.state().trouble.values().next().cloned()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let state = self.shared.state();
        vec![
            ("uploaded_files", state.files),
            ("uploaded_bytes", state.bytes),
            ("uploads_failed", state.attempts_failed),
        ]
    }

    /// A request that is in progress when the time is over may finish.
    fn finish(&mut self, patience: Duration) -> Result<(), UploadError> {
        let is_busy =
            |state: &mut State| state.queue.len() + state.under_way.len() > 0 && state.trouble.is_empty();
        drop(self.shared.changed.wait_timeout_while(self.shared.state(), patience, is_busy));
        self.end();
        let state = self.shared.state();
        let files = state.under_way.len() + state.queue.len();
        let mut left = state.under_way.values().chain(state.queue.iter().map(|file| &file.file));
        let Some(first) = left.next() else { return Ok(()) };
        Err(match state.trouble.values().next() {
            None => UploadError::Unfinished { files, first: first.clone() },
            Some(error) => UploadError::Failed { files, error: error.clone() },
        })
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ended(&self) -> bool {
        self.state().ended
    }

    fn work(&self, number: usize) {
        while let Some(file) = self.take(number) {
            if !self.bring(number, file) {
                return;
            }
        }
    }

    /// The next file, which is then under way; `None` at the end.
    fn take(&self, number: usize) -> Option<ClosedFile> {
        let mut state = self.state();
        loop {
            if state.ended {
                return None;
            }
            if let Some(file) = state.queue.pop_front() {
                state.under_way.insert(number, file.file.clone());
                return Some(file);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Tries until the file is uploaded, or the work ends: then it counts as in progress.
    fn bring(&self, number: usize, mut file: ClosedFile) -> bool {
        let key = format!("{}{}", self.below, file.file);
        let path = self.directory.join(&file.file);
        let (mut failures, mut pause) = (0, FIRST_PAUSE);
        loop {
            match transfer::upload(&self.client, &path, &key, file.crc32c, &|| self.is_ended()) {
                Ok(sent) => {
                    file.object = Some(self.client.address(&key));
                    let mut state = self.state();
                    state.under_way.remove(&number);
                    if state.trouble.remove(&number).is_some() {
                        log_as!(OBJECT_STORE_WORKS; "the object store works again");
                    }
                    state.files += 1;
                    state.bytes += sent.bytes;
                    state.done.push_back(file);
                    self.changed.notify_all();
                    return true;
                }
                Err(ObjectError::Ended { .. }) => return false,
                Err(error) => {
                    failures += 1;
                    self.note_failure(number, failures, error);
                }
            }
            if !self.rest(pause) {
                return false;
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    fn note_failure(&self, number: usize, failures: u32, error: ObjectError) {
        log::debug!("attempt {failures}: {error}");
        let mut state = self.state();
        state.attempts_failed += 1;
        if failures >= FAILURES_BEFORE_TROUBLE || !error.is_passing() {
            state.trouble.insert(number, Arc::new(error));
            self.changed.notify_all();
        }
    }

    /// Sleeps; `false` if the work ends.
    fn rest(&self, pause: Duration) -> bool {
        let state = self.state();
        let ended = self.changed.wait_timeout_while(state, pause, |state| !state.ended);
        let (state, _) = ended.unwrap_or_else(PoisonError::into_inner);
        !state.ended
    }
}
