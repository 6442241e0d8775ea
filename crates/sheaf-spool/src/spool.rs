//! A recording: gathering, and a thread with a writer.

use crate::archive::{Archive, Live, segment_files};
use crate::books::SpoolBooks;
use crate::catalog::Catalog;
use crate::disk::{SpoolDirectory, SpoolDisk};
use crate::gathering::{Gathering, SpoolBlock};
use crate::ring::RingLimits;
use crate::segment::{SegmentDamage, SegmentError, lock, read_segment, repair};
use crate::writer::{SegmentOptions, SegmentWriter};
use sheaf_telemetry::log_as;
use sheaf_wire::HitInterval;
use sheaf_wire::hit::{HIT_BYTES, NotHits};
use sheaf_wire::{ByteCount, Nanos, RunNumber, SessionId, SourceId, Timestamp};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

/// Number of blocks whose memory is kept for later ones.
const SPARE_BLOCKS: usize = 8;

/// Fate of hits if the disk is slower than the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The sources wait: those of a recording, which have no deadline.
    Wait,
    /// Hits are dropped and counted: live sources would drop them uncounted.
    Drop,
}

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct SpoolOptions {
    /// Directory of the segments, which is created if it does not exist.
    pub directory: PathBuf,
    /// The run.
    pub run: RunNumber,
    /// Start of the recording, since 1970: later than that of any other in the directory.
    pub start: Timestamp,
    /// A JSON object as text, kept in every segment.
    pub metadata: String,
    /// Sources that are to be recorded, as far as they are known: until they come, their hits are awaited.
    pub sources: Vec<SourceId>,
    /// Maximum size of all segments.
    pub keep: ByteCount,
    /// Size of a segment.
    pub segment: ByteCount,
    /// Number of bytes that stay free on the disk.
    pub keep_free: ByteCount,
    /// Bytes of hits after which a block is written.
    pub block: ByteCount,
    /// Time after which a block is written although it is smaller.
    pub interval: Nanos,
    /// Number of blocks that wait to be written.
    pub queue: usize,
    /// Fate of hits if the queue is full.
    pub when_full: WhenFull,
    /// Whether a closed segment is on the disk before the next one is begun, so that it survives the death of the machine.
    pub sync: bool,
}

impl SpoolOptions {
    /// Bytes of hits in a block. The smallest reading of a window is one block, and each block costs its heads and a call of the
    /// operating system; the decision record has the measurements.
    pub const BLOCK: ByteCount = ByteCount::kib(256);
    /// Time after which hits are written.
    pub const INTERVAL: Nanos = Nanos::from_millis(500);
    /// Number of blocks that wait to be written: 64 MiB.
    pub const QUEUE: usize = 256;
    /// Size of a segment, unless the spool is small.
    pub const SEGMENT: ByteCount = ByteCount::mib(256);
    /// Minimum number of segments in a spool: this part of it is deleted at a time.
    pub const LEAST_SEGMENTS: u64 = 8;

    /// The defaults for a directory and a size.
    #[must_use]
    pub fn new(directory: &Path, run: RunNumber, start: Timestamp, keep: ByteCount) -> Self {
        Self {
            directory: directory.to_owned(),
            run,
            start,
            metadata: "{}".to_owned(),
            sources: Vec::new(),
            keep,
            segment: Self::SEGMENT.min(ByteCount(keep.0 / Self::LEAST_SEGMENTS)),
            keep_free: ByteCount(0),
            block: Self::BLOCK,
            interval: Self::INTERVAL,
            queue: Self::QUEUE,
            when_full: WhenFull::Wait,
            sync: true,
        }
    }
}

/// Reason why a recording cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The directory cannot be used.
    #[error("cannot use the directory {path} for a hit spool: {error}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// Another process has it.
    #[error("another process records into {path}; end it, or choose another directory")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A segment cannot be read.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The thread of the writer cannot be had.
    #[error("cannot start the thread of the spool: {0}")]
    Thread(#[source] io::Error),
}

/// Segments that an earlier recording left, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolRecovery {
    /// Segments without an index, which have one now, with what they lost at their ends.
    pub repaired: Vec<(PathBuf, SegmentDamage)>,
    /// Files with the name of a segment that are none, which stay and count as part of the size.
    pub unreadable: Vec<PathBuf>,
}

/// A recording in progress.
#[derive(Debug)]
pub struct Spool {
    gathering: Gathering,
    options: SpoolOptions,
    /// When the first hits of the present block came.
    since: Option<Timestamp>,
    sender: Option<SyncSender<SpoolBlock>>,
    thread: Option<JoinHandle<()>>,
    /// Memory of blocks that were written: allocating and freeing it on two threads is slow.
    spare: Receiver<Vec<u8>>,
    archive: Archive,
    books: SpoolBooks,
    written: Arc<Mutex<SpoolBooks>>,
    _lock: File,
}

impl Spool {
    /// Begins a recording in a directory: repairs segments of an earlier one that was killed, and starts the thread of the writer.
    ///
    /// # Errors
    /// A [`SpoolError`].
    pub fn open(options: SpoolOptions) -> Result<(Self, SpoolRecovery), SpoolError> {
        let disk = SpoolDirectory::new(&options.directory)
            .map_err(|error| SpoolError::Directory { path: options.directory.clone(), error })?;
        Self::open_on(disk, options)
    }

    /// As [`Self::open`], with another way to write.
    ///
    /// # Errors
    /// A [`SpoolError`].
    pub fn open_on<D: SpoolDisk>(
        disk: D,
        options: SpoolOptions,
    ) -> Result<(Self, SpoolRecovery), SpoolError> {
        let path = || options.directory.clone();
        let locked =
            lock(&options.directory).map_err(|error| SpoolError::Directory { path: path(), error })?;
        let locked = locked.ok_or_else(|| SpoolError::InUse { path: path() })?;
        let (catalog, sizes, recovery) = recover(&options.directory)?;
        let session = SessionId(options.start.0.max(catalog.latest().map_or(0, |latest| latest.0 + 1)));
        let catalog = Arc::new(RwLock::new(catalog));
        let live = Live::new(session, &options.sources);
        let archive = Archive::new(&options.directory, catalog.clone(), Some(live));
        let of_writer = SegmentOptions {
            run: options.run,
            session,
            metadata: options.metadata.clone(),
            limits: RingLimits { keep_bytes: options.keep.0, segment_bytes: options.segment.0 },
            keep_free_bytes: options.keep_free.0,
            sync: options.sync,
        };
        let writer = SegmentWriter::new(disk, of_writer, catalog, sizes);
        let (sender, blocks) = sync_channel(options.queue.max(1));
        let (used, spare) = sync_channel(SPARE_BLOCKS);
        let written = Arc::new(Mutex::new(SpoolBooks::default()));
        let shared = written.clone();
        let thread = std::thread::Builder::new()
            .name("spool".into())
            .spawn(move || run(writer, (&blocks, &used), &shared));
        let spool = Self {
            gathering: Gathering::default(),
            options,
            since: None,
            sender: Some(sender),
            thread: Some(thread.map_err(SpoolError::Thread)?),
            spare,
            archive,
            books: SpoolBooks::default(),
            written,
            _lock: locked,
        };
        Ok((spool, recovery))
    }

    /// Takes the slice of a source: its hits, one after another in order of time. Hits outside of the slice, and slices that came
    /// before, are left out.
    ///
    /// # Errors
    /// If these are no hits.
    pub fn take(
        &mut self,
        source: SourceId,
        slice: HitInterval,
        payload: &[u8],
        now: Timestamp,
    ) -> Result<(), NotHits> {
        self.gathering.take(source, slice, payload, &mut self.books)?;
        self.since.get_or_insert(now);
        if self.gathering.bytes() as u64 >= self.options.block.0 {
            self.write(now);
        } else {
            self.tend(now);
        }
        Ok(())
    }

    /// Writes hits that have waited long enough.
    pub fn tend(&mut self, now: Timestamp) {
        if self.since.is_some_and(|since| now.since(since) >= self.options.interval) {
            self.write(now);
        }
    }

    /// The segments, for reading.
    #[must_use]
    pub const fn archive(&self) -> &Archive {
        &self.archive
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn books(&self) -> SpoolBooks {
        let written = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let done = written.spooled + written.disk_full + written.write_failed;
        SpoolBooks {
            received: self.books.received,
            in_overlap: self.books.in_overlap,
            repeated: self.books.repeated,
            queue_full: self.books.queue_full,
            write_failed: written.write_failed + self.books.write_failed,
            slices: self.books.slices,
            waiting: self.books.waiting.saturating_sub(done),
            ..written
        }
    }

    /// Ends the recording: writes all hits and closes the last segment. The directory stays locked until the spool is dropped, so that
    /// requests can be answered.
    pub fn finish(&mut self, now: Timestamp) -> SpoolBooks {
        self.options.when_full = WhenFull::Wait;
        self.write(now);
        self.end();
        self.archive.end();
        self.books()
    }

    fn write(&mut self, now: Timestamp) {
        self.since = None;
        let gathered = (self.gathering.bytes() / HIT_BYTES) as u64;
        let block = match self.gathering.make_block(now, self.spare.try_recv().unwrap_or_default()) {
            Ok(Some(block)) => block,
            Ok(None) => return,
            Err(error) => {
                log_as!(SPOOL_FAILED; "{gathered} hits are dropped: {error}; make slices shorter");
                self.books.waiting -= gathered;
                self.books.write_failed += gathered;
                return;
            }
        };
        let hits = u64::from(block.header.hits);
        let Some(sender) = &self.sender else { return };
        let dropped = match self.options.when_full {
            WhenFull::Wait => sender.send(block).is_err(),
            WhenFull::Drop => {
                matches!(sender.try_send(block), Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
            }
        };
        if dropped {
            self.books.waiting -= hits;
            self.books.queue_full += hits;
        }
    }

    fn end(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log_as!(THREAD_PANICKED; "the thread of the spool ended early: this is a bug in sheaf");
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.end();
    }
}

fn run<D: SpoolDisk>(
    mut writer: SegmentWriter<D>,
    (blocks, used): (&Receiver<SpoolBlock>, &SyncSender<Vec<u8>>),
    written: &Mutex<SpoolBooks>,
) {
    let report = |books: SpoolBooks| *written.lock().unwrap_or_else(PoisonError::into_inner) = books;
    for block in blocks {
        writer.write(&block);
        report(writer.books());
        // Beyond a few, memory is freed.
        let _ = used.try_send(block.bytes);
    }
    writer.close();
    report(writer.books());
}

/// Catalog, sizes of segments, and defects.
type Recovered = (Catalog, Vec<(u64, u64)>, SpoolRecovery);

/// Reads all segments, and closes those that a killed process left open.
fn recover(directory: &Path) -> Result<Recovered, SpoolError> {
    let (mut catalog, mut sizes, mut recovery) = (Catalog::default(), Vec::new(), SpoolRecovery::default());
    for (path, number) in segment_files(directory)? {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        match read_segment(&path) {
            Ok((content, damage)) if damage.unfinished => {
                match repair(&path, &content) {
                    Ok(bytes) => sizes.push((number, bytes)),
                    Err(error) => {
                        log_as!(SPOOL_INCOMPLETE; "cannot repair {}: {error}", path.display());
                        sizes.push((number, size(&path)));
                    }
                }
                catalog.insert(content);
                recovery.repaired.push((path, damage));
            }
            Ok((content, _)) => {
                sizes.push((number, size(&path)));
                catalog.insert(content);
            }
            Err(error @ SegmentError::Io { .. }) => return Err(error.into()),
            Err(error) => {
                log_as!(SPOOL_INCOMPLETE; "{error}; it is left out");
                sizes.push((number, size(&path)));
                recovery.unreadable.push(path);
            }
        }
    }
    Ok((catalog, sizes, recovery))
}
