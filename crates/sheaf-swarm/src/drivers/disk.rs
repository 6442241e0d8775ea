//! Simulated disks of the drivers: outputs that are slow, run full, fail and hang, on the thread of the node or beside it.

use super::net::Network;
use super::options::{DriverOptions, UploadOptions};
use crate::violation::{Violation, violation};
use bytes::Bytes;
use sheaf_node::beside::{FilesBeside, FilesWriter};
use sheaf_node::sink::{EventSink, SinkError, Taken};
use sheaf_source::content;
use sheaf_store::streams::Routing;
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{
    Event, EventId, MissingSource, Nanos, NodeId, SessionId, SourceId, Tags, Timestamp, Verdict,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An event on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Event id.
    pub event: EventId,
    /// Number of fragments.
    pub fragments: usize,
    /// Payload of the fragments.
    pub bytes: u64,
    /// Whether it has no verdict of the filter.
    pub(super) is_quarantined: bool,
    /// Missing sources.
    pub missing: Vec<MissingSource>,
    /// Time at which it was written.
    pub at: Timestamp,
}

/// The files of one session of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionFiles {
    /// Events in the order of writing.
    pub written: Vec<Record>,
    /// Number of these that survive the death of the node.
    pub durable: usize,
    /// Numbers of the run records.
    pub records: BTreeSet<u64>,
}

impl SessionFiles {
    /// Returns the number of events that a crash would lose.
    fn waiting(&self) -> usize {
        self.written.len() - self.durable
    }
}

/// The disks of all nodes that store.
#[derive(Debug, Default)]
pub(super) struct DriverDisks {
    /// Files by node and session.
    pub sessions: BTreeMap<(NodeId, SessionId), SessionFiles>,
    /// Time until which a node's disk refuses writes.
    pub(super) fails_until: BTreeMap<NodeId, Timestamp>,
    /// Time until which a node's disk does not return from a write.
    pub(super) hangs_until: BTreeMap<NodeId, Timestamp>,
    /// Events that differ from what their sources have sent.
    pub violations: Vec<Violation>,
    /// Number of errors returned to nodes.
    pub(super) failures: u64,
}

impl DriverDisks {
    /// Removes the events of a dead node that were not durable.
    pub(super) fn cut(&mut self, node: NodeId) {
        for ((_, _), files) in self.sessions.iter_mut().filter(|((owner, _), _)| *owner == node) {
            files.written.truncate(files.durable);
        }
    }
}

/// A handle of the disks.
#[derive(Clone, Debug, Default)]
pub(super) struct DisksHandle(Arc<Mutex<DriverDisks>>);

impl DisksHandle {
    pub(super) fn lock(&self) -> MutexGuard<'_, DriverDisks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The output of a session.
pub(super) struct SimSink {
    pub(super) owner: (NodeId, SessionId),
    pub(super) options: Arc<DriverOptions>,
    pub(super) network: Network,
    pub(super) disks: DisksHandle,
    pub(super) synced_at: Timestamp,
    /// Whether a separate thread waits for the disk instead of the node.
    pub(super) is_beside: bool,
    pub(super) upload: Upload,
}

/// The upload of a session's files to an object store, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Upload {
    /// Number of events in closed files, and the time at which the last of these is uploaded.
    current: Option<(usize, Timestamp)>,
    /// Whether the node needs room: its file is closed although it is short.
    is_pressed: bool,
}

impl SimSink {
    /// Returns the defect of an event, if it has one.
    fn check(&self, event: &Event<Bytes>) -> Option<Violation> {
        let sources = self.options.wanted(event.id);
        let here = event.fragments.iter().map(|fragment| fragment.source);
        let named: Vec<SourceId> = here.chain(event.missing.iter().map(|missing| missing.source)).collect();
        if named.len() != sources.len() || named.iter().copied().collect::<BTreeSet<_>>() != sources {
            return Some(violation!("event {} has the sources {named:?}", event.id));
        }
        if !event.fragments.is_sorted_by(|one, other| one.source < other.source) {
            return Some(violation!("the fragments of event {} are not in order of their sources", event.id));
        }
        event.fragments.iter().find_map(|fragment| {
            let source = fragment.source;
            let length = self.options.length(event.id, source);
            if fragment.event != event.id || fragment.payload.len() != length {
                return Some(violation!("event {}: source {source} has {fragment:?}", event.id));
            }
            content::check(source, event.id, &fragment.payload).err().map(|mismatch| violation!("{mismatch}"))
        })
    }

    /// Ends a batch of events that are durable when their file is uploaded.
    fn advance_upload(&mut self, now: Timestamp, options: UploadOptions) -> Result<(), SinkError> {
        let mut disks = self.disks.lock();
        if let Some((events, at)) = self.upload.current
            && at <= now
        {
            self.fail(&mut disks, now)?;
            disks.sessions.entry(self.owner).or_default().durable = events;
            self.upload.current = None;
        }
        let waiting = disks.sessions.entry(self.owner).or_default().waiting();
        let is_old = now >= self.synced_at + self.options.disk.sync_interval.max(options.time);
        let closes = waiting >= options.file_events || self.upload.is_pressed || is_old;
        if self.upload.current.is_none() && waiting > 0 && closes {
            let events = disks.sessions.entry(self.owner).or_default().written.len();
            self.upload = Upload { current: Some((events, now + options.time)), is_pressed: false };
            self.synced_at = now;
        }
        Ok(())
    }

    fn fail(&self, disks: &mut DriverDisks, now: Timestamp) -> Result<(), SinkError> {
        if disks.fails_until.get(&self.owner.0).is_some_and(|until| *until > now) {
            disks.failures += 1;
            return Err(SinkError::Other("no space left on device".to_owned()));
        }
        Ok(())
    }

    /// Advances the node's time by that of a write or a sync, including the time for which the disk hangs.
    fn spend(&self, disks: &DriverDisks, time: Nanos) {
        if self.is_beside {
            return;
        }
        let mut net = self.network.lock();
        if let Some(until) = disks.hangs_until.get(&self.owner.0) {
            net.wait_until(*until);
        }
        net.spend(time);
    }
}

impl EventSink for SimSink {
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        let now = self.network.lock().now;
        if self.options.is_left_out(event.id) {
            return Ok(Taken::LeftOut);
        }
        let mut disks = self.disks.lock();
        self.fail(&mut disks, now)?;
        self.spend(&disks, self.options.disk.write);
        disks.violations.extend(self.check(event));
        let bytes = event.fragments.iter().map(|fragment| fragment.payload.len() as u64).sum();
        let missing = event.missing.clone();
        let is_quarantined = verdict.tags == Tags::QUARANTINED;
        let (id, fragments) = (event.id, event.fragments.len());
        let record = Record { event: id, fragments, bytes, is_quarantined, missing, at: now };
        self.network.lock().note(event.id.0);
        disks.sessions.entry(self.owner).or_default().written.push(record);
        Ok(Taken::Accepted)
    }

    fn record(&mut self, record: &Arc<RunRecord>) -> Result<(), SinkError> {
        let now = self.network.lock().now;
        let mut disks = self.disks.lock();
        self.fail(&mut disks, now)?;
        self.spend(&disks, self.options.disk.write);
        disks.sessions.entry(self.owner).or_default().records.insert(record.number);
        Ok(())
    }

    fn end_batch(&mut self, now: Timestamp) -> Result<(), SinkError> {
        if let Some(uploads) = self.options.disk.uploads {
            return self.advance_upload(now, uploads);
        }
        let mut disks = self.disks.lock();
        let files = disks.sessions.entry(self.owner).or_default();
        if files.waiting() == 0 || now < self.synced_at + self.options.disk.sync_interval {
            return Ok(());
        }
        self.fail(&mut disks, now)?;
        self.spend(&disks, self.options.disk.sync);
        self.synced_at = now;
        let files = disks.sessions.entry(self.owner).or_default();
        files.durable = files.written.len();
        Ok(())
    }

    fn press(&mut self) {
        self.upload.is_pressed = true;
    }

    fn has_room(&self) -> bool {
        let disks = self.disks.lock();
        let waiting = disks.sessions.get(&self.owner).map_or(0, SessionFiles::waiting);
        self.options.disk.room.is_none_or(|room| waiting < room)
    }

    fn stored(&self) -> u64 {
        self.disks.lock().sessions.get(&self.owner).map_or(0, |files| files.durable as u64)
    }

    fn due(&self) -> Timestamp {
        let disks = self.disks.lock();
        if let Some((_, at)) = self.upload.current {
            return at;
        }
        let waiting = disks.sessions.get(&self.owner).map_or(0, SessionFiles::waiting);
        if let Some(uploads) = self.options.disk.uploads.filter(|_| waiting > 0) {
            return self.synced_at + self.options.disk.sync_interval.max(uploads.time);
        }
        if waiting > 0 { self.synced_at + self.options.disk.sync_interval } else { Timestamp::MAX }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let now = self.network.lock().now;
        let mut disks = self.disks.lock();
        let files = disks.sessions.entry(self.owner).or_default();
        if files.waiting() > 0 {
            self.fail(&mut disks, now)?;
        }
        let files = disks.sessions.entry(self.owner).or_default();
        files.durable = files.written.len();
        Ok(())
    }
}

/// An output whose files are written by a separate thread. The code of both sides is real, and the time of the thread is
/// simulated.
pub(super) struct SimBeside {
    files: FilesBeside,
    writer: FilesWriter,
    owner: NodeId,
    options: Arc<DriverOptions>,
    network: Network,
    disks: DisksHandle,
    /// Number of events given to the thread and not written yet.
    waiting: u64,
    /// Time at which the thread finishes its current batch.
    done_at: Option<Timestamp>,
}

impl SimBeside {
    pub(super) fn new(sink: SimSink) -> Self {
        let (owner, options) = (sink.owner.0, sink.options.clone());
        let (network, disks) = (sink.network.clone(), sink.disks.clone());
        let routing = Routing::new(Vec::new());
        let (files, writer) = FilesBeside::without_thread(Box::new(sink), routing, Duration::ZERO);
        Self { files, writer, owner, options, network, disks, waiting: 0, done_at: None }
    }

    /// Lets the thread run up to now.
    fn advance(&mut self) {
        let now = self.network.lock().now;
        if self.done_at.is_some_and(|at| at <= now) {
            self.writer.work();
            (self.done_at, self.waiting) = (None, 0);
        }
        if self.done_at.is_none() && self.writer.is_due() {
            let disk = &self.options.disk;
            let took = Nanos(disk.write.0 * self.waiting + disk.sync.0);
            let hangs_until = self.disks.lock().hangs_until.get(&self.owner).copied();
            self.done_at = Some((now + took).max(hangs_until.unwrap_or(now)));
        }
    }
}

impl EventSink for SimBeside {
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        self.waiting += 1;
        self.files.write(event, verdict)
    }

    fn give(&mut self, event: &mut Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        self.waiting += 1;
        self.files.give(event, verdict)
    }

    fn record(&mut self, record: &Arc<RunRecord>) -> Result<(), SinkError> {
        self.files.record(record)
    }

    fn end_batch(&mut self, now: Timestamp) -> Result<(), SinkError> {
        self.advance();
        let ended = self.files.end_batch(now);
        self.advance();
        ended
    }

    fn press(&mut self) {
        self.files.press();
    }

    fn has_room(&self) -> bool {
        self.files.has_room()
    }

    fn stored(&self) -> u64 {
        self.files.stored()
    }

    fn due(&self) -> Timestamp {
        self.files.due()
    }

    /// Waits for the thread.
    fn finish(&mut self) -> Result<(), SinkError> {
        if matches!(self.files.finish(), Err(SinkError::NotClosed { .. })) {
            self.writer.work();
        }
        self.files.finish()
    }
}
