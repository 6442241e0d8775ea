//! Who may look on.

use super::{GIB, HOUR, KIB, MIB};
use crate::codec::{address, bytes, maybe, milliseconds, path, real, switch, whole, zero_is_none};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;

section! {
    /// Consumers: programs that join a run in progress and receive a sample of its accepted events, such as `sheaf
    /// tap`. They never slow the run; events that they miss are counted. See [watch a run in
    /// progress](../howto/consumers.md).
    Consumers "consumers" {
        /// Whether builder units accept consumers.
        open: bool = true, "open", switch();
        /// Directory of the Unix sockets for consumers, one for each builder unit: `bu0.tap`. Default: the run
        /// directory; without one there is no socket.
        directory: Option<PathBuf> = None, "directory", maybe(path());
        /// TCP address for consumers, as `host:port`: builder unit 0 listens at this port, builder unit 1 at the
        /// next, and so on. Consumers prove there that they have the key of the run (`transport.key_file`); without one, anyone
        /// who can reach it can read the events of the run. Default: none.
        listen: Option<String> = None, "listen", maybe(address());
        /// Maximum number of consumers of a builder unit at a time.
        consumers: u32 = 16, "consumers", whole(1, 1_024);
        /// Maximum number of events that wait for one consumer at one builder unit. Further events are not sent to
        /// it.
        queue_events: u32 = 256, "queue_events", whole(1, 65_536);
        /// Maximum bytes that wait for one consumer at one builder unit. A larger event is never sent.
        queue: ByteCount = ByteCount(16 * MIB), "queue_bytes", bytes(KIB, 256 * MIB);
        /// Maximum average rate of events for one consumer at one builder unit, per second. 0: no limit.
        rate_hz: Option<f64> = Some(1_000.0), "rate_hz", zero_is_none(real(0.001, 1e9));
        /// Maximum average bytes per second that one builder unit copies for all its consumers. It bounds the cost of
        /// consumers to the builder's thread. 0: no limit.
        copy: Option<ByteCount> = Some(ByteCount(64 * MIB)), "copy_bytes_per_second", zero_is_none(bytes(KIB, 64 * GIB));
        /// Time within which a consumer must subscribe after it has joined; otherwise it is disconnected.
        greeting: Nanos = Nanos::from_secs(5), "greeting_ms", milliseconds(Nanos::from_millis(1), HOUR);
        /// Time for which a consumer may read nothing while data wait for it; then it is disconnected.
        patience: Nanos = Nanos::from_secs(10), "patience_ms", milliseconds(Nanos::from_millis(1), HOUR);
    }
}
