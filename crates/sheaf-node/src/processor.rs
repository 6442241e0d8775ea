//! A processor: a process that joins a builder unit while the run goes on, and judges events for it.
//!
//! [`Processor::join`] does it all with a [`Filter`]. Those who want to hold the loop themselves (another language, whose
//! border is crossed for many events at a time) [`Processor::meet`] the converter, and then [`Processor::take`],
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
use crate::judging::{self, Desk, WorkerTimes, numbers};
use bytes::Bytes;
use sheaf_protocol::farm::{self, Ticket, Word};
use sheaf_transport::door::{Hello, Visit, VisitError, Visited};
use sheaf_wire::farm::{FromConverter, FromProcessor, RecordError, VERSION, decode_from_converter};
use sheaf_wire::message::DecodeError;
use sheaf_wire::{Event, Fragment, Nanos, Verdict};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use sheaf_wire::farm::Welcome;

/// The pause between two knocks at a door that is not open yet.
const KNOCK: Duration = Duration::from_millis(50);

/// How long a processor waits at a time for room for its answers.
const ROOM: Nanos = Nanos::from_millis(1);

/// How many empty lists of fragments are kept to be used again.
const SPARE_LISTS: usize = 256;

/// The end of the names of doors: `bu0.farm`.
pub const DOOR_EXTENSION: &str = "farm";

/// How a processor takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorOptions {
    /// Events that it has at a time, the one in judgement included: enough to never wait for the next, few enough that a
    /// slow processor does not sit on many. Default 32.
    pub ahead: u32,
    /// How long it waits for the door to be opened. Default: not at all.
    pub patience: Nanos,
}

impl Default for ProcessorOptions {
    fn default() -> Self {
        Self { ahead: 32, patience: Nanos::ZERO }
    }
}

/// Why a processor could not join, or ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum ProcessorError {
    /// The door.
    #[error(transparent)]
    Door(#[from] VisitError),
    /// A directory without a door.
    #[error("there is no door in {0}; is the run under way, and is its `filter.door` on?")]
    NoDoor(PathBuf),
    /// A directory with several.
    #[error("there are several doors in {0}; name one of them, such as {1}")]
    SeveralDoors(PathBuf, PathBuf),
    /// The converter speaks another version.
    #[error("the run is of another release: {0}")]
    Welcome(DecodeError),
    /// A record that is none.
    #[error("the converter sent a record that cannot be: {0}")]
    Record(DecodeError),
    /// An event that was not asked for.
    #[error("the converter sent an event that was not asked for")]
    Unasked,
}

/// A processor that has joined.
#[derive(Debug)]
pub struct Processor {
    visit: Visit,
    role: farm::Processor<Event<Bytes>, Verdict>,
    welcome: Welcome,
    record: Vec<u8>,
    spare: Vec<Vec<Fragment<Bytes>>>,
}

impl Processor {
    /// Joins the converter behind the door at `address` (a socket, or a run's directory with one door), judges events until
    /// the run is over or `stop` is set, and leaves in good order.
    ///
    /// # Errors
    /// Why it could not join, or that the converter went away in the middle.
    pub fn join(
        address: &Path,
        options: ProcessorOptions,
        mut filter: Box<dyn Filter>,
        stop: &AtomicBool,
    ) -> Result<WorkerTimes, ProcessorError> {
        Self::meet(address, options)?.run(&mut *filter, stop)
    }

    /// Joins, and asks for the first events.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn meet(address: &Path, options: ProcessorOptions) -> Result<Self, ProcessorError> {
        let hello = Hello { pid: std::process::id(), content: VERSION.to_le_bytes().to_vec() };
        let start = Instant::now();
        let visit = loop {
            let door = door_of(address);
            match door.and_then(|door| Ok(Visit::meet(&door, &hello)?)) {
                Ok(visit) => break visit,
                Err(ProcessorError::Door(VisitError::NobodyThere { .. }) | ProcessorError::NoDoor(_))
                    if start.elapsed() < options.patience.to_std() =>
                {
                    std::thread::sleep(KNOCK);
                }
                Err(error) => return Err(error),
            }
        };
        let welcome = Welcome::read(visit.text()).map_err(ProcessorError::Welcome)?;
        let role = farm::Processor::new(options.ahead);
        let mut processor = Self { visit, role, welcome, record: Vec::new(), spare: Vec::new() };
        processor.flush()?;
        Ok(processor)
    }

    /// What the converter said of the run.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Whether nothing more will come: the run is over, or this processor has left.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.role.is_closed()
    }

    /// The next event to judge, if there is one. Its payload lies in the builder unit's memory, and is what it is only until
    /// the event is answered.
    ///
    /// # Errors
    /// That the converter broke the rules.
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

    /// Takes one record; false if there is none.
    fn take_record(&mut self) -> Result<bool, ProcessorError> {
        if self.role.is_closed() {
            return Ok(false);
        }
        match self.visit.take(&mut self.record) {
            Ok(Visited::Record) => {}
            Ok(Visited::Nothing) => return Ok(false),
            // However the converter ended: there is nothing left to do.
            Err(VisitError::Closed) => {
                self.role.handle_end();
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        let Self { visit, record, spare, .. } = self;
        let fetch = |place: sheaf_wire::farm::Place, bytes: u32| {
            if bytes == 0 { Ok(Bytes::new()) } else { visit.bytes(place.segment, place.offset, bytes.into()) }
        };
        match decode_from_converter(record, spare.pop().unwrap_or_default(), fetch) {
            Ok(FromConverter::Event(ticket, event)) => {
                if !self.role.handle_input(Ticket(ticket), event) {
                    return Err(ProcessorError::Unasked);
                }
            }
            Ok(FromConverter::Close) => self.role.handle_end(),
            Err(RecordError::Record(error)) => return Err(ProcessorError::Record(error)),
            Err(RecordError::Payload(VisitError::Closed)) => self.role.handle_end(),
            Err(RecordError::Payload(error)) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Answers an event; the converter sees it after the next [`Self::flush`].
    ///
    /// # Errors
    /// That the converter went away.
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
        self.role.handle_answer(ticket, answer.map_err(|failure| failure.0));
        self.say()
    }

    /// Asks to leave: no more events are asked for, those that are here are still answered, and the last answer is followed by
    /// the farewell.
    pub fn stop(&mut self) {
        self.role.handle_stop();
    }

    /// Lets the converter see what was answered, and asks it for more.
    ///
    /// # Errors
    /// That the converter went away.
    pub fn flush(&mut self) -> Result<(), ProcessorError> {
        self.say()?;
        self.visit.flush();
        Ok(())
    }

    fn say(&mut self) -> Result<(), ProcessorError> {
        while let Some(word) = self.role.poll_transmit() {
            let word = match word {
                Word::Ask(events) => FromProcessor::Ask(events),
                Word::Verdict(ticket, verdict) => FromProcessor::Verdict(ticket.0, verdict),
                Word::Failed(ticket, why) => FromProcessor::Failed(ticket.0, why),
                Word::Leave => FromProcessor::Leave,
            };
            let visit = &mut self.visit;
            word.emit(|head, content| {
                // The converter takes what it is sent, also while it has no use for it; its end ends the wait.
                while !visit.push(&[head, content]) && !visit.has_ended() {
                    visit.wait(ROOM);
                }
            });
        }
        Ok(())
    }

    /// Flushes, then sleeps until there may be an event, the converter is gone, or `timeout` has passed.
    pub fn wait(&mut self, timeout: Nanos) {
        self.visit.wait(timeout);
    }

    /// Judges events until the run is over or `stop` is set, and leaves in good order.
    ///
    /// # Errors
    /// That the converter broke the rules.
    pub fn run(self, filter: &mut dyn Filter, stop: &AtomicBool) -> Result<WorkerTimes, ProcessorError> {
        judging::work(&mut Working { processor: self, stop }, filter)
    }

    /// Shows the converter what this processor says of its own work.
    pub fn show(&mut self, times: &WorkerTimes) {
        for (index, value) in numbers(times).into_iter().enumerate() {
            self.visit.show(index, value);
        }
    }
}

/// The door that an address means: a socket, or the only one in a run's directory.
///
/// # Errors
/// If there is none in the directory, or there are several.
pub fn door_of(address: &Path) -> Result<PathBuf, ProcessorError> {
    if !address.is_dir() {
        return Ok(address.to_owned());
    }
    let entries = std::fs::read_dir(address).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut doors: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|it| it == DOOR_EXTENSION)).collect();
    doors.sort();
    match (doors.pop(), doors.pop()) {
        (None, _) => Err(ProcessorError::NoDoor(address.into())),
        (Some(door), None) => Ok(door),
        (Some(_), Some(other)) => Err(ProcessorError::SeveralDoors(address.into(), other)),
    }
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

impl Desk for Working<'_> {
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

    fn sleep(&mut self, longest: Nanos) {
        self.processor.wait(longest);
    }

    fn show(&mut self, times: &WorkerTimes) {
        self.processor.show(times);
    }
}
