//! Input from a TCP peer: the sizes of the pieces, then frames, and perhaps a goodbye.

use super::Dice;

/// The limits of the fuzzed deframer: blocks of 256 bytes, frames of at most 1024.
const SIZES: [usize; 8] = [0, 1, 7, 56, 248, 256, 600, 1000];

pub(crate) fn seeds(dice: &mut Dice) -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, pieces, frames) in [
        ("bytewise", [0, 0, 0, 0], 3),
        ("small", [6, 2, 9, 0], 6),
        ("large", [255, 255, 255, 255], 12),
        ("uneven", [0, 255, 3, 120], 8),
        ("none", [1, 1, 1, 1], 0),
    ] {
        let mut bytes: Vec<u8> = pieces.to_vec();
        for _ in 0..frames {
            frame(dice, &mut bytes);
        }
        seeds.push((name.to_owned(), bytes.clone()));
        bytes.extend([0xff; 8]);
        seeds.push((format!("{name}-goodbye"), bytes.clone()));
        bytes.push(0);
        seeds.push((format!("{name}-after-goodbye"), bytes));
    }
    seeds.push((
        "too-large".to_owned(),
        [&[8; 4][..], &1000_u32.to_le_bytes(), &25_u32.to_le_bytes()].concat(),
    ));
    seeds
}

/// A frame: the sizes of its head and its payload, then both.
fn frame(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let head = dice.pick(&SIZES[..5]);
    let payload = dice.pick(&SIZES).min(1024 - head);
    bytes.extend((head as u32).to_le_bytes());
    bytes.extend((payload as u32).to_le_bytes());
    bytes.extend(dice.bytes(head + payload));
}
