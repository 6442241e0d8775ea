//! An active readout unit: fragments are processed after a builder unit has requested them and before they are sent.
//!
//! ```text
//!  requests --> role --> answer of raw fragments --> worker --> smaller payloads --> frame
//!               (collects, bounded)   (n of them)              (the unit's thread sends)
//! ```
//!
//! The role is not involved: its answer goes to a worker before it is sent. Until the worker has finished, the answer
//! counts as outstanding. While too many events are outstanding, the role is asked for no more answers; requests then
//! wait in the role, bounded by the builder units' credit. Answers are sent in the order in which they are finished;
//! builder units do not depend on the order of events.
//!
//! Until an event is released, its fragments stay in memory as their source sent them. So no failure of a preprocessor
//! loses a fragment: the raw fragment is sent instead, and counted by reason. If a builder unit repeats a request for
//! fragments that are being processed, they are not processed twice.

mod growth;
pub mod isolated;
mod made;
mod next;
mod outputs;
mod worker;

pub use growth::Growth;
pub use next::NextPreprocessors;
pub use outputs::{MemoryMaker, OutputMemory, Outputs};

use crate::parcels::Parcels;
use crate::stall::StallFree;
use bytes::Bytes;
use made::Made;
use next::Keeper;
use sheaf_filter::{FilterFailure, Preprocessor};
use sheaf_protocol::Transmit;
use sheaf_telemetry::log_as;
use sheaf_wire::message::{Body, Header, Message, SuperFragments};
use sheaf_wire::{
    EventId, Fragment, MissingSource, Nanos, NodeId, NumberMark, SourceId, Span, SuperFragment, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use worker::{Done, Job, Line};

/// Maximum number of hung workers that a readout unit abandons in its life, each with its thread and its memory. Once
/// it is reached, a worker that hangs is not replaced.
pub const MOST_LEFT_BEHIND: usize = 4;

/// Time for which the unit waits for a worker to end when it ends itself.
const JOIN_PATIENCE: Duration = Duration::from_millis(500);

/// Maximum number of failures that are logged one by one; all are counted.
const FAILURES_LOGGED: u64 = 10;

/// Makes a preprocessor for a worker; called again for one that takes the place of another.
pub type PreprocessorMaker = Box<dyn FnMut() -> Result<Box<dyn Preprocessor>, FilterFailure> + Send>;

/// Setup of the processing of fragments in a readout unit.
pub struct PreprocessingSetup {
    /// Whose fragments are processed; all sources' if `None`.
    pub sources: Option<BTreeSet<SourceId>>,
    /// Number of workers; at least one.
    pub workers: u16,
    /// Answers are started while fewer events than this are outstanding.
    pub outstanding_events: usize,
    /// A worker that is not done with a fragment after this time is given up. It may take any time if `None`: also where its
    /// work is done by a process that is watched there ([`isolated`]).
    pub time_limit: Option<Nanos>,
    /// Makes the preprocessors.
    pub make: PreprocessorMaker,
    /// Makes the memory that a worker's results are in.
    pub memory: MemoryMaker,
    /// Maximum growth of results over their fragments.
    pub growth: Growth,
}

/// Error when starting the preprocessing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreprocessingError {
    /// A preprocessor cannot be made.
    #[error("{node} cannot make its preprocessor: {what}")]
    Preprocessor {
        /// The readout unit.
        node: NodeId,
        /// Description of the error.
        what: FilterFailure,
    },
    /// A thread cannot be started.
    #[error("{node} cannot start a worker for its preprocessor: {what}")]
    Thread {
        /// The readout unit.
        node: NodeId,
        /// Error of the operating system.
        what: String,
    },
}

/// Counts of fragments to be processed, and of the workers. Every such fragment that was sent is counted in exactly one
/// of the first six.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreprocessingCounts {
    /// Fragments sent with the payload that the preprocessor made.
    pub processed: u64,
    /// Fragments sent unchanged by decision of the preprocessor.
    pub kept: u64,
    /// Fragments sent as they were, because the preprocessor failed with them.
    pub failed: u64,
    /// Fragments sent as they were, because their worker hung or died, or there was none any more.
    pub abandoned: u64,
    /// Fragments sent as they were, because builder units still held all of the memory for results.
    pub no_memory: u64,
    /// Fragments sent unchanged because the results of their event exceeded the size of a frame.
    pub too_large: u64,
    /// Payload of the processed fragments, before.
    pub bytes_before: u64,
    /// Payload of the processed fragments, after.
    pub bytes_after: u64,
    /// Number of times that a worker, or its process, was replaced.
    pub workers_restarted: u64,
    /// Events that were asked for again while they were being processed.
    pub asked_again: u64,
    /// Number of times that answers began to wait because the limit of outstanding events was reached.
    pub limit_reached: u64,
}

impl PreprocessingCounts {
    /// All of them, by name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 11] {
        [
            ("processed", self.processed),
            ("kept", self.kept),
            ("failed", self.failed),
            ("abandoned", self.abandoned),
            ("no_memory", self.no_memory),
            ("too_large", self.too_large),
            ("bytes_before", self.bytes_before),
            ("bytes_after", self.bytes_after),
            ("workers_restarted", self.workers_restarted),
            ("asked_again", self.asked_again),
            ("limit_reached", self.limit_reached),
        ]
    }
}

/// An answer that a worker has, without its fragments.
struct Pending {
    to: NodeId,
    header: Header,
    entries: Vec<SuperFragment>,
    missing: Vec<MissingSource>,
    fragments: Arc<Vec<Fragment<Bytes>>>,
}

/// Part of an event that a builder unit is to receive; its answer is under way while this is outstanding.
type Errand = (NodeId, EventId, u16, u16);

/// The errands of an entry: one for each of its events.
fn errands(to: NodeId, entry: SuperFragment) -> impl Iterator<Item = Errand> {
    entry.events().map(move |event| (to, event, entry.attempt, entry.part))
}

/// The preprocessing of a readout unit.
pub(crate) struct Preprocessing {
    node: NodeId,
    setup: PreprocessingSetup,
    waker: Waker,
    /// The thread that has made the preprocessors, if the run follows another one.
    keeper: Option<Keeper>,
    lines: Vec<Line>,
    /// The answers that workers have, by the number of the job, and where that is.
    pending: BTreeMap<u64, (usize, Pending)>,
    outstanding: BTreeSet<Errand>,
    done: VecDeque<Transmit<Bytes>>,
    next_job: u64,
    left_behind: usize,
    was_full: bool,
    time: StallFree,
    counts: PreprocessingCounts,
    /// Bytes sent less than the role has booked, and bytes sent more, since the last report to the role.
    difference: (u64, u64),
}

impl Preprocessing {
    /// Starts the workers. `waker` wakes the readout unit's thread.
    pub(crate) fn new(
        node: NodeId,
        mut setup: PreprocessingSetup,
        waker: Waker,
    ) -> Result<Self, PreprocessingError> {
        let jobs = setup.outstanding_events + 1;
        let mut lines = Vec::new();
        for place in 0..usize::from(setup.workers.max(1)) {
            lines.push(start(node, place, jobs, &mut setup, &waker)?);
        }
        Ok(Self {
            node,
            setup,
            waker,
            keeper: None,
            lines,
            pending: BTreeMap::new(),
            outstanding: BTreeSet::new(),
            done: VecDeque::new(),
            next_job: 0,
            left_behind: 0,
            was_full: false,
            time: StallFree::default(),
            counts: PreprocessingCounts::default(),
            difference: (0, 0),
        })
    }

    /// Goes on with the run that follows: workers and their memory stay, and have the preprocessors of that run. Answers of the run before
    /// are not sent any more.
    pub(crate) fn go_on(&mut self, next: NextPreprocessors) {
        let NextPreprocessors { made, make, keeper } = next;
        self.pending.clear();
        self.outstanding.clear();
        self.done.clear();
        (self.was_full, self.counts, self.difference) = (false, PreprocessingCounts::default(), (0, 0));
        self.setup.make = make;
        self.keeper = Some(keeper);
        for (line, preprocessor) in self.lines.iter_mut().zip(made).filter(|(line, _)| line.is_open()) {
            line.exchange(preprocessor);
        }
        self.flush();
    }

    /// Returns whether another answer may be started.
    pub(crate) fn has_room(&mut self) -> bool {
        let is_full = self.outstanding.len() >= self.setup.outstanding_events;
        self.counts.limit_reached += u64::from(is_full && !self.was_full);
        self.was_full = is_full;
        !is_full
    }

    /// Returns whether answers are being processed.
    pub(crate) fn is_busy(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes an answer whose fragments lie in `parcels`; gives any other message back.
    pub(crate) fn take(&mut self, parcels: &Parcels, transmit: Transmit<Span>) -> Option<Transmit<Span>> {
        let Transmit { to, message: Message { header, body: Body::SuperFragments(parts) } } = transmit else {
            return Some(transmit);
        };
        let parts = self.without_outstanding(to, parts);
        if parts.entries.is_empty() {
            return None;
        }
        let fragments = parts.fragments.iter().map(|fragment| Fragment {
            event: fragment.event,
            source: fragment.source,
            time: fragment.time,
            checksum: fragment.checksum,
            processed: fragment.processed,
            mark: NumberMark::NONE,
            payload: parcels.payload(fragment.payload),
        });
        let pending = Pending {
            to,
            header,
            fragments: Arc::new(fragments.collect()),
            entries: parts.entries,
            missing: parts.missing,
        };
        self.hand_out(pending);
        None
    }

    /// An answer without the events of which the same is outstanding.
    fn without_outstanding(&mut self, to: NodeId, parts: SuperFragments<Span>) -> SuperFragments<Span> {
        if !parts
            .entries
            .iter()
            .flat_map(|entry| errands(to, *entry))
            .any(|it| self.outstanding.contains(&it))
        {
            return parts;
        }
        let (mut fragments, mut missing) = (parts.fragments.into_iter(), parts.missing.into_iter());
        let mut rest = SuperFragments::default();
        let events = parts.entries.into_iter();
        let events =
            events.flat_map(|run| run.events().map(move |event| SuperFragment { event, count: 1, ..run }));
        for entry in events {
            let its_fragments = fragments.by_ref().take(usize::from(entry.fragments));
            let its_missing = missing.by_ref().take(usize::from(entry.missing));
            if self.outstanding.contains(&(to, entry.event, entry.attempt, entry.part)) {
                self.counts.asked_again += 1;
                // The role has booked them as sent.
                self.difference.0 +=
                    its_fragments.map(|fragment| u64::from(fragment.payload.length)).sum::<u64>();
                its_missing.for_each(drop);
            } else {
                rest.fragments.extend(its_fragments);
                rest.missing.extend(its_missing);
                rest.push_entry(entry);
            }
        }
        rest
    }

    /// Gives an answer to the worker that has the least to do. Where none takes it, and where nothing of it is to be
    /// processed, it is sent as it is.
    fn hand_out(&mut self, pending: Pending) {
        let wanted = self.wanted(&pending.fragments);
        if wanted == 0 {
            self.send(pending, Vec::new());
            return;
        }
        let job = Job { number: self.next_job, fragments: pending.fragments.clone() };
        let (place, fragments) = (self.idlest(), pending.fragments.len());
        if place.is_none_or(|place| self.lines[place].give(job, fragments).is_err()) {
            self.counts.abandoned += wanted;
            self.send(pending, Vec::new());
            return;
        }
        self.outstanding.extend(pending.entries.iter().flat_map(|entry| errands(pending.to, *entry)));
        self.pending.insert(self.next_job, (place.unwrap_or_default(), pending));
        self.next_job += 1;
    }

    fn idlest(&self) -> Option<usize> {
        let open = self.lines.iter().enumerate().filter(|(_, line)| line.is_open());
        open.min_by_key(|(_, line)| line.queued()).map(|(place, _)| place)
    }

    /// Returns the number of these fragments that are to be processed.
    fn wanted(&self, fragments: &[Fragment<Bytes>]) -> u64 {
        match &self.setup.sources {
            None => fragments.len() as u64,
            Some(sources) => fragments.iter().filter(|it| sources.contains(&it.source)).count() as u64,
        }
    }

    /// Serves the workers: takes their results and gives up those that hang. Returns whether there was anything to do.
    pub(crate) fn work(&mut self, now: Timestamp) -> bool {
        let now = self.time.at(now);
        let mut some = false;
        for place in 0..self.lines.len() {
            while let Some(done) = self.lines[place].receive(now) {
                some = true;
                // One of the run before is of another preprocessor.
                if self.pending.contains_key(&done.number) {
                    self.counts.workers_restarted += self.lines[place].note_restarts(done.restarts);
                }
                self.take_done(done);
            }
            let hangs = self.setup.time_limit.is_some_and(|limit| self.lines[place].is_behind(now, limit));
            if hangs || self.lines[place].has_died() {
                some = true;
                self.give_up(place, hangs);
            }
        }
        some
    }

    /// Wakes the workers that were given something.
    pub(crate) fn flush(&mut self) {
        self.lines.iter_mut().for_each(Line::flush);
    }

    /// When [`Self::work`] has something to do at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let limit = self.setup.time_limit?;
        self.lines.iter().filter_map(|line| line.deadline(limit)).min().map(|at| self.time.everybodys(at))
    }

    fn take_done(&mut self, done: Done) {
        // A worker that was given up may have finished nevertheless.
        let Some((_, pending)) = self.pending.remove(&done.number) else { return };
        self.send(pending, done.made);
    }

    /// Composes an answer from the results of a worker, or from the raw fragments where there is no result.
    fn send(&mut self, pending: Pending, mut made: Vec<Made>) {
        let Pending { to, header, entries, missing, fragments } = pending;
        for errand in entries.iter().flat_map(|entry| errands(to, *entry)) {
            self.outstanding.remove(&errand);
        }
        // The worker has let go of its own handle; if it hangs it has not.
        let mut fragments = Arc::try_unwrap(fragments).unwrap_or_else(|shared| shared.to_vec());
        self.counts.too_large += self.setup.growth.bound_events(&entries, &fragments, &mut made);
        for (fragment, made) in fragments.iter_mut().zip(made) {
            self.replace(fragment, made);
        }
        for parts in self.setup.growth.divide(SuperFragments { entries, fragments, missing }) {
            let message = Message { header, body: Body::SuperFragments(parts) };
            self.done.push_back(Transmit { to, message });
        }
    }

    fn replace(&mut self, fragment: &mut Fragment<Bytes>, made: Made) {
        match made {
            Made::NotWanted | Made::TooLarge => {}
            Made::Kept => self.counts.kept += 1,
            Made::NoMemory => self.counts.no_memory += 1,
            Made::Failed(failure) => {
                self.counts.failed += 1;
                if self.counts.failed <= FAILURES_LOGGED {
                    let Fragment { event, source, .. } = fragment;
                    log_as!(
                        FRAGMENT_UNPROCESSED, node = self.node, event = event, source = source;
                        "{}: event {event}, source {source}: sent unprocessed: {failure}", self.node
                    );
                }
            }
            Made::New { payload, checksum } => {
                let (before, after) = (fragment.payload.len() as u64, payload.len() as u64);
                self.counts.processed += 1;
                self.counts.bytes_before += before;
                self.counts.bytes_after += after;
                self.difference.0 += before.saturating_sub(after);
                self.difference.1 += after.saturating_sub(before);
                *fragment = Fragment { checksum, payload, processed: true, ..fragment.clone() };
            }
        }
    }

    /// Sends the fragments of a worker unprocessed and replaces it.
    fn give_up(&mut self, place: usize, hangs: bool) {
        let its = |(number, (at, _)): (&u64, &(usize, Pending))| (*at == place).then_some(*number);
        let numbers: Vec<u64> = self.pending.iter().filter_map(its).collect();
        for number in numbers {
            if let Some((_, pending)) = self.pending.remove(&number) {
                self.counts.abandoned += self.wanted(&pending.fragments);
                self.send(pending, Vec::new());
            }
        }
        self.lines[place].close();
        self.left_behind += usize::from(hangs);
        let what = if hangs { "hangs in a fragment" } else { "has died" };
        if self.left_behind > MOST_LEFT_BEHIND {
            log_as!(
                PREPROCESSOR_WORKER_LOST, node = self.node;
                "{}: a worker of the preprocessor {what}, and {MOST_LEFT_BEHIND} already hang: it is not replaced",
                self.node
            );
            return;
        }
        let jobs = self.setup.outstanding_events + 1;
        match start(self.node, place, jobs, &mut self.setup, &self.waker) {
            Ok(line) => {
                log_as!(
                    PREPROCESSOR_WORKER_REPLACED, node = self.node;
                    "{}: a worker of the preprocessor {what}; another takes its place", self.node
                );
                self.lines[place] = line;
                self.counts.workers_restarted += 1;
            }
            Err(error) => log_as!(
                PREPROCESSOR_WORKER_LOST, node = self.node;
                "a worker of the preprocessor {what}, and there is no other: {error}"
            ),
        }
    }

    /// The next answer that is ready to go.
    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit<Bytes>> {
        self.done.pop_front()
    }

    /// Returns the bytes of payload sent less than the role has booked since the last call, and the bytes sent more.
    pub(crate) fn take_difference(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.difference)
    }

    pub(crate) fn counts(&self) -> PreprocessingCounts {
        self.counts
    }

    /// Ends the workers; one that hangs is left behind.
    pub(crate) fn close(&mut self) {
        for line in &mut self.lines {
            line.close();
        }
        for line in &mut self.lines {
            line.join(JOIN_PATIENCE);
        }
    }
}

fn start(
    node: NodeId,
    place: usize,
    jobs: usize,
    setup: &mut PreprocessingSetup,
    waker: &Waker,
) -> Result<Line, PreprocessingError> {
    let preprocessor = (setup.make)().map_err(|what| PreprocessingError::Preprocessor { node, what })?;
    let context = worker::WorkerContext {
        preprocessor,
        sources: setup.sources.clone(),
        outputs: (setup.memory)(),
        growth: setup.growth,
        waker: waker.clone(),
    };
    Line::start(format!("{node}.p{place}"), jobs, context)
        .map_err(|error| PreprocessingError::Thread { node, what: error.to_string() })
}

#[cfg(test)]
mod tests;
