//! The state of hosts and of their interfaces.

use super::frames::NONE;
use crate::units::Picos;
use std::ops::Range;

/// A host.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// The links that it sends into.
    pub(super) rails: Range<u32>,
    /// Messages that its interface holds.
    pub(super) held: u32,
    /// Time until which the bus between memory and links is occupied.
    pub(super) bus_busy_until: Picos,
    /// When it will be asked again; [`Picos::MAX`]: that is not planned.
    pub(super) asked_at: Picos,
}

impl Host {
    pub(super) fn new(rails: Range<u32>) -> Self {
        Self { rails, held: 0, bus_busy_until: Picos::ZERO, asked_at: Picos::MAX }
    }
}

/// State of an interface for one of its links.
#[derive(Clone, Debug)]
pub(super) struct Rail {
    /// The message that it sends, or [`NONE`].
    pub(super) current: u32,
    /// The first of those behind it, or [`NONE`].
    pub(super) first: u32,
    pub(super) last: u32,
    /// Until when it rests after a message.
    pub(super) rests_until: Picos,
    /// Time at which it continues on its own, while it rests or waits for its message to be ready.
    pub(super) goes_on_at: Picos,
    /// Since when a message that is ready waits for the far end; [`Picos::MAX`]: none does.
    pub(super) blocked: Picos,
}

impl Default for Rail {
    fn default() -> Self {
        let (rests_until, goes_on_at, blocked) = (Picos::ZERO, Picos::ZERO, Picos::MAX);
        Self { current: NONE, first: NONE, last: NONE, rests_until, goes_on_at, blocked }
    }
}

impl Rail {
    /// The message that it sends now or next, or [`NONE`].
    pub(super) fn head(&self) -> u32 {
        if self.current == NONE { self.first } else { self.current }
    }
}
