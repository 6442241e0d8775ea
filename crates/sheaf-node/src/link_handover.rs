//! Handover of a builder unit or an output node to the next run.

use crate::handover::Handover;
use crate::outbox::Outbox;
use std::task::Waker;

/// Links that the next run in a node goes on with.
pub struct LinkHandover {
    pub(crate) outbox: Outbox,
}

impl LinkHandover {
    /// Returns the links for the next run.
    pub(crate) fn begin_run(mut self) -> Outbox {
        self.outbox.begin_run();
        self.outbox
    }
}

impl Handover for LinkHandover {
    fn abandon(mut self: Box<Self>) {
        self.outbox.end_run(false);
    }

    fn waker(&mut self) -> Waker {
        self.outbox.endpoint().waker()
    }
}
