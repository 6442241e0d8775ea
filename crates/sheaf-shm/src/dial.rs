//! Connections that are no links yet: when to call, and whom a connection is with.

use super::greeting::Call;
use super::settings::ShmSettings;
use std::time::{Duration, Instant};

/// The calling side of one peer.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) name: String,
    /// When to call next; `None` while a call or a link is there.
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

/// Whom a connection is with, before it is a link.
#[derive(Debug)]
pub(super) enum Who {
    /// It has called, and has to say who it is.
    Unknown,
    /// It was called.
    Called { place: usize, call: Call },
}
