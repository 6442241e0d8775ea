//! The doors of all builders of a run, as one sequence of events.
//!
//! Each door has a thread that reads it into one bounded channel. When the channel is full the threads wait, the
//! sockets fill up, and the builders skip events for this consumer: nothing else is affected.

use crate::address::{Address, doors_in};
use crate::client::{Client, ClientError, Welcome};
use sheaf_key::{KeyError, RunKey};
use sheaf_wire::Nanos;
use sheaf_wire::NodeId;
use sheaf_wire::event_file::StoredEvent;
use sheaf_wire::tap::{Counts, Frame, Selection};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of events that wait here for the caller. More wait at the doors.
const WAITING_EVENTS: usize = 64;

/// Time that a door has to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Interval at which a thread that waits for events checks whether it is still wanted, and at which a directory is
/// searched for new doors.
const LOOK: Duration = Duration::from_millis(100);

/// Time within which a builder may open a new door before the run counts as gone.
const COME_BACK: Duration = Duration::from_secs(5);

/// Selection of events, and name of a consumer.
#[derive(Clone, Debug, Default)]
pub struct TapOptions {
    /// The names of the tags of which an event must have one; none: all events.
    pub tags: Vec<String>,
    /// Prescale N: one in N of those; 0 means 1.
    pub prescale: u32,
    /// Maximum number of events per second, over all builders.
    pub rate_hz: Option<f64>,
    /// Name of the consumer, for the operator.
    pub name: String,
    /// The file with the key of the run, for doors on a network.
    pub key: Option<PathBuf>,
}

/// Reason why no run can be watched.
#[derive(Debug, thiserror::Error)]
pub enum TapsError {
    /// No door in a directory.
    #[error(
        "{0} is not accepting consumers: the run has not started, has ended, or has consumers disabled (consumers.open)"
    )]
    NoDoors(PathBuf),
    /// The directory cannot be read.
    #[error("cannot read directory {path}: {error}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A door is not one, or broke without the run's end.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// There is no key in the file.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// An invalid rate.
    #[error("{0} is not a rate: a number of events a second above 0")]
    Rate(f64),
}

impl TapsError {
    /// Returns whether the run may only not have started yet: its directory, its sockets or its listeners are missing.
    fn may_be_too_early(&self) -> bool {
        let error = match self {
            Self::NoDoors(_) => return true,
            Self::Directory { error, .. } | Self::Client(ClientError::Connect { error, .. }) => error,
            _ => return false,
        };
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
    }
}

/// Result of waiting for an event.
#[derive(Debug)]
pub enum Next {
    /// An event, and the builder that built it.
    Event(NodeId, Box<StoredEvent<bytes::Bytes>>),
    /// Nothing in the time that was given.
    Nothing,
    /// The run has ended.
    Ended,
}

enum Said {
    Event(NodeId, Box<StoredEvent<bytes::Bytes>>),
    Counts(Counts),
    End(Counts),
    Lost(ClientError),
}

#[derive(Debug)]
struct Reader {
    thread: Option<JoinHandle<()>>,
    counts: Counts,
}

/// The doors of a run.
#[derive(Debug)]
pub struct Taps {
    options: TapOptions,
    directory: Option<PathBuf>,
    welcome: Welcome,
    selection: Selection,
    sender: SyncSender<(u32, Said)>,
    receiver: Receiver<(u32, Said)>,
    /// By number; those that have ended have no thread.
    readers: BTreeMap<u32, Reader>,
    open: BTreeMap<u32, Address>,
    stop: Arc<AtomicBool>,
    /// Whether a builder announced that it has ended its part of the run.
    ended_well: bool,
    lost: Option<ClientError>,
    alone_since: Option<Instant>,
    looked: Instant,
}

impl Taps {
    /// Joins the door at an address (see [`Address::parse`]), or those of all builders in a run's directory.
    ///
    /// # Errors
    /// A [`TapsError`] if there is no door, or a requested tag or stream does not exist.
    pub fn open(target: &str, options: TapOptions) -> Result<Self, TapsError> {
        let path = Path::new(target);
        let directory = path.is_dir().then(|| path.to_owned());
        let addresses = match &directory {
            Some(directory) => doors(directory)?,
            None => vec![Address::parse(target)],
        };
        let key = options.key.as_deref().map(RunKey::load).transpose()?;
        let mut clients = Vec::new();
        for address in &addresses {
            match Client::connect_with(address, key.as_ref(), ANSWER) {
                Ok(client) => clients.push(client),
                // Of a builder that died its socket is left.
                Err(ClientError::Connect { error, .. })
                    if addresses.len() > 1 && error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error.into()),
            }
        }
        let Some(first) = clients.first() else {
            return Err(TapsError::NoDoors(path.to_owned()));
        };
        let welcome = first.welcome().clone();
        let selection = selection(&options, &welcome, clients.len())?;
        let (sender, receiver) = sync_channel(WAITING_EVENTS);
        let mut taps = Self {
            options,
            directory,
            welcome,
            selection,
            sender,
            receiver,
            readers: BTreeMap::new(),
            open: BTreeMap::new(),
            stop: Arc::default(),
            ended_well: false,
            lost: None,
            alone_since: None,
            looked: Instant::now(),
        };
        for client in clients {
            taps.listen_to(client)?;
        }
        Ok(taps)
    }

    /// Joins as [`Taps::open`] does, and tries again while the run may not have started yet, until `gives_up` returns
    /// `true`.
    ///
    /// # Errors
    /// The last [`TapsError`].
    pub fn open_when_ready(
        target: &str,
        options: &TapOptions,
        mut gives_up: impl FnMut() -> bool,
    ) -> Result<Self, TapsError> {
        loop {
            match Self::open(target, options.clone()) {
                Err(error) if error.may_be_too_early() && !gives_up() => std::thread::sleep(LOOK),
                result => return result,
            }
        }
    }

    /// Returns the first message of the first door: run, tags and sources are those of all.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Returns the fates of all accepted events, as the doors report them about once a second and at the end.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for counts in self.readers.values().map(|reader| reader.counts) {
            sum.seen += counts.seen;
            sum.taken += counts.taken;
            sum.other_tags += counts.other_tags;
            sum.prescaled += counts.prescaled;
            sum.over_rate += counts.over_rate;
            sum.queue_full += counts.queue_full;
            sum.over_budget += counts.over_budget;
        }
        sum
    }

    /// The next event, if one comes within `timeout`.
    ///
    /// # Errors
    /// A [`TapsError`] where the last door was lost before the run's end and none has come in its place.
    pub fn next(&mut self, timeout: Duration) -> Result<Next, TapsError> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.receiver.recv_timeout(left.min(LOOK)) {
                Ok((_, Said::Event(node, event))) => return Ok(Next::Event(node, event)),
                Ok((number, Said::Counts(counts))) => self.note(number, counts),
                Ok((number, Said::End(counts))) => {
                    self.note(number, counts);
                    self.ended_well = true;
                    self.open.remove(&number);
                }
                Ok((number, Said::Lost(error))) => {
                    self.lost = Some(error);
                    self.open.remove(&number);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.look_for_doors()?;
            if self.open.is_empty() {
                if self.ended_well {
                    return Ok(Next::Ended);
                }
                let since = *self.alone_since.get_or_insert_with(Instant::now);
                if self.directory.is_none() || since.elapsed() >= COME_BACK {
                    return match self.lost.take() {
                        Some(error) => Err(error.into()),
                        None => Ok(Next::Ended),
                    };
                }
            } else {
                self.alone_since = None;
            }
            if Instant::now() >= until {
                return Ok(Next::Nothing);
            }
        }
    }

    fn note(&mut self, number: u32, counts: Counts) {
        if let Some(reader) = self.readers.get_mut(&number) {
            reader.counts = counts;
        }
    }

    /// Joins the doors of builders that have come since. One that cannot be joined is tried again.
    fn look_for_doors(&mut self) -> Result<(), TapsError> {
        let Some(directory) = self.directory.as_ref().filter(|_| self.looked.elapsed() >= LOOK) else {
            return Ok(());
        };
        self.looked = Instant::now();
        for path in doors_in(directory).unwrap_or_default() {
            let address = Address::Unix(path);
            if !self.open.values().any(|open| *open == address)
                && let Ok(client) = Client::connect(&address, LOOK)
            {
                self.listen_to(client)?;
            }
        }
        Ok(())
    }

    /// Reads a door on a thread of its own.
    fn listen_to(&mut self, mut client: Client) -> Result<(), TapsError> {
        client.subscribe(&self.selection, &self.options.name)?;
        let number = self.readers.len() as u32;
        self.open.insert(number, client.address().clone());
        let (sender, stop) = (self.sender.clone(), self.stop.clone());
        let work = move || {
            while let Some(said) = next_message(&mut client, &stop) {
                let last = matches!(said, Said::End(..) | Said::Lost(_));
                if sender.send((number, said)).is_err() || last {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name(format!("tap {number}")).spawn(work);
        let thread = Some(thread.map_err(TapsError::Thread)?);
        self.readers.insert(number, Reader { thread, counts: Counts::default() });
        Ok(())
    }
}

impl Drop for Taps {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread may wait for room in the channel: without a receiver it does not.
        drop(std::mem::replace(&mut self.receiver, sync_channel(0).1));
        for thread in self.readers.values_mut().filter_map(|reader| reader.thread.take()) {
            // A panic of a reader has been printed already.
            let _ = thread.join();
        }
    }
}

/// Waits for the next message of a door; `None` when there is no receiver any more.
fn next_message(client: &mut Client, stop: &AtomicBool) -> Option<Said> {
    let node = client.welcome().header.node;
    loop {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        return Some(match client.next(LOOK) {
            Ok(None | Some(Frame::Welcome(..) | Frame::Subscribe(..))) => continue,
            Ok(Some(Frame::Challenge(_) | Frame::Answer(..) | Frame::Proof(_))) => continue,
            Ok(Some(Frame::Event(event))) => Said::Event(node, Box::new(event)),
            Ok(Some(Frame::Status(counts))) => Said::Counts(counts),
            Ok(Some(Frame::End(_, counts))) => Said::End(counts),
            Err(error) => Said::Lost(error),
        });
    }
}

fn doors(directory: &Path) -> Result<Vec<Address>, TapsError> {
    let doors =
        doors_in(directory).map_err(|error| TapsError::Directory { path: directory.to_owned(), error })?;
    if doors.is_empty() {
        return Err(TapsError::NoDoors(directory.to_owned()));
    }
    Ok(doors.into_iter().map(Address::Unix).collect())
}

/// Returns the rate to request from each of this number of doors.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float to an integer saturates"
)]
#[expect(clippy::cast_precision_loss, reason = "a number of doors is small")]
fn selection(options: &TapOptions, welcome: &Welcome, doors: usize) -> Result<Selection, TapsError> {
    let interval = match options.rate_hz {
        None => Nanos::ZERO,
        Some(rate) if rate > 0.0 && rate.is_finite() => Nanos((1e9 * doors as f64 / rate) as u64),
        Some(rate) => return Err(TapsError::Rate(rate)),
    };
    Ok(Selection { tags: welcome.tags(&options.tags)?, prescale: options.prescale, interval })
}
