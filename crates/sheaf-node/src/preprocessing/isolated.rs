//! A preprocessor in a separate process, so that a crash or a hang affects nothing else.
//!
//! The two sides alternate on a stream: a fragment is sent, and its result returns. If the other side deviates (it
//! exits, is silent for too long, or violates the format), it is killed, the fragment is sent unchanged, and another
//! process is started for the next fragment.

mod error;
#[doc(hidden)]
pub mod fuzz;

pub use error::{IsolatedError, WorkerStreamError};

use crate::restarts::{RestartPolicy, Restarts as Pauses};
use sheaf_filter::{FilterFailure, Preprocessor, Processed, RawFragment};
use sheaf_wire::{EventId, Nanos, SourceId, Timestamp};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Time that the other side has until it is ready, including the loading of its library.
const TIME_TO_START: Duration = Duration::from_secs(30);

/// Another process is started whatever happens: fragments are sent unchanged meanwhile.
const RESTARTS: RestartPolicy = RestartPolicy {
    pause: (Nanos::from_millis(10), Nanos::from_secs(5)),
    works_after: Nanos::from_secs(10),
    in_a_row: None,
};

/// The longest text of the other side that is read.
const TEXT_BYTES: usize = 1_024;

/// No fragment is larger: the configuration's bound.
pub const FRAGMENT_BYTES: usize = 1 << 30;

const REQUEST_BYTES: usize = 28;
const ANSWER_BYTES: usize = 8;

const NEW: u32 = 0;
const KEPT: u32 = 1;
const FAILED: u32 = 2;

/// A process, and the way to it.
pub struct WorkerProcess {
    /// The stream to it.
    pub stream: UnixStream,
    /// Ends it, if it has not ended.
    pub end: Box<dyn FnOnce() + Send>,
}

/// Starts a process that calls [`serve`].
pub type LaunchWorker = Box<dyn FnMut() -> io::Result<WorkerProcess> + Send>;

/// A preprocessor whose work is done by a process of its own.
pub struct Isolated {
    launch: LaunchWorker,
    time_limit: Option<Nanos>,
    peer: Option<(WorkerProcess, Instant)>,
    pauses: Pauses,
    next_at: Option<Instant>,
    restarts: u64,
}

impl Isolated {
    /// Starts a process and waits until it is ready. A process without an answer for `time_limit` counts as hanging.
    ///
    /// # Errors
    /// Reason why it did not start.
    pub fn start(launch: LaunchWorker, time_limit: Option<Nanos>) -> Result<Self, IsolatedError> {
        let mut isolated = Self {
            launch,
            time_limit,
            peer: None,
            pauses: Pauses::new(RESTARTS),
            next_at: None,
            restarts: 0,
        };
        isolated.peer = Some((isolated.meet()?, Instant::now()));
        Ok(isolated)
    }

    fn meet(&mut self) -> Result<WorkerProcess, IsolatedError> {
        let mut peer = (self.launch)().map_err(IsolatedError::Launch)?;
        let limit = self.time_limit.map(Nanos::to_std);
        let ready = wait_until_ready(&mut peer.stream, limit).map_err(IsolatedError::NotReady);
        match ready.and_then(|made| made.map_err(IsolatedError::Refused)) {
            Ok(()) => Ok(peer),
            Err(error) => {
                (peer.end)();
                Err(error)
            }
        }
    }

    /// The process, where there is one or one may be started.
    fn peer(&mut self) -> Result<&mut WorkerProcess, IsolatedError> {
        let running = match self.peer.take() {
            Some(running) => running,
            None if self.next_at.is_some_and(|at| at > Instant::now()) => return Err(IsolatedError::Pausing),
            None => {
                self.restarts += 1;
                (self.meet().inspect_err(|_| self.wait(Nanos::ZERO))?, Instant::now())
            }
        };
        Ok(&mut self.peer.insert(running).0)
    }

    /// Decides when the next process is started, after the end of one.
    fn wait(&mut self, lived: Nanos) {
        let pause = self.pauses.died(lived).unwrap_or(RESTARTS.pause.1);
        self.next_at = Some(Instant::now() + pause.to_std());
    }

    fn end(&mut self) {
        let Some((peer, since)) = self.peer.take() else { return };
        (peer.end)();
        self.wait(since.elapsed().into());
    }
}

impl Preprocessor for Isolated {
    fn process(&mut self, fragment: &RawFragment<'_>, room: &mut [u8]) -> Result<Processed, FilterFailure> {
        let stream = &mut self.peer().map_err(FilterFailure::new)?.stream;
        let asked = write_request(stream, fragment, room.len()).map_err(WorkerStreamError::from);
        asked.and_then(|()| read_answer(stream, room)).unwrap_or_else(|error| {
            self.end();
            Err(FilterFailure::new(IsolatedError::Ended(error)))
        })
    }

    fn restarts(&self) -> u64 {
        self.restarts
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until the process has made its preprocessor, and sets the time limits of the stream.
fn wait_until_ready(
    stream: &mut UnixStream,
    limit: Option<Duration>,
) -> Result<Result<(), FilterFailure>, WorkerStreamError> {
    stream.set_read_timeout(Some(TIME_TO_START))?;
    stream.set_write_timeout(limit)?;
    let made = read_answer(stream, &mut [])?;
    stream.set_read_timeout(limit)?;
    Ok(made.map(drop))
}

fn write_request(stream: &mut impl Write, fragment: &RawFragment<'_>, room: usize) -> io::Result<()> {
    // The configuration has no fragments of 4 GiB.
    let number = |bytes: usize| u32::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge);
    let (length, room) = (number(fragment.payload.len())?, number(room)?);
    let mut request = [0; REQUEST_BYTES];
    request[..8].copy_from_slice(&fragment.event.0.to_le_bytes());
    request[8..16].copy_from_slice(&fragment.time.0.to_le_bytes());
    request[16..20].copy_from_slice(&fragment.source.0.to_le_bytes());
    request[20..24].copy_from_slice(&length.to_le_bytes());
    request[24..].copy_from_slice(&room.to_le_bytes());
    stream.write_all(&request)?;
    stream.write_all(fragment.payload)
}

/// Reads the result for a fragment into `room`.
///
/// # Errors
/// Error of the stream, or that the data are not an answer: then nothing that follows can be trusted.
pub fn read_answer(
    stream: &mut impl Read,
    room: &mut [u8],
) -> Result<Result<Processed, FilterFailure>, WorkerStreamError> {
    let (mut status, mut length) = ([0; 4], [0; 4]);
    stream.read_exact(&mut status)?;
    stream.read_exact(&mut length)?;
    let (status, length) = (u32::from_le_bytes(status), u32::from_le_bytes(length) as usize);
    match status {
        KEPT if length == 0 => Ok(Ok(Processed::Kept)),
        NEW if length <= room.len() => {
            stream.read_exact(&mut room[..length])?;
            Ok(Ok(Processed::Written(length)))
        }
        FAILED if length <= TEXT_BYTES => {
            let mut text = [0; TEXT_BYTES];
            stream.read_exact(&mut text[..length])?;
            Ok(Err(FilterFailure(String::from_utf8_lossy(&text[..length]).into_owned())))
        }
        _ => Err(WorkerStreamError::InvalidAnswer { status, bytes: length }),
    }
}

fn write_answer(stream: &mut impl Write, status: u32, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut head = [0; ANSWER_BYTES];
    head[..4].copy_from_slice(&status.to_le_bytes());
    head[4..].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&head)?;
    stream.write_all(bytes)
}

fn write_failure(stream: &mut impl Write, text: &str) -> io::Result<()> {
    write_answer(stream, FAILED, &text.as_bytes()[..text.floor_char_boundary(TEXT_BYTES)])
}

/// The process's side: makes a preprocessor, and processes fragments until the stream ends. No fragment, and no room
/// for a result, exceeds `largest` bytes.
///
/// # Errors
/// Error of the stream, or that the data are not a fragment.
pub fn serve<S: Read + Write>(
    mut stream: S,
    largest: usize,
    make: impl FnOnce() -> Result<Box<dyn Preprocessor>, FilterFailure>,
) -> Result<(), WorkerStreamError> {
    match make() {
        Ok(preprocessor) => process_all(&mut stream, largest, preprocessor),
        Err(failure) => Ok(write_failure(&mut stream, &failure.0)?),
    }
}

/// A connection in both directions.
trait Duplex: Read + Write {}

impl<S: Read + Write> Duplex for S {}

/// Processes all requests. Compiled once here, instead of for each type of stream.
fn process_all(
    mut stream: &mut dyn Duplex,
    largest: usize,
    mut preprocessor: Box<dyn Preprocessor>,
) -> Result<(), WorkerStreamError> {
    write_answer(&mut stream, NEW, &[])?;
    let (mut payload, mut room) = (Vec::new(), Vec::new());
    while let Some(Request { event, time, source, length, most }) = read_request(&mut stream)? {
        if length.max(most) > largest {
            return Err(WorkerStreamError::FragmentTooLarge { fragment: length, room: most, largest });
        }
        read_payload(&mut stream, length, &mut payload)?;
        room.resize(most, 0);
        let raw = RawFragment { event, source, time, payload: &payload };
        match preprocessor.process(&raw, &mut room) {
            Ok(Processed::Kept) => write_answer(&mut stream, KEPT, &[])?,
            Ok(Processed::Written(bytes)) if bytes <= room.len() => {
                write_answer(&mut stream, NEW, &room[..bytes])?;
            }
            Ok(Processed::Written(bytes)) => {
                let text =
                    format!("the result has {bytes} bytes for a fragment of {length}; at most {most} fit");
                write_failure(&mut stream, &text)?;
            }
            Err(failure) => write_failure(&mut stream, &failure.0)?,
        }
    }
    Ok(())
}

/// Step by which memory for a payload grows: as data arrive, regardless of the announced length.
const STEP_BYTES: usize = 1 << 20;

fn read_payload(stream: &mut impl Read, length: usize, payload: &mut Vec<u8>) -> io::Result<()> {
    payload.clear();
    while payload.len() < length {
        let (had, more) = (payload.len(), (length - payload.len()).min(STEP_BYTES));
        payload.resize(had + more, 0);
        stream.read_exact(&mut payload[had..])?;
    }
    Ok(())
}

/// The head of a request: of which fragment the payload is that follows.
struct Request {
    event: EventId,
    time: Timestamp,
    source: SourceId,
    /// Bytes of payload.
    length: usize,
    /// Bytes that the result may have.
    most: usize,
}

/// Reads the next request; returns `None` if the other side has closed the stream.
fn read_request(stream: &mut impl Read) -> io::Result<Option<Request>> {
    let mut request = [0; REQUEST_BYTES];
    match stream.read_exact(&mut request) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut words = request.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let mut word = || words.next().unwrap_or_default();
    let mut number = || u64::from(word()) | u64::from(word()) << 32;
    let (event, time) = (EventId(number()), Timestamp(number()));
    let (source, length, most) = (SourceId(word()), word() as usize, word() as usize);
    Ok(Some(Request { event, time, source, length, most }))
}

#[cfg(test)]
mod tests;
