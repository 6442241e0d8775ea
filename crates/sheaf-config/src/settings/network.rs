//! How nodes talk: the transport and the messages.

use super::{GIB, HOUR, KIB, MIB, TIB};
use crate::codec::{bytes, maybe, microseconds, milliseconds, path, pick, real, switch, whole, zero_is_none};
use crate::knob::{choice, section};
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;

/// Times of a network are not measured finer.
const MILLISECOND: Nanos = Nanos::from_millis(1);

choice! {
    /// How messages travel.
    TransportKind {
        /// through memory, between nodes of one process
        Memory = "memory",
        /// over TCP, between processes and hosts
        Tcp = "tcp",
        /// through memory that processes of one host share
        Shm = "shm",
        /// through shared memory between nodes whose addresses have the same host, over TCP between others
        Mixed = "mixed",
        /// through libfabric, between processes and hosts; only where Sheaf was built with the feature `libfabric`
        Libfabric = "libfabric",
        /// over UDP, between processes and hosts: what the network loses is sent again
        Udp = "udp",
        /// in frames of raw Ethernet, between hosts of one network: what the network loses is sent again; only on Linux, with
        /// privileges
        Ethernet = "ethernet",
    }
}

choice! {
    /// How TCP finds the pace of a connection.
    Congestion {
        /// as the operating system is set up
        System = "system",
        /// CUBIC: halts where packets are lost; the default of most systems
        Cubic = "cubic",
        /// Reno: as CUBIC, and slower to come back
        Reno = "reno",
        /// BBR: by measured rate and delay; takes more than its share where output buffers are small
        Bbr = "bbr",
    }
}

impl Congestion {
    /// What the kernel calls it; `None` where the system's is kept.
    #[must_use]
    pub fn kernel_name(self) -> Option<&'static str> {
        match self {
            Self::System => None,
            Self::Cubic => Some("cubic"),
            Self::Reno => Some("reno"),
            Self::Bbr => Some("bbr"),
        }
    }
}

choice! {
    /// The provider of libfabric that messages go through.
    LibfabricProvider {
        /// over TCP; the slowest, and everywhere
        Tcp = "tcp;ofi_rxm",
        /// through memory that processes of one host share
        Shm = "shm",
        /// over TCP, the experimental successor
        Net = "net",
        /// InfiniBand and RoCE
        Verbs = "verbs;ofi_rxm",
        /// the Elastic Fabric Adapter
        Efa = "efa",
        /// Slingshot
        Cxi = "cxi",
    }
}

choice! {
    /// How frames of raw Ethernet go between the kernel and a node.
    EthernetBackend {
        /// AF_XDP where the driver hands over frames without a copy, else packet rings
        Auto = "auto",
        /// AF_XDP: one node for each interface
        Xdp = "xdp",
        /// packet rings: every driver, and several nodes may share an interface
        Packet = "packet",
    }
}

impl LibfabricProvider {
    /// Whether its addresses are of IP interfaces, so that a node's address names the one to use.
    #[must_use]
    pub fn has_ip_addresses(self) -> bool {
        matches!(self, Self::Tcp | Self::Net | Self::Verbs)
    }
}

impl TransportKind {
    /// Whether messages are cut into datagrams, so that a part of one can go in a time slot.
    #[must_use]
    pub fn sends_datagrams(self) -> bool {
        matches!(self, Self::Udp | Self::Ethernet)
    }

    /// Whether some links may go over TCP.
    #[must_use]
    pub fn uses_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::Mixed)
    }

    /// Whether nodes meet at TCP sockets, whatever their messages go through then.
    #[must_use]
    pub fn meets_over_tcp(self) -> bool {
        self.uses_tcp() || self == Self::Libfabric
    }

    /// Whether all links can go from host to host with nothing that hosts would have to share.
    #[must_use]
    pub fn crosses_hosts_alone(self) -> bool {
        !matches!(self, Self::Memory | Self::Shm | Self::Mixed | Self::Libfabric)
    }

    /// Whether some links may go through memory that processes share.
    #[must_use]
    pub fn shares_memory(self) -> bool {
        matches!(self, Self::Shm | Self::Mixed)
    }
}

impl Tls {
    /// Certificate, key and authority, where TLS is wanted.
    #[must_use]
    pub fn files(&self) -> Option<[&PathBuf; 3]> {
        Some([self.certificate.as_ref()?, self.key.as_ref()?, self.authority.as_ref()?])
    }
}

section! {
    /// The transport: how messages travel between nodes.
    Transport "transport" {
        /// How messages travel.
        kind: TransportKind = TransportKind::Memory, "kind", pick(), flag "--transport";
        /// The file of the run's key, the same key on all nodes: 64 hexadecimal digits in a file that belongs to one user alone (mode
        /// 0600). Nodes, and processors that join at `filter.listen`, then prove that they have it before a link comes up; who
        /// does not is refused. `(umask 077; openssl rand -hex 32 > run.key)` makes one. Left out, `sheaf run` makes a key for its own
        /// nodes, and `sheaf node` believes what its peers say of themselves. It keeps strangers out and encrypts nothing: on
        /// networks where somebody may change what passes, use TLS. Not for transports of datagrams. See [keys and certificates](../howto/tls.md).
        key_file: Option<PathBuf> = None, "key_file", maybe(path());
        /// The provider of libfabric, the same on all nodes. Only for `kind = "libfabric"`.
        provider: LibfabricProvider = LibfabricProvider::Tcp, "provider", pick();
        /// How many bytes wait for one peer at most: `max_frame_bytes` or more. A full queue holds the sender back.
        queue: ByteCount = ByteCount(16 * MIB), "queue_bytes", bytes(64 * KIB, 64 * GIB);
        /// How many frames wait for one peer at most.
        queue_frames: u32 = 1_024, "queue_frames", whole(2, 1 << 20);
        /// The largest frame that is sent or accepted. A peer that announces a larger one is cut off.
        max_frame: ByteCount = ByteCount(16 * MIB), "max_frame_bytes", bytes(64 * KIB, GIB);
        /// The size of one block of the receive memory of TCP, and of `shared_bytes`. A block holds many frames and is used again when the last of
        /// them is dropped; a frame larger than a block gets memory of its own.
        block: ByteCount = ByteCount(MIB), "block_bytes", bytes(4 * KIB, GIB);
        /// The receive memory of one node at most: a block for each peer and two more, better about twice what the
        /// node holds of received frames. A node that has filled it stops reading, which its peers feel as
        /// back-pressure. Only for TCP, libfabric and transports of datagrams.
        receive: ByteCount = ByteCount(256 * MIB), "receive_bytes", bytes(64 * KIB, TIB);
        /// The memory of one node from which payload is sent that does not lie in shared memory already: that of a replay.
        /// Emulated sources write where others read. Only for shared memory.
        shared: ByteCount = ByteCount(64 * MIB), "shared_bytes", bytes(64 * KIB, TIB);
        /// Whether the kernel is asked for huge pages for shared memory; it gives them where
        /// `/sys/kernel/mm/transparent_hugepage/shmem_enabled` says `advise` or `always`.
        huge_pages: bool = false, "huge_pages", switch();
        /// How many connections (rails) a link has, the same on all nodes. Rail `i` goes to the address at place `i` of the node
        /// that is called (`address`, then `more_addresses`, then anew): over another interface or switch where the
        /// addresses are in networks of their own. A link outlives each of its rails. With more than one, what was sent is
        /// kept until it is acknowledged: it counts for `queue_bytes` and `queue_frames`. With UDP every node that has an address has
        /// one for each rail, over raw Ethernet an interface. Only for TCP, UDP and raw Ethernet.
        rails: u16 = 1, "rails", whole(1, 16);
        /// The largest packet that every interface and switch on the way passes, the same on all nodes: 9000 with jumbo frames.
        /// Only for transports of datagrams (UDP, raw Ethernet).
        mtu: u32 = 1_500, "mtu_bytes", whole(576, 65_535);
        /// How many bytes of datagrams a peer may have on the way to this node. 0: its share of half of the receive buffer, so
        /// that nothing is lost there. Only for transports of datagrams.
        flight: Option<ByteCount> = None, "flight_bytes", zero_is_none(bytes(KIB, GIB));
        /// After how long without a report datagrams are looked after, where round trips are not known to take longer. Only for
        /// transports of datagrams.
        probe: Nanos = Nanos::from_millis(2), "probe_ms", milliseconds(Nanos::from_micros(100), HOUR);
        /// What arrived in datagrams is reported at the latest after this time, one report for all of it. On a slow line, where a
        /// datagram takes milliseconds, a longer time spares most of the reports. Only for transports of datagrams.
        report: Nanos = Nanos::from_millis(1), "report_us", microseconds(Nanos::from_micros(10), Nanos::from_secs(1));
        /// Which share of the datagrams that this node sends is dropped on purpose, to see what a lossy network does. Only
        /// for transports of datagrams.
        inject_loss: f64 = 0.0, "inject_loss", real(0.0, 0.99);
        /// Decides, with the node, which these are.
        inject_seed: u64 = 1, "inject_seed", whole(0, u64::MAX);
        /// How frames go between the kernel and a node. Only for `kind = "ethernet"`, as are the next four.
        ethernet: EthernetBackend = EthernetBackend::Auto, "ethernet", pick();
        /// The type of the frames, the same on all nodes. The default, 0x88b5, is one of two that IEEE 802 leaves for local
        /// experiments. Other frames of the interface are left alone.
        ethertype: u16 = 0x88b5, "ethertype", whole(0x0600, 0xffff);
        /// How many receive queues of an interface AF_XDP takes, from queue 0. 0: all.
        queues: u32 = 0, "queues", whole(0, 256);
        /// For how many frames of the largest size there is room each way, for each rail and queue; rounded up to a
        /// power of two.
        frame_slots: u32 = 1_024, "frame_slots", whole(16, 32_768);
        /// How long a node that has nothing to do looks on before it sleeps. It takes a processor.
        busy_poll: Nanos = Nanos::ZERO, "busy_poll_us", microseconds(Nanos::ZERO, MILLISECOND);
        /// The send buffer of a socket. 0: what the operating system chooses.
        send_buffer: Option<ByteCount> = None, "send_buffer_bytes", zero_is_none(bytes(4 * KIB, GIB));
        /// The receive buffer of a socket. 0: what the operating system chooses; for UDP 4 MiB, or as much as it allows.
        receive_buffer: Option<ByteCount> = None, "receive_buffer_bytes", zero_is_none(bytes(4 * KIB, GIB));
        /// How TCP finds the pace of a connection. Linux only.
        congestion: Congestion = Congestion::System, "congestion", pick();
        /// How long an attempt to connect may take, and then the greeting.
        connect_timeout: Nanos = Nanos::from_secs(5), "connect_timeout_ms", milliseconds(MILLISECOND, HOUR);
        /// The pause before the first new attempt to connect. It doubles with each, up to `retry_max_ms`.
        retry_min: Nanos = Nanos::from_millis(20), "retry_min_ms", milliseconds(MILLISECOND, HOUR);
        /// The longest pause between attempts to connect.
        retry_max: Nanos = Nanos::from_secs(2), "retry_max_ms", milliseconds(MILLISECOND, HOUR);
        /// How long a peer's machine may be silent before its connection counts as lost. Of a rail that dies without a word
        /// the frames come over another one after this time.
        dead_peer: Nanos = Nanos::from_secs(10), "dead_peer_ms", milliseconds(Nanos::from_secs(1), HOUR);
    }
    nested {
        /// Certificates.
        tls: Tls;
    }
}

section! {
    /// TLS on the connections of the transport `tcp`, those of `mixed` between hosts, and those of processors at `filter.listen`:
    /// set all three files, or none. Every node then proves with a certificate that it is one of the system, and whoever
    /// calls a node checks that its certificate is for the host in its address. See [certificates](../howto/tls.md).
    Tls "transport.tls" {
        /// The node's certificate, a PEM file; behind it those between it and the authority, if there are any.
        certificate: Option<PathBuf> = None, "certificate", maybe(path());
        /// The private key of that certificate, a PEM file without a password.
        key: Option<PathBuf> = None, "key", maybe(path());
        /// The certificates of the authorities that sign the nodes' certificates, a PEM file.
        authority: Option<PathBuf> = None, "authority", maybe(path());
    }
}

section! {
    /// The protocol: how much a message holds, and when silence becomes a reason to act.
    Protocol "protocol" {
        /// The payload at which a readout unit closes a message of super-fragments. A super-fragment that is larger
        /// travels alone.
        message: ByteCount = ByteCount(64 * KIB), "message_bytes", bytes(KIB, 256 * MIB);
        /// How many super-fragments are in one message at most.
        message_events: u32 = 256, "message_events", whole(1, 16_384);
        /// How many events a readout unit accepts in one request of a builder unit.
        request_events: u32 = 16_384, "request_events", whole(1, 1 << 20);
        /// After how long without other messages a node tells its peers that it lives.
        heartbeat: Nanos = Nanos::from_millis(200), "heartbeat_ms",
            milliseconds(MILLISECOND, HOUR);
        /// After how long a message is acknowledged, where no message goes the other way.
        acknowledge: Nanos = Nanos::from_millis(20), "acknowledge_ms", milliseconds(Nanos::from_micros(100), HOUR);
        /// After how long without an acknowledgement a message is sent again.
        retransmit: Nanos = Nanos::from_millis(200), "retransmit_ms", milliseconds(MILLISECOND, HOUR);
    }
}
