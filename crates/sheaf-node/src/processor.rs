//! A processor: a process that joins a builder unit of a run in progress and filters events for it.
//!
//! [`Processor::join`] does everything with a [`Filter`]. Callers that need their own loop (such as another language,
//! for which calls with many events at a time are cheaper) use [`Processor::meet`], and then [`Processor::take`],
//! [`Processor::answer`], [`Processor::flush`] and [`Processor::wait`] in turn.
//!
//! ```no_run
//! use sheaf_node::filter::AcceptAll;
//! use sheaf_node::processor::{Processor, ProcessorOptions};
//! use std::path::Path;
//! use std::sync::atomic::AtomicBool;
//!
//! let stop = AtomicBool::new(false);
//! let door = Path::new("runs/run000001/bu0.farm");
//! let times = Processor::join(door, ProcessorOptions::default(), Box::new(AcceptAll), &stop)?;
//! println!("{} events", times.judged);
//! # Ok::<(), sheaf_node::processor::ProcessorError>(())
//! ```

use crate::filter::{Filter, FilterFailure};
use crate::judging::{self, EventExchange, WorkerTimes};
use bytes::Bytes;
use sheaf_key::KeyError;
use sheaf_protocol::farm::{self, Ticket, Word};
use sheaf_shm::door::VisitError;
use sheaf_tcp::{GuestError, TlsError};
use sheaf_wire::farm::{FromDispatcher, FromProcessor, Times, explain};
use sheaf_wire::message::DecodeError;
use sheaf_wire::{Event, Fragment, Nanos, Verdict};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use way::{Received, Way};

pub use sheaf_tcp::TlsFiles;
pub use sheaf_wire::farm::Welcome;
pub use way::Address;
pub(crate) use way::frame_of;

mod way;

/// Pause between two attempts to connect to a door that is not open yet.
const KNOCK: Duration = Duration::from_millis(50);

/// Maximum number of empty fragment lists that are kept for reuse.
const SPARE_LISTS: usize = 256;

/// The end of the names of doors: `bu0.farm`.
pub const DOOR_EXTENSION: &str = "farm";

/// Options of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessorOptions {
    /// Events that it has at a time, the one in judgement included: enough to never wait for the next, few enough that a
    /// slow processor does not sit on many. Default 32.
    pub ahead: u32,
    /// Time to wait for the door to be opened. Default: zero.
    pub patience: Nanos,
    /// Its certificate, where it joins over a network that is secured so (`transport.tls` of the run). Default: none.
    pub tls: Option<TlsFiles>,
    /// The file of the run's key, where it joins over a network and the run has one (`transport.key_file`). Default: none.
    pub key: Option<PathBuf>,
}

impl Default for ProcessorOptions {
    fn default() -> Self {
        Self { ahead: 32, patience: Nanos::ZERO, tls: None, key: None }
    }
}

/// Reason why a processor could not join, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum ProcessorError {
    /// The door.
    #[error(transparent)]
    Door(#[from] VisitError),
    /// The way over a network.
    #[error(transparent)]
    Network(#[from] GuestError),
    /// Its own certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The key of the run.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An address with a port that does not exist.
    #[error("{0}: the port must be 1 to 65535")]
    NoSuchPort(String),
    /// The listener admits guests but is not a dispatcher.
    #[error(
        "{0} accepts processors but does not name its run; is it a `filter.listen` of a run of this release?"
    )]
    NoWelcome(String),
    /// A directory without a door.
    #[error(
        "{0} has no socket for processors: the run has not started, has ended, or has filter.door disabled"
    )]
    NoDoor(PathBuf),
    /// A directory that cannot be read.
    #[error("cannot read directory {path}: {error}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        error: std::io::Error,
    },
    /// A directory with several.
    #[error("{0} has several sockets for processors; name one of them, such as {1}")]
    SeveralDoors(PathBuf, PathBuf),
    /// The dispatcher speaks another version.
    #[error("cannot join the run: {}", explain(.0))]
    Welcome(DecodeError),
    /// An invalid record.
    #[error("the dispatcher sent an invalid record: {0}")]
    Record(DecodeError),
    /// Payload that is not there.
    #[error("the dispatcher sent an event whose payload is not in shared memory")]
    Elsewhere,
    /// An event that was not asked for.
    #[error("the dispatcher sent an event that was not requested")]
    Unasked,
}

impl ProcessorError {
    /// Returns whether an attempt to join failed because there is no dispatcher: one may come. This includes a
    /// dispatcher that closes, at the end of its run, during the greeting.
    #[must_use]
    pub fn nobody_is_there(&self) -> bool {
        matches!(
            self,
            Self::Door(VisitError::NobodyThere { .. } | VisitError::Closed)
                | Self::Network(GuestError::NobodyThere { .. } | GuestError::Closed(_))
                | Self::NoDoor(_)
        )
    }
}

/// A processor that has joined.
#[derive(Debug)]
pub struct Processor {
    way: Way,
    role: farm::Processor<Event<Bytes>, Verdict>,
    welcome: Welcome,
    spare: Vec<Vec<Fragment<Bytes>>>,
}

impl Processor {
    /// Joins the dispatcher at `address` (the socket of a door, a run's directory with one door, or `HOST:PORT`; see
    /// [`Address::of`]), filters events until the run is over or `stop` is set, and leaves in good order.
    ///
    /// # Errors
    /// Why it could not join, or that the dispatcher closed the connection during the run.
    pub fn join(
        address: &Path,
        options: ProcessorOptions,
        mut filter: Box<dyn Filter>,
        stop: &AtomicBool,
    ) -> Result<WorkerTimes, ProcessorError> {
        Self::meet(address, options)?.run(&mut *filter, stop)
    }

    /// Joins. It asks for no events before the first [`Self::flush`]: until then the caller may load its filter, and the start of
    /// a run that has started this process waits for it.
    ///
    /// # Errors
    /// Why it could not join.
    pub fn meet(address: &Path, options: ProcessorOptions) -> Result<Self, ProcessorError> {
        let (start, address) = (Instant::now(), Address::of(address)?);
        let (way, welcome) = loop {
            match Way::meet(&address, &options) {
                Ok(met) => break met,
                Err(error) if error.nobody_is_there() && start.elapsed() < options.patience.to_std() => {
                    std::thread::sleep(KNOCK);
                }
                Err(error) => return Err(error),
            }
        };
        let role = farm::Processor::new(options.ahead);
        Ok(Self { way, role, welcome, spare: Vec::new() })
    }

    /// Returns the dispatcher's description of the run.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Returns whether no more events follow: the run is over, or this processor has left.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.role.is_closed()
    }

    /// Returns the next event to filter, if there is one. Its payload is in the builder unit's memory and is valid only
    /// until the event is answered.
    ///
    /// # Errors
    /// That the dispatcher violated the protocol.
    pub fn take(&mut self) -> Result<Option<(Ticket, Event<Bytes>)>, ProcessorError> {
        loop {
            match self.role.poll_event() {
                Some(farm::ProcessorEvent::Judge(ticket, event)) => return Ok(Some((ticket, event))),
                Some(farm::ProcessorEvent::Closed) => return Ok(None),
                None => {}
            }
            if !self.take_record()? {
                return Ok(None);
            }
        }
    }

    /// Takes one record; returns `false` if there is none.
    fn take_record(&mut self) -> Result<bool, ProcessorError> {
        if self.role.is_closed() {
            return Ok(false);
        }
        match self.way.receive(&mut self.spare)? {
            Received::Said(FromDispatcher::Event(ticket, event)) => {
                if !self.role.handle_input(Ticket(ticket), event) {
                    return Err(ProcessorError::Unasked);
                }
            }
            Received::Said(FromDispatcher::Close) | Received::Closed => self.role.handle_end(),
            Received::Nothing => return Ok(false),
        }
        Ok(true)
    }

    /// Answers an event; the dispatcher receives the answer after the next [`Self::flush`].
    ///
    /// # Errors
    /// That the dispatcher closed the connection.
    pub fn answer(
        &mut self,
        ticket: Ticket,
        event: Event<Bytes>,
        answer: Result<Verdict, FilterFailure>,
    ) -> Result<(), ProcessorError> {
        let mut fragments = event.fragments;
        fragments.clear();
        if self.spare.len() < SPARE_LISTS {
            self.spare.push(fragments);
        }
        self.role.handle_answer(ticket, answer);
        self.say()
    }

    /// Starts to leave: no more events are requested, those already received are still answered, and the farewell
    /// follows the last answer.
    pub fn stop(&mut self) {
        self.role.handle_stop();
    }

    /// Makes the answers visible to the dispatcher and requests more events.
    ///
    /// # Errors
    /// That the dispatcher closed the connection.
    pub fn flush(&mut self) -> Result<(), ProcessorError> {
        self.say()?;
        self.way.flush();
        Ok(())
    }

    fn say(&mut self) -> Result<(), ProcessorError> {
        while let Some(word) = self.role.poll_transmit() {
            let word = match word {
                Word::Ask(events) => FromProcessor::Ask(events),
                Word::Verdict(ticket, verdict) => FromProcessor::Verdict(ticket.0, verdict),
                Word::Failed(ticket, why) => FromProcessor::Failed(ticket.0, why.0),
                Word::Leave => FromProcessor::Leave,
            };
            self.way.say(&word);
        }
        Ok(())
    }

    /// Flushes, then sleeps until there may be an event, the dispatcher has closed the connection, or `timeout` has
    /// passed.
    pub fn wait(&mut self, timeout: Nanos) {
        self.way.wait(timeout);
    }

    /// Filters events until the run is over or `stop` is set, and leaves in good order.
    ///
    /// # Errors
    /// That the dispatcher violated the protocol.
    pub fn run(self, filter: &mut dyn Filter, stop: &AtomicBool) -> Result<WorkerTimes, ProcessorError> {
        let mut working = Working { processor: self, stop };
        let times = judging::work(&mut working, filter);
        working.processor.way.close();
        times
    }

    /// Reports this processor's account of its time to the dispatcher.
    pub fn show(&mut self, times: &WorkerTimes) {
        let WorkerTimes { judged, filter, worker, idle } = *times;
        self.way.show(Times { judged, filter, worker, idle });
    }
}

/// The door that an address means: a socket, or the only one in a run's directory; of a directory of runs, that of the newest run
/// that has one.
///
/// # Errors
/// If the directory cannot be read, or has no door or several.
pub fn door_of(address: &Path) -> Result<PathBuf, ProcessorError> {
    if !address.is_dir() {
        return Ok(address.to_owned());
    }
    if let Err(error) = std::fs::read_dir(address) {
        return Err(ProcessorError::Directory { path: address.to_owned(), error });
    }
    let doors_in = |directory: &Path| {
        let is_door = |path: &PathBuf| path.extension().is_some_and(|it| it == DOOR_EXTENSION);
        let mut doors: Vec<PathBuf> = entries(directory).filter(is_door).collect();
        doors.sort();
        doors
    };
    let mut doors = doors_in(address);
    if doors.is_empty() {
        let is_run = |path: &PathBuf| {
            let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix("run"));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        };
        let mut runs: Vec<PathBuf> = entries(address).filter(is_run).collect();
        // Their numbers have leading zeros.
        runs.sort();
        doors =
            runs.iter().rev().map(|run| doors_in(run)).find(|doors| !doors.is_empty()).unwrap_or_default();
    }
    match (doors.pop(), doors.pop()) {
        (None, _) => Err(ProcessorError::NoDoor(address.into())),
        (Some(door), None) => Ok(door),
        (Some(_), Some(other)) => Err(ProcessorError::SeveralDoors(address.into(), other)),
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// An event of this process's own.
struct Own(Event<Bytes>);

impl AsRef<Event<Bytes>> for Own {
    fn as_ref(&self) -> &Event<Bytes> {
        &self.0
    }
}

struct Working<'a> {
    processor: Processor,
    stop: &'a AtomicBool,
}

impl EventExchange for Working<'_> {
    type Event = Own;
    type Error = ProcessorError;

    fn take(&mut self) -> Result<Option<(Ticket, Own)>, ProcessorError> {
        Ok(self.processor.take()?.map(|(ticket, event)| (ticket, Own(event))))
    }

    fn answer(
        &mut self,
        ticket: Ticket,
        event: Own,
        answer: Result<Verdict, FilterFailure>,
    ) -> Result<(), ProcessorError> {
        self.processor.answer(ticket, event.0, answer)
    }

    fn flush(&mut self) -> Result<(), ProcessorError> {
        if self.stop.load(Ordering::Relaxed) {
            self.processor.stop();
        }
        self.processor.flush()
    }

    fn is_over(&mut self) -> bool {
        self.processor.is_closed()
    }

    fn fetched(&self) -> u64 {
        self.processor.way.fetched()
    }

    fn sleep(&mut self, longest: Nanos) {
        self.processor.wait(longest);
    }

    fn show(&mut self, times: &WorkerTimes) {
        self.processor.show(times);
    }
}
