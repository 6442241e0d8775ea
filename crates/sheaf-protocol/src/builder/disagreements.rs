//! Disagreements of check values, on their way to the event manager.
//!
//! A source that is off disagrees in every event. The event manager needs consecutive events to recognise by how much, not all
//! of them. So after [`BURST`] reports of a source a builder unit reports only events in windows of the event number, which are
//! the same for all builder units. A source that has agreed for [`CALM`] events here is reported anew.

use sheaf_wire::SourceId;
use sheaf_wire::message::Disagreement;
use std::collections::{BTreeMap, VecDeque};

/// Reports of a source in a row.
const BURST: u32 = 256;

/// Number of events without a disagreement of a source after which the next ones are all reported.
const CALM: u64 = 64;

/// Events of which those at the beginning are always reported, and number of these.
const WINDOW: (u64, u64) = (16_384, 256);

/// Reports that wait for the channel, at most.
const MOST_WAITING: usize = 4_096;

/// Reports in a message, at most.
const MESSAGE_REPORTS: usize = 256;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Disagreements {
    sources: BTreeMap<(SourceId, u16), Reported>,
    waiting: VecDeque<Disagreement>,
}

/// Reports of a source.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    /// Reports before only those of windows are sent.
    left: u32,
    /// Number of events that had been compared here when it last disagreed.
    compared: u64,
}

impl Disagreements {
    /// Takes a disagreement in the last of `compared` events.
    pub(super) fn add(&mut self, compared: u64, disagreement: Disagreement) {
        let key = (disagreement.source, disagreement.quantity);
        let new = Reported { left: BURST, compared };
        let reported = self.sources.entry(key).or_insert(new);
        if compared.saturating_sub(reported.compared) > CALM {
            *reported = new;
        }
        reported.compared = compared;
        let (events, first) = WINDOW;
        let is_wanted = reported.left > 0 || disagreement.event.0 % events < first;
        reported.left = reported.left.saturating_sub(1);
        if is_wanted && self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(disagreement);
        }
    }

    /// Returns the next reports for the event manager; none if there are none.
    pub(super) fn take(&mut self) -> Option<Vec<Disagreement>> {
        let count = self.waiting.len().min(MESSAGE_REPORTS);
        (count > 0).then(|| self.waiting.drain(..count).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_wire::EventId;

    fn reported(disagreements: &mut Disagreements) -> Vec<u64> {
        let messages = std::iter::from_fn(|| disagreements.take());
        messages.flatten().map(|disagreement| disagreement.event.0).collect()
    }

    fn add(disagreements: &mut Disagreements, compared: u64, event: u64) {
        let (event, source) = (EventId(event), SourceId(3));
        let new = Disagreement { event, source, quantity: 0, value: event.0 + 1, reference: event.0 };
        disagreements.add(compared, new);
    }

    #[test]
    fn a_source_that_is_off_for_long_is_reported_in_windows_of_the_event_number() {
        let mut disagreements = Disagreements::default();
        (0..40_000).for_each(|event| add(&mut disagreements, event, 1_000 + event));
        let right: Vec<u64> = (1_000..1_256).chain(16_384..16_640).chain(32_768..33_024).collect();
        assert_eq!(reported(&mut disagreements), right);
    }

    #[test]
    fn a_source_that_has_agreed_for_a_while_is_reported_anew() {
        let mut disagreements = Disagreements::default();
        (0..1_000).for_each(|event| add(&mut disagreements, event, 1_000 + event));
        assert_eq!(reported(&mut disagreements).len(), 256);
        // A few that agree are no new beginning.
        add(&mut disagreements, 1_000 + CALM - 1, 3_000);
        assert_eq!(reported(&mut disagreements), []);
        add(&mut disagreements, 1_000 + 2 * CALM, 4_000);
        assert_eq!(reported(&mut disagreements), [4_000]);
    }

    #[test]
    fn what_waits_for_the_channel_is_bounded() {
        let mut disagreements = Disagreements::default();
        (0..100_000).for_each(|event| add(&mut disagreements, event, event * 16_384));
        assert_eq!(reported(&mut disagreements).len(), MOST_WAITING);
    }
}
