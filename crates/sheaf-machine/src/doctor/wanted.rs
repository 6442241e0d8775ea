//! Requirements of a configuration on a host.

use crate::CpuList;
use std::net::IpAddr;
use std::path::PathBuf;

/// Requirements of the run planned for this host; all of it may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Whether a configuration was given: without one nothing here is a wish.
    pub configured: bool,
    /// Each group of threads with a name ("readout units"), and the processors that it is given.
    pub threads: Vec<(String, CpuList)>,
    /// The highest real-time priority that is asked for.
    pub priority: Option<u8>,
    /// The addresses that nodes listen on or call.
    pub addresses: Vec<IpAddr>,
    /// The most memory that all nodes of the run take for payload, in bytes, if all of them are here.
    pub memory_bytes: u64,
    /// Whether shared memory is to have huge pages.
    pub huge_pages: bool,
    /// Number of sockets of the node that has most of them.
    pub sockets: u64,
    /// The socket buffers that are asked for, in bytes: to send, to receive.
    pub send_buffer_bytes: Option<u64>,
    /// See `send_buffer_bytes`.
    pub receive_buffer_bytes: Option<u64>,
    /// Requirements of a run over raw Ethernet.
    pub ethernet: Option<Ethernet>,
    /// Where events are written.
    pub output: Option<Output>,
}

/// Requirements of a run over raw Ethernet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// The interfaces of all nodes, of this host and of others.
    pub interfaces: Vec<String>,
    /// The configured MTU.
    pub mtu_bytes: u64,
    /// Which way frames are to go.
    pub way: EthernetWay,
}

/// Which way frames are to go through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EthernetWay {
    /// AF_XDP where it is worth it, else packet rings.
    Auto,
    /// AF_XDP.
    Xdp,
    /// Packet rings.
    Packet,
}

/// Where events are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The directory; it need not be there yet.
    pub directory: PathBuf,
}
