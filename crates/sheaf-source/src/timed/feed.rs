//! Packets of one card in, its time slices out.

mod readings;

use super::decode::{DecodeFailure, Decoder, Packet, PacketHead};
use readings::{Times, take};
use sheaf_time::clock::{ClockError, PulseConfig};
use sheaf_time::disorder::DisorderStats;
use sheaf_time::slices::{SliceError, SlicerStats};
use sheaf_time::{Clock, ClockConfig, Disorder, Moment, Picos, Slice, SliceConfig, Slicer, TickScale};
use sheaf_wire::{ClockDrift, EventId, ExactNanos, Hit, SourceId, TimeUnit, Timestamp};

/// Origin of the times of a source's hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HitTimes {
    /// The source's clock, which counts on from packet to packet.
    #[default]
    Counter,
    /// The time of the fragment that holds the hits.
    Fragment {
        /// The fragment time that is time 0 of the run.
        zero: Timestamp,
        /// Unit of the times of fragments.
        unit: TimeUnit,
    },
}

impl HitTimes {
    fn fragments(self) -> Result<Option<(Timestamp, TickScale)>, FeedError> {
        let Self::Fragment { zero, unit } = self else { return Ok(None) };
        let scale = TickScale::new(unit.duration(), ExactNanos::ZERO, ExactNanos::from_picos(1));
        Ok(Some((zero, scale.ok_or(FeedError::Unit(unit))?)))
    }
}

/// Processing of a card's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedConfig {
    /// The card.
    pub card: SourceId,
    /// Nominal duration of a tick of its clock.
    pub tick: ExactNanos,
    /// Drift of its clock against the reference of the timeline.
    pub drift: ClockDrift,
    /// Position on the timeline when its clock is zero.
    pub offset: ExactNanos,
    /// Number of bits of its counter; that of the front end's packets if `None`.
    pub bits: Option<u32>,
    /// Pulses of a reference that its clock follows.
    pub pulses: Option<PulseConfig>,
    /// Origin of the times of hits.
    pub times: HitTimes,
    /// Maximum delay of a hit.
    pub tolerance: Picos,
    /// Number of hits held to put them in order; beyond it, the oldest are passed on early.
    pub held_hits: usize,
    /// Division of time into slices.
    pub slices: SliceConfig,
}

/// Reason why no slices can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The clock.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The slices.
    #[error(transparent)]
    Slices(#[from] SliceError),
    /// The unit of the times of fragments.
    #[error("times of fragments in units of {} cannot be converted to picoseconds", .0.duration())]
    Unit(TimeUnit),
}

/// Fates of packets and hits. Every packet is in one of `packets`, `packets_repeated`, `packets_unreadable`,
/// `packets_undecoded`, `packets_of_others`. Every hit of a packet that was read is in one of `hits`, `hits_untimed`, `hits_off_timeline`; and every one of
/// `hits` is in one of `hits_in_slices`, `hits_waiting`, `slices.late` and `slices.left_out` ([`Self::is_balanced`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedBooks {
    /// Packets read.
    pub packets: u64,
    /// Packets that did not come: gaps in the card's numbers.
    pub packets_lost: u64,
    /// Gaps: one may be of several packets.
    pub gaps: u64,
    /// Packets left out because one of the same number had just come.
    pub packets_repeated: u64,
    /// Packets that arrived after one with a higher number. They were read.
    pub packets_unordered: u64,
    /// Packets that are not of this kind of front end, or too short.
    pub packets_unreadable: u64,
    /// Packets of the card, or fragments of the source, whose hits the decoder could not read.
    pub packets_undecoded: u64,
    /// Packets of other cards.
    pub packets_of_others: u64,
    /// Packets with bytes at their end that are no whole record; the others were read.
    pub packets_torn: u64,
    /// Live sources: packets dropped because too many waited to be read.
    pub packets_dropped: u64,
    /// Records that are neither hits nor readings of the clock.
    pub records_skipped: u64,
    /// Pulses of the reference that the clock followed.
    pub pulses: u64,
    /// Pulses that came at another time than expected.
    pub pulses_refused: u64,
    /// Resets of the counter.
    pub resets: u64,
    /// Hits with a time.
    pub hits: u64,
    /// Hits before the first time marker or pulse.
    pub hits_untimed: u64,
    /// Hits whose time is before the timeline, or too far on it: check tick and offset.
    pub hits_off_timeline: u64,
    /// Time markers of such a time.
    pub markers_off_timeline: u64,
    /// Hits in at least one slice that was given to the readout unit.
    pub hits_in_slices: u64,
    /// Hits of slices that were not complete, or not given to the readout unit, so far.
    pub hits_waiting: u64,
    /// Counts of the ordering of hits.
    pub order: DisorderStats,
    /// Counts of their division into slices.
    pub slices: SlicerStats,
}

/// Packets that came by a way which several cards share, and are of none that is read.
#[derive(Debug, Default)]
pub(super) struct Strays {
    pub(super) unreadable: u64,
    pub(super) of_others: u64,
}

impl FeedBooks {
    /// Returns whether every hit with a time is in exactly one place.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.hits == self.hits_in_slices + self.hits_waiting + self.slices.late + self.slices.left_out
    }

    /// Every counter with its name, in a fixed order: for reports and tables.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("packets", self.packets),
            ("packets_lost", self.packets_lost),
            ("gaps", self.gaps),
            ("packets_repeated", self.packets_repeated),
            ("packets_unordered", self.packets_unordered),
            ("packets_unreadable", self.packets_unreadable),
            ("packets_undecoded", self.packets_undecoded),
            ("packets_of_others", self.packets_of_others),
            ("packets_torn", self.packets_torn),
            ("packets_dropped", self.packets_dropped),
            ("records_skipped", self.records_skipped),
            ("pulses", self.pulses),
            ("pulses_refused", self.pulses_refused),
            ("resets", self.resets),
            ("hits", self.hits),
            ("hits_untimed", self.hits_untimed),
            ("hits_off_timeline", self.hits_off_timeline),
            ("markers_off_timeline", self.markers_off_timeline),
            ("hits_in_slices", self.hits_in_slices),
            ("hits_waiting", self.hits_waiting),
            ("hits_unsorted", self.order.unsorted),
            ("hits_overdue", self.order.late),
            ("hits_late", self.slices.late),
            ("hits_forced", self.order.forced),
            ("hits_left_out", self.slices.left_out),
            ("hit_places_lacking", self.slices.places_lacking),
            ("slices", self.slices.slices),
            ("slices_empty", self.slices.empty),
            ("slices_passed", self.slices.passed),
        ]
        .into_iter()
    }
}

/// Turns the packets of one card into its time slices.
#[derive(Debug)]
pub struct SliceFeed {
    card: SourceId,
    decoder: Box<dyn Decoder>,
    clock: Clock,
    /// Time 0 of the run, and the unit of times, if hits count from the time of their fragment.
    fragments: Option<(Timestamp, TickScale)>,
    order: Disorder<Hit>,
    slicer: Slicer<Hit>,
    /// The highest packet number, and the latest.
    numbers: Option<(u64, u64)>,
    slices: SliceConfig,
    /// The time that the source had reached when it ended.
    ended: Option<Moment>,
    last_failure: Option<DecodeFailure>,
    books: FeedBooks,
}

impl SliceFeed {
    /// A feed that saw no packet yet.
    ///
    /// # Errors
    /// A [`FeedError`].
    pub fn new(decoder: Box<dyn Decoder>, config: FeedConfig) -> Result<Self, FeedError> {
        let bits = config.bits.unwrap_or(decoder.counter_bits().time);
        let FeedConfig { tick, drift, offset, .. } = config;
        let clock = ClockConfig { tick, drift, bits, offset };
        Ok(Self {
            card: config.card,
            clock: match config.pulses {
                Some(pulses) => Clock::following(clock, pulses)?,
                None => Clock::new(clock)?,
            },
            fragments: config.times.fragments()?,
            order: Disorder::new(config.tolerance, config.held_hits),
            slicer: Slicer::new(config.slices)?,
            decoder,
            numbers: None,
            slices: config.slices,
            ended: None,
            last_failure: None,
            books: FeedBooks::default(),
        })
    }

    /// The card.
    #[must_use]
    pub fn card(&self) -> SourceId {
        self.card
    }

    /// Begins with this slice, so that several cards begin together.
    pub fn begin_with(&mut self, slice: u64) {
        self.slicer.begin_with(slice);
    }

    /// Takes a packet. Packets of other cards and invalid packets are counted and ignored.
    pub fn packet(&mut self, packet: &[u8]) {
        let head = match self.decoder.head(packet) {
            Ok(head) if head.card == self.card => head,
            Ok(_) => return self.books.packets_of_others += 1,
            Err(_) => return self.books.packets_unreadable += 1,
        };
        let packet = Packet { source: self.card, event: EventId(0), time: Timestamp::ZERO, bytes: packet };
        self.read(head, None, &packet);
    }

    /// Takes a fragment of the source. Only a decoder may use its event id: a fragment is a packet here.
    pub fn fragment(&mut self, event: EventId, time: Timestamp, payload: &[u8]) {
        let packet = Packet { source: self.card, event, time, bytes: payload };
        match self.decoder.head(payload) {
            Ok(head) => self.read(head, Some(time), &packet),
            Err(error) => self.note_failure(DecodeFailure(error.to_string())),
        }
    }

    /// Reads a packet, or the payload of a fragment with a time.
    fn read(&mut self, head: PacketHead, time: Option<Timestamp>, packet: &Packet<'_>) {
        if !self.note_number(head) {
            return self.books.packets_repeated += 1;
        }
        let origin = self.fragments.as_ref().zip(time).map(|((zero, scale), time)| {
            let since_zero = time.0.checked_sub(zero.0)?;
            scale.at(u128::from(since_zero)).map(Picos)
        });
        let Self { decoder, clock, order, slicer, books, slices, .. } = self;
        let mut times = Times { clock, origin };
        // The source has come to the time of its fragment, even if that holds no hits. It is there from the first such time on, and
        // fragments as late as the tolerance may follow.
        if let Some(begin) = times.origin.and_then(|_| times.moment(0).ok()) {
            order.advance(begin);
            slicer.begin_with(slices.number(order.watermark()));
        }
        let read = decoder.read(packet, &mut |reading| {
            // A hit that is later than the tolerance has its place while its slice waits. The slicer counts the others.
            if let Err((at, hit)) = take(&mut times, order, books, reading) {
                slicer.push(at, hit);
            }
        });
        match read {
            Ok(()) => self.books.packets += 1,
            Err(failure) => self.note_failure(failure),
        }
        self.cut();
    }

    fn note_failure(&mut self, failure: DecodeFailure) {
        self.books.packets_undecoded += 1;
        self.last_failure = Some(failure);
    }

    /// Follows the card's packet numbers. `false`: this one has just come, or is the highest, which has come before.
    fn note_number(&mut self, head: PacketHead) -> bool {
        let Some(range) = u64::MAX.checked_shr(64 - self.decoder.counter_bits().packet) else {
            // Packets without numbers.
            return true;
        };
        let Some((highest, latest)) = self.numbers else {
            self.numbers = Some((head.number, head.number));
            return true;
        };
        if head.number == latest || head.number == highest {
            return false;
        }
        let ahead = head.number.wrapping_sub(highest) & range;
        if ahead <= range / 2 {
            self.books.packets_lost += ahead - 1;
            self.books.gaps += u64::from(ahead > 1);
            self.numbers = Some((head.number, head.number));
        } else {
            // It had been taken for lost.
            self.books.packets_unordered += 1;
            self.books.packets_lost = self.books.packets_lost.saturating_sub(1);
            self.numbers = Some((highest, head.number));
        }
        true
    }

    /// Counts packets that were dropped before they arrived here.
    pub(super) fn note_dropped(&mut self, packets: u64) {
        self.books.packets_dropped += packets;
    }

    /// Counts packets that are in no other account.
    pub(super) fn note_strays(&mut self, strays: Strays) {
        self.books.packets_unreadable += strays.unreadable;
        self.books.packets_of_others += strays.of_others;
    }

    /// Nothing more comes: all that is held goes out.
    pub fn finish(&mut self) {
        self.ended.get_or_insert(self.order.latest());
        self.order.finish();
        self.cut();
        self.slicer.finish();
    }

    /// Returns the last slice whose end the source had reached when it [finished](Self::finish). `None`: it has not finished, or
    /// reached no end.
    #[must_use]
    pub fn last_whole(&self) -> Option<u64> {
        self.slices.number(self.ended?).checked_sub(1)
    }

    /// Returns the reason why the last of the packets that the decoder failed to read could not be read.
    #[must_use]
    pub fn last_failure(&self) -> Option<&DecodeFailure> {
        self.last_failure.as_ref()
    }

    /// Returns the slice that follows those that were polled. `None`: the source has not begun.
    #[must_use]
    pub fn next_slice(&self) -> Option<u64> {
        self.slicer.next()
    }

    fn cut(&mut self) {
        while let Some((at, hit)) = self.order.pop() {
            self.slicer.push(at, hit);
        }
        let watermark = self.order.watermark();
        if watermark != Moment::MAX {
            self.slicer.advance(watermark);
        }
    }

    /// The next whole slice.
    pub fn poll(&mut self) -> Option<Slice<Hit>> {
        self.slicer.poll()
    }

    /// Returns the fates of packets and hits. Slices that were polled are in slices.
    #[must_use]
    pub fn books(&self) -> FeedBooks {
        let slices = self.slicer.stats();
        FeedBooks {
            order: self.order.stats(),
            slices,
            hits_in_slices: slices.taken,
            hits_waiting: self.order.waiting() + self.slicer.waiting(),
            ..self.books
        }
    }
}

#[cfg(test)]
mod tests;
