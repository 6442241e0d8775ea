//! Events with their verdicts, as in files and for consumers.

use bytes::Bytes;
use sheaf_filter::abi;
use sheaf_filter::view::Scratch;
use sheaf_wire::event_file;

/// An event with its verdict. Its pointers are valid until the reader or tap that returned it is used again.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StoredEvent {
    /// The event.
    pub event: abi::Event,
    /// Bit i: the i-th tag of the run; SHEAF_TAG_QUARANTINED: there is no verdict.
    pub tags: u64,
    /// Payload of the filter's verdict.
    pub payload: *const u8,
    /// Size of this payload; may be 0.
    pub payload_bytes: usize,
}

/// The event returned last, which the caller may read until the next call.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    current: Option<event_file::StoredEvent<Bytes>>,
    scratch: Scratch,
}

impl Shown {
    /// Keeps an event and returns it in its C representation.
    pub(crate) fn show(&mut self, stored: event_file::StoredEvent<Bytes>) -> StoredEvent {
        let stored = self.current.insert(stored);
        StoredEvent {
            event: self.scratch.event(&stored.event).to_abi(),
            tags: stored.verdict.tags.0,
            payload: stored.verdict.payload.as_ptr(),
            payload_bytes: stored.verdict.payload.len(),
        }
    }
}
