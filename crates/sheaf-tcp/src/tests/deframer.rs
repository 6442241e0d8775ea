use super::super::framing::GOODBYE;
use super::super::{Blocks, Deframer, FrameError, Item, fuzz_tcp_stream};
use super::{frame, wire};
use proptest::prelude::*;
use sheaf_transport::Frame;
use std::convert::Infallible;
use zerocopy::IntoBytes;

const MAX: usize = 1 << 20;

/// Feeds all of `bytes`, as much at a time as there is room; gives the frames. `None` if the room gives out.
fn feed(deframer: &mut Deframer, blocks: &mut Blocks, mut bytes: &[u8]) -> Option<Vec<Frame>> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let Ok(filled) = deframer.fill(blocks, |room| -> Result<_, Infallible> {
            let filled = bytes.len().min(room.len());
            Ok(room[..filled].write_copy_of_slice(&bytes[..filled]))
        })?;
        bytes = &bytes[filled..];
        while let Some(item) = deframer.next(blocks).unwrap() {
            match item {
                Item::Frame(frame) => frames.push(frame),
                Item::Goodbye => panic!("nobody says goodbye here"),
            }
        }
        deframer.rest(blocks);
    }
    Some(frames)
}

fn new(block_bytes: usize, blocks: usize) -> (Deframer, Blocks) {
    (Deframer::new(MAX), Blocks::new(block_bytes, blocks))
}

#[test]
fn a_large_frame_is_a_slice_of_its_block() {
    let (mut deframer, mut blocks) = new(1 << 20, 1);
    let sent = frame(1000, &[2000, 3000]);
    let frames = feed(&mut deframer, &mut blocks, &wire(&sent)).unwrap();
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].head, sent.head);
    assert_eq!(frames[0].payload.len(), 1, "the pieces are merged");
    assert_eq!(frames[0].payload[0], [sent.payload[0].as_ref(), &sent.payload[1]].concat());
    let (head, payload) = (&frames[0].head, &frames[0].payload[0]);
    assert_eq!(head.as_ptr().wrapping_add(head.len()), payload.as_ptr(), "one after the other, as they came");
    assert_eq!(blocks.bytes_copied(), 0);
}

#[test]
fn small_frames_that_are_kept_hold_no_block() {
    let (mut deframer, mut blocks) = new(16 << 10, 1);
    let small = wire(&frame(100, &[100]));
    let busy = small.repeat(200);
    let mut kept = Vec::new();
    for _ in 0..100 {
        kept.extend(feed(&mut deframer, &mut blocks, &busy).expect("the one block is always free again"));
    }
    assert_eq!(kept.len(), 20_000);
    assert_eq!(blocks.allocated_bytes(), 16 << 10);
}

#[test]
fn frames_of_a_light_read_hold_no_block() {
    let (mut deframer, mut blocks) = new(16 << 10, 1);
    let sent = frame(100, &[3000]);
    let kept: Vec<Frame> = (0..100)
        .flat_map(|_| feed(&mut deframer, &mut blocks, &wire(&sent)).expect("the block is free again"))
        .collect();
    assert!(kept.iter().all(|frame| frame == &sent));
    assert_eq!(kept.len(), 100);
}

#[test]
fn room_gives_out_while_frames_are_held_and_comes_back_when_they_go() {
    let (mut deframer, mut blocks) = new(64 << 10, 4);
    let bytes = wire(&frame(10, &[30_000])).repeat(2);
    let mut held = Vec::new();
    while let Some(frames) = feed(&mut deframer, &mut blocks, &bytes) {
        held.extend(frames);
        assert!(held.len() <= 16, "four blocks hold eight such frames");
    }
    assert_eq!(blocks.allocated_bytes(), 4 * (64 << 10));
    held.clear();
    // The stream was interrupted somewhere; another one on the same blocks finds room.
    let mut other = Deframer::new(MAX);
    deframer.abandon(&mut blocks);
    for _ in 0..100 {
        assert_eq!(feed(&mut other, &mut blocks, &bytes).expect("there is room").len(), 2);
    }
}

#[test]
fn a_stream_without_an_unfinished_frame_holds_no_block() {
    let mut blocks = Blocks::new(64 << 10, 1);
    let mut streams: Vec<Deframer> = (0..50).map(|_| Deframer::new(MAX)).collect();
    for round in 0..20 {
        for stream in &mut streams {
            let frames = feed(stream, &mut blocks, &wire(&frame(10, &[round * 100])));
            assert_eq!(frames.expect("fifty idle streams share one block").len(), 1);
        }
    }
}

proptest! {
    /// Each connection that ends a frame while others are within theirs leaves a block behind. A node that holds many
    /// frames must not run out of memory because of mostly empty blocks: it would stop reading the data that complete
    /// its events.
    #[test]
    fn frames_that_are_kept_fill_blocks_whichever_connections_they_came_by(
        streams in 1_usize..12,
        arrivals in proptest::collection::vec((any::<prop::sample::Index>(), 100_usize..12_000), 1..400),
    ) {
        const BLOCK: usize = 64 << 10;
        let bytes = wire(&frame(10, &[12_000]));
        let mut blocks = Blocks::new(BLOCK, 10_000);
        let mut ends: Vec<(Deframer, &[u8])> = (0..streams).map(|_| (Deframer::new(MAX), &[][..])).collect();
        let mut held = Vec::new();
        for (index, split) in arrivals {
            // A frame comes in two pieces, and others' pieces between them.
            let (stream, rest) = &mut ends[index.index(streams)];
            let (piece, left) = if rest.is_empty() { bytes.split_at(split) } else { (*rest, &[][..]) };
            held.extend(feed(stream, &mut blocks, piece).expect("there is room"));
            *rest = left;
        }
        let least_filled = BLOCK - BLOCK / 4;
        let filled = held.len() * bytes.len() / least_filled;
        prop_assert!(
            blocks.allocated_bytes() <= (filled + streams + 2) * BLOCK,
            "{} frames of {} streams are in {} blocks", held.len(), streams, blocks.allocated_bytes() / BLOCK
        );
    }
}

#[test]
fn a_frame_larger_than_a_block_has_memory_of_its_own() {
    let (mut deframer, mut blocks) = new(8 << 10, 1);
    let sent = frame(5, &[MAX - 5]);
    let bytes = [wire(&frame(3, &[3])), wire(&sent), wire(&frame(4, &[]))].concat();
    let frames = feed(&mut deframer, &mut blocks, &bytes).unwrap();
    assert_eq!(frames, [frame(3, &[3]), sent, frame(4, &[])]);
    assert_eq!(blocks.allocated_bytes(), 8 << 10);
    assert!(blocks.bytes_copied() < 32 << 10, "only what had arrived before its length was known moves");
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_its_bytes_come() {
    for (head_bytes, payload_bytes) in
        [(MAX as u32 + 1, 0), (1, MAX as u32), (u32::MAX, 0), (u32::MAX - 1, u32::MAX)]
    {
        let (mut deframer, mut blocks) = new(8 << 10, 1);
        let prefix = [head_bytes.to_le_bytes(), payload_bytes.to_le_bytes()].concat();
        let Some(Ok(8)) = deframer.fill(&mut blocks, |room| -> Result<_, Infallible> {
            Ok(room[..8].write_copy_of_slice(&prefix))
        }) else {
            panic!("there is room for a prefix");
        };
        let error = FrameError::TooLarge { head_bytes, payload_bytes, limit: MAX };
        assert_eq!(deframer.next(&mut blocks), Err(error));
        assert_eq!(deframer.next(&mut blocks), Err(error), "it stays wrong");
        assert!(deframer.fill(&mut blocks, |_| Ok::<_, Infallible>(&mut [])).is_none(), "and takes no more");
    }
}

#[test]
fn bytes_after_the_goodbye_are_an_error() {
    let (mut deframer, mut blocks) = new(8 << 10, 1);
    let bytes = [wire(&frame(1, &[2])).as_slice(), GOODBYE.as_bytes(), b"?"].concat();
    let filled = deframer.fill(&mut blocks, |room| -> Result<_, Infallible> {
        Ok(room[..bytes.len()].write_copy_of_slice(&bytes))
    });
    assert_eq!(filled, Some(Ok(bytes.len())));
    assert_eq!(deframer.next(&mut blocks), Ok(Some(Item::Frame(frame(1, &[2])))));
    assert_eq!(deframer.next(&mut blocks), Ok(Some(Item::Goodbye)));
    assert_eq!(deframer.next(&mut blocks), Err(FrameError::AfterGoodbye(1)));
}

/// The sizes of a frame: mostly small, sometimes around or above a block of the fuzzed deframer.
fn shape() -> impl Strategy<Value = Vec<u8>> {
    let sizes = prop_oneof![4 => (0..40_usize, 0..40_usize), 1 => (0..300_usize, 0..700_usize)];
    prop_oneof![
        20 => sizes.prop_map(|(head, payload)| wire(&frame(head, &[payload]))),
        1 => Just(GOODBYE.as_bytes().to_vec()),
    ]
}

proptest! {
    #[test]
    fn any_stream_of_frames_is_understood_however_it_is_cut(
        sizes in any::<[u8; 4]>(),
        frames in prop::collection::vec(shape(), 0..60),
        cut in any::<prop::sample::Index>(),
    ) {
        let stream = frames.concat();
        let end = if stream.is_empty() { 0 } else { cut.index(stream.len() + 1) };
        fuzz_tcp_stream(&[&sizes, &stream[..end]].concat());
    }

    #[test]
    fn any_bytes_are_a_stream_or_an_error(bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..400)) {
        fuzz_tcp_stream(&bytes);
    }
}
