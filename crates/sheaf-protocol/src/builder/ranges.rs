//! Events as ranges of consecutive ids.

use crate::event_range::EventIdRange;
use sheaf_wire::message::{Assignment, EventRange};

/// Joins assignments with consecutive ids and equal attempts into ranges.
pub(crate) fn to_ranges(assignments: &[Assignment]) -> Vec<EventRange> {
    let mut ranges: Vec<EventRange> = Vec::new();
    for assignment in assignments {
        append(&mut ranges, EventRange::one(assignment.event, assignment.attempt));
    }
    ranges
}

/// Returns the ids of consecutive events.
pub(super) fn to_ids(range: &EventRange) -> EventIdRange {
    EventIdRange::new(range.first, u64::from(range.count))
}

/// Appends a range, or extends the last one if the range continues it.
#[inline]
pub(super) fn append(ranges: &mut Vec<EventRange>, next: EventRange) {
    if !ranges.last_mut().is_some_and(|last| last.join(next)) {
        ranges.push(next);
    }
}
