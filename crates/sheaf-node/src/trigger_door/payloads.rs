//! Payloads of triggers on their way to the readout unit that has them as a source.
//!
//! A thread feeds that readout unit by the source protocol, as a program of the user does. Fragments are kept until the readout
//! unit has accepted them, so that its restart repeats none and leaves none out.

use sheaf_feed::client::SourceFragment;
use sheaf_feed::{ClientOptions, FeedError, SourceClient};
use sheaf_telemetry::log_as;
use sheaf_wire::feed::Phase;
use sheaf_wire::times::Times;
use sheaf_wire::{EventId, NodeId, SourceId, Timestamp};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest sleep of the thread, after which it looks at its connection.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// Time for which one attempt to connect waits for the readout unit. It is repeated as long as the run lasts.
const PATIENCE: Duration = Duration::from_millis(500);

/// Number of attempts to connect after which the absence of the readout unit is reported, and reported again.
const ABSENCES: u32 = 20;

/// Maximum number of fragments that are sent together.
const BATCH: usize = 256;

/// Source that consists of the payloads of triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadSource {
    /// The source.
    pub source: SourceId,
    /// The readout unit that reads it.
    pub readout: NodeId,
    /// Path of the socket at which programs feed that readout unit.
    pub socket: PathBuf,
    /// Number of payloads that may wait for the readout unit.
    pub queue: usize,
}

/// Payload of a trigger that became an event.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    pub(super) event: EventId,
    pub(super) time: Timestamp,
    pub(super) bytes: Vec<u8>,
}

impl Payload {
    fn fragment(&self) -> SourceFragment<'_> {
        SourceFragment { event: self.event, time: self.time, payload: &self.bytes }
    }
}

/// The queue of payloads, and the thread that empties it.
#[derive(Debug)]
pub(super) struct Payloads {
    shared: Arc<Shared>,
    readout: NodeId,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
    /// Wakes the event manager.
    waker: Waker,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Payload>,
    /// Nothing is added any more.
    has_ended: bool,
    /// The run is over.
    stops: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Payloads {
    /// Starts the thread. `waker` wakes the thread of the event manager when there is room again.
    pub(super) fn start(source: PayloadSource, waker: Waker) -> std::io::Result<Self> {
        let readout = source.readout;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            capacity: source.queue,
            waker,
        });
        let feeder = Feeder { source, shared: shared.clone(), batch: Vec::new(), failures: 0 };
        let thread = std::thread::Builder::new().name("payloads".into()).spawn(move || feeder.run())?;
        Ok(Self { shared, readout, thread: Some(thread) })
    }

    /// The readout unit that receives the payloads.
    pub(super) fn readout(&self) -> NodeId {
        self.readout
    }

    /// Returns the number of payloads for which the queue has room.
    pub(super) fn room(&self) -> u64 {
        self.shared.capacity.saturating_sub(self.shared.lock().queue.len()) as u64
    }

    /// Returns the number of payloads for which the empty queue has room.
    pub(super) fn capacity(&self) -> u64 {
        self.shared.capacity as u64
    }

    /// Adds the payload of a trigger that became an event. Triggers are taken only as far as there is [room](Self::room).
    pub(super) fn push(&self, payload: Payload) {
        self.shared.lock().queue.push_back(payload);
        self.shared.changed.notify_one();
    }

    /// Ends the source when all payloads were sent.
    pub(super) fn end(&self) {
        self.shared.lock().has_ended = true;
    }
}

impl Drop for Payloads {
    fn drop(&mut self) {
        self.shared.lock().stops = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Next step of the thread.
enum Step {
    Stop,
    End,
    Idle,
    Send,
}

struct Feeder {
    source: PayloadSource,
    shared: Arc<Shared>,
    /// Payloads taken from the queue. They count as in the queue until they were sent.
    batch: Vec<Payload>,
    failures: u64,
}

impl Feeder {
    fn run(mut self) {
        let Some(mut client) = self.connect() else { return };
        log_as!(
            LISTENING, node = NodeId::MANAGER, source = self.source.source;
            "payloads of triggers are source {} of {}", self.source.source, self.source.readout
        );
        let mut is_over = false;
        while !is_over {
            let result = match self.next_step() {
                Step::Stop => return,
                Step::Idle => client.wait(Duration::ZERO),
                Step::End => {
                    is_over = true;
                    client.end(0)
                }
                Step::Send => self.send(&mut client),
            };
            match result {
                Ok(()) => {}
                Err(FeedError::RunEnded(_)) => return,
                Err(error) => {
                    is_over = false;
                    self.report(&error);
                }
            }
        }
        // What was sent may have to be sent again, until the run is over.
        while !self.shared.lock().stops && client.phase() != Phase::Ended {
            if let Err(FeedError::RunEnded(_)) = client.wait(LONGEST_SLEEP) {
                return;
            }
        }
    }

    fn connect(&mut self) -> Option<SourceClient> {
        for attempt in 1_u32.. {
            let options = ClientOptions {
                sources: vec![self.source.source],
                name: "payloads of triggers".into(),
                checksum: true,
                keep: true,
                patience: PATIENCE,
                ..ClientOptions::default()
            };
            match SourceClient::connect(&self.source.socket, options) {
                Ok(client) => return Some(client),
                Err(error) if error.is_absence() => {
                    if attempt.is_multiple_of(ABSENCES) {
                        self.report_absence(attempt);
                    }
                }
                Err(error) => {
                    self.report(&error);
                    std::thread::sleep(LONGEST_SLEEP);
                }
            }
            if self.shared.lock().stops {
                return None;
            }
        }
        None
    }

    fn report_absence(&self, attempts: u32) {
        let PayloadSource { source, readout, socket, .. } = &self.source;
        log_as!(
            TRIGGER_PAYLOADS_UNSENT, node = NodeId::MANAGER, source = source, peer = readout;
            "payloads of triggers: {readout}, which reads source {source}, does not listen at {} after {:.0?}; the run \
             waits for it. It must run on the host of the event manager",
            socket.display(),
            PATIENCE * attempts
        );
    }

    fn report(&mut self, error: &FeedError) {
        self.failures += 1;
        if let Some(times) = Times::to_log(self.failures) {
            log_as!(
                TRIGGER_PAYLOADS_UNSENT, node = NodeId::MANAGER, source = self.source.source, peer = self.source.readout;
                "payloads of triggers cannot be sent to {}: {error}{times}", self.source.readout
            );
        }
    }

    /// Waits until there is something to do.
    fn next_step(&self) -> Step {
        let is_empty = |state: &mut State| state.queue.is_empty() && !state.stops && !state.has_ended;
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), LONGEST_SLEEP, is_empty);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State { stops: true, .. } => Step::Stop,
            State { queue, .. } if !queue.is_empty() => Step::Send,
            State { has_ended: true, .. } => Step::End,
            State { .. } => Step::Idle,
        }
    }

    /// Sends the oldest payloads, as many as there is credit for.
    fn send(&mut self, client: &mut SourceClient) -> Result<(), FeedError> {
        self.batch.clear();
        self.batch.extend(self.shared.lock().queue.iter().take(BATCH).cloned());
        let fragments: Vec<_> = self.batch.iter().map(Payload::fragment).collect();
        let sent = client.send_some(0, &fragments)?;
        if sent == 0 {
            return client.wait(LONGEST_SLEEP);
        }
        self.shared.lock().queue.drain(..sent);
        self.shared.waker.wake_by_ref();
        Ok(())
    }
}
