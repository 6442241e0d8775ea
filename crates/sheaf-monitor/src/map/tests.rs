//! Maps out of snapshots.

use super::*;
use crate::description::NodeDescription;
use sheaf_telemetry::{Hub, Publisher, SeriesId, SeriesList};

/// A run of builder units that a test decides about.
struct Field {
    hub: Hub,
    maker: MapMaker,
    run: RunDescription,
    builders: Vec<(Publisher, SeriesId, SeriesId)>,
    now: Instant,
}

/// An answer, read again.
struct Answer {
    head: serde_json::Value,
    values: Vec<f32>,
}

impl Field {
    fn new(readouts: usize, builders: usize) -> Self {
        let node = |role: &str, index: usize| NodeDescription {
            name: format!("{}{index}", if role == "readout" { "ru" } else { "bu" }),
            role: role.into(),
            agent: None,
        };
        let nodes = (0..readouts).map(|index| node("readout", index));
        let nodes = nodes.chain((0..builders).map(|index| node("builder", index))).collect();
        let mut field = Self {
            hub: Hub::default(),
            maker: MapMaker::default(),
            run: RunDescription { number: 7, nodes, ..RunDescription::default() },
            builders: Vec::new(),
            now: Instant::now(),
        };
        for index in 0..builders {
            let mut list = SeriesList::default();
            let waits = list.add_row(&catalog::PAIR_WAITS, readouts);
            let bytes = list.add_row(&catalog::PAIR_BYTES, readouts);
            let publisher = list.publish();
            field.hub.add(&format!("bu{index}"), publisher.publication());
            field.builders.push((publisher, waits, bytes));
        }
        for index in 0..readouts {
            field.publish_readout(index, &[0]);
        }
        field
    }

    /// Publishes which sources of a readout unit are excluded.
    fn publish_readout(&self, index: usize, excluded: &[u64]) {
        let mut list = SeriesList::default();
        let ids: Vec<_> = (0..excluded.len())
            .map(|source| list.add(&catalog::SOURCE_EXCLUDED, &[&source.to_string()]))
            .collect();
        let mut publisher = list.publish();
        publisher.publish(1, |to| ids.iter().zip(excluded).for_each(|(id, value)| to.set(*id, *value)));
        self.hub.add(&format!("ru{index}"), publisher.publication());
    }

    /// Publishes waits in milliseconds and bytes of a builder unit, at a time in milliseconds.
    fn publish(&mut self, builder: usize, at_ms: u64, waits_ms: &[u64], bytes: &[u64]) {
        let (publisher, waits, total) = &mut self.builders[builder];
        publisher.publish(at_ms * 1_000_000, |to| {
            for (place, wait) in waits_ms.iter().enumerate() {
                to.set(waits.plus(place), wait * 1_000_000);
            }
            for (place, bytes) in bytes.iter().enumerate() {
                to.set(total.plus(place), *bytes);
            }
        });
    }

    fn make(&mut self, quantity: Quantity) -> Answer {
        self.maker.make(&self.hub.snapshot(), Some(&self.run), (self.now, 9));
        let bytes = self.maker.answer(quantity);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
        assert_eq!(word(0), MAGIC as usize);
        let (builders, readouts, begin) = (word(4), word(8), 24 + word(12));
        assert_eq!((bytes.len(), begin % 4), (begin + 4 * builders * readouts, 0));
        let values = bytes[begin..].chunks(4);
        Answer {
            head: serde_json::from_slice(&bytes[24..begin]).expect("it is JSON"),
            values: values.map(|four| f32::from_le_bytes(four.try_into().expect("four bytes"))).collect(),
        }
    }

    fn told(&mut self) -> (String, Vec<String>) {
        let head = self.make(Quantity::Wait).head;
        let troubles = head["troubles"].as_array().expect("a list").iter();
        let texts = troubles.map(|trouble| trouble["text"].as_str().expect("a text").to_owned());
        (head["summary"].as_str().expect("a text").to_owned(), texts.collect())
    }
}

#[test]
fn values_come_builder_unit_by_builder_unit_and_are_unknown_before_a_report() {
    let mut field = Field::new(3, 2);
    field.publish(1, 100, &[0, 20, 300], &[]);
    let Answer { head, values } = field.make(Quantity::Wait);
    assert_eq!(values[3..], [0.0, 0.02, 0.3]);
    assert!(values[..3].iter().all(|value| value.is_nan()));
    let conditions: Vec<_> = (0..2).map(|builder| head["builders"][builder]["condition"].as_str()).collect();
    assert_eq!(conditions, [Some("absent"), Some("reporting")]);
    assert_eq!((&head["unit"], &head["run"]), (&"s".into(), &7.into()));
    assert_eq!(head["summary"], "no wait is as long as 1 s; the longest: bu1 for ru2, 300 ms");
}

#[test]
fn rates_are_those_of_the_last_second_on_the_clock_of_the_builder_unit() {
    let mut field = Field::new(2, 1);
    field.publish(0, 1_000, &[], &[1_000, 0]);
    assert!(field.make(Quantity::Rate).values.iter().all(|value| value.is_nan()));
    field.publish(0, 1_500, &[], &[2_000, 0]);
    assert_eq!(field.make(Quantity::Rate).values, [2_000.0, 0.0]);
    field.publish(0, 2_000, &[], &[9_000, 0]);
    assert_eq!(field.make(Quantity::Rate).values, [2_000.0, 0.0], "half a second is too short");
    field.publish(0, 2_500, &[], &[9_000, 500]);
    assert_eq!(field.make(Quantity::Rate).values, [7_000.0, 500.0]);
    // It begins again: its counters are those of another session.
    field.publish(0, 3_500, &[], &[10, 0]);
    assert_eq!(field.make(Quantity::Rate).values.iter().filter(|value| value.is_nan()).count(), 2);
    field.now += FORGOTTEN;
    field.publish(0, 9_500, &[], &[10_000, 0]);
    assert!(field.make(Quantity::Rate).values[0].is_nan(), "nobody has looked for a while");
}

#[test]
fn a_row_a_column_and_a_cell_in_trouble_are_told_apart() {
    let mut field = Field::new(4, 4);
    let mut set = |waits: [[u64; 4]; 4]| {
        waits.iter().enumerate().for_each(|(builder, waits)| field.publish(builder, 100, waits, &[]));
        field.told()
    };
    let row = [[0, 0, 0, 2_100], [5, 0, 0, 1_900], [0, 0, 9, 2_000], [0, 0, 0, 1_200]];
    let told = "readout unit ru3: 4 of 4 builder units wait for it, the oldest event for 2.1 s";
    assert_eq!(set(row), (told.to_owned(), vec![told.to_owned()]));
    let column = [[0; 4], [1_000, 3_000, 0, 3_100], [0; 4], [0; 4]];
    let told = "builder unit bu1: it waits for 3 of 4 readout units, the oldest event for 3.1 s";
    assert_eq!(set(column), (told.to_owned(), vec![told.to_owned()]));
    let cell = [[0; 4], [0; 4], [0, 2_000, 0, 0], [0; 4]];
    let told = "one pair: bu2 waits for ru1, the oldest event for 2.0 s";
    assert_eq!(set(cell), (told.to_owned(), vec![told.to_owned()]));
    let both = [[0, 0, 1_100, 0], [1_500, 0, 4_000, 0], [0, 0, 2_000, 0], [0, 0, 2_000, 0]];
    let (first, all) = set(both);
    assert_eq!(first, all[0]);
    assert!(all[0].contains("ru2: 4 of 4") && all[1].starts_with("one pair: bu1 waits for ru0"), "{all:?}");
    assert_eq!(set([[0; 4]; 4]), ("no builder unit waits for a readout unit".to_owned(), vec![]));
}

#[test]
fn where_all_wait_none_is_blamed_but_one_that_stands_out_is() {
    let mut field = Field::new(3, 2);
    field.publish(0, 100, &[1_500, 1_600, 1_700], &[]);
    field.publish(1, 100, &[1_500, 1_400, 1_800], &[]);
    let (told, all) = field.told();
    assert!(told.starts_with("half of all pairs wait for 1.5 s or longer, up to 1.8 s"), "{told}");
    assert_eq!(all.len(), 1);
    field.publish(0, 100, &[1_500, 1_600, 9_000], &[]);
    field.publish(1, 100, &[1_500, 1_400, 9_000], &[]);
    let (told, all) = field.told();
    assert!(told.starts_with("readout unit ru2: 2 of 2") && all.len() == 1, "{all:?}");
}

#[test]
fn a_readout_unit_that_has_ended_is_named_once_with_those_that_wait_for_it() {
    let mut field = Field::new(3, 2);
    field.publish(0, 100, &[0, 0, 0], &[]);
    field.publish(1, 100, &[0, 0, 0], &[]);
    field.hub.note_gone("ru1");
    assert_eq!(field.told().1, ["readout unit ru1 has ended"]);
    field.publish(0, 100, &[0, 3_000, 0], &[]);
    field.publish(1, 100, &[0, 2_000, 0], &[]);
    let told =
        "readout unit ru1, which has ended: 2 of 2 builder units wait for it, the oldest event for 3.0 s";
    assert_eq!(field.told().1, [told]);
}

#[test]
fn the_only_readout_unit_is_named_although_there_is_nothing_to_compare_it_with() {
    let mut field = Field::new(1, 2);
    field.publish(0, 100, &[1_500], &[]);
    field.publish(1, 100, &[1_600], &[]);
    assert!(field.told().0.starts_with("readout unit ru0: 2 of 2 builder units wait"));
}

#[test]
fn a_builder_unit_that_gets_nothing_while_others_do_is_named_after_a_while() {
    let mut field = Field::new(1, 2);
    for second in 0..8 {
        field.publish(0, 1_000 * second + 1, &[0], &[1_000 * second]);
        field.publish(1, 1_000 * second + 1, &[0], &[500]);
        let all = field.told().1;
        assert_eq!(all.len(), usize::from(second >= 5), "{all:?}");
        assert!(all.iter().all(|text| text.starts_with("builder unit bu1 has requested nothing for")));
        field.now += Duration::from_secs(1);
    }
}

#[test]
fn units_that_have_ended_and_sources_that_are_excluded_have_marks_of_their_own() {
    let mut field = Field::new(3, 2);
    field.publish(0, 100, &[0, 0, 0], &[]);
    field.publish(1, 100, &[1, 1, 1], &[]);
    field.publish_readout(0, &[1, 0]);
    field.publish_readout(1, &[1, 1]);
    field.publish_readout(2, &[]);
    field.hub.note_gone("bu1");
    let Answer { head, values } = field.make(Quantity::Wait);
    let condition = |role: &str, index: usize| head[role][index]["condition"].as_str().map(str::to_owned);
    let readouts: Vec<_> = (0..3).filter_map(|index| condition("readouts", index)).collect();
    assert_eq!(readouts, ["reporting", "excluded", "reporting"]);
    assert_eq!(condition("builders", 1).as_deref(), Some("ended"));
    assert!(values[3..].iter().all(|value| value.is_nan()), "its last values are not those of now");
    assert!(field.told().1[0].starts_with("builder unit bu1 has ended"));
    field.hub.note_gone("bu0");
    assert_eq!(field.told(), ("the run is over: no builder unit waits".to_owned(), vec![]));
}

#[test]
fn an_answer_serves_all_who_ask_within_a_moment_and_only_for_its_run() {
    let mut field = Field::new(1, 1);
    field.make(Quantity::Wait);
    let is_due = |passed, run| field.maker.is_due(run, field.now + passed);
    assert!(!is_due(MOMENT - Duration::from_millis(1), Some(&field.run)));
    assert!(is_due(MOMENT, Some(&field.run)));
    field.maker.pairs = LARGE;
    assert!(!field.maker.is_due(Some(&field.run), field.now + MOMENT), "a large map serves for longer");
    field.maker.pairs = 1;
    let is_due = |passed, run| field.maker.is_due(run, field.now + passed);
    let next = RunDescription { number: 8, ..field.run.clone() };
    assert!(is_due(Duration::ZERO, Some(&next)) && is_due(Duration::ZERO, None));
}

#[test]
fn a_process_without_a_run_has_an_empty_map() {
    let mut maker = MapMaker::default();
    maker.make(&Snapshot::default(), None, (Instant::now(), 9));
    let bytes = maker.answer(Quantity::Wait);
    assert_eq!(bytes[4..12], [0; 8]);
}
