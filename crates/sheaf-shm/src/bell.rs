//! Wake-up of a sleeping node: an agreement in shared memory, and an event counter of the kernel.

use super::segment::{self, Common, PAGE_BYTES};
use rustix::event::EventfdFlags;
use rustix::fs::OFlags;
use rustix::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Wake;

/// A node's bell, at the node or at one of its peers.
#[derive(Debug)]
pub(crate) struct Bell {
    page: Common,
    page_file: OwnedFd,
    event: OwnedFd,
}

impl Bell {
    /// A bell of a new node. `name` is for people.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let page_file = segment::create(name, PAGE_BYTES)?;
        let page = Common::new(&page_file, PAGE_BYTES)?;
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { page, page_file, event })
    }

    /// Makes the bell of a peer. Returns `None` if the files do not form a bell.
    pub(crate) fn of_peer(page_file: OwnedFd, event: OwnedFd) -> Option<Self> {
        // Ringing must never block.
        let nonblocking = rustix::fs::fcntl_getfl(&event).ok()?.contains(OFlags::NONBLOCK);
        if segment::sealed_bytes(&page_file)? < PAGE_BYTES || !nonblocking {
            return None;
        }
        Some(Self { page: Common::new(&page_file, PAGE_BYTES).ok()?, page_file, event })
    }

    pub(crate) fn page_file(&self) -> BorrowedFd<'_> {
        self.page_file.as_fd()
    }

    /// Becomes readable when a ringer finds the node asleep.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Leaves a notice, and wakes the node if it sleeps. `true` if that took a system call.
    pub(crate) fn ring(&self) -> bool {
        if !self.page.token(0).ring() {
            return false;
        }
        // Fails only when the counter is about to overflow, and then the sleeper is awake.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        true
    }

    /// Takes the notice away, see [`sheaf_transport::doorbell`].
    pub(crate) fn answer(&self) -> bool {
        self.page.token(0).answer()
    }

    /// Announces a sleep, see [`sheaf_transport::doorbell`].
    pub(crate) fn lie_down(&self) -> bool {
        self.page.token(0).lie_down()
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
