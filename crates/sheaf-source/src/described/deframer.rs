//! Packets in a stream of bytes.
//!
//! A stream has no boundaries: a packet ends where its length says. If a length is impossible or `magic` is missing, the next
//! packet is searched byte by byte. A packet that was found so counts only if another begins where it ends. What is decided
//! depends on the bytes alone, and not on the pieces in which they come.

use super::description::{Description, DescriptionError, Length};
use super::field::{Field, Mark, Origin};
use std::io;
use std::ops::{AddAssign, Range};

/// Room for the bytes of one read.
pub const READ_BYTES: usize = 64 << 10;

/// Reads that the buffer has room for besides the largest packet, so that its rest is moved seldom.
const READS: usize = 4;

/// Length of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketLength {
    /// The number. Its origin is the packet.
    pub field: Field,
    /// Number of bytes of one unit of it, at least 1.
    pub unit_bytes: u64,
    /// Whether it counts the header of the packet, too.
    pub counts_header: bool,
}

/// Boundaries of the packets in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEnding {
    /// Length of the packet. `None`: a packet has one fragment, whose length is described.
    pub packet_length: Option<PacketLength>,
    /// Bytes of a packet with a mark of `keep_alive` or `reset`. `None`: as its length says.
    pub marked_bytes: Option<usize>,
    /// Largest packet, in bytes.
    pub max_packet: usize,
}

/// Counts of the bytes of streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Times that a stream did not continue with a packet.
    pub resynchronisations: u64,
    /// Bytes that are in no packet.
    pub bytes_skipped: u64,
    /// Streams that ended within a packet.
    pub packets_cut: u64,
}

impl AddAssign for FrameCounts {
    fn add_assign(&mut self, other: Self) {
        self.resynchronisations += other.resynchronisations;
        self.bytes_skipped += other.bytes_skipped;
        self.packets_cut += other.packets_cut;
    }
}

/// Result of [`Deframer::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextPacket {
    /// A packet: [`Deframer::bytes`] returns it.
    Packet(Range<usize>),
    /// More bytes are needed; at the end of the stream there are none.
    More,
    /// Nothing tells where the next packet begins: the stream is of no more use.
    Lost,
}

/// Beginning of a packet.
enum Head {
    NeedsMore,
    /// A packet of this many bytes.
    Packet(usize),
    /// No packet begins here.
    Bad,
}

/// Divides a stream into packets.
#[derive(Debug)]
pub struct Deframer {
    ending: PacketEnding,
    buffer: Vec<u8>,
    /// The bytes that were not divided.
    rest: Range<usize>,
    is_searching: bool,
    counts: FrameCounts,
}

impl PacketEnding {
    /// Checks that packets of `description` can be told apart in a stream.
    ///
    /// # Errors
    /// A [`DescriptionError`].
    pub fn check(&self, description: &Description) -> Result<(), DescriptionError> {
        if let Some(bytes) = self.marked_bytes
            && let Some(end) = marks(description).map(end).find(|end| *end > bytes)
        {
            return Err(DescriptionError::MarkBeyondPacket { bytes, end });
        }
        let Some(length) = self.packet_length else {
            let is_enough = description.length.is_some() && !description.several;
            return if is_enough { Ok(()) } else { Err(DescriptionError::NoPacketLength) };
        };
        length.field.check("packet_length", false)?;
        if length.unit_bytes == 0 {
            return Err(DescriptionError::NoUnit);
        }
        Ok(())
    }

    /// Returns the bytes that are needed at most to tell what begins with them.
    fn head_bytes(&self, description: &Description) -> usize {
        let packet_header = description.packet_header_bytes;
        let fields = [self.packet_length.map(|length| length.field), description.length.map(|one| one.field)];
        let fields = fields.into_iter().flatten().map(|field| field.range().end + packet_header);
        let marks = marks(description).chain(&description.magic).map(end);
        fields.chain(marks).max().unwrap_or_default()
    }

    /// Tells what begins with `bytes`. `is_end`: no more follow.
    fn head(&self, description: &Description, bytes: &[u8], is_end: bool) -> Head {
        if let Some(marked) = self.marked_bytes {
            if marks(description).any(|mark| mark.is_in(bytes)) {
                return Head::Packet(marked);
            }
            if !is_end && marks(description).any(|mark| may_become(mark, bytes)) {
                return Head::NeedsMore;
            }
        }
        let packet = match self.length(description, bytes) {
            None => return Head::NeedsMore,
            Some(packet) => packet.filter(|packet| (1..=self.max_packet).contains(packet)),
        };
        let Some(packet) = packet else { return Head::Bad };
        let is_inside = |mark: &&Mark| end(mark) <= packet;
        let mut inside = marks(description).chain(&description.magic).filter(is_inside);
        if inside.any(|mark| end(mark) > bytes.len()) {
            return Head::NeedsMore;
        }
        let is_marked = marks(description).filter(is_inside).any(|mark| mark.is_in(bytes));
        // A short keep-alive may end before `magic`.
        let may_lack = |mark: &&Mark| packet < description.keep_alive_below && end(mark) > packet;
        let mut magic = description.magic.iter().filter(|mark| !may_lack(mark));
        if is_marked || magic.all(|mark| is_inside(&mark) && mark.is_in(bytes)) {
            Head::Packet(packet)
        } else {
            Head::Bad
        }
    }

    /// Returns the length of the packet at the beginning of `bytes`; `Some(None)` if it is impossible. `None`: there are too few.
    fn length(&self, description: &Description, bytes: &[u8]) -> Option<Option<usize>> {
        let packet_header = description.packet_header_bytes;
        if let Some(PacketLength { field, unit_bytes, counts_header }) = self.packet_length {
            let counted = field.read(bytes)?.saturating_mul(unit_bytes);
            let more = if counts_header { 0 } else { packet_header as u64 };
            let all = usize::try_from(counted.saturating_add(more)).ok();
            return Some(all.filter(|all| *all >= field.range().end));
        }
        let length: Length = description.length?;
        let from = if length.field.origin == Origin::Packet { 0 } else { packet_header };
        let shown = length.field.read(bytes.get(from..)?)?;
        let piece = description.span_of(length, shown, self.max_packet).ok();
        Some(piece.map(|piece| piece.saturating_add(packet_header)))
    }
}

/// Returns the marks of packets without data.
fn marks(description: &Description) -> impl Iterator<Item = &Mark> {
    description.keep_alive.iter().chain(&description.reset)
}

fn end(mark: &Mark) -> usize {
    mark.offset + mark.bytes.len()
}

/// Returns whether more bytes may complete the mark.
fn may_become(mark: &Mark, bytes: &[u8]) -> bool {
    bytes.len() < end(mark) && mark.bytes.starts_with(bytes.get(mark.offset..).unwrap_or_default())
}

impl Deframer {
    /// Returns a deframer at the beginning of a stream.
    #[must_use]
    pub fn new(ending: PacketEnding, description: &Description) -> Self {
        // The largest packet, and the head of the next that confirms it.
        let largest = ending.max_packet.max(ending.marked_bytes.unwrap_or_default());
        let kept = largest.saturating_add(ending.head_bytes(description));
        let buffer = vec![0; kept.saturating_add(READS * READ_BYTES)];
        Self { ending, buffer, rest: 0..0, is_searching: false, counts: FrameCounts::default() }
    }

    /// Returns room for at least [`READ_BYTES`] that follow those before, if [`Deframer::next`] had no more packets.
    pub fn room(&mut self) -> &mut [u8] {
        if self.rest.is_empty() {
            self.rest = 0..0;
        } else if self.buffer.len() - self.rest.end < READ_BYTES {
            self.buffer.copy_within(self.rest.clone(), 0);
            self.rest = 0..self.rest.len();
        }
        &mut self.buffer[self.rest.end..]
    }

    /// Takes the first `bytes` of the room, which were written.
    pub fn handle_read(&mut self, bytes: usize) {
        self.rest.end += bytes;
    }

    /// Returns the next packet. `is_end`: the stream has ended.
    pub fn next(&mut self, description: &Description, is_end: bool) -> NextPacket {
        while !self.rest.is_empty() {
            let bytes = &self.buffer[self.rest.clone()];
            let packet = match self.ending.head(description, bytes, is_end) {
                Head::Packet(packet) if packet <= bytes.len() => packet,
                Head::Packet(_) | Head::NeedsMore if !is_end => return NextPacket::More,
                Head::Packet(_) | Head::NeedsMore if !self.is_searching => {
                    self.counts.packets_cut += 1;
                    self.skip(self.rest.len());
                    return NextPacket::More;
                }
                Head::Packet(_) | Head::NeedsMore => {
                    self.skip(1);
                    continue;
                }
                Head::Bad if description.magic.is_empty() => {
                    self.counts.resynchronisations += 1;
                    self.skip(self.rest.len());
                    return NextPacket::Lost;
                }
                Head::Bad => {
                    self.counts.resynchronisations += u64::from(!self.is_searching);
                    self.is_searching = true;
                    self.skip(1);
                    continue;
                }
            };
            if self.is_searching {
                match self.ending.head(description, &bytes[packet..], is_end) {
                    Head::NeedsMore if !is_end => return NextPacket::More,
                    Head::Bad => {
                        self.skip(1);
                        continue;
                    }
                    Head::NeedsMore | Head::Packet(_) => self.is_searching = false,
                }
            }
            let from = self.rest.start;
            self.rest.start += packet;
            return NextPacket::Packet(from..from + packet);
        }
        NextPacket::More
    }

    /// Returns a packet of [`Deframer::next`].
    #[must_use]
    pub fn bytes(&self, packet: Range<usize>) -> &[u8] {
        &self.buffer[packet]
    }

    /// Divides a whole stream and passes each packet to `take`. `read` writes the next bytes of the stream and returns their number, 0 at
    /// its end. It is not called again when nothing tells where the next packet begins.
    ///
    /// # Errors
    /// The first error of `read`.
    pub fn divide(
        mut self,
        description: &Description,
        mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<FrameCounts> {
        loop {
            let bytes = read(self.room())?;
            self.handle_read(bytes);
            loop {
                match self.next(description, bytes == 0) {
                    NextPacket::Packet(packet) => take(self.bytes(packet)),
                    NextPacket::More if bytes > 0 => break,
                    NextPacket::More | NextPacket::Lost => return Ok(self.take_counts()),
                }
            }
        }
    }

    /// Returns the counts since the last call.
    pub fn take_counts(&mut self) -> FrameCounts {
        std::mem::take(&mut self.counts)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest.start += bytes;
        self.counts.bytes_skipped += bytes as u64;
    }
}
