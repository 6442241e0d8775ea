//! Recovery from loss over real networks: the conformance suite, with and without loss.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper that fails, fails its test; a test that is skipped says why"
)]

mod ethernet;
mod udp;

use sheaf_conformance::Limits;
use sheaf_datagram::lossy::LossySettings;
use sheaf_wire::{ByteCount, Nanos};

/// Settings for a network of the suite. Blocks are small, so that frames cross their ends, and some frames are larger than a block.
fn settings(limits: Limits) -> LossySettings {
    LossySettings {
        max_frame_bytes: limits.max_frame_bytes,
        queue_frames: limits.queue_frames.min(16_384),
        queue_bytes: limits.queue_bytes,
        window_bytes: limits.queue_bytes,
        block_bytes: ByteCount::kib(64),
        blocks: 8192,
        retry_min: Nanos::from_millis(1),
        retry_max: Nanos::from_millis(20),
        dead_peer: limits.dead_peer,
        ..LossySettings::default()
    }
}
