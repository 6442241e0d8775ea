//! Nodes that an operator excludes.

use super::*;
use sheaf_wire::message::ReadoutExclusion;

impl World {
    fn exclude(&mut self, nodes: &[NodeId]) {
        self.manager.handle_excluded_nodes(nodes.iter().copied());
        self.drain();
    }

    fn orders(&mut self, builder: u16) -> Vec<(u16, bool, u64)> {
        let order = |body: Body<()>| match body {
            Body::ExcludeReadout(ReadoutExclusion { readout, excluded, event }) => {
                Some((readout, excluded, event.0))
            }
            _ => None,
        };
        self.said_to(NodeId::builder(builder)).into_iter().filter_map(order).collect()
    }
}

#[test]
fn a_readout_unit_is_excluded_above_all_events_in_flight_and_files_say_so() {
    let mut world = World::new(Triggers::Free, |config| {
        config.readout_of = [(SourceId(0), 0), (SourceId(1), 1), (SourceId(2), 1)].into();
    });
    world.grant(0, 3);
    assert_eq!(world.assigned(0), [1, 2, 3]);
    world.exclude(&[NodeId::readout(1)]);
    assert_eq!([world.orders(0), world.orders(1)], [vec![(1, true, 4)], vec![(1, true, 4)]]);
    assert!(world.manager.is_excluded(NodeId::readout(1)));
    world.grant(0, 2);
    assert_eq!(world.assigned(0), [4, 5]);
    world.exclude(&[]);
    assert_eq!(world.orders(0), [(1, false, 6)]);
    let ranges = world.manager.exclusions().iter();
    let ranges: Vec<_> =
        ranges.map(|it| (it.source.0, it.first.0, it.included_from.map(|event| event.0))).collect();
    assert_eq!(ranges, [(1, 4, Some(6)), (2, 4, Some(6))]);
}

#[test]
fn a_builder_unit_that_joins_learns_of_exclusions_before_its_first_event() {
    let mut world = World::new(Triggers::Free, |_| {});
    world.exclude(&[NodeId::readout(0)]);
    let _ = world.said_to(NodeId::builder(0));
    world.sessions.insert(NodeId::builder(0), (2, 0));
    world.grant(0, 1);
    let said = world.said_to(NodeId::builder(0));
    let place = |wanted: fn(&Body<()>) -> bool| said.iter().position(wanted).expect("it was said");
    let (order, events) = (
        place(|body| matches!(body, Body::ExcludeReadout(_))),
        place(|body| matches!(body, Body::Assign(_))),
    );
    assert!(order < events, "{said:?}");
}

#[test]
fn an_excluded_builder_unit_gets_events_only_if_no_other_one_lives() {
    let mut world = World::new(Triggers::Free, |_| {});
    world.exclude(&[NodeId::builder(0)]);
    world.grant(0, 2);
    assert!(world.assigned(0).is_empty());
    world.grant(1, 2);
    assert_eq!(world.assigned(1), [1, 2]);
    let now = world.now;
    world.manager.lose_builder(now, NodeId::builder(1));
    world.drain();
    assert_eq!(world.assigned(0), [1, 2], "nothing is lost for the wish of an operator");
    world.exclude(&[NodeId::builder(0), NodeId::builder(1)]);
    assert_eq!(world.manager.excluded_nodes().count(), 0, "one of a role stays");
}

#[test]
fn the_ends_of_events_tell_an_excluded_readout_unit_that_they_did_not_have_it() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(3));
    world.grant(0, 1);
    let _ = world.assigned(0);
    world.exclude(&[NodeId::readout(1)]);
    world.grant(0, 2);
    assert_eq!(world.assigned(0), [2, 3]);
    for event in 1..=3 {
        world.finish(0, event, 1, Outcome::Stored, None);
    }
    world.now += Nanos::from_secs(1);
    world.drain();
    let releases = |world: &mut World, readout| {
        let said = world.said_to(NodeId::readout(readout)).into_iter();
        let list = said.filter_map(|body| if let Body::Release(list) = body { Some(list) } else { None });
        list.flatten().map(|it| (it.first.0, it.count, it.reason)).collect::<Vec<_>>()
    };
    assert_eq!(releases(&mut world, 0), [(1, 3, None)]);
    assert_eq!(releases(&mut world, 1), [(1, 1, None), (2, 2, Some(DropReason::Excluded))]);
}
