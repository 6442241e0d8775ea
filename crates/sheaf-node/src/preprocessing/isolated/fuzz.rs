//! The body of the fuzz target `preprocessor`: arbitrary bytes in place of the messages of both sides.

use super::{KEPT, NEW, read_answer, serve, write_answer, write_failure, write_request};
use sheaf_filter::{FilterFailure, Preprocessor, Processed, RawFragment};
use sheaf_wire::{EventId, SourceId, Timestamp};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// No fragment of an input is larger, and no room.
const LARGEST: usize = 4096;

/// Reads `bytes` as the answer of a process, with the size of the room in the first byte; then reads the same bytes as
/// requests to a process, and its answers as the readout unit does.
///
/// # Panics
/// If one of the two sides violates its contract.
pub fn fuzz_preprocessor(bytes: &[u8]) {
    let Some((room, said)) = bytes.split_first() else { return };
    answers(said, &mut vec![0; usize::from(*room)]);
    requests(said);
}

/// Every answer that is understood is written as it was read, as far as there is only one way to write it.
fn answers(mut said: &[u8], room: &mut [u8]) {
    while !said.is_empty() {
        let before = said;
        let Ok(answer) = read_answer(&mut said, room) else { return };
        let read = &before[..before.len() - said.len()];
        let mut again = Vec::new();
        let written = match answer {
            Ok(Processed::Kept) => write_answer(&mut again, KEPT, &[]),
            Ok(Processed::Written(bytes)) => write_answer(&mut again, NEW, &room[..bytes]),
            // The data may not have been text and were converted.
            Err(failure) if failure.0.contains(char::REPLACEMENT_CHARACTER) => continue,
            Err(failure) => write_failure(&mut again, &failure.0),
        };
        written.expect("memory takes everything");
        assert_eq!(again, read, "an answer is written as it was read");
    }
}

/// Answers to arbitrary requests are valid: that the process is ready, then an answer for each fragment.
fn requests(said: &[u8]) {
    let processed = Arc::new(AtomicUsize::new(0));
    let doubled = Doubled { processed: processed.clone() };
    let mut talk = Talk { asked: said, answered: Vec::new() };
    // Fails if the data are not a fragment. The answers up to then are checked.
    let _ = serve(&mut talk, LARGEST, || Ok(Box::new(doubled)));
    let (mut answered, mut room) = (talk.answered.as_slice(), vec![0; LARGEST]);
    let mut answers = 0;
    while !answered.is_empty() {
        let answer = read_answer(&mut answered, &mut room);
        assert!(answer.is_ok(), "answer {answers} is none: {answer:?}");
        answers += 1;
    }
    assert_eq!(answers, 1 + processed.load(Ordering::Relaxed), "every fragment is answered once");
}

/// Valid inputs: answers of every kind, and requests.
///
/// # Panics
/// Never: memory takes everything that is written.
#[must_use]
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let named = |name: &str, write: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
        let mut bytes = vec![64];
        write(&mut bytes).expect("memory takes everything");
        (name.to_owned(), bytes)
    };
    let ask = |payload: &'static [u8], room: usize| {
        move |to: &mut Vec<u8>| {
            let raw = RawFragment { event: EventId(7), source: SourceId(3), time: Timestamp(9), payload };
            write_request(to, &raw, room)
        }
    };
    vec![
        named("kept", &|to| write_answer(to, KEPT, &[])),
        named("new", &|to| write_answer(to, NEW, b"what was made")),
        named("failed", &|to| write_failure(to, "no threshold")),
        named("several-answers", &|to| {
            write_answer(to, NEW, &[1; 64])?;
            write_answer(to, KEPT, &[])?;
            write_failure(to, "no pedestal")?;
            write_answer(to, NEW, &[])
        }),
        named("asked", &ask(b"samples", 14)),
        named("asked-without-room", &ask(b"samples", 7)),
        named("asked-for-too-much", &ask(b"samples", LARGEST + 1)),
        named("several-requests", &|to| {
            ask(b"", 0)(to)?;
            ask(b"too much", 15)(to)?;
            ask(b"of another", 20)(to)
        }),
    ]
}

/// Writes the payload twice. Keeps an empty one. Without enough room, it fails or falsely reports success.
struct Doubled {
    processed: Arc<AtomicUsize>,
}

impl Preprocessor for Doubled {
    fn process(&mut self, raw: &RawFragment<'_>, room: &mut [u8]) -> Result<Processed, FilterFailure> {
        let bytes = raw.payload.len();
        assert!(bytes.max(room.len()) <= LARGEST, "{bytes} bytes, room for {}", room.len());
        self.processed.fetch_add(1, Ordering::Relaxed);
        if bytes == 0 {
            return Ok(Processed::Kept);
        }
        if let Some(room) = room.get_mut(..2 * bytes) {
            let (first, second) = room.split_at_mut(bytes);
            first.copy_from_slice(raw.payload);
            second.copy_from_slice(raw.payload);
        } else if room.len().is_multiple_of(2) {
            return Err(FilterFailure(format!("{bytes} bytes, and room for {}", room.len())));
        }
        Ok(Processed::Written(2 * bytes))
    }
}

/// A stream whose other side has asked everything already.
struct Talk<'a> {
    asked: &'a [u8],
    answered: Vec<u8>,
}

impl Read for Talk<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.asked.read(to)
    }
}

impl Write for Talk<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answered.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
