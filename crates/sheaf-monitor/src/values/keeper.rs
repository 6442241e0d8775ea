//! The threads that read files, and pass on what programs have sent.
//!
//! The files of a directory are read by one thread, so a file system that hangs holds up its own values alone: they become stale. Nobody waits for
//! these threads: one that hangs ends with its read, or with the process.

use super::board::ValueBoard;
use super::book::RunValue;
use super::declared::{DeclaredValue, ValueFile};
use super::number::{self, MOST_FILE_BYTES};
use super::sent_file;
use sheaf_telemetry::log_as;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Most threads that read files. With more directories, some share a thread.
const READERS: usize = 16;

/// Most threads that exist at the same time, also those that hang in a file that nobody wants any more.
const THREADS: usize = 64;

/// Longest sleep of a thread, after which it sees that it is no longer needed.
const NAP: Duration = Duration::from_millis(100);

/// Interval between two looks for values that programs have sent.
const PASSED_ON: Duration = Duration::from_millis(250);

/// Opens a regular file for reading, and refuses anything else, such as a pipe.
pub type OpenFile = Arc<dyn Fn(&Path) -> io::Result<File> + Send + Sync>;

/// The file by which a controller passes on what programs have sent.
#[derive(Clone, Debug, Default)]
pub enum SentFile {
    /// There is no controller.
    #[default]
    None,
    /// This process is the controller.
    Write(PathBuf),
    /// This process makes a run for a controller.
    Follow(PathBuf),
}

/// Keeps the values of a process.
pub struct ValueKeeper {
    board: Arc<ValueBoard>,
    open: OpenFile,
    /// Number of threads that read files.
    threads: Arc<AtomicUsize>,
    reading: Mutex<Reading>,
    /// In the process of a run that has a controller.
    follower: Option<Arc<Mutex<Follower>>>,
    over: Arc<AtomicBool>,
}

impl std::fmt::Debug for ValueKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueKeeper").field("board", &self.board).finish_non_exhaustive()
    }
}

/// The files that are read, until `over`.
#[derive(Debug, Default)]
struct Reading {
    files: Vec<(String, ValueFile)>,
    over: Arc<AtomicBool>,
}

impl ValueKeeper {
    /// Begins to keep values.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(declared: Vec<DeclaredValue>, open: OpenFile, sent: SentFile) -> io::Result<Self> {
        let mut keeper = Self {
            board: Arc::default(),
            open,
            threads: Arc::default(),
            reading: Mutex::default(),
            follower: None,
            over: Arc::default(),
        };
        let sends = declared.iter().any(|value| value.file.is_none());
        keeper.declare(declared);
        let over = keeper.over.clone();
        let board = keeper.board.clone();
        match sent {
            SentFile::None => {}
            SentFile::Write(path) => {
                // What an earlier controller knew is as old as it is.
                restore(&board, &path);
                let written = board.last_sent();
                begin("values sent", move || write_sent(&board, (&path, written), &over))?;
            }
            SentFile::Follow(path) if sends => {
                let follower = Arc::new(Mutex::new(Follower::new(path)));
                keeper.follower = Some(follower.clone());
                begin("values sent", move || follow(&follower, &board, &over))?;
            }
            SentFile::Follow(_) => {}
        }
        Ok(keeper)
    }

    /// Returns the values.
    #[must_use]
    pub fn board(&self) -> &Arc<ValueBoard> {
        &self.board
    }

    /// Begins the numbers of a run, with what is known at this moment.
    pub fn begin_run(&self) {
        self.look_at_sent();
        self.board.begin_run();
    }

    /// Ends the numbers of a run, and returns them.
    #[must_use]
    pub fn end_run(&self) -> Vec<RunValue> {
        self.look_at_sent();
        self.board.end_run()
    }

    fn look_at_sent(&self) {
        if let Some(follower) = &self.follower {
            follower.lock().unwrap_or_else(PoisonError::into_inner).look(&self.board);
        }
    }

    /// Takes a configuration, from now on.
    pub fn declare(&self, declared: Vec<DeclaredValue>) {
        let files: Vec<_> =
            declared.iter().filter_map(|value| Some((value.name.clone(), value.file.clone()?))).collect();
        self.board.declare(declared);
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if reading.files == files {
            return;
        }
        reading.over.store(true, Ordering::Relaxed);
        *reading = Reading { files, over: Arc::default() };
        for files in by_directory(&reading.files) {
            self.read(files, reading.over.clone());
        }
    }

    /// Has a thread read these files.
    fn read(&self, files: Vec<(String, ValueFile)>, over: Arc<AtomicBool>) {
        let names: Vec<_> = files.iter().map(|(name, _)| name.clone()).collect();
        let fails = |why: &str| {
            names.iter().for_each(|name| self.board.end_reading(name, Some(Err(why.to_owned()))));
        };
        if self.threads.fetch_add(1, Ordering::Relaxed) >= THREADS {
            self.threads.fetch_sub(1, Ordering::Relaxed);
            fails("the files of too many file systems hang: end the process, and begin it again");
            return;
        }
        let (board, open, threads) = (self.board.clone(), self.open.clone(), self.threads.clone());
        let body = move || {
            read_files(&board, &open, &files, &over);
            threads.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = begin("values", body) {
            self.threads.fetch_sub(1, Ordering::Relaxed);
            fails(&format!("no thread can be started: {error}"));
        }
    }
}

impl Drop for ValueKeeper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let reading = self.reading.get_mut().unwrap_or_else(PoisonError::into_inner);
        reading.over.store(true, Ordering::Relaxed);
    }
}

fn begin(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(body).map(drop)
}

/// Divides files into those of one thread each.
fn by_directory(files: &[(String, ValueFile)]) -> Vec<Vec<(String, ValueFile)>> {
    let mut directories: BTreeMap<Option<&Path>, Vec<(String, ValueFile)>> = BTreeMap::new();
    for (name, file) in files {
        directories.entry(file.path.parent()).or_default().push((name.clone(), file.clone()));
    }
    let mut threads: Vec<Vec<_>> = Vec::new();
    for (index, files) in directories.into_values().enumerate() {
        match threads.get_mut(index % READERS) {
            Some(thread) if index >= READERS => thread.extend(files),
            _ => threads.push(files),
        }
    }
    threads
}

/// A file as it was at the last look.
struct Watched<'a> {
    name: &'a str,
    file: &'a ValueFile,
    due: Instant,
    /// State of the file whose number is known.
    known: Option<sent_file::Stamp>,
}

/// Reads files until `over`.
fn read_files(board: &ValueBoard, open: &OpenFile, files: &[(String, ValueFile)], over: &AtomicBool) {
    let began = Instant::now();
    let watch = |(name, file)| Watched { name, file, due: began, known: None };
    let mut watched: Vec<_> = files.iter().map(|(name, file)| (&**name, file)).map(watch).collect();
    while !over.load(Ordering::Relaxed) {
        let mut next = Instant::now() + NAP;
        for one in &mut watched {
            if one.due <= Instant::now() {
                board.begin_reading(one.name);
                let read = look(open, one);
                // A read that took long may be of a file that is no longer wanted.
                if over.load(Ordering::Relaxed) {
                    return;
                }
                board.end_reading(one.name, read);
                // Looks that were missed are left out.
                one.due = Instant::now().max(one.due + one.file.period);
            }
            next = next.min(one.due);
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Reads a file. Returns its number with the age of that, or why there is none; `None` if it is the one that is known.
fn look(open: &OpenFile, watched: &mut Watched<'_>) -> Option<Result<(f64, u64), String>> {
    let is_live = watched.file.is_live;
    match read_number(open, &watched.file.path, watched.known.filter(|_| !is_live)) {
        Ok(None) => None,
        Ok(Some((stamp, written, value))) => {
            // A change that was seen is as old as the pause between two looks at most, whatever the clock of its host says.
            let is_first = watched.known.is_none();
            watched.known = Some(stamp);
            let age = SystemTime::now().duration_since(written).unwrap_or_default();
            let age = if is_live || !is_first { Duration::ZERO } else { age };
            Some(Ok((value, u64::try_from(age.as_millis()).unwrap_or(u64::MAX))))
        }
        Err(problem) => Some(Err(problem)),
    }
}

type Read = (sent_file::Stamp, SystemTime, f64);

fn read_number(
    open: &OpenFile,
    path: &Path,
    known: Option<sent_file::Stamp>,
) -> Result<Option<Read>, String> {
    let cannot = |error: io::Error| format!("the file cannot be read: {error}");
    let mut file = open(path).map_err(cannot)?;
    let state = |file: &File| {
        let metadata = file.metadata()?;
        let stamp = (metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec());
        Ok((stamp, metadata.modified()?))
    };
    let (before, written) = state(&file).map_err(cannot)?;
    if known == Some(before) {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.by_ref().take(MOST_FILE_BYTES + 1).read_to_end(&mut content).map_err(cannot)?;
    let value = number::parse(&content)?;
    Ok(Some((before, written, value)))
}

fn restore(board: &ValueBoard, path: &Path) {
    match sent_file::read(path, None) {
        Ok(Some((_, values))) => {
            board.follow(0, &values);
        }
        Ok(None) => {}
        Err(error) => {
            log_as!(VALUES_NOT_PASSED_ON; "cannot read {}: {error}; values are unknown until they are sent again", path.display());
        }
    }
}

/// Writes down what programs send, after the reading `written`.
fn write_sent(board: &ValueBoard, (path, mut written): (&Path, u64), over: &AtomicBool) {
    let mut fails = false;
    loop {
        let is_last = over.load(Ordering::Relaxed);
        if board.last_sent() != written {
            let (number, values) = board.sent();
            match sent_file::write(path, values) {
                Ok(()) => (written, fails) = (number, false),
                Err(error) => {
                    if !fails {
                        log_as!(VALUES_NOT_PASSED_ON; "cannot write {}: {error}; runs do not get the values that are sent", path.display());
                    }
                    fails = true;
                }
            }
        }
        if is_last {
            return;
        }
        std::thread::sleep(PASSED_ON);
    }
}

/// Takes what the controller has written down.
#[derive(Debug)]
struct Follower {
    path: PathBuf,
    /// Number of the last reading that was taken.
    seen: u64,
    /// The file that was read.
    known: Option<sent_file::Stamp>,
    fails: bool,
}

impl Follower {
    fn new(path: PathBuf) -> Self {
        Self { path, seen: 0, known: None, fails: false }
    }

    fn look(&mut self, board: &ValueBoard) {
        match sent_file::read(&self.path, self.known) {
            Ok(Some((stamp, values))) => {
                self.seen = board.follow(self.seen, &values);
                (self.known, self.fails) = (Some(stamp), false);
            }
            Ok(None) => {}
            Err(error) => {
                if !self.fails {
                    log_as!(VALUES_NOT_PASSED_ON; "cannot read {}: {error}; the run does not get the values that are sent", self.path.display());
                }
                self.fails = true;
            }
        }
    }
}

fn follow(follower: &Mutex<Follower>, board: &ValueBoard, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        follower.lock().unwrap_or_else(PoisonError::into_inner).look(board);
        std::thread::sleep(PASSED_ON);
    }
}

#[cfg(test)]
#[path = "keeper/tests.rs"]
mod tests;
