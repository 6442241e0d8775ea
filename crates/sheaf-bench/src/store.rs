//! Rate at which accepted events go to a disk through the writer of a run. For comparison, plain writes of as many
//! bytes with the same flush policy run in turn on the same disk.
//!
//! The plain side writes one buffer with calls of a batch's size that begin where pages do, and looks at nothing: what `dd` does,
//! which is run, too, where there is one, and reads its input besides. A builder unit's payload was in the caches a moment ago, so that
//! the events here are few and are written over and over.

mod dd;

use bytes::Bytes;
use serde::Serialize;
use sheaf_store::event_file::{
    EventFileReader, EventFileWriter, EventOpenError, EventReadError, EventWriteError, FlushPolicy,
    WriterOptions,
};
use sheaf_wire::checksum::crc32c;
use sheaf_wire::{
    ByteCount, Event, EventId, Fragment, Nanos, NodeId, NumberMark, RunNumber, SessionId, SourceId,
    Timestamp, TriggerType, Verdict,
};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The payload of a batch of events, between two ends of a batch: what a builder unit finds ready at a time when it is busy.
const BATCH_BYTES: u64 = 512 << 10;

/// When each of the two sides waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Never; events wait in the writer until its buffer is full: `sync = "none"`.
    None,
    /// Never; a call of the operating system for each batch: `sync = "flush"`.
    Flush,
    /// After the last byte: `sync = "fsync"` with an interval longer than the file takes.
    FsyncAtEnd,
    /// After each batch: `sync = "fsync"` with the interval 0.
    FsyncEachBatch,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Flush, Self::FsyncAtEnd, Self::FsyncEachBatch];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Flush => "flush",
            Self::FsyncAtEnd => "fsync-at-end",
            Self::FsyncEachBatch => "fsync-each-batch",
        }
    }

    const fn flush(self) -> FlushPolicy {
        match self {
            Self::None => FlushPolicy::WhenFull,
            Self::Flush => FlushPolicy::EachBatch,
            Self::FsyncAtEnd => FlushPolicy::SyncEvery(Nanos::MAX),
            Self::FsyncEachBatch => FlushPolicy::SyncEvery(Nanos::ZERO),
        }
    }
}

/// Workload of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Fragments of an event; at least 1.
    pub fragments: u32,
    /// Payload of each, in bytes.
    pub fragment_bytes: u64,
    /// Payload of all events, about, in bytes.
    pub total_bytes: u64,
}

impl Load {
    fn event_bytes(self) -> u64 {
        u64::from(self.fragments.max(1)) * self.fragment_bytes.max(1)
    }

    /// Events of a batch.
    fn batch(self) -> u64 {
        (BATCH_BYTES / self.event_bytes()).clamp(1, 4096)
    }

    fn batches(self) -> u64 {
        (self.total_bytes / (self.batch() * self.event_bytes())).max(1)
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The writer failed.
    #[error(transparent)]
    Write(#[from] EventWriteError),
    /// The written file could not be opened.
    #[error(transparent)]
    Open(#[from] EventOpenError),
    /// The written file could not be read.
    #[error(transparent)]
    Read(#[from] EventReadError),
    /// The plain side failed.
    #[error("cannot write {path}: {error}")]
    Plain {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// Other events came back.
    #[error("{written} payload bytes were written, {read} came back")]
    Different {
        /// Written.
        written: u64,
        /// Read.
        read: u64,
    },
}

/// Figures of one repetition. Each time ends when the last call has returned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stored {
    /// Events a second.
    pub events_per_second: f64,
    /// Bytes of the file a second, by the writer.
    pub bytes_per_second: f64,
    /// As many bytes a second, plainly.
    pub plain_bytes_per_second: f64,
    /// Bytes per second as reported by `dd`; `None` if `dd` is missing or does not report it.
    pub dd_bytes_per_second: Option<f64>,
    /// Bytes of the file a second that were read back, with every checksum compared.
    pub read_bytes_per_second: f64,
}

/// Writes the load into `directory` as a run does, reads it back, and writes as many bytes plainly and with `dd`. Files are removed.
///
/// # Errors
/// The first problem.
pub fn measure(directory: &Path, policy: Policy, load: Load) -> Result<Stored, StoreError> {
    let events = events(load);
    let mut options = WriterOptions::new(RunNumber(1), NodeId::builder(0), SessionId(1), Timestamp(0));
    options.flush = policy.flush();
    // One file, which is read back.
    options.rotate_bytes = ByteCount(u64::MAX);
    options.rotate_events = load.batch() * load.batches() + 1;
    let start = Instant::now();
    let mut writer = EventFileWriter::create(directory, options)?;
    let path = writer.path().to_owned();
    let written = write(&mut writer, &events, load).map(|()| start.elapsed().as_secs_f64());
    let bytes = writer.counts().file_bytes;
    drop(writer);
    let rest = written.and_then(|seconds| {
        let read = read(&path, load)?;
        remove(&path)?;
        let path = directory.join("plain");
        Ok((seconds, read, plain(&path, policy, bytes)?, dd(&path, policy, bytes)?))
    });
    if rest.is_err() {
        let _ = std::fs::remove_file(&path);
    }
    let (store_seconds, read_seconds, plain_seconds, dd) = rest?;
    #[expect(clippy::cast_precision_loss, reason = "a rate is quoted to a few digits")]
    let (bytes, events, dd) = (
        bytes as f64,
        (load.batch() * load.batches()) as f64,
        dd.map(|(bytes, seconds)| bytes as f64 / seconds),
    );
    Ok(Stored {
        events_per_second: events / store_seconds,
        bytes_per_second: bytes / store_seconds,
        plain_bytes_per_second: bytes / plain_seconds,
        dd_bytes_per_second: dd,
        read_bytes_per_second: bytes / read_seconds,
    })
}

fn write(writer: &mut EventFileWriter, events: &[Event<Bytes>], load: Load) -> Result<(), StoreError> {
    let verdict = Verdict::accept();
    for _ in 0..load.batches() {
        for event in events {
            writer.write(event, &verdict)?;
        }
        writer.end_batch(Timestamp(1))?;
    }
    writer.finish()?;
    Ok(())
}

/// Seconds in which the file at `path` is read.
fn read(path: &Path, load: Load) -> Result<f64, StoreError> {
    let start = Instant::now();
    let mut read = 0;
    for event in EventFileReader::open(path)? {
        read += event?.event.payload_bytes();
    }
    let seconds = start.elapsed().as_secs_f64();
    let written = load.batch() * load.batches() * load.event_bytes();
    if read == written { Ok(seconds) } else { Err(StoreError::Different { written, read }) }
}

/// Seconds in which `bytes` are written into a file at `path`, which is removed.
fn plain(path: &Path, policy: Policy, bytes: u64) -> Result<f64, StoreError> {
    let buffer = vec![7_u8; BATCH_BYTES as usize];
    let attempt = || -> io::Result<f64> {
        let start = Instant::now();
        let mut file = File::create(path)?;
        let mut left = bytes;
        while left > 0 {
            let now = left.min(BATCH_BYTES);
            file.write_all(&buffer[..now as usize])?;
            left -= now;
            if policy == Policy::FsyncEachBatch {
                file.sync_data()?;
            }
        }
        if policy == Policy::FsyncAtEnd {
            file.sync_data()?;
        }
        Ok(start.elapsed().as_secs_f64())
    };
    let seconds = attempt().map_err(|error| StoreError::Plain { path: path.to_owned(), error });
    remove(path)?;
    seconds
}

/// As [`plain`], by `dd`.
fn dd(path: &Path, policy: Policy, bytes: u64) -> Result<Option<(u64, f64)>, StoreError> {
    let written =
        dd::run(path, policy, bytes).map_err(|error| StoreError::Plain { path: path.to_owned(), error });
    match std::fs::remove_file(path) {
        // Without a `dd` nothing was written.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::Plain { path: path.to_owned(), error })
        }
        _ => written,
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    std::fs::remove_file(path).map_err(|error| StoreError::Plain { path: path.to_owned(), error })
}

/// The events of a batch. Their checksums are there, as on their way from a source.
fn events(load: Load) -> Vec<Event<Bytes>> {
    let fragment = |event: u64, source: u32| {
        let payload: Bytes = (0..load.fragment_bytes.max(1))
            .map(|at| (at.wrapping_add(u64::from(source)) ^ event).to_le_bytes()[0])
            .collect();
        Fragment {
            event: EventId(event),
            source: SourceId(source),
            time: Timestamp(event),
            checksum: Some(crc32c(&payload)),
            processed: false,
            mark: NumberMark::NONE,
            payload,
        }
    };
    let event = |id: u64| Event {
        id: EventId(id),
        time: Timestamp(id),
        trigger_type: TriggerType(0),
        attempt: 1,
        incomplete: false,
        fragments: (0..load.fragments.max(1)).map(|source| fragment(id, source)).collect(),
        missing: vec![],
    };
    (0..load.batch()).map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_writes_and_reads_as_much_and_leaves_nothing() {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        for policy in Policy::ALL {
            // Few events of each size, in several batches where a batch has many events.
            for (fragments, fragment_bytes, total_bytes) in
                [(4, 100, 1 << 20), (1, 700_000, 1 << 20), (3, 1, 1 << 16)]
            {
                let load = Load { fragments, fragment_bytes, total_bytes };
                let stored = measure(directory.path(), policy, load).expect("the disk has a megabyte");
                let rates = [
                    Some(stored.events_per_second),
                    Some(stored.bytes_per_second),
                    Some(stored.plain_bytes_per_second),
                    Some(stored.read_bytes_per_second),
                    stored.dd_bytes_per_second,
                ];
                assert!(rates.iter().flatten().all(|rate| rate.is_finite() && *rate > 0.0), "{stored:?}");
                assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 0);
            }
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_made_and_a_file_in_its_place_is_an_error() {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let file = directory.path().join("file");
        std::fs::write(&file, "x").expect("it can be written");
        let load = Load { fragments: 1, fragment_bytes: 10, total_bytes: 10 };
        assert!(matches!(
            measure(&file, Policy::None, load),
            Err(StoreError::Write(EventWriteError::Directory { .. }))
        ));
    }
}
