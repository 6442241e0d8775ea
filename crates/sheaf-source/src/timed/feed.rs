//! Packets of one card in, its time slices out.

use super::decode::{Decoder, PacketHead, Reading};
use sheaf_time::clock::ClockError;
use sheaf_time::disorder::DisorderStats;
use sheaf_time::slices::{SliceError, SlicerStats};
use sheaf_time::{Clock, ClockConfig, Disorder, Moment, Picos, Slice, SliceConfig, Slicer};
use sheaf_wire::{ClockDrift, ExactNanos, Hit, SourceId};

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
}

/// Fates of packets and hits. Every packet is in one of `packets`, `packets_repeated`, `packets_unreadable`,
/// `packets_of_others`. Every hit of a packet that was read is in one of `hits`, `hits_untimed`, `hits_off_timeline`; and every one of
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
    /// Packets of other cards.
    pub packets_of_others: u64,
    /// Packets with bytes at their end that are no whole record; the others were read.
    pub packets_torn: u64,
    /// Live sources: packets dropped because too many waited to be read.
    pub packets_dropped: u64,
    /// Records that are neither hits nor time markers.
    pub records_skipped: u64,
    /// Hits with a time.
    pub hits: u64,
    /// Hits before the first time marker.
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
            ("packets_of_others", self.packets_of_others),
            ("packets_torn", self.packets_torn),
            ("packets_dropped", self.packets_dropped),
            ("records_skipped", self.records_skipped),
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
    order: Disorder<Hit>,
    slicer: Slicer<Hit>,
    /// The highest packet number, and the latest.
    numbers: Option<(u64, u64)>,
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
            clock: Clock::new(clock)?,
            order: Disorder::new(config.tolerance, config.held_hits),
            slicer: Slicer::new(config.slices)?,
            decoder,
            numbers: None,
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
        if !self.note_number(head) {
            return self.books.packets_repeated += 1;
        }
        self.books.packets += 1;
        let Self { decoder, clock, order, slicer, books, .. } = self;
        decoder.read(packet, &mut |reading| {
            // A hit that is later than the tolerance has its place while its slice waits. The slicer counts the others.
            if let Err((at, hit)) = take(clock, order, books, reading) {
                slicer.push(at, hit);
            }
        });
        self.cut();
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
        self.order.finish();
        self.cut();
        self.slicer.finish();
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

/// Takes a reading. Returns a hit that is too late to be sorted.
fn take(
    clock: &mut Clock,
    order: &mut Disorder<Hit>,
    books: &mut FeedBooks,
    reading: Reading,
) -> Result<(), (Moment, Hit)> {
    match reading {
        Reading::Hit { time, channel, value, extra } => match clock.read(time) {
            Ok(at) => {
                books.hits += 1;
                let hit = Hit { time_ps: at.0, channel, value, extra };
                return order.push(at, hit).map_err(|hit| (at, hit));
            }
            Err(_) => books.hits_off_timeline += 1,
        },
        Reading::Marker { time } => match clock.read(time) {
            Ok(at) => order.advance(at),
            Err(_) => books.markers_off_timeline += 1,
        },
        Reading::Untimed => books.hits_untimed += 1,
        Reading::Other => books.records_skipped += 1,
        Reading::Remainder => books.packets_torn += 1,
    }
    Ok(())
}

#[cfg(test)]
mod tests;
