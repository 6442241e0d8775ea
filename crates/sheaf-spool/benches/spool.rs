//! Speed of a hit spool: `cargo bench -p sheaf-spool -- DIRECTORY [GB]`.
//!
//! Hits of 16 sources, in slices of 64 hits (1 KiB), are recorded into a directory of the disk that is measured: alone, while two
//! requesters ask for 1,250 windows per second together, and while they ask without a pause. Plain writes of as many bytes in calls of 256 KiB, synchronised as often, come in turn.
//! Then windows are asked for at random places: of files in memory, and after the system has dropped these from its cache. Figures of writing are
//! medians of three runs. A GB is 10^9 bytes.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop where it cannot go on")]

use sheaf_spool::{Address, Client, Door, DoorOptions, Spool, SpoolOptions};
use sheaf_wire::HitInterval;
use sheaf_wire::spool_link::WindowRequest;
use sheaf_wire::{ByteCount, Hit, RunNumber, SourceId, Timestamp};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SOURCES: u32 = 16;
const HITS_OF_SLICE: u64 = 64;
/// A slice of 1 ms.
const SLICE_PS: u64 = 1_000_000_000;
const ROUND_BYTES: u64 = SOURCES as u64 * HITS_OF_SLICE * 16;
const SEGMENT: u64 = 256 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
const RUNS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let Some(directory) = arguments.first().map(PathBuf::from) else {
        println!("no directory is given: nothing is measured");
        return;
    };
    let gigabytes: u64 = arguments.get(1).map_or(2, |text| text.parse().expect("a number of GB"));
    let place = directory.join(format!("sheaf-bench-spool-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    let rounds = gigabytes * 1_000_000_000 / ROUND_BYTES;
    let cases = [
        ("plain writes", None),
        ("spool", Some(None)),
        ("spool, 1,250 windows/s", Some(Some(Duration::from_micros(1_600)))),
        ("spool, windows without a pause", Some(Some(Duration::ZERO))),
    ];
    let mut runs = [const { Vec::new() }; 4];
    for run in 0..RUNS {
        for ((_, spool), measured) in cases.iter().zip(&mut runs) {
            measured.push(match spool {
                None => plain(&place, rounds * ROUND_BYTES),
                Some(period) => record(&place, rounds, run, *period),
            });
        }
    }
    let of = |runs: &[Measured], figure: fn(&Measured) -> f64| median(runs.iter().map(figure).collect());
    let plain = of(&runs[0], |run| run.bytes_per_second);
    for ((name, _), runs) in cases.iter().zip(&runs) {
        let rate = of(runs, |run| run.bytes_per_second);
        println!(
            "{name:<40}{:>8.0} MB/s, {:.0} % of plain, {:.2} s of processor time/GB, {:.0} windows/s",
            rate / 1e6,
            100.0 * rate / plain,
            of(runs, |run| run.cpu_seconds_per_gigabyte),
            of(runs, |run| run.windows_per_second)
        );
    }
    let last = place.join("spool");
    windows(&last, rounds);
    std::fs::remove_dir_all(&place).unwrap();
}

/// Figures of one run.
struct Measured {
    bytes_per_second: f64,
    cpu_seconds_per_gigabyte: f64,
    windows_per_second: f64,
}

impl Measured {
    fn new(bytes: u64, (start, cpu): (Instant, f64), windows: u64) -> Self {
        let (bytes, seconds) = (bytes as f64, start.elapsed().as_secs_f64());
        Self {
            bytes_per_second: bytes / seconds,
            cpu_seconds_per_gigabyte: (cpu_seconds() - cpu) / (bytes / 1e9),
            windows_per_second: windows as f64 / seconds,
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Writes without a look at the bytes.
fn plain(place: &Path, bytes: u64) -> Measured {
    let buffer = vec![7_u8; 256 << 10];
    let start = (Instant::now(), cpu_seconds());
    let mut left = bytes;
    for number in 0.. {
        let mut file = File::create(place.join(format!("plain-{number}"))).unwrap();
        let mut room = SEGMENT.min(left);
        left -= room;
        while room > 0 {
            let now = room.min(buffer.len() as u64);
            file.write_all(&buffer[..now as usize]).unwrap();
            room -= now;
        }
        file.sync_data().unwrap();
        if left == 0 {
            break;
        }
    }
    let measured = Measured::new(bytes, start, 0);
    for number in 0..=bytes / SEGMENT {
        let _ = std::fs::remove_file(place.join(format!("plain-{number}")));
    }
    measured
}

/// A recording, while two requesters ask for a window in each period.
fn record(place: &Path, rounds: u64, run: usize, period: Option<Duration>) -> Measured {
    let directory = place.join("spool");
    let _ = std::fs::remove_dir_all(&directory);
    let start_of_recording = Timestamp(1 + run as u64);
    let mut options =
        SpoolOptions::new(&directory, RunNumber(1), start_of_recording, ByteCount::mib(1 << 20));
    options.segment = ByteCount(SEGMENT);
    let (mut spool, _) = Spool::open(options).unwrap();
    let socket = directory.join("spool.sock");
    let door = Door::open(
        DoorOptions { socket: Some(socket.clone()), ..DoorOptions::default() },
        spool.archive().clone(),
    )
    .unwrap();
    let (is_over, reached, windows) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let payloads: Vec<Vec<u8>> =
        (0..SOURCES).map(|source| vec![source as u8; (HITS_OF_SLICE * 16) as usize]).collect();
    let start = (Instant::now(), cpu_seconds());
    let measured = std::thread::scope(|scope| {
        for seed in 0..if period.is_some() { 2 } else { 0 } {
            let (socket, is_over, reached, windows) = (&socket, &is_over, &reached, &windows);
            scope.spawn(move || {
                let mut client = Client::connect(&Address::Unix(socket.clone()), None, PATIENCE).unwrap();
                let mut random = Random(seed + 1);
                while !is_over.load(Ordering::Relaxed) {
                    let most = reached.load(Ordering::Relaxed).max(1);
                    client.window(&request(random.below(most))).unwrap();
                    let done = windows.fetch_add(1, Ordering::Relaxed) + 1;
                    let due = period.unwrap_or_default() * (done / 2) as u32;
                    std::thread::sleep(due.saturating_sub(start.0.elapsed()));
                }
            });
        }
        let mut payloads = payloads;
        for round in 0..rounds {
            for (source, payload) in payloads.iter_mut().enumerate() {
                fill(payload, round);
                let slice = HitInterval { from_ps: round * SLICE_PS, until_ps: (round + 1) * SLICE_PS };
                spool.take(SourceId(source as u32), slice, payload, Timestamp(1)).unwrap();
            }
            reached.store(round, Ordering::Relaxed);
        }
        let books = spool.finish(Timestamp(2));
        let measured = Measured::new(rounds * ROUND_BYTES, start, windows.load(Ordering::Relaxed));
        is_over.store(true, Ordering::Relaxed);
        assert!(books.is_balanced() && books.lost() == 0);
        measured
    });
    let _ = door.close();
    measured
}

/// Sets the times of a slice of hits.
fn fill(payload: &mut [u8], round: u64) {
    for (number, hit) in payload.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let time_ps = round * SLICE_PS + number as u64 * (SLICE_PS / HITS_OF_SLICE);
        *hit = Hit { time_ps, channel: number as u32, value: 7, extra: 0 }.to_bytes();
    }
}

/// A window of 1 ms that begins within a slice.
fn request(round: u64) -> WindowRequest {
    let from_ps = round * SLICE_PS + SLICE_PS / 3;
    let window = HitInterval { from_ps, until_ps: from_ps + SLICE_PS };
    WindowRequest { number: 0, window, session: None, sources: Vec::new() }
}

/// Times of windows at random places of a closed spool.
fn windows(directory: &Path, rounds: u64) {
    let (archive, _) = sheaf_spool::Archive::open(directory).unwrap();
    let socket = directory.join("spool.sock");
    let options = DoorOptions { socket: Some(socket.clone()), ..DoorOptions::default() };
    let door = Door::open(options, archive).unwrap();
    let address = Address::Unix(socket);
    let mut client = Client::connect(&address, None, PATIENCE).unwrap();
    let mut random = Random(7);
    let mut time = |client: &mut Client, is_cold: bool| {
        let mut times: Vec<f64> = (0..1_000)
            .map(|_| {
                if is_cold {
                    drop_caches(directory);
                }
                let request = request(random.below(rounds - 2));
                let start = Instant::now();
                let (window, _) = client.window(&request).unwrap();
                assert_eq!(window.hit_count(), u64::from(SOURCES) * HITS_OF_SLICE);
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let mut show = |name: &str, is_cold: bool| {
        let times = time(&mut client, is_cold);
        println!(
            "{name:<40}{:>8.3} ms median, {:.3} ms 99 %, {:.3} ms at most",
            times[times.len() / 2],
            times[times.len() * 99 / 100],
            times[times.len() - 1]
        );
    };
    show("a window, files in memory", false);
    let span = Duration::from_secs(3);
    for (name, sources) in [("all 16 sources", Vec::new()), ("one source", vec![3..=3])] {
        for clients in [1, 2] {
            let count = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for seed in 0..clients {
                    let (address, count, sources) = (&address, &count, &sources);
                    scope.spawn(move || {
                        let mut client = Client::connect(address, None, PATIENCE).unwrap();
                        let (start, mut random) = (Instant::now(), Random(seed + 11));
                        while start.elapsed() < span {
                            let request = WindowRequest {
                                sources: sources.clone(),
                                ..request(random.below(rounds - 2))
                            };
                            client.window(&request).unwrap();
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            let rate = count.into_inner() as f64 / span.as_secs_f64();
            println!("{:<40}{rate:>8.0} windows/s", format!("windows of {name}, {clients} requesters"));
        }
    }
    show("a window, from disk", true);
    let _ = door.close();
}

/// Makes the system forget the content of the segments, which are on the disk.
fn drop_caches(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "spool") {
            let file = File::open(path).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }
}

/// Processor time of this process so far.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
