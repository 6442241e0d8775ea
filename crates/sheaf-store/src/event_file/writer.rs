//! Writes event files.

use super::name::FileName;
use super::pending::{Pending, append_all};
use super::storage::{Directory, PartFile, Storage};
use bytes::Bytes;
use sheaf_wire::event_file::{
    FOOTER_BYTES, FileFormatError, FileHeader, INDEX_HEADER_BYTES, IndexEntryBytes, emit_event, emit_index,
    event_bytes,
};
use sheaf_wire::{ByteCount, Event, EventId, Nanos, NodeId, RunNumber, SessionId, Timestamp, Verdict};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

/// When events go from the writer to the operating system and to the disk. Only what is with the operating system
/// survives the death of the process, only what is on the disk survives the death of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushPolicy {
    /// To the operating system when [`WriterOptions::buffer`] is full.
    WhenFull,
    /// To the operating system at the end of each batch.
    #[default]
    EachBatch,
    /// As [`FlushPolicy::EachBatch`], and to the disk at the first end of a batch that is so long after the last time.
    SyncEvery(Nanos),
}

/// How a session's events are written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The run.
    pub run: RunNumber,
    /// The writing node.
    pub node: NodeId,
    /// Its session.
    pub session: SessionId,
    /// The time now, since 1970.
    pub created: Timestamp,
    /// A JSON object as text, kept in every file: the configuration that made the run, the software's version.
    pub metadata: String,
    /// A file that would become larger is closed and the next begun. A single larger event still has a file.
    pub rotate_bytes: ByteCount,
    /// A file with so many events is closed and the next begun: it bounds the index, 16 bytes of memory per event.
    pub rotate_events: u64,
    /// Events wait for each other up to about this size, to be written in one call.
    pub buffer: ByteCount,
    /// When events leave the writer.
    pub flush: FlushPolicy,
}

impl WriterOptions {
    /// The defaults: files of up to 4 GiB and about a million events, 256 KiB a call, to the operating system after
    /// each batch.
    #[must_use]
    pub fn new(run: RunNumber, node: NodeId, session: SessionId, created: Timestamp) -> Self {
        Self {
            run,
            node,
            session,
            created,
            metadata: "{}".to_owned(),
            rotate_bytes: ByteCount::mib(4 << 10),
            rotate_events: 1 << 20,
            buffer: ByteCount::kib(256),
            flush: FlushPolicy::default(),
        }
    }
}

/// Why an event was not accepted or accepted events were not written. The file ends with its last whole event, and
/// the same call can be made again: nothing is written twice.
#[derive(Debug, thiserror::Error)]
pub enum EventWriteError {
    /// The directory of the files could not be made.
    #[error("cannot create directory {path}: {error}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the operating system says.
        #[source]
        error: io::Error,
    },
    /// The next file could not be made.
    #[error("cannot create event file {path}: {error}")]
    Create {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        #[source]
        error: io::Error,
    },
    /// Writing failed.
    #[error("cannot write event file {path} behind byte {offset}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Where its last whole event ends.
        offset: u64,
        /// What the operating system says; [`io::ErrorKind::StorageFull`] for a full disk.
        #[source]
        error: io::Error,
    },
    /// Making the file durable failed: what was written since the last time may be lost if the machine dies.
    #[error("cannot make event file {path} durable: {error}")]
    Sync {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        #[source]
        error: io::Error,
    },
    /// The metadata or an event do not fit the format.
    #[error("event file {path} cannot hold this: {error}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        #[source]
        error: FileFormatError,
    },
    /// The writer is finished.
    #[error("the writer of event file {path} is finished and takes no more events")]
    Finished {
        /// The last file.
        path: PathBuf,
    },
}

/// What a writer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterCounts {
    /// Events accepted by [`EventFileWriter::write`] and not discarded since.
    pub accepted_events: u64,
    /// Events that are with the operating system: the first so many of the accepted ones.
    pub stored_events: u64,
    /// Payload bytes of the accepted events.
    pub payload_bytes: u64,
    /// Bytes of all files, as far as they are with the operating system.
    pub file_bytes: u64,
    /// Files begun.
    pub parts: u32,
    /// Calls of the operating system that wrote.
    pub write_calls: u64,
}

/// Writes the events of one session of a builder to one or more files, in the order in which they are given.
///
/// [`write`](Self::write) accepts an event; when it is with the operating system depends on the [`FlushPolicy`] and
/// is told by [`WriterCounts::stored_events`]. Report an event as stored only then. Payload is held as handles until
/// then: a builder's buffers are free only after a flush.
///
/// After an error everything accepted is still there. The call can be made again, or
/// [`discard_pending`](Self::discard_pending) gives up what is not stored and names it.
#[derive(Debug)]
pub struct EventFileWriter<S: Storage = Directory> {
    storage: S,
    options: WriterOptions,
    part: Option<Part<S::File>>,
    pending: Pending,
    /// Ids and sizes of the pending events, to index them when they are written.
    pending_events: Vec<PendingEvent>,
    path: PathBuf,
    counts: WriterCounts,
    last_sync: Timestamp,
    unsynced: bool,
    finished: bool,
}

#[derive(Clone, Copy, Debug)]
struct PendingEvent {
    id: EventId,
    bytes: u64,
    payload_bytes: u64,
}

/// So much of an index is in memory from the start: 2 MiB, that of a file of as many events as the configuration's default.
const TOUCHED_INDEX_ENTRIES: u64 = 1 << 17;

/// An empty index whose memory is there already, so that a running system does not grow with the events of a file.
fn touched_index(events: u64) -> Vec<IndexEntryBytes> {
    let entries = usize::try_from(events.min(TOUCHED_INDEX_ENTRIES)).unwrap_or(0);
    let mut index = vec![IndexEntryBytes::new(EventId(u64::MAX), u64::MAX); entries];
    index.clear();
    index
}

/// A file that is being written.
#[derive(Debug)]
struct Part<F> {
    file: F,
    /// Bytes up to the end of the last whole event.
    end: u64,
    /// The file header and metadata, until they are in the file.
    header: Vec<u8>,
    /// Whether index and footer are in the file: then it only has to become durable.
    closed: bool,
    /// Whether there may be bytes behind `end`, of a write that failed.
    dirty: bool,
    index: Vec<IndexEntryBytes>,
}

impl EventFileWriter<Directory> {
    /// Begins the session's first file in `directory`, which is created where it does not exist.
    ///
    /// # Errors
    /// An [`EventWriteError`] where that is not possible.
    pub fn create(directory: &Path, options: WriterOptions) -> Result<Self, EventWriteError> {
        let storage = Directory::new(directory)
            .map_err(|error| EventWriteError::Directory { path: directory.to_owned(), error })?;
        Self::new(storage, options)
    }
}

impl<S: Storage> EventFileWriter<S> {
    /// Begins the session's first file in `storage`.
    ///
    /// # Errors
    /// An [`EventWriteError`] where that is not possible.
    pub fn new(storage: S, options: WriterOptions) -> Result<Self, EventWriteError> {
        let mut writer = Self {
            last_sync: options.created,
            storage,
            options,
            part: None,
            pending: Pending::default(),
            pending_events: Vec::new(),
            path: PathBuf::new(),
            counts: WriterCounts::default(),
            unsynced: false,
            finished: false,
        };
        writer.begin_part()?;
        writer.flush()?;
        Ok(writer)
    }

    /// Accepts an event and what was said of it. Where the buffer is full or the file is, what was accepted before is written first.
    ///
    /// # Errors
    /// An [`EventWriteError`]: this event is then not accepted, all earlier ones still are.
    pub fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<(), EventWriteError> {
        if self.finished {
            return Err(EventWriteError::Finished { path: self.path.clone() });
        }
        if self.part.as_ref().is_none_or(|part| part.closed) {
            self.end_part()?;
            self.begin_part()?;
        }
        let size = event_bytes(event, verdict);
        if self.is_part_full(size) {
            self.end_part()?;
            self.begin_part()?;
        } else if self.pending.bytes() > 0 && self.pending.bytes() + size > self.options.buffer.0 {
            self.flush()?;
        }
        let sequence = self.counts.accepted_events;
        let mut payload_bytes = 0;
        let bytes = self
            .pending
            .push(
                |head| emit_event(event, verdict, sequence, head).map(|bytes| payload_bytes = bytes),
                event.fragments.iter().map(|fragment| fragment.payload.clone()),
            )
            .map_err(|error| EventWriteError::Format { path: self.path.clone(), error })?;
        self.pending_events.push(PendingEvent { id: event.id, bytes, payload_bytes });
        self.counts.accepted_events += 1;
        self.counts.payload_bytes += payload_bytes;
        Ok(())
    }

    /// Ends a batch, at the time `now`: does what the [`FlushPolicy`] says.
    ///
    /// # Errors
    /// An [`EventWriteError`]; what is not written is still pending.
    pub fn end_batch(&mut self, now: Timestamp) -> Result<(), EventWriteError> {
        match self.options.flush {
            FlushPolicy::WhenFull => Ok(()),
            FlushPolicy::EachBatch => self.flush(),
            FlushPolicy::SyncEvery(interval) => {
                self.flush()?;
                if self.unsynced && now.since(self.last_sync) >= interval {
                    self.sync()?;
                    self.last_sync = now;
                }
                Ok(())
            }
        }
    }

    /// Hands all accepted events to the operating system.
    ///
    /// # Errors
    /// An [`EventWriteError`]; what is not written is still pending.
    pub fn flush(&mut self) -> Result<(), EventWriteError> {
        let Some(part) = &mut self.part else {
            return Ok(());
        };
        let prepared = part.prepare().and_then(|header_bytes| {
            self.counts.file_bytes += header_bytes;
            if self.pending.units() == 0 {
                return Ok(());
            }
            let written = self.pending.write_to(&mut part.file);
            self.counts.write_calls += written.calls;
            self.counts.file_bytes += written.bytes;
            self.counts.stored_events += written.units as u64;
            self.unsynced = true;
            for event in self.pending_events.drain(..written.units) {
                part.index.push(IndexEntryBytes::new(event.id, part.end));
                part.end += event.bytes;
            }
            part.settle(written.partial_bytes, written.error)
        });
        prepared.map_err(|error| EventWriteError::Write { path: self.path.clone(), offset: part.end, error })
    }

    /// Hands all accepted events to the operating system and waits until they are on the disk.
    ///
    /// # Errors
    /// An [`EventWriteError`].
    pub fn sync(&mut self) -> Result<(), EventWriteError> {
        self.flush()?;
        if let Some(part) = &mut self.part {
            let synced = part.file.sync().and_then(|()| self.storage.sync_names());
            synced.map_err(|error| EventWriteError::Sync { path: self.path.clone(), error })?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// Gives up the accepted events that are not stored, and names them in order. For a disk that stays full.
    pub fn discard_pending(&mut self) -> Vec<EventId> {
        for event in &self.pending_events {
            self.counts.accepted_events -= 1;
            self.counts.payload_bytes -= event.payload_bytes;
        }
        self.pending.clear();
        self.pending_events.drain(..).map(|event| event.id).collect()
    }

    /// Writes what is pending, the index and the footer. Can be called again after an error.
    ///
    /// # Errors
    /// An [`EventWriteError`]; the last file is then unfinished, but readable.
    pub fn finish(&mut self) -> Result<WriterCounts, EventWriteError> {
        self.end_part()?;
        self.finished = true;
        Ok(self.counts)
    }

    /// What was done so far.
    pub fn counts(&self) -> WriterCounts {
        self.counts
    }

    /// The file that is written now, or was written last.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepted bytes that are not with the operating system.
    pub fn pending(&self) -> ByteCount {
        ByteCount(self.pending.bytes())
    }

    fn is_part_full(&self, event_bytes: u64) -> bool {
        let Some(part) = &self.part else { return false };
        let events = part.index.len() as u64 + self.pending_events.len() as u64;
        let index = INDEX_HEADER_BYTES as u64 + (events + 1) * size_of::<IndexEntryBytes>() as u64;
        let bytes = part.end + self.pending.bytes() + event_bytes + index + FOOTER_BYTES as u64;
        events > 0 && (events >= self.options.rotate_events || bytes > self.options.rotate_bytes.0)
    }

    /// Makes the next file.
    fn begin_part(&mut self) -> Result<(), EventWriteError> {
        let number = self.counts.parts;
        let name = FileName {
            run: self.options.run,
            node: self.options.node,
            session: self.options.session,
            part: number,
        };
        let name = name.to_string();
        self.path = self.storage.path(&name);
        let header = FileHeader {
            run: self.options.run,
            node: self.options.node,
            session: self.options.session,
            part: number,
            created: self.options.created,
        };
        let header = header
            .emit(&self.options.metadata)
            .map_err(|error| EventWriteError::Format { path: self.path.clone(), error })?;
        let file = self
            .storage
            .create(&name)
            .map_err(|error| EventWriteError::Create { path: self.path.clone(), error })?;
        self.counts.parts += 1;
        let index = touched_index(self.options.rotate_events);
        self.part = Some(Part { file, end: 0, header, closed: false, dirty: false, index });
        Ok(())
    }

    /// Writes what is pending, the index and the footer, and closes the file.
    fn end_part(&mut self) -> Result<(), EventWriteError> {
        self.flush()?;
        let Some(part) = &mut self.part else {
            return Ok(());
        };
        if !part.closed {
            let bytes = part.close().map_err(|error| EventWriteError::Write {
                path: self.path.clone(),
                offset: part.end,
                error,
            })?;
            self.counts.file_bytes += bytes;
            self.counts.write_calls += 1;
        }
        if matches!(self.options.flush, FlushPolicy::SyncEvery(_)) {
            self.sync()?;
        }
        self.part = None;
        Ok(())
    }
}

impl<F: PartFile> Part<F> {
    /// Brings the file to where the next event belongs: without leftovers of a failed write, with a header. Says how
    /// many bytes of header were written.
    fn prepare(&mut self) -> io::Result<u64> {
        self.clean()?;
        let header = std::mem::take(&mut self.header);
        let (bytes, _, error) = append_all(&mut self.file, &mut [IoSlice::new(&header)]);
        if error.is_some() {
            self.header = header;
            return self.settle(bytes, error).map(|()| 0);
        }
        self.end += bytes;
        Ok(bytes)
    }

    /// Cuts off what a failed write left behind the last whole event.
    fn clean(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.truncate(self.end)?;
            self.dirty = false;
        }
        Ok(())
    }

    /// Takes note of a write that left `partial_bytes` behind `end`. What cannot be cut now is cut before the next
    /// write.
    fn settle(&mut self, partial_bytes: u64, error: Option<io::Error>) -> io::Result<()> {
        let Some(error) = error else { return Ok(()) };
        self.dirty = partial_bytes > 0;
        let _ = self.clean();
        Err(error)
    }

    /// Writes index and footer, and says how many bytes.
    fn close(&mut self) -> io::Result<u64> {
        let (header, footer) = emit_index(&self.index, self.end);
        let mut slices = [
            IoSlice::new(header.as_bytes()),
            IoSlice::new(self.index.as_bytes()),
            IoSlice::new(footer.as_bytes()),
        ];
        let (bytes, _, error) = append_all(&mut self.file, &mut slices);
        self.settle(bytes, error)?;
        self.closed = true;
        Ok(bytes)
    }
}
