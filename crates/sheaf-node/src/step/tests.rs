use super::*;
use crate::examples::event;
use crate::filter::Prescale;
use sheaf_wire::{EventId, Fragment, MissingReason, MissingSource, NumberMark, Timestamp};

fn part(id: u64, sizes: &[(u32, usize)], missing: &[u32]) -> Event<Bytes> {
    let fragment = |(source, size): &(u32, usize)| Fragment {
        event: EventId(id),
        source: SourceId(*source),
        time: Timestamp(0),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Bytes::from(vec![0; *size]),
    };
    let missing_source =
        |source: &u32| MissingSource { source: SourceId(*source), reason: MissingReason::SourceSilent };
    Event {
        fragments: sizes.iter().map(fragment).collect(),
        missing: missing.iter().map(missing_source).collect(),
        ..event(id)
    }
}

fn sources(ids: &[u32]) -> Vec<SourceId> {
    ids.iter().copied().map(SourceId).collect()
}

#[test]
fn what_a_filter_accepts_is_asked_for_as_a_whole() {
    let mut filter = Accepted(Prescale { factor: 10 });
    assert_eq!(filter.judge(&part(20, &[], &[])), Ok(StepVerdict::More(More::All)));
    assert_eq!(filter.judge(&part(21, &[], &[])), Ok(StepVerdict::Reject));
}

#[test]
fn little_activity_is_rejected() {
    let mut filter = Activity { minimum: 100, regions: vec![] };
    assert_eq!(filter.judge(&part(1, &[(0, 60), (1, 39)], &[])), Ok(StepVerdict::Reject));
    assert_eq!(filter.judge(&part(1, &[(0, 60), (1, 40)], &[])), Ok(StepVerdict::More(More::All)));
}

#[test]
fn the_regions_of_active_sources_are_asked_for_once() {
    let regions =
        vec![(SourceId(0), sources(&[4, 5])), (SourceId(1), sources(&[5, 6])), (SourceId(4), sources(&[9]))];
    let mut filter = Activity { minimum: 100, regions };
    let more = |ids| Ok(StepVerdict::More(More::Sources(sources(ids))));
    assert_eq!(filter.judge(&part(1, &[(0, 100), (1, 10)], &[])), more(&[4, 5]));
    assert_eq!(filter.judge(&part(1, &[(0, 100), (1, 100)], &[])), more(&[4, 5, 6]));
    // A region may have a region of its own; sources that are present or missing are not requested again.
    assert_eq!(filter.judge(&part(1, &[(0, 100), (1, 10), (4, 100)], &[5])), more(&[9]));
    assert_eq!(filter.judge(&part(1, &[(0, 100), (4, 1)], &[5])), Ok(StepVerdict::Enough));
}
