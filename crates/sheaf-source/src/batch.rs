//! Many fragments of one source at once.
//!
//! The cost of a fragment is mostly that of its handle: a count in memory that other processors touch too, a place in a
//! queue. A batch has one handle for all its fragments.

use crate::SourcePoll;
use bytes::Bytes;
use sheaf_wire::checksum::crc32c;
use sheaf_wire::{Fragment, Span, Timestamp};

/// Fragments of one source, in the order in which it made them, with their payloads in one piece.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Holds all payloads.
    pub payload: Bytes,
    /// The fragments. Their spans are within `payload`; the parcel's number is set by the code that takes the batch,
    /// and is 0 here.
    pub fragments: Vec<Fragment<Span>>,
}

/// Reason why a batch has no more fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEnd {
    /// It has the requested length, or the piece of memory is full: ask again at once.
    More,
    /// The next fragment goes not before this instant.
    NotBefore(Timestamp),
    /// Nothing now: the source wakes the readout unit when there is, after
    /// [`prepare_to_sleep`](crate::Source::prepare_to_sleep).
    Idle,
    /// The source has no memory for the next fragment: ask again when some were dropped.
    OutOfMemory,
    /// The source gives nothing more.
    Ended,
}

impl Batch {
    /// Takes a fragment from a source that returns one fragment at a time. The batch must be empty.
    pub fn take_one(&mut self, poll: SourcePoll) -> BatchEnd {
        match poll {
            SourcePoll::Fragment(Fragment { event, source, time, checksum, processed, mark, payload }) => {
                let span = Span { parcel: 0, offset: 0, length: length_u32(payload.len()) };
                self.payload = payload;
                self.fragments.push(Fragment {
                    event,
                    source,
                    time,
                    checksum,
                    processed,
                    mark,
                    payload: span,
                });
                BatchEnd::More
            }
            SourcePoll::NotBefore(at) => BatchEnd::NotBefore(at),
            SourcePoll::Idle => BatchEnd::Idle,
            SourcePoll::OutOfMemory => BatchEnd::OutOfMemory,
            SourcePoll::Ended => BatchEnd::Ended,
        }
    }

    /// Removes the last fragment, and returns it with its payload.
    pub fn pop(&mut self) -> Option<Fragment<Bytes>> {
        let Fragment { event, source, time, checksum, processed, mark, payload } = self.fragments.pop()?;
        let from = payload.offset as usize;
        let payload = self.payload.slice(from..from + payload.length as usize);
        Some(Fragment { event, source, time, checksum, processed, mark, payload })
    }

    /// Gives each fragment the checksum of its payload.
    pub(crate) fn compute_checksums(&mut self) {
        for fragment in &mut self.fragments {
            let from = fragment.payload.offset as usize;
            fragment.checksum = Some(crc32c(&self.payload[from..from + fragment.payload.length as usize]));
        }
    }
}

/// A fragment is at most 4 GiB - 1 long: its length has 32 bits on the wire.
#[inline]
pub(crate) fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("fragments and blocks are shorter than 4 GiB by configuration")
}
