//! Event files written by a separate thread.
//!
//! A disk that hangs (a network file system without its server, a frozen device) blocks every caller. Here it only
//! blocks a thread with no other duties: the node continues to send heartbeats, its events wait, and the dead time is
//! attributed to the output. Without this thread the node itself is silent, and the event manager gives it up after
//! `manager.peer_timeout_ms`.
//!
//! The caller bounds the queue of the thread: it keeps a slot for each event until the event is stored.

use crate::sink::{EventSink, FileSink, SinkError, Taken};
use bytes::Bytes;
use sheaf_store::streams::Routing;
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{Event, Nanos, Timestamp, Verdict};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{io, mem};

/// Interval at which the node asks for the thread's results while the thread has something to do.
const LOOKS: Nanos = Nanos::from_millis(1);

/// Time for which the end of an output waits for the thread: longer than a converter's last files have, and less than processes are
/// given to end by themselves.
const PATIENCE: Duration = Duration::from_secs(12);

/// The event files of a node, and the thread that writes them.
#[derive(Debug)]
pub struct FilesBeside {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    routing: Routing,
    left_out: u64,
    /// Accepted since the last end of a batch.
    batch: VecDeque<(Event<Bytes>, Verdict)>,
    /// Run records since then.
    records: Vec<Arc<RunRecord>>,
    pressed: bool,
    /// Time at which the thread's results were last read.
    looked_at: Timestamp,
    /// The results read then, and the round of the thread that produced them.
    seen: Seen,
    round: u64,
    patience: Duration,
}

/// State of the files as the thread reports it.
#[derive(Clone, Debug)]
struct Seen {
    stored: u64,
    due: Timestamp,
    has_room: bool,
    trouble: Option<SinkError>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether the node no longer waits for the thread.
    abandoned: AtomicBool,
}

#[derive(Debug)]
struct State {
    events: VecDeque<(Event<Bytes>, Verdict)>,
    records: Vec<Arc<RunRecord>>,
    now: Timestamp,
    /// A batch has ended that the thread knows nothing of.
    asked: bool,
    pressed: bool,
    /// The files are to be closed.
    closing: bool,
    working: bool,
    /// Number of rounds that the thread has completed.
    rounds: u64,
    seen: Seen,
    /// Result of closing the files.
    closed: Option<Result<(), SinkError>>,
    /// Counters at that time.
    counters: Vec<(String, u64)>,
}

impl FilesBeside {
    /// Starts the thread that writes `files`.
    ///
    /// # Errors
    /// The operating system's error if it cannot start a thread.
    pub fn start(files: FileSink) -> io::Result<Self> {
        let routing = files.routing().clone();
        Self::with(Box::new(files), routing, PATIENCE)
    }

    fn with(sink: Box<dyn EventSink>, routing: Routing, patience: Duration) -> io::Result<Self> {
        let (mut files, writer) = Self::without_thread(sink, routing, patience);
        let run = move || writer.run();
        files.thread = Some(Builder::new().name("files".to_owned()).spawn(run)?);
        Ok(files)
    }

    /// The two sides of an output whose writer the caller runs: a simulation without threads does. [`EventSink::finish`] waits for
    /// up to `patience` of real time until the writer has closed the files; it may be called again.
    #[must_use]
    pub fn without_thread(
        sink: Box<dyn EventSink>,
        routing: Routing,
        patience: Duration,
    ) -> (Self, FilesWriter) {
        let seen = Seen::of(sink.as_ref(), None);
        let state = State {
            events: VecDeque::new(),
            records: Vec::new(),
            now: Timestamp::ZERO,
            asked: false,
            pressed: false,
            closing: false,
            working: false,
            rounds: 0,
            seen: seen.clone(),
            closed: None,
            counters: Vec::new(),
        };
        let (state, changed, abandoned) = (Mutex::new(state), Condvar::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared { state, changed, abandoned });
        let writer = FilesWriter {
            shared: Arc::clone(&shared),
            sink,
            events: VecDeque::new(),
            records: VecDeque::new(),
        };
        let files = Self {
            shared,
            thread: None,
            routing,
            left_out: 0,
            batch: VecDeque::new(),
            records: Vec::new(),
            pressed: false,
            looked_at: Timestamp::ZERO,
            seen,
            round: 0,
            patience,
        };
        (files, writer)
    }
}

impl EventSink for FilesBeside {
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        self.give(&mut event.clone(), verdict)
    }

    fn give(&mut self, event: &mut Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        if self.routing.route(event.id, verdict.tags).is_empty() {
            self.left_out += 1;
            return Ok(Taken::LeftOut);
        }
        self.batch.push_back((event.take(), verdict.clone()));
        Ok(Taken::Accepted)
    }

    /// The number of records in the queue is limited by that of the run.
    fn record(&mut self, record: &Arc<RunRecord>) -> Result<(), SinkError> {
        self.records.push(record.clone());
        Ok(())
    }

    /// Hands the batch over and collects the results of earlier ones: an error belongs to an earlier call.
    fn end_batch(&mut self, now: Timestamp) -> Result<(), SinkError> {
        let mut state = self.shared.state();
        let is_new = !self.batch.is_empty() || !self.records.is_empty() || self.pressed;
        // A failed call is repeated whenever the node asks for it.
        if is_new || now >= state.seen.due || state.seen.trouble.is_some() || !state.seen.has_room {
            hand_over(&mut self.batch, &mut state.events);
            state.records.append(&mut self.records);
            state.pressed |= mem::take(&mut self.pressed);
            state.now = now;
            state.asked = true;
            if !state.working {
                self.shared.changed.notify_all();
            }
        }
        self.looked_at = now;
        if self.round != state.rounds {
            self.round = state.rounds;
            self.seen.clone_from(&state.seen);
        }
        match &state.closed {
            Some(Err(error)) => Err(error.clone()),
            _ => self.seen.trouble.clone().map_or(Ok(()), Err),
        }
    }

    fn press(&mut self) {
        self.pressed = true;
    }

    fn has_room(&self) -> bool {
        self.seen.has_room
    }

    fn stored(&self) -> u64 {
        self.seen.stored
    }

    fn due(&self) -> Timestamp {
        let state = self.shared.state();
        if state.asked || state.working || state.rounds != self.round {
            self.looked_at + LOOKS
        } else {
            self.seen.due
        }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let mut state = self.shared.state();
        hand_over(&mut self.batch, &mut state.events);
        state.records.append(&mut self.records);
        state.closing = true;
        self.shared.changed.notify_all();
        let open = |state: &mut State| state.closed.is_none();
        let waited = self.shared.changed.wait_timeout_while(state, self.patience, open);
        (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.seen.clone_from(&state.seen);
        let Some(closed) = state.closed.clone() else {
            return Err(SinkError::NotClosed { seconds: self.patience.as_secs() });
        };
        drop(state);
        if let Some(thread) = self.thread.take() {
            // Its panic, if it had one, is in `closed`.
            let _ = thread.join();
        }
        closed
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let mut counters = self.shared.state().counters.clone();
        for (name, count) in &mut counters {
            if name == FileSink::PRESCALED {
                *count += self.left_out;
            }
        }
        counters
    }
}

impl Drop for FilesBeside {
    /// A thread that does not come back is left behind.
    fn drop(&mut self) {
        self.shared.abandoned.store(true, Ordering::Release);
        // A thread that checked the condition just before holds the lock, and is waiting once this call has acquired
        // it.
        drop(self.shared.state());
        self.shared.changed.notify_all();
    }
}

/// Puts events behind those that wait: where none do, all at once, and the memory of the one goes to the other.
fn hand_over(from: &mut VecDeque<(Event<Bytes>, Verdict)>, to: &mut VecDeque<(Event<Bytes>, Verdict)>) {
    if to.is_empty() {
        mem::swap(from, to);
    } else {
        to.append(from);
    }
}

impl Seen {
    fn of(sink: &dyn EventSink, trouble: Option<SinkError>) -> Self {
        Self { stored: sink.stored(), due: sink.due(), has_room: sink.has_room(), trouble }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The side of the thread. Where it ends without closing the files, it panicked.
pub struct FilesWriter {
    shared: Arc<Shared>,
    sink: Box<dyn EventSink>,
    /// Events that were handed over and are not written.
    events: VecDeque<(Event<Bytes>, Verdict)>,
    /// Run records that were handed over and are not written.
    records: VecDeque<Arc<RunRecord>>,
}

impl std::fmt::Debug for FilesWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilesWriter").field("events", &self.events.len()).finish_non_exhaustive()
    }
}

impl Drop for FilesWriter {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closed.get_or_insert(Err(SinkError::Panicked));
        self.shared.changed.notify_all();
    }
}

impl FilesWriter {
    fn run(mut self) {
        while self.wait() {
            self.work();
        }
    }

    /// Waits for something to do. Returns `false` when nothing more is to be done.
    fn wait(&self) -> bool {
        let idle = |state: &mut State| !self.has_work(state) && !self.has_ended(state);
        let waited = self.shared.changed.wait_while(self.shared.state(), idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if self.is_abandoned() {
            // The node has stopped asking.
            state.closed = Some(Ok(()));
        }
        !self.has_ended(&state)
    }

    /// Returns whether the node has asked for something that is not done.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let state = self.shared.state();
        self.has_work(&state) && !self.has_ended(&state)
    }

    fn has_work(&self, state: &State) -> bool {
        state.asked || state.closing
    }

    fn has_ended(&self, state: &State) -> bool {
        state.closed.is_some() || self.is_abandoned()
    }

    /// Carries out the node's requests: writes events, ends a batch, closes the files.
    pub fn work(&mut self) {
        let asked = self.take();
        if asked.pressed {
            self.sink.press();
        }
        let trouble = self.write_batches(asked.now).err();
        let closed = asked.closing.then(|| self.sink.finish());
        let mut state = self.shared.state();
        state.seen = Seen::of(self.sink.as_ref(), trouble);
        state.working = false;
        state.rounds += 1;
        if let Some(closed) = closed {
            state.counters = self.sink.counters();
            let trouble = state.seen.trouble.clone().map_or(Ok(()), Err);
            state.closed = Some(closed.and(trouble));
            self.shared.changed.notify_all();
        }
    }

    fn take(&mut self) -> Asked {
        let mut state = self.shared.state();
        hand_over(&mut state.events, &mut self.events);
        self.records.extend(state.records.drain(..));
        state.asked = false;
        state.working = true;
        Asked { now: state.now, pressed: mem::take(&mut state.pressed), closing: state.closing }
    }

    fn is_abandoned(&self) -> bool {
        self.shared.abandoned.load(Ordering::Acquire)
    }

    /// Writes events and ends batches until no event is left, or the output has no room or fails. The node repeats the
    /// request for the remaining events only in the last two cases.
    fn write_batches(&mut self, now: Timestamp) -> Result<(), SinkError> {
        loop {
            let written = self.write();
            let ended = self.sink.end_batch(now);
            written.and(ended)?;
            if self.events.is_empty() || !self.sink.has_room() || self.is_abandoned() {
                return Ok(());
            }
        }
    }

    /// Writes run records, and events as far as the output takes them.
    fn write(&mut self) -> Result<(), SinkError> {
        while let Some(record) = self.records.front() {
            self.sink.record(record)?;
            self.records.pop_front();
        }
        while self.sink.has_room()
            && let Some((event, verdict)) = self.events.front()
        {
            self.sink.write(event, verdict)?;
            self.events.pop_front();
            if self.is_abandoned() {
                break;
            }
        }
        Ok(())
    }
}

/// Requests to the thread.
struct Asked {
    now: Timestamp,
    pressed: bool,
    closing: bool,
}

#[cfg(test)]
mod tests;
