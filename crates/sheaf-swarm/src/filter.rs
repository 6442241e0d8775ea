//! Decisions of filters and outputs on events. They are a function of seed and event id, so that repeated judgements of an
//! event agree on all nodes.

use crate::dice::{Ratio, mix};
use crate::options::{FarmOptions, Options};
use sheaf_protocol::builder::Decision;
use sheaf_wire::{DropReason, EventId};

/// Returns the decision of the filter and the output on an event.
pub(crate) fn decide(options: &Options, event: EventId) -> Decision {
    let draw = mix(mix(options.seed ^ 0xdec1_de00) ^ event.0) % 1_000_000;
    let mut below = 0;
    let mut falls_in = |ratio: Ratio| {
        below += u64::from(ratio.per_million);
        draw < below
    };
    if falls_in(options.storage.reject) {
        Decision::Rejected
    } else if falls_in(options.storage.fail) {
        Decision::Dropped(DropReason::StorageFailed)
    } else if falls_in(options.storage.mismatch) {
        Decision::Dropped(DropReason::ContentMismatch)
    } else {
        Decision::Stored
    }
}

/// Behaviour of a filter with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    Judges,
    Fails,
    Dies,
    Hangs,
    /// Returns its verdict and then hangs.
    FallsSilent,
    /// Returns its verdict, and the processor leaves.
    Leaves,
    /// Reports a failure and also a verdict.
    Contradicts,
}

impl Conduct {
    pub(crate) fn has_verdict(self) -> bool {
        matches!(self, Self::Judges | Self::FallsSilent | Self::Leaves)
    }
}

pub(crate) fn conduct(options: &Options, farm: &FarmOptions, event: EventId) -> Conduct {
    let draw = mix(mix(options.seed ^ 0x00fa_2a00) ^ event.0) % 1_000_000;
    let mut below = 0;
    for (ratio, conduct) in [
        (farm.fails, Conduct::Fails),
        (farm.dies, Conduct::Dies),
        (farm.hangs, Conduct::Hangs),
        (farm.falls_silent, Conduct::FallsSilent),
        (farm.leaves, Conduct::Leaves),
        (farm.contradicts, Conduct::Contradicts),
    ] {
        below += u64::from(ratio.per_million);
        if draw < below {
            return conduct;
        }
    }
    Conduct::Judges
}

/// Returns whether a process of a farm dies while it loads its filter: the given life of the process at a place of a builder.
pub(crate) fn dies_loading(
    options: &Options,
    farm: &FarmOptions,
    (builder, place, life): (usize, usize, u32),
) -> bool {
    let draw = [builder as u64, place as u64, u64::from(life)]
        .into_iter()
        .fold(options.seed ^ 0x10ad_f117, |draw, part| mix(draw ^ part));
    draw % 1_000_000 < u64::from(farm.dies_loading.per_million)
}

/// Returns whether the filter of a farm can judge an event without failing, dying or hanging.
#[must_use]
pub fn is_judged(options: &Options, event: EventId) -> bool {
    options.farm.is_none_or(|farm| conduct(options, &farm, event).has_verdict())
}
