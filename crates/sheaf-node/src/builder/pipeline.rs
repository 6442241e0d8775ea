//! Path of a built event: it is checked, judged, and given to the node that stores it.

use super::Mishaps;
use crate::content::ContentCheck;
use crate::farm::Farm;
use crate::filter::Filter;
use crate::forwarding::Forwarding;
use crate::storing::Storing;
use bytes::Bytes;
use sheaf_protocol::builder::Decision;
use sheaf_wire::{DropReason, Event, EventId, MissingSource, NodeId, Timestamp, Verdict};

/// Where accepted events go.
pub(super) enum Outlet {
    /// Into the builder unit's own output.
    Here(Storing<EventId>),
    /// To output nodes.
    There(Forwarding),
}

/// Fate of an event, as far as the builder unit has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Decision on the event.
    Decided(Decision),
    /// A worker or the output has taken it, and will tell.
    Open,
    /// The output failed: the event waits there, and until it works again no other is to be shown.
    Stuck,
}

/// All that a built event passes.
pub(super) struct EventPipeline {
    pub(super) node: NodeId,
    /// Everybody's time in this round, by which files go: the pace of a disk is nobody's silence.
    pub(super) clock: Timestamp,
    pub(super) check: ContentCheck,
    pub(super) filter: Box<dyn Filter>,
    pub(super) outlet: Outlet,
    /// Who judges, where the filter does not on this thread.
    pub(super) farm: Option<Farm>,
    /// The missing sources of the last event that was incomplete.
    pub(super) lacking: Vec<MissingSource>,
    pub(super) bad_events: Mishaps,
    pub(super) quarantined: Mishaps,
}

impl EventPipeline {
    /// Whether an event, or a part of one, is not what its sources sent.
    #[inline]
    pub(super) fn is_bad(&mut self, event: &Event<Bytes>) -> bool {
        let Err(problem) = self.check.check(event) else {
            return false;
        };
        self.bad_events.note(self.node, event.id, problem);
        true
    }

    /// Checks, filters and writes. What is kept of the event is taken out of it.
    #[inline]
    pub(super) fn judge(&mut self, event: &mut Event<Bytes>) -> Fate {
        if self.is_bad(event) {
            return Fate::Decided(Decision::Dropped(DropReason::ContentMismatch));
        }
        if let Some(farm) = &mut self.farm {
            farm.offer(event.take());
            return Fate::Open;
        }
        let verdict = self.filter.judge(event).unwrap_or_else(|failure| {
            let what = format_args!("{failure}; it is stored unfiltered");
            self.quarantined.note(self.node, event.id, what);
            Verdict::quarantine()
        });
        self.follow(event, &verdict)
    }

    /// Does what a verdict says.
    #[inline]
    pub(super) fn follow(&mut self, event: &mut Event<Bytes>, verdict: &Verdict) -> Fate {
        if !verdict.accepted {
            return Fate::Decided(Decision::Rejected);
        }
        match &mut self.outlet {
            Outlet::Here(storing) => {
                let written = storing.write(self.clock, event.id, event, verdict);
                if written { Fate::Open } else { Fate::Stuck }
            }
            Outlet::There(forwarding) => {
                forwarding.take(event.take(), verdict.clone());
                Fate::Open
            }
        }
    }
}
