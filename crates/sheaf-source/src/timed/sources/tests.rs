mod captures;
mod real_data;

use super::*;
use crate::timed::Vmm3a;
use crate::timed::testing::vmm3a_packet;
use sheaf_time::Picos;
use sheaf_wire::{ClockDrift, ExactNanos};

fn config(card: u32) -> FeedConfig {
    FeedConfig {
        card: SourceId(card),
        tick: ExactNanos::from_nanos(1),
        drift: ClockDrift::ZERO,
        offset: ExactNanos::ZERO,
        bits: None,
        pulses: None,
        times: crate::timed::HitTimes::Counter,
        tolerance: Picos::ZERO,
        held_hits: 1000,
        slices: SliceConfig {
            length: Picos(1_000_000),
            before: Picos::ZERO,
            after: Picos::ZERO,
            max_items: 64,
            max_empty: 10,
        },
    }
}

fn decoder() -> Result<Box<dyn Decoder>, DecodeFailure> {
    Ok(Box::new(Vmm3a::new()))
}

/// A packet with a time marker, and a hit at the same time.
fn packet(card: u8, number: u32, time: u64) -> Vec<u8> {
    vmm3a_packet(card, number, time, &[0])
}

/// Polls until the source gives a fragment; live packets may take a moment to come.
fn fragment(source: &mut UdpSource<sheaf_buffer::Heap>) -> Fragment<Bytes> {
    for _ in 0..10_000 {
        match source.poll(Timestamp::ZERO) {
            SourcePoll::Fragment(fragment) => return fragment,
            _ => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    }
    panic!("no fragment: {:?}", source.stats());
}

#[test]
fn cards_that_share_a_socket_each_get_their_own_packets() {
    let address = "127.0.0.1:0".parse().unwrap();
    let cards = [1, 2].map(|card| (config(card), Pool::new(4096, 4)));
    let (mut sources, bound) = UdpSource::listen(address, &decoder, cards.into()).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(b"no packet of such a card", bound).unwrap();
    for (card, number, time) in [(1, 7, 5_000), (2, 9, 5_100), (3, 1, 5_000), (2, 10, 6_000), (1, 9, 6_100)] {
        sender.send_to(&packet(card, number, time), bound).unwrap();
    }
    let first = fragment(&mut sources[0]);
    assert_eq!((first.event, first.source, first.time), (EventId(5), SourceId(1), Timestamp(5_000)));
    let hits: Vec<_> = sheaf_wire::hit::hits(&first.payload).unwrap().map(|hit| hit.time_ps).collect();
    assert_eq!(hits, [5_000_000]);
    assert_eq!(fragment(&mut sources[1]).source, SourceId(2));
    let books = [0, 1].map(|place: usize| sources[place].stats().timed.unwrap());
    assert_eq!((books[0].packets, books[0].packets_lost), (2, 1));
    assert_eq!(books.map(|books| books.packets_unreadable).iter().sum::<u64>(), 1, "counted once");
    assert_eq!(books.map(|books| books.packets_of_others).iter().sum::<u64>(), 1, "of card 3");
    sources[0].stop();
    assert_eq!(sources[0].poll(Timestamp::ZERO), SourcePoll::Ended);
}

#[test]
fn a_slice_that_finds_no_memory_is_kept_until_it_does() {
    let pool = Pool::new(1024, 1);
    let (mut sources, bound) =
        UdpSource::listen("127.0.0.1:0".parse().unwrap(), &decoder, vec![(config(1), pool)]).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut held = vec![];
    let mut number = 0;
    while sources[0].stats().out_of_memory == 0 {
        sender.send_to(&packet(1, number, 1_000 * u64::from(number)), bound).unwrap();
        number += 1;
        for _ in 0..20 {
            if let SourcePoll::Fragment(fragment) = sources[0].poll(Timestamp::ZERO) {
                held.push(fragment.event);
                // The payload is kept, too: the block stays in use.
                std::mem::forget(fragment.payload);
            }
        }
    }
    assert_eq!(sources[0].poll(Timestamp::ZERO), SourcePoll::OutOfMemory);
    let expected: Vec<_> = (0..held.len() as u64).map(EventId).collect();
    assert_eq!(held, expected);
    let books = sources[0].stats().timed.unwrap();
    assert!(books.is_balanced(), "{books:?}");
    assert_eq!(books.hits_in_slices, held.len() as u64, "the slice without memory waits");
}

#[test]
fn a_slice_must_fit_into_a_block() {
    let error =
        UdpSource::listen("127.0.0.1:0".parse().unwrap(), &decoder, vec![(config(1), Pool::new(1023, 4))]);
    assert!(matches!(error, Err(TimedSourceError::Block { items: 64, block_bytes: 1023 })));
}
