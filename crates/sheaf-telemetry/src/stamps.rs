//! Stamps: when events passed the stages of a node, and remarks about single events.
//!
//! A node stamps every event, a range of consecutive events at a time where it handles them together. So a stamp costs a node some
//! nanoseconds a message, and nobody has to know beforehand which event will be of interest. The stamps of a node are in a
//! [ring](crate::ring) that a reader on another thread empties several times a second.
//!
//! A *remark* says that an event is remarkable, and why. Remarks are rare and have a ring of their own, so that stamps of ordinary events
//! never overwrite one.

mod hub;
mod remark;
mod store;

pub use hub::{NodeStamps, StampHub, StampLabels};
pub use remark::{Remark, RemarkKind};
pub use store::{FoundStamp, Overwritten, StampStore};

use crate::ring::RingWriter;

/// Stamps that a node's ring holds: those of some tenths of a second at the highest rates, in 512 KiB. A reader empties it every
/// 50 ms and keeps more.
const STAMPS: usize = 1 << 15;

/// Remarks that a node's ring holds.
const REMARKS: usize = 1 << 12;

/// Bits of an event id that a stamp has. Ids of one run that agree in all of them are far apart.
const EVENT_BITS: u32 = 48;
/// Bits of a time in nanoseconds: 39 hours. The reader knows the rest, because it reads stamps soon.
const TIME_BITS: u32 = 47;
const STAGE_BITS: u32 = 5;
const DETAIL_SHIFT: u32 = TIME_BITS + STAGE_BITS;
/// Maximum number of events of a stamp.
const MOST_EVENTS: u64 = 1 << 16;

/// Largest detail of a stamp. It stands for all larger ones.
pub const MOST_DETAIL: u16 = (1 << (64 - DETAIL_SHIFT)) - 1;

macro_rules! stages {
    ($($(#[doc = $text:literal])+ $name:ident $label:literal;)*) => {
        /// A stage that an event passes at a node.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Stage {
            $($(#[doc = $text])+ $name),*
        }

        impl Stage {
            /// All stages, in the order of an event's life as far as there is one.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns its name, as in files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $label),*
                }
            }
        }
    };
}

stages! {
    /// Event manager: the trigger. Stamped when the event has ended, with the time of the trigger.
    Triggered "triggered";
    /// Event manager: the event goes to a builder unit, whose index is the detail.
    Assigned "assigned";
    /// Readout unit: a fragment was taken from the source whose place among those of the unit is the detail.
    Arrived "arrived";
    /// Builder unit: the assignment is here. The detail is the attempt.
    Began "began";
    /// Readout unit: the builder unit whose index is the detail requests the event.
    Requested "requested";
    /// Readout unit: the super-fragment goes to the builder unit whose index is the detail.
    Sent "sent";
    /// Builder unit: the super-fragment of the readout unit whose index is the detail is here.
    Answered "answered";
    /// Builder unit: the event is built, and given to its filter.
    Judging "judging";
    /// Builder unit: the filter has answered.
    Judged "judged";
    /// Output node: the event goes to its files.
    Writing "writing";
    /// Output node: the event is as durable as configured.
    Written "written";
    /// Builder unit: the event is rejected, dropped, or as durable as configured.
    Decided "decided";
    /// Event manager: the event has ended.
    Ended "ended";
    /// Readout unit: its fragments of the event are released.
    Released "released";
}

impl Stage {
    /// Returns the stage with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|stage| stage.name() == name)
    }
}

/// Number of stages.
const STAGES: usize = Stage::ALL.len();

/// Consecutive events that passed a stage together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// First event: the low 48 bits of its id.
    first: u64,
    /// Number of events, from 1.
    count: u64,
    /// Time in nanoseconds since 1970.
    pub at_ns: u64,
    /// The stage.
    pub stage: Stage,
    /// Index of another node, of a source or of an attempt, depending on the stage; at most [`MOST_DETAIL`].
    pub detail: u16,
}

impl Stamp {
    /// Makes the stamp of an event.
    #[must_use]
    pub fn of(event: u64, at_ns: u64, stage: Stage, detail: u16) -> Self {
        Self { first: low(event), count: 1, at_ns, stage, detail: detail.min(MOST_DETAIL) }
    }

    /// Returns whether an event is among those of the stamp.
    #[must_use]
    #[inline]
    pub const fn covers(&self, event: u64) -> bool {
        event.wrapping_sub(self.first) & ((1 << EVENT_BITS) - 1) < self.count
    }

    /// Returns the first of its words: the first event, and the number of those that follow it.
    const fn first_word(&self) -> u64 {
        self.first << 16 | (self.count - 1)
    }

    fn words(&self) -> [u64; 2] {
        let time = self.at_ns & ((1 << TIME_BITS) - 1);
        [self.first_word(), time | (self.stage as u64) << TIME_BITS | u64::from(self.detail) << DETAIL_SHIFT]
    }

    /// Reads a stamp that was made at most 39 hours before `now_ns`. Returns `None` if the words are those of no stamp.
    #[must_use]
    pub fn from_words([event, rest]: [u64; 2], now_ns: u64) -> Option<Self> {
        let stage = *Stage::ALL.get(usize::try_from(rest >> TIME_BITS & ((1 << STAGE_BITS) - 1)).ok()?)?;
        // A clock of another thread may be ahead by a little.
        let ahead = now_ns.wrapping_add(1 << (TIME_BITS - 1));
        let at_ns = ahead.wrapping_sub(ahead.wrapping_sub(rest) & ((1 << TIME_BITS) - 1));
        Some(Self {
            first: event >> 16,
            count: (event & (MOST_EVENTS - 1)) + 1,
            at_ns,
            stage,
            detail: u16::try_from(rest >> DETAIL_SHIFT).unwrap_or(MOST_DETAIL),
        })
    }
}

/// Returns the low 48 bits of the ids of the first and the last event of a stamp, out of its first word. The last is the lower one where ids
/// pass zero.
const fn bounds(word: u64) -> (u64, u64) {
    let first = word >> 16;
    (first, low(first + (word & (MOST_EVENTS - 1))))
}

/// Returns the part of an event id that stamps have.
#[must_use]
pub const fn low(event: u64) -> u64 {
    event & ((1 << EVENT_BITS) - 1)
}

/// Events that passed a stage and are not published yet. Without events if `count` is 0.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    first: u64,
    count: u64,
    detail: u16,
}

/// The side of a node: it stamps events and makes remarks.
#[derive(Debug)]
pub struct Stamper {
    stamps: RingWriter<2>,
    remarks: RingWriter<4>,
    /// Events of the present round, by stage. They are published together.
    pending: [Pending; STAGES],
    /// Time of the present round in nanoseconds.
    now_ns: u64,
    /// Stages that have pending events, as bits.
    stages: u32,
}

impl Stamper {
    fn new() -> Self {
        Self {
            stamps: RingWriter::new(STAMPS),
            remarks: RingWriter::new(REMARKS),
            pending: [Pending::default(); STAGES],
            now_ns: 0,
            stages: 0,
        }
    }

    /// Begins a round of the node. What was stamped before is published.
    #[inline]
    pub fn begin_round(&mut self, now_ns: u64) {
        self.flush();
        self.now_ns = now_ns;
    }

    /// Stamps `count` consecutive events that pass a stage in this round. Events that follow those of the same stage and detail share
    /// their stamp.
    #[inline]
    pub fn stamp(&mut self, stage: Stage, detail: u16, first: u64, count: u64) {
        let pending = &mut self.pending[stage as usize];
        if pending.first.wrapping_add(pending.count) == first
            && pending.detail == detail
            && pending.count > 0
            && pending.count + count <= MOST_EVENTS
        {
            pending.count += count;
            return;
        }
        self.begin(stage, Pending { first, count, detail });
    }

    /// Stamps consecutive events that passed a stage some time before this round.
    pub fn stamp_before(&mut self, stage: Stage, first: u64, count: u64, ago_ns: u64) {
        let stamp = Stamp {
            first: low(first),
            count: count.clamp(1, MOST_EVENTS),
            at_ns: self.now_ns.saturating_sub(ago_ns),
            stage,
            detail: 0,
        };
        self.stamps.push(stamp.words());
    }

    /// Begins another stamp of a stage.
    fn begin(&mut self, stage: Stage, next: Pending) {
        self.publish(stage);
        let mut next = next;
        while next.count > MOST_EVENTS {
            self.pending[stage as usize] = Pending { count: MOST_EVENTS, ..next };
            self.publish(stage);
            (next.first, next.count) = (next.first.wrapping_add(MOST_EVENTS), next.count - MOST_EVENTS);
        }
        self.pending[stage as usize] = next;
        self.stages |= 1 << stage as u32;
    }

    /// Publishes what was stamped.
    #[inline]
    pub fn flush(&mut self) {
        while self.stages != 0 {
            let stage = self.stages.trailing_zeros();
            self.stages &= self.stages - 1;
            self.publish(Stage::ALL[stage as usize]);
        }
    }

    fn publish(&mut self, stage: Stage) {
        let Pending { first, count, detail } = std::mem::take(&mut self.pending[stage as usize]);
        if count > 0 {
            let detail = detail.min(MOST_DETAIL);
            let stamp = Stamp { first: low(first), count, at_ns: self.now_ns, stage, detail };
            self.stamps.push(stamp.words());
        }
    }

    /// Makes a remark.
    #[cold]
    pub fn remark(&mut self, remark: Remark) {
        self.remarks.push(remark.words());
    }

    /// Returns the time of the present round in nanoseconds.
    #[must_use]
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::RingReader;
    use std::collections::BTreeSet;

    fn read(stamper: &Stamper, now_ns: u64) -> Vec<Stamp> {
        let mut stamps = Vec::new();
        let mut reader = RingReader::new(stamper.stamps.ring());
        let (words, lost) = reader.read();
        stamps.extend(words.iter().filter_map(|words| Stamp::from_words(*words, now_ns)));
        assert_eq!(lost, 0);
        stamps
    }

    /// A sequence of numbers that looks random.
    fn numbers() -> impl Iterator<Item = u64> {
        (1_u64..).scan(7_u64, |state, _| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some(*state >> 11)
        })
    }

    #[test]
    fn a_stamp_survives_its_words_at_any_time() {
        let mut draw = numbers();
        let mut next = move |below: u64| draw.next().unwrap_or(0) % below;
        for _ in 0..20_000 {
            let stamp = Stamp {
                first: next(1 << EVENT_BITS),
                count: 1 + next(MOST_EVENTS),
                at_ns: 1_700_000_000_000_000_000 + next(1 << 52),
                stage: Stage::ALL[usize::try_from(next(STAGES as u64)).unwrap_or(0)],
                detail: u16::try_from(next(u64::from(MOST_DETAIL) + 1)).unwrap_or(0),
            };
            let now_ns = stamp.at_ns + next(60_000_000_000);
            assert_eq!(Stamp::from_words(stamp.words(), now_ns), Some(stamp));
            assert!(stamp.covers(stamp.first) && stamp.covers(stamp.first + stamp.count - 1));
            assert!(!stamp.covers(stamp.first + stamp.count) && !stamp.covers(stamp.first.wrapping_sub(1)));
        }
    }

    #[test]
    fn events_that_follow_each_other_share_a_stamp_and_no_event_is_left_out() {
        let mut draw = numbers();
        let mut next = move |below: u64| draw.next().unwrap_or(0) % below;
        let mut stamper = Stamper::new();
        let mut stamped = BTreeSet::new();
        let mut event = 0;
        for round in 0..200 {
            stamper.begin_round(round);
            for _ in 0..next(20) {
                event += 1 + next(3) / 2;
                let count = 1 + next(4);
                stamper.stamp(Stage::Sent, 3, event, count);
                stamped.extend((event..event + count).map(|event| (event, round)));
                event += count;
            }
        }
        stamper.flush();
        let stamps = read(&stamper, 0);
        let found: BTreeSet<_> = stamps
            .iter()
            .flat_map(|stamp| (0..stamp.count).map(|place| (stamp.first + place, stamp.at_ns)))
            .collect();
        assert_eq!(found, stamped);
        assert!(stamps.len() < stamped.len() / 2, "{} stamps of {} events", stamps.len(), stamped.len());
    }

    #[test]
    fn a_range_beyond_the_room_of_a_stamp_has_several() {
        let mut stamper = Stamper::new();
        stamper.begin_round(5);
        stamper.stamp(Stage::Released, 0, 10, 3 * MOST_EVENTS + 1);
        stamper.flush();
        let stamps = read(&stamper, 5);
        assert_eq!(stamps.iter().map(|stamp| stamp.count).sum::<u64>(), 3 * MOST_EVENTS + 1);
        assert_eq!(stamps.len(), 4);
        assert!(stamps.iter().any(|stamp| stamp.covers(10 + 3 * MOST_EVENTS)));
    }
}
