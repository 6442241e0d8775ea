use super::*;
use proptest::prelude::*;

/// Reports wanted in a row, and the longest shift.
const EVENTS: usize = 8;
const LONGEST: u64 = 16;

fn config(quantity: Quantity, on_shift: ShiftPolicy) -> ShiftConfig {
    let (quantities, names) = (vec![quantity], vec!["trigger".to_owned()]);
    ShiftConfig { quantities, names, on_shift, events: EVENTS, longest: LONGEST }
}

fn shifts(config: ShiftConfig) -> Shifts {
    Shifts::new(config, (0..8).map(|source| (SourceId(source), (source / 2) as u16)).collect())
}

/// Rising numbers with irregular steps, as times of triggers have.
fn time_of(event: u64) -> u64 {
    event * 1000 + event * event % 977
}

/// The reports about a source whose fragments are `shift` events too early from `first` on.
fn reports(
    quantity: Quantity,
    value_of: impl Fn(u64) -> u64,
    source: u32,
    events: std::ops::Range<u64>,
    shift: i64,
) -> Vec<Disagreement> {
    let cut = |value: u64| if quantity.modulus == 0 { value } else { value % quantity.modulus };
    let report = |event: u64| Disagreement {
        event: EventId(event),
        source: SourceId(source),
        quantity: 0,
        value: cut(value_of(event.saturating_add_signed(shift))),
        reference: cut(value_of(event)),
    };
    events.map(report).filter(|report| !quantity.agrees(report.value, report.reference)).collect()
}

fn found(shifts: &Shifts) -> Vec<(u32, u64, i64)> {
    shifts.found().iter().map(|found| (found.source.0, found.first.0, found.shift)).collect()
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Counter,
    Narrow,
    Time,
}

proptest! {
    /// Builder units build events in batches, and their messages come in any order within some distance.
    #[test]
    fn a_shift_is_found_with_its_first_event(
        kind in prop::sample::select(vec![Kind::Counter, Kind::Narrow, Kind::Time]),
        first in 100..5_000_u64,
        (size, negative) in (1..=LONGEST as i64, any::<bool>()),
        batch in 1..40_usize,
        spread in 1..6_usize,
        order in prop::collection::vec(any::<u8>(), 16),
    ) {
        let shift = if negative { -size } else { size };
        let (quantity, value_of): (_, fn(u64) -> u64) = match kind {
            Kind::Counter => (Quantity { modulus: 1 << 32, tolerance: 0 }, |event| event + 17),
            Kind::Narrow => (Quantity { modulus: 64, tolerance: 0 }, |event| event + 17),
            Kind::Time => (Quantity { modulus: 0, tolerance: 20 }, time_of),
        };
        let mut shifts = shifts(config(quantity, ShiftPolicy::Mark));
        let all = reports(quantity, value_of, 3, first..first + 400, shift);
        let mut messages: Vec<&[Disagreement]> = all.chunks(batch).collect();
        for (group, messages) in messages.chunks_mut(spread).enumerate() {
            messages.sort_by_key(|message| order[(message[0].event.0 as usize + group) % order.len()]);
        }
        for message in messages {
            shifts.note(message);
        }
        prop_assert_eq!(found(&shifts), [(3, first, shift)]);
    }

    #[test]
    fn noise_is_no_shift(values in prop::collection::vec(any::<u32>(), 0..2_000), count in 1..9_u64) {
        let quantity = Quantity { modulus: 1 << 32, tolerance: 0 };
        let mut shifts = shifts(config(quantity, ShiftPolicy::Mark));
        for (event, value) in (0..).zip(values) {
            let (event, reference) = (EventId(event * count), event * count);
            let value = u64::from(value);
            shifts.note(&[Disagreement { event, source: SourceId(1), quantity: 0, value, reference }]);
        }
        shifts.finish();
        prop_assert_eq!(found(&shifts), []);
    }

    #[test]
    fn reports_of_any_content_are_bounded(all in prop::collection::vec(any::<(u64, u32, u16, u64, u64)>(), 0..300)) {
        let quantity = Quantity { modulus: 16, tolerance: 1 };
        let mut shifts = shifts(config(quantity, ShiftPolicy::Repair));
        for (event, source, which, value, reference) in all {
            let (event, source) = (EventId(event), SourceId(source % 9));
            shifts.note(&[Disagreement { event, source, quantity: which % 2, value, reference }]);
        }
        shifts.finish();
    }
}

#[test]
fn all_shifts_shortly_before_the_end_of_a_run_are_found() {
    let quantity = Quantity { modulus: 1 << 16, tolerance: 0 };
    for (one, other) in [(-2, -4), (1, 3), (3, 1), (2, -2)] {
        let mut shifts = shifts(ShiftConfig { longest: 64, ..config(quantity, ShiftPolicy::Mark) });
        for (events, shift) in [(100..115, one), (115..130, other)] {
            shifts.note(&reports(quantity, |event| event, 2, events, shift));
        }
        assert_eq!(found(&shifts), [], "further reports may come");
        shifts.finish();
        let mut found: Vec<_> = found(&shifts).into_iter().map(|(_, _, shift)| shift).collect();
        found.sort_by_key(|shift| *shift != one);
        assert_eq!(found, [one, other]);
    }
}

#[test]
fn late_reports_of_an_earlier_shift_are_no_new_one() {
    let quantity = Quantity { modulus: 1 << 16, tolerance: 0 };
    let mut shifts = shifts(config(quantity, ShiftPolicy::Mark));
    let before = reports(quantity, |event| event, 2, 100..200, -1);
    let (in_time, late): (Vec<_>, Vec<_>) = before.into_iter().partition(|report| report.event.0 % 5 != 0);
    shifts.note(&in_time);
    shifts.note(&reports(quantity, |event| event, 2, 200..300, -2));
    let both = [(2, 101, -1), (2, 200, -2)];
    assert_eq!(found(&shifts), both);
    shifts.note(&late);
    shifts.finish();
    assert_eq!(found(&shifts), [(2, 100, -1), both[1]]);
}

#[test]
fn a_shift_at_the_end_of_a_run_is_found_when_it_ends() {
    let quantity = Quantity { modulus: 1 << 16, tolerance: 0 };
    let mut shifts = shifts(config(quantity, ShiftPolicy::Stop));
    shifts.note(&reports(quantity, |event| event, 2, 990..1_000, 1));
    assert_eq!(found(&shifts), []);
    shifts.finish();
    assert_eq!(found(&shifts), [(2, 990, 1)]);
}

#[test]
fn a_second_shift_adds_to_the_first_one() {
    let quantity = Quantity { modulus: 1 << 32, tolerance: 0 };
    let mut shifts = shifts(config(quantity, ShiftPolicy::Mark));
    shifts.note(&reports(quantity, |event| event, 2, 100..300, 1));
    shifts.note(&reports(quantity, |event| event, 2, 300..500, 2));
    assert_eq!(found(&shifts), [(2, 100, 1), (2, 300, 2)]);
}

#[test]
fn a_shift_that_another_builder_unit_saw_begin_begins_there() {
    let quantity = Quantity { modulus: 1 << 32, tolerance: 0 };
    let mut shifts = shifts(config(quantity, ShiftPolicy::Mark));
    let all = reports(quantity, |event| event, 2, 100..300, 1);
    shifts.note(&all[10..100]);
    assert_eq!(found(&shifts), [(2, 110, 1)]);
    assert_eq!(shifts.announce(Some(EventId(126))), None, "an event before it is in flight");
    shifts.note(&all[..10]);
    let announced = shifts.announce(Some(EventId(201))).expect("nothing earlier is in flight");
    assert_eq!((announced.first, announced.shift), (EventId(100), 1));
    assert!(!shifts.has_news());
}

#[test]
fn a_report_of_another_source_moves_the_beginning_before_it_is_announced() {
    let quantity = Quantity { modulus: 1 << 32, tolerance: 0 };
    let mut shifts = shifts(config(quantity, ShiftPolicy::Mark));
    // The source has no fragment in event 101, and its value in event 100 is that of event 99.
    let mut all = reports(quantity, |event| event, 2, 100..200, -1);
    all.remove(1);
    shifts.note(&all);
    assert_eq!(found(&shifts), [(2, 102, -1)]);
    shifts.note(&reports(quantity, |event| event, 3, 99..100, 3));
    let announced = shifts.announce(None).expect("nothing is in flight");
    assert_eq!((announced.first, announced.shift), (EventId(100), -1));
    shifts.finish();
    assert_eq!(found(&shifts), [(2, 100, -1)]);
}

#[test]
fn a_source_is_renumbered_once_for_each_shift() {
    let quantity = Quantity { modulus: 1 << 32, tolerance: 0 };
    let mut shifts = shifts(config(quantity, ShiftPolicy::Repair));
    shifts.note(&reports(quantity, |event| event, 5, 100..200, 1));
    assert_eq!(shifts.next_order(|readout| readout != 2), None, "its readout unit is not there");
    let source = SourceId(5);
    assert_eq!(shifts.next_order(|_| true), Some((2, Renumber { source, shift: 1 })));
    // Events that were built meanwhile.
    shifts.note(&reports(quantity, |event| event, 5, 200..500, 1));
    assert_eq!((shifts.next_order(|_| true), found(&shifts)), (None, vec![(5, 100, 1)]));
    let first = EventId(520);
    let answer = Renumbered { source, first, shift: 1 };
    assert_eq!(shifts.note_renumbered(answer), Answered::Unannounced);
    assert_eq!(shifts.note_renumbered(answer), Answered::Unexpected, "only once");
    let repaired = shifts.announce(None).expect("it was found");
    assert_eq!((repaired.first, repaired.repaired_from), (EventId(100), Some(first)));
    shifts.note(&reports(quantity, |event| event, 5, 500..520, 1));
    shifts.note(&reports(quantity, |event| event, 5, 700..800, 1));
    assert_eq!(found(&shifts), [(5, 100, 1), (5, 700, 1)]);
    assert_eq!(shifts.next_order(|_| true), Some((2, Renumber { source, shift: 1 })));
}

/// The readout unit has renumbered the source, and the source is off again before the event manager knows.
#[test]
fn a_shift_that_begins_before_the_answer_is_found_with_its_first_event() {
    let quantity = Quantity { modulus: 1 << 32, tolerance: 0 };
    let mut shifts = shifts(config(quantity, ShiftPolicy::Repair));
    shifts.note(&reports(quantity, |event| event, 5, 100..200, -2));
    shifts.note(&reports(quantity, |event| event, 5, 300..305, -1));
    let answer = Renumbered { source: SourceId(5), first: EventId(250), shift: -2 };
    assert_ne!(shifts.note_renumbered(answer), Answered::Unexpected);
    shifts.note(&reports(quantity, |event| event, 5, 305..400, -1));
    assert_eq!(found(&shifts), [(5, 100, -2), (5, 300, -1)]);
}

/// Reports of the second shift that come before the answer look like reports of the first one.
#[test]
fn an_equal_shift_that_begins_before_the_answer_is_found_with_its_first_event() {
    let quantity = Quantity { modulus: 1 << 32, tolerance: 0 };
    for (shift, early) in [(1, 301), (1, 305), (-1, 301), (-1, 305), (-2, 302), (2, 330)] {
        let mut shifts = shifts(config(quantity, ShiftPolicy::Repair));
        shifts.note(&reports(quantity, |event| event, 5, 100..200, shift));
        shifts.note(&reports(quantity, |event| event, 5, 300..early, shift));
        let answer = Renumbered { source: SourceId(5), first: EventId(250), shift };
        assert_ne!(shifts.note_renumbered(answer), Answered::Unexpected);
        shifts.note(&reports(quantity, |event| event, 5, early..400, shift));
        assert_eq!(found(&shifts), [(5, 100, shift), (5, 300, shift)], "up to {early}");
        assert_eq!(shifts.announce(None).map(|shift| shift.first), Some(EventId(100)));
    }
}

#[test]
fn a_readout_unit_that_begins_anew_renumbers_nothing() {
    let quantity = Quantity { modulus: 1 << 32, tolerance: 0 };
    let mut shifts = shifts(config(quantity, ShiftPolicy::Repair));
    shifts.note(&reports(quantity, |event| event, 5, 100..200, 1));
    shifts.note_restart(2);
    assert_eq!(shifts.next_order(|_| true), None);
    shifts.note(&reports(quantity, |event| event, 5, 200..300, 1));
    assert_eq!(found(&shifts), [(5, 100, 1), (5, 200, 1)]);
    assert_eq!(shifts.next_order(|_| true), Some((2, Renumber { source: SourceId(5), shift: 1 })));
}
