//! Reasons of full builder units, out of snapshots and over moments.

use super::*;
use crate::description::NodeDescription;
use proptest::prelude::*;
use sheaf_telemetry::{Hub, SeriesList};

/// Sources of each readout unit.
const SOURCES: usize = 2;

/// Two readout units with two sources each, and two builder units.
struct Field {
    hub: Hub,
    run: RunDescription,
}

impl Field {
    fn new() -> Self {
        let node =
            |name: &str, role: &str| NodeDescription { name: name.into(), role: role.into(), agent: None };
        let nodes = vec![
            node("ru0", "readout"),
            node("ru1", "readout"),
            node("bu0", "builder"),
            node("bu1", "builder"),
        ];
        let sources = BTreeMap::from([(0, None), (1, Some("ecal".to_owned())), (2, None), (3, None)]);
        let run = RunDescription { number: 7, nodes, sources, ..RunDescription::default() };
        Self { hub: Hub::default(), run }
    }

    /// Publishes which sources of a readout unit are behind, and which of them are held back.
    fn readout(&self, index: usize, behind: [u64; SOURCES], held_back: [u64; SOURCES]) -> &Self {
        let mut list = SeriesList::default();
        let mut add =
            |metric| [0, 1].map(|place| list.add(metric, &[&(SOURCES * index + place).to_string()]));
        let (of_behind, of_held) = (add(&catalog::SOURCE_BEHIND), add(&catalog::SOURCE_HELD_BACK));
        let mut publisher = list.publish();
        publisher.publish(1, |to| {
            of_behind.iter().zip(behind).for_each(|(id, value)| to.set(*id, value));
            of_held.iter().zip(held_back).for_each(|(id, value)| to.set(*id, value));
        });
        self.hub.add(&format!("ru{index}"), publisher.publication());
        self
    }

    /// Publishes the events that a builder unit collects, all its events, and its waits in milliseconds.
    fn builder(&self, index: usize, [building, held]: [u64; 2], waits_ms: [u64; 2]) -> &Self {
        let mut list = SeriesList::default();
        let of_building = list.add(&catalog::EVENTS_BUILDING, &[]);
        let of_held = list.add(&catalog::BUFFER_EVENTS, &["events"]);
        let of_waits = list.add_row(&catalog::PAIR_WAITS, 2);
        let mut publisher = list.publish();
        publisher.publish(1, |to| {
            to.set(of_building, building);
            to.set(of_held, held);
            waits_ms
                .iter()
                .enumerate()
                .for_each(|(place, wait)| to.set(of_waits.plus(place), wait * 1_000_000));
        });
        self.hub.add(&format!("bu{index}"), publisher.publication());
        self
    }

    fn reasons(&self) -> Option<BTreeSet<Holdup>> {
        at(&self.hub.snapshot(), &self.run)
    }
}

fn source(name: &str, readout: &str) -> Holdup {
    Holdup::Source { source: name.into(), readout: readout.into() }
}

fn readout(name: &str) -> Holdup {
    Holdup::Readout(name.into())
}

#[test]
fn builder_units_without_events_wait_for_nothing() {
    let field = Field::new();
    assert_eq!(field.reasons(), None, "nobody has published");
    field.builder(0, [0, 0], [0, 0]).builder(1, [0, 0], [0, 0]);
    assert_eq!(field.reasons(), None);
}

#[test]
fn built_events_wait_for_the_filter_whatever_sources_do() {
    let field = Field::new();
    field.readout(0, [1, 1], [0, 0]).readout(1, [0, 0], [0, 0]);
    field.builder(0, [3, 64], [5, 5]).builder(1, [60, 64], [5, 5]);
    assert_eq!(field.reasons(), Some(BTreeSet::from([Holdup::Filter])));
}

#[test]
fn sources_that_are_behind_are_named_unless_their_readout_unit_has_no_room_for_them() {
    let field = Field::new();
    field.builder(0, [64, 64], [5, 5]).builder(1, [64, 64], [5, 5]);
    field.readout(0, [0, 1], [0, 0]).readout(1, [1, 0], [0, 0]);
    assert_eq!(field.reasons(), Some(BTreeSet::from([source("ecal", "ru0"), source("2", "ru1")])));
    field.readout(0, [0, 1], [0, 1]);
    assert_eq!(field.reasons(), Some(BTreeSet::from([source("2", "ru1")])));
}

#[test]
fn a_readout_unit_or_a_link_that_is_waited_for_longest_is_named() {
    let field = Field::new();
    field.readout(0, [0, 0], [0, 0]).readout(1, [0, 0], [0, 0]);
    let reason = |waits: [[u64; 2]; 2]| {
        field.builder(0, [64, 64], waits[0]).builder(1, [64, 64], waits[1]);
        field.reasons().expect("there are events")
    };
    assert_eq!(reason([[10, 90], [12, 80]]), BTreeSet::from([readout("ru1")]));
    let link = Holdup::Link { readout: "ru1".into(), builder: "bu0".into() };
    assert_eq!(reason([[10, 90], [10, 12]]), BTreeSet::from([link]));
    assert_eq!(reason([[50, 60], [55, 70]]), BTreeSet::from([Holdup::Fragments]));
    assert_eq!(reason([[0, 0], [0, 0]]), BTreeSet::from([Holdup::Fragments]));
}

/// Its last values blame its sources.
#[test]
fn a_readout_unit_that_has_ended_is_the_reason_and_not_its_sources() {
    let field = Field::new();
    field.builder(0, [64, 64], [0, 90]).builder(1, [64, 64], [0, 90]);
    field.readout(0, [0, 0], [0, 0]).readout(1, [1, 1], [0, 0]);
    field.hub.note_gone("ru1");
    assert_eq!(field.reasons(), Some(BTreeSet::from([readout("ru1")])));
}

fn over_moments(moments: &[&[&Holdup]]) -> Option<Holdup> {
    let mut holdups = Holdups::default();
    for (time_ms, reasons) in (0..).zip(moments) {
        holdups.add(time_ms, 0, reasons.iter().map(|reason| (*reason).clone()).collect());
    }
    holdups.reason(0)
}

#[test]
fn what_most_moments_have_in_common_is_the_reason() {
    let (slow, sibling, other) = (source("ecal", "ru0"), source("0", "ru0"), source("2", "ru1"));
    let filter = Holdup::Filter;
    assert_eq!(over_moments(&[]), None);
    assert_eq!(over_moments(&[&[&slow], &[&slow, &other], &[&slow]]), Some(slow.clone()));
    assert_eq!(over_moments(&[&[&filter], &[&filter], &[&slow]]), Some(Holdup::Filter));
    assert_eq!(over_moments(&[&[&slow], &[&other]]), Some(Holdup::Fragments), "they take turns");
    assert_eq!(over_moments(&[&[&slow, &other]]), Some(Holdup::Fragments), "of two readout units");
    assert_eq!(over_moments(&[&[&slow, &sibling]]), Some(readout("ru0")), "all sources of a readout unit");
}

/// A cable that loses packets delays one builder unit, then the other one, then both.
#[test]
fn reasons_that_take_turns_have_their_readout_unit_in_common() {
    let link = |builder: &str| Holdup::Link { readout: "ru1".into(), builder: builder.into() };
    let (one, other, both) = (link("bu0"), link("bu1"), readout("ru1"));
    assert_eq!(over_moments(&[&[&one], &[&both], &[&other]]), Some(readout("ru1")));
    assert_eq!(over_moments(&[&[&one], &[&one], &[&other]]), Some(one.clone()), "mostly one of the two");
    let elsewhere = readout("ru0");
    assert_eq!(over_moments(&[&[&one], &[&elsewhere], &[&other]]), Some(readout("ru1")));
    assert_eq!(over_moments(&[&[&one], &[&elsewhere]]), Some(Holdup::Fragments));
    assert_eq!(over_moments(&[&[&one], &[&Holdup::Fragments]]), Some(Holdup::Fragments));
}

#[test]
fn moments_before_the_window_are_forgotten() {
    let mut holdups = Holdups::default();
    holdups.add(1_000, 0, BTreeSet::from([Holdup::Filter]));
    holdups.add(12_000, 2_000, BTreeSet::from([readout("ru0")]));
    assert_eq!(holdups.reason(2_000), Some(readout("ru0")));
    assert_eq!(holdups.moments.len(), 1);
}

proptest! {
    /// Other sources are behind for a moment now and then: each in less than half of the moments.
    #[test]
    fn a_slow_source_is_found_among_others_that_are_behind_at_times(
        moments in prop::collection::vec(prop::collection::btree_set(0_usize..40, 0..12), 20..100),
    ) {
        let mut holdups = Holdups::default();
        let slow = source("slow", "ru9");
        for (time_ms, others) in (0..).zip(&moments) {
            let others = others.iter().map(|index| source(&index.to_string(), "ru0"));
            holdups.add(time_ms, 0, others.chain([slow.clone()]).collect());
        }
        let often = |index: usize| moments.iter().filter(|others| others.contains(&index)).count();
        prop_assume!((0..40).all(|index| 10 * often(index) < OF_TEN * moments.len()));
        prop_assert_eq!(holdups.reason(0), Some(slow));
    }
}
