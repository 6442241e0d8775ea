//! The knobs of an endpoint over libfabric.

use super::port::Fault;
use super::wire::HEADER_BYTES;
use sheaf_tcp::{PeerAddress, TcpError, TcpSettings};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::net::TcpListener;

/// Identity, peers and settings of an endpoint.
#[derive(Debug)]
pub struct LibfabricOptions {
    /// The node.
    pub node: NodeId,
    /// The run that it takes part in.
    pub run: RunNumber,
    /// This life of the node; not zero, and greater than in any earlier life.
    pub session: SessionId,
    /// Listener for the peers' TCP connections. `None` if this node calls all its peers.
    pub listener: Option<TcpListener>,
    /// The nodes to talk to.
    pub peers: Vec<PeerAddress>,
    /// The provider of libfabric, as its own tools name it: `shm`, `tcp;ofi_rxm`, `net`, `verbs;ofi_rxm`, `efa`, `cxi`. The
    /// same on all nodes.
    pub provider: String,
    /// Local address for a provider over IP or InfiniBand; selects its interface. `None`: chosen by the provider. Not
    /// for `shm`, `efa` and `cxi`.
    pub source: Option<String>,
    /// The bounds and times.
    pub settings: LibfabricSettings,
}

/// The bounds and times of an endpoint over libfabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibfabricSettings {
    /// Maximum size of a frame, head and payload together, at most 1 GiB. A link uses the smaller value of its two
    /// ends. Default 16 MiB.
    pub max_frame_bytes: ByteCount,
    /// Maximum number of frames that wait to be sent to a peer. Default 1,024.
    pub queue_frames: usize,
    /// Maximum number of bytes that wait to be sent to a peer, at least `max_frame_bytes`. Default 16 MiB.
    pub queue_bytes: ByteCount,
    /// The size of a message's buffer, from 4 KiB to 16 MiB; rounded down where the provider takes less. A frame that is larger
    /// travels in several messages and is copied. Default 128 KiB.
    pub message_bytes: ByteCount,
    /// Number of messages that a peer may send before it is granted more, if the provider accepts that many. Default
    /// 64.
    pub window: usize,
    /// All buffers for received messages: the windows of all peers, and the received frames that the node holds. Used
    /// from the first on, so unneeded buffers take no memory. If all are held, no credit is granted, which is
    /// back-pressure for the peers. Default 256 MiB.
    pub receive_bytes: ByteCount,
    /// Timeout of an attempt to connect, and then of the greeting. Default 5 s.
    pub connect_timeout: Nanos,
    /// The pause before the first new attempt to connect; doubles with each up to `retry_max`. Default 20 ms.
    pub retry_min: Nanos,
    /// The longest pause between attempts. Default 2 s.
    pub retry_max: Nanos,
    /// Time for which a peer's machine may be silent before its links count as lost. At least 1 s. Default 10 s.
    pub dead_peer: Nanos,
}

impl Default for LibfabricSettings {
    fn default() -> Self {
        Self {
            max_frame_bytes: ByteCount::mib(16),
            queue_frames: 1024,
            queue_bytes: ByteCount::mib(16),
            message_bytes: ByteCount::kib(128),
            window: 64,
            receive_bytes: ByteCount::mib(256),
            connect_timeout: Nanos::from_secs(5),
            retry_min: Nanos::from_millis(20),
            retry_max: Nanos::from_secs(2),
            dead_peer: Nanos::from_secs(10),
        }
    }
}

/// Reason why an endpoint could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LibfabricError {
    /// The endpoint over which the nodes meet could not be made.
    #[error("the TCP side, over which nodes meet, could not be made")]
    Meeting(#[from] TcpError),
    /// The library is not installed, or too old.
    #[error("cannot load libfabric: {reason}; install it on this host (Debian: libfabric1)")]
    Library {
        /// Reason of the dynamic linker.
        reason: &'static str,
    },
    /// The provider is not installed, or lacks a required feature.
    #[error(
        "provider \"{provider}\" of libfabric cannot be opened{}; `fi_info -l` lists those of this host, reliable \
         datagrams (FI_EP_RDM) and messages (FI_MSG) are needed",
        .source_address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default()
    )]
    NoProvider {
        /// Its name.
        provider: String,
        /// The local address that was asked for.
        source_address: Option<String>,
        /// Error of libfabric.
        #[source]
        fault: Fault,
    },
    /// libfabric refused something else.
    #[error("provider \"{provider}\" of libfabric could not {what}")]
    Failed {
        /// Its name.
        provider: String,
        /// Operation that libfabric was asked for.
        what: &'static str,
        /// Error of libfabric.
        #[source]
        fault: Fault,
    },
    /// No memory.
    #[error("could not map {bytes} for messages")]
    Memory {
        /// Number of bytes requested.
        bytes: ByteCount,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// Too little memory, or too few receives at once, for this number of peers.
    #[error("{have} receive buffers are not enough for {peers} peers; at least {} are needed", .peers * (RESERVE + 1))]
    TooFewBuffers {
        /// Buffers that there would be: by `receive_bytes`, or by the provider's limit.
        have: usize,
        /// Peers that there are.
        peers: usize,
    },
    /// A setting that cannot work.
    #[error("`{name}` is {value}; it must be {rule}")]
    BadSetting {
        /// Which.
        name: &'static str,
        /// Its value.
        value: u64,
        /// Rule that the value breaks.
        rule: &'static str,
    },
    /// A text that C cannot take.
    #[error("{0:?} has a zero byte in it; the name of a provider or an address is expected")]
    BadText(String),
}

/// Number of buffers kept ready for each peer beyond its window: messages of credit arrive without credit. A peer sends
/// one for each half window that it took, and one when it has none left to grant; only those that this side has not
/// read yet can be in flight together, and it cannot send more without reading. So there are at most four, and the
/// first message of a link.
pub(super) const RESERVE: usize = 6;

/// Settings larger than that are mistakes.
const MAX_MESSAGE_BYTES: u64 = 16 << 20;

impl LibfabricSettings {
    pub(super) fn check(&self) -> Result<(), LibfabricError> {
        let message = self.message_bytes.0;
        let rules = [
            ("message_bytes", message, (4096..=MAX_MESSAGE_BYTES).contains(&message), "from 4 KiB to 16 MiB"),
            ("window", self.window as u64, (1..=1 << 16).contains(&self.window), "from 1 to 65,536"),
            (
                "receive_bytes",
                self.receive_bytes.0,
                self.receive_bytes >= self.message_bytes,
                "at least `message_bytes`",
            ),
        ];
        for (name, value, holds, rule) in rules {
            if !holds {
                return Err(LibfabricError::BadSetting { name, value, rule });
            }
        }
        Ok(())
    }

    /// Returns the settings of the TCP side: a few small frames for each peer. The constraints on common settings are
    /// checked there.
    pub(super) fn of_meeting(&self, peers: usize) -> TcpSettings {
        TcpSettings {
            max_frame_bytes: self.max_frame_bytes,
            queue_frames: self.queue_frames,
            queue_bytes: self.queue_bytes,
            block_bytes: ByteCount::kib(4),
            blocks: peers + 16,
            rails: 1,
            send_buffer: None,
            receive_buffer: None,
            congestion: None,
            connect_timeout: self.connect_timeout,
            greeting_timeout: self.connect_timeout,
            retry_min: self.retry_min,
            retry_max: self.retry_max,
            dead_peer: self.dead_peer,
            silent_machine: self.dead_peer,
            stalled_peer: TcpSettings::default().stalled_peer,
        }
    }
}

/// Returns the size of a buffer: a multiple of a cache line, with its header within the provider's limit.
pub(super) fn buffer_bytes(settings: &LibfabricSettings, max_message_bytes: u64) -> usize {
    let bytes = settings.message_bytes.0.min(max_message_bytes) as usize;
    (bytes / 64 * 64).max(HEADER_BYTES + 64)
}
