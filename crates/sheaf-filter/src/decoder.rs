//! Decoders, which find the hits in fragments of self-triggered front ends.

#![allow(unsafe_code)]

use crate::abi::{self, DecoderTable};
use crate::filter::FilterFailure;
use crate::loading::{self, Kind, Loaded, MESSAGE_BYTES, OpenError, Setup, Whose};
use crate::preprocess::RawFragment;
use crate::text;
use std::path::Path;
use std::{ptr, slice};

/// Hits of a fragment, as a decoder has found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedHits<'a> {
    /// The hits and readings of the clock ([`abi::TIME_MARKER`] and the like), in any order of time.
    pub hits: &'a [abi::Hit],
    /// Number of records that are neither hits nor readings of the clock.
    pub skipped: u64,
}

/// A decoder from a shared library.
#[derive(Debug)]
pub struct LibraryDecoder {
    decoder: Loaded,
    decode: abi::DecodeFragment,
    room: Vec<abi::Hit>,
}

impl LibraryDecoder {
    /// Loads the library at `path` and makes a decoder of the table that its function `symbol` gives. A fragment may have up to `room`
    /// hits.
    ///
    /// The library's code runs in this process, with all its rights.
    ///
    /// # Errors
    /// Why that is not possible, and what would be right.
    pub fn open(path: &Path, symbol: &str, setup: &Setup, room: usize) -> Result<Self, OpenError> {
        let (table, whose, library) = loading::open::<DecoderTable>(path, symbol)?;
        let decoder = loading::make(&table, setup, &whose, Some(library))?;
        Self::of(&table, decoder, &whose, room)
    }

    /// Makes a decoder of a table of this program.
    ///
    /// # Errors
    /// If the table is not valid, with the reason and the valid values.
    ///
    /// # Safety
    /// `table` must be null, or a table whose functions behave as documented for [`DecoderTable`] as long as the decoder
    /// lives.
    pub unsafe fn of_table(
        table: *const DecoderTable,
        setup: &Setup,
        room: usize,
    ) -> Result<Self, OpenError> {
        let whose = Whose::Program(Kind::Decoder);
        // SAFETY: promised by the caller.
        let table = unsafe { loading::read_table(table, &whose)? };
        let decoder = loading::make(&table, setup, &whose, None)?;
        Self::of(&table, decoder, &whose, room)
    }

    fn of(table: &DecoderTable, decoder: Loaded, whose: &Whose, room: usize) -> Result<Self, OpenError> {
        let decode = table.decode.ok_or_else(|| whose.bad_table("`decode` is null"))?;
        Ok(Self { decoder, decode, room: vec![abi::Hit::default(); room] })
    }

    /// Decodes a fragment.
    ///
    /// # Errors
    /// A [`FilterFailure`] if the decoder fails, or its result is invalid. There are no hits of the fragment then.
    pub fn decode(&mut self, fragment: &RawFragment<'_>) -> Result<DecodedHits<'_>, FilterFailure> {
        let raw = abi::RawFragment {
            event: fragment.event.0,
            time_ns: fragment.time.0,
            source: fragment.source.0,
            reserved: 0,
            data: fragment.payload.as_ptr(),
            bytes: fragment.payload.len(),
        };
        let room = self.room.len();
        let mut decoded =
            abi::Decoded { hits: self.room.as_mut_ptr(), room, count: 0, skipped: 0, failure: ptr::null() };
        // SAFETY: a function of the interface, a thing that it made and has not unmade, structs that outlive the call.
        let status = unsafe { (self.decode)(self.decoder.as_ptr(), &raw const raw, &raw mut decoded) };
        if status != 0 {
            // SAFETY: null or a text with a NUL, which is valid until the decoder is called again.
            let failure = unsafe { text::read(decoded.failure, MESSAGE_BYTES) };
            return Err(FilterFailure(failure.unwrap_or_else(|| format!("the decoder returned {status}"))));
        }
        let abi::Decoded { count, skipped, .. } = decoded;
        match self.room.get(..count) {
            Some(hits) => Ok(DecodedHits { hits, skipped }),
            None => Err(FilterFailure(format!(
                "the decoder found {count} hits in a fragment, but at most {room} fit (`source.decoder.max_hits`)"
            ))),
        }
    }
}

/// Room for the hits of a fragment, which a decoder in Rust fills.
#[derive(Debug)]
pub struct HitRoom<'a> {
    hits: &'a mut [abi::Hit],
    count: usize,
    skipped: u64,
}

impl<'a> HitRoom<'a> {
    /// Room in a buffer of the caller, valid as documented for [`abi::Decoded`].
    ///
    /// # Safety
    /// `decoded.hits` must point to `decoded.room` hits that only the returned room accesses while it lives.
    pub(crate) unsafe fn of(decoded: &abi::Decoded) -> Self {
        // SAFETY: promised by the caller.
        let hits = unsafe { slice::from_raw_parts_mut(decoded.hits, decoded.room) };
        Self { hits, count: 0, skipped: 0 }
    }

    /// Takes a hit. More hits than there is room for make the fragment a failure.
    #[inline]
    pub fn hit(&mut self, hit: abi::Hit) {
        if let Some(place) = self.hits.get_mut(self.count) {
            *place = hit;
        }
        self.count += 1;
    }

    /// Tells that the source's time has come to `time`, in ticks.
    #[inline]
    pub fn marker(&mut self, time: u64) {
        self.hit(abi::Hit { time, channel: abi::TIME_MARKER, value: 0, extra: 0 });
    }

    /// Tells that a pulse of the reference came when the source's clock read `time`. If the pulse `resets` the counter, this is its last
    /// reading before.
    #[inline]
    pub fn pulse(&mut self, time: u64, resets: bool) {
        let channel = if resets { abi::TIME_PULSE_RESET } else { abi::TIME_PULSE };
        self.hit(abi::Hit { time, channel, value: 0, extra: 0 });
    }

    /// Tells that the source's counter restarts at 0 after it read `time`. Hits that were read before must have been given.
    #[inline]
    pub fn reset(&mut self, time: u64) {
        self.hit(abi::Hit { time, channel: abi::TIME_RESET, value: 0, extra: 0 });
    }

    /// Counts a record that is neither a hit nor a reading of the clock.
    #[inline]
    pub fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Returns the number of hits and readings of the clock, and of records that are neither.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.count, self.skipped)
    }
}

#[cfg(test)]
mod tests;
