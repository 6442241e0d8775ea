//! The common part of libraries that are polled: of sources and of triggers.

use super::{c_failure, guarded, make_boxed};
use crate::abi::{PolledFragment, PolledTrigger};
use crate::device::PollEnd;
use crate::filter::FilterFailure;
use std::ffi::{CString, c_char, c_void};
use std::ptr;

/// An element of a batch, which points to its payload.
pub(super) trait Head: Copy {
    fn bytes(&self) -> usize;
    fn set_data(&mut self, data: *const u8);
}

macro_rules! heads {
    ($($head:ty),*) => {$(
        impl Head for $head {
            fn bytes(&self) -> usize {
                self.bytes
            }

            fn set_data(&mut self, data: *const u8) {
                self.data = data;
            }
        }
    )*};
}

heads! { PolledFragment, PolledTrigger }

/// Room for the elements of a poll, and for their payloads.
#[derive(Debug)]
pub(super) struct Room<'a, H> {
    heads: &'a mut Vec<H>,
    bytes: &'a mut Vec<u8>,
    room: usize,
}

impl<H> Room<'_, H> {
    pub(super) fn left(&self) -> usize {
        self.room - self.heads.len()
    }

    /// Adds an element, whose size is that of the payload. Returns whether there was room for it.
    pub(super) fn push(&mut self, head: H, payload: &[u8]) -> bool {
        let has_room = self.left() > 0;
        if has_room {
            self.bytes.extend_from_slice(payload);
            self.heads.push(head);
        }
        has_room
    }
}

/// A plugin as a library has it, with what the caller still reads after a call.
pub(super) struct Exported<P, H> {
    plugin: P,
    heads: Vec<H>,
    bytes: Vec<u8>,
    failure: CString,
}

impl<P, H: Head> Exported<P, H> {
    /// Opens a plugin as the `open` of a table does: a box of this type, or null and a message.
    ///
    /// # Safety
    /// `message_bytes` may be written at `message`, or it is null.
    pub(super) unsafe fn open(
        abi: u32,
        (message, message_bytes): (*mut c_char, usize),
        open: impl FnOnce() -> Result<P, FilterFailure>,
    ) -> *mut c_void {
        let exported = || {
            let plugin = open()?;
            Ok(Self { plugin, heads: Vec::new(), bytes: Vec::new(), failure: CString::default() })
        };
        // SAFETY: promised by the caller.
        unsafe { make_boxed(abi, (message, message_bytes), exported) }
    }

    /// Calls a function of the plugin that cannot report a failure. After a panic, the next poll fails if the plugin cannot go on.
    ///
    /// # Safety
    /// `thing` is what [`Self::open`] made, and is called by one thread at a time.
    pub(super) unsafe fn note(thing: *mut c_void, call: impl FnOnce(&mut P)) {
        // SAFETY: promised by the caller.
        let exported = unsafe { &mut *thing.cast::<Self>() };
        let _ = guarded(|| {
            call(&mut exported.plugin);
            Ok(())
        });
    }

    /// Polls the plugin for at most `room` elements and copies them to `list`. Returns their number and the end of the poll, or the
    /// reason of a failure.
    ///
    /// # Safety
    /// `list` has this room.
    pub(super) unsafe fn poll(
        &mut self,
        room: usize,
        list: *mut H,
        poll: impl FnOnce(&mut P, Room<'_, H>) -> Result<PollEnd, FilterFailure>,
    ) -> Result<(usize, PollEnd), *const c_char> {
        let Self { plugin, heads, bytes, failure } = self;
        heads.clear();
        bytes.clear();
        let polled = guarded(|| poll(plugin, Room { heads, bytes, room }));
        let end = polled.map_err(|error| {
            *failure = c_failure(&error);
            failure.as_ptr()
        })?;
        // The payloads stay where they are from now on.
        let mut offset = 0;
        for head in heads.iter_mut() {
            head.set_data(bytes[offset..].as_ptr());
            offset += head.bytes();
        }
        // SAFETY: the caller's list has room for as many elements as the plugin could push.
        unsafe { ptr::copy_nonoverlapping(heads.as_ptr(), list, heads.len()) };
        Ok((heads.len(), end))
    }
}
