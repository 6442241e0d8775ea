//! An event as filters see it: fragments where they are, nothing copied.
//!
//! [`Scratch`] turns an event into the structs of [`abi`], in memory that is used again for the next event;
//! [`EventView`] reads them.

#![allow(unsafe_code)]

use crate::abi;
use bytes::Bytes;
use sheaf_wire::{Event, EventId, MissingReason, SourceId, Timestamp, TriggerType};
use std::marker::PhantomData;
use std::ptr;
use std::slice;

/// An event and its fragments, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct EventView<'a> {
    event: &'a abi::Event,
}

/// Fragment of one source.
#[derive(Clone, Copy, Debug)]
pub struct FragmentView<'a> {
    fragment: &'a abi::Fragment,
}

impl<'a> EventView<'a> {
    /// # Safety
    /// For the lifetime `'a`, `event` and the memory behind its pointers must be valid as documented for [`abi::Event`], and
    /// must not be written to.
    pub(crate) unsafe fn new(event: &'a abi::Event) -> Self {
        Self { event }
    }

    /// The event's number.
    #[must_use]
    pub fn id(&self) -> EventId {
        EventId(self.event.id)
    }

    /// Time of the trigger.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        Timestamp(self.event.time_ns)
    }

    /// Returns the type of the trigger.
    #[must_use]
    pub fn trigger_type(&self) -> TriggerType {
        // The host makes it of 16 bits.
        TriggerType(self.event.trigger_type as u16)
    }

    /// Whether a required source is missing.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.event.incomplete != 0
    }

    /// The fragments, in ascending order of source.
    pub fn fragments(&self) -> impl ExactSizeIterator<Item = FragmentView<'a>> + use<'a> {
        // SAFETY: `new` guarantees this number of fragments for 'a; an empty list may have any pointer.
        let fragments: &'a [abi::Fragment] = unsafe { list(self.event.fragments, self.event.fragment_count) };
        fragments.iter().map(|fragment| FragmentView { fragment })
    }

    /// The missing sources, in ascending order, and why they are missing; `None` for a reason that this version does
    /// not know.
    pub fn missing(&self) -> impl ExactSizeIterator<Item = (SourceId, Option<MissingReason>)> + use<'a> {
        // SAFETY: as above.
        let missing: &'a [abi::Missing] = unsafe { list(self.event.missing, self.event.missing_count) };
        let reason = |code| u8::try_from(code).ok().and_then(MissingReason::from_code);
        missing.iter().map(move |missing| (SourceId(missing.source), reason(missing.reason)))
    }
}

impl<'a> FragmentView<'a> {
    /// Whose it is.
    #[must_use]
    pub fn source(&self) -> SourceId {
        SourceId(self.fragment.source)
    }

    /// The source's own time of the event; zero where it has none.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        Timestamp(self.fragment.time_ns)
    }

    /// Whether the readout unit's preprocessor made the payload.
    #[must_use]
    pub fn is_processed(&self) -> bool {
        self.fragment.processed != 0
    }

    /// Whether the check value of the fragment disagrees with that of its event: it may belong to another event.
    #[must_use]
    pub fn disagrees(&self) -> bool {
        self.fragment.disagrees != 0
    }

    /// The check value of the fragment minus that of its event; `None` if it agrees or was not compared.
    #[must_use]
    pub fn difference(&self) -> Option<i64> {
        self.disagrees().then(|| self.fragment.difference.into())
    }

    /// Whether the readout unit has changed the event number that the source gave.
    #[must_use]
    pub fn is_renumbered(&self) -> bool {
        self.fragment.renumbered != 0
    }

    /// Number of events by which the readout unit has moved the fragment; `None` if it has not, or if the fragment disagrees
    /// nevertheless.
    #[must_use]
    pub fn moved_by(&self) -> Option<i64> {
        (self.is_renumbered() && !self.disagrees()).then(|| self.fragment.difference.into())
    }

    /// The bytes.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        // SAFETY: `EventView::new` guarantees this number of bytes for 'a.
        unsafe { list(self.fragment.data, self.fragment.bytes) }
    }
}

/// # Safety
/// For the lifetime `'a`, `first` must point to `count` values that are not written to. If `count` is 0, `first` may be
/// any pointer.
unsafe fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { slice::from_raw_parts(first, count) }
}

/// Memory for the structs of one event, used again for the next.
#[derive(Debug, Default)]
pub struct Scratch {
    fragments: Vec<abi::Fragment>,
    missing: Vec<abi::Missing>,
}

// SAFETY: the pointers in the lists are read only through the value that `event` returns, which borrows the event that
// they point into. Pointers that remain in the lists afterwards are never read.
unsafe impl Send for Scratch {}

/// An event's structs; what they point into is borrowed.
#[derive(Debug)]
pub struct Borrowed<'a> {
    event: abi::Event,
    of: PhantomData<&'a Event<Bytes>>,
}

impl Scratch {
    /// The structs of `event`.
    pub fn event<'a>(&'a mut self, event: &'a Event<Bytes>) -> Borrowed<'a> {
        self.fragments.clear();
        self.fragments.extend(event.fragments.iter().map(abi::Fragment::of));
        self.missing.clear();
        self.missing.extend(event.missing.iter().map(|missing| abi::Missing {
            source: missing.source.0,
            reason: u32::from(missing.reason.code()),
        }));
        let event = abi::Event {
            id: event.id.0,
            time_ns: event.time.0,
            trigger_type: u32::from(event.trigger_type.0),
            attempt: u32::from(event.attempt),
            incomplete: u32::from(event.incomplete),
            reserved: 0,
            fragments: self.fragments.as_ptr(),
            fragment_count: self.fragments.len(),
            missing: self.missing.as_ptr(),
            missing_count: self.missing.len(),
        };
        Borrowed { event, of: PhantomData }
    }
}

impl Borrowed<'_> {
    /// As libraries are given it.
    #[must_use]
    pub fn as_ptr(&self) -> *const abi::Event {
        ptr::from_ref(&self.event)
    }

    /// As C programs are given it; what it points into is not kept alive by it.
    #[must_use]
    pub fn to_abi(&self) -> abi::Event {
        self.event
    }

    /// As Rust reads it.
    #[must_use]
    pub fn view(&self) -> EventView<'_> {
        // SAFETY: `Scratch::event` made the pointers from values that are borrowed as long as `self`.
        unsafe { EventView::new(&self.event) }
    }
}

#[cfg(test)]
mod tests;
