//! The simulated sources: the fragments of each, their order, and their defects.

mod slices;

use crate::dice::{Dice, mix};
pub use crate::options::FIRST_EVENT;
use crate::options::{LARGEST_EXCESS, Options, TriggerOptions, UNKNOWN_EVENTS};
use crate::payload::SimPayload;
use crate::violation::{Violation, violation};
use sheaf_wire::{EventId, Fragment, Nanos, SourceId, Timestamp};
use std::collections::{BTreeSet, VecDeque};

/// First of the sources that no readout unit reads.
const UNKNOWN_SOURCES: u32 = 1 << 20;

/// Maximum number of fragments between a fragment and its repetition.
const DUPLICATE_DISTANCE: u64 = 8;

/// The defects that were planned into the sources of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefectCounts {
    /// Number of fragments that are never sent.
    pub silent: u64,
    /// Number of fragments that are sent twice.
    pub duplicates: u64,
    /// Number of fragments that are sent after later ones.
    pub out_of_order: u64,
    /// Number of fragments that are too large.
    pub oversize: u64,
    /// Number of fragments of events that the event manager never triggers by itself.
    pub unknown_events: u64,
    /// Number of fragments of sources that no readout unit reads.
    pub unknown_sources: u64,
    /// Number of pauses.
    pub pauses: u64,
    /// Number of fragments that are not sent because their source has ended.
    pub ended: u64,
}

/// A fragment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Event id.
    pub event: EventId,
    /// Event of the trigger that it was taken at. Not that of its event id if the source is off.
    pub origin: EventId,
    /// Source id. Not that of the sender if the defect is an unknown source.
    pub source: SourceId,
    /// Size in bytes.
    pub bytes: u32,
    /// With driven triggers: index of the trigger before which it is not sent.
    pub trigger: u64,
    /// Pause of the source after it.
    pub pause: Nanos,
}

/// One source.
#[derive(Clone, Debug)]
pub struct SimSource {
    /// Source id.
    pub id: SourceId,
    /// Index of the readout unit that reads it.
    pub readout: usize,
    /// Fragments to be sent, in order.
    pub script: VecDeque<Planned>,
    /// Fragment that the readout unit refused for lack of room.
    pub held_back: Option<Fragment<SimPayload>>,
    /// Whether its next fragment is on the agenda.
    pub is_scheduled: bool,
    /// Time at which it may send again.
    pub free_at: Timestamp,
}

impl Options {
    /// Returns the id of the event with this index.
    #[must_use]
    pub fn event_id(&self, index: u64) -> EventId {
        match self.triggers {
            TriggerOptions::Free | TriggerOptions::Driven { .. } => EventId(FIRST_EVENT.0 + index),
            TriggerOptions::Announced { stride, .. } => {
                EventId(FIRST_EVENT.0 + index * stride + mix(self.seed ^ index) % stride)
            }
        }
    }

    /// Returns the payload that a source without defects sends for an event.
    #[must_use]
    pub fn payload(&self, event: EventId, source: SourceId) -> SimPayload {
        let range = self.sources.largest.0 - self.sources.smallest.0 + 1;
        let length = self.sources.smallest.0 + mix(mix(self.seed ^ event.0) ^ u64::from(source.0)) % range;
        SimPayload::new(self.seed, event, source, u32::try_from(length).unwrap_or(u32::MAX))
    }
}

/// All sources of a run.
#[derive(Debug)]
pub struct SourcePlan {
    /// The sources with their scripts.
    pub sources: Vec<SimSource>,
    /// Defects of the sources.
    pub defects: DefectCounts,
    /// Error in planning the sources.
    pub violation: Option<Violation>,
}

/// Plans the fragments of all sources of a run.
#[must_use]
pub fn plan_sources(options: &Options) -> SourcePlan {
    let mut plan = SourcePlan { sources: Vec::new(), defects: DefectCounts::default(), violation: None };
    let total = options.events + options.sources.surplus;
    for number in 0..options.source_count() {
        let given = options.slices.map(|slices| slices::given(options, &slices, number, total));
        let seen = given.transpose().unwrap_or_else(|what| {
            plan.violation.get_or_insert_with(|| violation!("source {number}: {what}"));
            None
        });
        plan.sources.push(SimSource {
            id: SourceId(u32::from(number)),
            readout: usize::from(number / options.system.sources_per_readout),
            script: plan_script(options, number, seen.as_ref(), &mut plan.defects),
            held_back: None,
            is_scheduled: false,
            free_at: Timestamp(0),
        });
    }
    plan
}

/// Returns the fragments that a source sends. If events are time slices, it sends those that it has `seen`.
fn plan_script(
    options: &Options,
    number: u16,
    seen: Option<&BTreeSet<u64>>,
    counts: &mut DefectCounts,
) -> VecDeque<Planned> {
    let sources = &options.sources;
    let id = SourceId(u32::from(number));
    if options.is_on_request(id) {
        return VecDeque::new();
    }
    let mut dice = Dice::new(options.seed, 1_000 + u64::from(number));
    // Each fragment with its position among the events of its source.
    let mut placed: Vec<(u64, Planned)> = Vec::new();
    let total = options.events + sources.surplus;
    for (index, taken_at) in options.numbering(id, total) {
        let (event, origin) = (options.event_id(index), options.event_id(taken_at));
        let bytes = options.payload(origin, id).length;
        let trigger = taken_at.min(options.events.saturating_sub(1));
        let mut planned = Planned { event, origin, source: id, bytes, trigger, pause: Nanos::ZERO };
        let mut place = index;
        let is_silent = dice.chance(sources.silent)
            || (options.is_optional(number) && dice.chance(sources.optional_silent));
        if is_silent || seen.is_some_and(|seen| !seen.contains(&index)) {
            counts.silent += 1;
            continue;
        }
        if dice.chance(sources.out_of_order) {
            counts.out_of_order += 1;
            place += dice.between(1, sources.disorder);
        }
        if dice.chance(sources.oversize) {
            counts.oversize += 1;
            planned.bytes = u32::try_from(options.bounds.max_fragment.0 + dice.between(1, LARGEST_EXCESS))
                .unwrap_or(u32::MAX);
        }
        if dice.chance(sources.pause) {
            counts.pauses += 1;
            planned.pause = dice.exponential(sources.pause_mean);
        }
        if dice.chance(sources.unknown_event) {
            counts.unknown_events += 1;
            let event = EventId(UNKNOWN_EVENTS + index * 1_000 + u64::from(number));
            let bytes = options.payload(event, id).length;
            placed.push((place, Planned { event, origin: event, bytes, ..planned }));
        }
        if dice.chance(sources.unknown_source) {
            counts.unknown_sources += 1;
            placed.push((place, Planned { source: SourceId(UNKNOWN_SOURCES + id.0), ..planned }));
        }
        placed.push((place, planned));
        if dice.chance(sources.duplicate) {
            counts.duplicates += 1;
            placed.push((place + dice.below(DUPLICATE_DISTANCE), planned));
        }
    }
    // Stable: fragments with equal positions keep the order in which they were planned.
    placed.sort_by_key(|(place, _)| *place);
    if let Some((ending, after)) = sources.early_end
        && ending == number
    {
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        counts.ended += placed.len().saturating_sub(after) as u64;
        placed.truncate(after);
    }
    let script = placed.into_iter().map(|(_, planned)| planned);
    // A program cannot send a fragment of a source that it does not feed.
    script.filter(|planned| planned.source == id || !options.is_fed(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Ratio;

    #[test]
    fn a_source_without_defects_sends_every_event_once_in_order() {
        let SourcePlan { sources, defects, .. } = plan_sources(&Options::default());
        assert_eq!(defects, DefectCounts::default());
        assert_eq!(sources.len(), 6);
        for source in sources {
            let ids: Vec<_> = source.script.iter().map(|planned| planned.event.0).collect();
            assert_eq!(ids, (1..=200).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_defect_is_planned_and_counted() {
        let mut options = Options::default();
        let ratio = Ratio::percent(10);
        let sources = &mut options.sources;
        (sources.silent, sources.duplicate, sources.out_of_order) = (ratio, ratio, ratio);
        (sources.oversize, sources.unknown_event, sources.unknown_source) = (ratio, ratio, ratio);
        (sources.pause, sources.early_end) = (ratio, Some((1, 50)));
        let SourcePlan { sources: planned, defects: counts, .. } = plan_sources(&options);
        let scripts: Vec<&Planned> = planned.iter().flat_map(|source| &source.script).collect();
        let count = |wanted: &dyn Fn(&&&Planned) -> bool| scripts.iter().filter(wanted).count();
        assert!(count(&|planned| planned.event.0 >= UNKNOWN_EVENTS) > 60);
        assert!(count(&|planned| planned.source.0 >= UNKNOWN_SOURCES) > 60);
        assert!(count(&|planned| u64::from(planned.bytes) > options.bounds.max_fragment.0) > 60);
        assert!(count(&|planned| planned.pause > Nanos::ZERO) > 60);
        assert_eq!(planned[1].script.len(), 50);
        let all = [
            counts.silent,
            counts.duplicates,
            counts.out_of_order,
            counts.oversize,
            counts.pauses,
            counts.ended,
        ];
        assert!(all.into_iter().all(|count| count > 60), "{counts:?}");
    }
}
