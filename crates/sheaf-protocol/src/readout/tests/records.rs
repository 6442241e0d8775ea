//! Run records of programs, and the end of a run while further ones may come.

use super::*;
use sheaf_wire::message::Recorded;
use sheaf_wire::run_record::{RecordAnswer, RecordKind, RunRecord};
use std::sync::Arc;

fn record(number: u64) -> Arc<RunRecord> {
    let (source, kind, time) = (SourceId(0), RecordKind::End, Timestamp(number));
    RunRecord { number, source, kind, time, name: "counters".into(), content: "17".into() }.into()
}

/// Returns the numbers of the records that the unit sends, and whether it reports.
fn sent(unit: &mut ReadoutUnit<Size>, now: Timestamp) -> (Vec<u64>, bool) {
    let (mut records, mut reports) = (Vec::new(), false);
    while let Some(transmit) = unit.poll_transmit(now) {
        match transmit.message.body {
            Body::Record(record) => records.push(record.number),
            Body::Report(_) => reports = true,
            _ => {}
        }
    }
    (records, reports)
}

fn answer(unit: &mut ReadoutUnit<Size>, number: u64) {
    let answer = Recorded { number, source: SourceId(0), answer: RecordAnswer::Kept };
    from_manager(unit, Body::Recorded(answer));
    assert_eq!(unit.poll_event(), Some(ReadoutEvent::Recorded(answer)));
}

#[test]
fn the_event_manager_is_asked_about_a_few_records_at_a_time() {
    let mut unit = unstarted(|_| {});
    (1..=6).for_each(|number| unit.handle_record(record(number)));
    assert_eq!(sent(&mut unit, Timestamp(0)).0, [1, 2, 3, 4], "also before the run begins");
    answer(&mut unit, 3);
    assert_eq!(sent(&mut unit, Timestamp(0)).0, [5]);
    let stranger = Recorded { number: 77, source: SourceId(0), answer: RecordAnswer::Kept };
    from_manager(&mut unit, Body::Recorded(stranger));
    assert_eq!(unit.poll_event(), None, "nobody has asked");
}

#[test]
fn records_of_two_sources_with_the_same_number_are_both_answered() {
    let mut unit = unit(|_| {});
    let sources = [SourceId(0), SourceId(1)];
    for source in sources {
        unit.handle_record(RunRecord { source, ..(*record(1)).clone() }.into());
    }
    assert_eq!(sent(&mut unit, Timestamp(0)).0, [1, 1]);
    for (source, answer) in sources.into_iter().zip([RecordAnswer::Kept, RecordAnswer::NumberTaken]) {
        let answer = Recorded { number: 1, source, answer };
        from_manager(&mut unit, Body::Recorded(answer));
        assert_eq!(std::iter::from_fn(|| unit.poll_event()).last(), Some(ReadoutEvent::Recorded(answer)));
    }
    command(&mut unit, Command::Close);
    assert!(sent(&mut unit, Timestamp(0)).1, "nothing is awaited");
}

#[test]
fn a_unit_reports_once_no_record_is_awaited() {
    let mut unit = unit(|_| {});
    unit.handle_recording(true);
    command(&mut unit, Command::Close);
    assert_eq!(unit.poll_event(), Some(ReadoutEvent::Closed));
    assert_eq!(sent(&mut unit, Timestamp(0)), (vec![], false), "a program is connected");
    unit.handle_record(record(1));
    unit.handle_recording(false);
    assert_eq!(sent(&mut unit, Timestamp(0)), (vec![1], false), "a record is not answered");
    answer(&mut unit, 1);
    assert_eq!(sent(&mut unit, Timestamp(0)), (vec![], true));
}

#[test]
fn a_program_that_does_not_leave_is_not_waited_for_without_limit() {
    let mut unit = unit(|_| {});
    unit.handle_recording(true);
    command(&mut unit, Command::Close);
    assert!(!sent(&mut unit, Timestamp(9_000_000_000)).1);
    assert!(sent(&mut unit, Timestamp(10_000_000_000)).1);
}
