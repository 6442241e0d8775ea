//! Where accepted events go.

use bytes::Bytes;
use sheaf_store::event_file::{EventFileWriter, EventWriteError, FlushPolicy, WriterOptions};
use sheaf_wire::{Event, Timestamp, Verdict};
use std::path::Path;

/// Takes accepted events. An event counts as stored when [`EventSink::stored`] includes it; events become stored in the
/// order in which they were written.
pub trait EventSink: Send {
    /// Accepts an event and what was said of it.
    ///
    /// # Errors
    /// What is wrong, in words for the operator. The event was not accepted and may be offered again.
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<(), String>;

    /// Ends a batch of events: makes them as durable as configured.
    ///
    /// # Errors
    /// What is wrong; nothing accepted is lost by it, the call may be made again.
    fn end_batch(&mut self, now: Timestamp) -> Result<(), String>;

    /// How many of the accepted events, counted from the first, are as durable as configured.
    fn stored(&self) -> u64;

    /// Closes the output.
    ///
    /// # Errors
    /// What is wrong.
    fn finish(&mut self) -> Result<(), String>;
}

/// Counts events and forgets them: for rate tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink {
    accepted: u64,
}

impl EventSink for NullSink {
    fn write(&mut self, _event: &Event<Bytes>, _verdict: &Verdict) -> Result<(), String> {
        self.accepted += 1;
        Ok(())
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

/// Writes event files.
#[derive(Debug)]
pub struct FileSink {
    writer: EventFileWriter,
    /// Whether events count as stored while they are still in the writer's memory.
    stored_in_memory: bool,
}

impl FileSink {
    /// Begins the event files of one builder session in `directory`.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn create(directory: &Path, options: WriterOptions) -> Result<Self, EventWriteError> {
        let stored_in_memory = options.flush == FlushPolicy::WhenFull;
        Ok(Self { writer: EventFileWriter::create(directory, options)?, stored_in_memory })
    }
}

impl EventSink for FileSink {
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<(), String> {
        self.writer.write(event, verdict).map_err(|error| error.to_string())
    }

    fn end_batch(&mut self, now: Timestamp) -> Result<(), String> {
        self.writer.end_batch(now).map_err(|error| error.to_string())
    }

    fn stored(&self) -> u64 {
        let counts = self.writer.counts();
        if self.stored_in_memory { counts.accepted_events } else { counts.stored_events }
    }

    fn finish(&mut self) -> Result<(), String> {
        self.writer.finish().map(|_| ()).map_err(|error| error.to_string())
    }
}
