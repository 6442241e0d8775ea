use super::*;
use proptest::prelude::*;

const START: Timestamp = Timestamp(1_000_000_000);

/// Returns when the events at `positions` are taken, if the source is asked at each time that it returned, plus `held`.
fn departures(pacer: &mut Pacer, places: &[FragmentTiming], held: &[u64]) -> Vec<Timestamp> {
    let mut now = START;
    let mut times = Vec::new();
    for (place, held) in places.iter().zip(held.iter().chain(std::iter::repeat(&0))) {
        if let Err(ready) = pacer.admit(now, *place) {
            assert!(ready > now);
            assert!(pacer.admit(Timestamp(ready.0 - 1), *place).is_err(), "not a nanosecond earlier");
            now = ready;
        }
        now += Nanos(*held);
        assert_eq!(pacer.admit(now, *place), Ok(()));
        pacer.sent(now, *place);
        times.push(now);
    }
    times
}

fn places(positions: impl IntoIterator<Item = u64>) -> Vec<FragmentTiming> {
    let place = |position| FragmentTiming { position, elapsed: Nanos(position * 700) };
    positions.into_iter().map(place).collect()
}

fn pacer(schedule: Schedule, pause: Nanos) -> Pacer {
    Pacer::new(&Pace { schedule, pause }).unwrap()
}

proptest! {
    #[test]
    fn events_leave_at_their_positions_in_the_schedule_whatever_is_left_out(
        rate in 0.1..1e7_f64, gaps in prop::collection::vec(0..50_u64, 1..100),
    ) {
        let positions: Vec<u64> = gaps.iter().scan(0, |position, gap| { *position += gap; Some(*position) }).collect();
        let mut pacer = pacer(Schedule::FixedRate { events_per_second: rate }, Nanos::ZERO);
        // The source starts with the run, not with its own first event.
        let _ = pacer.admit(START, FragmentTiming { position: 0, elapsed: Nanos::ZERO });
        let times = departures(&mut pacer, &places(positions.clone()), &[]);
        for (position, time) in positions.iter().zip(times) {
            let due = *position as f64 * 1e9 / rate;
            prop_assert!((time.since(START).0 as f64 - due).abs() <= 1.0 + due * 1e-12);
        }
        prop_assert_eq!(pacer.max_lag(), Nanos::ZERO);
    }

    #[test]
    fn a_source_that_was_held_up_is_back_in_its_schedule_afterwards(hold in 0..1_000_000_u64) {
        let mut pacer = pacer(Schedule::FixedRate { events_per_second: 1e6 }, Nanos::ZERO);
        let times = departures(&mut pacer, &places(0..2_000), &[hold]);
        for (position, time) in times.iter().enumerate() {
            let due = START + Nanos(position as u64 * 1_000);
            prop_assert_eq!(*time, due.max(START + Nanos(hold)));
        }
        prop_assert_eq!(pacer.max_lag(), Nanos(hold));
    }

    #[test]
    fn a_pause_keeps_fragments_apart(pause in 1..10_000_u64, held in prop::collection::vec(0..500_u64, 2..50)) {
        let mut pacer = pacer(Schedule::FixedRate { events_per_second: 1e6 }, Nanos(pause));
        let times = departures(&mut pacer, &places(0..held.len() as u64), &held);
        for pair in times.windows(2) {
            prop_assert!(pair[1].since(pair[0]) >= Nanos(pause));
        }
    }

    #[test]
    fn recorded_times_are_kept_up_to_the_speed_factor(speed in 0.01..100.0_f64, events in 1..100_u64) {
        let mut pacer = pacer(Schedule::Recorded { speed }, Nanos::ZERO);
        let places = places(0..events);
        for (place, time) in places.iter().zip(departures(&mut pacer, &places, &[])) {
            let due = place.elapsed.0 as f64 / speed;
            prop_assert!((time.since(START).0 as f64 - due).abs() <= 1.0 + due * 1e-12);
        }
    }
}

#[test]
fn an_event_out_of_order_is_due_when_it_was_and_goes_at_once() {
    let mut pacer = pacer(Schedule::FixedRate { events_per_second: 1e6 }, Nanos::ZERO);
    let times = departures(&mut pacer, &places([0, 5, 3, 6]), &[]);
    let after: Vec<u64> = times.iter().map(|time| time.since(START).0).collect();
    assert_eq!(after, [0, 5_000, 5_000, 6_000]);
}

#[test]
fn full_speed_never_waits_and_is_never_late() {
    let mut pacer = pacer(Schedule::FullSpeed, Nanos::ZERO);
    let times = departures(&mut pacer, &places(0..10), &[7; 10]);
    assert_eq!(times.last().unwrap().since(START), Nanos(70));
    assert_eq!(pacer.max_lag(), Nanos::ZERO);
}

#[test]
fn full_speed_does_not_depend_on_the_clock() {
    let mut pacer = pacer(Schedule::FullSpeed, Nanos::ZERO);
    for now in [START, Timestamp::MAX, Timestamp::ZERO] {
        assert_eq!(pacer.admit(now, places(0..1)[0]), Ok(()));
        pacer.sent(now, places(0..1)[0]);
    }
}

#[test]
fn rates_and_speeds_that_are_no_positive_numbers_are_refused() {
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        for schedule in
            [Schedule::FixedRate { events_per_second: value }, Schedule::Recorded { speed: value }]
        {
            let error = Pacer::new(&Pace { schedule, pause: Nanos::ZERO }).unwrap_err();
            assert!(error.to_string().contains("above 0"), "{error}");
        }
    }
}
