//! Calls of the operating system for which there is no safe wrapper: bpf(2), packet sockets, and questions about interfaces.
#![allow(unsafe_code, reason = "the kernel's interface; each call with its argument")]

use super::program::Instruction;
use sheaf_wire::ethernet::MacAddress;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

fn check(answer: c_int) -> io::Result<c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// Arguments of the commands of bpf(2) used here: prefixes of the members of the kernel's `union bpf_attr`. The kernel
/// extends a shorter argument with zeros.
mod attribute {
    #[repr(C)]
    pub(super) struct MapCreate {
        pub(super) map_type: u32,
        pub(super) key_bytes: u32,
        pub(super) value_bytes: u32,
        pub(super) max_entries: u32,
    }

    #[repr(C)]
    pub(super) struct MapUpdate {
        pub(super) map: u32,
        pub(super) padding: u32,
        pub(super) key: u64,
        pub(super) value: u64,
        pub(super) flags: u64,
    }

    #[repr(C)]
    pub(super) struct ProgramLoad {
        pub(super) program_type: u32,
        pub(super) instruction_count: u32,
        pub(super) instructions: u64,
        pub(super) license: u64,
        pub(super) log_level: u32,
        pub(super) log_bytes: u32,
        pub(super) log: u64,
        pub(super) kernel_version: u32,
        pub(super) flags: u32,
        pub(super) name: [u8; 16],
        pub(super) interface: u32,
        pub(super) expected_attach_type: u32,
    }

    #[repr(C)]
    pub(super) struct LinkCreate {
        pub(super) program: u32,
        pub(super) interface: u32,
        pub(super) attach_type: u32,
        pub(super) flags: u32,
    }
}

/// Numbers of `linux/bpf.h` and `linux/if_link.h`.
const BPF_MAP_CREATE: c_int = 0;
const BPF_MAP_UPDATE_ELEM: c_int = 2;
const BPF_PROG_LOAD: c_int = 5;
const BPF_LINK_CREATE: c_int = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Calls bpf(2).
///
/// # Safety
/// `attribute` has the type of `command`'s argument, and everything it points to lives until this returns.
unsafe fn bpf<A>(command: c_int, attribute: &A) -> io::Result<c_int> {
    // SAFETY: The kernel reads `size_of::<A>()` bytes of the attribute, and the data it points to, as the caller
    // guarantees.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attribute, size_of::<A>()) };
    check(c_int::try_from(answer).unwrap_or(c_int::MAX))
}

/// As [`bpf`], for commands that answer with a new descriptor.
///
/// # Safety
/// As for [`bpf`].
unsafe fn bpf_new<A>(command: c_int, attribute: &A) -> io::Result<OwnedFd> {
    // SAFETY: As the caller promises.
    let descriptor = unsafe { bpf(command, attribute)? };
    // SAFETY: The kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn number(descriptor: BorrowedFd<'_>) -> u32 {
    // Open descriptors are not negative.
    descriptor.as_raw_fd().cast_unsigned()
}

/// A map from an interface's queue to the socket that gets its frames.
pub(super) fn create_socket_map(queues: u32) -> io::Result<OwnedFd> {
    let attribute = attribute::MapCreate {
        map_type: BPF_MAP_TYPE_XSKMAP,
        key_bytes: 4,
        value_bytes: 4,
        max_entries: queues,
    };
    // SAFETY: The attribute of this command, without pointers.
    unsafe { bpf_new(BPF_MAP_CREATE, &attribute) }
}

/// Gives the frames of `queue` to `socket`.
pub(super) fn set_socket(map: impl AsFd, queue: u32, socket: impl AsFd) -> io::Result<()> {
    let value = number(socket.as_fd());
    let attribute = attribute::MapUpdate {
        map: number(map.as_fd()),
        padding: 0,
        key: (&raw const queue).addr() as u64,
        value: (&raw const value).addr() as u64,
        flags: 0,
    };
    // SAFETY: The attribute of this command; key and value are four bytes each, as the map was made, and live on this stack.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attribute) }.map(|_| ())
}

/// Has the kernel check and load a program for an interface. `fragments`: it lets frames pass that are in several pieces.
pub(super) fn load_program(instructions: &[Instruction], fragments: bool) -> io::Result<OwnedFd> {
    let license = c"Apache-2.0";
    let mut name = [0; 16];
    name[..5].copy_from_slice(b"sheaf");
    let attribute = attribute::ProgramLoad {
        program_type: BPF_PROG_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr().addr() as u64,
        license: license.as_ptr().addr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: if fragments { BPF_F_XDP_HAS_FRAGS } else { 0 },
        name,
        interface: 0,
        expected_attach_type: BPF_XDP,
    };
    // SAFETY: The attribute of this command; the instructions have the kernel's layout and live as long as the slice,
    // and the licence is static.
    unsafe { bpf_new(BPF_PROG_LOAD, &attribute) }
}

/// Hook of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramMode {
    /// In the driver, before the kernel makes anything of the frame.
    Driver,
    /// In the network stack, for any driver.
    Generic,
}

/// Attaches a program to an interface for as long as the returned descriptor is open: the kernel detaches it when the
/// process ends for any reason.
pub(super) fn attach(program: impl AsFd, interface: u32, mode: ProgramMode) -> io::Result<OwnedFd> {
    let flags = match mode {
        ProgramMode::Driver => XDP_FLAGS_DRV_MODE,
        ProgramMode::Generic => XDP_FLAGS_SKB_MODE,
    };
    let program = number(program.as_fd());
    let attribute = attribute::LinkCreate { program, interface, attach_type: BPF_XDP, flags };
    // SAFETY: The attribute of this command, without pointers.
    unsafe { bpf_new(BPF_LINK_CREATE, &attribute) }
}

/// A packet socket that gets nothing yet.
pub(super) fn packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: No pointers.
    let descriptor = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: The kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// From now on the socket gets the frames of type `ethertype` of an interface, and sends through it.
pub(super) fn bind_packet(socket: impl AsFd, interface: u32, ethertype: u16) -> io::Result<()> {
    // SAFETY: Integers, for which all zeros is a value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = interface.cast_signed();
    let bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: The kernel reads `bytes` bytes of the address, which lives on this stack.
    check(unsafe { libc::bind(descriptor, (&raw const address).cast(), bytes) }).map(|_| ())
}

/// Sets an option of a socket to a value without pointers.
pub(super) fn set_option<T: Copy>(socket: impl AsFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let descriptor = socket.as_fd().as_raw_fd();
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: The kernel reads at most `bytes` bytes of the value.
    check(unsafe { libc::setsockopt(descriptor, level, name, (&raw const *value).cast(), bytes) }).map(|_| ())
}

/// Restricts a socket to frames accepted by a classic filter.
pub(super) fn set_filter(socket: impl AsFd, filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // The kernel copies the filter and does not change it.
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Returns the number of frames that the kernel has dropped since the last call because the ring of a packet socket was
/// full.
pub(super) fn packet_drops(socket: impl AsFd) -> io::Result<u32> {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut bytes = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    let value: *mut c_void = (&raw mut statistics).cast();
    // SAFETY: The kernel writes at most `bytes` bytes, and how many.
    check(unsafe {
        libc::getsockopt(descriptor, libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &raw mut bytes)
    })?;
    Ok(statistics.tp_drops)
}

/// The longest name of an interface.
pub(super) const MAX_NAME_BYTES: usize = libc::IFNAMSIZ - 1;

/// A question about the interface with this name; the answer's union is filled in by the kernel.
fn question(name: &str) -> libc::ifreq {
    // SAFETY: Integers and pointers, for which all zeros is a value.
    let mut question: libc::ifreq = unsafe { zeroed() };
    for (to, from) in question.ifr_name.iter_mut().zip(name.bytes().take(MAX_NAME_BYTES)) {
        *to = from.cast_signed();
    }
    question
}

fn ask(socket: impl AsFd, what: libc::c_ulong, question: &mut libc::ifreq) -> io::Result<()> {
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: The kernel reads and writes a `struct ifreq`; a pointer in it is the caller's to keep alive.
    check(unsafe { libc::ioctl(descriptor, what as _, &raw mut *question) }).map(|_| ())
}

/// The index of the interface with this name, in the network namespace of `socket`.
pub(super) fn interface_index(socket: impl AsFd, name: &str) -> io::Result<u32> {
    let mut question = question(name);
    ask(socket, libc::SIOCGIFINDEX, &mut question)?;
    // SAFETY: The kernel has filled in this member.
    Ok(unsafe { question.ifr_ifru.ifru_ifindex }.cast_unsigned())
}

/// Returns the maximum number of bytes of a frame behind the Ethernet header.
pub(super) fn interface_mtu(socket: impl AsFd, name: &str) -> io::Result<u32> {
    let mut question = question(name);
    ask(socket, libc::SIOCGIFMTU, &mut question)?;
    // SAFETY: The kernel has filled in this member.
    Ok(unsafe { question.ifr_ifru.ifru_mtu }.cast_unsigned())
}

/// Its address; `None`: it is no Ethernet interface.
pub(super) fn interface_address(socket: impl AsFd, name: &str) -> io::Result<Option<MacAddress>> {
    let mut question = question(name);
    ask(socket, libc::SIOCGIFHWADDR, &mut question)?;
    // SAFETY: The kernel has filled in this member.
    let address = unsafe { question.ifr_ifru.ifru_hwaddr };
    let mut bytes = [0; 6];
    for (to, from) in bytes.iter_mut().zip(address.sa_data) {
        *to = from.cast_unsigned();
    }
    Ok((address.sa_family == libc::ARPHRD_ETHER).then_some(MacAddress(bytes)))
}

/// State of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InterfaceState {
    /// It was switched on.
    pub(super) up: bool,
    /// Whether the cable is connected to a running device.
    pub(super) running: bool,
}

pub(super) fn interface_state(socket: impl AsFd, name: &str) -> io::Result<InterfaceState> {
    let mut question = question(name);
    ask(socket, libc::SIOCGIFFLAGS, &mut question)?;
    // SAFETY: The kernel has filled in this member.
    let flags = c_int::from(unsafe { question.ifr_ifru.ifru_flags });
    Ok(InterfaceState { up: flags & libc::IFF_UP != 0, running: flags & libc::IFF_RUNNING != 0 })
}

/// The question of `linux/ethtool.h` for an interface's queues.
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max_receive: u32,
    max_transmit: u32,
    max_other: u32,
    max_combined: u32,
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// Returns the number of receive queues of an interface; `None` if its driver does not report it.
pub(super) fn interface_queues(socket: impl AsFd, name: &str) -> Option<u32> {
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    let mut question = question(name);
    question.ifr_ifru.ifru_data = (&raw mut channels).cast();
    ask(socket, libc::SIOCETHTOOL, &mut question).ok()?;
    Some(channels.receive + channels.combined).filter(|queues| *queues > 0)
}
