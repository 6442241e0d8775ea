//! Where accepted events go.

use bytes::Bytes;
use sheaf_store::event_file::{EventWriteError, WriterOptions};
use sheaf_store::streams::{StreamRule, StreamsWriter};
use sheaf_wire::{Event, Timestamp, Verdict};
use std::path::Path;

/// Takes accepted events. An event counts as stored when [`EventSink::stored`] includes it; events become stored in the
/// order in which they were written.
pub trait EventSink: Send {
    /// Accepts an event and what was said of it.
    ///
    /// # Errors
    /// What is wrong, in words for the operator. The event was not accepted and may be offered again.
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, String>;

    /// Ends a batch of events: makes them as durable as configured.
    ///
    /// # Errors
    /// What is wrong; nothing accepted is lost by it, the call may be made again.
    fn end_batch(&mut self, now: Timestamp) -> Result<(), String>;

    /// How many of the accepted events, counted from the first, are as durable as configured.
    fn stored(&self) -> u64;

    /// When [`EventSink::end_batch`] has something to do without a further event; [`Timestamp::MAX`] where it has not.
    fn due(&self) -> Timestamp {
        Timestamp::MAX
    }

    /// Closes the output.
    ///
    /// # Errors
    /// What is wrong.
    fn finish(&mut self) -> Result<(), String>;

    /// What it counted, by name.
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// What an output did with an event.
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
    fn write(&mut self, _event: &Event<Bytes>, _verdict: &Verdict) -> Result<Taken, String> {
        self.accepted += 1;
        Ok(Taken::Accepted)
    }

    fn end_batch(&mut self, _now: Timestamp) -> Result<(), String> {
        Ok(())
    }

    fn stored(&self) -> u64 {
        self.accepted
    }

    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Writes event files, one series for each stream.
#[derive(Debug)]
pub struct FileSink {
    writer: StreamsWriter,
    prescaled: u64,
}

impl FileSink {
    /// Begins the event files of one builder session in `directory`. `streams` says which events go to which files and
    /// how these are written; what it does not say of the stream `default` is in `session`.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn create(
        directory: &Path,
        streams: Vec<(StreamRule, WriterOptions)>,
        session: &WriterOptions,
    ) -> Result<Self, EventWriteError> {
        Ok(Self { writer: StreamsWriter::create(directory, streams, session)?, prescaled: 0 })
    }
}

impl EventSink for FileSink {
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, String> {
        match self.writer.write(event, verdict).map_err(|error| error.to_string())? {
            true => Ok(Taken::Accepted),
            false => {
                self.prescaled += 1;
                Ok(Taken::LeftOut)
            }
        }
    }

    fn end_batch(&mut self, now: Timestamp) -> Result<(), String> {
        self.writer.end_batch(now).map_err(|error| error.to_string())
    }

    fn stored(&self) -> u64 {
        self.writer.stored()
    }

    fn due(&self) -> Timestamp {
        self.writer.due()
    }

    fn finish(&mut self) -> Result<(), String> {
        self.writer.finish().map_err(|error| error.to_string())
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
        [("prescaled".to_owned(), self.prescaled)].into_iter().chain(of_streams).collect()
    }
}
