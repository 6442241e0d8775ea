//! The tests that every transport passes.
//!
//! A transport implements [`Lab`], which creates networks, and calls `sheaf_conformance::conformance_tests!(ItsLab);` in a test
//! file. Each test is also a public function, so that a transport with additional requirements (a switch lab, a device) can run
//! them one by one.
//!
//! The tests wait for conditions under a watchdog, and never assert durations. They panic if the transport violates the
//! contract of [`Endpoint`].

mod alone;
mod flow;
mod lifetime;
pub mod namespaces;
mod pattern;
mod waiting;
mod world;

pub use alone::alone;
pub use flow::*;
pub use lifetime::*;
pub use waiting::*;

use sheaf_transport::Endpoint;
use sheaf_wire::{ByteCount, Nanos, NodeId};
use std::time::Duration;

/// Time after which a condition is considered never to become true. Minutes, so that a busy machine makes a test slow but does not
/// fail it.
pub const WATCHDOG: Duration = Duration::from_secs(300);

/// Environment variable that is set by `cargo xtask nightly`. Tests then use larger amounts.
const NIGHTLY: &str = "SHEAF_NIGHTLY";

/// Returns one of two amounts: for every run of the tests, or for nightly ones.
fn amount(always: u64, nightly: u64) -> u64 {
    if std::env::var_os(NIGHTLY).is_some() { nightly } else { always }
}

/// Factory of a transport's networks.
pub trait Lab {
    /// Type of its endpoints.
    type Endpoint: Endpoint + 'static;

    /// Creates a network on this machine in which any two of `nodes` may communicate. No node is started yet.
    fn new(nodes: &[NodeId], limits: Limits) -> Self;

    /// Starts `node`, for the first time or after its endpoint was dropped. It will be driven by a separate thread.
    fn start(&mut self, node: NodeId) -> Self::Endpoint;
}

/// Bounds of each link of a network. A transport may allow more in transit (in the kernel, on a wire), but not less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of frames in a queue.
    pub queue_frames: usize,
    /// Maximum number of bytes in a queue.
    pub queue_bytes: ByteCount,
    /// Maximum size of a frame.
    pub max_frame_bytes: ByteCount,
    /// Timeout after which a silent peer counts as lost, for transports that can only detect a loss by silence.
    pub dead_peer: Nanos,
}

impl Limits {
    /// Returns the limits of a network on which nodes die, with a short timeout for silent peers. In other tests, such a timeout
    /// would fail on a busy machine.
    #[must_use]
    pub fn mortal() -> Self {
        Self { dead_peer: Nanos::from_secs(2), ..Self::default() }
    }
}

impl Default for Limits {
    /// Returns 256 frames, 4 MiB, frames of at most 1 MiB, and a timeout of an hour.
    fn default() -> Self {
        Self {
            queue_frames: 256,
            queue_bytes: ByteCount::mib(4),
            max_frame_bytes: ByteCount::mib(1),
            dead_peer: Nanos::from_secs(3600),
        }
    }
}

/// Generates one `#[test]` for every property of a transport; the argument is its [`Lab`]. For a transport that is not available
/// on every machine, add `, if` and a check of its presence, which prints the reason if it returns `false`.
#[macro_export]
macro_rules! conformance_tests {
    ($lab:ty) => {
        $crate::conformance_tests! { $lab, if true }
    };
    ($lab:ty, if $present:expr) => {
        $crate::conformance_tests! { $lab, $present =>
            frames_arrive_in_order_whole_and_once
            pieces_are_never_split
            heads_and_payloads_may_be_empty
            the_largest_frame_passes_and_one_byte_more_does_not
            a_full_queue_refuses_and_nothing_is_lost
            many_to_many_traffic_stays_in_order_on_every_link
            a_flood_from_one_sender_does_not_keep_the_others_waiting
            counters_add_up
            strangers_and_absent_peers_are_told_apart
            the_death_of_a_node_is_seen_by_the_others
            a_node_that_dies_in_full_flow_leaves_a_beginning_without_gaps
            a_restarted_node_is_connected_anew
            an_orderly_close_delivers_what_was_accepted
            closing_both_ends_at_once_delivers_both_ways
            a_wait_ends_when_its_time_is_over
            a_wait_ends_by_a_frame
            a_wait_ends_by_the_waker_before_and_during_it
            a_wait_ends_when_a_queue_that_refused_has_room
            no_wake_up_is_missed_in_a_ping_pong_of_sleepers
        }
    };
    ($lab:ty, $present:expr => $($test:ident)*) => {
        $(
            #[test]
            fn $test() {
                if $present {
                    $crate::$test::<$lab>();
                }
            }
        )*
    };
}
