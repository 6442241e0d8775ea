//! Readout units that are slow, frozen, dead, or disconnected together with the builder.

use super::*;

/// Much longer than the patience with a silent readout unit.
const LONG: Timestamp = Timestamp(100 * LATER.0);

/// A builder with an event that readout unit 1 has not answered, whose links are up.
fn waiting() -> BuilderUnit<Size> {
    let mut builder = builder(|_| {});
    for readout in 0..2 {
        builder.handle_link(START, NodeId::readout(readout), LinkStatus::Up);
    }
    assign(&mut builder, 5, 1, 1);
    let _ = requests(&mut builder, START);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    builder
}

/// Sends heartbeats of the event manager, and of readout unit 1 if requested, every half of the timeout until `end`.
fn live_until(builder: &mut BuilderUnit<Size>, end: Timestamp, readout_speaks: bool) {
    let mut now = START;
    while now < end {
        now += Nanos(TIMEOUT.0 / 2);
        from_manager_at(builder, now);
        if readout_speaks {
            let readout = Identity { node: NodeId::readout(1), run: RunNumber(1), session: SessionId(1) };
            builder.handle_input(now, readout.plain(Body::Acknowledge));
        }
        builder.handle_timeout(now);
        let _ = requests(builder, now);
    }
}

#[test]
fn a_readout_unit_that_lives_is_waited_for_without_limit() {
    let mut builder = waiting();
    live_until(&mut builder, LONG, true);
    assert_eq!(built(&mut builder), None);
    answer(&mut builder, 1, 5, &[2, 3], &[]);
    assert!(!built(&mut builder).unwrap().incomplete);
}

#[test]
fn one_that_says_nothing_when_it_is_asked_again_is_given_up() {
    let mut builder = waiting();
    live_until(&mut builder, LONG, false);
    assert!(built(&mut builder).unwrap().incomplete);
}

#[test]
fn one_whose_link_is_down_is_given_up_sooner_and_not_before_it_had_the_time_to_come_back() {
    let mut builder = builder(|config| config.patience.silence = Nanos::from_secs(1000));
    assign(&mut builder, 5, 1, 1);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 1, 4, &[2, 3], &[]);
    builder.handle_link(START + Nanos(TIMEOUT.0 / 2), NodeId::readout(1), LinkStatus::Down);
    live_until(&mut builder, LATER, false);
    assert_eq!(built(&mut builder), None);
    live_until(&mut builder, LONG, false);
    assert!(built(&mut builder).unwrap().incomplete);
}

#[test]
fn a_builder_that_hears_nobody_gives_nobody_up() {
    let mut builder = waiting();
    for node in [NodeId::MANAGER, NodeId::readout(0), NodeId::readout(1)] {
        builder.handle_link(START + Nanos(1), node, LinkStatus::Down);
    }
    for step in 1..100 {
        builder.handle_timeout(Timestamp(step * LATER.0));
        let _ = requests(&mut builder, Timestamp(step * LATER.0));
    }
    assert_eq!(built(&mut builder), None);
}

#[test]
fn a_unit_that_is_given_up_holds_no_credit() {
    let mut builder = builder(|config| config.asking = Asking::Paced(ByteCount(50)));
    assign(&mut builder, 5, 8, 1);
    let _ = asked(&mut builder, START);
    assert!(builder.in_flight() > ByteCount::ZERO);
    for readout in 0..2 {
        builder.handle_link(START, NodeId::readout(readout), LinkStatus::Down);
    }
    for step in 1..100 {
        live_until(&mut builder, Timestamp(step * LATER.0), false);
    }
    assert_eq!(builder.in_flight(), ByteCount::ZERO);
}

/// The repeated request waits for credit that slow readout units hold. Until it is sent, the unit has nothing to answer, and
/// its silence is no sign of death.
#[test]
fn one_whose_repeated_request_waits_for_credit_is_not_given_up() {
    let mut builder = builder(|config| {
        let sources = |readout: u32| vec![SourceId(2 * readout), SourceId(2 * readout + 1)];
        config.readouts = (0..8).map(|readout| ReadoutSources { sources: sources(readout) }).collect();
        // Four readout units may be asked at a time, each for one event.
        config.asking = Asking::Paced(ByteCount(4 * 70));
    });
    for readout in 0..8 {
        builder.handle_link(START, NodeId::readout(readout), LinkStatus::Up);
    }
    assign(&mut builder, 5, 2, 1);
    assert_eq!(asked(&mut builder, START), [(0, 5, 1), (1, 5, 1), (2, 5, 1), (3, 5, 1)]);
    let manager = Identity { node: NodeId::MANAGER, run: RunNumber(1), session: SessionId(1) };
    builder.handle_input(LATER, manager.plain(Body::Acknowledge));
    builder.handle_timeout(LATER);
    assert_eq!(asked(&mut builder, LATER), [(4, 5, 1), (5, 5, 1), (6, 5, 1), (7, 5, 1)], "the others wait");
    let second = Timestamp(2 * LATER.0);
    builder.handle_timeout(second);
    let repeats = asked(&mut builder, second);
    assert_eq!(repeats, [(0, 5, 1), (1, 5, 1), (2, 5, 1), (3, 5, 1)], "no readout unit is given up");
    // From here on, repeated requests have remained without an answer.
    builder.handle_input(second, manager.plain(Body::Acknowledge));
    builder.handle_timeout(Timestamp(second.0 + TIMEOUT.0));
    for readout in 4..8 {
        answer(&mut builder, readout, 5, &[u32::from(2 * readout), u32::from(2 * readout + 1)], &[]);
    }
    let missing: Vec<u32> =
        built(&mut builder).unwrap().missing.iter().map(|missing| missing.source.0).collect();
    assert_eq!(missing, (0..8).collect::<Vec<_>>());
}

fn missing_reasons(event: &Event<Size>) -> Vec<(u32, MissingReason)> {
    event.missing.iter().map(|missing| (missing.source.0, missing.reason)).collect()
}

/// One dead unit costs the time to notice it once, and not for each event.
#[test]
fn events_do_not_wait_for_a_unit_that_was_given_up_until_there_is_a_sign_of_it() {
    let mut builder = builder(|config| config.event_timeout = Nanos(50 * TIMEOUT.0));
    for readout in 0..2 {
        builder.handle_link(START, NodeId::readout(readout), LinkStatus::Up);
    }
    assign(&mut builder, 5, 2, 1);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 0, 6, &[0, 1], &[]);
    builder.handle_link(START, NodeId::readout(1), LinkStatus::Down);
    live_until(&mut builder, Timestamp(2 * LATER.0), false);
    let silent = [(2, MissingReason::ReadoutSilent), (3, MissingReason::ReadoutSilent)];
    for event in [5, 6] {
        let built = built(&mut builder).expect("its time to return is over");
        assert_eq!((built.id.0, missing_reasons(&built)), (event, silent.to_vec()));
    }
    assign(&mut builder, 7, 1, 1);
    answer(&mut builder, 0, 7, &[0, 1], &[]);
    assert_eq!(built(&mut builder).map(|event| missing_reasons(&event)), Some(silent.to_vec()));
    builder.handle_link(LATER, NodeId::readout(1), LinkStatus::Up);
    assign(&mut builder, 8, 1, 1);
    answer(&mut builder, 0, 8, &[0, 1], &[]);
    assert_eq!(built(&mut builder), None, "it is back");
    answer(&mut builder, 1, 8, &[2, 3], &[]);
    assert!(!built(&mut builder).expect("both have answered").incomplete);
}

#[test]
fn a_unit_that_waits_without_limit_gives_up_only_what_an_operator_excludes() {
    let mut builder = builder(|config| config.incomplete = IncompletePolicy::Wait);
    for readout in 0..2 {
        builder.handle_link(START, NodeId::readout(readout), LinkStatus::Up);
    }
    assign(&mut builder, 5, 1, 1);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    builder.handle_link(START, NodeId::readout(1), LinkStatus::Down);
    live_until(&mut builder, LONG, false);
    assert_eq!(built(&mut builder), None);
    let order = sheaf_wire::message::ReadoutExclusion { readout: 1, excluded: true, event: EventId(6) };
    let manager = Identity { node: NodeId::MANAGER, run: RunNumber(1), session: SessionId(1) };
    let assignment =
        Assignment { event: EventId(6), time: LONG, trigger_type: TriggerType(0), attempt: 1, charged: 50 };
    builder.handle_input(LONG, manager.plain(Body::ExcludeReadout(order)));
    let _ = requests(&mut builder, LONG);
    builder.handle_input(LONG, manager.plain(Body::Assign(vec![assignment])));
    assert_eq!(asked(&mut builder, LONG), [(0, 6, 1)], "the excluded unit is not asked");
    answer(&mut builder, 0, 6, &[0, 1], &[]);
    let event = built(&mut builder).expect("nothing else is awaited");
    let excluded = [(2, MissingReason::Excluded), (3, MissingReason::Excluded)];
    assert_eq!((missing_reasons(&event), event.incomplete), (excluded.to_vec(), false));
    builder.handle_timeout(Timestamp(LONG.0 + LATER.0));
    let event = built(&mut builder).expect("an older event has waited long enough");
    assert_eq!((event.id.0, event.incomplete), (5, true));
}

/// The event manager was frozen when the unit died, and lets its mirror act when it wakes up.
#[test]
fn one_with_a_mirror_is_given_up_only_if_the_event_manager_could_let_its_mirror_act() {
    let mut builder = builder(|config| config.mirrored = true);
    for readout in 0..2 {
        builder.handle_link(START, NodeId::readout(readout), LinkStatus::Up);
    }
    assign(&mut builder, 5, 1, 1);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    let down = START + TIMEOUT;
    builder.handle_link(down, NodeId::readout(1), LinkStatus::Down);
    // A message that was on its way.
    from_manager_at(&mut builder, down);
    builder.handle_timeout(LONG);
    from_manager_at(&mut builder, LONG);
    builder.handle_timeout(LONG);
    assert_eq!(built(&mut builder), None, "the event manager has just woken up");
    let lost_at = LONG + TIMEOUT;
    for quarter in 1..4 {
        from_manager_at(&mut builder, LONG + Nanos(quarter * TIMEOUT.0 / 4));
    }
    builder.handle_timeout(Timestamp(lost_at.0 - 1));
    assert_eq!(built(&mut builder), None);
    builder.handle_timeout(lost_at);
    assert!(built(&mut builder).expect("no mirror acts").incomplete);
}

fn from_manager_at(builder: &mut BuilderUnit<Size>, now: Timestamp) {
    let manager = Identity { node: NodeId::MANAGER, run: RunNumber(1), session: SessionId(1) };
    builder.handle_input(now, manager.plain(Body::Acknowledge));
}
