//! A builder unit of a run that follows another one without a gap.

use super::{BuilderNode, Judgement};
use crate::handover::Handover;
use crate::outbox::Outbox;
use crate::vigil::LINGER;
use bytes::Bytes;
use sheaf_protocol::builder::BuilderUnit;
use sheaf_protocol::liveness::Patience;
use sheaf_wire::Timestamp;
use std::task::Waker;

/// Parts of a builder unit that the next run in its node goes on with.
pub struct BuilderHandover {
    pub(super) outbox: Outbox,
}

impl Handover for BuilderHandover {
    fn abandon(mut self: Box<Self>) {
        self.outbox.endpoint().close(LINGER);
    }

    fn waker(&mut self) -> Waker {
        self.outbox.endpoint().waker()
    }
}

impl BuilderNode {
    /// Makes a builder of the run that follows another one in this node.
    #[must_use]
    pub fn following(
        role: BuilderUnit<Bytes>,
        handover: BuilderHandover,
        judgement: Judgement,
        patience: Patience,
        now: Timestamp,
    ) -> Self {
        let BuilderHandover { mut outbox } = handover;
        outbox.begin_run();
        Self::with(role, outbox, judgement, patience, now)
    }
}
