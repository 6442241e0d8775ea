//! Sources whose events are time slices.

use super::capture::{Capture, CaptureError};
use super::decode::{DecodeFailure, Decoder, PacketHead};
use super::feed::{FeedBooks, FeedConfig, FeedError, SliceFeed, Strays};
use crate::block_writer::BlockWriter;
use crate::{Source, SourcePoll, SourceStats};
use bytes::Bytes;
use sheaf_buffer::{Block, Memory, Pool};
use sheaf_store::fragment_stream::{StreamOpenError, StreamReadError};
use sheaf_time::{Slice, SliceConfig};
use sheaf_wire::hit::HIT_BYTES;
use sheaf_wire::{ByteCount, EventId, Fragment, Hit, Nanos, NumberMark, SourceId, Timestamp};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Packets that one poll reads at most, so that a source does not hold the thread of its readout unit.
const PACKETS_A_POLL: usize = 16;

/// The largest UDP payload.
const LARGEST_PACKET_BYTES: usize = 65_535;

/// Time after an empty poll until a live source is polled again.
const LOOK_AGAIN: Nanos = Nanos(200_000);

/// Packets that wait at most for a source which the readout unit holds back.
const WAITING_PACKETS: usize = 4096;

/// Reason why a source of time slices cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TimedSourceError {
    /// Of the configuration.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// Of the file.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The decoder.
    #[error(transparent)]
    Decoder(#[from] DecodeFailure),
    /// Opening a fragment stream.
    #[error(transparent)]
    Open(#[from] StreamOpenError),
    /// Reading a fragment stream.
    #[error(transparent)]
    Stream(#[from] StreamReadError),
    /// A slice may be larger than a block.
    #[error("a slice of {items} hits has {} bytes, a block of the source {block_bytes}; allow fewer hits or make blocks larger", .items * HIT_BYTES)]
    Block {
        /// Hits that a slice may have.
        items: usize,
        /// Bytes of a block.
        block_bytes: usize,
    },
    /// No packet of the card is in the file.
    #[error("{path} has no packet of card {card}; its cards are {}", list(.cards))]
    NoCard {
        /// The file.
        path: PathBuf,
        /// The card.
        card: SourceId,
        /// The cards that it has packets of.
        cards: Vec<SourceId>,
    },
    /// No packet of any card is in the file.
    #[error("{path} has no packet of this kind of front end")]
    NoCards {
        /// The file.
        path: PathBuf,
    },
    /// The socket.
    #[error("cannot listen for packets on {address}; is it in use, or does it belong to another host?")]
    Listen {
        /// Address.
        address: SocketAddr,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// Makes a decoder that has seen no packet, or says why it cannot.
pub type DecoderMaker<'a> = &'a dyn Fn() -> Result<Box<dyn Decoder>, DecodeFailure>;

fn list(cards: &[SourceId]) -> String {
    if cards.is_empty() {
        return "none: are they of another kind of front end?".to_owned();
    }
    cards.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Writes slices into blocks, as fragments.
#[derive(Debug)]
pub(super) struct SliceWriter<M: Memory> {
    card: SourceId,
    slices: SliceConfig,
    writer: BlockWriter<M>,
    /// A slice that found no memory.
    waiting: Option<Slice<Hit>>,
    /// Number of hits in fragments.
    hits: u64,
    stats: SourceStats,
    out_of_memory: bool,
}

impl<M: Memory> SliceWriter<M> {
    pub(super) fn new(config: &FeedConfig, pool: Pool<M>) -> Result<Self, TimedSourceError> {
        let (items, block_bytes) = (config.slices.max_items, pool.block_bytes());
        if items.saturating_mul(HIT_BYTES) > block_bytes {
            return Err(TimedSourceError::Block { items, block_bytes });
        }
        Ok(Self {
            card: config.card,
            slices: config.slices,
            writer: BlockWriter::new(pool),
            waiting: None,
            hits: 0,
            stats: SourceStats::default(),
            out_of_memory: false,
        })
    }

    /// Returns the slice that found no memory, if there is one.
    pub(super) fn take_waiting(&mut self) -> Option<Slice<Hit>> {
        self.waiting.take()
    }

    pub(super) fn write(&mut self, slice: Slice<Hit>) -> SourcePoll {
        let bytes = slice.items.len() * HIT_BYTES;
        let Some(block) = self.writer.room_for(bytes) else {
            self.stats.out_of_memory += u64::from(!std::mem::replace(&mut self.out_of_memory, true));
            self.waiting = Some(slice);
            return SourcePoll::OutOfMemory;
        };
        self.out_of_memory = false;
        for (_, hit) in &slice.items {
            block.append(&hit.to_bytes());
        }
        let payload: Bytes = self.writer.cut();
        self.hits += slice.first_seen;
        self.stats.fragments += 1;
        self.stats.bytes += ByteCount::from(payload.len());
        let begin = self.slices.begin(slice.number);
        SourcePoll::Fragment(Fragment {
            event: EventId(slice.number),
            source: self.card,
            time: Timestamp(begin.0 / 1_000),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload,
        })
    }

    pub(super) fn stats(&self, books: FeedBooks) -> SourceStats {
        let waiting = self.waiting.as_ref().map_or(0, |slice| slice.first_seen);
        let (hits_in_slices, hits_waiting) = (self.hits, books.hits_waiting + waiting);
        SourceStats { timed: Some(FeedBooks { hits_in_slices, hits_waiting, ..books }), ..self.stats.clone() }
    }
}

/// A source that reads its card's packets out of a capture.
#[derive(Debug)]
pub struct CaptureSource<M: Memory> {
    capture: Option<Capture>,
    feed: SliceFeed,
    writer: SliceWriter<M>,
    /// The last slice of all cards of the file: this source gives as many as the others.
    last: u64,
    next: u64,
    stopped: bool,
}

/// State of a [`CaptureSource`] after it has read on.
enum Progress {
    /// There is a slice.
    Slice(Slice<Hit>),
    /// There is none yet.
    NotYet,
    /// All slices with hits, and those between them, were taken.
    Ended,
}

/// Cards and times of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureExtent {
    /// The cards that are read: those that were asked for, or all, in order.
    pub cards: Vec<SourceId>,
    /// The first and the last slice in which any of them saw something. Cards whose hits all lack times have none: (0, 0).
    pub slices: (u64, u64),
}

/// Reads a capture once, for all properties that its sources must know of each other: those of `cards` or, if that is
/// empty, of every card with packets in it. `config` defines how a card is read. A capture that is damaged ends there, for this function
/// as for the sources, which report it.
///
/// # Errors
/// If the file cannot be read, or lacks a card, or has none.
pub fn scan_capture(
    path: &Path,
    decoder: DecoderMaker<'_>,
    cards: &[SourceId],
    config: &dyn Fn(SourceId) -> FeedConfig,
) -> Result<CaptureExtent, TimedSourceError> {
    let heads = decoder()?;
    let mut feeds: BTreeMap<SourceId, SliceFeed> = BTreeMap::new();
    let mut others = BTreeSet::new();
    let mut range: Option<(u64, u64)> = None;
    let mut note = |feed: &mut SliceFeed| {
        while let Some(Slice { number, items, .. }) = feed.poll() {
            if !items.is_empty() {
                let (first, last) = range.unwrap_or((number, number));
                range = Some((first.min(number), last.max(number)));
            }
        }
    };
    let mut capture = Capture::open(path)?;
    loop {
        let packet = match capture.next_payload() {
            Ok(Some(packet)) => packet,
            Ok(None) | Err(CaptureError::Damaged { packets: 1.., .. }) => break,
            Err(error) => return Err(error.into()),
        };
        let Ok(PacketHead { card, .. }) = heads.head(packet) else { continue };
        if !cards.is_empty() && !cards.contains(&card) {
            others.insert(card);
            continue;
        }
        let feed = match feeds.entry(card) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(SliceFeed::new(decoder()?, config(card))?),
        };
        feed.packet(packet);
        note(feed);
    }
    for feed in feeds.values_mut() {
        feed.finish();
        note(feed);
    }
    if let Some(&card) = cards.iter().find(|card| !feeds.contains_key(card)) {
        others.extend(feeds.into_keys());
        let cards = others.into_iter().collect();
        return Err(TimedSourceError::NoCard { path: path.to_owned(), card, cards });
    }
    if feeds.is_empty() {
        return Err(TimedSourceError::NoCards { path: path.to_owned() });
    }
    let cards = if cards.is_empty() { feeds.into_keys().collect() } else { cards.to_vec() };
    Ok(CaptureExtent { cards, slices: range.unwrap_or((0, 0)) })
}

impl<M: Memory> CaptureSource<M> {
    /// Makes the source of one card; `slices` is the result of [`scan_capture`] for all cards that are read together.
    ///
    /// # Errors
    /// A [`TimedSourceError`].
    pub fn open(
        path: &Path,
        decoder: Box<dyn Decoder>,
        config: &FeedConfig,
        slices: (u64, u64),
        pool: Pool<M>,
    ) -> Result<Self, TimedSourceError> {
        let mut feed = SliceFeed::new(decoder, *config)?;
        feed.begin_with(slices.0);
        let writer = SliceWriter::new(config, pool)?;
        let capture = Some(Capture::open(path)?);
        Ok(Self { capture, feed, writer, last: slices.1, next: slices.0, stopped: false })
    }

    /// Reads on until there is a slice, or as many packets as one poll may read.
    fn read(&mut self) -> Progress {
        for _ in 0..PACKETS_A_POLL {
            if let Some(slice) = self.feed.poll() {
                return Progress::Slice(slice);
            }
            // Only a feed that has finished, and has no slice left, has ended.
            let Some(capture) = &mut self.capture else { return Progress::Ended };
            match capture.next_payload() {
                Ok(Some(packet)) => self.feed.packet(packet),
                Ok(None) => self.end_of_file(),
                Err(error) => {
                    self.writer.stats.read_errors += 1;
                    self.writer.stats.last_error = Some(error.to_string());
                    self.end_of_file();
                }
            }
        }
        Progress::NotYet
    }

    fn end_of_file(&mut self) {
        self.capture = None;
        self.feed.finish();
    }
}

impl<M: Memory> Source for CaptureSource<M> {
    fn id(&self) -> SourceId {
        self.feed.card()
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        if self.stopped {
            return SourcePoll::Ended;
        }
        let progress = self.writer.waiting.take().map_or_else(|| self.read(), Progress::Slice);
        let slice = match progress {
            Progress::Slice(slice) => slice,
            Progress::NotYet => return SourcePoll::NotBefore(now),
            // After its last hit, slices are empty, up to the last slice of all cards.
            Progress::Ended if self.next <= self.last => Slice::empty(self.next),
            Progress::Ended => return SourcePoll::Ended,
        };
        self.next = slice.number.saturating_add(1);
        self.writer.write(slice)
    }

    fn keeps_data(&self) -> bool {
        true
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn stats(&self) -> SourceStats {
        self.writer.stats(self.feed.books())
    }
}

/// A socket that several cards send to, and the packets that wait for each of them.
#[derive(Debug)]
struct Inbox {
    socket: UdpSocket,
    heads: Box<dyn Decoder>,
    waiting: BTreeMap<SourceId, Waiting>,
    buffer: Vec<u8>,
    /// Since a source last took them into its books.
    strays: Strays,
}

#[derive(Debug, Default)]
struct Waiting {
    packets: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    dropped: u64,
}

impl Inbox {
    /// Reads the packets that have arrived, up to a bound.
    fn receive(&mut self) {
        for _ in 0..PACKETS_A_POLL {
            // Errors of a UDP socket concern single packets (such as a refused answer) or are temporary.
            let Ok(bytes) = self.socket.recv(&mut self.buffer) else { return };
            let packet = &self.buffer[..bytes];
            let Ok(PacketHead { card, .. }) = self.heads.head(packet) else {
                self.strays.unreadable += 1;
                continue;
            };
            let Some(waiting) = self.waiting.get_mut(&card) else {
                self.strays.of_others += 1;
                continue;
            };
            if waiting.packets.len() >= WAITING_PACKETS {
                waiting.dropped += 1;
                continue;
            }
            let mut kept = waiting.spare.pop().unwrap_or_default();
            kept.clear();
            kept.extend_from_slice(packet);
            waiting.packets.push_back(kept);
        }
    }
}

/// A source that receives its card's packets as they arrive.
///
/// The thread of the readout unit reads the socket for all its cards; the lock is held for one read, and only that
/// unit's own sources wait for it.
#[derive(Debug)]
pub struct UdpSource<M: Memory> {
    inbox: Arc<Mutex<Inbox>>,
    feed: SliceFeed,
    writer: SliceWriter<M>,
    stopped: bool,
}

impl<M: Memory> UdpSource<M> {
    /// The sources of all cards that send to `address`, each with the pool that it writes to; and the address, with the port
    /// that the system chose where it was 0.
    ///
    /// # Errors
    /// A [`TimedSourceError`].
    pub fn listen(
        address: SocketAddr,
        decoder: DecoderMaker<'_>,
        cards: Vec<(FeedConfig, Pool<M>)>,
    ) -> Result<(Vec<Self>, SocketAddr), TimedSourceError> {
        let error = |source| TimedSourceError::Listen { address, source };
        let socket = UdpSocket::bind(address).map_err(error)?;
        socket.set_nonblocking(true).map_err(error)?;
        let bound = socket.local_addr().map_err(error)?;
        let inbox = Arc::new(Mutex::new(Inbox {
            socket,
            heads: decoder()?,
            waiting: cards.iter().map(|(config, _)| (config.card, Waiting::default())).collect(),
            buffer: vec![0; LARGEST_PACKET_BYTES],
            strays: Strays::default(),
        }));
        let source = |(config, pool): (FeedConfig, Pool<M>)| {
            Ok(Self {
                inbox: Arc::clone(&inbox),
                feed: SliceFeed::new(decoder()?, config)?,
                writer: SliceWriter::new(&config, pool)?,
                stopped: false,
            })
        };
        Ok((cards.into_iter().map(source).collect::<Result<_, TimedSourceError>>()?, bound))
    }

    fn read(&mut self) -> Option<Slice<Hit>> {
        if let Some(slice) = self.feed.poll() {
            return Some(slice);
        }
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.receive();
        // Each packet is in the account of one source, whichever read first: the sum over sources is correct.
        self.feed.note_strays(std::mem::take(&mut inbox.strays));
        let waiting = inbox.waiting.get_mut(&self.feed.card())?;
        self.feed.note_dropped(std::mem::take(&mut waiting.dropped));
        for _ in 0..PACKETS_A_POLL {
            let Some(packet) = waiting.packets.pop_front() else { break };
            self.feed.packet(&packet);
            waiting.spare.push(packet);
        }
        self.feed.poll()
    }
}

impl<M: Memory> Source for UdpSource<M> {
    fn id(&self) -> SourceId {
        self.feed.card()
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        if self.stopped {
            return SourcePoll::Ended;
        }
        match self.writer.waiting.take().or_else(|| self.read()) {
            Some(slice) => self.writer.write(slice),
            None => SourcePoll::NotBefore(now + LOOK_AGAIN),
        }
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn stats(&self) -> SourceStats {
        self.writer.stats(self.feed.books())
    }
}

#[cfg(test)]
mod tests;
