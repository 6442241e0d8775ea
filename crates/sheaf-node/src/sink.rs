//! Sinks: destinations of accepted events.

use crate::converting::{ConversionError, Converter};
use bytes::Bytes;
use sheaf_store::event_file::{EventWriteError, RunRecord, WriterOptions};
use sheaf_store::streams::{Routing, StreamRule, StreamsWriter};
use sheaf_store::upload::{UploadError, Uploads};
use sheaf_wire::{Event, Nanos, Timestamp, Verdict};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Takes accepted events. An event counts as stored when [`EventSink::stored`] includes it; events become stored in the
/// order in which they were written.
pub trait EventSink: Send {
    /// Accepts an event and its verdict.
    ///
    /// # Errors
    /// Describes the failure to the operator. The event was not accepted and may be offered again.
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError>;

    /// As [`EventSink::write`], for an event that the caller no longer needs: a sink that keeps it beyond this call
    /// takes the content out of it ([`Event::take`]). A sink in front of another forwards this call.
    ///
    /// # Errors
    /// As there; the event is unchanged.
    fn give(&mut self, event: &mut Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        self.write(event, verdict)
    }

    /// Writes a run record. A copy of an earlier one, with the same number, changes nothing. A sink in front of another forwards this
    /// call.
    ///
    /// # Errors
    /// Describes the failure. The record was not written; the call is to be repeated.
    fn record(&mut self, record: &Arc<RunRecord>) -> Result<(), SinkError>;

    /// Ends a batch of events: makes them as durable as configured.
    ///
    /// # Errors
    /// Describes the failure. Nothing accepted is lost by it; the call may be repeated.
    fn end_batch(&mut self, now: Timestamp) -> Result<(), SinkError>;

    /// Signals that the caller runs out of room because events wait to be stored: work that a sink does in larger units
    /// than batches is then done at the next end of a batch. A sink in front of another forwards this call.
    fn press(&mut self);

    /// Returns whether it takes events now; if not, the caller keeps them and asks again. So if processing closed files
    /// takes longer than filling them, it holds up the run. A sink in front of another forwards this call.
    fn has_room(&self) -> bool {
        true
    }

    /// Returns the number of accepted events, counted from the first, that are as durable as configured.
    fn stored(&self) -> u64;

    /// When [`EventSink::end_batch`] has something to do without a further event; [`Timestamp::MAX`] where it has not.
    fn due(&self) -> Timestamp {
        Timestamp::MAX
    }

    /// Closes the output.
    ///
    /// # Errors
    /// Describes the failure.
    fn finish(&mut self) -> Result<(), SinkError>;

    /// Returns its counters by name.
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// Reason why a call of an output failed. The call may be repeated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SinkError {
    /// An event file could not be written.
    #[error(transparent)]
    Files(Arc<EventWriteError>),
    /// A closed file could not be made into another format. It stays as it is.
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// Closed files could not be uploaded.
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// The files were not closed in time.
    #[error("the output's files could not be closed: a system call has not returned for {seconds} s")]
    NotClosed {
        /// Time for which they were awaited.
        seconds: u64,
    },
    /// The thread that writes the files has panicked.
    #[error("the thread that writes the output's files has panicked")]
    Panicked,
    /// An output that has no files fails, for this reason.
    #[error("{0}")]
    Other(String),
}

/// Errors are equal if their texts are: errors of the operating system cannot be compared.
impl PartialEq for SinkError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for SinkError {}

impl From<EventWriteError> for SinkError {
    fn from(error: EventWriteError) -> Self {
        Self::Files(Arc::new(error))
    }
}

/// Result of offering an event to an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It will be stored: it is counted by [`EventSink::stored`] when it is.
    Accepted,
    /// No stream takes it, because each that would is prescaled and it is not this event's turn: it is not stored, and
    /// booked as rejected.
    LeftOut,
}

/// Counts events and forgets them: for rate tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink {
    accepted: u64,
}

impl EventSink for NullSink {
    fn write(&mut self, _event: &Event<Bytes>, _verdict: &Verdict) -> Result<Taken, SinkError> {
        self.accepted += 1;
        Ok(Taken::Accepted)
    }

    fn record(&mut self, _record: &Arc<RunRecord>) -> Result<(), SinkError> {
        Ok(())
    }

    fn end_batch(&mut self, _now: Timestamp) -> Result<(), SinkError> {
        Ok(())
    }

    fn press(&mut self) {}

    fn stored(&self) -> u64 {
        self.accepted
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Interval at which uploads in progress are checked.
const UPLOAD_LOOKS: Nanos = Nanos::from_millis(5);

/// Time for which the end of an output waits until files that have only run records are in the object store.
const RECORDS_PATIENCE: Duration = Duration::from_secs(10);

/// Writes event files, one series for each stream, and has those uploaded whose events count as stored only then.
pub struct FileSink {
    writer: StreamsWriter,
    uploads: Option<Box<dyn Uploads>>,
    converter: Option<Converter>,
    pressed: bool,
    looked_at: Timestamp,
    prescaled: u64,
}

impl fmt::Debug for FileSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSink").field("writer", &self.writer).finish_non_exhaustive()
    }
}

impl FileSink {
    /// The counter of events that no stream took.
    pub(crate) const PRESCALED: &str = "prescaled";

    /// Which events its streams take.
    pub(crate) fn routing(&self) -> &Routing {
        self.writer.routing()
    }

    /// Begins the event files of one builder session in `directory`. `streams` selects events and options of each file;
    /// `session` has the options for the stream `default`.
    ///
    /// # Errors
    /// Why the files cannot be created.
    pub fn create(
        directory: &Path,
        streams: Vec<(StreamRule, WriterOptions)>,
        session: &WriterOptions,
    ) -> Result<Self, EventWriteError> {
        Ok(Self {
            writer: StreamsWriter::create(directory, streams, session)?,
            uploads: None,
            converter: None,
            pressed: false,
            looked_at: Timestamp::ZERO,
            prescaled: 0,
        })
    }

    /// Has the files of streams uploaded whose events count as stored only then. Without it these never do.
    #[must_use]
    pub fn with_uploads(mut self, uploads: Box<dyn Uploads>) -> Self {
        self.uploads = Some(uploads);
        self
    }

    /// Has the last files converted, and lists them.
    fn finish_converter(&mut self) -> Result<(), SinkError> {
        let Some(converter) = &mut self.converter else { return Ok(()) };
        self.writer.take_replaceable().into_iter().for_each(|file| converter.submit(file));
        let ended = converter.finish().map_err(SinkError::from);
        while let Some(file) = converter.poll() {
            self.writer.replaced(&file);
        }
        ended.and(self.writer.finish().map_err(SinkError::from))
    }

    /// Converts closed files of streams with another format ([`WriterOptions::replaced`]).
    #[must_use]
    pub fn with_converter(mut self, converter: Converter) -> Self {
        self.converter = Some(converter);
        self
    }

    /// Hands over closed files, and collects those that were converted and uploaded.
    fn exchange(&mut self) -> Result<(), SinkError> {
        let converted = self.converter.as_mut().map_or(Ok(()), |converter| {
            self.writer.take_replaceable().into_iter().for_each(|file| converter.submit(file));
            while let Some(file) = converter.poll() {
                self.writer.replaced(&file);
            }
            converter.trouble().map_or(Ok(()), |trouble| Err(trouble.into()))
        });
        converted.and(self.exchange_uploads())
    }

    fn exchange_uploads(&mut self) -> Result<(), SinkError> {
        let Some(uploads) = &mut self.uploads else { return Ok(()) };
        for file in self.writer.take_uploads() {
            uploads.submit(file);
        }
        while let Some(file) = uploads.poll() {
            self.writer.confirm(&file);
        }
        uploads.trouble().map_or(Ok(()), |trouble| Err(UploadError::Store(trouble).into()))
    }
}

impl EventSink for FileSink {
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        match self.writer.write(event, verdict)? {
            true => Ok(Taken::Accepted),
            false => {
                self.prescaled += 1;
                Ok(Taken::LeftOut)
            }
        }
    }

    fn record(&mut self, record: &Arc<RunRecord>) -> Result<(), SinkError> {
        Ok(self.writer.record(record)?)
    }

    fn end_batch(&mut self, now: Timestamp) -> Result<(), SinkError> {
        self.looked_at = now;
        let pressed = if std::mem::take(&mut self.pressed) { self.writer.press() } else { Ok(()) };
        let ended = pressed.and(self.writer.end_batch(now)).map_err(SinkError::from);
        ended.and(self.exchange())
    }

    fn press(&mut self) {
        self.pressed = true;
    }

    fn has_room(&self) -> bool {
        self.converter.as_ref().is_none_or(Converter::has_room)
    }

    fn stored(&self) -> u64 {
        self.writer.stored()
    }

    fn due(&self) -> Timestamp {
        let is_waiting = self.uploads.as_ref().is_some_and(|uploads| uploads.waiting() > 0)
            || self.converter.as_ref().is_some_and(|converter| converter.waiting() > 0);
        let look = if is_waiting { self.looked_at + UPLOAD_LOOKS } else { Timestamp::MAX };
        self.writer.due().min(look)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let finished = self.writer.finish().map_err(SinkError::from);
        let finished = finished.and(self.finish_converter());
        let Some(uploads) = &mut self.uploads else { return finished };
        // Of files closed only now, events do not count: the run has not waited for them. But run records may have come behind the
        // last event.
        let with_records: Vec<_> =
            self.writer.take_uploads().into_iter().filter(|file| file.events == 0).collect();
        let patience = if with_records.is_empty() { Duration::ZERO } else { RECORDS_PATIENCE };
        with_records.into_iter().for_each(|file| uploads.submit(file));
        let ended = uploads.finish(patience).map_err(SinkError::from);
        while let Some(file) = uploads.poll() {
            self.writer.confirm(&file);
        }
        // Writes the list again, with the confirmed uploads.
        let listed = self.writer.finish().map_err(SinkError::from);
        finished.and(ended).and(listed)
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let rules = self.writer.routing().rules().iter();
        let of_streams = rules.zip(self.writer.counts()).flat_map(|(rule, counts)| {
            let name = &rule.name;
            [
                (format!("stream_{name}_events"), counts.accepted_events),
                (format!("stream_{name}_bytes"), counts.file_bytes),
            ]
        });
        let uploads = self.uploads.iter().flat_map(|uploads| uploads.counters());
        let uploads = uploads.map(|(name, count)| (name.to_owned(), count));
        let converted = self.converter.iter().flat_map(Converter::counters);
        let done = uploads.chain(converted.map(|(name, count)| (name.to_owned(), count)));
        [(Self::PRESCALED.to_owned(), self.prescaled)].into_iter().chain(of_streams).chain(done).collect()
    }
}
