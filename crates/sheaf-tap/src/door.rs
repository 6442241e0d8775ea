//! The builder's side: a door for consumers, and the feed of accepted events.
//!
//! Two threads are involved. The builder's has the [`Feed`] with the sampler: it selects the consumers of an event,
//! copies the event once, and puts it into their bounded queues. The door's thread accepts consumers, checks their
//! messages, and writes the queues to their sockets. They share rings and counters, but no lock: whatever happens to a
//! consumer or to the door's thread, the builder's thread never waits.

mod keeper;
mod visitor;

use bytes::Bytes;
use keeper::{BuilderLink, Keeper, Sockets};
use mio::net::{TcpListener, UnixListener};
use sheaf_key::RunKey;
use sheaf_machine::listen_at;
use sheaf_protocol::sampler::{Bounds, ConsumerId, Counts, Sampler, Selection};
use sheaf_telemetry::log_as;
use sheaf_wire::event_file::FileHeader;
use sheaf_wire::tap;
use sheaf_wire::verdict::Verdict;
use sheaf_wire::{ByteCount, Event, NodeId, Timestamp};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Options of a door.
#[derive(Clone, Debug)]
pub struct DoorOptions {
    /// Path of the Unix socket. An existing file is replaced.
    pub socket: Option<PathBuf>,
    /// The TCP address.
    pub listen: Option<SocketAddr>,
    /// The key that consumers over the network must have.
    pub key: Option<RunKey>,
    /// Maximum number of consumers at a time.
    pub consumers: usize,
    /// Bounds for each of them and for all together.
    pub bounds: Bounds,
    /// Time that a new connection has to send its selection.
    pub greeting: Duration,
    /// Time for which a consumer may read nothing while data wait for it.
    pub patience: Duration,
}

/// Reason why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The Unix socket cannot be made.
    #[error("cannot make the socket {path} for consumers: {error}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The TCP address cannot be listened on.
    #[error(
        "cannot listen on {address} for consumers: {error}; is it in use, or does it belong to another host?"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The thread of the door cannot be had.
    #[error("cannot start the thread of the door for consumers: {0}")]
    Thread(#[source] io::Error),
    /// The metadata are too large.
    #[error("the description of the run for consumers is invalid: {0}")]
    Welcome(#[from] sheaf_wire::event_file::FileFormatError),
}

/// Final counts of a door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorCounts {
    /// Consumers that joined and subscribed.
    pub joined: u64,
    /// Those that came when there was no place for another.
    pub refused: u64,
    /// Those that were dropped because they read nothing.
    pub slow: u64,
    /// Visitors that were dropped because they never subscribed.
    pub silent: u64,
    /// Visitors that were dropped because they sent invalid data.
    pub nonsense: u64,
    /// Those that did not prove that they have the key of the run.
    pub wrong_key: u64,
    /// Events that were written to a consumer's socket, for each consumer.
    pub sent: u64,
    /// Events that a consumer selected and did not get, summed over consumers: its queue was full, or all queues
    /// together had reached the run's limit.
    pub missed: u64,
}

impl DoorCounts {
    /// Names and values, as the run's summary has them.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, u64); 8] {
        [
            ("joined", self.joined),
            ("refused", self.refused),
            ("slow", self.slow),
            ("silent", self.silent),
            ("nonsense", self.nonsense),
            ("wrong_key", self.wrong_key),
            ("events_sent", self.sent),
            ("events_missed", self.missed),
        ]
    }
}

/// State that both threads share.
#[derive(Debug)]
struct Shared {
    /// Whether there are changes for the builder's thread.
    news: AtomicBool,
    /// Number of consumers that the builder's thread has finished with.
    left: AtomicU64,
    /// Whether the builder has ended its part of the run.
    over: AtomicBool,
}

/// Message of the door's thread to the builder's.
enum News {
    Joined(Seat, Selection),
    Left(ConsumerId),
}

/// The builder's end of a consumer's queue.
struct Seat {
    id: ConsumerId,
    queue: rtrb::Producer<Bytes>,
    books: Arc<Books>,
    /// The part of the events that left the queue which the sampler knows of.
    known_events: u64,
    known_bytes: u64,
}

/// Counts that the two threads share about one consumer.
#[derive(Debug, Default)]
struct Books {
    left_events: AtomicU64,
    left_bytes: AtomicU64,
    counts: [AtomicU64; 7],
}

impl Books {
    fn write(&self, counts: &Counts) {
        let values = [
            counts.seen,
            counts.taken,
            counts.other_tags,
            counts.prescaled,
            counts.over_rate,
            counts.queue_full,
            counts.over_budget,
        ];
        for (place, value) in self.counts.iter().zip(values) {
            place.store(value, Ordering::Relaxed);
        }
    }

    /// Returns the counts at about this moment; exact once the builder's thread writes no more. The number of seen
    /// events is computed here, so that the numbers are consistent.
    fn read(&self) -> Counts {
        let [_, taken, other_tags, prescaled, over_rate, queue_full, over_budget] =
            std::array::from_fn(|index| self.counts[index].load(Ordering::Relaxed));
        let seen = taken + other_tags + prescaled + over_rate + queue_full + over_budget;
        Counts { seen, taken, other_tags, prescaled, over_rate, queue_full, over_budget }
    }

    fn leave_queue(&self, bytes: usize) {
        self.left_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.left_events.fetch_add(1, Ordering::Release);
    }
}

/// The builder's end of an open door.
pub struct Feed {
    sampler: Sampler,
    seats: Vec<Seat>,
    news: rtrb::Consumer<News>,
    shared: Arc<Shared>,
    waker: Arc<mio::Waker>,
    keeper: Option<JoinHandle<DoorCounts>>,
    accepted: u64,
    closed_sockets: Vec<DoorError>,
}

/// Opens doors.
#[derive(Clone, Debug)]
pub struct Door {
    options: DoorOptions,
}

impl Door {
    /// A door that is not open yet.
    #[must_use]
    pub const fn new(options: DoorOptions) -> Self {
        Self { options }
    }

    /// Opens it for one session of a builder: consumers receive `header` and `metadata`, as in event files. If one of its two
    /// sockets cannot be opened, consumers can still join at the other; see [`Feed::closed_sockets`].
    ///
    /// # Errors
    /// Reason why consumers cannot join at all.
    pub fn open(&self, header: &FileHeader, metadata: &str) -> Result<Feed, DoorError> {
        let options = &self.options;
        let welcome = tap::emit_welcome(header, metadata)?;
        let mut closed_sockets = Vec::new();
        let socket = opened(options.socket.as_deref().map(listen_at_path), &mut closed_sockets);
        let listen = opened(options.listen.map(listen_at_address), &mut closed_sockets);
        if socket.is_none()
            && listen.is_none()
            && let Some(error) = closed_sockets.pop()
        {
            return Err(error);
        }
        let (sender, news) = rtrb::RingBuffer::new(2 * options.consumers.max(1));
        let shared = Arc::new(Shared {
            news: AtomicBool::new(false),
            left: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let builder = BuilderLink { news: sender, shared: shared.clone() };
        let keeper = Keeper::new(options.clone(), header.node, welcome, builder, Sockets { socket, listen });
        let (keeper, waker) = keeper.map_err(DoorError::Thread)?;
        let name = format!("{} door", header.node);
        let thread = std::thread::Builder::new().name(name).spawn(move || keeper.run());
        Ok(Feed {
            sampler: Sampler::new(options.bounds),
            seats: Vec::new(),
            news,
            shared,
            waker,
            keeper: Some(thread.map_err(DoorError::Thread)?),
            accepted: 0,
            closed_sockets,
        })
    }
}

fn listen_at_path(path: &Path) -> Result<UnixListener, DoorError> {
    // A builder unit with output nodes may be the first to write into the directory of the run.
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let bound = made.and_then(|()| listening(listen_at(path)?));
    bound.map_err(|error| DoorError::Socket { path: path.to_owned(), error })
}

fn listening(listener: std::os::unix::net::UnixListener) -> io::Result<UnixListener> {
    listener.set_nonblocking(true)?;
    Ok(UnixListener::from_std(listener))
}

fn listen_at_address(address: SocketAddr) -> Result<TcpListener, DoorError> {
    TcpListener::bind(address).map_err(|error| DoorError::Listen { address, error })
}

/// Returns a socket that is wanted and open, and adds the reason why it is not.
fn opened<S>(socket: Option<Result<S, DoorError>>, closed: &mut Vec<DoorError>) -> Option<S> {
    socket?.map_err(|error| closed.push(error)).ok()
}

impl Feed {
    /// Returns the reasons why one of the two sockets could not be opened.
    #[must_use]
    pub fn closed_sockets(&self) -> &[DoorError] {
        &self.closed_sockets
    }

    /// Offers an accepted event to the consumers. Without consumers this costs one load.
    pub fn see(&mut self, now: Timestamp, event: &Event<Bytes>, verdict: &Verdict) {
        let sequence = self.accepted;
        self.accepted += 1;
        self.tend();
        if !self.seats.is_empty() {
            self.hand_out(now, event, verdict, sequence);
        }
    }

    /// Lets consumers join and leave while no events come.
    pub fn tend(&mut self) {
        if self.shared.news.load(Ordering::Relaxed) {
            self.take_news();
        }
    }

    fn hand_out(&mut self, now: Timestamp, event: &Event<Bytes>, verdict: &Verdict, sequence: u64) {
        for seat in &mut self.seats {
            let events = seat.books.left_events.load(Ordering::Acquire);
            if events > seat.known_events {
                let bytes = seat.books.left_bytes.load(Ordering::Relaxed);
                self.sampler.left_queue(
                    seat.id,
                    events - seat.known_events,
                    ByteCount(bytes - seat.known_bytes),
                );
                (seat.known_events, seat.known_bytes) = (events, bytes);
            }
        }
        let bytes = ByteCount(tap::event_frame_bytes(event, verdict));
        let chosen = self.sampler.offer(now, verdict.tags, bytes);
        if !chosen.is_empty() {
            match tap::emit_event_frame(event, verdict, sequence).map(Bytes::from) {
                Ok(frame) => {
                    for seat in self.seats.iter_mut().filter(|seat| chosen.contains(&seat.id)) {
                        // The sampler has counted the queue's places; a consumer that has just left takes nothing more.
                        let _ = seat.queue.push(frame.clone());
                    }
                }
                // The bound of a queue is below the largest event of the format.
                Err(error) => log_as!(
                    CONSUMERS_UNAVAILABLE, event = event.id;
                    "event {} cannot be shown: {error}", event.id
                ),
            }
        }
        for seat in &self.seats {
            if let Some(counts) = self.sampler.counts(seat.id) {
                seat.books.write(&counts);
            }
        }
    }

    #[cold]
    fn take_news(&mut self) {
        self.shared.news.store(false, Ordering::SeqCst);
        while let Ok(news) = self.news.pop() {
            match news {
                News::Joined(seat, selection) => {
                    self.sampler.join(seat.id, selection);
                    self.seats.push(seat);
                }
                News::Left(id) => {
                    self.sampler.leave(id);
                    self.seats.retain(|seat| seat.id != id);
                    self.shared.left.fetch_add(1, Ordering::Release);
                }
            }
        }
    }

    /// Closes the door without waiting. Consumers have a second to read the events that wait for them, and the message that the
    /// builder has ended.
    pub fn close(mut self) -> Closing {
        self.say_over();
        Closing(self.keeper.take())
    }

    fn say_over(&mut self) {
        // Nothing is added to a queue after this flag.
        self.seats.clear();
        self.shared.over.store(true, Ordering::Release);
        if let Err(error) = self.waker.wake() {
            log_as!(CONSUMERS_UNAVAILABLE; "the door for consumers cannot be woken: {error}");
        }
    }
}

impl Drop for Feed {
    /// Ends the door's thread, even if the door was not closed.
    fn drop(&mut self) {
        if self.keeper.is_some() {
            self.say_over();
        }
    }
}

/// A door that closes.
#[derive(Debug)]
pub struct Closing(Option<JoinHandle<DoorCounts>>);

impl Closing {
    /// Waits until it is closed, at most about a second, and returns its counts.
    #[must_use]
    pub fn wait(self) -> DoorCounts {
        // A panic of the thread has been printed; it takes its counts along.
        self.0.map(JoinHandle::join).and_then(Result::ok).unwrap_or_default()
    }
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed")
            .field("consumers", &self.seats.len())
            .field("accepted", &self.accepted)
            .finish()
    }
}

/// Returns the name of a consumer for the log: the one that it gave itself.
fn called(node: NodeId, name: &str) -> String {
    format!("{node}: consumer {name:?}")
}

#[cfg(test)]
mod tests;
