//! Payload in place, given back, copied when it must be.

use super::world::{RECEIVER, SENDER, next, next_frame, options, pair, until};
use crate::{Arena, ShmEndpoint};
use bytes::Bytes;
use sheaf_buffer::{Block, Memory, Pool};
use sheaf_transport::{DownReason, Endpoint, Event, Frame, SendError};
use sheaf_wire::ByteCount;

fn in_place(arena: &Arena) -> Pool<crate::Lender> {
    Pool::with_memory(arena.lender(), 8192, 1)
}

/// A piece of the pool's one block.
fn piece(pool: &mut Pool<crate::Lender>, value: u8, bytes: usize) -> Bytes {
    let mut block = pool.take().expect("the block is free");
    block.append_fill(value, bytes);
    let piece = block.cut();
    pool.give_back(block);
    piece
}

#[test]
fn payload_in_the_arena_is_read_where_it_was_written_and_its_block_is_free_after_the_last_handle() {
    let (mut sender, arena, mut receiver) = pair();
    let mut pool = in_place(&arena);
    for round in 0..10 {
        let sent = piece(&mut pool, round, 3000);
        let frame = Frame::new(Bytes::from_static(b"head"), [sent.slice(..1000), sent.slice(1000..)]);
        drop(sent);
        sender.send(RECEIVER, frame).unwrap();
        let got = next_frame(&mut receiver);
        assert_eq!(&got.head[..], b"head");
        assert_eq!(got.payload.len(), 1, "neighbours are one");
        assert_eq!(&got.payload[0][..], &[round; 3000]);
        let kept = got.payload[0].slice(10..20);
        drop(got);
        assert_eq!(sender.poll(), None);
        assert!(pool.take().is_none(), "a handle lives");
        drop(kept);
        assert_eq!(sender.poll(), None);
        let block = pool.take().expect("the last handle is gone");
        pool.give_back(block);
    }
    assert_eq!((sender.stats().bytes_copied, receiver.stats().bytes_copied), (0, 0));
}

#[test]
fn payload_from_elsewhere_is_copied_once() {
    let (mut sender, arena, mut receiver) = pair();
    let mut pool = in_place(&arena);
    let pieces = [
        Bytes::from(vec![1; 5000]),
        piece(&mut pool, 2, 700),
        Bytes::from(vec![3; 10]),
        Bytes::from(vec![4; 400]),
    ];
    sender.send(RECEIVER, Frame::new(Bytes::new(), pieces)).unwrap();
    let got = next_frame(&mut receiver);
    let expected: Vec<u8> =
        [(1, 5000), (2, 700), (3, 10), (4, 400)].into_iter().flat_map(|(value, n)| vec![value; n]).collect();
    assert_eq!(got.payload.iter().flatten().copied().collect::<Vec<u8>>(), expected);
    assert_eq!((sender.stats().bytes_copied, receiver.stats().bytes_copied), (5410, 0));
}

/// A receiver that lets go of nothing until it has everything, many times more than the arena and the slots hold.
#[test]
fn a_receiver_that_keeps_everything_still_gets_everything() {
    const FRAMES: usize = 3000;
    let (mut sender, arena, mut receiver) = pair();
    let mut pool = Pool::with_memory(arena.lender(), 4096, 1);
    let own = piece(&mut pool, 200, 1000);
    let mut got = Vec::new();
    for number in 0..FRAMES {
        let value = (number % 100) as u8;
        let pieces = [Bytes::from(vec![value; 2000]), own.clone()];
        let mut frame = Frame::new(Bytes::new(), pieces);
        while let Err(error) = sender.send(RECEIVER, frame) {
            assert!(matches!(error, SendError::Full(_)), "{error}");
            frame = error.into_frame();
            got.push(next_frame(&mut receiver));
        }
    }
    while got.len() < FRAMES {
        got.push(next_frame(&mut receiver));
    }
    for (number, frame) in got.iter().enumerate() {
        let bytes: Vec<u8> = frame.payload.iter().flatten().copied().collect();
        assert_eq!(bytes[..2000], vec![(number % 100) as u8; 2000], "frame {number}");
        assert_eq!(bytes[2000..], [200; 1000], "frame {number}");
    }
}

#[test]
fn a_receiver_that_dies_with_payload_in_hand_keeps_its_memory_from_being_written_again() {
    let (mut sender, arena, mut receiver) = pair();
    let mut pool = in_place(&arena);
    sender.send(RECEIVER, Frame::new(Bytes::new(), [piece(&mut pool, 9, 4000)])).unwrap();
    let got = next_frame(&mut receiver);
    drop(receiver);
    assert_eq!(next(&mut sender), Event::PeerDown { peer: RECEIVER, reason: DownReason::Lost });
    for _ in 0..1000 {
        assert_eq!(sender.poll(), None);
    }
    assert!(pool.take().is_none(), "the handle outlives its endpoint");
    assert_eq!(&got.payload[0][..], &[9; 4000]);
    drop(got);
    until("the block is free", || {
        assert_eq!(sender.poll(), None);
        pool.take().is_some()
    });
}

#[test]
fn frames_that_a_dead_receiver_never_took_are_let_go_of() {
    let (mut sender, arena, receiver) = pair();
    let mut pool = in_place(&arena);
    sender.send(RECEIVER, Frame::new(Bytes::new(), [piece(&mut pool, 9, 4000)])).unwrap();
    drop(receiver);
    assert_eq!(next(&mut sender), Event::PeerDown { peer: RECEIVER, reason: DownReason::Lost });
    until("the block is free", || {
        assert_eq!(sender.poll(), None);
        pool.take().is_some()
    });
}

#[test]
fn payload_outlives_its_sender() {
    let (mut sender, arena, mut receiver) = pair();
    let mut pool = in_place(&arena);
    sender.send(RECEIVER, Frame::new(Bytes::new(), [piece(&mut pool, 5, 2000)])).unwrap();
    drop((sender, pool, arena));
    let got = next_frame(&mut receiver);
    assert_eq!(next(&mut receiver), Event::PeerDown { peer: SENDER, reason: DownReason::Lost });
    drop(receiver);
    assert_eq!(&got.payload[0][..], &[5; 2000]);
}

#[test]
fn an_arena_lends_no_more_than_it_has() {
    let arena = Arena::new("sheaf.test", ByteCount(5 * 4096), false).unwrap();
    let mut lender = arena.lender();
    let mut first = lender.allocate(8192).unwrap();
    let mut second = arena.lender().allocate(5000).unwrap();
    assert!(lender.allocate(5000).is_none());
    assert!(lender.allocate(usize::MAX).is_none());
    first.append_fill(1, 8192);
    second.append_fill(2, 5000);
    assert_eq!((first.room(), second.room()), (0, 0));
    assert_eq!(&first.cut()[..], &[1; 8192]);
    assert_eq!(&second.cut()[..], &[2; 5000]);
}

#[test]
fn an_endpoint_asks_for_an_arena_that_is_large_enough() {
    let mut options = options(SENDER, RECEIVER, &super::world::name());
    options.arena = Arena::new("sheaf.test", ByteCount::kib(64), false).unwrap();
    let error = ShmEndpoint::new(options).unwrap_err().to_string();
    assert!(error.contains("65536") || error.contains("64 KiB") || error.contains("arena"), "{error}");
}
