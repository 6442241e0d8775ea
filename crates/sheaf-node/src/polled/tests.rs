use super::*;
use sheaf_buffer::Heap;
use sheaf_filter::{
    ByteCount, EventId, FilterFailure, PollRoom, PollSetup, RunNumber, SourcePlugin, SourcePluginSetup,
};

const MAX_FRAGMENT: usize = 4_096;

/// Two sources with events of growing size, and nonsense among them.
struct Board {
    next: u64,
}

impl SourcePlugin for Board {
    fn open(_: &SourcePluginSetup) -> Result<Self, FilterFailure> {
        Ok(Self { next: 0 })
    }

    fn poll(&mut self, room: &mut PollRoom<'_>) -> Result<PollEnd, FilterFailure> {
        let event = self.next;
        self.next += 1;
        if event == 100 {
            return Ok(PollEnd::Ended);
        }
        if event == 50 {
            return Err(FilterFailure("no answer".into()));
        }
        for source in [0, 1, 9] {
            room.push(SourceId(source), EventId(event), Timestamp(event * 10), &payload(source, event));
        }
        if event == 60 {
            room.push(SourceId(0), EventId(event), Timestamp::ZERO, &[0; MAX_FRAGMENT + 1]);
        }
        Ok(if event.is_multiple_of(7) { PollEnd::After(Nanos(500)) } else { PollEnd::More })
    }
}

fn payload(source: u32, event: u64) -> Vec<u8> {
    vec![(event + u64::from(source)) as u8; (event * 40) as usize]
}

fn open(blocks: usize) -> Vec<Box<dyn Source>> {
    let ids = [SourceId(0), SourceId(1)];
    let setup = PollSetup {
        run: RunNumber(1),
        parameters: String::new(),
        sources: ids.to_vec(),
        max_fragment: ByteCount(MAX_FRAGMENT as u64),
        batch_fragments: 8,
    };
    let library = LibrarySource::of_plugin::<Board>(&setup).expect("it opens");
    sources(library, &ids, MAX_FRAGMENT, || Pool::with_memory(Heap, MAX_FRAGMENT, blocks))
}

#[test]
fn fragments_of_all_sources_come_in_order_with_little_memory_and_nonsense_is_counted() {
    let mut sources = open(2);
    sources.iter_mut().for_each(|source| source.start());
    let mut received = [Vec::new(), Vec::new()];
    let mut ended = [false; 2];
    let mut now = Timestamp(1);
    while ended != [true; 2] {
        for (at, source) in sources.iter_mut().enumerate() {
            if ended[at] {
                continue;
            }
            let mut batch = Batch::default();
            match source.poll_batch(now, 3, &mut batch) {
                BatchEnd::Ended => ended[at] = true,
                BatchEnd::NotBefore(until) => now = now.max(until),
                BatchEnd::More | BatchEnd::Idle | BatchEnd::OutOfMemory => {}
            }
            let fragments: Vec<_> = std::iter::from_fn(|| batch.pop()).collect();
            // Copies: the memory of the source is used again.
            let copies = fragments.iter().rev().map(|it| (it.event.0, it.time, it.payload.to_vec()));
            received[at].extend(copies);
        }
    }
    for (source, fragments) in received.iter().enumerate() {
        let events: Vec<u64> = fragments.iter().map(|(event, ..)| *event).collect();
        assert_eq!(events, (0..100).filter(|event| *event != 50).collect::<Vec<_>>());
        for (event, time, bytes) in fragments {
            assert_eq!(*bytes, payload(source as u32, *event));
            assert_eq!(*time, Timestamp(event * 10));
        }
    }
    let books = sources[0].stats().polled.expect("the first has them");
    let expected = PollBooks {
        polls: 101,
        polls_failed: 1,
        fragments_unknown_source: 99,
        fragments_too_large: 1,
        ..PollBooks::default()
    };
    assert_eq!(books, expected);
    assert_eq!(sources[1].stats().polled, None);
    assert_eq!(sources[0].stats().last_error.as_deref(), Some("no answer"));
}

#[test]
fn a_source_whose_memory_is_full_holds_the_library_back_until_it_is_read() {
    let mut sources = open(1);
    sources.iter_mut().for_each(|source| source.start());
    // Nobody reads source 1.
    let mut now = Timestamp(1);
    let mut of_first = 0;
    loop {
        let mut batch = Batch::default();
        match sources[0].poll_batch(now, 8, &mut batch) {
            BatchEnd::OutOfMemory => break,
            BatchEnd::NotBefore(until) => now = now.max(until),
            _ => of_first += batch.fragments.len(),
        }
    }
    assert!((1..50).contains(&of_first), "{of_first}");
    let polls = |sources: &[Box<dyn Source>]| sources[0].stats().polled.map(|books| books.polls);
    let before = polls(&sources);
    let mut batch = Batch::default();
    assert_eq!(sources[0].poll_batch(now, 8, &mut batch), BatchEnd::OutOfMemory);
    assert_eq!(polls(&sources), before, "it is not polled");
    assert_eq!(sources[1].poll_batch(now, 8, &mut batch), BatchEnd::More);
}

#[test]
fn fragments_that_the_end_of_the_run_finds_are_counted() {
    let mut sources = open(8);
    sources.iter_mut().for_each(|source| source.start());
    let mut batch = Batch::default();
    assert_eq!(sources[0].poll_batch(Timestamp(1), 64, &mut batch), BatchEnd::More);
    sources.iter_mut().for_each(|source| source.stop());
    assert_eq!(sources[1].poll_batch(Timestamp(2), 64, &mut batch), BatchEnd::Ended);
    let books = sources[0].stats().polled.expect("the first has them");
    assert_eq!(books.fragments_after_stop, 1, "that of source 1");
}
