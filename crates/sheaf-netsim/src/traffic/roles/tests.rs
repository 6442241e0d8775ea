mod over_networks;
mod shaping;

use super::*;
use crate::scenario::{Placement, RolesShaping, SizeModel};
use crate::traffic::tests::{Ideal, RATE};
use proptest::prelude::*;
use sheaf_protocol::ledger::Counter;

const APART: Placement = Placement::Apart { readouts: 16, builders: 16 };

fn scenario(placement: Placement) -> RolesTraffic {
    RolesTraffic {
        placement,
        size: SizeModel::Fixed(2000),
        events: 2_000,
        event_rate: None,
        slots: 16,
        shaping: RolesShaping::Pull,
        message_bytes: 256 << 10,
        control: None,
    }
}

fn roles(traffic: &RolesTraffic, faults: &[Fault], endpoints: u32) -> Ideal<Roles> {
    let roles = Roles::new(traffic, faults, RATE, endpoints, 3).unwrap();
    Ideal::new(roles, endpoints, RATE, Picos::from_micros(2))
}

/// Runs to the end of all that happens.
fn finish(mut ideal: Ideal<Roles>) -> Ideal<Roles> {
    ideal.run_until(Picos::from_micros(1_000_000_000));
    assert!(ideal.traffic.is_closed(), "{:?}", ideal.traffic.ledger());
    ideal.summary();
    ideal
}

fn death(endpoint: u32, from_micros: u64, until_micros: Option<u64>) -> Fault {
    Fault {
        from: Picos::from_micros(from_micros),
        until: until_micros.map(Picos::from_micros),
        what: FaultKind::HostDead(endpoint),
    }
}

#[test]
fn sixteen_by_sixteen_build_all_events_and_close_their_books() {
    for (placement, endpoints, control) in [
        (APART, 33, None),
        (APART, 32, None),
        (Placement::Both, 16, None),
        (Placement::Both, 16, Some(Picos::from_micros(5))),
    ] {
        let traffic = RolesTraffic { control, ..scenario(placement) };
        let ideal = finish(roles(&traffic, &[], endpoints));
        let counts = ideal.summary().events.unwrap();
        assert_eq!(counts, EventCounts { complete: 2_000, incomplete: 0, in_flight: 0 });
        let books = ideal.traffic.readout_books();
        assert_eq!(books.fragments.stored, 16 * 2_000);
        assert!(!books.counters.contains_key(&Counter::Resent), "{books:?}");
        assert_eq!(ideal.traffic.built().iter().sum::<u64>(), 2_000);
        assert!(ideal.traffic.built().iter().all(|built| *built > 60), "{:?}", ideal.traffic.built());
        let small = ideal.messages.iter().filter(|(message, _)| message.bytes < 2_000).count();
        assert_eq!(small == 0, control.is_some(), "control shares the links, or it does not");
    }
}

#[test]
fn the_same_run_is_the_same_to_the_last_message() {
    let mut traffic = scenario(APART);
    traffic.size = SizeModel::LogNormal { mean: 2000.0, rms: 2000.0 };
    traffic.event_rate = Some(200_000.0);
    let faults = [death(20, 800, Some(300_000))];
    let run = || {
        let mut ideal = roles(&traffic, &faults, 33).losing(|number| number % 331 == 7);
        ideal.run_until(Picos::from_micros(1_000_000_000));
        (ideal.summary(), ideal.messages)
    };
    assert!(run() == run());
}

#[test]
fn triggers_at_a_rate_are_built_at_that_rate() {
    let mut traffic = scenario(APART);
    // 16 builders at 1 GB/s take 500,000 events of 32 kB per second.
    traffic.event_rate = Some(100_000.0);
    let ideal = finish(roles(&traffic, &[], 33));
    assert_eq!(ideal.traffic.vetoed(), 0);
    let last = ideal.messages.iter().filter(|(message, _)| message.bytes > 2_000).map(|(_, at)| *at).max();
    let seconds = last.unwrap().as_secs_f64();
    assert!((0.018..0.024).contains(&seconds), "{seconds} s for 2,000 events");
}

#[test]
fn what_the_network_loses_is_asked_for_again() {
    let ideal = finish(roles(&scenario(APART), &[], 33).losing(|number| number % 50 == 13));
    let counts = ideal.summary().events.unwrap();
    assert_eq!(counts, EventCounts { complete: 2_000, incomplete: 0, in_flight: 0 });
    assert!(ideal.traffic.builder_books().counters[&Counter::RetriedRequests] > 20);
    assert!(ideal.traffic.readout_books().counters[&Counter::Resent] > 5);
}

#[test]
fn the_events_of_a_dead_builder_are_built_by_others() {
    for until in [None, Some(2_000_000)] {
        // Builders are endpoints 16 to 31.
        let ideal = finish(roles(&scenario(APART), &[death(19, 1_000, until)], 33));
        let counts = ideal.summary().events.unwrap();
        assert_eq!(counts, EventCounts { complete: 2_000, incomplete: 0, in_flight: 0 });
        let built = ideal.traffic.built();
        assert!((1..125).contains(&built[3]), "{built:?}");
    }
}

#[test]
fn without_a_readout_unit_events_are_built_and_say_so() {
    let faults = [death(5, 2_000, None)];
    let ideal = finish(roles(&scenario(APART), &faults, 33));
    let counts = ideal.summary().events.unwrap();
    assert_eq!(counts.complete + counts.incomplete, 2_000);
    assert!(counts.incomplete > 100 && counts.complete > 100, "{counts:?}");
}

#[test]
fn a_readout_unit_that_comes_back_has_lost_what_it_held_and_then_takes_part() {
    let mut traffic = scenario(APART);
    traffic.event_rate = Some(2_000.0);
    let ideal = finish(roles(&traffic, &[death(5, 100_000, Some(200_000))], 33));
    let counts = ideal.summary().events.unwrap();
    assert_eq!(counts.complete + counts.incomplete, 2_000);
    // Of the 1 second that the triggers take, it was away for a tenth.
    assert!((100..400).contains(&counts.incomplete), "{counts:?}");
}

#[test]
fn the_event_manager_must_not_die() {
    let refused = |placement, endpoints, endpoint| {
        Roles::new(&scenario(placement), &[death(endpoint, 1, None)], RATE, endpoints, 3).unwrap_err()
    };
    assert_eq!(refused(APART, 40, 32), SetupError::ManagerDies { endpoint: 32 });
    assert_eq!(refused(Placement::Both, 8, 0), SetupError::ManagerDies { endpoint: 0 });
    assert_eq!(refused(Placement::Both, 8, 8), SetupError::NoSuchHost { endpoint: 8, endpoints: 8 });
}

#[test]
fn scenarios_without_slots_or_events_or_with_too_many_nodes_are_refused() {
    let refused =
        |traffic: &RolesTraffic, endpoints| Roles::new(traffic, &[], RATE, endpoints, 3).unwrap_err();
    assert!(matches!(refused(&RolesTraffic { slots: 0, ..scenario(APART) }, 40), SetupError::Zero(_)));
    assert!(matches!(refused(&RolesTraffic { events: 0, ..scenario(APART) }, 40), SetupError::Zero(_)));
    let many = refused(&scenario(Placement::Both), 70_000);
    assert!(matches!(many, SetupError::TooManyNodes { count: 70_000, .. }), "{many}");
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(12))]

    #[test]
    fn the_books_balance_whatever_dies_and_is_lost(
        readouts in 1..6_u32, builders in 1..6_u32, slots in 1..20_u32, rate in prop::option::of(1e3..1e5_f64),
        mean in 1.0..5000.0_f64, dies in 0..10_u32, from in 0..5_000_u64, lasts in 1..300_000_u64,
    ) {
        let traffic = RolesTraffic {
            size: SizeModel::LogNormal { mean, rms: mean },
            events: 300,
            event_rate: rate,
            slots,
            ..scenario(Placement::Apart { readouts, builders })
        };
        let faults = [death(dies.min(readouts + builders - 1), from, Some(from + lasts))];
        let mut ideal = roles(&traffic, &faults, 11).losing(|number| number % 41 == 7);
        ideal.run_until(Picos::from_micros(30_000_000));
        let counts = ideal.summary().events.unwrap();
        let ledger = ideal.traffic.ledger();
        // Everybody is back before the event manager gives up a run in which all readout units are silent (400 ms).
        prop_assert!(ideal.traffic.is_closed(), "{ledger:?}");
        prop_assert_eq!((ledger.received, counts.in_flight), (300, 0));
    }
}
