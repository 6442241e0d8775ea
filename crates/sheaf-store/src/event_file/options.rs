//! Options for writing events.

use super::name::{FileName, StreamName};
use sheaf_wire::event_file::RunRecord;
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId, TimeBase, Timestamp};
use std::sync::Arc;

/// When the writer passes events to the operating system and to the disk, and therefore when they count as stored. Data
/// in the operating system survive the death of the process; only data on the disk survive that of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushPolicy {
    /// To the operating system when [`WriterOptions::buffer`] is full. An event counts as stored at once.
    WhenFull,
    /// To the operating system at the end of each batch. An event counts as stored once it is there.
    #[default]
    EachBatch,
    /// As [`FlushPolicy::EachBatch`], and to the disk at the first end of a batch after this time. An event counts as
    /// stored once it is on the disk.
    SyncEvery(Nanos),
    /// As [`FlushPolicy::EachBatch`]; an event counts as stored once its file is closed and
    /// [confirmed](super::EventFileWriter::confirm) to be complete in an object store. In addition to its limits of
    /// size and time, a file with events is closed when no event has arrived for this time: at the end of a run, or
    /// when buffers are full.
    Uploaded(Nanos),
}

/// Options for writing a session's events.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The run.
    pub run: RunNumber,
    /// The writing node.
    pub node: NodeId,
    /// Its session.
    pub session: SessionId,
    /// The stream of accepted events.
    pub stream: StreamName,
    /// The time now, since 1970.
    pub created: Timestamp,
    /// Unit and epoch of the times of events and fragments, if they are stated.
    pub time_base: Option<TimeBase>,
    /// A JSON object as text, kept in every file: the configuration that made the run, the software's version.
    pub metadata: String,
    /// Run records that every file begins with. Further ones may follow.
    pub records: Arc<[RunRecord]>,
    /// A file that would become larger is closed and the next begun. A single larger event still has a file.
    pub rotate_bytes: ByteCount,
    /// Number of events after which a file is closed and the next begun. Bounds the index, 16 bytes of memory per
    /// event.
    pub rotate_events: u64,
    /// A file with events is closed at the first end of a batch after this time, counted from the first batch end with
    /// events in the file.
    pub rotate_time: Option<Nanos>,
    /// Events wait for each other up to about this size, to be written in one call.
    pub buffer: ByteCount,
    /// When events leave the writer.
    pub flush: FlushPolicy,
    /// Whether its closed files are converted to another format:
    /// [`StreamsWriter::take_replaceable`](crate::streams::StreamsWriter::take_replaceable).
    pub replaced: bool,
}

impl WriterOptions {
    /// The defaults: files of up to 4 GiB and about a million events, 256 KiB a call, to the operating system after
    /// each batch, into the stream `default`.
    #[must_use]
    pub fn new(run: RunNumber, node: NodeId, session: SessionId, created: Timestamp) -> Self {
        Self {
            run,
            node,
            session,
            stream: StreamName::default(),
            created,
            time_base: None,
            metadata: "{}".to_owned(),
            records: Arc::default(),
            rotate_bytes: ByteCount::mib(4 << 10),
            rotate_events: 1 << 20,
            rotate_time: None,
            buffer: ByteCount::kib(256),
            flush: FlushPolicy::default(),
            replaced: false,
        }
    }

    /// The name of the `part`-th file.
    pub(super) fn file_name(&self, part: u32) -> FileName {
        FileName { run: self.run, node: self.node, session: self.session, stream: self.stream.clone(), part }
    }
}
