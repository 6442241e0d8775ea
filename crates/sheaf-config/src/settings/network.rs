//! Communication of nodes: the transport and the messages.

use super::{GIB, HOUR, KIB, MIB, TIB};
use crate::choice::choice;
use crate::codec::{bytes, maybe, microseconds, milliseconds, path, pick, real, switch, whole, zero_is_none};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;

/// Times of a network are not measured finer.
const MILLISECOND: Nanos = Nanos::from_millis(1);

choice! {
    /// Transport of messages.
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
        /// over UDP, between processes and hosts; lost datagrams are retransmitted
        Udp = "udp",
        /// in frames of raw Ethernet, between hosts of one network; lost frames are retransmitted. Only on Linux,
        /// with privileges
        Ethernet = "ethernet",
    }
}

choice! {
    /// Congestion control of TCP.
    Congestion {
        /// as configured in the operating system
        System = "system",
        /// CUBIC: reduces its rate when packets are lost; the default of most systems
        Cubic = "cubic",
        /// Reno: like CUBIC, but slower to recover
        Reno = "reno",
        /// BBR: follows the measured rate and delay; takes more than its share if output buffers are small
        Bbr = "bbr",
    }
}

impl Congestion {
    /// Returns the name of the algorithm in the kernel; `None` keeps the system's default.
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
    /// Provider of libfabric.
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
    /// Interface between the kernel and a node for raw Ethernet.
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
    /// The transport of messages between nodes.
    Transport "transport" {
        /// Transport of messages.
        kind: TransportKind = TransportKind::Memory, "kind", pick(), flag "--transport";
        /// The file of the run's key, the same key on all nodes: 64 hexadecimal digits in a file that belongs to one
        /// user alone (mode 0600). Nodes, processors that join at `filter.listen`, programs that feed sources at
        /// `source.feed.listen`, and consumers that join at `consumers.listen` then prove that they have it; others are refused. `(umask 077; openssl rand -hex 32 >
        /// run.key)` makes one. Without this setting, `sheaf run` makes a key for its own nodes, and `sheaf node` does
        /// not verify its peers. A key keeps strangers out and encrypts nothing: on networks where others may change
        /// packets, use TLS. See [keys and certificates](../howto/tls.md).
        key_file: Option<PathBuf> = None, "key_file", maybe(path());
        /// Provider of libfabric, the same on all nodes. Only for `kind = "libfabric"`.
        provider: LibfabricProvider = LibfabricProvider::Tcp, "provider", pick();
        /// Maximum bytes in the send queue of one peer; at least `max_frame_bytes`. A full queue holds the sender
        /// back.
        queue: ByteCount = ByteCount(16 * MIB), "queue_bytes", bytes(64 * KIB, 64 * GIB);
        /// Maximum number of frames in the send queue of one peer.
        queue_frames: u32 = 1_024, "queue_frames", whole(2, 1 << 20);
        /// Largest frame that is sent or accepted. A peer that announces a larger one is disconnected.
        max_frame: ByteCount = ByteCount(16 * MIB), "max_frame_bytes", bytes(64 * KIB, GIB);
        /// Size of one block of the receive memory of TCP, and of `shared_bytes`. A block holds many frames and is
        /// reused when the last of them is dropped; a frame larger than a block gets its own memory.
        block: ByteCount = ByteCount(MIB), "block_bytes", bytes(4 * KIB, GIB);
        /// Maximum receive memory of one node: at least a block for each peer and two more, preferably twice the
        /// received frames that the node holds. A node that has filled it stops reading, which exerts back-pressure
        /// on its peers. Only for TCP, libfabric and datagram transports.
        receive: ByteCount = ByteCount(256 * MIB), "receive_bytes", bytes(64 * KIB, TIB);
        /// Memory of one node for sending payload that is not in shared memory already, such as that of a replay.
        /// Emulated sources write directly to shared memory. Only for shared memory.
        shared: ByteCount = ByteCount(64 * MIB), "shared_bytes", bytes(64 * KIB, TIB);
        /// Whether to request huge pages for shared memory; the kernel provides them if
        /// `/sys/kernel/mm/transparent_hugepage/shmem_enabled` is `advise` or `always`.
        huge_pages: bool = false, "huge_pages", switch();
        /// Number of connections (rails) per link, the same on all nodes. Rail `i` uses address `i` of the called
        /// node (`address`, then `more_addresses`, then again from the first), and thus another interface or switch
        /// if the addresses belong to different networks. A link survives the loss of any of its rails. With several
        /// rails, sent frames are kept until they are acknowledged, and count for `queue_bytes` and `queue_frames`.
        /// With UDP every node with an address has one per rail, with raw Ethernet one interface per rail. Only for
        /// TCP, UDP and raw Ethernet.
        rails: u16 = 1, "rails", whole(1, 16);
        /// Largest packet (MTU) that every interface and switch on the way passes, the same on all nodes: 9000 with
        /// jumbo frames. Only for datagram transports (UDP, raw Ethernet).
        mtu: u32 = 1_500, "mtu_bytes", whole(576, 65_535);
        /// Maximum bytes of datagrams that a peer may have in flight to this node. 0: its share of half of the
        /// receive buffer, so that the buffer does not overflow. Only for datagram transports.
        flight: Option<ByteCount> = None, "flight_bytes", zero_is_none(bytes(KIB, GIB));
        /// Time without an acknowledgement after which lost datagrams are searched for, unless round trips are known
        /// to take longer. Only for datagram transports.
        probe: Nanos = Nanos::from_millis(2), "probe_ms", milliseconds(Nanos::from_micros(100), HOUR);
        /// Maximum delay of acknowledgements of datagrams; one acknowledgement covers all arrived datagrams. On a slow
        /// line, where a datagram takes milliseconds, a longer delay saves most of them. Only for datagram
        /// transports.
        report: Nanos = Nanos::from_millis(1), "report_us", microseconds(Nanos::from_micros(10), Nanos::from_secs(1));
        /// Share of sent datagrams that is dropped on purpose, to test a lossy network. Only for datagram transports.
        inject_loss: f64 = 0.0, "inject_loss", real(0.0, 0.99);
        /// Seed of these losses, combined with the node.
        inject_seed: u64 = 1, "inject_seed", whole(0, u64::MAX);
        /// Interface between the kernel and a node. Only for `kind = "ethernet"`, as are the next four.
        ethernet: EthernetBackend = EthernetBackend::Auto, "ethernet", pick();
        /// EtherType of the frames, the same on all nodes. The default, 0x88b5, is one of two that IEEE 802 reserves
        /// for local experiments. Other frames of the interface are not affected.
        ethertype: u16 = 0x88b5, "ethertype", whole(0x0600, 0xffff);
        /// Number of receive queues of an interface that AF_XDP uses, from queue 0. 0: all.
        queues: u32 = 0, "queues", whole(0, 256);
        /// Number of frames of the largest size that are buffered each way, for each rail and queue; rounded up to a
        /// power of two.
        frame_slots: u32 = 1_024, "frame_slots", whole(16, 32_768);
        /// Time for which an idle node polls before it sleeps. Polling occupies a processor.
        busy_poll: Nanos = Nanos::ZERO, "busy_poll_us", microseconds(Nanos::ZERO, MILLISECOND);
        /// Send buffer of a socket. 0: the default of the operating system.
        send_buffer: Option<ByteCount> = None, "send_buffer_bytes", zero_is_none(bytes(4 * KIB, GIB));
        /// Receive buffer of a socket. 0: the default of the operating system; for UDP 4 MiB, or as much as it
        /// allows.
        receive_buffer: Option<ByteCount> = None, "receive_buffer_bytes", zero_is_none(bytes(4 * KIB, GIB));
        /// Congestion control of TCP. Linux only.
        congestion: Congestion = Congestion::System, "congestion", pick();
        /// Timeout of an attempt to connect, and of the greeting that follows.
        connect_timeout: Nanos = Nanos::from_secs(5), "connect_timeout_ms", milliseconds(MILLISECOND, HOUR);
        /// Pause before the first attempt to reconnect. It doubles with each attempt, up to `retry_max_ms`.
        retry_min: Nanos = Nanos::from_millis(20), "retry_min_ms", milliseconds(MILLISECOND, HOUR);
        /// Maximum pause between attempts to connect.
        retry_max: Nanos = Nanos::from_secs(2), "retry_max_ms", milliseconds(MILLISECOND, HOUR);
        /// Time for which the node at the other end of a connection may be silent while another node claims its place.
        /// Over `libfabric`, also the time after which a peer that does not answer is considered lost. Over TCP that
        /// time is `manager.peer_timeout_ms` for a machine that does not answer (an idle connection takes at least 4
        /// s), and `manager.silence_timeout_ms` for a process that accepts no data, because it may only be stopped.
        /// Over datagrams it is
        /// `manager.silence_timeout_ms`. If a rail fails silently, its frames move to another rail.
        dead_peer: Nanos = Nanos::from_secs(10), "dead_peer_ms", milliseconds(Nanos::from_secs(1), HOUR);
    }
    nested {
        /// Certificates.
        tls: Tls;
    }
}

section! {
    /// TLS on the connections of the transport `tcp`, those of `mixed` between hosts, those of processors at
    /// `filter.listen`, and those of programs at `source.feed.listen`: set all three files, or none. Every node then proves with a certificate that it belongs to the
    /// system, and a node that connects to another checks that the certificate is for the host in its address. See
    /// [certificates](../howto/tls.md).
    Tls "transport.tls" {
        /// Certificate of the node, a PEM file, followed by any intermediate certificates.
        certificate: Option<PathBuf> = None, "certificate", maybe(path());
        /// The private key of that certificate, a PEM file without a password.
        key: Option<PathBuf> = None, "key", maybe(path());
        /// The certificates of the authorities that sign the nodes' certificates, a PEM file.
        authority: Option<PathBuf> = None, "authority", maybe(path());
    }
}

section! {
    /// The protocol: sizes of messages, and timeouts.
    Protocol "protocol" {
        /// Payload at which a readout unit completes a message of super-fragments. A larger super-fragment travels
        /// alone.
        message: ByteCount = ByteCount(64 * KIB), "message_bytes", bytes(KIB, 256 * MIB);
        /// Maximum number of super-fragments in one message.
        message_events: u32 = 256, "message_events", whole(1, 16_384);
        /// Maximum number of events in one request of a builder unit to a readout unit.
        request_events: u32 = 16_384, "request_events", whole(1, 1 << 20);
        /// Interval of heartbeats, which a node sends if it has no other message to send.
        heartbeat: Nanos = Nanos::from_millis(200), "heartbeat_ms",
            milliseconds(MILLISECOND, HOUR);
        /// Delay after which a message is acknowledged if no message travels in the other direction.
        acknowledge: Nanos = Nanos::from_millis(20), "acknowledge_ms", milliseconds(Nanos::from_micros(100), HOUR);
        /// Time without an acknowledgement after which a message is retransmitted.
        retransmit: Nanos = Nanos::from_millis(200), "retransmit_ms", milliseconds(MILLISECOND, HOUR);
    }
}
