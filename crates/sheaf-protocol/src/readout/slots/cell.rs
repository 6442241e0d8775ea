//! Cells: one for each source of an event.

use sheaf_wire::message::SuperFragments;
use sheaf_wire::{EventId, Fragment, MissingReason, MissingSource, NumberMark, Payload, SourceId, Timestamp};

/// State of one source in one event.
#[derive(Clone, Debug)]
pub(in crate::readout) enum Cell<P> {
    Waiting,
    Here(Held<P>),
    Missing(MissingReason),
}

/// A fragment without its event and source, which follow from its position.
#[derive(Clone, Debug)]
pub(in crate::readout) struct Held<P> {
    time: Timestamp,
    checksum: Option<u32>,
    processed: bool,
    mark: NumberMark,
    payload: P,
}

/// Two cells share a cache line.
const _: () = assert!(size_of::<Cell<sheaf_wire::Span>>() == 32);

impl<P: Payload> Cell<P> {
    /// Returns the cell of a fragment that is here.
    #[inline(always)]
    pub(super) fn of(fragment: &Fragment<P>) -> Self {
        let Fragment { time, checksum, processed, mark, ref payload, .. } = *fragment;
        Self::Here(Held { time, checksum, processed, mark, payload: payload.clone() })
    }

    /// Makes the source awaited again. Returns the payload that was here, if any.
    #[inline]
    pub(super) fn empty(&mut self) -> Option<P> {
        match std::mem::replace(self, Self::Waiting) {
            Self::Here(held) => Some(held.payload),
            Self::Waiting | Self::Missing(_) => None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Here(held) => held.payload.len() as u64,
            Self::Waiting | Self::Missing(_) => 0,
        }
    }
}

impl<P: Payload> Held<P> {
    /// Returns whether another fragment of the same event and source has other content, by its length and its checksum.
    pub(in crate::readout) fn conflicts_with(&self, fragment: &Fragment<P>) -> bool {
        let checksums = self.checksum.zip(fragment.checksum);
        self.payload.len() != fragment.payload.len() || checksums.is_some_and(|(held, other)| held != other)
    }

    #[inline]
    pub(super) fn to_fragment(&self, event: EventId, source: SourceId) -> Fragment<P> {
        let Self { time, checksum, processed, mark, payload } = self;
        Fragment {
            event,
            source,
            time: *time,
            checksum: *checksum,
            processed: *processed,
            mark: *mark,
            payload: payload.clone(),
        }
    }
}

/// Returns cells of sources that are awaited.
pub(super) fn waiting_cells<P>(count: usize) -> Vec<Cell<P>> {
    std::iter::repeat_with(|| Cell::Waiting).take(count).collect()
}

/// Appends what is known of the sources that are wanted. Returns the number of fragments and of missing sources, each at most
/// 65,535 as the configuration ensures.
#[inline]
pub(super) fn append<P: Payload>(
    event: EventId,
    sources: &[SourceId],
    cells: &[Cell<P>],
    is_wanted: impl Fn(usize) -> bool,
    answers: &mut SuperFragments<P>,
) -> (u16, u16) {
    let (mut fragments, mut missing) = (0, 0);
    for (place, (source, cell)) in sources.iter().zip(cells).enumerate() {
        match cell {
            _ if !is_wanted(place) => {}
            Cell::Here(held) => {
                answers.fragments.push(held.to_fragment(event, *source));
                fragments += 1;
            }
            Cell::Missing(reason) => {
                answers.missing.push(MissingSource { source: *source, reason: *reason });
                missing += 1;
            }
            Cell::Waiting => debug_assert!(false, "event {event}: answered while a source is awaited"),
        }
    }
    (fragments, missing)
}
