//! Wake-up of a sleeping thread by another: an agreement (see [`sheaf_transport::doorbell`]), and an event counter of the kernel.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io;
use sheaf_transport::LinkStats;
use sheaf_transport::doorbell::DoorbellState;
use std::os::fd::{AsFd, OwnedFd};
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

    /// Announces a sleep. Returns `false` if the bell was rung meanwhile.
    pub(crate) fn lie_down(&self) -> bool {
        self.token.lie_down()
    }

    /// Sleeps until one of `files` is ready, the bell rings, or the time is over, and counts that. Returns whether one of the
    /// files is broken.
    pub(crate) fn sleep<'a>(
        &'a self,
        mut files: Vec<PollFd<'a>>,
        timeout: Option<&Timespec>,
        stats: &mut LinkStats,
    ) -> bool {
        files.push(PollFd::from_borrowed_fd(self.event.as_fd(), PollFlags::IN));
        // A signal ends the sleep early; the following polls find nothing.
        let woken = rustix::event::poll(&mut files, timeout).is_ok_and(|ready| ready > 0);
        stats.sleeps += 1;
        stats.system_calls += 1;
        stats.wake_ups += u64::from(woken);
        if files.pop().is_some_and(|bell| bell.revents().contains(PollFlags::IN)) {
            self.clear();
        }
        files.iter().any(|file| file.revents().intersects(PollFlags::ERR | PollFlags::NVAL))
    }

    /// Makes the event counter unreadable again.
    fn clear(&self) {
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
