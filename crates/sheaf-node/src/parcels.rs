//! The pieces of memory whose fragments a readout unit holds.

use bytes::Bytes;
use sheaf_wire::Span;
use std::collections::VecDeque;

/// Parcels, with the number of fragments of each that are still held. A single thread counts, so the count is a plain
/// number; only the parcel as a whole and the sent parts of it are reference-counted.
#[derive(Debug, Default)]
pub(crate) struct Parcels {
    parcels: Vec<Parcel>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Parcel {
    payload: Bytes,
    held: u32,
}

impl Parcels {
    /// Keeps a parcel while any of its fragments is held; there is at least one.
    pub(crate) fn keep(&mut self, payload: Bytes, fragments: usize) -> u32 {
        let held = u32::try_from(fragments).expect("a batch is short");
        debug_assert!(held > 0, "a parcel without fragments would be kept forever");
        let parcel = Parcel { payload, held };
        if let Some(number) = self.free.pop() {
            self.parcels[number as usize] = parcel;
            return number;
        }
        self.parcels.push(parcel);
        u32::try_from(self.parcels.len() - 1).expect("parcels are bounded by the fragments held")
    }

    /// A fragment is not held any more.
    pub(crate) fn release(&mut self, span: Span) {
        let parcel = &mut self.parcels[span.parcel as usize];
        parcel.held -= 1;
        if parcel.held == 0 {
            parcel.payload = Bytes::new();
            self.free.push(span.parcel);
        }
    }

    /// The bytes of a span.
    pub(crate) fn payload(&self, span: Span) -> Bytes {
        self.piece(span)
    }

    /// The bytes of spans that lie one after another, as one piece.
    fn piece(&self, run: Span) -> Bytes {
        let from = run.offset as usize;
        self.parcels[run.parcel as usize].payload.slice(from..from + run.length as usize)
    }
}

/// Collects payloads for a frame. Payloads that are adjacent in memory are joined to one piece.
#[derive(Debug)]
pub(crate) struct Joined<'a> {
    parcels: &'a Parcels,
    /// The piece that may be extended; empty before the first payload.
    run: Span,
    pieces: VecDeque<Bytes>,
}

impl<'a> Joined<'a> {
    pub(crate) fn new(parcels: &'a Parcels) -> Self {
        Self { parcels, run: Span::default(), pieces: VecDeque::new() }
    }

    /// Takes the next payload.
    #[inline]
    pub(crate) fn push(&mut self, span: Span) {
        // A parcel is shorter than 4 GiB, and so are adjacent payloads in it.
        let is_next = span.offset == self.run.offset + self.run.length;
        if is_next && span.parcel == self.run.parcel {
            self.run.length += span.length;
        } else {
            self.begin(span);
        }
    }

    fn begin(&mut self, span: Span) {
        let run = std::mem::replace(&mut self.run, span);
        if run.length > 0 {
            self.pieces.push_back(self.parcels.piece(run));
        }
    }

    /// The pieces. None is empty.
    pub(crate) fn finish(mut self) -> VecDeque<Bytes> {
        self.begin(Span::default());
        self.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(parcel: u32, offset: u32, length: u32) -> Span {
        Span { parcel, offset, length }
    }

    #[test]
    fn neighbours_travel_as_one_piece_and_others_do_not() {
        let mut parcels = Parcels::default();
        let first = parcels.keep(Bytes::from_static(b"abcdefghij"), 4);
        let second = parcels.keep(Bytes::from_static(b"klmnop"), 2);
        let mut joined = Joined::new(&parcels);
        let spans =
            [span(first, 0, 2), span(first, 2, 0), span(first, 2, 3), span(first, 6, 1), span(second, 0, 6)];
        spans.into_iter().for_each(|span| joined.push(span));
        assert_eq!(joined.finish(), [&b"abcde"[..], b"g", b"klmnop"]);
    }

    #[test]
    fn a_parcel_goes_with_its_last_fragment() {
        let memory = Bytes::from(vec![7; 10]);
        let mut parcels = Parcels::default();
        let number = parcels.keep(memory.clone(), 2);
        parcels.release(span(number, 0, 5));
        assert!(!memory.is_unique());
        parcels.release(span(number, 5, 5));
        assert!(memory.is_unique());
        assert_eq!(parcels.keep(Bytes::new(), 1), number, "its number is used again");
    }
}
