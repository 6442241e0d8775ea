use super::*;
use crate::described::{ByteOrder, Field, Width};
use sheaf_buffer::Heap;
use sheaf_wire::{EventId, ExactNanos, TimeUnit};

const SOURCES: [SourceId; 2] = [SourceId(4), SourceId(9)];

fn limits() -> Limits {
    Limits {
        waiting_packets: 8,
        wait: Nanos::from_millis(10),
        open_fragments: 8,
        max_fragment: 2048,
        tick: ExactNanos::from_nanos(1),
        unit: TimeUnit::NANOSECOND,
    }
}

/// Event, source, payload.
fn description() -> Description {
    let field = |offset, bits| Field::new(offset, Width::of_bits(bits).expect("a width"), ByteOrder::Big);
    Description { source: Some(field(4, 8)), header_bytes: 5, ..Description::of_event(field(0, 32)) }
}

fn packet(event: u32, source: u32, payload: &[u8]) -> Vec<u8> {
    [&event.to_be_bytes()[..], &[source as u8], payload].concat()
}

fn listen(blocks: usize) -> (Vec<StreamSource<Heap>>, UdpSocket) {
    let listen =
        Listen { address: "127.0.0.1:0".parse().expect("an address"), receive_buffer_bytes: Some(1 << 20) };
    let sources = SOURCES.iter().map(|id| (*id, Pool::new(4096, blocks))).collect();
    let (sources, address) = StreamSource::open(PacketPath::Udp(listen), description(), limits(), sources)
        .expect("a port is free");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    sender.connect(address.expect("it is bound")).expect("loopback");
    (sources, sender)
}

#[test]
fn fragments_of_all_sources_of_a_socket_come_out_byte_for_byte() {
    let (mut sources, sender) = listen(64);
    let payload = |event: u32, source: u32| vec![(event * 7 + source) as u8; (event * 31 % 1400) as usize];
    let mut next = [0; SOURCES.len()];
    for event in 0..2_000 {
        for source in SOURCES {
            sender.send(&packet(event, source.0, &payload(event, source.0))).expect("loopback");
        }
        // The sender is not ahead of the receiver, so that no buffer overflows.
        while next.iter().any(|next| *next <= event) {
            for (source, next) in sources.iter_mut().zip(&mut next) {
                if let SourcePoll::Fragment(fragment) = source.poll(Timestamp(u64::from(event))) {
                    assert_eq!(fragment.event, EventId(u64::from(*next)));
                    assert_eq!(fragment.payload, payload(*next, fragment.source.0));
                    assert_eq!(fragment.time, Timestamp(u64::from(event)), "its arrival");
                    *next += 1;
                }
            }
        }
    }
    sources[0].stop();
    assert_eq!(sources[1].poll(Timestamp(0)), SourcePoll::Ended, "they stop together");
    let books = sources.iter().map(|source| source.stats().stream.expect("a stream"));
    assert_eq!(books.map(|books| books.packets).sum::<u64>(), 4_000);
}

#[test]
fn fragments_without_memory_and_of_unknown_sources_are_counted() {
    let (mut sources, sender) = listen(2);
    let mut batch = Batch::default();
    for event in 0..8 {
        sender.send(&packet(event, 4, &[1; 2_000])).expect("loopback");
    }
    sender.send(&packet(0, 9, b"other")).expect("loopback");
    sender.send(&packet(0, 5, b"nobody's")).expect("loopback");
    sender.send(b"cut").expect("loopback");
    while sources[1].poll_batch(Timestamp(0), 10, &mut batch) != BatchEnd::More {}
    assert_eq!(batch.fragments.len(), 1, "its memory is its own");
    // All packets have arrived when the last has.
    while sources[0].stats().stream.expect("a stream").packets_damaged == [0; 4] {
        batch = Batch::default();
        sources[1].poll_batch(Timestamp(0), 10, &mut batch);
    }
    let first = sources[0].stats().stream.expect("a stream");
    assert_eq!((first.fragments_no_memory, first.fragments_unknown_source), (4, 1), "four have room");
    assert_eq!(first.packets_damaged, [0, 1, 0, 0]);
    sources[0].stop();
    assert_eq!(sources[0].stats().stream.expect("a stream").fragments_after_stop, 4);
}
