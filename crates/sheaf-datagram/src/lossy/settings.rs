//! The knobs of an endpoint on a network that loses.

use crate::DatagramPort;
use sheaf_key::{NoRandomness, RunKey};
use sheaf_shaping::{Policy, ShaperConfig};
use sheaf_wire::datagram::{MAX_MESSAGE_BYTES, MAX_RAILS};
use sheaf_wire::machine::Identity;
use sheaf_wire::{ByteCount, Nanos, NodeId};

/// Identity, peers and settings of an endpoint.
#[derive(Clone, Debug)]
pub struct LossyOptions {
    /// The key of the run, where it has one: peers prove that they have it, too.
    pub key: Option<RunKey>,
    /// The node, its run and its session.
    pub identity: Identity,
    /// The nodes to talk to; where the policy is the barrel, builders first, in order.
    pub peers: Vec<NodeId>,
    /// The bounds and times.
    pub settings: LossySettings,
    /// Shaping: which of several peers is served next, and when. The endpoint replaces its `unit`.
    pub shaper: ShaperConfig,
    /// This node's place in the barrel.
    pub place: usize,
}

/// The bounds and times of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossySettings {
    /// The largest frame, head and payload together, at most 1 GiB. Default 16 MiB.
    pub max_frame_bytes: ByteCount,
    /// Maximum number of frames that wait for a peer, including those not yet reported as received; up to 16,384.
    /// Default 1,024.
    pub queue_frames: usize,
    /// Maximum number of their bytes, at least `max_frame_bytes`. Default 16 MiB.
    pub queue_bytes: ByteCount,
    /// Maximum number of bytes that a peer may send before this node takes them. Raised to twice `max_frame_bytes`.
    /// Default 32 MiB.
    pub window_bytes: ByteCount,
    /// Maximum number of bytes of datagrams that a peer may have in flight. `None`: its share of half of the port's
    /// receive buffer.
    pub flight_bytes: Option<ByteCount>,
    /// The size of the blocks that frames are put together in. A frame keeps its block from being filled again until it is
    /// dropped; a frame larger than a block gets memory of its own. Default 1 MiB.
    pub block_bytes: ByteCount,
    /// Maximum number of blocks. When all are held, frames get memory of their own and peers are granted nothing more;
    /// so beyond the blocks there is at most a window for each peer. Default 256.
    pub blocks: usize,
    /// Maximum delay of the report of an arrival. Default 1 ms.
    pub report_after: Nanos,
    /// Minimum time before an unreported datagram is probed. Default 2 ms.
    pub probe_min: Nanos,
    /// The pause before the first new attempt to reach a peer; doubles with each up to `retry_max`. Default 20 ms.
    pub retry_min: Nanos,
    /// The longest pause between attempts. Default 2 s.
    pub retry_max: Nanos,
    /// Time after which a silent peer counts as lost. Default 10 s.
    pub dead_peer: Nanos,
    /// Time after which a peer that does not answer requests gives way to a new session of its node from another
    /// address. Default 10 s.
    pub rival: Nanos,
}

impl Default for LossySettings {
    fn default() -> Self {
        let recovery = sheaf_recovery::Settings::default();
        Self {
            max_frame_bytes: recovery.message_bytes,
            queue_frames: recovery.queue_messages,
            queue_bytes: recovery.queue,
            window_bytes: recovery.window,
            flight_bytes: None,
            block_bytes: ByteCount::mib(1),
            blocks: 256,
            report_after: recovery.report_after,
            probe_min: recovery.probe_min,
            retry_min: recovery.ask_min,
            retry_max: recovery.ask_max,
            dead_peer: recovery.dead_peer,
            rival: recovery.rival,
        }
    }
}

/// Reason why an endpoint could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LossyError {
    /// The node is its own peer or not the port's, or a peer is named twice.
    #[error("{0} is named twice among a node and its peers, or is not the port's node")]
    NamedTwice(NodeId),
    /// The port's datagrams are too small.
    #[error("the port's datagrams have {0} bytes; at least 256 are needed")]
    SmallDatagrams(usize),
    /// There is no randomness for nonces.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
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
}

/// Minimum number of datagrams in flight on a link; with fewer it would wait for a report after each.
const LEAST_FLIGHT_DATAGRAMS: u64 = 8;

impl LossySettings {
    /// The settings of each link over `port`, of which there are `peers`.
    pub(super) fn recovery(
        &self,
        port: &impl DatagramPort,
        peers: usize,
    ) -> Result<sheaf_recovery::Settings, LossyError> {
        let most = u64::from(MAX_MESSAGE_BYTES);
        let rails = port.rails();
        let rules = [
            ("rails", rails as u64, (1..=MAX_RAILS).contains(&rails), "from 1 to 64"),
            (
                "max_frame_bytes",
                self.max_frame_bytes.0,
                (1..=most).contains(&self.max_frame_bytes.0),
                "from 1 byte to 1 GiB",
            ),
            (
                "queue_frames",
                self.queue_frames as u64,
                (1..=16_384).contains(&self.queue_frames),
                "from 1 to 16384",
            ),
            (
                "queue_bytes",
                self.queue_bytes.0,
                self.queue_bytes >= self.max_frame_bytes,
                "at least `max_frame_bytes`",
            ),
            ("block_bytes", self.block_bytes.0, self.block_bytes.0 >= 4 << 10, "at least 4 KiB"),
            ("blocks", self.blocks as u64, self.blocks > 0, "at least 1"),
            ("retry_min", self.retry_min.0, self.retry_min > Nanos::ZERO, "more than zero"),
            ("retry_max", self.retry_max.0, self.retry_max >= self.retry_min, "at least `retry_min`"),
            ("dead_peer", self.dead_peer.0, self.dead_peer >= Nanos::from_millis(100), "at least 100 ms"),
        ];
        for (name, value, holds, rule) in rules {
            if !holds {
                return Err(LossyError::BadSetting { name, value, rule });
            }
        }
        // A port holds its room for each rail; but a peer may send all by one of them.
        let share = port.receive_room_bytes() as u64 / 2 / peers.max(1) as u64;
        let least = LEAST_FLIGHT_DATAGRAMS * port.max_datagram_bytes() as u64;
        Ok(sheaf_recovery::Settings {
            rails,
            datagram_bytes: port.max_datagram_bytes(),
            message_bytes: self.max_frame_bytes,
            window: self.window_bytes,
            flight: self.flight_bytes.unwrap_or(ByteCount(share.max(least))),
            queue_messages: self.queue_frames,
            queue: self.queue_bytes,
            report_after: self.report_after,
            probe_min: self.probe_min,
            ask_min: self.retry_min,
            ask_max: self.retry_max,
            dead_peer: self.dead_peer,
            rival: self.rival,
        })
    }
}

impl LossyOptions {
    /// Options without shaping: all peers in turn, as fast as the port takes it.
    #[must_use]
    pub fn unshaped(identity: Identity, peers: Vec<NodeId>, settings: LossySettings) -> Self {
        let shaper = ShaperConfig {
            line_rate: None,
            burst: ByteCount::ZERO,
            unit: ByteCount::ZERO,
            policy: Policy::Unshaped,
        };
        Self { key: None, identity, peers, settings, shaper, place: 0 }
    }

    /// Returns the shaping of the traffic over `port`.
    pub(super) fn shaper(&self, port: &impl DatagramPort) -> ShaperConfig {
        let unit = ByteCount::from(port.max_datagram_bytes() + port.wire_overhead_bytes());
        ShaperConfig { unit, ..self.shaper }
    }
}
