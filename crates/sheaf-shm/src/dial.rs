//! Connections that are not links yet: times of calls, and their peers.

use super::greeting::Call;
use super::settings::ShmSettings;
use std::time::{Duration, Instant};

/// The calling side of one peer.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) name: String,
    /// Time of the next call; `None` during a call or a link.
    pub(super) next: Option<Instant>,
    /// Calls since a link was last up.
    pub(super) attempts: u32,
}

impl Dial {
    pub(super) fn new(name: String, now: Instant) -> Self {
        Self { name, next: Some(now), attempts: 0 }
    }

    pub(super) fn rest(&mut self, settings: &ShmSettings, now: Instant) {
        let doublings = self.attempts.min(16);
        self.attempts = self.attempts.saturating_add(1);
        let pause = settings.retry_min.0.saturating_mul(1 << doublings).min(settings.retry_max.0);
        self.next = Some(now + Duration::from_nanos(pause));
    }
}

/// Peer of a connection before it is a link.
#[derive(Debug)]
pub(super) enum Who {
    /// It has called and has not identified itself.
    Unknown,
    /// It was called.
    Called { place: usize, call: Call },
}
