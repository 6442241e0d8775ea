//! Writes the events of a session into the files of their streams.

use super::routing::{Route, Routing, StreamRule};
use crate::event_file::{
    ClosedFile, Directory, EventFileWriter, EventWriteError, FileName, RunRecord, SessionName, Storage,
    WriterCounts, WriterOptions,
};
use crate::run::FileList;
use bytes::Bytes;
use sheaf_wire::{Event, Timestamp, Verdict};
use std::fmt;
use std::path::Path;

/// Writes the events of one session of a builder into one series of files for each stream, and the list of its closed
/// files.
pub struct StreamsWriter<S: Storage + Clone = Directory> {
    routing: Routing,
    /// In the order of the routing's rules.
    writers: Vec<EventFileWriter<S>>,
    list: FileList<S>,
    /// Closed files that are to be uploaded.
    uploads: Vec<ClosedFile>,
    /// Closed files that are to become files of another format.
    replaceable: Vec<ClosedFile>,
    accepted: u64,
    /// An accepted event that some of its streams have not taken yet, because they failed.
    owed: Option<Owed>,
}

#[derive(Debug)]
struct Owed {
    event: Event<Bytes>,
    verdict: Verdict,
    sequence: u64,
    to: Route,
}

impl<S: Storage + Clone> fmt::Debug for StreamsWriter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamsWriter")
            .field("routing", &self.routing)
            .field("counts", &self.counts())
            .field("accepted", &self.accepted)
            .field("owed", &self.owed)
            .finish_non_exhaustive()
    }
}

impl StreamsWriter<Directory> {
    /// Begins the first file of each stream in `directory`, which is created where it does not exist.
    ///
    /// # Errors
    /// An [`EventWriteError`] where that is not possible.
    pub fn create(
        directory: &Path,
        streams: Vec<(StreamRule, WriterOptions)>,
        session: &WriterOptions,
    ) -> Result<Self, EventWriteError> {
        let storage = Directory::new(directory)
            .map_err(|error| EventWriteError::Directory { path: directory.to_owned(), error })?;
        Self::new(storage, streams, session)
    }
}

impl<S: Storage + Clone> StreamsWriter<S> {
    /// Begins the first file of each stream in `storage`: with its own options and, where the stream `default` is not
    /// among them, this one with those of `session`. Each has the name of its stream in its metadata.
    ///
    /// # Errors
    /// An [`EventWriteError`] where that is not possible.
    ///
    /// # Panics
    /// For more than [`Routing::MAX_STREAMS`] streams.
    pub fn new(
        storage: S,
        streams: Vec<(StreamRule, WriterOptions)>,
        session: &WriterOptions,
    ) -> Result<Self, EventWriteError> {
        let routing = Routing::new(streams.iter().map(|(rule, _)| rule.clone()).collect());
        let writer = |rule: &StreamRule| {
            let own = streams.iter().find(|(other, _)| other.name == rule.name).map(|(_, options)| options);
            let options = own.unwrap_or(session);
            let options = WriterOptions {
                stream: rule.name.clone(),
                metadata: with_stream(&options.metadata, rule),
                ..options.clone()
            };
            EventFileWriter::new(storage.clone(), options)
        };
        let writers = routing.rules().iter().map(writer).collect::<Result<_, _>>()?;
        let owner = SessionName { run: session.run, node: session.node, session: session.session };
        let list = FileList::new(storage.clone(), owner);
        Ok(Self {
            routing,
            writers,
            list,
            uploads: Vec::new(),
            replaceable: Vec::new(),
            accepted: 0,
            owed: None,
        })
    }

    /// Which streams there are, and which events each takes.
    pub fn routing(&self) -> &Routing {
        &self.routing
    }

    /// Accepts an event, if a stream takes it: `false` where none does, because it is not this event's turn in any.
    ///
    /// # Errors
    /// An [`EventWriteError`]: the event is then not accepted, and may be offered again. Where a stream has accepted it
    /// and a further one fails, the event is accepted all the same, is not stored before that one has it, too, and the
    /// error shows at the next call.
    pub fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<bool, EventWriteError> {
        self.pay()?;
        let route = self.routing.route(event.id, verdict.tags);
        let sequence = self.accepted;
        let mut left = route;
        for place in route.places() {
            match self.writers[place].write_numbered(sequence, event, verdict) {
                Ok(()) => left = left.without(place),
                Err(error) if left == route => return Err(error),
                Err(_) => break,
            }
        }
        if !left.is_empty() {
            self.owed = Some(Owed { event: event.clone(), verdict: verdict.clone(), sequence, to: left });
        }
        self.accepted += u64::from(!route.is_empty());
        Ok(!route.is_empty())
    }

    /// Writes a run record to the files of all streams. A copy of an earlier one changes nothing.
    ///
    /// # Errors
    /// The first [`EventWriteError`]; the call can be repeated.
    pub fn record(&mut self, record: &RunRecord) -> Result<(), EventWriteError> {
        let recorded = self.of_all(|writer| writer.record(record));
        recorded.and(self.list_closed())
    }

    /// Ends a batch at the time `now`: every stream applies its options.
    ///
    /// # Errors
    /// The first [`EventWriteError`]; no accepted event is lost, and the other streams continue.
    pub fn end_batch(&mut self, now: Timestamp) -> Result<(), EventWriteError> {
        let paid = self.pay();
        let ended = self.of_all(|writer| writer.end_batch(now));
        paid.and(ended).and(self.list_closed())
    }

    /// Signals that the caller has no room until some events are stored: uploaded streams close their files, if these
    /// have events and no other file of the stream is being uploaded.
    ///
    /// # Errors
    /// The first [`EventWriteError`]; the call can be repeated.
    pub fn press(&mut self) -> Result<(), EventWriteError> {
        let pressed = self.of_all(EventFileWriter::press);
        pressed.and(self.list_closed())
    }

    /// Returns the closed files with events, or with run records of their own, that this call has not returned before, of streams
    /// whose events count as stored once they are uploaded; with conversion, the converted files. The caller reports the end of each upload
    /// with [`confirm`](Self::confirm).
    pub fn take_uploads(&mut self) -> Vec<ClosedFile> {
        std::mem::take(&mut self.uploads)
    }

    /// Returns the closed files that this call has not returned before, of streams whose files are converted. The
    /// caller reports the end of each conversion with [`replaced`](Self::replaced).
    pub fn take_replaceable(&mut self) -> Vec<ClosedFile> {
        std::mem::take(&mut self.replaceable)
    }

    /// Records a file that replaces a closed one. The list contains it from the next end of a batch on. If the stream
    /// is uploaded, this file is.
    pub fn replaced(&mut self, file: &ClosedFile) {
        self.list.add(file);
        let original = original(&file.file);
        if self.writers.iter().any(|writer| writer.is_uploading(&original)) {
            self.uploads.push(file.clone());
        }
    }

    /// Records that a closed file, or its conversion, is complete at the URL in its `object`. The list contains it from
    /// the next end of a batch on.
    pub fn confirm(&mut self, file: &ClosedFile) {
        let original = original(&file.file);
        if self.writers.iter_mut().any(|writer| writer.confirm(&original)) {
            self.list.add(file);
        }
    }

    /// Returns the number of accepted events, counted from the first, that are as durable as all of their streams
    /// require.
    pub fn stored(&self) -> u64 {
        let owed = self.owed.as_ref().map(|owed| owed.sequence);
        let waiting = self.writers.iter().filter_map(EventFileWriter::first_unstored);
        waiting.chain(owed).min().unwrap_or(self.accepted)
    }

    /// When [`end_batch`](Self::end_batch) has something to do without a further event; [`Timestamp::MAX`] where it has
    /// not.
    pub fn due(&self) -> Timestamp {
        self.writers.iter().map(EventFileWriter::due).min().unwrap_or(Timestamp::MAX)
    }

    /// Returns the number of accepted events.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns the counts of each stream, in the order of the routing's rules.
    pub fn counts(&self) -> Vec<WriterCounts> {
        self.writers.iter().map(EventFileWriter::counts).collect()
    }

    /// Closes all files. Can be called again after an error.
    ///
    /// # Errors
    /// The first [`EventWriteError`]; files that are then unfinished are readable.
    pub fn finish(&mut self) -> Result<(), EventWriteError> {
        let paid = self.pay();
        let finished = self.of_all(|writer| writer.finish().map(drop));
        paid.and(finished).and(self.list_closed())
    }

    /// Passes accepted events to the streams that have not taken them.
    fn pay(&mut self) -> Result<(), EventWriteError> {
        let Some(owed) = &mut self.owed else { return Ok(()) };
        for place in owed.to.places() {
            self.writers[place].write_numbered(owed.sequence, &owed.event, &owed.verdict)?;
            owed.to = owed.to.without(place);
        }
        self.owed = None;
        Ok(())
    }

    /// Applies `act` to all streams, and returns the first error.
    fn of_all(
        &mut self,
        mut act: impl FnMut(&mut EventFileWriter<S>) -> Result<(), EventWriteError>,
    ) -> Result<(), EventWriteError> {
        self.writers.iter_mut().map(&mut act).fold(Ok(()), Result::and)
    }

    fn list_closed(&mut self) -> Result<(), EventWriteError> {
        for writer in &mut self.writers {
            let closed = writer.take_closed();
            closed.iter().for_each(|closed| self.list.add(closed));
            if writer.is_replaced() {
                self.replaceable.extend(closed);
            } else if writer.is_uploaded() {
                self.uploads.extend(closed.into_iter().filter(|closed| writer.is_uploading(&closed.file)));
            }
        }
        self.list.write().map_err(|error| EventWriteError::List { path: self.list.path(), error })
    }
}

/// Returns the name of the event file that a file is, or was made from.
fn original(file: &str) -> String {
    FileName::parse_either(file).map_or_else(|| file.to_owned(), |name| name.to_string())
}

/// The metadata of a stream's files: that of the session, and the name of the stream.
fn with_stream(metadata: &str, rule: &StreamRule) -> String {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(metadata) {
        Ok(mut object) => {
            object.insert("stream".to_owned(), rule.name.as_str().into());
            serde_json::Value::Object(object).to_string()
        }
        // Not in the required format; kept unchanged instead of lost.
        Err(_) => metadata.to_owned(),
    }
}
