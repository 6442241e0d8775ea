use super::*;
use sheaf_wire::hit::HIT_BYTES;

/// A decoder without the Python package: it answers each fragment with one hit at the fragment's time, in the channel of its event and with
/// the length of the payload. A payload `f` fails; `d` kills the process, once; `h` hangs.
const SCRIPT: &str = r#"
import os, struct, sys, time
sys.stdout.buffer.write(struct.pack("<I", 0)); sys.stdout.buffer.flush()
died = os.path.exists(sys.argv[1])
while count := sys.stdin.buffer.read(4):
    answer = b""
    for _ in range(struct.unpack("<I", count)[0]):
        source, event, at, size = struct.unpack("<IQQI", sys.stdin.buffer.read(24))
        payload = sys.stdin.buffer.read(size)
        if payload == b"d" and not died:
            open(sys.argv[1], "w").close()
            os._exit(1)
        if payload == b"h":
            time.sleep(1_000_000)
        if payload == b"f":
            answer += struct.pack("<II", 1, 9) + b"no frame:"
        else:
            answer += struct.pack("<II", 0, 16) + struct.pack("<QIHH", at, event, size, source)
    sys.stdout.buffer.write(answer); sys.stdout.buffer.flush()
"#;

/// Starts the script. `None`: there is no Python.
fn start(directory: &tempfile::TempDir, time_limit: Duration) -> Option<DecoderProcess> {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return None;
    }
    let died = directory.path().join("died");
    let command = move || {
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT]).arg(&died);
        command
    };
    Some(DecoderProcess::start(Box::new(command), time_limit).unwrap())
}

#[derive(Debug)]
struct Given {
    payloads: VecDeque<&'static [u8]>,
    next: u64,
    accepted: usize,
}

impl Source for Given {
    fn id(&self) -> SourceId {
        SourceId(3)
    }

    fn poll(&mut self, _now: Timestamp) -> SourcePoll {
        let Some(payload) = self.payloads.pop_front() else { return SourcePoll::Ended };
        self.next += 1;
        SourcePoll::Fragment(Fragment {
            event: EventId(self.next),
            source: SourceId(3),
            time: Timestamp(100 * self.next),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: Bytes::from_static(payload),
        })
    }

    fn handle_accepted(&mut self, fragments: usize) {
        self.accepted += fragments;
    }

    fn stop(&mut self) {}

    fn stats(&self) -> SourceStats {
        SourceStats { fragments: self.accepted as u64, ..SourceStats::default() }
    }
}

/// Returns the hits of a source: time, channel, value.
fn hits(source: &mut dyn Source) -> Vec<(u64, u32, u16)> {
    let mut found = Vec::new();
    loop {
        match source.poll(Timestamp::ZERO) {
            SourcePoll::Fragment(fragment) => {
                assert_eq!(fragment.payload.len(), HIT_BYTES);
                read_hits(&fragment.payload, &mut |reading| match reading {
                    Reading::Hit { time, channel, value, .. } => found.push((time, channel, value)),
                    other => panic!("{other:?}"),
                });
            }
            SourcePoll::Ended => return found,
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn given(payloads: &[&'static [u8]]) -> Box<dyn Source> {
    Box::new(Given { payloads: payloads.iter().copied().collect(), next: 0, accepted: 0 })
}

/// Minutes: a machine that does much else makes a test slow, never red.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn fragments_of_several_sources_are_decoded_in_order_and_failures_concern_one() {
    let directory = tempfile::tempdir().unwrap();
    let Some(process) = start(&directory, PATIENCE) else { return };
    let mut sources = [given(&[b"a", b"bb", b"f", b"cccc"]), given(&[b"", b"xyz"])];
    sources = sources.map(|source| process.decode(source));
    assert_eq!(hits(&mut *sources[0]), [(100, 1, 1), (200, 2, 2), (400, 4, 4)]);
    assert_eq!(hits(&mut *sources[1]), [(100, 1, 0), (200, 2, 3)]);
    let stats = sources[0].stats();
    assert_eq!((stats.undecoded, stats.fragments), (1, 4), "all were accepted");
    assert!(stats.last_error.unwrap().ends_with("no frame:"));
}

#[test]
fn a_process_that_dies_is_started_again_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let Some(process) = start(&directory, PATIENCE) else { return };
    let mut source = process.decode(given(&[b"a", b"d", b"b"]));
    assert_eq!(hits(&mut *source), [(100, 1, 1), (200, 2, 1), (300, 3, 1)]);
    assert_eq!(source.stats().undecoded, 0);
}

#[test]
fn a_process_that_hangs_is_ended_and_its_request_is_not_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let Some(process) = start(&directory, Duration::from_millis(300)) else { return };
    let mut source = process.decode(given(&[b"h"]));
    assert_eq!(hits(&mut *source), []);
    let stats = source.stats();
    assert_eq!(stats.undecoded, 1);
    assert!(stats.last_error.unwrap().contains("no answer within 0.3 s (`source.decoder.time_limit_s`)"));
}

#[test]
fn the_waiting_decoder_gives_the_same_hits() {
    let directory = tempfile::tempdir().unwrap();
    let Some(process) = start(&directory, PATIENCE) else { return };
    let mut decoder = process.waiting_decoder(64);
    let mut read = |bytes: &[u8]| {
        let mut found = Vec::new();
        let packet = Packet { source: SourceId(3), event: EventId(1), time: Timestamp(500), bytes };
        decoder.read(&packet, &mut |reading| found.push(reading)).map(|()| found)
    };
    assert_eq!(read(b"ab").unwrap(), [Reading::Hit { time: 500, channel: 1, value: 2, extra: 3 }]);
    assert_eq!(read(b"f").unwrap_err().to_string(), "no frame:");
}

#[test]
fn a_process_that_cannot_load_its_decoder_is_an_error_before_the_run() {
    let error = DecoderProcess::start(Box::new(|| Command::new("true")), PATIENCE).unwrap_err().to_string();
    assert_eq!(error, "the process ended while it loaded the decoder");
}
