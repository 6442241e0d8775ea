//! Writes event files.

use super::closed::ClosedFile;
use super::options::{FlushPolicy, WriterOptions};
use super::part::Part;
use super::pending::Pending;
use super::storage::{Directory, Storage};
use super::uploads::{Upload, Uploads};
use super::write_error::EventWriteError;
use bytes::Bytes;
use sheaf_wire::event_file::{
    FOOTER_BYTES, FileHeader, INDEX_HEADER_BYTES, IndexEntryBytes, MAX_FILE_EVENTS, RunRecord, emit_event,
    event_bytes,
};
use sheaf_wire::{ByteCount, Event, EventId, Timestamp, Verdict};
use std::path::{Path, PathBuf};

/// Counts of a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterCounts {
    /// Events accepted by [`EventFileWriter::write`] and not discarded since.
    pub accepted_events: u64,
    /// Number of accepted events, from the first, that are with the operating system.
    pub written_events: u64,
    /// Number of accepted events, from the first, that are known to be on disk.
    pub synced_events: u64,
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
/// [`write`](Self::write) accepts an event. [`stored_events`](Self::stored_events) and
/// [`first_unstored`](Self::first_unstored) return which events are as durable as the [`FlushPolicy`] requires; report
/// an event as stored only then. Payload is held by handles until the operating system has it: a builder's buffers are
/// released only after a flush.
///
/// After an error, all accepted events are kept. The call can be repeated, or
/// [`discard_pending`](Self::discard_pending) gives up the events that are not stored and returns their ids.
#[derive(Debug)]
pub struct EventFileWriter<S: Storage = Directory> {
    storage: S,
    options: WriterOptions,
    /// Run records of the session. Every file has all that were there when it was closed.
    records: Vec<RunRecord>,
    part: Option<Part<S::File>>,
    pending: Pending,
    /// Ids and sizes of the pending events, to index them when they are written.
    pending_events: Vec<PendingEvent>,
    path: PathBuf,
    counts: WriterCounts,
    last_sync: Timestamp,
    /// The first event that the operating system has and that may not be on the disk; with uploads, the first in the
    /// open file.
    unsynced: Option<u64>,
    /// Closed files on their way to an object store: where events are uploaded.
    uploads: Uploads,
    /// Number of accepted events at its last change, and the time of that change: where events are uploaded.
    last_seen: (u64, Timestamp),
    /// Whether the name of a new file may not be on the disk.
    new_name: bool,
    /// Files that were closed since they were last asked for.
    closed: Vec<ClosedFile>,
    finished: bool,
}

/// Writes that are not asked for end at a multiple of this: the page of most systems.
const BORDER_BYTES: u64 = 4096;

#[derive(Clone, Copy, Debug)]
struct PendingEvent {
    id: EventId,
    sequence: u64,
    bytes: u64,
    payload_bytes: u64,
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
            records: options.records.to_vec(),
            options,
            part: None,
            pending: Pending::default(),
            pending_events: Vec::new(),
            path: PathBuf::new(),
            counts: WriterCounts::default(),
            unsynced: None,
            uploads: Uploads::default(),
            last_seen: (0, Timestamp::ZERO),
            new_name: false,
            closed: Vec::new(),
            finished: false,
        };
        writer.begin_part()?;
        writer.flush()?;
        Ok(writer)
    }

    /// Accepts the next event of the session and its verdict. If the buffer or the file is full, earlier events are
    /// written first.
    ///
    /// # Errors
    /// An [`EventWriteError`]: this event is not accepted; all earlier ones are kept.
    pub fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<(), EventWriteError> {
        self.write_numbered(self.counts.accepted_events, event, verdict)
    }

    /// As [`write`](Self::write), of the session's event number `sequence`, which is higher than those before. For
    /// sessions whose events go to several writers.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_numbered(
        &mut self,
        sequence: u64,
        event: &Event<Bytes>,
        verdict: &Verdict,
    ) -> Result<(), EventWriteError> {
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
        } else {
            self.write_full()?;
        }
        let mut payload_bytes = 0;
        let bytes = self
            .pending
            .push(
                self.part.as_ref().map_or(0, Part::next_checksum),
                |head| emit_event(event, verdict, sequence, head).map(|bytes| payload_bytes = bytes),
                event.fragments.iter().map(|fragment| &fragment.payload),
            )
            .map_err(|error| EventWriteError::Format { path: self.path.clone(), error })?;
        self.pending_events.push(PendingEvent { id: event.id, sequence, bytes, payload_bytes });
        self.counts.accepted_events += 1;
        self.counts.payload_bytes += payload_bytes;
        Ok(())
    }

    /// Writes a run record to the file that is open, and to all later ones. A copy of an earlier one changes nothing.
    ///
    /// # Errors
    /// An [`EventWriteError`]. The call can be repeated.
    pub fn record(&mut self, record: &RunRecord) -> Result<(), EventWriteError> {
        if self.records.iter().any(|known| known.number == record.number) {
            return Ok(());
        }
        if self.finished {
            return Err(EventWriteError::Finished { path: self.path.clone() });
        }
        let mut content = Vec::new();
        record
            .emit(&mut content)
            .map_err(|error| EventWriteError::Format { path: self.path.clone(), error })?;
        if self.part.as_ref().is_none_or(|part| part.closed) {
            // The next file has it. There is one, although it may have no events.
            self.end_part()?;
            self.records.push(record.clone());
            if let Err(error) = self.begin_part() {
                self.records.pop();
                return Err(error);
            }
            return Ok(());
        }
        self.flush()?;
        let Some(part) = &mut self.part else { return Ok(()) };
        part.append_record(record.number, &content).map_err(|error| EventWriteError::Write {
            path: self.path.clone(),
            offset: part.end,
            error,
        })?;
        self.counts.file_bytes += content.len() as u64;
        self.counts.write_calls += 1;
        self.records.push(record.clone());
        Ok(())
    }

    /// Ends a batch at the time `now`: applies the [`FlushPolicy`], and closes a file whose time is up.
    ///
    /// # Errors
    /// An [`EventWriteError`]; events that are not written remain pending.
    pub fn end_batch(&mut self, now: Timestamp) -> Result<(), EventWriteError> {
        match self.options.flush {
            FlushPolicy::WhenFull => {}
            FlushPolicy::EachBatch => self.flush()?,
            FlushPolicy::SyncEvery(interval) => {
                self.flush()?;
                if self.unsynced.is_some() && now.since(self.last_sync) >= interval {
                    self.sync()?;
                    self.last_sync = now;
                }
            }
            FlushPolicy::Uploaded(quiet) => {
                self.flush()?;
                if self.last_seen.0 != self.counts.accepted_events {
                    self.last_seen = (self.counts.accepted_events, now);
                } else if self.unsynced.is_some() && now.since(self.last_seen.1) >= quiet {
                    self.end_part()?;
                }
            }
        }
        if let (Some(limit), Some(part)) = (self.options.rotate_time, &mut self.part) {
            let has_events = !part.index.is_empty() || !self.pending_events.is_empty();
            if has_events && now.since(*part.begun.get_or_insert(now)) >= limit {
                self.end_part()?;
            }
        }
        Ok(())
    }

    /// Passes all accepted events to the operating system.
    ///
    /// # Errors
    /// An [`EventWriteError`]; events that are not written remain pending.
    pub fn flush(&mut self) -> Result<(), EventWriteError> {
        self.hand_over(u64::MAX)
    }

    /// If the events fill the buffer, writes them so that the file ends at a multiple of the buffer's size. The rest of
    /// an event that crosses this boundary stays. A write that ends at such a boundary is some percent faster, because
    /// the system does not begin a page twice and keeps the file in larger pieces of memory.
    fn write_full(&mut self) -> Result<(), EventWriteError> {
        let Some(part) = &self.part else { return Ok(()) };
        let buffer = self.options.buffer.0;
        let unit = buffer - buffer % BORDER_BYTES;
        let start = part.next_end();
        let end = start + self.pending.bytes();
        if unit == 0 {
            return if self.pending.bytes() > buffer { self.flush() } else { Ok(()) };
        }
        let border = end - end % unit;
        let there = start + self.pending.begun();
        if border > there { self.hand_over(border - there) } else { Ok(()) }
    }

    /// Hands the next `limit` bytes of the accepted events to the operating system, or as many as there are.
    fn hand_over(&mut self, limit: u64) -> Result<(), EventWriteError> {
        let Some(part) = &mut self.part else {
            return Ok(());
        };
        let prepared = part.prepare().and_then(|header_bytes| {
            self.counts.file_bytes += header_bytes;
            if self.pending.units() == 0 {
                return Ok(());
            }
            let written = self.pending.write_to(&mut part.file, limit);
            self.counts.write_calls += written.calls;
            self.counts.file_bytes += written.bytes;
            self.counts.written_events += written.units as u64;
            part.checksum = part.checksum.map(|before| written.checksum.unwrap_or(before));
            for event in self.pending_events.drain(..written.units) {
                self.unsynced.get_or_insert(event.sequence);
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
            let names = if self.new_name { self.storage.sync_names() } else { Ok(()) };
            let synced = names.and_then(|()| part.sync());
            synced.map_err(|error| EventWriteError::Sync { path: self.path.clone(), error })?;
        }
        self.new_name = false;
        if !self.is_uploaded() {
            self.unsynced = None;
        }
        self.counts.synced_events = self.counts.written_events;
        Ok(())
    }

    /// Returns whether events count as stored once their file is confirmed to be in an object store.
    pub fn is_uploaded(&self) -> bool {
        matches!(self.options.flush, FlushPolicy::Uploaded(_))
    }

    /// Returns whether closed files are converted to another format.
    pub(crate) fn is_replaced(&self) -> bool {
        self.options.replaced
    }

    /// Signals that the caller has no room until some events are stored. With uploads, the file is closed if it has
    /// events and no other file is being uploaded: one is uploaded while the next is filled.
    ///
    /// # Errors
    /// An [`EventWriteError`]; the call can be repeated.
    pub fn press(&mut self) -> Result<(), EventWriteError> {
        let has_events = self.unsynced.is_some() || !self.pending_events.is_empty();
        if self.is_uploaded() && self.uploads.is_empty() && has_events {
            self.end_part()?;
        }
        Ok(())
    }

    /// Returns whether the events of the closed file of this name wait for the object store.
    pub(crate) fn is_uploading(&self, file: &str) -> bool {
        self.uploads.is_pending(file)
    }

    /// Records that the closed file of this name, or its conversion, is complete in the object store. Returns `false`
    /// for a file that is not expected.
    pub fn confirm(&mut self, file: &str) -> bool {
        self.uploads.confirm(file)
    }

    /// Gives up the accepted events that are not stored, and names them in order. For a disk that stays full.
    pub fn discard_pending(&mut self) -> Vec<EventId> {
        for event in &self.pending_events {
            self.counts.accepted_events -= 1;
            self.counts.payload_bytes -= event.payload_bytes;
        }
        if let Some(part) = &mut self.part {
            part.cut(self.pending.begun());
        }
        self.pending.clear();
        self.pending_events.drain(..).map(|event| event.id).collect()
    }

    /// Writes all pending events, the index and the footer. Can be repeated after an error.
    ///
    /// # Errors
    /// An [`EventWriteError`]; the last file is then unfinished, but readable.
    pub fn finish(&mut self) -> Result<WriterCounts, EventWriteError> {
        self.end_part()?;
        self.finished = true;
        Ok(self.counts)
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> WriterCounts {
        self.counts
    }

    /// Returns the number of accepted events, counted from the first, that are as durable as the [`FlushPolicy`]
    /// requires.
    pub fn stored_events(&self) -> u64 {
        match self.options.flush {
            FlushPolicy::WhenFull => self.counts.accepted_events,
            FlushPolicy::EachBatch => self.counts.written_events,
            FlushPolicy::SyncEvery(_) => self.counts.synced_events,
            FlushPolicy::Uploaded(_) => self.uploads.confirmed_events(),
        }
    }

    /// The number in the session of the first accepted event that is not yet as durable as the [`FlushPolicy`] asks
    /// for;
    /// `None` where all are.
    pub fn first_unstored(&self) -> Option<u64> {
        let pending = self.pending_events.first().map(|event| event.sequence);
        match self.options.flush {
            FlushPolicy::WhenFull => None,
            FlushPolicy::EachBatch => pending,
            FlushPolicy::SyncEvery(_) => self.unsynced.or(pending),
            FlushPolicy::Uploaded(_) => self.uploads.first_pending().or(self.unsynced).or(pending),
        }
    }

    /// When [`end_batch`](Self::end_batch) has something to do without a further event: to wait for the disk, or to
    /// close the file. [`Timestamp::MAX`] where it has not.
    pub fn due(&self) -> Timestamp {
        let sync = match self.options.flush {
            FlushPolicy::SyncEvery(interval) if self.unsynced.is_some() => self.last_sync + interval,
            FlushPolicy::Uploaded(quiet) if self.unsynced.is_some() => self.last_seen.1 + quiet,
            _ => Timestamp::MAX,
        };
        let begun = self.part.as_ref().and_then(|part| part.begun);
        let rotate = begun.zip(self.options.rotate_time).map(|(begun, limit)| begun + limit);
        sync.min(rotate.unwrap_or(Timestamp::MAX))
    }

    /// The files that were closed since this was last asked.
    pub fn take_closed(&mut self) -> Vec<ClosedFile> {
        std::mem::take(&mut self.closed)
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
        let entries = events + 1 + part.records();
        let index = INDEX_HEADER_BYTES as u64 + entries * size_of::<IndexEntryBytes>() as u64;
        let bytes = part.end + self.pending.bytes() + event_bytes + index + FOOTER_BYTES as u64;
        let most = self.options.rotate_events.min(MAX_FILE_EVENTS);
        events > 0 && (events >= most || bytes > self.options.rotate_bytes.0)
    }

    /// Makes the next file.
    fn begin_part(&mut self) -> Result<(), EventWriteError> {
        let number = self.counts.parts;
        let name = self.options.file_name(number).to_string();
        self.path = self.storage.path(&name);
        let header = FileHeader {
            run: self.options.run,
            node: self.options.node,
            session: self.options.session,
            part: number,
            created: self.options.created,
            time_base: self.options.time_base,
        };
        let begun = header.emit(&self.options.metadata).and_then(|mut header| {
            let mut places = Vec::with_capacity(self.records.len());
            for record in &self.records {
                places.push(IndexEntryBytes::of_record(record.number, header.len() as u64));
                record.emit(&mut header)?;
            }
            Ok((header, places))
        });
        let (header, records) =
            begun.map_err(|error| EventWriteError::Format { path: self.path.clone(), error })?;
        let file = self
            .storage
            .create(&name)
            .map_err(|error| EventWriteError::Create { path: self.path.clone(), error })?;
        self.counts.parts += 1;
        self.new_name = true;
        self.part = Some(Part::new(file, header, records, self.options.rotate_events));
        Ok(())
    }

    /// Writes all pending events, the index and the footer, and closes the file.
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
        if let Some(part) = self.part.take() {
            let file = self.options.file_name(self.counts.parts - 1).to_string();
            let events = part.index.len() as u64;
            if self.is_uploaded() {
                let first = self.unsynced.take();
                self.uploads.add(Upload::new(file.clone(), first, events), part.records());
            }
            self.closed.push(ClosedFile {
                file,
                stream: self.options.stream.clone(),
                events,
                bytes: part.end,
                crc32c: part.checksum,
                object: None,
            });
        }
        Ok(())
    }
}
