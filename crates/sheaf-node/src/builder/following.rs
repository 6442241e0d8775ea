//! A builder unit of a run that follows another one without a gap.

use super::{BuilderNode, Judgement};
use crate::link_handover::LinkHandover;
use bytes::Bytes;
use sheaf_protocol::builder::BuilderUnit;
use sheaf_protocol::liveness::Patience;
use sheaf_wire::Timestamp;

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
}
