//! Causes of waiting in reports, by stage: the number of links between a sender and the link.

use super::scheme::Scheme;
use crate::meter::{Cause, Names};
use crate::network::{LinkEnd, Network};
use crate::scenario::WhenFull;

/// Cause of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossKind {
    /// Its queue is full.
    Full,
    /// Its link is dead.
    Dead,
    /// By the dice of [`FrameLoss`](crate::scenario::FaultKind::FrameLoss).
    Chance,
    /// The switch knows no way.
    NoWay,
}

/// Number of kinds.
const KINDS: u16 = 4;

/// The numbers under which a meter books causes of this engine. Each list has one entry for each stage and kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Causes {
    stages: u16,
    input_buffers: bool,
}

impl Causes {
    pub(super) fn new(stages: u16, scheme: Scheme) -> Self {
        Self { stages, input_buffers: scheme.has_input_buffers() }
    }

    /// Waiting for a link of `stage` that others use.
    #[inline]
    pub(super) fn taken(self, stage: u16) -> Cause {
        Cause(stage)
    }

    /// Waiting for room at the far end of a link of `stage`.
    #[inline]
    pub(super) fn held_up(self, stage: u16) -> Cause {
        Cause(self.stages + stage)
    }

    /// Waiting at an input for room in the queue in front of a link of `stage`.
    pub(super) fn full(self, stage: u16) -> Cause {
        Cause(2 * self.stages + stage)
    }

    pub(super) fn loss(self, stage: u16, kind: LossKind) -> Cause {
        Cause(KINDS * stage + kind as u16)
    }

    /// Buffers behind links of `stage`.
    #[inline]
    pub(super) fn input(self, stage: u16) -> Cause {
        Cause(if self.input_buffers { stage } else { self.stages + stage })
    }

    /// Queues in front of links of `stage`.
    #[inline]
    pub(super) fn queue(self, stage: u16) -> Cause {
        Cause(stage)
    }
}

/// The names of all causes, in the order of their numbers.
pub(super) fn names(network: &Network, scheme: Scheme, largest_frame: Option<u64>) -> Names {
    let stages = 0..network.stages;
    let each = |text: &dyn Fn(u16) -> String| stages.clone().map(text).collect::<Vec<_>>();
    let waiting = match scheme {
        Scheme::InputBuffers { .. } => [
            each(&|stage| format!("link of stage {stage}, taken by another message")),
            each(&|stage| format!("room in the buffer behind a link of stage {stage}")),
            each(&|stage| format!("room in a queue of stage {stage}")),
        ],
        Scheme::OutputQueues { .. } => [
            each(&|stage| format!("queue of stage {stage}, behind other messages")),
            each(&|stage| format!("link of stage {stage}, paused")),
            each(&|stage| format!("room in a queue of stage {stage}")),
        ],
    };
    let losses = stages.clone().flat_map(|stage| {
        [
            format!("queue full at a link of stage {stage}"),
            format!("link of stage {stage} dead"),
            format!("frame lost on a link of stage {stage}"),
            format!("no way behind a link of stage {stage}"),
        ]
    });
    let count = |wanted: &dyn Fn(&crate::network::Link) -> bool| {
        super::frames::index(network.links.iter().filter(|link| wanted(link)).count())
    };
    let behind = |stage| count(&|link| link.stage == stage && matches!(link.to, LinkEnd::Switch(_)));
    let before = |stage| count(&|link| link.stage == stage && matches!(link.from, LinkEnd::Switch(_)));
    let inputs = |text: &str, size: Option<u64>| -> Vec<_> {
        stages.clone().map(|stage| (format!("{text} {stage}"), behind(stage), size)).collect()
    };
    let buffers = match scheme {
        Scheme::InputBuffers { frames, .. } => {
            inputs("inputs behind links of stage", largest_frame.map(|bytes| bytes * u64::from(frames)))
        }
        Scheme::OutputQueues { queue_bytes, full, .. } => {
            let size = (queue_bytes != u64::MAX).then_some(queue_bytes);
            let queues =
                stages.clone().map(|stage| (format!("queues of stage {stage}"), before(stage), size));
            let mut buffers: Vec<_> = queues.collect();
            if full == WhenFull::Pause {
                buffers.extend(inputs("paused inputs behind links of stage", None));
            }
            buffers
        }
    };
    Names { waiting: waiting.concat(), losses: losses.collect(), buffers }
}
