//! Handle by which other threads end a wait of the endpoint's.

use sheaf_transport::doorbell::DoorbellState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

/// Handle by which other threads end a wait.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) agreement: DoorbellState,
    waker: mio::Waker,
    resolved: AtomicBool,
}

impl Notice {
    pub(super) fn new(waker: mio::Waker) -> Self {
        Self { agreement: DoorbellState::new(), waker, resolved: AtomicBool::new(false) }
    }

    fn ring(&self) {
        if self.agreement.ring() {
            // Fails only when the event counter is about to overflow, and then the sleeper is awake.
            let _ = self.waker.wake();
        }
    }

    pub(super) fn ring_for_the_resolver(&self) {
        self.resolved.store(true, Ordering::Release);
        self.ring();
    }

    /// Returns whether a resolver has answered since the last call.
    pub(super) fn take_resolved(&self) -> bool {
        self.resolved.load(Ordering::Relaxed) && self.resolved.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
