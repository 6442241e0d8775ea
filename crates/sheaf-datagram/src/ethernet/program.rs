//! Programs that the kernel runs on a frame before anything else: two small hand-written ones.
//!
//! The first runs at the interface for AF_XDP: frames of our type go to the socket of their receive queue; all others
//! (such as ARP and TCP) continue into the kernel as without the program. The second is a filter for packet sockets:
//! several nodes may share an interface, and frames for other nodes are not even copied.

use sheaf_wire::NodeId;
use sheaf_wire::ethernet::{FrameHeadBytes, MAGIC, receiver_fields};
use std::mem::offset_of;

/// An instruction of the kernel's virtual machine (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// The destination in the low half, the source in the high one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Codes of instructions (`linux/bpf_common.h`, `linux/bpf.h`): class, size or operation, source.
mod code {
    pub(super) const LOAD_U32: u8 = 0x61;
    pub(super) const LOAD_U16: u8 = 0x69;
    pub(super) const LOAD_WIDE_IMMEDIATE: u8 = 0x18;
    pub(super) const ADD_IMMEDIATE: u8 = 0x07;
    pub(super) const MOVE_IMMEDIATE: u8 = 0xb7;
    pub(super) const MOVE: u8 = 0xbf;
    pub(super) const JUMP_IF_GREATER: u8 = 0x2d;
    pub(super) const JUMP_IF_NOT_IMMEDIATE: u8 = 0x55;
    pub(super) const CALL: u8 = 0x85;
    pub(super) const EXIT: u8 = 0x95;
}

/// In the source of [`code::LOAD_WIDE_IMMEDIATE`]: the immediate is the descriptor of a map.
const MAP_DESCRIPTOR: u8 = 1;

/// Places in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

/// The function `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;

/// The verdict "pass to the kernel".
const PASS: i32 = 2;

const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: to | from << 4, offset, immediate }
}

/// Returns the program for frames of type `ethertype`, with the descriptor of the map from queues to sockets.
/// `bpf_redirect_map` returns its third argument if the map has no socket for the queue: such frames pass to the
/// kernel, too.
pub(super) fn redirect(ethertype: u16, map: i32) -> [Instruction; 15] {
    // As a little-endian or big-endian machine finds the two bytes in memory.
    let wanted = i32::from(u16::from_ne_bytes(ethertype.to_be_bytes()));
    [
        // r2, r3: the frame's begin and end. Shorter than an Ethernet header: pass.
        instruction(code::LOAD_U32, 2, 1, DATA, 0),
        instruction(code::LOAD_U32, 3, 1, DATA_END, 0),
        instruction(code::MOVE, 4, 2, 0, 0),
        instruction(code::ADD_IMMEDIATE, 4, 0, 0, 14),
        instruction(code::JUMP_IF_GREATER, 4, 3, 8, 0),
        // r4: its type. Not ours: pass.
        instruction(code::LOAD_U16, 4, 2, 12, 0),
        instruction(code::JUMP_IF_NOT_IMMEDIATE, 4, 0, 6, wanted),
        // redirect_map(map, queue, PASS).
        instruction(code::LOAD_U32, 2, 1, QUEUE, 0),
        instruction(code::LOAD_WIDE_IMMEDIATE, 1, MAP_DESCRIPTOR, 0, map),
        instruction(0, 0, 0, 0, 0),
        instruction(code::MOVE_IMMEDIATE, 3, 0, 0, PASS),
        instruction(code::CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(code::EXIT, 0, 0, 0, 0),
        // Target of both jumps.
        instruction(code::MOVE_IMMEDIATE, 0, 0, 0, PASS),
        instruction(code::EXIT, 0, 0, 0, 0),
    ]
}

/// Codes of classic filters: load the frame's length, or a byte or half word of it; mask bits; jump if equal, or if
/// greater or equal; return.
mod classic {
    pub(super) const LOAD_LENGTH: u16 = 0x80;
    pub(super) const JUMP_UNLESS_BELOW: u16 = 0x35;
    pub(super) const LOAD_U8: u16 = 0x30;
    pub(super) const LOAD_U16: u16 = 0x28;
    pub(super) const KEEP_BITS: u16 = 0x54;
    pub(super) const JUMP_IF_EQUAL: u16 = 0x15;
    pub(super) const ANSWER: u16 = 0x06;
}

/// Returns the filter for `node`: drops frames addressed to another node. All other frames pass, even invalid ones:
/// they are counted.
pub(super) fn only_for(node: NodeId) -> [libc::sock_filter; 12] {
    let statement = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let unless = |k, skip| libc::sock_filter { code: classic::JUMP_IF_EQUAL, jt: 0, jf: skip, k };
    let when = |k, skip| libc::sock_filter { code: classic::JUMP_IF_EQUAL, jt: skip, jf: 0, k };
    let (role, index) = receiver_fields(node);
    let at = |field: usize| field as u32;
    // Loads take the network's byte order; the head has little-endian fields.
    [
        // A frame without these fields is for the program to count.
        statement(classic::LOAD_LENGTH, 0),
        libc::sock_filter {
            code: classic::JUMP_UNLESS_BELOW,
            jt: 0,
            jf: 9,
            k: at(offset_of!(FrameHeadBytes, to)) + 2,
        },
        statement(classic::LOAD_U8, at(offset_of!(FrameHeadBytes, magic))),
        unless(MAGIC.into(), 7),
        statement(classic::LOAD_U8, at(offset_of!(FrameHeadBytes, roles))),
        statement(classic::KEEP_BITS, 15),
        // For all.
        when(0, 4),
        unless(role.into(), 2),
        statement(classic::LOAD_U16, at(offset_of!(FrameHeadBytes, to))),
        when(index.swap_bytes().into(), 1),
        statement(classic::ANSWER, 0),
        statement(classic::ANSWER, u32::MAX),
    ]
}

#[cfg(test)]
mod tests;
