//! Two ends of a link over a simulated network that loses, repeats and reorders.

mod closing;
mod loss;
mod meeting;
mod parts;
mod proving;
mod rails;
mod world;

use super::Settings;
use sheaf_wire::{ByteCount, Nanos};

/// Small bounds, so that all of them are met.
fn small() -> Settings {
    Settings {
        rails: 1,
        datagram_bytes: 512,
        message_bytes: ByteCount::kib(16),
        window: ByteCount::kib(48),
        flight: ByteCount::kib(16),
        queue_messages: 64,
        queue: ByteCount::kib(64),
        report_after: Nanos::from_micros(200),
        probe_min: Nanos::from_millis(2),
        ask_min: Nanos::from_millis(5),
        ask_max: Nanos::from_millis(200),
        dead_peer: Nanos::from_secs(20),
        rival: Nanos::from_secs(2),
    }
}
