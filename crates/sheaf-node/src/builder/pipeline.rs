//! Path of a built event: it is checked, judged, and given to the node that stores it.

use super::Mishaps;
use crate::content::ContentCheck;
use crate::farm::Farm;
use crate::filter::Filter;
use crate::forwarding::Forwarding;
use crate::number_check::NumberCheck;
use crate::storing::Storing;
use bytes::Bytes;
use sheaf_protocol::builder::Decision;
use sheaf_wire::{DropReason, Event, EventId, MissingSource, NodeId, Timestamp, Verdict};

/// Destination of accepted events.
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
    /// A worker or the output has taken it; the decision follows.
    Open,
    /// The output failed: the event waits there, and until it works again no other is to be shown.
    Stuck,
}

/// All that a built event passes.
pub(super) struct EventPipeline {
    pub(super) node: NodeId,
    /// Actual time in this round, used for files: a slow disk is not the silence of a peer.
    pub(super) clock: Timestamp,
    pub(super) check: ContentCheck,
    pub(super) numbers: NumberCheck,
    /// Whether fragments of the last event disagreed.
    pub(super) disagrees: bool,
    pub(super) filter: Box<dyn Filter>,
    pub(super) outlet: Outlet,
    /// The farm that filters events, unless the filter runs on this thread.
    pub(super) farm: Option<Farm>,
    /// The missing sources of the last event that was incomplete.
    pub(super) lacking: Vec<MissingSource>,
    pub(super) bad_events: Mishaps,
    pub(super) quarantined: Mishaps,
    /// Whether the filter had no verdict about the last event.
    pub(super) is_quarantined: bool,
}

impl EventPipeline {
    /// Returns whether an event, or a part of one, differs from what its sources sent.
    #[inline]
    pub(super) fn is_bad(&mut self, event: &Event<Bytes>) -> bool {
        let Err(problem) = self.check.check(event) else {
            return false;
        };
        self.bad_events.note(self.node, event.id, problem);
        true
    }

    /// Checks, filters and writes an event. An output that keeps the event takes it out of `event`.
    #[inline]
    pub(super) fn judge(&mut self, event: &mut Event<Bytes>) -> Fate {
        if self.is_bad(event) {
            return Fate::Decided(Decision::Dropped(DropReason::ContentMismatch));
        }
        self.disagrees = self.numbers.check(event);
        if let Some(farm) = &mut self.farm {
            farm.offer(event.take());
            return Fate::Open;
        }
        let verdict = self.filter.judge(event).unwrap_or_else(|failure| {
            let what = format_args!("{failure}; it is stored unfiltered");
            self.quarantined.note(self.node, event.id, what);
            self.is_quarantined = true;
            Verdict::quarantine()
        });
        self.follow(event, &verdict)
    }

    /// Applies a verdict. Inlined because every event passes here.
    #[inline(always)]
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
