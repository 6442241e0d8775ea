//! Readings of a card's clock as moments.

use super::FeedBooks;
use crate::timed::decode::Reading;
use sheaf_time::clock::ClockError;
use sheaf_time::{Clock, Disorder, Moment, Picos};
use sheaf_wire::Hit;

/// The times of the readings of a packet.
pub(super) struct Times<'a> {
    pub(super) clock: &'a mut Clock,
    /// The time of the fragment since time 0 of the run, if hits count from it. It may be outside the timeline.
    pub(super) origin: Option<Option<Picos>>,
}

/// Reason why a reading has no moment.
pub(super) enum NoMoment {
    /// The clock follows pulses, and none has come.
    BeforePulses,
    /// It is before time 0, or too far behind it.
    OffTimeline,
}

impl Times<'_> {
    /// Returns the moment of a reading.
    #[inline]
    pub(super) fn moment(&mut self, time: u64) -> Result<Moment, NoMoment> {
        match self.origin {
            None => self.clock.read(time).map_err(|error| match error {
                ClockError::NoPulse(_) => NoMoment::BeforePulses,
                _ => NoMoment::OffTimeline,
            }),
            Some(origin) => {
                let moment = origin.and_then(|origin| self.clock.after(origin, time));
                moment.ok_or(NoMoment::OffTimeline)
            }
        }
    }

    /// Follows a pulse. `None`: the clock does not follow this one.
    fn pulse(&mut self, time: u64, resets: bool) -> Option<Moment> {
        let moment = self.clock.pulse(time).ok();
        if resets {
            self.clock.reset(time).ok()?;
        }
        moment
    }
}

/// Takes a reading. Returns a hit that is too late to be sorted.
#[inline]
pub(super) fn take(
    times: &mut Times<'_>,
    order: &mut Disorder<Hit>,
    books: &mut FeedBooks,
    reading: Reading,
) -> Result<(), (Moment, Hit)> {
    match reading {
        Reading::Hit { time, channel, value, extra } => match times.moment(time) {
            Ok(at) => {
                books.hits += 1;
                let hit = Hit { time_ps: at.0, channel, value, extra };
                return order.push(at, hit).map_err(|hit| (at, hit));
            }
            Err(NoMoment::BeforePulses) => books.hits_untimed += 1,
            Err(NoMoment::OffTimeline) => books.hits_off_timeline += 1,
        },
        Reading::Marker { time } => match times.moment(time) {
            Ok(at) => order.advance(at),
            Err(NoMoment::BeforePulses) => {}
            Err(NoMoment::OffTimeline) => books.markers_off_timeline += 1,
        },
        // Hits that count from the time of their fragment need no clock.
        Reading::Pulse { .. } | Reading::Reset { .. } if times.origin.is_some() => books.records_skipped += 1,
        Reading::Pulse { time, resets } => {
            books.resets += u64::from(resets);
            match times.pulse(time, resets) {
                Some(at) => {
                    books.pulses += 1;
                    order.advance(at);
                }
                None => books.pulses_refused += 1,
            }
        }
        // A counter that has no such reading cannot have had it before the reset.
        Reading::Reset { time } => match times.clock.reset(time) {
            Ok(()) => books.resets += 1,
            Err(_) => books.markers_off_timeline += 1,
        },
        Reading::Untimed => books.hits_untimed += 1,
        Reading::Other => books.records_skipped += 1,
        Reading::Remainder => books.packets_torn += 1,
    }
    Ok(())
}
