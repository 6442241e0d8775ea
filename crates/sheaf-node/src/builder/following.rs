//! A builder unit of a run that follows another one without a gap, or whose event manager has a standby.

use super::{BuilderNode, Judgement};
use crate::link_handover::LinkHandover;
use bytes::Bytes;
use sheaf_protocol::builder::BuilderUnit;
use sheaf_protocol::liveness::Patience;
use sheaf_wire::{Nanos, Timestamp};

impl BuilderNode {
    /// Makes a builder of the run that follows another one in this node.
    #[must_use]
    pub fn following(
        role: BuilderUnit<Bytes>,
        handover: LinkHandover,
        judgement: Judgement,
        patience: Patience,
        now: Timestamp,
    ) -> Self {
        Self::with(role, handover.begin_run(), judgement, patience, now)
    }

    /// Listens to whichever of two replicas of the event manager is active, and votes on which it is if `vote` is given: the silence after
    /// which the active one may be succeeded.
    #[must_use]
    pub fn with_replicas(mut self, vote: Option<Nanos>) -> Self {
        self.outbox.join(*self.role.identity(), vote);
        self
    }

    /// Listens to the mirrors of readout units that act for them.
    #[must_use]
    pub fn with_mirrors(mut self) -> Self {
        self.outbox.know_mirrors(*self.role.identity());
        self
    }
}
