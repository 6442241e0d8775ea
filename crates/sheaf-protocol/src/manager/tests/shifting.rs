//! Shifts of sources in the run records of every event file.

use super::*;
use crate::numbering::{Quantity, ShiftConfig, ShiftPolicy};
use sheaf_wire::message::{Disagreement, Renumber, Renumbered};
use sheaf_wire::shift_record::{ShiftRecord, latest};

const SOURCE: SourceId = SourceId(4);

fn world(on_shift: ShiftPolicy, outputs: u16) -> World {
    let shifts = ShiftConfig {
        quantities: vec![Quantity::default()],
        names: vec!["trigger".to_owned()],
        on_shift,
        events: 4,
        longest: 4,
    };
    let mut world = World::new(Triggers::Free, |config| {
        config.readout_of = [(SOURCE, 1)].into();
        config.shifts = Some(shifts);
        config.outputs = outputs;
    });
    let reports = (10..30).map(|event| Disagreement {
        event: EventId(event),
        source: SOURCE,
        quantity: 0,
        value: event + 2,
        reference: event,
    });
    world.say(NodeId::builder(0), Body::Disagreements(reports.collect()));
    world.grant(0, 0);
    world
}

fn found(repaired_from: Option<u64>, policy: ShiftPolicy) -> ShiftRecord {
    ShiftRecord {
        index: 0,
        source: SOURCE,
        quantity: "trigger".to_owned(),
        first: EventId(10),
        shift: 2,
        repaired_from: repaired_from.map(EventId),
        policy,
    }
}

fn records_in(said: Vec<Body<()>>) -> Vec<ShiftRecord> {
    let record = |body| match body {
        Body::Record(record) => Some(ShiftRecord::parse(&record).expect("a shift")),
        _ => None,
    };
    said.into_iter().filter_map(record).collect()
}

#[test]
fn every_writer_and_each_of_its_sessions_gets_what_becomes_known_of_a_shift() {
    let policy = ShiftPolicy::Repair;
    let mut world = world(policy, 0);
    for builder in 0..2 {
        assert_eq!(records_in(world.said_to(NodeId::builder(builder))), [found(None, policy)]);
    }
    let order = Body::Renumber(Renumber { source: SOURCE, shift: 2 });
    assert!(world.said_to(NodeId::readout(1)).contains(&order));
    let answer = Renumbered { source: SOURCE, first: EventId(44), shift: 2 };
    world.say(NodeId::readout(1), Body::Renumbered(answer));
    for builder in 0..2 {
        assert_eq!(records_in(world.said_to(NodeId::builder(builder))), [found(Some(44), policy)]);
    }
    world.sessions.insert(NodeId::builder(0), (2, 0));
    world.grant(0, 0);
    let again = records_in(world.said_to(NodeId::builder(0)));
    assert_eq!(again, [found(None, policy), found(Some(44), policy)]);
    let records = world.manager.records().iter().map(|record| &**record);
    assert_eq!(latest(records).0, [found(Some(44), policy)]);
}

#[test]
fn a_shift_of_the_last_events_is_recorded_before_the_writers_are_closed() {
    let mut world = world(ShiftPolicy::Stop, 0);
    world.manager.handle_stop(world.now);
    world.drain();
    for readout in 0..2 {
        world.say(NodeId::readout(readout), Body::Report(vec![]));
    }
    let said = world.said_to(NodeId::builder(1));
    let close = said.iter().position(|body| *body == Body::Command(Command::Close)).expect("it is closed");
    let record = said.iter().position(|body| matches!(body, Body::Record(_))).expect("it has the record");
    assert!(record < close);
    assert_eq!(records_in(said), [found(None, ShiftPolicy::Stop)]);
}
