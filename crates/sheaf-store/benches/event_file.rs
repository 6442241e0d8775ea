//! How fast events of 4 fragments of 2 kB go to a file and come back, against plain writes of as many bytes, and against
//! `dd` with the same flush policy.
//!
//! `cargo bench -p sheaf-store --bench event_file [-- DIRECTORY...]`; without directories, shared memory and the
//! directory for temporary files. Each figure is the median of 5 passes of 256 MB; no pass but those that say so waits for the disk. Beside
//! the rate by the clock stands the rate by the processor time of this thread, which other programs disturb less.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use bytes::Bytes;
use sheaf_store::event_file::{EventFileReader, EventFileWriter, FlushPolicy, WriterOptions};
use sheaf_wire::checksum::crc32c;
use sheaf_wire::{
    Event, EventId, Fragment, Nanos, NodeId, RunNumber, SessionId, SourceId, Timestamp, TriggerType, Verdict,
};
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FRAGMENTS: usize = 4;
const FRAGMENT_BYTES: usize = 2_000;
const EVENTS: usize = 32_000;
/// The payload of this many events is written over and over: as a builder's, it was in the caches a moment ago.
const BATCH: usize = 64;
const PASSES: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let mut directories: Vec<PathBuf> = arguments.map(Into::into).collect();
    if directories.is_empty() {
        directories = vec![PathBuf::from("/dev/shm"), std::env::temp_dir()];
        directories.retain(|path| path.is_dir());
    }
    println!("{EVENTS} events of {FRAGMENTS} x {FRAGMENT_BYTES} B, median of {PASSES}");
    for directory in directories {
        let scratch = directory.join(format!("sheaf-bench-{}", std::process::id()));
        std::fs::create_dir_all(&scratch)?;
        println!("{}", directory.display());
        let result = measure(&scratch);
        std::fs::remove_dir_all(&scratch)?;
        result?;
    }
    Ok(())
}

fn measure(scratch: &Path) -> Result<(), Box<dyn Error>> {
    let with_checksums = events(true);
    let without_checksums = events(false);
    report("plain write, 256 KiB a call", || plain(scratch))?;
    report("event file, checksums given", || write(scratch, &with_checksums))?;
    report("event file, checksums computed", || write(scratch, &without_checksums))?;
    let path = written(scratch, &with_checksums)?;
    report("read, checksums compared", || read(&path, true))?;
    report("read, checksums not compared", || read(&path, false))?;
    std::fs::remove_file(path)?;
    beside_dd(scratch, &with_checksums)
}

/// So many events are written beside `dd`, which waits for the disk, too.
const EVENTS_BESIDE_DD: usize = 8_000;

/// When each of the two waits for the disk.
#[derive(Clone, Copy)]
enum Wait {
    Never,
    AtTheEnd,
    /// After each batch of events, and each block of as many bytes.
    EachBatch,
}

/// Our writer and `dd` in turn, with the same flush policy, on the same disk.
fn beside_dd(scratch: &Path, events: &[Event<Bytes>]) -> Result<(), Box<dyn Error>> {
    if Command::new("dd").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("  left out: there is no dd on this machine");
        return Ok(());
    }
    for (name, wait) in [
        ("no wait for the disk", Wait::Never),
        ("fsync at the end", Wait::AtTheEnd),
        ("sync after each 512 kB", Wait::EachBatch),
    ] {
        let (mut ours, mut dds) = (Vec::new(), Vec::new());
        for _ in 0..PASSES {
            ours.push(store(scratch, events, wait)?);
            dds.push(dd(scratch, wait)?);
        }
        let (ours, dds) = (median(ours), median(dds));
        println!("  {name:32} {ours:6.0} MB/s, dd {dds:6.0} MB/s: {:3.0} %", 100.0 * ours / dds);
    }
    Ok(())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Megabytes of payload a second of our writer, until the last call has returned.
fn store(scratch: &Path, events: &[Event<Bytes>], wait: Wait) -> Result<f64, Box<dyn Error>> {
    let mut options = WriterOptions::new(RunNumber(1), NodeId::builder(0), SessionId(1), Timestamp(0));
    options.flush = match wait {
        Wait::Never => FlushPolicy::EachBatch,
        Wait::AtTheEnd => FlushPolicy::SyncEvery(Nanos::MAX),
        Wait::EachBatch => FlushPolicy::SyncEvery(Nanos::ZERO),
    };
    let start = Instant::now();
    let mut writer = EventFileWriter::create(scratch, options)?;
    for _ in 0..EVENTS_BESIDE_DD / BATCH {
        for event in events {
            writer.write(event, &Verdict::accept())?;
        }
        writer.end_batch(Timestamp(1))?;
    }
    writer.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_file(writer.path())?;
    Ok((EVENTS_BESIDE_DD * FRAGMENTS * FRAGMENT_BYTES) as f64 / 1e6 / seconds)
}

/// Megabytes a second of `dd` with as many bytes in blocks of a batch, as it says itself.
fn dd(scratch: &Path, wait: Wait) -> Result<f64, Box<dyn Error>> {
    let path = scratch.join("dd");
    let block = BATCH * FRAGMENTS * FRAGMENT_BYTES;
    let mut command = Command::new("dd");
    command.arg("if=/dev/zero").arg(format!("of={}", path.display()));
    command.arg(format!("bs={block}")).arg(format!("count={}", EVENTS_BESIDE_DD / BATCH)).env("LC_ALL", "C");
    match wait {
        Wait::Never => {}
        Wait::AtTheEnd => drop(command.arg("conv=fdatasync")),
        Wait::EachBatch => drop(command.arg("oflag=dsync")),
    }
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    std::fs::remove_file(path)?;
    // "256000000 bytes (256 MB, 244 MiB) copied, 0.1 s, 2.5 GB/s"
    let seconds = said.split("copied, ").nth(1).and_then(|rest| rest.split(' ').next());
    let seconds: f64 = seconds.ok_or_else(|| format!("dd said: {said}"))?.parse()?;
    Ok((EVENTS_BESIDE_DD * FRAGMENTS * FRAGMENT_BYTES) as f64 / 1e6 / seconds)
}

fn report(name: &str, mut pass: impl FnMut() -> Result<Spent, Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let passes = (0..PASSES).map(|_| pass()).collect::<Result<Vec<_>, _>>()?;
    let megabytes = (EVENTS * FRAGMENTS * FRAGMENT_BYTES) as f64 / 1e6;
    let rate = |time: fn(&Spent) -> f64| {
        let mut seconds: Vec<f64> = passes.iter().map(time).collect();
        seconds.sort_by(f64::total_cmp);
        megabytes / seconds[PASSES / 2]
    };
    let (clock, processor) = (rate(|spent| spent.clock), rate(|spent| spent.processor));
    println!("  {name:32} {clock:6.0} MB/s by the clock {processor:6.0} MB/s by processor time");
    Ok(())
}

/// Seconds of a pass.
struct Spent {
    clock: f64,
    processor: f64,
}

struct Start(Instant, Duration);

impl Start {
    fn now() -> Self {
        Self(Instant::now(), processor_time())
    }

    fn spent(&self) -> Spent {
        Spent { clock: self.0.elapsed().as_secs_f64(), processor: (processor_time() - self.1).as_secs_f64() }
    }
}

/// How long this thread has run, on Linux; zero elsewhere.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

fn events(checksums: bool) -> Vec<Event<Bytes>> {
    let fragment = |event: u64, source: usize| {
        let payload: Bytes = (0..FRAGMENT_BYTES).map(|at| (at + source) as u8 ^ event as u8).collect();
        Fragment {
            event: EventId(event),
            source: SourceId(source as u32),
            time: Timestamp(event),
            checksum: checksums.then(|| crc32c(&payload)),
            processed: false,
            payload,
        }
    };
    let event = |id: u64| Event {
        id: EventId(id),
        time: Timestamp(id),
        trigger_type: TriggerType(0),
        attempt: 1,
        incomplete: false,
        fragments: (0..FRAGMENTS).map(|source| fragment(id, source)).collect(),
        missing: vec![],
    };
    (0..BATCH as u64).map(event).collect()
}

fn plain(scratch: &Path) -> Result<Spent, Box<dyn Error>> {
    let path = scratch.join("plain");
    let block = vec![7; 256 << 10];
    let start = Start::now();
    let mut file = File::create(&path)?;
    let mut left = EVENTS * FRAGMENTS * FRAGMENT_BYTES;
    while left > 0 {
        let bytes = left.min(block.len());
        file.write_all(&block[..bytes])?;
        left -= bytes;
    }
    let spent = start.spent();
    std::fs::remove_file(path)?;
    Ok(spent)
}

fn write(scratch: &Path, events: &[Event<Bytes>]) -> Result<Spent, Box<dyn Error>> {
    let start = Start::now();
    let path = written(scratch, events)?;
    let spent = start.spent();
    std::fs::remove_file(path)?;
    Ok(spent)
}

fn written(scratch: &Path, events: &[Event<Bytes>]) -> Result<PathBuf, Box<dyn Error>> {
    let mut options = WriterOptions::new(RunNumber(1), NodeId::builder(0), SessionId(1), Timestamp(0));
    options.flush = FlushPolicy::WhenFull;
    let mut writer = EventFileWriter::create(scratch, options)?;
    for _ in 0..EVENTS / BATCH {
        for event in events {
            writer.write(event, &Verdict::accept())?;
        }
    }
    writer.finish()?;
    Ok(writer.path().to_owned())
}

fn read(path: &Path, check: bool) -> Result<Spent, Box<dyn Error>> {
    let start = Start::now();
    let mut reader = EventFileReader::open(path)?;
    reader.check_payloads(check);
    let mut bytes = 0;
    for event in reader {
        bytes += event?.event.payload_bytes();
    }
    assert_eq!(bytes, (EVENTS * FRAGMENTS * FRAGMENT_BYTES) as u64);
    Ok(start.spent())
}
