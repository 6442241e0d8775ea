//! The functions of the shim (`shim.c`), as they are.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

/// An open domain with its endpoint; only the shim accesses its fields.
#[repr(C)]
#[derive(Debug)]
pub(super) struct RawPort {
    _private: [u8; 0],
}

/// `struct sheaf_facts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    pub(super) max_message_bytes: u64,
    pub(super) receives: u64,
    pub(super) sends: u64,
    pub(super) pieces: u64,
    pub(super) registers: i32,
    pub(super) wait_descriptor: i32,
}

/// `struct sheaf_done`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RawDone {
    pub(super) context: *mut c_void,
    pub(super) bytes: u64,
    pub(super) error: i32,
    pub(super) reserved: i32,
}

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RawPiece {
    pub(super) start: *const c_void,
    pub(super) bytes: usize,
}

/// libfabric's codes that are used here; they are the system's (`rdma/fi_errno.h`).
pub(super) const AGAIN: c_int = rustix::io::Errno::AGAIN.raw_os_error();

unsafe extern "C" {
    pub(super) fn sheaf_port_load(name: *const c_char, reason: *mut c_char, room: usize) -> c_int;
    pub(super) fn sheaf_port_error(code: c_int) -> *const c_char;
    pub(super) fn sheaf_port_open(
        provider: *const c_char,
        source: *const c_char,
        facts: *mut Facts,
        opened: *mut *mut RawPort,
    ) -> c_int;
    pub(super) fn sheaf_port_close(port: *mut RawPort);
    pub(super) fn sheaf_port_name(port: *mut RawPort, name: *mut c_void, bytes: *mut usize) -> c_int;
    pub(super) fn sheaf_port_insert(port: *mut RawPort, name: *const c_void, address: *mut u64) -> c_int;
    pub(super) fn sheaf_port_remove(port: *mut RawPort, address: u64) -> c_int;
    pub(super) fn sheaf_port_register(
        port: *mut RawPort,
        memory: *const c_void,
        bytes: usize,
        descriptor: *mut *mut c_void,
    ) -> c_int;
    pub(super) fn sheaf_port_receive(
        port: *mut RawPort,
        memory: *mut c_void,
        bytes: usize,
        descriptor: *mut c_void,
        context: *mut c_void,
    ) -> c_int;
    pub(super) fn sheaf_port_send(
        port: *mut RawPort,
        pieces: *const RawPiece,
        descriptors: *mut *mut c_void,
        count: usize,
        address: u64,
        context: *mut c_void,
    ) -> c_int;
    pub(super) fn sheaf_port_done(port: *mut RawPort, done: *mut RawDone, most: usize) -> c_int;
    pub(super) fn sheaf_port_may_sleep(port: *mut RawPort) -> c_int;
}
