//! Packets in, fragments out.

use super::description::{Description, DescriptionError, PacketError, PacketKind, Piece};
use super::order::{Order, Turn};
use super::parts::{PartTurn, Parts};
use super::rollover::Rollover;
use sheaf_time::TickScale;
use sheaf_wire::{EventId, ExactNanos, Nanos, SourceId, TimeUnit, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bits of an event id below the number of its epoch.
pub const EPOCH_BITS: u32 = 48;

/// Bounds of what a decoder keeps, and the unit of its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets of a source that wait for earlier ones.
    pub waiting_packets: usize,
    /// Time that they wait at most.
    pub wait: Nanos,
    /// Fragments of a source of which only parts have come.
    pub open_fragments: usize,
    /// Largest fragment, in bytes.
    pub max_fragment: usize,
    /// Duration of a tick of the front end's clock.
    pub tick: ExactNanos,
    /// Unit of the times of fragments.
    pub unit: TimeUnit,
}

/// A fragment that was decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described<'a> {
    /// Its event.
    pub event: EventId,
    /// Its source.
    pub source: SourceId,
    /// Its time; that of the arrival of its packet if no time is described.
    pub time: Timestamp,
    /// Its payload.
    pub payload: &'a [u8],
}

/// Fates of packets and fragments. Every packet that came is in one of `packets`, `packets_keep_alive`, `packets_reset`,
/// `packets_damaged` and `packets_repeated`, or waits. Every fragment in a packet is handed out or in one of `fragments_*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamBooks {
    /// Packets that were read to their end.
    pub packets: u64,
    /// Packets that hold no data.
    pub packets_keep_alive: u64,
    /// Packets that begin an epoch.
    pub packets_reset: u64,
    /// Packets that do not fit the description, by [`PacketError::NAMES`]. Their fragments before the damage are handed out.
    pub packets_damaged: [u64; PacketError::NAMES.len()],
    /// Packets with bytes after the last fragment.
    pub packets_padded: u64,
    /// Packets that have not come, by their numbers.
    pub packets_lost: u64,
    /// Packets that waited for an earlier one.
    pub packets_waited: u64,
    /// Packets that came when nothing waited for them any more. They were read.
    pub packets_late: u64,
    /// Packets that had come before. They were left out.
    pub packets_repeated: u64,
    /// Times that the number of packets began anew without a reset.
    pub packet_number_jumps: u64,
    /// Fragments of sources that are not read here.
    pub fragments_unknown_source: u64,
    /// Fragments larger than the configured maximum, or with contradicting parts.
    pub fragments_too_large: u64,
    /// Fragments whose other parts have not come.
    pub fragments_incomplete: u64,
    /// Parts of fragments that had come before. They were left out.
    pub parts_repeated: u64,
    /// Fragments with an event number before the start of the run, or beyond the range of event ids.
    pub fragments_out_of_range: u64,
    /// Live sources: fragments that found no memory.
    pub fragments_no_memory: u64,
    /// Live sources: fragments that were not taken before the run was stopped.
    pub fragments_after_stop: u64,
    /// Live sources: packets that the kernel dropped because its buffer was full.
    pub packets_dropped_by_kernel: u64,
    /// TCP: connections that were made.
    pub connections: u64,
    /// TCP: connections that the front end closed.
    pub connections_closed: u64,
    /// TCP: connections that failed, or were closed because nothing told where the next packet begins.
    pub connections_lost: u64,
    /// TCP: connections beyond the configured number.
    pub connections_refused: u64,
    /// TCP: attempts to connect that failed.
    pub connection_attempts_failed: u64,
    /// TCP: times that a stream did not continue with a packet, so that the next one was searched.
    pub resynchronisations: u64,
    /// TCP: bytes that are in no packet.
    pub bytes_skipped: u64,
    /// TCP: connections that ended within a packet.
    pub packets_cut: u64,
}

impl StreamBooks {
    /// Returns every counter with its name, in a fixed order: for reports and tables.
    pub fn fields(&self) -> impl Iterator<Item = (String, u64)> {
        let damaged = PacketError::NAMES.iter().zip(self.packets_damaged);
        let damaged: Vec<_> =
            damaged.map(|(name, packets)| (format!("packets_damaged_{name}"), packets)).collect();
        let others = [
            ("packets", self.packets),
            ("packets_keep_alive", self.packets_keep_alive),
            ("packets_reset", self.packets_reset),
            ("packets_padded", self.packets_padded),
            ("packets_lost", self.packets_lost),
            ("packets_waited", self.packets_waited),
            ("packets_late", self.packets_late),
            ("packets_repeated", self.packets_repeated),
            ("packet_number_jumps", self.packet_number_jumps),
            ("fragments_unknown_source", self.fragments_unknown_source),
            ("fragments_too_large", self.fragments_too_large),
            ("fragments_incomplete", self.fragments_incomplete),
            ("parts_repeated", self.parts_repeated),
            ("fragments_out_of_range", self.fragments_out_of_range),
            ("fragments_no_memory", self.fragments_no_memory),
            ("fragments_after_stop", self.fragments_after_stop),
            ("packets_dropped_by_kernel", self.packets_dropped_by_kernel),
            ("connections", self.connections),
            ("connections_closed", self.connections_closed),
            ("connections_lost", self.connections_lost),
            ("connections_refused", self.connections_refused),
            ("connection_attempts_failed", self.connection_attempts_failed),
            ("resynchronisations", self.resynchronisations),
            ("bytes_skipped", self.bytes_skipped),
            ("packets_cut", self.packets_cut),
        ];
        others.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(damaged)
    }
}

/// State of one source.
#[derive(Debug)]
struct Lane {
    order: Option<Order>,
    events: Rollover,
    times: Option<Rollover>,
    epoch: u64,
    parts: Parts,
    books: StreamBooks,
    last_loss: Option<String>,
}

/// Decodes the packets of the sources of a readout unit.
#[derive(Debug)]
pub struct Decoder {
    /// Shared, so that reading a packet does not copy it.
    description: Arc<Description>,
    limits: Limits,
    scale: TickScale,
    lanes: BTreeMap<SourceId, Lane>,
    /// Source of packets without one.
    first: SourceId,
    /// Counts of packets of which the source is not known.
    strays: StreamBooks,
    last_error: Option<PacketError>,
}

type Take<'a> = &'a mut dyn FnMut(Described<'_>);

impl Decoder {
    /// Returns a decoder for the packets of `sources`. Packets without source id are of the first.
    ///
    /// # Errors
    /// If the description cannot be used.
    ///
    /// # Panics
    /// If there are no sources.
    pub fn new(
        description: Description,
        limits: Limits,
        sources: &[SourceId],
    ) -> Result<Self, DescriptionError> {
        description.check()?;
        let tick = limits.tick;
        let scale = TickScale::new(tick, ExactNanos::ZERO, limits.unit.duration());
        let scale = scale.ok_or(DescriptionError::Tick(tick))?;
        let lane = || Lane {
            order: description
                .packet_number
                .map(|number| Order::new(number.bits(), limits.waiting_packets, limits.wait)),
            events: Rollover::new(description.event.bits()),
            times: description.time.map(|time| Rollover::new(time.bits())),
            epoch: 0,
            parts: Parts::new(limits.open_fragments, limits.max_fragment),
            books: StreamBooks::default(),
            last_loss: None,
        };
        let lanes = sources.iter().map(|source| (*source, lane())).collect();
        let first = *sources.first().expect("a readout unit has sources");
        let description = Arc::new(description);
        Ok(Self {
            description,
            limits,
            scale,
            lanes,
            first,
            strays: StreamBooks::default(),
            last_error: None,
        })
    }

    /// Returns the description of the packets.
    #[must_use]
    pub fn description(&self) -> Arc<Description> {
        Arc::clone(&self.description)
    }

    /// Takes a packet that came at `now`, and passes the fragments that can be read to `take`.
    pub fn handle_packet(&mut self, now: Timestamp, packet: &[u8], take: Take<'_>) {
        let sender = self.sender(packet);
        match self.description.kind(packet) {
            Ok(PacketKind::Data) => {}
            Ok(PacketKind::KeepAlive) => return self.books_of(sender).packets_keep_alive += 1,
            Ok(PacketKind::Reset) => return self.reset(now, sender, take),
            Err(error) => return self.damaged(sender, error),
        }
        let number = self.description.packet_number.map(|field| field.read(packet));
        match (number, sender.and_then(|sender| Some((sender, self.lanes.get_mut(&sender)?.order.as_mut()?))))
        {
            (Some(Some(number)), Some((sender, order))) => match order.handle(now, number, packet) {
                Turn::Now => self.read(now, packet, take),
                Turn::Waits | Turn::Repeated => {}
                Turn::Jumped => {
                    self.restart(now, sender, take);
                    self.order(sender).map(|order| order.handle(now, number, packet));
                    self.read(now, packet, take);
                }
            },
            // It is too short for its number, of a source that is not read, or has no number.
            _ => self.read(now, packet, take),
        }
        if let Some(sender) = sender {
            self.pass_held(now, sender, take);
        }
    }

    /// Passes the packets that have waited long enough.
    pub fn handle_timeout(&mut self, now: Timestamp, take: Take<'_>) {
        if self.description.packet_number.is_none() {
            return;
        }
        let sources: Vec<SourceId> = self.lanes.keys().copied().collect();
        for source in sources {
            self.pass_held(now, source, take);
        }
    }

    /// Passes everything that waits: no more packets come.
    pub fn finish(&mut self, now: Timestamp, take: Take<'_>) {
        let sources: Vec<SourceId> = self.lanes.keys().copied().collect();
        for source in sources {
            self.restart(now, source, take);
            if let Some(lane) = self.lanes.get_mut(&source) {
                lane.books.fragments_incomplete += lane.parts.clear() as u64;
            }
        }
    }

    /// Returns the accounts of a source. Packets of which the source is not known are in that of the first.
    #[must_use]
    pub fn books(&self, source: SourceId) -> StreamBooks {
        let mut books = if source == self.first { self.strays.clone() } else { StreamBooks::default() };
        let Some(lane) = self.lanes.get(&source) else { return books };
        let counts = lane.order.as_ref().map(Order::counts).unwrap_or_default();
        let damaged = books.packets_damaged.iter_mut().zip(lane.books.packets_damaged);
        damaged.for_each(|(sum, packets)| *sum += packets);
        StreamBooks {
            packets: books.packets + lane.books.packets,
            packets_keep_alive: books.packets_keep_alive + lane.books.packets_keep_alive,
            packets_reset: books.packets_reset + lane.books.packets_reset,
            packets_damaged: books.packets_damaged,
            packets_padded: books.packets_padded + lane.books.packets_padded,
            packets_lost: counts.lost,
            packets_waited: counts.waited,
            packets_late: counts.late,
            packets_repeated: counts.repeated,
            packet_number_jumps: counts.jumps,
            fragments_unknown_source: books.fragments_unknown_source,
            ..lane.books
        }
    }

    /// Returns a description of the last loss or damage of a source, if any.
    #[must_use]
    pub fn last_error(&self, source: SourceId) -> Option<String> {
        let damage = self.last_error.filter(|_| source == self.first);
        let loss = self.lanes.get(&source).and_then(|lane| lane.last_loss.clone());
        loss.or_else(|| Some(format!("a packet does not fit the description: {}", damage?)))
    }

    /// Returns the source of a packet: that of its first fragment, if it can be read.
    fn sender(&self, packet: &[u8]) -> Option<SourceId> {
        match self.description.source {
            None => Some(self.first),
            Some(_) => source_of(&self.description.pieces(packet).next()?.ok()?, self.first),
        }
    }

    fn order(&mut self, source: SourceId) -> Option<&mut Order> {
        self.lanes.get_mut(&source)?.order.as_mut()
    }

    fn books_of(&mut self, source: Option<SourceId>) -> &mut StreamBooks {
        source.and_then(|source| self.lanes.get_mut(&source)).map_or(&mut self.strays, |lane| &mut lane.books)
    }

    fn damaged(&mut self, sender: Option<SourceId>, error: PacketError) {
        self.last_error = Some(error);
        self.books_of(sender).packets_damaged[error.index()] += 1;
    }

    /// Begins an epoch of the sender; of all sources where the packet does not tell the sender.
    fn reset(&mut self, now: Timestamp, sender: Option<SourceId>, take: Take<'_>) {
        let known = sender.filter(|sender| self.lanes.contains_key(sender));
        self.books_of(known).packets_reset += 1;
        let of: Vec<SourceId> = known.map_or_else(|| self.lanes.keys().copied().collect(), |one| vec![one]);
        for source in of {
            self.restart(now, source, take);
            let Some(lane) = self.lanes.get_mut(&source) else { continue };
            lane.books.fragments_incomplete += lane.parts.clear() as u64;
            lane.events.restart();
            lane.epoch += 1;
            if let Some(times) = &mut lane.times {
                times.restart();
            }
        }
    }

    /// Passes the packets of a source that wait, and begins their numbers anew.
    fn restart(&mut self, now: Timestamp, source: SourceId, take: Take<'_>) {
        while let Some(packet) = self.order(source).and_then(Order::take_held) {
            self.note_losses(source);
            self.read(now, &packet, take);
        }
        if let Some(order) = self.order(source) {
            order.restart();
        }
    }

    fn pass_held(&mut self, now: Timestamp, source: SourceId, take: Take<'_>) {
        while let Some(packet) = self.order(source).and_then(|order| order.next_held(now)) {
            self.note_losses(source);
            self.read(now, &packet, take);
            if let Some(order) = self.order(source) {
                order.give_back(packet);
            }
        }
    }

    /// Names the packets that were given up since the last call.
    fn note_losses(&mut self, source: SourceId) {
        let Some(lane) = self.lanes.get_mut(&source) else { return };
        let lost = lane.order.as_ref().map_or(0, |order| order.counts().lost);
        let before = std::mem::replace(&mut lane.books.packets_lost, lost);
        if lost > before {
            let after = lane.events.last().map_or("the start".to_owned(), |event| format!("event {event}"));
            let packets = if lost - before == 1 { "packet" } else { "packets" };
            lane.last_loss = Some(format!("{} {packets} lost after {after}", lost - before));
        }
    }

    /// Reads all pieces of a packet.
    fn read(&mut self, now: Timestamp, packet: &[u8], take: Take<'_>) {
        let description = Arc::clone(&self.description);
        let mut pieces = description.pieces(packet);
        let mut sender = None;
        for piece in pieces.by_ref() {
            match piece {
                Ok(piece) => {
                    let source = source_of(&piece, self.first);
                    sender = sender.or(source);
                    self.read_piece(now, packet, &piece, source, take);
                }
                Err(error) => return self.damaged(sender, error),
            }
        }
        let books = self.books_of(sender);
        books.packets += 1;
        books.packets_padded += u64::from(pieces.rest() > 0);
    }

    fn read_piece(
        &mut self,
        now: Timestamp,
        packet: &[u8],
        piece: &Piece,
        source: Option<SourceId>,
        take: Take<'_>,
    ) {
        let (limits, has_parts) = (self.limits, self.description.last.is_some());
        let Some((source, lane)) = source.and_then(|source| Some((source, self.lanes.get_mut(&source)?)))
        else {
            self.strays.fragments_unknown_source += 1;
            return;
        };
        let Some(event) = lane.event(piece.event) else {
            lane.books.fragments_out_of_range += 1;
            return;
        };
        let time = lane.time(now, piece.time, &self.scale);
        let payload = &packet[piece.payload.clone()];
        let is_whole_already = !has_parts || (piece.is_last && piece.part == Some(0));
        let payload = if is_whole_already {
            payload
        } else {
            match lane.take_part(event, piece, payload) {
                true => lane.parts.whole(),
                false => return,
            }
        };
        if payload.len() > limits.max_fragment {
            lane.books.fragments_too_large += 1;
            return;
        }
        take(Described { event, source, time, payload });
    }
}

/// Returns the source of a piece; `None` if its number is larger than ids are.
fn source_of(piece: &Piece, only: SourceId) -> Option<SourceId> {
    piece.source.map_or(Some(only), |source| u32::try_from(source).ok().map(SourceId))
}

impl Lane {
    fn event(&mut self, shown: u64) -> Option<EventId> {
        let number = self.events.unroll(shown)?;
        if self.epoch == 0 {
            return Some(EventId(number));
        }
        let epoch = self.epoch.checked_mul(1 << EPOCH_BITS)?;
        (number >> EPOCH_BITS == 0).then(|| epoch.checked_add(number).map(EventId))?
    }

    fn time(&mut self, now: Timestamp, shown: Option<u64>, scale: &TickScale) -> Timestamp {
        let (Some(shown), Some(times)) = (shown, &mut self.times) else { return now };
        let ticks = times.unroll(shown).unwrap_or_default();
        Timestamp(scale.at(u128::from(ticks)).unwrap_or(u64::MAX))
    }

    /// Returns whether the part completes its fragment.
    fn take_part(&mut self, event: EventId, piece: &Piece, payload: &[u8]) -> bool {
        let turn = self.parts.handle(event.0, piece.part, piece.is_last, payload);
        match turn {
            PartTurn::Whole => return true,
            PartTurn::Waits => {}
            PartTurn::Repeated => self.books.parts_repeated += 1,
            PartTurn::Refused => self.books.fragments_too_large += 1,
        }
        while let Some(event) = self.parts.give_up() {
            self.books.fragments_incomplete += 1;
            self.last_loss = Some(format!("event {event}: not all parts of the fragment came"));
        }
        false
    }
}
