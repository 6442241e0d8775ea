//! The other side is a thread of the test, which does not know whose process it is in.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Removes zeros; fails or keeps the fragment as its first byte instructs.
struct WithoutZeros;

impl Preprocessor for WithoutZeros {
    fn process(&mut self, raw: &RawFragment<'_>, room: &mut [u8]) -> Result<Processed, FilterFailure> {
        match raw.payload.first() {
            Some(b'k') => Ok(Processed::Kept),
            Some(b'f') => Err(FilterFailure(format!("event {} of source {}", raw.event, raw.source))),
            Some(b'l') => Ok(Processed::Written(room.len() + 1)),
            Some(b'g') => {
                room.fill(b'!');
                Ok(Processed::Written(room.len()))
            }
            _ => {
                let kept = raw.payload.iter().filter(|byte| **byte != 0);
                Ok(Processed::Written(room.iter_mut().zip(kept).map(|(to, from)| *to = *from).count()))
            }
        }
    }
}

/// Starts `side` as the other side, and counts how often.
fn launch(started: &Arc<AtomicU64>, side: impl Fn(UnixStream) + Clone + Send + 'static) -> LaunchWorker {
    let started = started.clone();
    Box::new(move || {
        started.fetch_add(1, Ordering::Relaxed);
        let (stream, other) = UnixStream::pair()?;
        let side = side.clone();
        std::thread::spawn(move || side(other));
        Ok(WorkerProcess { stream, end: Box::new(|| {}) })
    })
}

fn good(stream: UnixStream) {
    // The end of the test may come first.
    let _ = serve(stream, FRAGMENT_BYTES, || Ok(Box::new(WithoutZeros)));
}

fn process(isolated: &mut Isolated, payload: &[u8]) -> Result<Option<Vec<u8>>, String> {
    process_with_room(isolated, payload, payload.len())
}

fn process_with_room(
    isolated: &mut Isolated,
    payload: &[u8],
    room: usize,
) -> Result<Option<Vec<u8>>, String> {
    let raw = RawFragment { event: EventId(3), source: SourceId(u32::MAX), time: Timestamp(9), payload };
    let mut room = vec![0xAA; room];
    match isolated.process(&raw, &mut room) {
        Ok(Processed::Kept) => Ok(None),
        Ok(Processed::Written(bytes)) => Ok(Some(room[..bytes].to_vec())),
        Err(failure) => Err(failure.0),
    }
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(32))]
    #[test]
    fn what_is_made_elsewhere_is_what_would_be_made_here(
        payloads in prop::collection::vec(
            prop::collection::vec(
                prop_oneof![Just(0_u8), Just(1), Just(b'k'), Just(b'f'), Just(b'l'), Just(b'g')],
                0..50,
            ),
            0..20,
        ),
        extra in 0_usize..20,
    ) {
        let started = Arc::default();
        let mut isolated = Isolated::start(launch(&started, good), Some(Nanos::from_secs(30))).unwrap();
        for payload in payloads {
            let expected = match payload.first() {
                Some(b'k') => Ok(None),
                Some(b'f') => Err(format!("event 3 of source {}", u32::MAX)),
                Some(b'l') => {
                    let (raw, room) = (payload.len(), payload.len() + extra);
                    Err(format!("the result has {} bytes for a fragment of {raw}; at most {room} fit", room + 1))
                }
                Some(b'g') => Ok(Some(vec![b'!'; payload.len() + extra])),
                _ => Ok(Some(payload.iter().copied().filter(|byte| *byte != 0).collect())),
            };
            prop_assert_eq!(process_with_room(&mut isolated, &payload, payload.len() + extra), expected);
        }
        prop_assert_eq!((started.load(Ordering::Relaxed), isolated.restarts()), (1, 0));
    }

    #[test]
    fn whatever_an_answer_is_it_is_read_to_its_end_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        status in 0_u32..4,
        room in 0_usize..20,
    ) {
        let mut answer = status.to_le_bytes().to_vec();
        answer.extend(&bytes);
        let mut rest = &answer[..];
        let mut room = vec![0; room];
        if let Ok(Ok(Processed::Written(written))) = read_answer(&mut rest, &mut room) {
            prop_assert!(written <= room.len());
            prop_assert_eq!(&room[..written], &bytes[4..4 + written]);
        }
    }
}

type Side = fn(UnixStream);

/// Runs a side that becomes ready and handles its first request with `then`.
fn bad(mut stream: UnixStream, then: impl FnOnce(&mut UnixStream)) {
    write_answer(&mut stream, NEW, &[]).unwrap();
    let _ = stream.read(&mut [0; REQUEST_BYTES]);
    then(&mut stream);
}

/// Reads until the other end is closed.
fn until_it_is_closed(stream: &mut UnixStream) {
    while stream.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
}

#[test]
fn another_process_is_started_when_one_dies_hangs_or_says_nonsense() {
    let dies = |stream: UnixStream| bad(stream, |_| {});
    let hangs = |stream: UnixStream| bad(stream, until_it_is_closed);
    // Closing the stream with unread data discards what was sent: the other side would see a dead process.
    let nonsense = |stream: UnixStream| {
        bad(stream, |stream| {
            stream.write_all(&[9; 64]).unwrap();
            until_it_is_closed(stream);
        });
    };
    let sides: [(Side, &str); 3] = [
        (dies, "it has died"),
        (hangs, "it did not answer in time"),
        (nonsense, "it sent an invalid answer"),
    ];
    for (side, text) in sides {
        let started = Arc::new(AtomicU64::new(0));
        let counted = started.clone();
        let first_is_bad = move |stream: UnixStream| match counted.load(Ordering::Relaxed) {
            1 => side(stream),
            _ => good(stream),
        };
        let limit = Some(Nanos::from_millis(200));
        let mut isolated = Isolated::start(launch(&started, first_is_bad), limit).unwrap();
        let failure = process(&mut isolated, &[1, 0]).unwrap_err();
        assert!(failure.contains(text), "{failure}");
        // A pause keeps a library that always dies from starting processes all the time.
        let mut made = process(&mut isolated, &[1, 0]);
        for _ in 0..10_000 {
            if made.is_ok() {
                break;
            }
            assert!(made.unwrap_err().contains("another is started soon"));
            std::thread::sleep(Duration::from_millis(1));
            made = process(&mut isolated, &[1, 0]);
        }
        assert_eq!(made, Ok(Some(vec![1])));
        assert_eq!((started.load(Ordering::Relaxed), isolated.restarts()), (2, 1));
    }
}

#[test]
fn a_preprocessor_that_cannot_be_made_says_why() {
    let refuses = |stream: UnixStream| {
        serve(stream, FRAGMENT_BYTES, || Err(FilterFailure::new("no threshold"))).unwrap()
    };
    let started = Arc::default();
    let error = Isolated::start(launch(&started, refuses), None).err().unwrap();
    assert_eq!(error.to_string(), "no threshold");
    let error = Isolated::start(launch(&started, drop), None).err().unwrap();
    assert_eq!(error.to_string(), "its process did not become ready: it has died");
    let absent: LaunchWorker = Box::new(|| Err(io::Error::other("no such program")));
    let error = Isolated::start(absent, None).err().unwrap();
    assert_eq!(error.to_string(), "cannot start its process: no such program");
}
