//! Wake-up of a sleeping thread by another: an agreement (see [`sheaf_transport::doorbell`]), and an event counter of the kernel.

use rustix::event::EventfdFlags;
use rustix::io;
use sheaf_transport::doorbell::DoorbellState;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Wake;

/// The bell of a port.
#[derive(Debug)]
pub(crate) struct Bell {
    token: DoorbellState,
    event: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { token: DoorbellState::new(), event })
    }

    /// Becomes readable when a ringer finds the port's thread asleep.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn ring(&self) {
        if self.token.ring() {
            // Fails only when the counter is about to overflow, and then the sleeper is awake.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Takes the notice away. `true` if there was one.
    pub(crate) fn answer(&self) -> bool {
        self.token.answer()
    }

    /// Announces a sleep. `false` if somebody rang meanwhile.
    pub(crate) fn lie_down(&self) -> bool {
        self.token.lie_down()
    }

    /// Makes the event counter unreadable again.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
