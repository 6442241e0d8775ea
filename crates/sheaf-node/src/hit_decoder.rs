//! Decoders of hits from libraries, and of hits that a process has found.

use sheaf_filter::abi::{self, TIME_MARKER, TIME_PULSE, TIME_PULSE_RESET, TIME_RESET};
use sheaf_filter::{LibraryDecoder, OpenError, RawFragment, Setup};
use sheaf_source::timed::{
    CounterBits, DecodeFailure, Decoder, HitRecords, Packet, PacketError, PacketHead, Reading,
};
use sheaf_wire::{Hit, SourceId};
use std::path::Path;

/// Passes hits of 16 bytes, as functions in Python give them, to `take`. Their channel may be [`TIME_MARKER`] and the like.
pub fn read_hits(bytes: &[u8], take: &mut dyn FnMut(Reading)) {
    let Ok(hits) = sheaf_wire::hit::hits(bytes) else { return take(Reading::Remainder) };
    for Hit { time_ps: time, channel, value, extra } in hits {
        take(reading(abi::Hit { time, channel, value, extra }));
    }
}

/// Returns the reading that a hit of a decoder stands for.
#[inline]
fn reading(hit: abi::Hit) -> Reading {
    let abi::Hit { time, channel, value, extra } = hit;
    match channel {
        TIME_MARKER => Reading::Marker { time },
        TIME_PULSE => Reading::Pulse { time, resets: false },
        TIME_PULSE_RESET => Reading::Pulse { time, resets: true },
        TIME_RESET => Reading::Reset { time },
        channel => Reading::Hit { time, channel, value, extra },
    }
}

/// A decoder of fragments that a process has decoded.
#[derive(Clone, Copy, Debug)]
pub struct FoundHits {
    /// Bits of their times.
    pub counter_bits: u32,
}

impl Decoder for FoundHits {
    fn head(&self, _packet: &[u8]) -> Result<PacketHead, PacketError> {
        Ok(PacketHead { card: SourceId(0), number: 0 })
    }

    fn read(&mut self, packet: &Packet<'_>, take: &mut dyn FnMut(Reading)) -> Result<(), DecodeFailure> {
        read_hits(packet.bytes, take);
        Ok(())
    }

    fn counter_bits(&self) -> CounterBits {
        CounterBits { time: self.counter_bits, packet: 0 }
    }
}

/// A decoder from a shared library.
#[derive(Debug)]
pub struct HitDecoder {
    library: LibraryDecoder,
    /// Reads the heads of packets. `None`: fragments, which have none.
    heads: Option<HitRecords>,
    counter_bits: u32,
}

impl HitDecoder {
    /// Opens the library at `path` for one source, with room for `max_hits` hits of a fragment. Times have `counter_bits` bits.
    /// `heads` reads the heads of packets; fragments need none.
    ///
    /// # Errors
    /// An [`OpenError`].
    pub fn open(
        (path, symbol): (&Path, &str),
        setup: &Setup,
        max_hits: usize,
        counter_bits: u32,
        heads: Option<HitRecords>,
    ) -> Result<Self, OpenError> {
        Ok(Self { library: LibraryDecoder::open(path, symbol, setup, max_hits)?, heads, counter_bits })
    }
}

impl Decoder for HitDecoder {
    fn head(&self, packet: &[u8]) -> Result<PacketHead, PacketError> {
        match &self.heads {
            Some(heads) => heads.head(packet),
            None => Ok(PacketHead { card: SourceId(0), number: 0 }),
        }
    }

    fn read(&mut self, packet: &Packet<'_>, take: &mut dyn FnMut(Reading)) -> Result<(), DecodeFailure> {
        let Packet { source, event, time, bytes: payload } = *packet;
        let decoded = self.library.decode(&RawFragment { event, source, time, payload });
        let decoded = decoded.map_err(|failure| DecodeFailure(failure.0))?;
        decoded.hits.iter().for_each(|hit| take(reading(*hit)));
        (0..decoded.skipped).for_each(|_| take(Reading::Other));
        Ok(())
    }

    fn counter_bits(&self) -> CounterBits {
        let packet = self.heads.as_ref().map_or(0, |heads| heads.counter_bits().packet);
        CounterBits { time: self.counter_bits, packet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_of_readings_of_the_clock_are_no_hits() {
        let channels = [7, TIME_MARKER, TIME_PULSE, TIME_PULSE_RESET, TIME_RESET];
        let mut bytes = Vec::new();
        for (time_ps, channel) in (10..).zip(channels) {
            bytes.extend(Hit { time_ps, channel, value: 3, extra: 4 }.to_bytes());
        }
        let mut found = Vec::new();
        read_hits(&bytes, &mut |reading| found.push(reading));
        let expected = [
            Reading::Hit { time: 10, channel: 7, value: 3, extra: 4 },
            Reading::Marker { time: 11 },
            Reading::Pulse { time: 12, resets: false },
            Reading::Pulse { time: 13, resets: true },
            Reading::Reset { time: 14 },
        ];
        assert_eq!(found, expected);
    }
}
