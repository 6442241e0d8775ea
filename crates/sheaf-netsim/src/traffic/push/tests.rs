use super::*;
use crate::scenario::{Assignment, Placement, SizeModel};
use crate::traffic::tests::{Ideal, RATE, events};
use crate::units::Rate;

fn push(traffic: &EventTraffic, window: u32, endpoints: u32) -> Push {
    Push::new(traffic, Window { events: window }, endpoints, 7).unwrap()
}

#[test]
fn all_sources_send_the_events_in_order_to_the_builder_that_has_them() {
    let apart = Placement::Apart { readouts: 3, builders: 2 };
    let traffic = events(apart, SizeModel::Fixed(1000), Assignment::RoundRobin);
    let mut ideal = Ideal::new(push(&traffic, 100, 5), 5, RATE, Picos::ZERO);
    ideal.run_until(Picos::from_micros(9));
    for source in 0..3 {
        let own = ideal.messages.iter().filter(|(message, _)| message.source.0 == source);
        let sent: Vec<_> = own.map(|(message, _)| (message.token, message.destination.0)).collect();
        assert_eq!(sent[..4], [(0, 3), (1, 4), (2, 3), (3, 4)]);
        assert_eq!(sent.len(), 10);
    }
    assert_eq!(ideal.traffic.book().by_builder(), [5, 4]);
}

#[test]
fn with_one_event_in_flight_an_event_takes_its_largest_fragment_and_the_way() {
    let traffic = events(Placement::Both, SizeModel::Fixed(1000), Assignment::Random);
    let mut ideal = Ideal::new(push(&traffic, 1, 4), 4, RATE, Picos::from_nanos(500));
    ideal.run_until(Picos::from_micros(15));
    let latency = ideal.summary().event_latency.unwrap();
    assert_eq!(latency.count, 10);
    assert!((latency.mean / 1.5e6 - 1.0).abs() < 1e-3, "{latency:?}");
}

#[test]
fn events_that_stay_inside_their_group_cross_no_border() {
    let grouped = Placement::Grouped { group: 4, readouts: 3, builders: 1, stay_inside: true };
    let traffic = events(grouped, SizeModel::Fixed(100), Assignment::RoundRobin);
    let mut ideal = Ideal::new(push(&traffic, 8, 12), 12, RATE, Picos::ZERO);
    ideal.run_until(Picos::from_micros(20));
    assert!(ideal.messages.iter().all(|(message, _)| message.source.0 / 4 == message.destination.0 / 4));
    assert_eq!(ideal.messages.iter().filter(|(message, _)| message.token == 0).count(), 3);
    let counts = ideal.summary().events.unwrap();
    assert!(counts.complete > 500, "{counts:?}");
}

#[test]
fn a_rate_of_events_is_met_where_the_network_can() {
    let mut traffic = events(Placement::Both, SizeModel::Fixed(500), Assignment::LeastLoaded);
    traffic.event_rate = Some(1e6);
    let mut ideal = Ideal::new(push(&traffic, 1000, 4), 4, RATE, Picos::ZERO);
    ideal.run_until(Picos::from_micros(20_000));
    let complete = ideal.summary().events.unwrap().complete;
    assert!(complete.abs_diff(20_000) < 700, "{complete}");
}

#[test]
fn a_replay_sends_what_was_recorded() {
    let rows = vec![vec![100, 200], vec![300, 0], vec![7, 8]];
    let apart = Placement::Apart { readouts: 2, builders: 1 };
    let traffic = events(apart, SizeModel::Fixed(1), Assignment::RoundRobin);
    let replay = Push::replay(&traffic, rows, Window { events: 2 }, 3, 0).unwrap();
    let mut ideal = Ideal::new(replay, 3, Rate::from_gigabits(8), Picos::ZERO);
    ideal.run_until(Picos::from_micros(2));
    let sizes = |source: u32| -> Vec<u32> {
        let own = ideal.messages.iter().filter(|(message, _)| message.source.0 == source);
        own.map(|(message, _)| message.bytes).take(5).collect()
    };
    assert_eq!(sizes(0), [100, 300, 7, 100, 300]);
    assert_eq!(sizes(1), [200, 1, 8, 200, 1]);
}

#[test]
fn what_cannot_be_is_refused() {
    let mut traffic = events(Placement::Both, SizeModel::Fixed(500), Assignment::Random);
    let refused =
        |traffic: &EventTraffic, window| Push::new(traffic, Window { events: window }, 4, 1).unwrap_err();
    assert_eq!(refused(&traffic, 0), SetupError::Zero("the window of events in flight"));
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        traffic.event_rate = Some(rate);
        assert!(matches!(refused(&traffic, 1), SetupError::Rate(_)));
    }
}
