//! Failures of single events.

use sheaf_telemetry::log_as;
use sheaf_wire::{EventId, NodeId};
use std::fmt::Display;

/// Maximum number of events of each kind of mishap that the log describes.
const MISHAPS_LOGGED: u64 = 10;

/// Failures of single events: all are counted, the first few are described in the log.
#[derive(Default)]
pub(super) struct Mishaps(pub(super) u64);

impl Mishaps {
    pub(super) fn note(&mut self, node: NodeId, event: EventId, what: impl Display) {
        self.0 += 1;
        if self.0 <= MISHAPS_LOGGED {
            log_as!(CONTENT_WRONG, node = node, event = event; "{node}: event {event}: {what}");
        }
    }
}
