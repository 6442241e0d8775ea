//! Accepted events that are not written yet: heads and small payloads side by side in one buffer, large payloads as
//! handles.

use super::storage::PartFile;
use bytes::Bytes;
use sheaf_wire::checksum::crc32c_append;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;

/// Maximum size of a payload that is copied after its head; a larger one is written from where it was received. The
/// copy brings the payload into the nearest cache, so that the checksum is cheap, and a call that writes one piece of
/// memory is faster than one with many at odd addresses. Measured on a 2-core virtual machine with Linux 6.18, with
/// events of 4 fragments on ext4, in percent of plain writes: with fragments of 2,000 bytes 83 % copied and 66 % as
/// slices, with 4,000 bytes 85 and 78 %, with 8,000 bytes 83 and 86 %, with 32,000 bytes 81 and 96 %.
const COPY_BYTES: usize = 6 << 10;

/// Maximum number of slices of one vectored write: Linux's `IOV_MAX`.
const SLICES: usize = 1024;

#[derive(Debug)]
enum Piece {
    /// A range of `Pending::copied`.
    Copied(Range<usize>),
    Payload(Bytes),
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Self::Copied(range) => range.len() as u64,
            Self::Payload(payload) => payload.len() as u64,
        }
    }
}

/// An event.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Number of its pieces.
    pieces: usize,
    bytes: u64,
    /// The checksum of the file up to its end.
    checksum: u32,
}

/// Events on their way to a file, in order. Each stays until all of it is in the file.
#[derive(Debug, Default)]
pub(super) struct Pending {
    copied: Vec<u8>,
    pieces: Vec<Piece>,
    units: Vec<Unit>,
    bytes: u64,
    /// Bytes of the first unit that are in the file already.
    begun: u64,
}

/// Result of an attempt to write pending pieces.
#[derive(Debug)]
pub(super) struct Written {
    /// Events that are in the file now as a whole, and were not before.
    pub(super) units: usize,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Bytes behind them, of an event that is not whole.
    pub(super) partial_bytes: u64,
    /// Calls of the operating system.
    pub(super) calls: u64,
    /// The checksum of the file up to the last event that is in it now; `None` where there is no further one.
    pub(super) checksum: Option<u32>,
    /// Error that kept the rest from being written.
    pub(super) error: Option<io::Error>,
}

impl Pending {
    /// Bytes of the events that are not in the file as a whole.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the first of them that are in the file already.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Events that are not in the file as a whole.
    pub(super) fn units(&self) -> usize {
        self.units.len()
    }

    /// Adds an event: `head` appends its first part and returns any other error; the payloads follow in order.
    /// `checksum` is that of the file so far, for the first event.
    pub(super) fn push<'a, E>(
        &mut self,
        checksum: u32,
        head: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
        payloads: impl Iterator<Item = &'a Bytes>,
    ) -> Result<u64, E> {
        let (mut start, first_piece) = (self.copied.len(), self.pieces.len());
        head(&mut self.copied).inspect_err(|_| self.copied.truncate(start))?;
        let mut checksum = self.units.last().map_or(checksum, |unit| unit.checksum);
        let mut bytes = (self.copied.len() - start) as u64;
        for payload in payloads {
            bytes += payload.len() as u64;
            if payload.len() <= COPY_BYTES {
                self.copied.extend_from_slice(payload);
            } else {
                checksum = crc32c_append(checksum, &self.copied[start..]);
                checksum = crc32c_append(checksum, payload);
                self.pieces.push(Piece::Copied(start..self.copied.len()));
                start = self.copied.len();
                self.pieces.push(Piece::Payload(payload.clone()));
            }
        }
        // Once for all that was copied side by side: a checksum of a kilobyte takes hardly longer than one of 250 bytes.
        checksum = crc32c_append(checksum, &self.copied[start..]);
        self.pieces.push(Piece::Copied(start..self.copied.len()));
        self.units.push(Unit { pieces: self.pieces.len() - first_piece, bytes, checksum });
        self.bytes += bytes;
        Ok(bytes)
    }

    /// Writes up to `limit` bytes of the pending events to `file`. Events that are completely in the file are no longer
    /// pending. After an error, none counts as begun: parts of it in the file are to be truncated.
    pub(super) fn write_to(&mut self, file: &mut impl PartFile, limit: u64) -> Written {
        let mut slices = self.slices(limit);
        let (total, calls, error) = append_all(file, &mut slices);
        let there = self.begun + total;
        let mut written = Written { units: 0, bytes: 0, partial_bytes: 0, calls, checksum: None, error };
        for unit in &self.units {
            if written.bytes + unit.bytes > there {
                break;
            }
            written.bytes += unit.bytes;
            written.units += 1;
            written.checksum = Some(unit.checksum);
        }
        written.partial_bytes = there - written.bytes;
        self.begun = if written.error.is_none() { written.partial_bytes } else { 0 };
        self.forget(written.units, written.bytes);
        written
    }

    /// Returns up to `limit` bytes of the pending events. Adjacent copies form one slice.
    fn slices(&self, limit: u64) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::new();
        let mut merged = 0..0;
        let (mut skipped, mut left) = (self.begun, limit);
        for piece in &self.pieces {
            let skip = skipped.min(piece.len());
            skipped -= skip;
            let bytes = left.min(piece.len() - skip);
            left -= bytes;
            // Both fit, because they are lengths inside a piece of memory.
            let (skip, end) = (skip as usize, (skip + bytes) as usize);
            match piece {
                Piece::Copied(range) => {
                    let range = range.start + skip..range.start + end;
                    if merged.end == range.start {
                        merged.end = range.end;
                    } else {
                        slices.push(IoSlice::new(&self.copied[std::mem::replace(&mut merged, range)]));
                    }
                }
                Piece::Payload(payload) => {
                    slices.push(IoSlice::new(&self.copied[std::mem::replace(&mut merged, 0..0)]));
                    slices.push(IoSlice::new(&payload[skip..end]));
                }
            }
            if left == 0 {
                break;
            }
        }
        slices.push(IoSlice::new(&self.copied[merged]));
        slices.retain(|slice| !slice.is_empty());
        slices
    }

    fn forget(&mut self, units: usize, bytes: u64) {
        if units == self.units.len() {
            self.clear();
            return;
        }
        let pieces: usize = self.units.drain(..units).map(|unit| unit.pieces).sum();
        self.pieces.drain(..pieces);
        self.bytes -= bytes;
        // A piece that was copied begins every event.
        if let Some(Piece::Copied(first)) = self.pieces.first() {
            let start = first.start;
            self.copied.drain(..start);
            for piece in &mut self.pieces {
                if let Piece::Copied(range) = piece {
                    *range = range.start - start..range.end - start;
                }
            }
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.copied.clear();
        self.pieces.clear();
        self.units.clear();
        self.bytes = 0;
        self.begun = 0;
    }
}

/// Appends all of `slices`; returns the number of bytes appended, the number of calls, and the error, if any.
pub(super) fn append_all(
    file: &mut impl PartFile,
    mut slices: &mut [IoSlice<'_>],
) -> (u64, u64, Option<io::Error>) {
    let (mut total, mut calls) = (0, 0);
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        calls += 1;
        match file.append(&slices[..slices.len().min(SLICES)]) {
            Ok(0) => return (total, calls, Some(ErrorKind::WriteZero.into())),
            Ok(bytes) => {
                total += bytes as u64;
                IoSlice::advance_slices(&mut slices, bytes);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (total, calls, Some(error)),
        }
    }
    (total, calls, None)
}
