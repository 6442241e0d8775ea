//! The UDP payloads of a capture: a pcap or pcapng file, as tcpdump and Wireshark write them.

use etherparse::{SlicedPacket, TransportSlice};
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Number of bytes of one read; grows for a larger block, up to [`LARGEST_BLOCK_BYTES`].
const BUFFER_BYTES: usize = 256 << 10;

/// A block that claims to be larger is no block: the largest packets are of 64 KiB.
const LARGEST_BLOCK_BYTES: usize = 16 << 20;

/// Reason why a capture cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The operating system refused.
    #[error("cannot read {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Description.
        #[source]
        source: io::Error,
    },
    /// Not a capture.
    #[error("{path} is not a capture: it begins neither as a pcap file nor as a pcapng file")]
    NotACapture {
        /// The file.
        path: PathBuf,
    },
    /// Damaged.
    #[error("{path} is damaged after packet {packets}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Packets before the damage.
        packets: u64,
        /// Description of the error.
        what: String,
    },
    /// The link is of a kind that is not understood.
    #[error("{path} was captured on a link of type {link_type}; supported are Ethernet (1) and raw IP (101)")]
    LinkType {
        /// The file.
        path: PathBuf,
        /// Its number.
        link_type: i32,
    },
}

/// Counts of a capture's contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureStats {
    /// Packets.
    pub packets: u64,
    /// Of them, with a UDP payload.
    pub datagrams: u64,
    /// Of them, pieces of IP packets that were cut up on their way: they are left out.
    pub ip_pieces: u64,
    /// Of them, shorter in the file than they were on the wire: they are left out.
    pub cut_short: u64,
}

/// A capture that is being read.
pub struct Capture {
    path: PathBuf,
    reader: Box<dyn PcapReaderIterator + Send>,
    /// Link types of the interfaces of the present section.
    links: Vec<Linktype>,
    /// Number of bytes of the last block.
    looked_at: usize,
    payload: Vec<u8>,
    stats: CaptureStats,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("path", &self.path)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

enum Packet<'a> {
    Of(Linktype, &'a [u8]),
    CutShort,
    None,
}

impl Capture {
    /// Opens a file.
    ///
    /// # Errors
    /// A [`CaptureError`].
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let io = |source| CaptureError::Io { path: path.to_owned(), source };
        Self::read(path, sheaf_store::regular::open(path).map_err(io)?)
    }

    /// Reads a capture from `file`; `path` is its name in messages.
    ///
    /// # Errors
    /// A [`CaptureError`].
    pub fn read(path: &Path, file: impl Read + Send + 'static) -> Result<Self, CaptureError> {
        let reader = create_reader(BUFFER_BYTES, file).map_err(|error| match error {
            PcapError::ReadError => {
                CaptureError::Io { path: path.to_owned(), source: io::Error::other("reading failed") }
            }
            _ => CaptureError::NotACapture { path: path.to_owned() },
        })?;
        Ok(Self {
            path: path.to_owned(),
            reader,
            links: Vec::new(),
            looked_at: 0,
            payload: Vec::new(),
            stats: CaptureStats::default(),
        })
    }

    /// Returns the payload of the next UDP datagram.
    ///
    /// # Errors
    /// A [`CaptureError`]; nothing can be read behind it. What was read before a [`CaptureError::Damaged`] is whole: a capture whose
    /// program was killed ends within a packet.
    pub fn next_payload(&mut self) -> Result<Option<&[u8]>, CaptureError> {
        loop {
            self.reader.consume(std::mem::take(&mut self.looked_at));
            match self.reader.next() {
                Ok((bytes, block)) => {
                    self.looked_at = bytes;
                    let packet = packet(&mut self.links, &block);
                    if take(packet, &mut self.payload, &mut self.stats).map_err(|Linktype(link_type)| {
                        CaptureError::LinkType { path: self.path.clone(), link_type }
                    })? {
                        return Ok(Some(&self.payload));
                    }
                }
                Err(PcapError::Eof) => return Ok(None),
                Err(PcapError::Incomplete(_)) => self.refill()?,
                Err(error) => {
                    let what = error.to_string();
                    return Err(self.damaged(what));
                }
            }
        }
    }

    fn refill(&mut self) -> Result<(), CaptureError> {
        if self.reader.reader_exhausted() {
            return Err(self.damaged("it ends within a block".to_owned()));
        }
        // A block that fills the buffer needs a larger one.
        if self.reader.data().len() >= BUFFER_BYTES / 2 && !self.reader.grow(LARGEST_BLOCK_BYTES) {
            return Err(self.damaged(format!("a block is larger than {LARGEST_BLOCK_BYTES} bytes")));
        }
        let failure = self.reader.refill().err().map(|error| error.to_string());
        failure.map_or(Ok(()), |what| Err(self.damaged(what)))
    }

    fn damaged(&self, what: String) -> CaptureError {
        CaptureError::Damaged { path: self.path.clone(), packets: self.stats.packets, what }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn stats(&self) -> CaptureStats {
        self.stats
    }
}

/// The packet in a block, if there is one.
fn packet<'a>(links: &mut Vec<Linktype>, block: &'a PcapBlockOwned<'_>) -> Packet<'a> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => *links = vec![header.network],
        PcapBlockOwned::Legacy(packet) => {
            return whole(links.first(), packet.data, packet.origlen);
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => links.clear(),
        PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => links.push(interface.linktype),
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            return whole(links.get(packet.if_id as usize), packet.packet_data(), packet.origlen);
        }
        PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
            return whole(links.first(), packet.packet_data(), packet.origlen);
        }
        PcapBlockOwned::NG(_) => {}
    }
    Packet::None
}

fn whole<'a>(link: Option<&Linktype>, data: &'a [u8], on_the_wire: u32) -> Packet<'a> {
    match link {
        Some(link) if data.len() >= on_the_wire as usize => Packet::Of(*link, data),
        _ => Packet::CutShort,
    }
}

/// Puts the packet's UDP payload into `payload`. `Ok(false)`: it has none.
fn take(packet: Packet<'_>, payload: &mut Vec<u8>, stats: &mut CaptureStats) -> Result<bool, Linktype> {
    let (link, data) = match packet {
        Packet::None => return Ok(false),
        Packet::CutShort => {
            stats.packets += 1;
            stats.cut_short += 1;
            return Ok(false);
        }
        Packet::Of(link, data) => (link, data),
    };
    stats.packets += 1;
    let sliced = match link {
        Linktype::ETHERNET => SlicedPacket::from_ethernet(data),
        Linktype::RAW => SlicedPacket::from_ip(data),
        other => return Err(other),
    };
    // Packets that cannot be decoded belong to other protocols.
    let Ok(sliced) = sliced else { return Ok(false) };
    stats.ip_pieces += u64::from(sliced.is_ip_payload_fragmented());
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { return Ok(false) };
    stats.datagrams += 1;
    payload.clear();
    payload.extend_from_slice(udp.payload());
    Ok(true)
}

#[cfg(test)]
mod tests;
