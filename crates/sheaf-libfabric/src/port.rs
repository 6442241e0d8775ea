//! libfabric, made safe: a place that messages are sent from and received at.
//!
//! # Why this is sound
//! The provider reads and writes memory at any time between the start of an operation and its completion. An operation
//! therefore takes its [`Buffer`] by value, and the pieces that are sent in place with it; the port keeps both until the
//! completion, or until the endpoint is closed. Completions name the operation by the address of its context, which is
//! checked: a completion of an operation that is not under way is dropped.
#![allow(unsafe_code)]

use super::memory::{Buffer, Memory};
use super::sys::{self, Facts, RawDone, RawPiece, RawPort};
use bytes::Bytes;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, OnceLock};

/// No provider has longer names; the longest that was seen has 60 bytes (`shm`).
const MAX_NAME_BYTES: usize = 512;

/// Maximum number of completions taken with one call, as in the shim.
const COMPLETIONS: usize = 64;

/// No send has more pieces, whatever the provider allows: more are cheaper copied.
pub(super) const MAX_PIECES: usize = 16;

/// Name of the library, with the version of its binary interface.
const LIBRARY: &CStr = c"libfabric.so.1";

/// Maximum length of the reason why the library cannot be loaded.
const MAX_REASON_BYTES: usize = 512;

/// Loads libfabric when it is first needed. The error is the reason of the dynamic linker.
pub(super) fn load() -> Result<(), &'static str> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    LOADED.get_or_init(|| load_library(LIBRARY)).as_ref().copied().map_err(String::as_str)
}

/// Loads a library that offers libfabric's interface. Called once for the library that is used.
fn load_library(name: &CStr) -> Result<(), String> {
    let mut reason = [0_u8; MAX_REASON_BYTES];
    let start = reason.as_mut_ptr().cast();
    // SAFETY: a string that ends with a zero, and room of as many bytes as are announced. The functions of a library that cannot be
    // used are never called.
    let result = unsafe { sys::sheaf_port_load(name.as_ptr(), start, reason.len()) };
    let reason = CStr::from_bytes_until_nul(&reason).unwrap_or_default();
    if result == 0 { Ok(()) } else { Err(reason.to_string_lossy().into_owned()) }
}

/// Error of libfabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("libfabric: {} (code {})", self.text(), self.0)]
pub struct Fault(c_int);

impl Fault {
    fn check(result: c_int) -> Result<c_int, Self> {
        if result < 0 { Err(Self(-result)) } else { Ok(result) }
    }

    /// Returns whether to try again later.
    pub(super) fn is_again(self) -> bool {
        self.0 == sys::AGAIN
    }

    fn text(self) -> String {
        // SAFETY: a fault comes from the library, which is loaded then. It answers with a constant string for every code.
        unsafe { CStr::from_ptr(sys::sheaf_port_error(self.0)) }.to_string_lossy().into_owned()
    }
}

/// A peer, as the provider knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(u64);

/// Memory that a provider keeps with an operation: a `struct fi_context2`, which is eight pointers.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Context([*mut c_void; 8]);

/// An operation that is under way.
#[derive(Debug)]
enum Operation {
    Receive {
        buffer: Buffer,
    },
    /// Data that are sent in place, kept until they are sent.
    Send {
        buffer: Buffer,
        _pieces: VecDeque<Bytes>,
    },
}

/// An operation that is over.
#[derive(Debug)]
pub(super) enum Done {
    /// A message of `bytes` bytes arrived.
    Received { buffer: Buffer, bytes: usize },
    /// A message was sent, or could not be.
    Sent { buffer: Buffer, result: Result<(), Fault> },
    /// A buffer that was to receive something comes back without.
    NotReceived { buffer: Buffer },
}

/// An open endpoint of libfabric.
pub(super) struct Port {
    raw: NonNull<RawPort>,
    facts: Facts,
    /// By buffer: fixed in place, because the provider knows the addresses.
    contexts: Box<[Context]>,
    operations: Vec<Option<Operation>>,
    descriptor: *mut c_void,
    memory: Option<Arc<Memory>>,
}

// SAFETY: the domain was opened with FI_THREAD_DOMAIN: calls must be serialised and may come from any thread. All go through
// `&mut self`, or `&self` on one thread at a time, because a `Port` is not `Sync`.
unsafe impl Send for Port {}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Port {
    /// Opens `provider`, at the local address `source` where there is one. The library is loaded.
    pub(super) fn open(provider: &CStr, source: Option<&CStr>) -> Result<Self, Fault> {
        let mut facts = Facts::default();
        let mut raw = null_mut();
        let source = source.map_or(std::ptr::null(), CStr::as_ptr);
        assert!(load().is_ok(), "the library is loaded before a port is opened");
        // SAFETY: strings that end with a zero and live through the call; places for both results; the library is loaded.
        Fault::check(unsafe {
            sys::sheaf_port_open(provider.as_ptr(), source, &raw mut facts, &raw mut raw)
        })?;
        let raw = NonNull::new(raw).ok_or(Fault(rustix::io::Errno::INVAL.raw_os_error()))?;
        let (contexts, operations) = (Box::default(), Vec::new());
        Ok(Self { raw, facts, contexts, operations, descriptor: null_mut(), memory: None })
    }

    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the number of pieces in which payload can be sent in place; a provider that needs registered memory
    /// allows none.
    pub(super) fn sends_in_place(&self) -> usize {
        if self.facts.registers != 0 { 1 } else { (self.facts.pieces as usize).clamp(1, MAX_PIECES) }
    }

    /// Gives the port its memory, once, before anything is sent or received.
    pub(super) fn attach(&mut self, memory: Arc<Memory>, buffers: usize) -> Result<(), Fault> {
        assert!(self.memory.is_none(), "a port has one memory");
        if self.facts.registers != 0 {
            let (start, bytes) = (memory.base(), memory.bytes());
            let descriptor = &raw mut self.descriptor;
            // SAFETY: the region is mapped as long as `memory` lives, which the port keeps until the endpoint and the
            // registration are closed.
            Fault::check(unsafe { sys::sheaf_port_register(self.raw.as_ptr(), start, bytes, descriptor) })?;
        }
        self.contexts = vec![Context([null_mut(); 8]); buffers].into_boxed_slice();
        self.operations.resize_with(buffers, || None);
        self.memory = Some(memory);
        Ok(())
    }

    /// The name under which peers reach this endpoint.
    pub(super) fn name(&self) -> Result<Vec<u8>, Fault> {
        let mut name = vec![0; MAX_NAME_BYTES];
        let mut bytes = name.len();
        let room = name.as_mut_ptr().cast();
        // SAFETY: room of as many bytes as are announced.
        Fault::check(unsafe { sys::sheaf_port_name(self.raw.as_ptr(), room, &raw mut bytes) })?;
        name.truncate(bytes);
        Ok(name)
    }

    /// Makes a peer known by its name. The name is a peer's word: libfabric is given zeros behind it, so that a short one
    /// is not read past its end.
    pub(super) fn insert(&mut self, name: &[u8]) -> Result<Address, Fault> {
        let mut padded = [0_u8; MAX_NAME_BYTES];
        let room = padded.get_mut(..name.len()).ok_or(Fault(rustix::io::Errno::INVAL.raw_os_error()))?;
        room.copy_from_slice(name);
        let mut address = 0;
        let start = padded.as_ptr().cast();
        // SAFETY: readable memory of more bytes than any provider's name has, with a zero behind it.
        Fault::check(unsafe { sys::sheaf_port_insert(self.raw.as_ptr(), start, &raw mut address) })?;
        Ok(Address(address))
    }

    /// Forgets a peer.
    pub(super) fn remove(&mut self, address: Address) {
        // A provider that cannot forget keeps it; nothing is sent there any more.
        // SAFETY: a plain call on an open port.
        let _ = unsafe { sys::sheaf_port_remove(self.raw.as_ptr(), address.0) };
    }

    /// Lets the provider put a message into `buffer`.
    pub(super) fn receive(&mut self, buffer: Buffer) -> Result<(), (Buffer, Fault)> {
        let (place, context) = self.place(&buffer);
        let memory = self.memory();
        let (start, bytes) = (memory.start(&buffer).cast(), memory.buffer_bytes());
        // SAFETY: the buffer is registered where that is needed, and belongs to the operation until its completion; so
        // does the context.
        let result =
            unsafe { sys::sheaf_port_receive(self.raw.as_ptr(), start, bytes, self.descriptor, context) };
        self.begin(place, result, buffer, |buffer| Operation::Receive { buffer })
    }

    /// Sends the first `bytes` of `buffer`, and `pieces` behind it (fewer than [`Port::sends_in_place`]).
    pub(super) fn send(
        &mut self,
        buffer: Buffer,
        bytes: usize,
        pieces: VecDeque<Bytes>,
        to: Address,
    ) -> Result<(), (Buffer, VecDeque<Bytes>, Fault)> {
        assert!(pieces.len() < self.sends_in_place() && bytes <= self.memory().buffer_bytes());
        let (place, context) = self.place(&buffer);
        let first = RawPiece { start: self.memory().start(&buffer).cast_const().cast(), bytes };
        let mut raw = [first; MAX_PIECES];
        for (raw, piece) in raw[1..].iter_mut().zip(&pieces) {
            *raw = RawPiece { start: piece.as_ptr().cast(), bytes: piece.len() };
        }
        let mut descriptors = [self.descriptor; MAX_PIECES];
        let (count, to) = (pieces.len() + 1, to.0);
        let (list, descriptors) = (raw.as_ptr(), descriptors.as_mut_ptr());
        // SAFETY: lists of `count` entries; everything they point to lives in `operations` until the completion.
        let result =
            unsafe { sys::sheaf_port_send(self.raw.as_ptr(), list, descriptors, count, to, context) };
        match Fault::check(result) {
            Err(fault) => Err((buffer, pieces, fault)),
            Ok(_) => {
                self.operations[place] = Some(Operation::Send { buffer, _pieces: pieces });
                Ok(())
            }
        }
    }

    /// Makes progress, and returns completed operations, a bounded number.
    pub(super) fn done(&mut self, done: &mut Vec<Done>) -> Result<(), Fault> {
        let empty = RawDone { context: null_mut(), bytes: 0, error: 0, reserved: 0 };
        let mut raw = [empty; COMPLETIONS];
        // SAFETY: room for as many entries as are announced.
        let count = unsafe { sys::sheaf_port_done(self.raw.as_ptr(), raw.as_mut_ptr(), COMPLETIONS) };
        let count = Fault::check(count)? as usize;
        done.extend(raw[..count].iter().filter_map(|raw| self.finish(raw)));
        Ok(())
    }

    /// Returns the descriptor that becomes readable when there is something to take, if the provider has one, and if it
    /// is safe to sleep on it now: `Err` if there is something to take first.
    pub(super) fn readiness(&self) -> Option<Result<BorrowedFd<'_>, ()>> {
        if self.facts.wait_descriptor < 0 {
            return None;
        }
        // SAFETY: a plain call on an open port.
        let may = unsafe { sys::sheaf_port_may_sleep(self.raw.as_ptr()) };
        // SAFETY: the queue's descriptor stays open as long as the port, which is borrowed.
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.facts.wait_descriptor) };
        Some(if may == 0 { Ok(descriptor) } else { Err(()) })
    }

    fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("a port is given its memory before it is used")
    }

    fn place(&mut self, buffer: &Buffer) -> (usize, *mut c_void) {
        let place = buffer.place();
        debug_assert!(self.operations[place].is_none(), "a buffer in use is not at hand");
        (place, (&raw mut self.contexts[place]).cast())
    }

    fn begin(
        &mut self,
        place: usize,
        result: c_int,
        buffer: Buffer,
        operation: impl FnOnce(Buffer) -> Operation,
    ) -> Result<(), (Buffer, Fault)> {
        match Fault::check(result) {
            Err(fault) => Err((buffer, fault)),
            Ok(_) => {
                self.operations[place] = Some(operation(buffer));
                Ok(())
            }
        }
    }

    fn finish(&mut self, raw: &RawDone) -> Option<Done> {
        let offset = raw.context.addr().checked_sub(self.contexts.as_ptr().addr())?;
        let operation = self.operations.get_mut(offset / size_of::<Context>())?.take()?;
        Some(match operation {
            Operation::Receive { buffer } if raw.error == 0 => {
                let bytes =
                    usize::try_from(raw.bytes).unwrap_or(usize::MAX).min(self.memory().buffer_bytes());
                Done::Received { buffer, bytes }
            }
            Operation::Receive { buffer } => Done::NotReceived { buffer },
            Operation::Send { buffer, .. } => {
                let result = if raw.error == 0 { Ok(()) } else { Err(Fault(raw.error)) };
                Done::Sent { buffer, result }
            }
        })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once. The endpoint is closed before memory, contexts and pieces are dropped below.
        unsafe { sys::sheaf_port_close(self.raw.as_ptr()) };
    }
}

/// A name as libfabric takes it; `None` if there is a zero in it.
pub(super) fn c_string(text: &str) -> Option<CString> {
    CString::new(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_or_is_another_is_refused_with_the_reason() {
        let absent = load_library(c"libsheaf-has-no-such-library.so.7").expect_err("there is none");
        assert!(absent.contains("libsheaf-has-no-such-library.so.7"), "{absent}");
        let another = load_library(c"libc.so.6").expect_err("it is not libfabric");
        assert!(another.contains("fi_version"), "{another}");
    }

    /// Returns the set of signals for which this process has handlers.
    fn caught_signals() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("it has the signals");
        u64::from_str_radix(mask.trim(), 16).expect("a mask in hexadecimal digits")
    }

    #[test]
    fn loading_the_library_leaves_ctrl_c_to_the_program() {
        load().expect("libfabric is installed where its tests are built");
        let interrupt_and_terminate = 1 << (2 - 1) | 1 << (15 - 1);
        assert_eq!(caught_signals() & interrupt_and_terminate, 0, "the test program has no such handlers");
    }

    #[test]
    fn the_library_is_loaded_once_and_has_a_text_for_each_code() {
        load().expect("libfabric is installed where its tests are built");
        load().expect("it stays loaded");
        let fault = Fault(rustix::io::Errno::NOMEM.raw_os_error());
        assert!(!fault.text().is_empty(), "{fault}");
    }
}
