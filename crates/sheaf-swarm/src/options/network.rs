//! The network, and links that recover from its loss.

use crate::dice::Ratio;
use sheaf_wire::{ByteCount, Nanos};

/// The network. Without loss, duplication and reordering, each link keeps its messages in order.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkOptions {
    /// Minimum delay of a message.
    pub delay_min: Nanos,
    /// Mean of the additional delay, which is exponentially distributed.
    pub jitter_mean: Nanos,
    /// Maximum factor by which a link is slower than that.
    pub spread: u64,
    /// A message is lost.
    pub loss: Ratio,
    /// A message is duplicated.
    pub duplicate: Ratio,
    /// A message may be reordered on its link, with up to `reorder_delay` of additional delay.
    pub reorder: Ratio,
    /// See `reorder`.
    pub reorder_delay: Nanos,
    /// Sending a message clogs its link: nothing arrives on it for a while.
    pub clog: Ratio,
    /// Mean time for which a link stays clogged.
    pub clog_mean: Nanos,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            delay_min: Nanos::from_micros(10),
            jitter_mean: Nanos::from_micros(10),
            spread: 1,
            loss: Ratio::NEVER,
            duplicate: Ratio::NEVER,
            reorder: Ratio::NEVER,
            reorder_delay: Nanos::from_millis(1),
            clog: Ratio::NEVER,
            clog_mean: Nanos::from_millis(5),
        }
    }
}

/// Links that recover from loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryOptions {
    /// Maximum size of a datagram, from 256 to 65,535 bytes.
    pub datagram: ByteCount,
    /// Number of rails of a link, from 1 to 64. The network treats them alike.
    pub rails: usize,
}
