//! Who may look on.

use super::{GIB, HOUR, KIB, MIB};
use crate::codec::{address, bytes, maybe, milliseconds, path, real, switch, whole, zero_is_none};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;

section! {
    /// Consumers: programs that join a run while it lasts and get a sample of its accepted events, such as `sheaf tap`. They
    /// never slow the run; what they miss is counted. See [consumers](../howto/consumers.md).
    Consumers "consumers" {
        /// Whether builder units let consumers in.
        open: bool = true, "open", switch();
        /// The directory of the Unix sockets by which they join, one for each builder unit: `bu0.tap`. Left out, it is the
        /// run's directory; where nothing is written there is then no socket.
        directory: Option<PathBuf> = None, "directory", maybe(path());
        /// A TCP address by which they join, as `host:port`: builder unit 0 listens at this port, builder unit 1 at the next,
        /// and so on. Whoever reaches it sees the run's events. Left out, there is none.
        listen: Option<String> = None, "listen", maybe(address());
        /// How many consumers a builder unit lets in at a time.
        consumers: u32 = 16, "consumers", whole(1, 1_024);
        /// How many events may wait for one consumer at one builder unit. What comes when they are that many is not sent.
        queue_events: u32 = 256, "queue_events", whole(1, 65_536);
        /// How many bytes may wait for one consumer at one builder unit. A larger event is never sent.
        queue: ByteCount = ByteCount(16 * MIB), "queue_bytes", bytes(KIB, 256 * MIB);
        /// How many events a second one consumer gets of one builder unit at most, on average. 0: no limit.
        rate_hz: Option<f64> = Some(1_000.0), "rate_hz", zero_is_none(real(0.001, 1e9));
        /// How many bytes a second one builder unit copies for all its consumers at most, on average. It bounds what looking on
        /// costs the builder's thread. 0: no limit.
        copy: Option<ByteCount> = Some(ByteCount(64 * MIB)), "copy_bytes_per_second", zero_is_none(bytes(KIB, 64 * GIB));
        /// How long one who has joined may wait before it says what it wants. Then it is dropped.
        greeting: Nanos = Nanos::from_secs(5), "greeting_ms", milliseconds(Nanos::from_millis(1), HOUR);
        /// How long a consumer may read nothing while something waits for it. Then it is dropped.
        patience: Nanos = Nanos::from_secs(10), "patience_ms", milliseconds(Nanos::from_millis(1), HOUR);
    }
}
