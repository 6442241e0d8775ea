//! An output in use: holds events until they are as durable as configured. A builder unit or an output node drives it.

use crate::sink::{EventSink, SinkError, Taken};
use bytes::Bytes;
use sheaf_telemetry::log_as;
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{Event, Nanos, NodeId, Timestamp, Verdict};
use std::collections::VecDeque;
use std::sync::Arc;

/// Pause before a failed output is tried again. Meanwhile nothing is lost: events wait, credit runs out, triggers are
/// vetoed.
const RETRY: Nanos = Nanos::from_millis(500);

/// An output that has no room for the moment is asked again so often.
const HELD_UP: Nanos = Nanos::from_millis(5);

/// Final state of an event, which its driver knows by a token of type `T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled<T> {
    /// It is stored; its number among all that were accepted, from 0.
    Stored(T, u64),
    /// No stream takes it.
    LeftOut(T),
}

/// An output, and the events that it has not settled.
pub(crate) struct Storing<T> {
    node: NodeId,
    sink: Box<dyn EventSink>,
    /// Accepted and not known to be durable, in the order of writing.
    accepted: VecDeque<T>,
    /// Number of events before these.
    reported: u64,
    left_out: VecDeque<T>,
    /// Run records that the output has not taken. Their number is limited by that of the run.
    records: VecDeque<Arc<RunRecord>>,
    /// An event that the output did not take.
    refused: Option<(T, Event<Bytes>, Verdict)>,
    trouble: Option<Trouble>,
    /// When an output is asked again that has no room; `None` where it has.
    held_up: Option<Timestamp>,
}

struct Trouble {
    error: SinkError,
    try_again_at: Timestamp,
}

impl<T> Storing<T> {
    /// An output that has taken nothing, of `node`.
    pub(crate) fn new(node: NodeId, sink: Box<dyn EventSink>) -> Self {
        Self {
            node,
            sink,
            accepted: VecDeque::new(),
            reported: 0,
            left_out: VecDeque::new(),
            records: VecDeque::new(),
            refused: None,
            trouble: None,
            held_up: None,
        }
    }

    /// The output, which has taken nothing yet.
    pub(crate) fn into_sink(self) -> Box<dyn EventSink> {
        debug_assert!(self.reported == 0 && self.accepted.is_empty(), "{}: the output is in use", self.node);
        self.sink
    }

    /// Returns whether events are taken now. A refused event is written first.
    pub(crate) fn is_ready(&mut self, now: Timestamp) -> bool {
        if self.trouble.as_ref().is_some_and(|trouble| trouble.try_again_at > now) {
            return false;
        }
        if !self.sink.has_room() {
            // Earlier events must not wait for it.
            self.end_batch(now);
            self.held_up = Some(now + HELD_UP);
            return false;
        }
        self.held_up = None;
        if !self.write_records(now) {
            return false;
        }
        match self.refused.take() {
            None => true,
            Some((token, mut event, verdict)) => self.write(now, token, &mut event, &verdict),
        }
    }

    /// Writes an event and takes what the output keeps out of it. Returns `false` if it could not be written: it waits
    /// here, and no more events are taken until [`Self::is_ready`] returns `true`.
    #[inline]
    pub(crate) fn write(
        &mut self,
        now: Timestamp,
        token: T,
        event: &mut Event<Bytes>,
        verdict: &Verdict,
    ) -> bool {
        debug_assert!(self.refused.is_none(), "{}: one event waits already", self.node);
        match self.sink.give(event, verdict) {
            Ok(Taken::Accepted) => self.accepted.push_back(token),
            Ok(Taken::LeftOut) => self.left_out.push_back(token),
            Err(error) => return self.keep_refused(now, token, event, verdict, error),
        }
        true
    }

    /// Keeps an event that could not be written, and notes why. Apart, so that the usual case of [`Self::write`] is inlined.
    #[cold]
    fn keep_refused(
        &mut self,
        now: Timestamp,
        token: T,
        event: &mut Event<Bytes>,
        verdict: &Verdict,
        error: SinkError,
    ) -> bool {
        self.refused = Some((token, event.take(), verdict.clone()));
        self.note_trouble(now, error);
        false
    }

    /// Writes a run record, at the next call of [`Self::is_ready`] if it cannot be written now.
    pub(crate) fn record(&mut self, now: Timestamp, record: Arc<RunRecord>) {
        self.records.push_back(record);
        if self.trouble.is_none() {
            self.write_records(now);
        }
    }

    /// Writes the run records that wait. Returns `false` if one could not be written.
    fn write_records(&mut self, now: Timestamp) -> bool {
        while let Some(record) = self.records.front() {
            if let Err(error) = self.sink.record(record) {
                self.note_trouble(now, error);
                return false;
            }
            self.records.pop_front();
        }
        true
    }

    /// Signals that the caller has little room left: see [`EventSink::press`].
    pub(crate) fn press(&mut self) {
        if !self.accepted.is_empty() {
            self.sink.press();
        }
    }

    /// Ends a batch of events. [`Self::poll`] then returns what is settled.
    pub(crate) fn end_batch(&mut self, now: Timestamp) {
        match self.sink.end_batch(now) {
            Ok(()) => {
                if self.records.is_empty() && self.trouble.take().is_some() && self.refused.is_none() {
                    log_as!(OUTPUT_WORKS, node = self.node; "{}: the output works again", self.node);
                }
            }
            Err(error) => self.note_trouble(now, error),
        }
    }

    fn note_trouble(&mut self, now: Timestamp, error: SinkError) {
        if self.trouble.is_none() {
            log_as!(
                OUTPUT_FAILING, node = self.node;
                "{}: {error}; events wait until it works again", self.node
            );
        }
        self.trouble = Some(Trouble { error, try_again_at: now + RETRY });
    }

    /// The next event that is settled: stored ones in the order of writing.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<Settled<T>> {
        if let Some(token) = self.left_out.pop_front() {
            return Some(Settled::LeftOut(token));
        }
        if self.reported >= self.sink.stored() {
            return None;
        }
        let number = self.reported;
        let token = self.accepted.pop_front()?;
        self.reported += 1;
        Some(Settled::Stored(token, number))
    }

    /// Returns the number of events that are not settled.
    pub(crate) fn waiting(&self) -> usize {
        self.accepted.len() + usize::from(self.refused.is_some())
    }

    /// Returns whether the output fails.
    pub(crate) fn is_failing(&self) -> bool {
        self.trouble.is_some()
    }

    /// Returns whether the output fails, or has no room at the moment.
    pub(crate) fn is_in_trouble(&self) -> bool {
        self.trouble.is_some() || self.held_up.is_some()
    }

    /// When there is something to do without a further event.
    pub(crate) fn due(&self) -> Timestamp {
        let due = self.held_up.unwrap_or_else(|| self.sink.due());
        self.trouble.as_ref().map_or(due, |trouble| trouble.try_again_at)
    }

    /// Returns the output's counters by name.
    pub(crate) fn counters(&self) -> Vec<(String, u64)> {
        self.sink.counters()
    }

    /// Closes the output.
    ///
    /// # Errors
    /// Returns the last failure of the output, for the operator.
    pub(crate) fn finish(&mut self) -> Result<(), SinkError> {
        let recorded = self.records.drain(..).try_for_each(|record| self.sink.record(&record));
        let closed = self.sink.finish();
        let closed = recorded.and(closed);
        self.trouble.take().map_or(closed, |trouble| Err(trouble.error))
    }
}

#[cfg(test)]
mod tests;
