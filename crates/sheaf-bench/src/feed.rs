//! A program that feeds a readout unit as fast as it can, and a readout unit that only counts.
//!
//! Both use what a run uses: the client library, and the fed sources. What they do with the bytes is the least that
//! makes sense: the program writes each byte once, as a board's driver does, and the readout unit accepts at once.

use crate::payload::cycle_bytes;
use serde::{Deserialize, Serialize};
use sheaf_buffer::Pool;
use sheaf_feed::client::SourceFragment;
use sheaf_feed::{ClientOptions, FeedError, FeedSetup, OpenError, SourceClient, window_of};
use sheaf_protocol::feed::ServerConfig;
use sheaf_source::{Batch, Source, SourceEvent};
use sheaf_tcp::{HostOptions, TcpSettings};
use sheaf_wire::feed::{FRAGMENT_HEAD_BYTES, FRAGMENTS_HEAD_BYTES, MAX_CONTROL_BYTES};
use sheaf_wire::{ByteCount, EventId, NodeId, RunNumber, SessionId, SourceId, Timestamp};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Time that a program waits for its readout unit, and a readout unit for its program.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time that the readout unit polls before it sleeps: as a node does.
const SPIN: Duration = Duration::from_micros(10);

/// Longest sleep of the readout unit. Nothing waits for its end.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Interval at which the readout unit looks for its program before the start.
const LOOK: Duration = Duration::from_millis(1);

/// Number of fragments taken in one poll: a full message of the smallest ones.
const MOST: usize = 4096;

/// Block of the memory of a source, as in the measurements of the event builder.
const BLOCK: u64 = 128 << 10;

/// Memory of a source.
const MEMORY: u64 = 4 << 20;

/// Task of a program that feeds sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedClient {
    /// Path of the socket of its readout unit, or `HOST:PORT`.
    pub address: PathBuf,
    /// Sources that it feeds, in turn.
    pub sources: Vec<u32>,
    /// Payload of a fragment in bytes.
    pub bytes: usize,
    /// Number of fragments in a call.
    pub batch: usize,
    /// Whether fragments carry checksums.
    pub checksum: bool,
    /// Whether fragments are kept until they are accepted.
    pub keep: bool,
    /// Whether fragments are written where they are sent from.
    pub in_place: bool,
    /// Number of events after which the sources end; `None`: the run ends first. A client with a number takes the place of one that
    /// was killed: it continues behind the last event of each source.
    #[serde(default)]
    pub events: Option<u64>,
}

impl FeedClient {
    /// Feeds the sources until the run ends, or all events are accepted.
    ///
    /// # Errors
    /// If there is no readout unit, or it refuses the program.
    pub fn run(&self) -> Result<(), FeedError> {
        match self.feed() {
            // The measurement ends the run, and soon after the readout unit.
            Err(FeedError::RunEnded(_)) => Ok(()),
            ended => ended,
        }
    }

    fn feed(&self) -> Result<(), FeedError> {
        let options = ClientOptions {
            sources: self.sources.iter().copied().map(SourceId).collect(),
            name: "bench".to_owned(),
            checksum: self.checksum,
            keep: self.keep,
            patience: PATIENCE,
            ..ClientOptions::default()
        };
        let mut client = SourceClient::connect(&self.address, options)?;
        client.wait_for_start(None)?;
        if let Some(events) = self.events {
            return self.feed_events(&mut client, events);
        }
        let mut board = Board::new(self.bytes, self.batch);
        loop {
            if !self.in_place {
                board.read();
            }
            for source in 0..self.sources.len() {
                if self.in_place {
                    board.write(&mut client, source)?;
                } else {
                    board.send(&mut client, source)?;
                }
                board.events_sent(source + 1 == self.sources.len());
            }
        }
    }

    /// Feeds the events that the readout unit does not have yet, and waits until all are accepted.
    fn feed_events(&self, client: &mut SourceClient, events: u64) -> Result<(), FeedError> {
        let next_of = |client: &SourceClient, source| client.last_event(source).map_or(0, |last| last.0 + 1);
        let mut next: Vec<u64> = (0..self.sources.len()).map(|source| next_of(client, source)).collect();
        while next.iter().any(|next| *next < events) {
            for (source, next) in next.iter_mut().enumerate() {
                let batch = *next..events.min(*next + self.batch as u64);
                *next = batch.end;
                let payloads: Vec<Vec<u8>> = batch.clone().map(|event| self.payload(event)).collect();
                let fragment = |(event, payload)| SourceFragment {
                    event: EventId(event),
                    time: Timestamp(event),
                    payload,
                };
                let fragments: Vec<_> = batch.zip(payloads.iter().map(Vec::as_slice)).map(fragment).collect();
                client.send_all(source, &fragments)?;
            }
        }
        (0..self.sources.len()).try_for_each(|source| client.end(source))?;
        client.drain().map(drop)
    }

    /// Returns the payload of an event. Neighbouring events differ in length and content.
    fn payload(&self, event: u64) -> Vec<u8> {
        vec![event as u8; self.bytes + (event % 7) as usize]
    }
}

/// A board whose fragments are written into a buffer that is used again and again.
struct Board {
    bytes: usize,
    batch: usize,
    buffer: Vec<u8>,
    at: usize,
    /// The next event.
    event: u64,
}

impl Board {
    fn new(bytes: usize, batch: usize) -> Self {
        let cycle = cycle_bytes(bytes).max(bytes * batch);
        Self { bytes, batch, buffer: vec![0; cycle], at: 0, event: 0 }
    }

    /// Writes the payload of the next batch.
    fn read(&mut self) {
        let length = self.bytes * self.batch;
        if self.at + length > self.buffer.len() {
            self.at = 0;
        }
        // The value changes so that nothing can be left out.
        self.buffer[self.at..self.at + length].fill(self.event as u8);
    }

    /// Writes the payload of the next batch of a source where it is sent from.
    fn write(&mut self, client: &mut SourceClient, source: usize) -> Result<(), FeedError> {
        let last = self.event + self.batch as u64 - 1;
        for event in self.event..=last {
            client.reserve(source, self.bytes)?.fill(self.event as u8);
            let (id, time) = (EventId(event), Timestamp(event));
            if event < last {
                client.commit_more(id, time, self.bytes)?;
            } else {
                client.commit(id, time, self.bytes)?;
            }
        }
        Ok(())
    }

    /// Moves on to the next batch after the last source.
    fn events_sent(&mut self, is_last: bool) {
        if is_last {
            self.at += self.bytes * self.batch;
            self.event += self.batch as u64;
        }
    }

    /// Sends the batch.
    fn send(&mut self, client: &mut SourceClient, source: usize) -> Result<(), FeedError> {
        let payload = &self.buffer[self.at..self.at + self.bytes * self.batch];
        let fragment = |index: usize| SourceFragment {
            event: EventId(self.event + index as u64),
            time: Timestamp(self.event + index as u64),
            payload: &payload[index * self.bytes..(index + 1) * self.bytes],
        };
        if self.batch == 1 {
            client.send(source, fragment(0))?;
        } else {
            let fragments: Vec<SourceFragment<'_>> = (0..self.batch).map(fragment).collect();
            client.send_all(source, &fragments)?;
        }
        Ok(())
    }
}

/// Path between a program and its readout unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedPath {
    /// Through shared memory.
    Shm,
    /// Over TCP on loopback.
    Tcp,
}

impl FeedPath {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }
}

/// A measurement that failed.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// The readout unit cannot accept the program.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No port on loopback.
    #[error("there is no free port on loopback")]
    Port(#[source] std::io::Error),
    /// No program came.
    #[error("no program has connected to {0}: it has ended, or a minute has passed")]
    NobodyCame(PathBuf),
    /// The program went away.
    #[error("the program that feeds source {0} ended before the end of the measurement")]
    Gone(SourceId),
    /// A signal ended the measurement.
    #[error("interrupted")]
    Interrupted,
}

/// Amount that a readout unit has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Number of fragments.
    pub fragments: u64,
    /// Their payload in bytes.
    pub bytes: u64,
    /// Time in which they came, in seconds.
    pub seconds: f64,
}

/// A readout unit with one source that accepts all fragments at once, counts them, and forgets them.
pub struct Counter {
    source: Box<dyn Source>,
    address: PathBuf,
    began: Instant,
    has_started: bool,
    batch: Batch,
}

/// Wakes the thread of the readout unit.
struct Alarm(Thread);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl Counter {
    /// Accepts a program, for fragments of at most `bytes` bytes. The thread that calls this must also count. The socket is in
    /// `directory`.
    ///
    /// # Errors
    /// If the socket or the port cannot be opened.
    pub fn open(path: FeedPath, directory: &Path, bytes: u64) -> Result<Self, CountError> {
        let block = BLOCK.max(bytes);
        let max_message = ByteCount(block + (FRAGMENTS_HEAD_BYTES + FRAGMENT_HEAD_BYTES) as u64);
        let memory = MEMORY.max(4 * block);
        let socket = directory.join("ru0.feed");
        let (listen, address) = match path {
            FeedPath::Shm => (None, socket.clone()),
            FeedPath::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0").map_err(CountError::Port)?;
                let address = listener.local_addr().map_err(CountError::Port)?;
                (Some(host(listener, max_message)), PathBuf::from(address.to_string()))
            }
        };
        let setup = FeedSetup {
            node: NodeId::readout(0),
            run: RunNumber(1),
            session: SessionId(1),
            socket,
            listen,
            awaited: vec![SourceId(0)],
            server: ServerConfig {
                sources: vec![SourceId(0)],
                window_fragments: 65_536,
                window: window_of(ByteCount(memory), ByteCount(block)),
                max_fragment: ByteCount(block),
                max_message,
                max_record: ByteCount::ZERO,
                max_clients: 1,
            },
            waker: Waker::from(Arc::new(Alarm(std::thread::current()))),
        };
        let length = usize::try_from(block).unwrap_or(usize::MAX);
        let blocks = usize::try_from(memory / block).unwrap_or(usize::MAX);
        let mut sources = setup.open(|| Pool::new(length, blocks))?;
        let source = sources.pop().expect("one source was asked for");
        Ok(Self { source, address, began: Instant::now(), has_started: false, batch: Batch::default() })
    }

    /// Address for the program.
    #[must_use]
    pub fn address(&self) -> &Path {
        &self.address
    }

    /// Waits for the program as long as `is_alive` says so, and starts.
    ///
    /// # Errors
    /// If no program comes, or when `stop` is set.
    pub fn start(&mut self, stop: &AtomicBool, mut is_alive: impl FnMut() -> bool) -> Result<(), CountError> {
        let start = Instant::now();
        while !self.source.is_ready() {
            if start.elapsed() > PATIENCE || !is_alive() {
                return Err(CountError::NobodyCame(self.address.clone()));
            }
            let until = Instant::now() + LOOK;
            self.rounds(|_, now| now >= until, stop)?;
        }
        self.source.start();
        // It came.
        while self.source.poll_event().is_some() {}
        self.has_started = true;
        Ok(())
    }

    /// Counts for `span`, after `warm_up`, and ends the run.
    ///
    /// # Errors
    /// If the program goes away, or when `stop` is set.
    pub fn count(
        &mut self,
        warm_up: Duration,
        span: Duration,
        stop: &AtomicBool,
    ) -> Result<Counted, CountError> {
        let start = Instant::now();
        self.rounds(|_, now| now >= start + warm_up, stop)?;
        let begin = Instant::now();
        let mut counted = self.rounds(|_, now| now >= begin + span, stop)?;
        counted.seconds = begin.elapsed().as_secs_f64();
        self.source.stop();
        Ok(counted)
    }

    /// Makes rounds until enough is counted.
    fn rounds(
        &mut self,
        is_enough: impl Fn(&Counted, Instant) -> bool,
        stop: &AtomicBool,
    ) -> Result<Counted, CountError> {
        let mut counted = Counted::default();
        let mut idle_since: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if is_enough(&counted, now) {
                return Ok(counted);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(CountError::Interrupted);
            }
            if self.round(now, &mut counted) {
                idle_since = None;
                continue;
            }
            if let Some(SourceEvent::Gone) = self.source.poll_event().filter(|_| self.has_started) {
                return Err(CountError::Gone(self.source.id()));
            }
            if now.duration_since(*idle_since.get_or_insert(now)) < SPIN {
                std::hint::spin_loop();
            } else if self.source.prepare_to_sleep() {
                std::thread::park_timeout(LONGEST_SLEEP);
                idle_since = None;
            }
        }
    }

    /// Makes one round, and returns whether there was anything.
    fn round(&mut self, now: Instant, counted: &mut Counted) -> bool {
        let time = Timestamp(u64::try_from((now - self.began).as_nanos()).unwrap_or(u64::MAX));
        let _ = self.source.poll_batch(time, MOST, &mut self.batch);
        let fragments = self.batch.fragments.len();
        counted.fragments += fragments as u64;
        counted.bytes += self.batch.fragments.iter().map(|it| u64::from(it.payload.length)).sum::<u64>();
        self.batch.fragments.clear();
        self.batch.payload.clear();
        self.source.handle_accepted(fragments);
        fragments > 0
    }
}

/// Links from programs of other hosts, with the settings of a run.
fn host(listener: TcpListener, max_message: ByteCount) -> HostOptions {
    let defaults = TcpSettings::default();
    let most = ByteCount(MAX_CONTROL_BYTES as u64);
    let settings = TcpSettings {
        max_frame_bytes: max_message.max(most),
        queue_bytes: defaults.queue_bytes.max(ByteCount(2 * most.0)),
        block_bytes: ByteCount::kib(256).max(max_message),
        blocks: 18,
        ..defaults
    };
    HostOptions {
        node: NodeId::readout(0),
        run: RunNumber(1),
        session: SessionId(1),
        listener,
        max_guests: 1,
        settings,
        tls: None,
        names: Vec::new(),
        key: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_sends_is_counted_over_every_path() {
        for (path, bytes, batch, keep, in_place) in [
            (FeedPath::Shm, 256, 1, false, false),
            (FeedPath::Shm, 2048, 64, true, false),
            (FeedPath::Shm, 2048, 64, true, true),
            (FeedPath::Tcp, 2048, 32, true, false),
        ] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let mut counter = Counter::open(path, directory.path(), bytes).expect("it is new");
            let feeder = FeedClient {
                address: counter.address().to_owned(),
                sources: vec![0],
                bytes: usize::try_from(bytes).expect("small"),
                batch,
                checksum: true,
                keep,
                in_place,
                events: None,
            };
            let program = std::thread::spawn(move || feeder.run());
            let never = AtomicBool::new(false);
            counter.start(&never, || true).expect("it comes");
            let counted = counter.rounds(|counted, _| counted.fragments >= 10_000, &never).expect("fed");
            counter.source.stop();
            drop(counter);
            program.join().expect("no panic").expect("the end of the run is no error");
            assert_eq!(counted.bytes, counted.fragments * bytes);
        }
    }

    #[test]
    fn a_signal_ends_the_wait_for_a_program() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut counter = Counter::open(FeedPath::Shm, directory.path(), 64).expect("it is new");
        let started = counter.start(&AtomicBool::new(true), || true);
        assert!(matches!(started, Err(CountError::Interrupted)));
        let started = counter.start(&AtomicBool::new(false), || false);
        assert!(matches!(started, Err(CountError::NobodyCame(_))));
    }
}
