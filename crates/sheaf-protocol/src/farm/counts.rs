//! Counters of a dispatcher.

/// Counters of a dispatcher since its creation.
///
/// `offered = judged + quarantined + held`, and `given = judged + failed + abandoned + returned + at processors`, at every
/// moment. `offered` counts events, `given` counts deliveries: an event that is tried twice is delivered twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FarmCounts {
    /// Events taken from the builder unit.
    pub offered: u64,
    /// Deliveries of events to processors.
    pub given: u64,
    /// Events that left with a processor's verdict.
    pub judged: u64,
    /// Answers that report a failure of the filter.
    pub failed: u64,
    /// Deliveries without an answer: the processor died, was silent for too long, or sent an invalid message.
    pub abandoned: u64,
    /// Deliveries that a processor returned when it left.
    pub returned: u64,
    /// Events tried again after a failure or the end of their processor.
    pub retried: u64,
    /// Events that left without a verdict, to be stored unfiltered.
    pub quarantined: u64,
    /// Quarantined events for which there was no processor.
    pub unattended: u64,
    /// Processors that joined.
    pub joined: u64,
    /// Processors that were refused a seat.
    pub refused: u64,
    /// Processors that left in an orderly way.
    pub left: u64,
    /// Processors whose connection ended without a message.
    pub died: u64,
    /// Processors that were ended because they were silent for the time limit although a verdict or a request was due.
    pub silent: u64,
    /// Processors that were ended because of an invalid message.
    pub nonsense: u64,
    /// Messages of processors whose seat had ended.
    pub stale_words: u64,
}

impl FarmCounts {
    /// Returns the counts by name, in the order of their documentation.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 16] {
        [
            ("farm_offered", self.offered),
            ("farm_given", self.given),
            ("farm_judged", self.judged),
            ("farm_failed", self.failed),
            ("farm_abandoned", self.abandoned),
            ("farm_returned", self.returned),
            ("retried", self.retried),
            ("quarantined", self.quarantined),
            ("quarantined_unattended", self.unattended),
            ("processors_joined", self.joined),
            ("processors_refused", self.refused),
            ("processors_left", self.left),
            ("processors_died", self.died),
            ("processors_silent", self.silent),
            ("processors_nonsense", self.nonsense),
            ("processors_stale_words", self.stale_words),
        ]
    }
}
