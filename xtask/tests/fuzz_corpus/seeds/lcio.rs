//! LCIO files, by the writer that the importer's own tests use.

use super::Dice;
use writer::{Collection, EventFile, Object, record};

#[path = "../../../../crates/sheaf-import/src/sdhcal/testing.rs"]
#[allow(clippy::unwrap_used, reason = "it belongs to tests")]
mod writer;

pub(crate) fn seeds(dice: &mut Dice) -> Vec<(String, Vec<u8>)> {
    let good = |objects: Vec<Object>| Collection { objects, ..Collection::default() };
    let collections = [
        ("none", Collection::default()),
        ("objects", good(objects(dice, 3))),
        (
            "fixed",
            Collection {
                objects: vec![Object::of_ints(&[1, 2, 3]); 4],
                fixed_size: true,
                ..Collection::default()
            },
        ),
        ("parameters", Collection { parameters: true, ..good(objects(dice, 2)) }),
        ("absent", Collection { absent: true, ..good(objects(dice, 1)) }),
        ("claimed", Collection { claimed_objects: Some(1 << 30), ..good(objects(dice, 1)) }),
    ];
    let mut seeds = Vec::new();
    for (name, collection) in &collections {
        for compressed in [false, true] {
            let mut file = EventFile { compressed, ..EventFile::default() };
            for number in 0..2 {
                file.event(715_000, number, i64::from(number) * 1000, collection);
            }
            let suffix = if compressed { "packed" } else { "plain" };
            seeds.push((format!("{name}-{suffix}"), file.finish()));
        }
    }
    seeds.push(("bomb".to_owned(), record("LCEvent", &[0; 200], true, Some(u32::MAX))));
    seeds
}

/// Objects with words as the readout of the calorimeter makes them, and with floats and doubles, which it does not.
fn objects(dice: &mut Dice, count: usize) -> Vec<Object> {
    let object = |number: usize, dice: &mut Dice| Object {
        ints: (0..8 + dice.below(24)).map(|_| dice.next() as u32).collect(),
        floats: vec![0x3f80_0000; number % 2],
        doubles: number % 3,
    };
    (0..count).map(|number| object(number, dice)).collect()
}
