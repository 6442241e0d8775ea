//! Measured delay of a source: the time from the request of an event to its fragment.
//!
//! A live source may be slower than configured. One event at a time is observed from its request until the source delivers its
//! fragment, even if the timeout expires first and the fragment is late. The timeout of a source is a multiple of its longest
//! recent delay. So the timeout follows a source that becomes slower, and the cost of a source that stays away decreases with
//! every event.

use sheaf_wire::{EventId, Nanos, Timestamp};

/// Ratio of the limit to the measured delay, because delays vary.
const MARGIN: u64 = 4;

/// The longest recent delay decays by this fraction with each measurement.
const FORGET: u64 = 16;

/// An event for which a source is awaited.
#[derive(Clone, Copy, Debug)]
struct Sample {
    event: EventId,
    since: Timestamp,
}

/// Delay of one source, in the node's own time, without its stalls. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delay {
    awaited: Option<Sample>,
    /// Last event that was answered without the source. Its fragment may still arrive.
    given_up: Option<Sample>,
    longest: Nanos,
}

impl Delay {
    /// Records the request of an event that the source has not sent.
    #[inline]
    pub(super) fn note_request(&mut self, own: Timestamp, event: EventId) {
        if self.awaited.is_none() {
            self.awaited = Some(Sample { event, since: own });
        }
    }

    /// Returns whether an event is being observed.
    #[inline]
    pub(super) fn is_measured(&self) -> bool {
        self.awaited.is_some() || self.given_up.is_some()
    }

    /// Records a fragment of the source. If its event is later than the awaited one, the source has skipped that.
    pub(super) fn note_fragment(&mut self, own: Timestamp, event: EventId) {
        self.note_run(own, event, |wanted| wanted == event);
    }

    /// Records that the source has sent events in ascending order, up to `last`. `has` returns whether an
    /// event is among them.
    pub(super) fn note_run(&mut self, own: Timestamp, last: EventId, has: impl Fn(EventId) -> bool) {
        for sample in [&mut self.given_up, &mut self.awaited] {
            let Some(Sample { event: wanted, since }) = sample.take_if(|sample| sample.event <= last) else {
                continue;
            };
            if has(wanted) {
                let forgotten = Nanos(self.longest.0 - self.longest.0 / FORGET);
                self.longest = forgotten.max(own.since(since));
            }
        }
    }

    /// Records that an event is answered without the source, which has sent nothing. The next event is
    /// observed, with a shorter wait.
    pub(super) fn note_given_up(&mut self, event: EventId) {
        if let Some(sample) = self.awaited.take_if(|sample| sample.event <= event) {
            self.given_up = Some(sample);
            self.longest = Nanos(self.longest.0 / 2);
        }
    }

    /// Returns the time since which the source is silent although it is awaited, given the time of its last fragment.
    pub(super) fn silent_since(&self, gave_at: Timestamp) -> Timestamp {
        self.awaited.map_or(gave_at, |sample| sample.since.max(gave_at))
    }

    /// Returns the time for which the source may be silent: at least `floor`, and at most `most` if that is longer.
    pub(super) fn limit(&self, floor: Nanos, most: Nanos) -> Nanos {
        Nanos(self.longest.0.saturating_mul(MARGIN)).min(most).max(floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: Nanos = Nanos(500);
    const MOST: Nanos = Nanos(60_000);

    /// Simulates a source that sends each event with the given delay after its request. Returns the limit
    /// after each event.
    fn limits(delays: &[u64]) -> Vec<u64> {
        let mut delay = Delay::default();
        let give = |(event, after): (u64, &u64)| {
            let (event, asked) = (EventId(event), Timestamp(event * 1_000_000));
            delay.note_request(asked, event);
            if Nanos(*after) > delay.limit(FLOOR, MOST) {
                delay.note_given_up(event);
            }
            delay.note_fragment(asked + Nanos(*after), event);
            delay.limit(FLOOR, MOST).0
        };
        (0..).zip(delays).map(give).collect()
    }

    #[test]
    fn the_limit_follows_the_delay_between_its_bounds() {
        assert_eq!(limits(&[10, 100, 700, 700]), [500, 500, 2_800, 2_800]);
        assert_eq!(limits(&[50_000]), [60_000]);
        let back = limits(&[&[700][..], &[10; 100][..]].concat());
        assert_eq!(back.last(), Some(&500), "the delay of an hour ago is forgotten");
    }

    #[test]
    fn skipping_an_event_is_no_measured_delay() {
        let mut delay = Delay::default();
        delay.note_request(Timestamp(0), EventId(1));
        delay.note_fragment(Timestamp(10_000), EventId(2));
        assert_eq!(delay.limit(FLOOR, MOST), FLOOR);
        assert!(!delay.is_measured());
    }

    #[test]
    fn a_source_that_stays_away_costs_less_each_time() {
        let mut delay = Delay::default();
        delay.note_request(Timestamp(0), EventId(1));
        delay.note_fragment(Timestamp(10_000), EventId(1));
        let mut waits = Vec::new();
        for event in 2..10 {
            delay.note_request(Timestamp(event * 100_000), EventId(event));
            waits.push(delay.limit(FLOOR, MOST).0);
            delay.note_given_up(EventId(event));
        }
        assert_eq!(waits, [40_000, 20_000, 10_000, 5_000, 2_500, 1_248, 624, 500]);
    }
}
