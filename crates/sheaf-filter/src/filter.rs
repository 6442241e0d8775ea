//! Filters of built events, and their verdicts.

use bytes::Bytes;
use sheaf_wire::{Event, Verdict};

pub use sheaf_wire::FilterFailure;

/// Judges built events.
pub trait Filter: Send {
    /// Verdict on an event: whether it is stored, with which tags and which payload.
    ///
    /// # Errors
    /// A [`FilterFailure`] if the filter has no verdict. It can still judge later events.
    fn judge(&mut self, event: &Event<Bytes>) -> Result<Verdict, FilterFailure>;

    /// Returns the filter's counters by name. An event that another builder judges again counts again.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Wants every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl Filter for AcceptAll {
    fn judge(&mut self, _event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
        Ok(Verdict::accept())
    }
}

/// Accepts one event in N, by event id: the same events in every builder.
#[derive(Clone, Copy, Debug)]
pub struct Prescale {
    /// N: one event in N is accepted; at least 1.
    pub factor: u32,
}

impl Filter for Prescale {
    fn judge(&mut self, event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
        let accepted = event.id.0.is_multiple_of(u64::from(self.factor.max(1)));
        Ok(Verdict { accepted, ..Verdict::reject() })
    }
}
