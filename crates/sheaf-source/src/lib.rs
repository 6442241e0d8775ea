//! Sources of a readout unit: emulated ones, and the replay of recorded ones.
//!
//! | module | holds |
//! |---|---|
//! | [`block_writer`] | fragments written one after another into memory blocks |
//! | [`batch`] | many fragments of one source at once, in one piece of memory |
//! | [`emulator`] | a source that generates its fragments, with defects on request |
//! | [`script`] | behaviour of an emulated source at each event, also for the code that checks it |
//! | [`size_model`] | sizes of the fragments: fixed, log-normal, near-normal, minimum-peaked |
//! | [`content`] | their content, and the check that it arrived unchanged |
//! | [`pacing`] | when fragments are due |
//! | [`stream_set`] | a directory of fragment streams, as one recording |
//! | [`replay`] | a source that plays one of them |
//! | [`timed`] | self-triggered front ends, captured or live: packets of hits become time slices |
//! | [`free_running`] | emulated front ends that send frames of hits, and the truth about them |
//! | [`windows`] | hits that are kept until triggers request windows of them |
//! | [`described`] | packets of any front end that has event numbers, by a description of their fields |
//! | [`outbox`] | fragments of one source between their arrival and the readout unit |
//! | [`poll_books`] | accounts of a library that is polled for fragments |
//! | [`random`] | random numbers that are a pure function of seed, source and event |
//!
//! A source is polled by the thread of its readout unit. It never blocks and reads no clock: it gets the time as an
//! argument, and a source that is early returns when it is ready. It is bounded by its own [`sheaf_buffer::Pool`]:
//! while every block has fragments in use, it returns nothing. Each source has a pool of its own, so that a fast source
//! cannot take the memory that a slow one needs to complete the oldest event.
//!
//! The crate does no network I/O except for live packets, starts no thread, and does not decide the fate of a fragment.

#![forbid(unsafe_code)]

pub mod batch;
pub mod block_writer;
pub mod content;
pub mod described;
pub mod emulator;
mod exp2;
pub mod free_running;
mod ln;
mod normal;
pub mod outbox;
pub mod pacing;
pub mod poll_books;
pub mod random;
pub mod replay;
pub mod script;
pub mod size_model;
mod stats_since;
pub mod stream_set;
pub mod timed;
pub mod windows;

pub use batch::{Batch, BatchEnd};
pub use emulator::{EmulatedSource, EmulatorConfig};
pub use replay::{AbsentSource, ReplayConfig, ReplaySource};
pub use stream_set::{StreamSet, open_directory};

use bytes::Bytes;
use sheaf_wire::HitInterval;
use sheaf_wire::message::Recorded;
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{ByteCount, EventId, Fragment, MissingReason, Nanos, SourceId, Timestamp};
use std::sync::Arc;

/// A front end, as its readout unit sees it.
pub trait Source: Send {
    /// Which source this is.
    fn id(&self) -> SourceId;

    /// The next fragment, if there is one now. Never waits for anything but a local file.
    fn poll(&mut self, now: Timestamp) -> SourcePoll;

    /// Puts the next fragments, at most `most`, into `batch`, which must be empty, and returns why it returns no more.
    /// There may be fragments for every reason. A source that can write many fragments side by side does so here; the
    /// others return one.
    fn poll_batch(&mut self, now: Timestamp, _most: usize, batch: &mut Batch) -> BatchEnd {
        batch.take_one(self.poll(now))
    }

    /// Returns whether the data wait until they are taken, one event after the other, as recorded or emulated data do.
    /// Nothing from such a source is ever late: a fragment is missing only if the source has passed the event or has
    /// ended. Detectors do not wait.
    fn keeps_data(&self) -> bool {
        false
    }

    /// Returns whether the run may start as far as this source is concerned. Sources that somebody has to connect first are
    /// asked again and again.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Returns whether a program feeds the source, or has ended it. Sources that need no program are always fed.
    fn is_fed(&mut self) -> bool {
        true
    }

    /// Returns whether the source gives its hits on request only: [`Self::handle_windows`] has the requests.
    fn answers_windows(&self) -> bool {
        false
    }

    /// Requests the hits of all these windows of time, which become the fragment of an event, or [`SourceEvent::Missing`].
    fn handle_windows(&mut self, _event: EventId, _windows: &[HitInterval]) {}

    /// Cancels the request for windows of an event.
    fn cancel_windows(&mut self, _event: EventId) {}

    /// Announces, before the start, that the readout unit joins a run in progress, of which all events below `event` have ended. A source
    /// whose data wait begins there; others need not do anything.
    fn skip_to(&mut self, _event: EventId) {}

    /// Announces the start of the run: fragments are polled from now on.
    fn start(&mut self) {}

    /// Announces that the run is paused, or resumed: whether new events follow. Those that were triggered before are awaited.
    fn handle_pause(&mut self, _paused: bool) {}

    /// Announces that the readout unit has accepted the next `fragments` of those that were returned. Each is in its accounts
    /// from now on.
    fn handle_accepted(&mut self, _fragments: usize) {}

    /// Returns the next event of the source, other than fragments.
    fn poll_event(&mut self) -> Option<SourceEvent> {
        None
    }

    /// Announces the answer to a run record of this source.
    fn handle_recorded(&mut self, _answer: Recorded) {}

    /// Returns whether run records of the source are awaited after the end of the run.
    fn is_recording(&mut self) -> bool {
        false
    }

    /// Announces that the thread of the readout unit is about to sleep. From then on a source that has something new must wake
    /// it. Returns `false` if there is something new already.
    fn prepare_to_sleep(&mut self) -> bool {
        true
    }

    /// Announces the end of the run: the source ends with the fragments that it has already returned.
    fn stop(&mut self);

    /// Returns the source's counters.
    fn stats(&self) -> SourceStats;
}

/// Implements the methods of [`Source`] that a source which wraps another one, in the field of this name, passes on unchanged. A wrapper
/// that does something at the start of the run has its own method for it: `without start`.
#[macro_export]
macro_rules! forward_to_source {
    ($inner:ident) => {
        $crate::forward_to_source!($inner, without start);

        fn start(&mut self) {
            self.$inner.start();
        }
    };
    ($inner:ident, without start) => {
        fn keeps_data(&self) -> bool {
            self.$inner.keeps_data()
        }

        fn is_ready(&mut self) -> bool {
            self.$inner.is_ready()
        }

        fn is_fed(&mut self) -> bool {
            self.$inner.is_fed()
        }

        fn handle_pause(&mut self, paused: bool) {
            self.$inner.handle_pause(paused);
        }

        fn handle_recorded(&mut self, answer: sheaf_wire::message::Recorded) {
            self.$inner.handle_recorded(answer);
        }

        fn is_recording(&mut self) -> bool {
            self.$inner.is_recording()
        }
    };
}

/// Polls a source that returns batches for one fragment.
pub fn poll_one(source: &mut impl Source, now: Timestamp) -> SourcePoll {
    let mut batch = Batch::default();
    let end = source.poll_batch(now, 1, &mut batch);
    match (batch.pop(), end) {
        (Some(fragment), _) => SourcePoll::Fragment(fragment),
        (None, BatchEnd::NotBefore(at)) => SourcePoll::NotBefore(at),
        (None, BatchEnd::More) => SourcePoll::NotBefore(now),
        (None, BatchEnd::Idle) => SourcePoll::Idle,
        (None, BatchEnd::OutOfMemory) => SourcePoll::OutOfMemory,
        (None, BatchEnd::Ended) => SourcePoll::Ended,
    }
}

/// Event of a source that depends on a program of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// The program has gone or is not there yet. It may come.
    Gone,
    /// A program feeds the source.
    Back,
    /// The program sends a run record. [`Source::handle_recorded`] has the answer.
    Record(Arc<RunRecord>),
    /// The source has no fragment of an event whose windows were requested.
    Missing {
        /// The event.
        event: EventId,
        /// The reason.
        reason: MissingReason,
    },
    /// Something that the operator should know, as a text.
    Warning(String),
    /// The program declines the start of the run.
    Declined {
        /// Name of the program.
        name: String,
        /// Its reason.
        reason: String,
    },
}

/// Result of [`Source::poll`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourcePoll {
    /// The next fragment.
    Fragment(Fragment<Bytes>),
    /// Nothing before this instant.
    NotBefore(Timestamp),
    /// Nothing now: the source wakes the readout unit when there is, after [`Source::prepare_to_sleep`].
    Idle,
    /// Every block of the source's pool has fragments in use: poll again when some were dropped.
    OutOfMemory,
    /// Nothing ever again.
    Ended,
}

/// Counters of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// Fragments handed out.
    pub fragments: u64,
    /// Their payload.
    pub bytes: ByteCount,
    /// Times that memory ran out: changes from giving to [`SourcePoll::OutOfMemory`], not polls.
    pub out_of_memory: u64,
    /// The longest that a fragment went after it was due; zero at full speed.
    pub max_lag: Nanos,
    /// Emulated: events that the source was silent about.
    pub silent: u64,
    /// Emulated: fragments handed out a second time.
    pub duplicated: u64,
    /// Emulated: fragments handed out after their turn.
    pub late: u64,
    /// Emulated: fragments larger than the size model allows.
    pub oversize: u64,
    /// Replayed: records left out by the rate division.
    pub divided: u64,
    /// Replayed: places where a record's header was damaged. Each costs at least one fragment.
    pub corrupt_headers: u64,
    /// Replayed: records that were left out because their payload was damaged.
    pub corrupt_payloads: u64,
    /// Replayed: errors of the operating system. The source ends at the first.
    pub read_errors: u64,
    /// Replayed or captured: the last damage or error, with file and offset.
    pub last_error: Option<String>,
    /// Fragments that a process could not decode, and that were left out.
    pub undecoded: u64,
    /// Self-triggered sources: accounts of packets and hits.
    pub timed: Option<timed::FeedBooks>,
    /// Sources that give windows of their hits: accounts of requests and hits.
    pub windows: Option<windows::WindowBooks>,
    /// Described packets: accounts of packets and fragments.
    pub stream: Option<described::StreamBooks>,
    /// Fed sources: connections of programs to their readout unit that were refused or closed, by reason; noted at its first source.
    pub refused: Vec<(&'static str, u64)>,
    /// Polled libraries: accounts of polls and of what was invalid. One source of a library has them.
    pub polled: Option<poll_books::PollBooks>,
}
