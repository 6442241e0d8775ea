use super::super::framing::GOODBYE;
use super::super::outbox::Outbox;
use super::{frame, wire};
use proptest::prelude::*;
use zerocopy::IntoBytes;

/// Writes the content of `outbox`, `sizes` bytes at a time.
fn drain(outbox: &mut Outbox, sizes: &[usize]) -> Vec<u8> {
    let mut written = Vec::new();
    for size in sizes.iter().cycle() {
        let (pieces, offered) = outbox.gather();
        assert!(pieces.len() <= 1024, "no system takes more pieces");
        assert!(pieces.iter().all(|piece| !piece.is_empty()));
        assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), offered);
        if offered == 0 {
            break;
        }
        let taken = offered.min(*size);
        written.extend(pieces.iter().flat_map(|piece| piece.iter()).take(taken));
        outbox.advance(taken);
    }
    written
}

#[test]
fn bounds_count_what_is_not_written() {
    let mut outbox = Outbox::new(3, 1000);
    let large = frame(100, &[500]);
    outbox.push(large.clone(), 600).unwrap();
    assert_eq!(outbox.push(large.clone(), 600), Err(large.clone()), "too many bytes");
    outbox.push(frame(0, &[]), 0).unwrap();
    outbox.push(frame(0, &[]), 0).unwrap();
    assert!(outbox.push(frame(0, &[]), 0).is_err(), "too many frames");
    assert_eq!(outbox.frames(), 3);
    assert!(!outbox.advance(607), "one byte of the first frame is left");
    assert!(outbox.push(frame(0, &[]), 0).is_err());
    assert!(outbox.advance(1));
    outbox.push(large, 600).unwrap();
    assert_eq!(outbox.frames(), 3);
}

#[test]
fn payload_is_let_go_as_soon_as_it_is_written() {
    let mut outbox = Outbox::new(10, 10_000);
    let sent = frame(10, &[100, 100]);
    let piece = sent.payload[0].clone();
    outbox.push(sent, 210).unwrap();
    assert!(!piece.is_unique());
    outbox.advance(8 + 10 + 99);
    assert!(!piece.is_unique());
    outbox.advance(1);
    assert!(piece.is_unique());
}

proptest! {
    #[test]
    fn what_is_written_is_what_was_queued(
        shapes in prop::collection::vec((0..50_usize, prop::collection::vec(0..500_usize, 0..60)), 0..30),
        sizes in prop::collection::vec(prop_oneof![1..30_usize, 1..60_000_usize, 10_000..60_000_usize], 5..10),
        goodbye in any::<bool>(),
    ) {
        let mut outbox = Outbox::new(1000, usize::MAX);
        let mut expected = Vec::new();
        for (head, pieces) in &shapes {
            let frame = frame(*head, pieces);
            expected.extend(wire(&frame));
            let bytes = frame.bytes();
            outbox.push(frame, bytes).unwrap();
        }
        if goodbye {
            outbox.push_goodbye();
            expected.extend_from_slice(GOODBYE.as_bytes());
        }
        prop_assert_eq!(outbox.frames(), shapes.len() as u64);
        prop_assert!(drain(&mut outbox, &sizes) == expected);
        prop_assert!(outbox.is_empty());
    }
}
